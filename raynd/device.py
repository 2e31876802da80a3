"""Devices as values: ``cpu(0)``, ``gpu(1)``. Making one never checks that it exists; using it does."""
from __future__ import annotations

import contextvars
import warnings

from .errors import ArgumentError, DeviceError

_current: contextvars.ContextVar = contextvars.ContextVar("raynd_current_device", default=None)
_outer: contextvars.ContextVar = contextvars.ContextVar("raynd_outer_devices", default=None)   # (device, the rest)


class Device:
    """A device: type ('cpu', 'gpu', 'cpu_pinned', 'cpu_shared') and ordinal. Compares and hashes by both.

    ``Device(other_device)`` copies one. As a context manager it is the current device inside the block, for this
    thread or task only.
    """
    devtype2str = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}
    __slots__ = ("device_typeid", "device_id", "_hash", "__weakref__")

    device_typeid: int
    device_id: int

    def __init__(self, device_type, device_id=0):
        if isinstance(device_type, Device):
            self.device_typeid, self.device_id = device_type.device_typeid, device_type.device_id
        else:
            if device_type not in self.devstr2type:
                raise DeviceError(f"unknown device type {device_type!r}; the types are {', '.join(self.devstr2type)}")
            try:
                device_id = device_id.__index__()
            except AttributeError:
                raise ArgumentError(f"device_id must be an integer, not {device_id!r}") from None
            if device_id < 0:
                raise DeviceError(f"device_id must not be negative: {device_type}({device_id})")
            self.device_typeid, self.device_id = self.devstr2type[device_type], device_id
        self._hash = hash((self.device_typeid, self.device_id))

    @property
    def device_type(self) -> str:
        """'cpu', 'gpu', 'cpu_pinned' or 'cpu_shared'."""
        return self.devtype2str[self.device_typeid]

    def __eq__(self, other):
        return (isinstance(other, Device) and self.device_typeid == other.device_typeid
                and self.device_id == other.device_id)

    def __hash__(self):
        return self._hash

    def __repr__(self):
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self):
        return Device, (self.device_type, self.device_id)

    def __enter__(self):
        _outer.set((_current.get(), _outer.get()))   # not in the Device: threads may share it
        _current.set(self)
        return self

    def __exit__(self, *exc):
        device, rest = _outer.get() or (None, None)
        _current.set(device)
        _outer.set(rest)

    def empty_cache(self):
        """Give this device's cached free memory back to the system."""
        from .memory import empty_cache  # needs the engine; a Device itself is only a value
        empty_cache(self)


class Context(Device):
    """Deprecated name of :class:`Device`."""
    __slots__ = ()

    def __init__(self, device_type, device_id=0):
        warnings.warn("Context is deprecated; use Device (mx.Device, mx.cpu, mx.gpu) instead", DeprecationWarning,
                      stacklevel=2)
        super().__init__(device_type, device_id)


def cpu(device_id=0) -> Device:
    """The CPU device ``device_id``. Each is an actor of its own with its own arrays."""
    return Device("cpu", device_id)


def gpu(device_id=0) -> Device:
    """The GPU ``device_id``, counted over the whole cluster, the driver's node first."""
    return Device("gpu", device_id)


def cpu_pinned(device_id=0) -> Device:
    """Page-locked host memory. Here it is the same actor and memory as ``cpu(device_id)``."""
    return Device("cpu_pinned", device_id)


def cpu_shared(device_id=0) -> Device:
    """Shared host memory. Here it is the same actor and memory as ``cpu(device_id)``."""
    return Device("cpu_shared", device_id)


_DEFAULT = Device("cpu", 0)


def current_device() -> Device:
    """The device on which arrays are made when none is named: cpu(0), or that of the innermost ``with`` block."""
    return _current.get() or _DEFAULT


def current_context() -> Device:
    """Deprecated name of :func:`current_device`."""
    return current_device()


def default_context() -> Device:
    """Older name of :func:`current_device`."""
    return current_device()


def as_device(value) -> Device:
    """``value`` if it is a Device, the current device for None; anything else raises."""
    if value is None:
        return _current.get() or _DEFAULT
    if isinstance(value, Device):
        return value
    raise ArgumentError(f"a device is needed, such as mx.cpu(0) or mx.gpu(1), not {value!r}")


def num_gpus() -> int:
    """How many gpu(i) there are, real and simulated, over all nodes; starts the runtime to find out."""
    from .session import num_gpus as count
    return count()


def gpu_memory_info(device_id=0):
    """(free, total) bytes of ``gpu(device_id)``."""
    from .memory import gpu_memory_info as info
    return info(device_id)
