"""NumPy's own functions called with arrays of raynd (``numpy.exp(a)``, ``numpy.concatenate([a, b])``): the protocols
``__array_ufunc__`` and ``__array_function__`` (NEP 13 and NEP 18).

A function that ``mx.np`` has runs there, on the device; any other runs in NumPy on copies of the values, and its
arrays come back to the device.
"""
from __future__ import annotations

import inspect
import sys

import numpy

from ..dispatch import Proxy, scope, stage
from ..errors import MXNetError
from ..ndarray.array import ndarray

__all__ = ["on_host"]

_SPACE = sys.modules[__package__]
_UFUNC_NAMES = {"remainder": "mod", "conjugate": None, "matmul": "matmul"}


def _arrays(value):
    """All arrays of raynd in nested arguments."""
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _arrays(item)


def _to_host(value):
    if isinstance(value, Proxy):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_to_host, value)) if type(value) in (list, tuple) else value
    if isinstance(value, dict):
        return {k: _to_host(v) for k, v in value.items()}
    return value


def _to_device(value, device):
    if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
        return stage(value, device, ndarray)
    if type(value) in (list, tuple):
        return type(value)(_to_device(v, device) for v in value)
    return value


def on_host(function, args, kwargs):
    """Run a NumPy function on the values of arrays and bring its arrays back. Cannot be recorded for gradients."""
    arrays = list(_arrays((args, kwargs)))
    if scope().recording and any(x._entry is not None for x in arrays):
        raise MXNetError(f"{function.__name__} runs in NumPy on the host, so no gradient flows through it; call it "
                         "outside of autograd.record(), or on x.detach()")
    device = arrays[0].device if arrays else None
    with numpy.errstate(all="ignore"):
        result = function(*_to_host(args), **_to_host(kwargs))
    return _to_device(result, device)


def _array_ufunc(self, ufunc, method, *inputs, out=None, **kwargs):
    if method == "at":
        return NotImplemented                # writes into its first operand
    if out is not None:
        if any(not isinstance(o, Proxy) for o in out):
            return getattr(ufunc, method)(*_to_host(inputs), out=out, **_to_host(kwargs))
        out = out if len(out) > 1 else out[0]
    name = _UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__)
    function = getattr(_SPACE, name, None) if method == "__call__" and name else None
    if function is not None:
        return function(*inputs, **kwargs) if out is None else function(*inputs, out=out, **kwargs)
    result = on_host(getattr(ufunc, method), inputs, kwargs)
    if out is None:
        return result
    out[...] = result
    return out


def _array_function(self, func, types, args, kwargs):
    if not all(issubclass(t, (Proxy, numpy.ndarray)) for t in types):
        return NotImplemented
    space = _SPACE
    for part in func.__module__.split(".")[1:]:              # numpy.linalg.norm stands in raynd.numpy.linalg
        space = getattr(space, part, space)
    function = getattr(space, func.__name__, None)
    if function is None or not _takes(function, args, kwargs):
        return on_host(func, args, kwargs)
    return function(*args, **kwargs)


_signatures: dict = {}


def _takes(function, args, kwargs):
    """Whether our function has all the parameters of a call of NumPy's."""
    try:
        signature = _signatures.get(function)
        if signature is None:
            signature = _signatures[function] = inspect.signature(function)
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


ndarray.__array_ufunc__ = _array_ufunc
ndarray.__array_function__ = _array_function
