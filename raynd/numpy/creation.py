"""Making arrays: from values, filled, ranges and grids.

Default dtypes are MXNet's: float32 (float64 after ``set_np(dtype=True)``) for whatever is not an array of raynd or a
NumPy scalar already, integers and bools included. ``ctx`` is the older name of ``device`` everywhere, and a device may
stand in the place of ``dtype``.
"""
from __future__ import annotations

import math
import operator as python_operator

import numpy

from ..device import Device, as_device
from ..dispatch import F, Proxy, create, invoke_into, stage
from ..errors import ArgumentError, ShapeError, dual
from ..ndarray.array import ndarray
from ..ops import registry
from ..ops.elementwise import default_float
from ..spec import as_dtype, as_shape, dtype_name

__all__ = [
    "arange", "array", "asarray", "blackman", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "hamming", "hanning", "identity", "indices", "linspace", "logspace", "meshgrid", "ones", "ones_like", "tri",
    "zeros", "zeros_like",
]


def place(dtype, device, ctx):
    """(dtype, device) from the three arguments of a creation function."""
    if isinstance(dtype, Device):
        dtype, device = None, dtype
    if ctx is not None:
        device = ctx
    if isinstance(device, str):
        device = _named(device)
    return dtype, as_device(device)


def _named(text):
    kind, _, rest = text.partition("(")
    return Device(kind, int(rest.rstrip(")") or 0))


def check_order(order, name, allowed=("C", "K", "A", None)):
    """Only row-major arrays exist."""
    if order not in allowed:
        raise dual(NotImplementedError)(f"{name}: order={order!r} is not supported; arrays are always in C order")


def _run(name, attrs, device):
    attrs["dtype"] = dtype_name(as_dtype(attrs["dtype"]))
    return create(registry.get(name), attrs, device, ndarray)


# -- from values ---------------------------------------------------------------------------------------------------


def array(object, dtype=None, device=None, ctx=None, copy=True):
    """An array with a copy of ``object``: a number, nested sequences, a NumPy array, or an array on a device.

    Without ``dtype`` an array of raynd and a NumPy scalar keep theirs; everything else becomes the default float
    (under ``set_np(dtype=True)`` NumPy arrays keep theirs too).
    """
    target = device if ctx is None else ctx
    if isinstance(dtype, Device):
        dtype, target = None, dtype
    if isinstance(object, Proxy):
        result = object.as_np_ndarray()
        wanted = result._spec.dtype if dtype is None else as_dtype(dtype)
        if target is not None and as_device(target) != result.device:
            return result.copyto(as_device(target)).astype(wanted, copy=False)
        return result.astype(wanted) if wanted != result._spec.dtype else F.copy(result) if copy else result
    return stage(host_values(object, dtype), as_device(target), ndarray)


def host_values(object, dtype):
    """``object`` as a NumPy array of ``dtype``, or of the default one."""
    if dtype is not None:
        dtype = as_dtype(dtype)
    elif isinstance(object, numpy.generic):
        dtype = as_dtype(object.dtype)
    elif isinstance(object, numpy.ndarray) and default_float() == numpy.float64:
        dtype = as_dtype(object.dtype)
    else:
        dtype = default_float()
    if isinstance(object, (list, tuple)):
        object = _plain(object)
    try:
        return numpy.array(object, dtype=dtype, order="C")
    except OverflowError:                    # integers out of the dtype's range wrap around, as in MXNet
        return numpy.array(numpy.asarray(object).astype(dtype), order="C")
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"cannot make an array of {dtype} from this {type(object).__name__}: {error}") from None


def _plain(items):
    """Nested sequences with arrays of raynd in them turned into NumPy arrays."""
    return [x.asnumpy() if isinstance(x, Proxy) else _plain(x) if type(x) in (list, tuple) else x for x in items]


def asarray(obj, dtype=None, device=None, copy=None, ctx=None):
    """``obj`` as an array; an array of the right dtype and device is returned as it is unless ``copy`` is True."""
    target = device if ctx is None else ctx
    if isinstance(obj, ndarray) and not copy and (dtype is None or as_dtype(dtype) == obj.dtype) \
            and (target is None or as_device(target) == obj.device):
        return obj
    if copy is False:
        raise ShapeError("asarray: copy=False, but a copy is needed")
    return array(obj, dtype=dtype, device=target)


def from_dlpack(x):
    """An array with a copy of any object that exports DLPack (``__dlpack__``)."""
    if isinstance(x, Proxy):
        return array(x)
    values = numpy.from_dlpack(x)
    return stage(values, as_device(None), ndarray)


# -- filled --------------------------------------------------------------------------------------------------------


def zeros(shape, dtype=None, order="C", device=None, ctx=None):
    """Zeros of ``shape`` on ``device``."""
    check_order(order, "zeros")
    dtype, device = place(dtype, device, ctx)
    return _run("zeros", {"shape": as_shape(shape), "dtype": dtype or default_float()}, device)


def ones(shape, dtype=None, order="C", device=None, ctx=None):
    """Ones of ``shape`` on ``device``."""
    check_order(order, "ones")
    dtype, device = place(dtype, device, ctx)
    return _run("ones", {"shape": as_shape(shape), "dtype": dtype or default_float()}, device)


def empty(shape, dtype=None, order="C", device=None, ctx=None):
    """An array of ``shape`` whose contents are whatever the memory holds."""
    check_order(order, "empty", ("C", None))
    dtype, device = place(dtype, device, ctx)
    return _run("empty", {"shape": as_shape(shape), "dtype": dtype or default_float()}, device)


def full(shape, fill_value, dtype=None, order="C", device=None, out=None, ctx=None):
    """An array of ``shape`` filled with a number, or with an array that is broadcast.

    Without ``dtype`` a bool gives bool, an int int64, a float the default float, an array its own dtype.
    """
    check_order(order, "full")
    dtype, device = place(dtype, device, ctx)
    if isinstance(fill_value, (numpy.ndarray, Proxy, list, tuple)):
        value = fill_value if isinstance(fill_value, Proxy) else array(fill_value, dtype, device)
        if dtype is not None:
            value = value.astype(dtype, copy=False)
        result = F.broadcast_to(value.as_np_ndarray(), shape=as_shape(shape))
        return result if out is None else _into(out, result)
    value = fill_value.item() if isinstance(fill_value, numpy.generic) else fill_value
    if dtype is None:
        dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else default_float()
    if out is not None:
        if out.shape != as_shape(shape):
            raise ShapeError(f"full: out= has shape {out.shape}, not {as_shape(shape)}")
        out[...] = value
        return out
    return _run("full", {"shape": as_shape(shape), "fill_value": value, "dtype": dtype}, device)


def _into(out, result):
    if not isinstance(out, Proxy):
        raise ArgumentError(f"out= must be an array, not {type(out).__name__}")
    if out.shape != result.shape:
        raise ShapeError(f"out= has shape {out.shape}, the result has shape {result.shape}")
    invoke_into(registry.get("copy"), (result,), (), (out,))
    return out


def _like(a, dtype, device, ctx, shape=None):
    """(shape, dtype, device) of a ..._like function."""
    dtype, target = place(dtype, device, ctx)
    if not isinstance(a, Proxy):
        a = array(a)
    if device is None and ctx is None:
        target = a.device
    return as_shape(a.shape if shape is None else shape), dtype or a._spec.dtype, target


def _fill_like(a, value, dtype, order, device, out, ctx, name):
    check_order(order, name)
    if out is not None:
        if out.shape != a.shape:
            raise ShapeError(f"{name}: out= has shape {out.shape}, not {a.shape}")
        out[...] = value
        return out
    if isinstance(a, Proxy) and device is None and ctx is None and not isinstance(dtype, Device):
        dtype = None if dtype is None else as_dtype(dtype).name      # an operator, so that it can be recorded
        if isinstance(value, (Proxy, numpy.ndarray, list, tuple)):
            return full(a.shape, value, dtype or a.dtype, device=a.device)
        value = value.item() if isinstance(value, numpy.generic) else value
        return F.full_like_value(a, value=value, dtype=dtype)
    shape, dtype, device = _like(a, dtype, device, ctx)
    return full(shape, value, dtype, device=device)


def zeros_like(a, dtype=None, order="C", device=None, out=None, ctx=None):
    """Zeros with the shape, and by default the dtype and device, of ``a``."""
    return _fill_like(a, 0, dtype, order, device, out, ctx, "zeros_like")


def ones_like(a, dtype=None, order="C", device=None, out=None, ctx=None):
    """Ones with the shape, and by default the dtype and device, of ``a``."""
    return _fill_like(a, 1, dtype, order, device, out, ctx, "ones_like")


def full_like(a, fill_value, dtype=None, order="C", device=None, out=None, ctx=None):
    """An array filled with ``fill_value`` with the shape, and by default the dtype and device, of ``a``."""
    return _fill_like(a, fill_value, dtype, order, device, out, ctx, "full_like")


def empty_like(prototype, dtype=None, device=None, order="C", subok=False, shape=None, ctx=None):
    """An array of undefined contents with the shape (or ``shape``), dtype and device of ``prototype``."""
    check_order(order, "empty_like")
    if subok:
        raise dual(NotImplementedError)("empty_like: subok=True is not supported; arrays have no subclasses")
    shape, dtype, device = _like(prototype, dtype, device, ctx, shape)
    return _run("empty", {"shape": shape, "dtype": dtype}, device)


# -- ranges --------------------------------------------------------------------------------------------------------


def _number(value, name):
    """A bound as a Python number."""
    if isinstance(value, (Proxy, numpy.ndarray, numpy.generic)):
        value = value.item()
    if isinstance(value, (int, float)):
        return value
    raise ArgumentError(f"{name} must be a number, not {type(value).__name__}")


def arange(start, stop=None, step=1, dtype=None, device=None, ctx=None):
    """Evenly spaced numbers from ``start`` (0 if it is the only bound) up to, not including, ``stop``.

    The dtype is the default float, or int64 under ``set_np(dtype=True)``, whatever the bounds are.
    """
    dtype, device = place(dtype, device, ctx)
    start = _number(start, "start")
    if stop is None:
        start, stop = 0, start
    stop, step = _number(stop, "stop"), _number(1 if step is None else step, "step")
    if step == 0:
        raise dual(ZeroDivisionError)("arange: step must not be zero")
    if dtype is None:
        whole = all(float(v).is_integer() for v in (start, stop, step))
        dtype = "int64" if default_float() == numpy.float64 and whole else default_float()
    return _run("arange", {"start": start, "stop": stop, "step": step, "dtype": dtype}, device)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, device=None, ctx=None):
    """``num`` evenly spaced numbers from ``start`` to ``stop`` (included if ``endpoint``), along a new axis ``axis``
    where the bounds are arrays. ``retstep``: return (numbers, step)."""
    dtype, device = place(dtype, device, ctx)
    num = _count(num)
    if num < 0:
        raise ShapeError(f"linspace: the number of samples must not be negative: {num}")
    parts = num - 1 if endpoint else num
    if any(isinstance(v, (list, tuple, numpy.ndarray)) or (isinstance(v, Proxy) and v.ndim) for v in (start, stop)):
        result, step = _array_linspace(start, stop, num, parts, dtype, axis, device)
        return (result, step) if retstep else result
    start, stop = _number(start, "start"), _number(stop, "stop")
    if axis not in (0, -1):
        raise ShapeError(f"linspace: axis {axis} is out of bounds for bounds that are numbers")
    result = _run("linspace", {"start": start, "stop": stop, "num": num, "endpoint": bool(endpoint),
                               "dtype": dtype or default_float()}, device)
    return (result, (stop - start) / parts if parts > 0 else math.nan) if retstep else result


def _array_linspace(start, stop, num, parts, dtype, axis, device):
    """The numbers, and the step, between bounds that are arrays."""
    start, stop = [asarray(v, device=device) if isinstance(v, (Proxy, numpy.ndarray, list, tuple)) else v
                   for v in (start, stop)]
    delta = stop - start
    step = delta / parts if parts > 0 else delta * math.nan
    ramp = arange(num, dtype=step.dtype, device=device)
    ramp = F.reshape(ramp, newshape=(num,) + (1,) * step.ndim)
    result = ramp * step + start if parts > 0 else ramp * delta + start
    if axis not in (0, -result.ndim):
        order = list(range(1, result.ndim))
        order.insert(axis if axis >= 0 else axis + result.ndim, 0)
        result = F.transpose(result, axes=tuple(order))
    return result.astype(dtype or result.dtype, copy=False), step


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0, device=None, ctx=None):
    """``num`` numbers evenly spaced on a log scale, from ``base ** start`` to ``base ** stop``."""
    dtype, device = place(dtype, device, ctx)
    start, stop = _number(start, "start"), _number(stop, "stop")
    if axis not in (0, -1):
        raise ShapeError(f"logspace: axis {axis} is out of bounds for bounds that are numbers")
    num = _count(num)
    if num < 0:
        raise ShapeError(f"logspace: the number of samples must not be negative: {num}")
    return _run("logspace", {"start": start, "stop": stop, "num": num, "endpoint": bool(endpoint),
                             "base": _number(base, "base"), "dtype": dtype or default_float()}, device)


# -- matrices and grids --------------------------------------------------------------------------------------------


def eye(N, M=None, k=0, dtype=None, device=None, ctx=None):
    """``N`` by ``M`` (default ``N``) zeros with ones on diagonal ``k``."""
    dtype, device = place(dtype, device, ctx)
    return _run("eye", {"N": _size(N), "M": _size(N if M is None else M), "k": _count(k),
                        "dtype": dtype or default_float()}, device)


def _count(n):
    """``n`` as a Python int."""
    if isinstance(n, float) and n.is_integer():
        n = int(n)
    try:
        return python_operator.index(n)
    except TypeError:
        raise ArgumentError(f"an integer is needed, not {n!r}") from None


def _size(n):
    n = _count(n)
    if n < 0:
        raise ShapeError(f"negative dimensions are not allowed: {n}")
    return n


def identity(n, dtype=None, device=None, ctx=None):
    """The ``n`` by ``n`` identity matrix."""
    return eye(n, n, 0, dtype, device, ctx)


def tri(N, M=None, k=0, dtype=None, device=None, ctx=None):
    """``N`` by ``M`` zeros with ones on and below diagonal ``k``."""
    dtype, device = place(dtype, device, ctx)
    return _run("tri", {"N": _size(N), "M": _size(N if M is None else M), "k": _count(k),
                        "dtype": dtype or default_float()}, device)


def indices(dimensions, dtype=None, device=None, ctx=None):
    """The index arrays of a grid: shape ``(len(dimensions), *dimensions)``, int64 by default."""
    dtype, device = place(dtype, device, ctx)
    return _run("indices", {"dimensions": as_shape(dimensions), "dtype": dtype or "int64"}, device)


def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Coordinate arrays of the grid spanned by vectors: a list with one array a vector.

    ``indexing``: 'xy' swaps the first two axes, 'ij' does not. ``sparse``: each array keeps length 1 along the other
    axes. Results are always copies.
    """
    if indexing not in ("xy", "ij"):
        raise ShapeError("meshgrid: indexing must be 'xy' or 'ij'")
    vectors = [F.reshape(asarray(x), newshape=(-1,)) if getattr(x, "ndim", 1) != 1 else asarray(x) for x in xi]
    n = len(vectors)
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    shape = [0] * n
    for x, at in zip(vectors, places):
        shape[at] = x.size
    result = []
    for x, at in zip(vectors, places):
        x = F.reshape(x, newshape=tuple([x.size if i == at else 1 for i in range(n)]))
        result.append(x if sparse else F.broadcast_to(x, shape=tuple(shape)))
    return result


# -- windows -------------------------------------------------------------------------------------------------------


def _window(M, kind, dtype, device, ctx):
    dtype, device = place(dtype, device, ctx)
    return _run("window", {"size": _count(M), "kind": kind, "dtype": dtype or default_float()}, device)


def blackman(M, dtype=None, device=None, ctx=None):
    """The Blackman window of ``M`` points: ``0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))``."""
    return _window(M, "blackman", dtype, device, ctx)


def hamming(M, dtype=None, device=None, ctx=None):
    """The Hamming window of ``M`` points: ``0.54 - 0.46 cos(2 pi n / (M - 1))``."""
    return _window(M, "hamming", dtype, device, ctx)


def hanning(M, dtype=None, device=None, ctx=None):
    """The Hann window of ``M`` points: ``0.5 - 0.5 cos(2 pi n / (M - 1))``."""
    return _window(M, "hanning", dtype, device, ctx)
