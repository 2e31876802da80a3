"""What a Trainer needs of a key-value store, and a registry of own ones."""
from __future__ import annotations

from ..dispatch import F, Proxy
from ..errors import ShapeError


def as_list(value):
    """``value`` as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


class KVStoreBase:
    """Base of key-value stores. A subclass decorated with ``@KVStoreBase.register`` is made by
    ``mx.kv.create('its name in lower case')`` and used by ``Trainer(kvstore=...)``: it gets the parameters' first
    values by :meth:`broadcast` and the gradients of every step by :meth:`pushpull`."""
    OPTIMIZER = "optimizer"
    kv_registry: dict[str, type] = {}

    @staticmethod
    def register(klass):
        """Class decorator: make a store known by its class's name in lower case."""
        assert isinstance(klass, type), "only a class can be registered as a key-value store"
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass

    def broadcast(self, key, value, out, priority=0):
        """Give every array of ``out`` the ``value``."""
        raise NotImplementedError(f"{type(self).__name__} does not define broadcast")

    def pushpull(self, key, value, out=None, priority=0):
        """Sum ``value`` (an array a device) and write the sum to ``out``, by default to ``value`` itself."""
        raise NotImplementedError(f"{type(self).__name__} does not define pushpull")

    def set_optimizer(self, optimizer):
        """Let the store update its values by ``optimizer``."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer; use update_on_kvstore=False")

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Save the optimizer's states."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer states")

    def load_optimizer_states(self, fname):
        """Load the optimizer's states."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer states")

    @staticmethod
    def is_capable(capability):
        """Whether the store can do more than sums ('optimizer')."""
        raise NotImplementedError("is_capable is not defined")

    @property
    def type(self):
        """The store's name."""
        raise NotImplementedError(f"{type(self).__name__} does not define type")

    @property
    def rank(self):
        """The number of this worker process."""
        raise NotImplementedError(f"{type(self).__name__} does not define rank")

    @property
    def num_workers(self):
        """The number of worker processes."""
        raise NotImplementedError(f"{type(self).__name__} does not define num_workers")


def summed(values):
    """The sum of arrays on any devices, on the first one's device."""
    from ..autograd import copy_to
    values = [x.detach() for x in values]
    total = F.copy(values[0])
    for x in values[1:]:
        total = F.add(total, x if x.device == total.device else copy_to(x, total.device))
    return total


def spread(value, targets):
    """Write ``value`` into every array of ``targets``."""
    from ..autograd import assign, copy_to
    for target in targets:
        if not isinstance(target, Proxy):
            raise ShapeError(f"out must hold arrays, not {type(target).__name__}")
        if target._spec.shape != value._spec.shape:
            raise ShapeError(f"a value of shape {value._spec.shape} for an array of shape {target._spec.shape}")
        x = value if target._spec.dtype == value._spec.dtype else F.cast(value, dtype=target._spec.dtype.name)
        assign(target, x if x.device == target.device else copy_to(x, target.device))


class OneProcess(KVStoreBase):
    """What stores have in common that one driver runs for all devices."""
    has_optimizer = False

    @classmethod
    def is_capable(cls, capability):
        """Whether the store can do more than sums: 'optimizer', to run one."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return cls.has_optimizer
        raise ShapeError(f"Unknown capability: {capability}")

    @property
    def rank(self):
        """0: there is one driver."""
        return 0

    @property
    def num_workers(self):
        """1: there is one driver."""
        return 1


@KVStoreBase.register
class TestStore(OneProcess):
    """A store that only adds, for tests of stores of one's own."""

    def broadcast(self, key, value, out, priority=0):
        spread(as_list(value)[0].detach(), as_list(out))

    def pushpull(self, key, value, out=None, priority=0):
        values = as_list(value)
        total = summed(values)
        spread(total, values if out is None else as_list(out))

    @property
    def type(self):
        return "teststore"
