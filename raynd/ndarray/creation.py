"""Creation functions of ``mx.nd``. The default dtype is float32, the default device the current one."""
from __future__ import annotations

import math

import numpy

from .. import config
from ..device import as_device
from ..dispatch import Proxy, create, invoke, stage
from ..errors import ArgumentError, MXNetError
from ..ops import registry
from ..ops.elementwise import default_float
from ..spec import as_dtype
from .array import NDArray
from .legacy import give, legacy_shape, need_array, nowhere

__all__ = ["array", "empty", "zeros", "ones", "full", "arange", "linspace", "eye", "zeros_like", "ones_like"]


def array(source_array, ctx=None, dtype=None, device=None):
    """An NDArray with a copy of ``source_array`` (a list, nested list, number, NumPy array, or array of either face).

    ``dtype`` defaults to that of an array of either face, and to float32 for anything else.
    """
    device = as_device(ctx if device is None else device)
    if isinstance(source_array, Proxy):
        result = source_array.as_nd_ndarray().detach()
        result = result.copyto(device)
        return result if dtype is None else result.astype(dtype, copy=False)
    if not isinstance(source_array, numpy.ndarray):
        if isinstance(source_array, (list, tuple)) and any(isinstance(x, Proxy) for x in source_array):
            source_array = [x.asnumpy() if isinstance(x, Proxy) else x for x in source_array]
        try:
            source_array = numpy.array(source_array, dtype=None if dtype is None else as_dtype(dtype))
        except (TypeError, ValueError):
            raise ArgumentError("source_array must be array like object") from None
    if source_array.dtype.kind not in "biufcV":
        raise ArgumentError("source_array must be array like object")
    values = source_array.astype(default_float() if dtype is None else as_dtype(dtype), copy=False)
    return stage(values, device, NDArray)


def _filled(name, shape, ctx, dtype, **attrs):
    dtype = default_float() if dtype is None else as_dtype(dtype)
    op = registry.get(name)
    return create(op, {**op.defaults, "shape": legacy_shape(shape), **attrs, "dtype": dtype.name}, ctx, NDArray)


def _dense(stype, function):
    if stype not in (None, "default"):
        raise MXNetError(f"{function}: stype={stype!r} is not available here")


def empty(shape, ctx=None, dtype=None, stype=None):
    """An NDArray whose values are not set."""
    _dense(stype, "empty")
    return _filled("empty", shape, ctx, dtype)


def zeros(shape, ctx=None, dtype=None, stype=None, **kwargs):
    """An NDArray of zeros."""
    _dense(stype, "zeros")
    out = kwargs.pop("out", None)
    nowhere("zeros", kwargs)
    return give(_filled("zeros", shape, ctx, dtype), out)


def ones(shape, ctx=None, dtype=None, **kwargs):
    """An NDArray of ones."""
    _dense(kwargs.pop("stype", None), "ones")
    out = kwargs.pop("out", None)
    nowhere("ones", kwargs)
    return give(_filled("ones", shape, ctx, dtype), out)


def full(shape, val, ctx=None, dtype=None, out=None):
    """An NDArray of one value (float32 by default, whatever the value's type)."""
    result = empty(shape, ctx, dtype)
    result[:] = val
    return give(result, out)


def arange(start, stop=None, step=1.0, repeat=1, infer_range=None, ctx=None, dtype="float32"):
    """Values from ``start`` up to (not including) ``stop`` by ``step``, each ``repeat`` times."""
    if infer_range is not None:
        raise ArgumentError("arange: infer_range is only for symbols")
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise MXNetError("arange: step must not be zero")
    if (stop - start) / step <= 0 and not config.np_shape():
        raise MXNetError(f"arange: invalid range (start, stop, step) = ({start}, {stop}, {step})")
    count = max(0, math.ceil((stop - start) / step))
    values = start + numpy.arange(count) * step
    return stage(numpy.repeat(values, repeat).astype(as_dtype(dtype)), as_device(ctx), NDArray)


def linspace(start, stop, num, endpoint=True, ctx=None, dtype="float32"):
    """``num`` evenly spaced values from ``start`` to ``stop`` (included if ``endpoint``)."""
    return stage(numpy.linspace(start, stop, num, endpoint=endpoint).astype(as_dtype(dtype)), as_device(ctx), NDArray)


def eye(N, M=0, k=0, ctx=None, dtype=None, **kwargs):
    """A matrix of N rows and M (0: N) columns with ones on the k-th diagonal."""
    out = kwargs.pop("out", None)
    nowhere("eye", kwargs)
    dtype = default_float() if dtype is None else as_dtype(dtype)
    return give(stage(numpy.eye(N, M or N, k, dtype=dtype), as_device(ctx), NDArray), out)


def _like(name):
    def function(data, out=None, name=None, **kwargs):
        nowhere(record, kwargs)
        op = registry.get(record)
        return give(invoke(op, (need_array(data, record),), dict(op.defaults)), out)
    record = name
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name.split('_')[0].capitalize()} with the shape, dtype and device of ``data``."
    return function


zeros_like, ones_like = _like("zeros_like"), _like("ones_like")
