"""NumPy semantics on and off (``set_np`` and its relatives), and the small helpers that MXNet keeps in ``mx.util``.

NumPy shapes and arrays are on when raynd is imported. ``reset_np`` gives the legacy mode: then ``nd`` refuses zero-dim
and zero-size arrays, and gluon works in ``nd`` arrays. Default dtypes (float32, or NumPy's float64 after
``set_np(dtype=True)``) are one setting of the process.
"""
from __future__ import annotations

import functools
import os

import numpy

from . import config
from .dispatch import forget_calls
from .errors import ArgumentError, DeviceError, MXNetError, ShapeError
from .ops import elementwise

__all__ = [
    "default_array", "dtype_from_number", "get_cuda_compute_capability", "get_gpu_count", "get_gpu_memory", "getenv",
    "is_np_array", "is_np_default_dtype", "is_np_shape", "np_array", "np_default_dtype", "np_shape",
    "np_ufunc_legal_option", "reset_np", "set_flush_denorms", "set_module", "set_np", "set_np_default_dtype",
    "set_np_shape", "setenv",
    "use_np", "use_np_array", "use_np_default_dtype", "use_np_shape",
]


# -- switching -----------------------------------------------------------------------------------------------------


def is_np_shape() -> bool:
    """Whether zero-dim and zero-size shapes have NumPy's meaning."""
    return config.np_shape()


def is_np_array() -> bool:
    """Whether gluon and the helpers work in ``np.ndarray`` rather than ``nd.NDArray``."""
    return config.np_array()


def is_np_default_dtype() -> bool:
    """Whether the default float is NumPy's float64 rather than float32."""
    return elementwise.DEFAULTS["float"] == numpy.float64


def set_np_shape(active) -> bool:
    """Switch NumPy shapes on or off; returns the previous state."""
    return config.np_shape.set(active)


def set_np_default_dtype(is_np_default_dtype=True) -> bool:
    """Make float64 (True) or float32 (False) the default float; returns the previous state."""
    previous = elementwise.DEFAULTS["float"] == numpy.float64
    if bool(is_np_default_dtype) != previous:
        elementwise.DEFAULTS["float"] = numpy.dtype("float64" if is_np_default_dtype else "float32")
        forget_calls()                     # cached results of dtype rules
    return previous


def set_np(shape=True, array=True, dtype=False):
    """Switch NumPy shapes, arrays and default dtypes. Arrays without shapes (``shape=False, array=True``) raise
    ValueError."""
    if array and not shape:
        raise ShapeError("NumPy arrays need NumPy shapes: set_np(shape=False, array=True) is not possible")
    config.np_shape.set(shape)
    config.np_array.set(array)
    set_np_default_dtype(dtype)


def reset_np():
    """Legacy mode: NumPy shapes, arrays and default dtypes off."""
    set_np(shape=False, array=False, dtype=False)


class _Scope:
    """A context manager that sets one mode inside its block, usable more than once and nested."""

    def __init__(self, switch, active):
        self._switch, self._active, self._tokens = switch, bool(active), []

    def __enter__(self):
        self._tokens.append(self._switch.local.set(self._active))
        return self

    def __exit__(self, *exc):
        self._switch.local.reset(self._tokens.pop())


class _DtypeScope:
    """A context manager for the default dtype."""

    def __init__(self, active):
        self._active, self._previous = active, []

    def __enter__(self):
        self._previous.append(set_np_default_dtype(self._active))
        return self

    def __exit__(self, *exc):
        set_np_default_dtype(self._previous.pop())


def np_shape(active=True):
    """Context manager: NumPy shapes on or off inside, for this thread."""
    return _Scope(config.np_shape, active)


def np_array(active=True):
    """Context manager: NumPy arrays on or off inside, for this thread."""
    return _Scope(config.np_array, active)


def np_default_dtype(active=True):
    """Context manager: float64 or float32 as the default float inside."""
    return _DtypeScope(active)


def _within(scope, is_on):
    """A decorator of functions and classes: their code, or their methods', runs in ``scope(True)``."""
    def decorate(target):
        if isinstance(target, type):
            for name, member in list(vars(target).items()):
                if isinstance(member, property):
                    setattr(target, name, property(*[f and wrap(f) for f in (member.fget, member.fset, member.fdel)],
                                                   member.__doc__))
                elif callable(member) and not isinstance(member, type):
                    setattr(target, name, wrap(member))
            return target
        if callable(target):
            return wrap(target)
        raise ArgumentError(f"only a class or a function can be decorated, not {target!r}")

    def wrap(function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            if is_on():
                return function(*args, **kwargs)
            with scope(True):
                return function(*args, **kwargs)
        return inside
    return decorate


_decorate_shape = _within(np_shape, is_np_shape)
_decorate_array = _within(np_array, is_np_array)
_decorate_dtype = _within(np_default_dtype, is_np_default_dtype)


def use_np_shape(func):
    """Decorate a function or a class: its code runs with NumPy shapes on."""
    return _decorate_shape(func)


def use_np_array(func):
    """Decorate a function or a class: its code runs with NumPy arrays on."""
    return _decorate_array(func)


def use_np_default_dtype(func):
    """Decorate a function or a class: its code runs with NumPy's default dtypes."""
    return _decorate_dtype(func)


def use_np(func):
    """Decorate a function or a class: its code runs with NumPy shapes and arrays on."""
    return use_np_shape(use_np_array(func))


# -- helpers -------------------------------------------------------------------------------------------------------


def np_ufunc_legal_option(key, value) -> bool:
    """Whether ``key=value`` is an option that element-wise functions accept next to ``out``."""
    from .ndarray.bindings import UFUNC_OPTIONS
    return key in UFUNC_OPTIONS and UFUNC_OPTIONS[key][1](value)


def default_array(source_array, device=None, dtype=None, ctx=None):
    """``np.array`` or ``nd.array`` of ``source_array``, as :func:`is_np_array` says."""
    if is_np_array():
        from .numpy import array
    else:
        from .ndarray import array
    return array(source_array, dtype=dtype, device=device if ctx is None else ctx)


def dtype_from_number(number):
    """The default dtype of a Python or NumPy number: int64 for integers, bool for bools, the default float else."""
    if isinstance(number, (bool, numpy.bool_)):
        return numpy.bool_
    if isinstance(number, (int, numpy.integer)):
        return numpy.int64
    if isinstance(number, (float, numpy.floating)):
        return elementwise.default_float().type
    raise ArgumentError(f"a number is needed, not {type(number).__name__}")


def getenv(name):
    """The value of environment variable ``name``, or None."""
    return os.environ.get(name)


def setenv(name, value):
    """Set environment variable ``name``; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = str(value)


def set_module(module):
    """Decorator: document a function or class as part of ``module``."""
    def decorate(target):
        if module is not None:
            target.__module__ = module
        return target
    return decorate


def get_gpu_count() -> int:
    """How many gpu(i) there are."""
    from .session import num_gpus
    return num_gpus()


def get_gpu_memory(gpu_dev_id):
    """(free, total) bytes of a GPU."""
    from .memory import gpu_memory_info
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(device):
    """The compute capability of a GPU as an integer (70 for 7.0). Raises where the device is not a real GPU."""
    from .session import devices
    if device.device_type != "gpu":
        raise DeviceError(f"{device} is not a GPU")
    for info in devices():
        capability = getattr(info, "compute_capability", None)
        if info.device == device and capability is not None:
            return int(capability)
    raise MXNetError(f"the compute capability of {device} is not known: it is simulated or has not started")


def set_flush_denorms(value) -> bool:
    """Whether denormal numbers count as zero: they never do here, so only False is accepted. Returns False, the setting
    so far."""
    if value:
        raise MXNetError("set_flush_denorms(True) is not supported: operators keep denormal numbers")
    return False
