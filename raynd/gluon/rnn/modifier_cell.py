"""Cells that change what another cell does, and dropout."""
from __future__ import annotations

import weakref
from contextlib import contextmanager
from numbers import Number

from ... import numpy as np, numpy_extension as npx
from ...dispatch import Proxy, scope
from ...errors import TraceError
from ..block import Block
from .recurrent import MODIFIED, HybridRecurrentCell, as_list, formatted, masked, merged, states_for


class DropoutCell(HybridRecurrentCell):
    """Dropout of the input, a cell without states. ``axes``: axes along which the mask is the same."""

    def __init__(self, rate, axes=(), prefix=None, params=None):
        super().__init__(prefix, params)
        assert isinstance(rate, Number), "rate must be a number"
        self._rate, self._axes = rate, axes

    def state_info(self, batch_size=0):
        return []

    def _alias(self):
        return "dropout"

    def forward(self, inputs, states):
        return npx.dropout(inputs, p=self._rate, axes=self._axes) if self._rate > 0 else inputs, states

    def _unroll(self, length, inputs, begin_state, layout, merge_outputs, valid_length):
        inputs = formatted(inputs, layout, merge_outputs)
        if not isinstance(inputs, Proxy):
            return super()._unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        outputs, states = self.forward(inputs, begin_state or [])
        return outputs if valid_length is None else masked(outputs, layout, valid_length), states

    def infer_shape(self, i, x, is_bidirect):
        """There is nothing to infer."""

    def __repr__(self):
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"


class ModifierCell(HybridRecurrentCell):
    """Base of cells that modify ``base_cell``, which must then not be called by itself any more. The parameters and the
    states are the base cell's."""

    def __init__(self, base_cell):
        assert not base_cell._modified, (
            f"Cell {base_cell.name} is already modified. One cell cannot be modified twice")
        base_cell._modified = True
        super().__init__()
        self.base_cell = base_cell

    @property
    def params(self):
        """The base cell's parameters."""
        return self.base_cell.params

    @property
    def can_step(self):
        return self.base_cell.can_step

    def state_info(self, batch_size=0):
        return self.base_cell.state_info(batch_size)

    def begin_state(self, func=np.zeros, **kwargs):
        """The base cell's states before the first time step; see :meth:`RecurrentCell.begin_state`."""
        assert not self._modified, MODIFIED
        with self._base_unmodified():
            return self.base_cell.begin_state(func=func, **kwargs)

    @contextmanager
    def _base_unmodified(self):
        self.base_cell._modified = False
        try:
            yield
        finally:
            self.base_cell._modified = True

    def forward(self, inputs, states):
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def _output_shape(self, input_shape):
        return self.base_cell._output_shape(input_shape)

    def infer_shape(self, i, x, is_bidirect):
        self.base_cell.infer_shape(i, x, is_bidirect)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_cell})"


class ResidualCell(ModifierCell):
    """The base cell's output plus its input, Wu et al. 2016 (arXiv:1609.08144)."""

    def forward(self, inputs, states):
        output, states = self.base_cell(inputs, states)
        return output + inputs, states

    def _unroll(self, length, inputs, begin_state, layout, merge_outputs, valid_length):
        states = states_for(self, begin_state, inputs, layout)
        outputs, states = self.base_cell.unroll(length, inputs, begin_state=states, layout=layout,
                                                merge_outputs=merge_outputs, valid_length=valid_length)
        if valid_length is not None:
            inputs = masked(inputs, layout, valid_length)
        inputs = formatted(inputs, layout, isinstance(outputs, Proxy))
        if isinstance(outputs, Proxy):
            return outputs + inputs, states
        return [y + x for y, x in zip(outputs, inputs)], states


class _Keeping(ModifierCell):
    """Base of modifiers that keep arrays from one time step to the next, until ``reset``.

    A program that is recorded once and run many times cannot keep anything from one call to the next. So a single step
    of such a cell is never a program of its own, and in a block that is being recorded the cell must have been reset
    in that very recording, as ``unroll`` does; if it was not, the block stays eager.
    """
    _kept: tuple = ()                    # names of the attributes that hold the arrays

    def reset(self):
        super().reset()
        trace = scope().trace
        self.__dict__["_reset_in"] = None if trace is None else weakref.ref(trace)
        for name in self._kept:
            self.__dict__[name] = None

    def _check_kept(self):
        current = scope().trace
        if current is None:
            if self._reset_in is not None:
                self.reset()                 # what a recording left behind has no values
        elif self._reset_in is None or self._reset_in() is not current:
            raise TraceError(f"{type(self).__name__} keeps arrays from one time step to the next; call reset() at the "
                             "start of forward, or unroll()")

    def __call__(self, inputs, states):
        self._check_kept()
        return Block.__call__(self, inputs, as_list(states))

    def __getstate__(self):
        state = self.__dict__.copy()
        if state.pop("_reset_in") is not None:
            state.update(dict.fromkeys(self._kept))
        state["_reset_in"] = None
        return state


class ZoneoutCell(_Keeping):
    """Zoneout, Krueger et al. 2016 (arXiv:1606.01305): in training each element of the output keeps, with probability
    ``zoneout_outputs``, its value of the time step before (0 at the first), and so for the states with
    ``zoneout_states``."""
    _kept = ("_prev_output",)

    def __init__(self, base_cell, zoneout_outputs=0., zoneout_states=0.):
        assert base_cell.can_step, ("BidirectionalCell doesn't support zoneout since it doesn't support step. Please "
                                    "add ZoneoutCell to the cells underneath instead.")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states

    def _alias(self):
        return "zoneout"

    def forward(self, inputs, states):
        output, new_states = self.base_cell(inputs, states)
        if self.zoneout_outputs:
            before = self._prev_output if self._prev_output is not None else np.zeros_like(output)
            output = _mixed(self.zoneout_outputs, output, before.as_in_context(output.device))
        if self.zoneout_states:
            new_states = [_mixed(self.zoneout_states, new, old.as_in_context(new.device))
                          for new, old in zip(new_states, states)]
        self.__dict__["_prev_output"] = output
        return output, new_states

    def __repr__(self):
        return (f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, "
                f"{self.base_cell})")


def _mask(p, like):
    """In training an array of the shape of ``like`` with zeros in a part ``p`` of it and 1 / (1 - p) elsewhere; else
    ones."""
    return npx.dropout(np.ones_like(like), p=p)


def _mixed(p, new, old):
    return np.where(_mask(p, new), new, old)


class VariationalDropoutCell(_Keeping):
    """Dropout with the same mask at all time steps, Gal and Ghahramani 2016 (arXiv:1512.05287).

    ``drop_inputs``, ``drop_states`` and ``drop_outputs`` are the rates for inputs, first state and outputs, each with a
    mask of its own. Masks are drawn at the first time step and kept until ``reset``; ``unroll`` resets.
    """
    _kept = ("drop_inputs_mask", "drop_states_mask", "drop_outputs_mask")

    def __init__(self, base_cell, drop_inputs=0., drop_states=0., drop_outputs=0.):
        assert not drop_states or base_cell.can_step, (
            "BidirectionalCell doesn't support variational state dropout. Please add VariationalDropoutCell to the "
            "cells underneath instead.")
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs

    def _alias(self):
        return "vardrop"

    def _dropped(self, which, x):
        """``x`` times the mask for 'inputs', 'states' or 'outputs', drawn if there is none."""
        rate, name = getattr(self, f"drop_{which}"), f"drop_{which}_mask"
        if not rate:
            return x
        if getattr(self, name) is None:
            self.__dict__[name] = _mask(rate, x)
        return x * getattr(self, name).as_in_context(x.device)

    def forward(self, inputs, states):
        if self.drop_states:                 # of h, which is the first state of every cell
            states = [self._dropped("states", states[0].as_in_context(inputs.device)), *states[1:]]
        output, states = self.base_cell(self._dropped("inputs", inputs), states)
        return self._dropped("outputs", output), states

    def _unroll(self, length, inputs, begin_state, layout, merge_outputs, valid_length):
        if self.drop_states:                 # step by step; else whole sequences are dropped at once
            return super()._unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        states = states_for(self, begin_state, inputs, layout)
        axes = (layout.find("T"),)
        inputs = merged(inputs, layout)
        if self.drop_inputs:
            inputs = npx.dropout(inputs, p=self.drop_inputs, axes=axes)
        outputs, states = self.base_cell.unroll(length, inputs, begin_state=states, layout=layout, merge_outputs=True,
                                                valid_length=valid_length)
        if self.drop_outputs:
            outputs = npx.dropout(outputs, p=self.drop_outputs, axes=axes)
        return formatted(outputs, layout, merge_outputs), states

    def __repr__(self):
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"
