"""Training steps: gradients summed over devices, parameters updated on each (``mx.gluon.Trainer``).

There is one path. Gradients are packed into buckets, summed by all-reduce, and every device updates its own copy by one
command. All devices start from equal copies, add the same parts in the same order and apply the same update, so the
copies stay equal to the last bit. ``update_on_kvstore`` keeps MXNet's meaning for the caller (whether the gradients
themselves are summed, and whether ``allreduce_grads`` and ``update`` may be called apart), not a second path.
"""
from __future__ import annotations

import os

from .. import autograd, kvstore as kv, optimizer as opt
from ..engine import engine
from ..errors import ArgumentError, MXNetError, ShapeError
from ..kvstore.collective import all_reduce
from .parameter import Parameter, zero


class Trainer:
    """Updates ``params`` (a dictionary, such as ``collect_params()`` gives, or a list) by an optimizer.

    ``optimizer``: an Optimizer, or a name with ``optimizer_params``. ``kvstore``: None, 'local', 'device' or a store;
    with one device none is used. ``update_on_kvstore``: None or True: a step leaves the gradients as they are; False:
    ``allreduce_grads`` and ``update`` may be called in place of ``step``. ``compression_params`` raises.
    """

    def __init__(self, params, optimizer, optimizer_params=None, kvstore="device", compression_params=None,
                 update_on_kvstore=None):
        if isinstance(params, dict):
            params = [params[name] for name in sorted(params)]
        if not isinstance(params, (list, tuple)):
            raise ShapeError(f"First argument must be a list or dict of Parameters, got {type(params)}.")
        self._params, self._param2idx = [], {}
        for parameter in params:
            if not isinstance(parameter, Parameter):
                raise ShapeError(f"First argument must be a list or dict of Parameters, got list of {type(parameter)}.")
            if parameter._uuid not in self._param2idx:           # a shared one appears once
                self._param2idx[parameter._uuid] = len(self._params)
                self._params.append(parameter)
                parameter._set_trainer(self)
        if compression_params and compression_params.get("type", "none") != "none":
            raise MXNetError("gradient compression is not supported: leave compression_params out")
        self._devices = self._check_devices()
        self._init_optimizer(optimizer, optimizer_params or {})
        self._scale = self._optimizer.rescale_grad
        if update_on_kvstore and self._optimizer.aggregate_num > 1:
            raise ShapeError("Cannot set update_on_kvstore=True when optimizer.aggregate_num > 1.")
        if update_on_kvstore is None and self._optimizer.aggregate_num > 1:
            update_on_kvstore = False
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._params_to_init = []
        self._reset_kvstore()

    # -- setting up --------------------------------------------------------------------------------------------

    def _check_devices(self):
        devices = None
        for parameter in self._params:
            own = parameter.list_device()
            assert devices is None or devices == own, (
                f"All Parameters must be initialized on the same set of devices, but Parameter {parameter._full_name} "
                f"is initialized on {own} while previous Parameters are initialized on {devices}.")
            devices = own
        return devices or []

    _check_contexts = _check_devices

    @property
    def _contexts(self):
        return self._devices

    def _init_optimizer(self, optimizer, optimizer_params):
        params = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            assert not optimizer_params, ("optimizer_params must be None if optimizer is an instance of Optimizer "
                                          "instead of str")
            self._optimizer = optimizer
            optimizer.param_dict = params
        else:
            self._optimizer = opt.create(optimizer, param_dict=params, **optimizer_params)
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._devices]

    def _reset_kvstore(self):
        self._kv_initialized, self._kvstore, self._update_on_kvstore, self._distributed = False, None, None, None
        self._params_to_init = list(self._params)

    def _parameter_was_set(self, parameter):
        """A parameter got new values from outside: a store that holds values must be made anew."""
        if self._kv_initialized and self._update_on_kvstore and not any(p is parameter for p in self._params_to_init):
            self._reset_kvstore()

    def _init_kvstore(self):
        """Choose the store and where updates happen."""
        store, update = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        self._devices = self._check_devices()                    # parameters may have been moved since
        while len(self._updaters) < len(self._devices):
            self._updaters.append(self._new_updater())
        for parameter in self._params:
            parameter._check_and_get(parameter._data, list)      # raises if not initialized
        if isinstance(store, kv.KVStoreBase):
            capable = store.is_capable("optimizer")
        elif store is None or isinstance(store, str):
            capable = True
            store = kv.create(store) if store is not None and (len(self._devices) > 1 or "dist" in store) else None
        else:
            raise ArgumentError(f"kvstore must be None, a name or a KVStore, not {store!r}")
        if update and not capable:
            raise ShapeError(f"Please set update_on_kvstore=False when training with {type(store)}")
        if store is not None:
            if update is None:
                update = capable and os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1") != "0"
            self._update_on_kvstore = bool(update)
            self._distributed = "dist" in store.type
            if update and isinstance(store, kv.KVStore):
                store._updater = self._updaters[0]               # the updates themselves run on the devices
            elif update:
                store.set_optimizer(self._optimizer)
        self._kvstore = store
        self._kv_initialized = True

    def _new_updater(self):
        updater = opt.get_updater(self._optimizer)
        first = self._updaters[0] if self._updaters else None
        if first is not None and first.states:
            updater.states = dict(first.states)
            updater.states_synced = dict.fromkeys(first.states, False)
        return updater

    def _init_params(self):
        """Give the store the parameters' values, if it is one of the user's own."""
        if self._kvstore is not None and not isinstance(self._kvstore, kv.KVStore):
            for parameter in self._params_to_init:
                arrays = parameter.list_data()
                self._kvstore.broadcast(self._param2idx[parameter._uuid], arrays[0], arrays)
        self._params_to_init = []

    def _prepare(self):
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    # -- the optimizer -----------------------------------------------------------------------------------------

    @property
    def learning_rate(self):
        """The present learning rate."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self):
        """The Optimizer."""
        return self._optimizer

    def set_learning_rate(self, lr):
        """Change the learning rate; with a scheduler it raises UserWarning."""
        self._optimizer.set_learning_rate(lr)

    # -- the step ----------------------------------------------------------------------------------------------

    def step(self, batch_size, ignore_stale_grad=False):
        """Sum the gradients over devices, divide them by ``batch_size`` (the number of samples on all devices together)
        and update. To be called after ``backward``, outside of ``record``.

        A gradient that no backward has written since the last step raises UserWarning, naming all of them, before
        anything changes; with ``ignore_stale_grad`` such parameters are left alone. An error of an earlier step that
        nobody has seen is raised here.
        """
        engine.raise_unseen()
        self._prepare()
        self._optimizer.rescale_grad = self._scale / batch_size
        chosen = self._chosen(ignore_stale_grad)
        if self._update_on_kvstore and not isinstance(self._kvstore, kv.KVStore):
            for i, parameter in chosen:
                self._kvstore.pushpull(i, parameter.list_grad(), out=parameter.list_data(), priority=-i)
                self._used(parameter)
            return
        grads = self._reduced(chosen, in_place=not self._update_on_kvstore)
        self._update(chosen, grads)

    def allreduce_grads(self):
        """Sum the gradients over devices, in place; then, for example after clipping them, call :meth:`update`."""
        self._prepare()
        assert not self._update_on_kvstore, (
            "allreduce_grads() when parameters are updated on kvstore is not supported. Try setting "
            "`update_on_kvstore` to False when creating trainer.")
        self._reduced([(i, p) for i, p in enumerate(self._params) if p.grad_req != "null"], in_place=True)

    def update(self, batch_size, ignore_stale_grad=False):
        """Update by the gradients as they are on each device, divided by ``batch_size``."""
        engine.raise_unseen()
        self._prepare()
        assert not self._update_on_kvstore, (
            "update() when parameters are updated on kvstore is not supported. Try setting `update_on_kvstore` to "
            "False when creating trainer.")
        self._optimizer.rescale_grad = self._scale / batch_size
        chosen = self._chosen(ignore_stale_grad)
        self._update(chosen, [p.list_grad() for _, p in chosen])

    def _chosen(self, ignore_stale_grad):
        """The (index, parameter) pairs to update; raises for stale gradients unless they are to be ignored."""
        chosen, stale = [], []
        for i, parameter in enumerate(self._params):
            if parameter.grad_req == "null":
                continue
            arrays = parameter._check_and_get(parameter._data, list)
            old = [x for x in arrays if not x._entry.fresh]
            if not old:
                chosen.append((i, parameter))
            elif not ignore_stale_grad:
                stale.append(f"`{parameter._full_name}` on " + ", ".join(str(x.device) for x in old))
            elif len(old) < len(arrays):         # some device took part, so all copies must move alike
                if parameter.grad_req == "write":
                    for x, grad in zip(arrays, parameter.list_grad()):
                        if not x._entry.fresh:
                            zero(grad)
                chosen.append((i, parameter))
        if stale:
            raise UserWarning(
                f"Gradient of Parameter {'; '.join(stale)} has not been updated by backward since last `step`. This "
                "could mean a bug in your model that made it only use a subset of the Parameters (Blocks) for this "
                "iteration. If you are intentionally only using a subset, call step with ignore_stale_grad=True to "
                "suppress this warning and skip updating of Parameters with stale gradient")
        return chosen

    def _reduced(self, chosen, in_place):
        """The gradients summed over devices: for each parameter a list over devices."""
        grads = [p.list_grad() for _, p in chosen]
        if self._kvstore is None or not chosen:
            return grads
        with autograd.pause():
            if isinstance(self._kvstore, kv.KVStore):
                # backward makes the last parameters' gradients first
                return all_reduce(grads[::-1], in_place=in_place or len(self._devices) == 1)[::-1]
            for (i, _), arrays in zip(chosen, grads):
                self._kvstore.pushpull(i, arrays, priority=-i)
        return grads

    @staticmethod
    def _used(parameter):
        for x in parameter._data:
            x._entry.fresh = False

    def _update(self, chosen, grads):
        scaler = getattr(self, "_amp_loss_scaler", None)
        if scaler is not None and scaler.has_overflow(self._params):
            return
        for _, parameter in chosen:
            self._used(parameter)
        indices = [i for i, _ in chosen]
        for position, updater in enumerate(self._updaters[:len(self._devices)]):
            updater(indices, [g[position] for g in grads], [p._data[position] for _, p in chosen])

    # -- files -------------------------------------------------------------------------------------------------

    def save_states(self, fname):
        """Save the optimizer and its states (momentum ...) to a file."""
        self._prepare()
        if self._update_on_kvstore and not isinstance(self._kvstore, kv.KVStore):
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
            return
        with open(fname, "wb") as file:
            file.write(self._updaters[0].get_states(dump_optimizer=True))

    def load_states(self, fname):
        """Load what :meth:`save_states` saved, for all devices. The file is trusted: it is a pickle."""
        self._prepare()
        if self._update_on_kvstore and not isinstance(self._kvstore, kv.KVStore):
            self._kvstore.load_optimizer_states(fname)
            return
        with open(fname, "rb") as file:
            states = file.read()
        for updater in self._updaters:
            updater.set_states(states)
            updater.optimizer = self._updaters[0].optimizer
        self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))
