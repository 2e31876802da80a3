"""The store of this package: values on devices, sums by all-reduce."""
from __future__ import annotations

import pickle

from .. import autograd
from ..dispatch import F, Proxy
from ..errors import ArgumentError, MXNetError, ShapeError
from .base import KVStoreBase, OneProcess, as_list, spread, summed
from .collective import all_reduce

_LOCAL = ("local", "device", "nccl", "local_allreduce_cpu", "local_allreduce_device", "local_update_cpu")


def _pairs(key, value):
    """[(key, list of arrays)] from one key with an array or a list, or a list of keys with one entry each."""
    if isinstance(key, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(key):
            raise ShapeError(f"{len(key)} keys need as many values")
        return [(k, as_list(v)) for k, v in zip(key, value)]
    return [(key, as_list(value))]


def _same_kind(known, keys):
    for key in keys:
        if not isinstance(key, (int, str)):
            raise ArgumentError(f"a key must be an int or a str, not {key!r}")
        if known and type(next(iter(known))) is not type(key):
            raise MXNetError("keys of one store must be all ints or all strings")


@KVStoreBase.register
class KVStore(OneProcess):
    """Arrays by key. ``push`` sums over devices into the stored value (or gives the sum to the updater); ``pull`` reads
    it. 'local', 'device' and 'nccl' all mean an all-reduce between the devices of this run, over however many nodes."""
    has_optimizer = True

    def __init__(self, name="local"):
        self._type = name
        self._values, self._updater_function, self._updater = {}, None, None

    # -- values ------------------------------------------------------------------------------------------------

    def init(self, key, value):
        """Store a first value for each key; a key is initialised once."""
        with autograd.pause():
            pairs = _pairs(key, value)
            _same_kind(self._values, [k for k, _ in pairs])
            for k, values in pairs:
                if k in self._values:
                    raise MXNetError(f"key {k!r} of the store is initialised already")
                self._values[k] = F.copy(values[0].detach())

    def _stored(self, key):
        try:
            return self._values[key]
        except KeyError:
            raise MXNetError(f"key {key!r} of the store has not been initialised") from None

    def broadcast(self, key, value, out, priority=0):
        """Store ``value`` and write it to every array of ``out``."""
        pairs, targets = _pairs(key, value), _pairs(key, out)
        with autograd.pause():
            _same_kind(self._values, [k for k, _ in pairs])
            for (k, values), (_, arrays) in zip(pairs, targets):
                self._values[k] = F.copy(values[0].detach())
                spread(self._values[k], arrays)

    def push(self, key, value, priority=0):
        """Sum the arrays of each key over devices and store the sum, or give it to the updater."""
        with autograd.pause():
            for k, values in _pairs(key, value):
                self._take(k, summed(values))

    def _take(self, key, total):
        stored = self._stored(key)
        if self._updater_function is None:
            if total._spec != stored._spec:
                raise ShapeError(f"key {key!r} holds {stored._spec!r}, not {total._spec!r}")
            spread(total, [stored])
        else:
            if total.device != stored.device:
                total = autograd.copy_to(total, stored.device)
            self._updater_function(key, total, stored)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Write the stored values to ``out``."""
        if out is None:
            raise ArgumentError("pull needs out=")
        with autograd.pause():
            for k, arrays in _pairs(key, out):
                spread(self._stored(k), arrays)

    def pushpull(self, key, value, out=None, priority=0):
        """Sum over devices and write the sum (with an updater: the updated value) to ``out``, by default in place."""
        pairs = _pairs(key, value)
        targets = [None] * len(pairs) if out is None else [arrays for _, arrays in _pairs(key, out)]
        with autograd.pause():
            if self._updater_function is None and all(_distinct(v) for _, v in pairs):
                results = all_reduce([v for _, v in pairs], in_place=out is None)
                for (k, _), result, arrays in zip(pairs, results, targets):
                    if k in self._values:
                        spread(result[0], [self._values[k]])
                    if arrays is not None:
                        for target in arrays:
                            near = next((r for r in result if r.device == target.device), result[0])
                            spread(near, [target])
                return
            for (k, values), arrays in zip(pairs, targets):
                total = summed(values)
                if k in self._values:
                    self._take(k, total)
                    total = self._values[k] if self._updater_function is not None else total
                spread(total, values if arrays is None else arrays)

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Rows of sparse values. Stores hold dense arrays, so this raises."""
        raise MXNetError("row_sparse_pull is not supported: stores hold dense arrays; use pull")

    # -- optimizer ---------------------------------------------------------------------------------------------

    def set_updater(self, updater):
        """Call ``updater(key, sum, stored value)`` on every push."""
        self._updater_function = updater

    _set_updater = set_updater

    def set_optimizer(self, optimizer):
        """Update stored values by ``optimizer`` on every push."""
        from ..optimizer import get_updater
        self._updater = get_updater(optimizer)
        self.set_updater(self._updater)

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Save the optimizer's states to a file."""
        if self._updater is None:
            raise MXNetError("Cannot save states: the store has no optimizer")
        with open(fname, "wb") as file:
            file.write(self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname):
        """Load the optimizer's states from a file."""
        if self._updater is None:
            raise MXNetError("Cannot load states: the store has no optimizer")
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())

    def set_gradient_compression(self, compression_params):
        """Gradient compression is not supported, so this raises unless the type is 'none'."""
        if compression_params and compression_params.get("type", "none") != "none":
            raise MXNetError("gradient compression is not supported: leave compression_params out")

    # -- the process -------------------------------------------------------------------------------------------

    @property
    def type(self):
        """The name it was made with."""
        return self._type

    def barrier(self):
        """Wait for the other workers: there are none."""

    _barrier = barrier

    def __reduce__(self):
        raise pickle.PicklingError("a key-value store belongs to its process and cannot be pickled")


def _distinct(arrays):
    """Whether arrays of one spec are on different devices, so that an all-reduce applies."""
    return (all(isinstance(x, Proxy) and x._spec is arrays[0]._spec for x in arrays)
            and len({x.device for x in arrays}) == len(arrays))


def create(name="local"):
    """A store by name: 'local', 'device', 'nccl', or that of a registered class."""
    if not isinstance(name, str):
        raise ArgumentError(f"name must be a string, not {name!r}")
    lower = name.lower()
    if lower in _LOCAL:
        return KVStore(lower)
    if lower != "kvstore" and lower in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[lower]()
    if "dist" in lower or lower in ("horovod", "byteps"):
        raise MXNetError(f"kvstore {name!r} is for several worker processes. Here one driver runs the devices of all "
                         "nodes: use 'device' and a list of devices such as [mx.gpu(i) for i in range(mx.num_gpus())]")
    raise ShapeError(f"there is no kvstore {name!r}; use 'local', 'device' or one of "
                     f"{', '.join(sorted(KVStoreBase.kv_registry))}")
