"""Pooling: maximum, average, sum and Lp over windows of 1 to 3 axes.

The kernels go over the window's positions, never over outputs: each position is a strided view of the (padded) data.
Sums and maxima are taken one axis at a time, and by so many planes together as fit the cache. The gradient of a maximum
goes to the first element that equals it; sum pooling and its gradient are each other's derivative, and the other two
types come down to these.
"""
from __future__ import annotations

import itertools
import math

from ..errors import ArgumentError, ShapeError
from ..spec import is_float, spec
from .parallel import run_chunks
from .registry import check_float, operator
from .softmax import wide
from .windows import channel_axis, channels_back, channels_first, moved_back, moved_shape, per_axis

_TYPES = ("max", "avg", "sum", "lp")
_CONVENTIONS = ("valid", "full", "same")


class Windows:
    """The windows of a pooling call: ``kernel``, ``stride``, ``pad`` (before), ``out`` and ``need`` (padded sizes that
    the windows reach)."""

    def __init__(self, shape, kernel, stride, pad, convention, global_pool, layout, function="pooling"):
        n = len(shape) - 2
        if n not in (1, 2, 3):
            raise ShapeError(f"{function}: data must have 3, 4 or 5 axes, not shape {shape}")
        self.last = channel_axis(layout, n, function) != 1
        self.sizes = sizes = moved_shape(shape, self.last)[2:]
        if global_pool:
            if 0 in sizes:
                raise ShapeError(f"{function}: global_pool=True needs at least one element a plane, got shape {shape}")
            self.kernel, self.stride, self.pad, self.out = sizes, (1,) * n, (0,) * n, (1,) * n
        else:
            if kernel in (None, ()):
                raise ArgumentError(f"{function}: kernel is needed unless global_pool=True")
            self.kernel = per_axis(kernel, n, 1, "kernel", function)
            self.stride = per_axis(stride, n, 1, "stride", function)
            self.pad = per_axis(pad, n, 0, "pad", function)
            self.out = self.out_sizes(convention, function)
        self.need = tuple((o - 1) * s + k for o, s, k in zip(self.out, self.stride, self.kernel))

    def out_sizes(self, convention, function):
        """The number of windows along each axis: rounded down ('valid') or up ('full'); 'same': size / stride."""
        if convention not in _CONVENTIONS:
            raise ArgumentError(f"{function}: pooling_convention must be one of {_CONVENTIONS}, not {convention!r}")
        if convention == "same" and (len(self.sizes) != 1 or any(self.pad)):
            raise ShapeError(f"{function}: pooling_convention='same' is for one window axis and no padding")
        result = []
        for n, k, s, p in zip(self.sizes, self.kernel, self.stride, self.pad):
            if k > n + 2 * p:
                raise ShapeError(f"{function}: kernel size ({k}) exceeds input ({n} padded to {n + 2 * p})")
            result.append(-(-n // s) if convention == "same" else
                          1 + ((n + 2 * p - k) // s if convention == "valid" else -(-(n + 2 * p - k) // s)))
        return tuple(result)

    def taps(self):
        """The window's positions, each as the index of the padded data that reads it for all windows at once."""
        for tap in itertools.product(*[range(k) for k in self.kernel]):
            yield (slice(None), slice(None), *[slice(i, i + (o - 1) * s + 1, s)
                                               for i, o, s in zip(tap, self.out, self.stride)])

    def padded(self, xp, x, fill):
        """``x`` with ``fill`` around it where windows reach beyond; ``x`` itself where none does."""
        if not any(self.pad) and all(need <= n for need, n in zip(self.need, self.sizes)):
            return x
        full = tuple(max(need, n + p) for need, n, p in zip(self.need, self.sizes, self.pad))
        result = xp.full((*x.shape[:2], *full), fill, x.dtype)
        result[self.inside(full)] = x
        return result

    def inside(self, full):
        """The index of the data within an array padded to the sizes ``full``."""
        return (slice(None), slice(None), *[slice(p, p + n) for p, n in zip(self.pad, self.sizes)])

    def counts(self, xp, include_pad):
        """The number of elements in each window, of shape ``out``; with padding (clipped to it) or without. At least 1
        along each axis: the sum over a window beside the data is 0, and so is its average."""
        result = None
        for o, s, k, p, n in zip(self.out, self.stride, self.kernel, self.pad, self.sizes):
            start = xp.arange(o) * s - p
            stop = xp.minimum(start + k, n + p)
            if not include_pad:
                start, stop = xp.maximum(start, 0), xp.minimum(stop, n)
            size = xp.maximum(stop - start, 1)
            result = size if result is None else result[..., None] * size
        return result


PLANE_BYTES = 1 << 20               # of a chunk of planes: what the passes over it read again stays in the cache


def _by_planes(xp, function, out, *arrays):
    """Fill ``out`` with ``function(*parts)``, in chunks of planes of it and of arrays that are all (N, C, sizes...)."""
    planes = out.shape[0] * out.shape[1]
    if not planes or not all(a.flags.c_contiguous for a in arrays):
        out[...] = function(*arrays)
        return out
    flat = [a.reshape(planes, 1, *a.shape[2:]) for a in (out, *arrays)]
    step = max(1, PLANE_BYTES * planes // max(a.nbytes for a in flat))

    def run(start, stop):
        flat[0][start:stop] = function(*[a[start:stop] for a in flat[1:]])
    run_chunks(xp, [(i, min(i + step, planes)) for i in range(0, planes, step)], lambda: run)
    return out


def _separable(xp, windows, x, combine):
    """``combine`` (an in-place ufunc of two arrays) over each window, axis by axis."""
    for axis, (k, s, o) in enumerate(zip(windows.kernel, windows.stride, windows.out)):
        def take(i, axis=axis, s=s, o=o, x=x):
            return x[(slice(None),) * (axis + 2) + (slice(i, i + (o - 1) * s + 1, s),)]
        result = combine(take(0), take(1)) if k > 1 else take(0)
        for i in range(2, k):
            combine(result, take(i), out=result)
        x = result
    return x


def _pool(xp, x, windows, pool_type, include_pad, p_value):
    if all(k == n and o == 1 and p == 0 for k, n, o, p in
           zip(windows.kernel, windows.sizes, windows.out, windows.pad)):              # one window: a reduction
        flat = x.reshape(*x.shape[:2], math.prod(windows.sizes))
        if pool_type == "max":
            return flat.max(axis=2).reshape(*x.shape[:2], *windows.out)
        flat = flat ** p_value if pool_type == "lp" and p_value != 1 else flat
        result = (flat.mean(axis=2) if pool_type == "avg" else flat.sum(axis=2)).reshape(*x.shape[:2], *windows.out)
        return _root(xp, result, p_value) if pool_type == "lp" else result
    counts = windows.counts(xp, include_pad).astype(x.dtype) if pool_type == "avg" else None

    def pool(x):
        if pool_type == "max":
            return _separable(xp, windows, windows.padded(xp, x, _lowest(xp, x.dtype)), xp.maximum)
        if pool_type == "lp" and p_value != 1:
            x = x ** p_value
        result = _separable(xp, windows, windows.padded(xp, x, 0), xp.add)
        if counts is not None:
            return result / counts
        return _root(xp, result, p_value) if pool_type == "lp" else result
    return _by_planes(xp, pool, xp.empty((*x.shape[:2], *windows.out), x.dtype), x)


def _lowest(xp, dtype):
    return -xp.inf if is_float(dtype) else xp.iinfo(dtype).min


def _root(xp, x, p):
    return x if p == 1 else xp.sqrt(x) if p == 2 else xp.cbrt(x)


# -- pooling -------------------------------------------------------------------------------------------------------


def _infer_pooling(data, kernel, stride, pad, pool_type, pooling_convention, global_pool, cudnn_off, p_value,
                   count_include_pad, layout):
    if pool_type not in _TYPES:
        raise ArgumentError(f"pooling: pool_type must be one of {_TYPES}, not {pool_type!r}")
    if pool_type == "lp" and p_value not in (1, 2, 3):
        raise ArgumentError(f"pooling: pool_type='lp' needs p_value 1, 2 or 3, not {p_value!r}")
    if pool_type != "max" and not is_float(data.dtype):
        raise ArgumentError(f"pooling: pool_type={pool_type!r} needs floating data, not {data.dtype}")
    w = Windows(data.shape, kernel, stride, pad, pooling_convention, global_pool, layout)
    shape = moved_shape(data.shape, w.last)
    return spec(moved_back((*shape[:2], *w.out), w.last), data.dtype)


def _pooling(xp, data, kernel, stride, pad, pool_type, pooling_convention, global_pool, cudnn_off, p_value,
             count_include_pad, layout):
    """Maximum, average, sum or Lp norm over windows.

    data (N, C, sizes...), or channels last. Output sizes: floor ('valid') or ceil ('full') of (size + 2 pad - kernel) /
    stride, plus 1; 'same': ceil(size / stride). ``global_pool``: one window over everything. ``count_include_pad``
    (default True): averages divide by the window's size with its padding. ``p_value``: the power of 'lp', 1, 2 or 3.
    A window that holds padding alone has the average 0 and the maximum -inf.
    """
    w = Windows(data.shape, kernel, stride, pad, pooling_convention, global_pool, layout)
    x = channels_first(xp, wide(xp, data) if pool_type != "max" else data, w.last)
    return channels_back(xp, _pool(xp, x, w, pool_type, count_include_pad is not False, p_value), w.last)


def _pooling_vjp(F, dy, x, y, kernel, stride, pad, pool_type, pooling_convention, global_pool, cudnn_off, p_value,
                 count_include_pad, layout):
    x, y = x[0], y[0]
    attrs = {"kernel": kernel, "stride": stride, "pad": pad, "convention": pooling_convention,
             "global_pool": global_pool, "layout": layout}
    if pool_type == "max":
        return F.max_pool_grad(dy, x, y, **attrs)
    if pool_type == "lp" and p_value != 1:
        safe = F.where(F.equal(y, 0), 1.0, y)
        part = F.sum_pool_grad(dy / (F.square(safe) if p_value == 3 else safe), shape=x.shape, mean=None, **attrs)
        return part * (F.square(x) if p_value == 3 else x)
    mean = None if pool_type != "avg" else count_include_pad is not False
    return F.sum_pool_grad(dy, shape=x.shape, mean=mean, **attrs)


_SIGNATURE = "pooling_convention='valid', global_pool=False, cudnn_off=False, p_value=None, count_include_pad=None, " \
             "layout=None"
operator("pooling", "data, kernel=None, stride=None, pad=None, pool_type='max', " + _SIGNATURE + ", **kwargs",
         inputs="data", infer=_infer_pooling, kernel=_pooling, vjp=_pooling_vjp, npx="pooling")
operator("nd_pooling", "data, kernel=(), pool_type='max', global_pool=False, cudnn_off=False, "
         "pooling_convention='valid', stride=(), pad=(), p_value=None, count_include_pad=None, layout=None, out=None",
         inputs="data", infer=lambda data, **attrs: _infer_pooling(data, **attrs),
         kernel=lambda xp, data, **attrs: _pooling(xp, data, **attrs),
         vjp=lambda F, dy, x, y, **attrs: _pooling_vjp(F, dy, x, y, **attrs), nd="Pooling, Pooling_v1",
         doc=_pooling.__doc__)

# -- gradients -----------------------------------------------------------------------------------------------------

_ATTRS = "kernel, stride, pad, convention, global_pool, layout"


def _inside(work, windows):
    """The data's part of a padded array."""
    full = work.shape[2:]
    return work if full == windows.sizes else work[windows.inside(full)]


def _first_hits(xp, xpad, y, windows):
    """For each window position: its index in the padded data, and where it holds the window's (first) maximum."""
    free = None
    for tap in windows.taps():
        hit = xpad[tap] == y
        if free is None:
            free = ~hit
        else:
            hit &= free
            free ^= hit
        yield tap, hit


def _max_pool_grad(xp, dy, x, y, kernel, stride, pad, convention, global_pool, layout):
    w = Windows(x.shape, kernel, stride, pad, convention, global_pool, layout)
    x, y, dy = (channels_first(xp, a, w.last) for a in (x, y, dy))
    if global_pool or all(k == n and o == 1 for k, n, o in zip(w.kernel, w.sizes, w.out)):
        flat = x.reshape(*x.shape[:2], math.prod(w.sizes))
        result = xp.zeros((*x.shape[:2], *w.sizes), dy.dtype)
        xp.put_along_axis(result.reshape(flat.shape), flat.argmax(axis=2)[..., None], dy.reshape(*x.shape[:2], 1), 2)
        return channels_back(xp, result, w.last)
    apart = all(s >= k for s, k in zip(w.stride, w.kernel))

    def grad(dy, x, y):
        xpad = w.padded(xp, x, _lowest(xp, x.dtype))
        result = xp.zeros(xpad.shape, dy.dtype)
        for tap, hit in _first_hits(xp, xpad, y, w):
            if apart:
                xp.multiply(dy, hit, out=result[tap])
            else:
                result[tap] += dy * hit
        return _inside(result, w)
    return channels_back(xp, _by_planes(xp, grad, xp.empty(x.shape, dy.dtype), dy, x, y), w.last)


def _max_pool_select(xp, g, x, y, kernel, stride, pad, convention, global_pool, layout):
    """The elements of ``g`` at the places of the maxima of ``x``."""
    w = Windows(x.shape, kernel, stride, pad, convention, global_pool, layout)
    x, y, g = (channels_first(xp, a, w.last) for a in (x, y, g))
    xpad, gpad = w.padded(xp, x, _lowest(xp, x.dtype)), w.padded(xp, g, 0)
    result = xp.zeros(y.shape, g.dtype)
    for tap, hit in _first_hits(xp, xpad, y, w):
        result += gpad[tap] * hit
    return channels_back(xp, result, w.last)


operator("max_pool_grad", "dy, x, y, " + _ATTRS, inputs="dy, x, y", infer=lambda dy, x, y, **_: spec(x.shape, dy.dtype),
         kernel=_max_pool_grad,
         vjp=lambda F, g, x, out, **attrs: (F.max_pool_select(g, x[1], x[2], **attrs), None, None))
operator("max_pool_select", "g, x, y, " + _ATTRS, inputs="g, x, y", infer=lambda g, x, y, **_: spec(y.shape, g.dtype),
         kernel=_max_pool_select,
         vjp=lambda F, d, x, out, **attrs: (F.max_pool_grad(d, x[1], x[2], **attrs), None, None))


def _sum_pool_grad(xp, dy, shape, mean, kernel, stride, pad, convention, global_pool, layout):
    """Each window's gradient to all its elements; divided by the window's count if ``mean`` is True (with padding) or
    False (without)."""
    w = Windows(shape, kernel, stride, pad, convention, global_pool, layout)
    dy = channels_first(xp, wide(xp, dy), w.last)
    counts = None if mean is None else w.counts(xp, mean).astype(dy.dtype)
    full = tuple(max(need, n + p) for need, n, p in zip(w.need, w.sizes, w.pad))

    def grad(work):
        if counts is not None:
            work = work / counts
        for axis in reversed(range(len(w.kernel))):
            k, s, o = w.kernel[axis], w.stride[axis], w.out[axis]
            grown = xp.zeros((*work.shape[:axis + 2], full[axis], *work.shape[axis + 3:]), work.dtype)
            before = (slice(None),) * (axis + 2)
            for i in range(k):
                grown[before + (slice(i, i + (o - 1) * s + 1, s),)] += work
            work = grown
        return _inside(work, w)
    result = xp.empty((*dy.shape[:2], *w.sizes), dy.dtype)
    if w.out == (1,) * len(w.out) and full == w.sizes:         # one window over everything: its share for each element
        result[...] = dy if counts is None else dy / counts
    else:
        _by_planes(xp, grad, result, dy)
    return channels_back(xp, result, w.last)


def _sum_pool_grad_vjp(F, g, x, y, shape, mean, kernel, stride, pad, convention, global_pool, layout):
    return F.pooling(g, kernel=kernel, stride=stride, pad=pad, pooling_convention=convention, global_pool=global_pool,
                     layout=layout, pool_type="sum" if mean is None else "avg", count_include_pad=mean)


operator("sum_pool_grad", "dy, shape, mean, " + _ATTRS, inputs="dy", kernel=_sum_pool_grad, vjp=_sum_pool_grad_vjp,
         infer=lambda dy, shape, **_: spec(shape, dy.dtype))

# -- windows of variable size --------------------------------------------------------------------------------------


def _edges(n, out):
    """Start and stop of ``out`` windows that cover ``n`` elements, overlapping where they do not divide."""
    return [(i * n // out, -(-(i + 1) * n // out)) for i in range(out)]


def averaging_matrix(xp, n, out, dtype):
    """(out, n): row i averages window i."""
    result = xp.zeros((out, n), dtype)
    for i, (start, stop) in enumerate(_edges(n, out)):
        result[i, start:stop] = 1 / max(stop - start, 1)
    return result


def _adaptive_sizes(shape, output_size):
    if len(shape) != 4:
        raise ShapeError(f"adaptive pooling: data must have 4 axes, not shape {shape}")
    if isinstance(output_size, tuple) and len(output_size) == 1:
        output_size = output_size[0]
    return per_axis(output_size, 2, 1, "output_size", "adaptive pooling")


def _infer_adaptive(data, output_size):
    check_float("adaptive pooling", data)
    return spec((*data.shape[:2], *_adaptive_sizes(data.shape, output_size)), data.dtype)


def _adaptive_avg(xp, data, output_size):
    """Averages over ``output_size`` (height, width) windows that cover the last two axes; one number is both, None and
    () mean 1 by 1."""
    h, w = _adaptive_sizes(data.shape, output_size)
    x = wide(xp, data)
    return xp.matmul(xp.matmul(averaging_matrix(xp, x.shape[2], h, x.dtype), x),
                     averaging_matrix(xp, x.shape[3], w, x.dtype).T)


def _adaptive_avg_grad(xp, dy, shape):
    dy = wide(xp, dy)
    return xp.matmul(xp.matmul(averaging_matrix(xp, shape[2], dy.shape[2], dy.dtype).T, dy),
                     averaging_matrix(xp, shape[3], dy.shape[3], dy.dtype))


operator("adaptive_avg_pooling", "data, output_size=(), out=None", inputs="data", kernel=_adaptive_avg,
         npx="adaptive_avg_pooling2d", nd="_contrib_AdaptiveAvgPooling2D",
         infer=_infer_adaptive,
         vjp=lambda F, dy, x, y, output_size: F.adaptive_avg_grad(dy, shape=x[0].shape))
operator("adaptive_avg_grad", "dy, shape", inputs="dy", kernel=_adaptive_avg_grad,
         infer=lambda dy, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape: F.adaptive_avg_pooling(g, output_size=x[0].shape[2:]))
