"""An optimizer with the states of its parameters on one device."""
from __future__ import annotations

import pickle

from .. import autograd
from ..dispatch import Proxy
from .optimizer import Rule


class Updater:
    """``updater(index, grad, weight)`` (one of each, or lists) makes states as needed and updates the weights."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.states, self.states_synced = {}, {}
        self.aggregate_updates = optimizer.aggregate_num > 1

    def __call__(self, index, grad, weight):
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        if not index:
            return
        index = [i.decode() if isinstance(i, bytes) else i for i in index]
        optimizer = self.optimizer
        device = weight[0].device
        optimizer._set_current_device((device.device_type, device.device_id))
        with autograd.pause():
            for i, w in zip(index, weight):
                if i not in self.states:
                    self.states[i] = optimizer.create_state_multi_precision(i, w)
                    self.states_synced[i] = True
                elif not self.states_synced.get(i, False):
                    self.states[i] = self.sync_state_context(self.states[i], w.device)
                    self.states_synced[i] = True
        states = [self.states[i] for i in index]
        size = len(index) if isinstance(optimizer, Rule) else optimizer.aggregate_num
        groups = {}
        for item in zip(index, weight, grad, states):
            groups.setdefault(item[1].dtype if size != len(index) else None, []).append(item)
        for items in groups.values():
            at = 0
            while at < len(items):
                part = items[at:at + int(min(size, len(items)))]
                at += len(part)
                optimizer.update_multi_precision(*[list(column) for column in zip(*part)])

    def sync_state_context(self, state, context):
        """``state`` with its arrays on device ``context``."""
        if isinstance(state, Proxy):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(s, context) for s in state)
        return state

    def set_states(self, states):
        """Take states, and the optimizer if it is with them, from the bytes that :meth:`get_states` gave."""
        loaded = pickle.loads(states)
        if isinstance(loaded, tuple) and len(loaded) == 2:
            self.states, self.optimizer = loaded
        else:
            self.states = loaded
        self.states_synced = dict.fromkeys(self.states, False)

    def get_states(self, dump_optimizer=False) -> bytes:
        """The states, with ``dump_optimizer`` the optimizer too, as bytes."""
        return pickle.dumps((self.states, self.optimizer) if dump_optimizer else self.states)


def get_updater(optimizer) -> Updater:
    """An :class:`Updater` of ``optimizer``."""
    return Updater(optimizer)
