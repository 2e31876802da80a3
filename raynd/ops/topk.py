"""The choice of the largest or smallest elements."""
from __future__ import annotations

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import as_dtype, normalize_axis, spec
from .parallel import run_chunks
from .registry import operator
from .sorting import plain, stable_argsort

TOPK_KINDS = ("indices", "value", "mask", "both")


def _topk_shape(shape, axis, k):
    """(shape of the result, axis, k): axis None flattens, k below 1 means all."""
    if axis is None:
        size = 1
        for n in shape:
            size *= n
        shape, axis = (size,), 0
    axis = normalize_axis(axis, len(shape))
    if not isinstance(k, int):
        raise ArgumentError(f"topk: k must be an integer, not {k!r}")
    if k > shape[axis]:
        raise ShapeError(f"topk: k must be at most {shape[axis]}, the length of the axis, got {k!r}")
    k = k if k > 0 else shape[axis]
    return shape[:axis] + (k,) + shape[axis + 1:], axis, k


def _infer_topk(data, axis, k, ret_typ, is_ascend, dtype):
    if ret_typ not in TOPK_KINDS:
        raise ArgumentError(f"topk: ret_typ must be one of {TOPK_KINDS}, not {ret_typ!r}")
    shape, _, _ = _topk_shape(data.shape, axis, k)
    if ret_typ == "mask":
        return data
    values, indices = spec(shape, data.dtype), spec(shape, as_dtype(dtype))
    return (values, indices) if ret_typ == "both" else values if ret_typ == "value" else indices


_CHUNK = 1 << 17                    # elements of a chunk of rows
_FEW = 8                            # fewer than one in so many elements are selected first, and only then sorted


def top_order(xp, data, axis, k, is_ascend):
    """Indices of the ``k`` first elements of ``data`` along ``axis`` in order; equal elements keep their order."""
    n = data.shape[axis]
    if xp.__name__ == "numpy" and 0 < k * _FEW < n:
        rows = plain(numpy.moveaxis(data, axis, -1))
        if not (rows != rows).any():
            return numpy.moveaxis(_selected(rows, k, is_ascend), -1, axis)
    return stable_argsort(xp, data, axis, not is_ascend)[(slice(None),) * axis + (slice(0, k),)]


def _selected(rows, k, is_ascend):
    """top_order of the last axis, without NaN, in chunks of rows."""
    flat = rows.reshape(-1, rows.shape[-1])
    result = numpy.empty((len(flat), k), "int64")
    step = max(1, _CHUNK // flat.shape[1])

    def select(start, stop):
        result[start:stop] = _select(flat[start:stop], k, is_ascend)
    run_chunks(numpy, [(i, min(i + step, len(flat))) for i in range(0, len(flat), step)], lambda: select)
    return result.reshape(*rows.shape[:-1], k)


def _select(rows, k, is_ascend):
    """A partition finds the k-th element of each row, and what comes before it."""
    at = k - 1 if is_ascend else rows.shape[-1] - k
    last = numpy.partition(rows, at, axis=-1)[..., at:at + 1]
    chosen = rows <= last if is_ascend else rows >= last
    if numpy.count_nonzero(chosen) != len(rows) * k:              # some are equal to the k-th: the first of them count
        equal = rows == last
        chosen ^= equal
        left = k - numpy.count_nonzero(chosen, axis=-1, keepdims=True)
        equal &= numpy.cumsum(equal, axis=-1) <= left
        chosen |= equal
    places = (numpy.flatnonzero(chosen) % rows.shape[1]).reshape(len(rows), k)
    order = stable_argsort(numpy, numpy.take_along_axis(rows, places, -1), -1, not is_ascend)
    return numpy.take_along_axis(places, order, -1)


def _topk_order(xp, data, axis, k, is_ascend):
    """(data, axis, indices of the chosen elements in order)."""
    _, at, k = _topk_shape(data.shape, axis, k)
    if axis is None:
        data = data.reshape(-1)
    return data, at, top_order(xp, data, at, k, is_ascend)


def _topk(xp, data, axis, k, ret_typ, is_ascend, dtype):
    """The ``k`` largest (smallest if ``is_ascend``) elements along ``axis`` (None: of the flattened array), in order.

    ``ret_typ``: their 'indices' (of ``dtype``), 'value', 'both', or a 'mask' of the data's shape with 1 at them. k
    below 1 means all.
    """
    flat, at, order = _topk_order(xp, data, axis, k, is_ascend)
    if ret_typ == "mask":
        mask = xp.zeros(flat.shape, data.dtype)
        xp.put_along_axis(mask, order, 1, at)
        return mask.reshape(data.shape)
    if ret_typ == "indices":
        return order
    values = xp.take_along_axis(flat, order, at)
    return values if ret_typ == "value" else (values, order)


def _topk_vjp(F, dy, x, y, axis, k, ret_typ, is_ascend, dtype):
    if ret_typ in ("indices", "mask"):
        return None
    dy = dy[0] if ret_typ == "both" else dy
    if dy is None:
        return None
    order = F.topk(x[0], axis=axis, k=k, ret_typ="indices", is_ascend=is_ascend, dtype="int64")
    if axis is None:
        flat = F.take_along_axis_grad(dy, order, axis=0, shape=(x[0].size,))
        return F.reshape(flat, newshape=x[0].shape)
    return F.take_along_axis_grad(dy, order, axis=axis, shape=x[0].shape)


operator("topk", "data, axis=-1, k=1, ret_typ='indices', is_ascend=False, dtype='float32', out=None", inputs="data",
         infer=_infer_topk, kernel=_topk, vjp=_topk_vjp, npx="topk", nd="topk", method="topk")
