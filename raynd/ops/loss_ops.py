"""smooth_l1 and the choice of the largest elements (topk)."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import as_dtype, normalize_axis, spec
from .elementwise import infer_float
from .registry import operator
from .sorting import stable_argsort

# -- smooth_l1 -----------------------------------------------------------------------------------------------------


def _smooth_l1(xp, data, scalar):
    """``0.5 (scalar x)^2`` where |x| < 1 / scalar^2, else ``|x| - 0.5 / scalar^2`` (Girshick 2015)."""
    s2 = scalar * scalar
    size = xp.abs(data)
    return xp.where(size < 1 / s2, 0.5 * s2 * data * data, size - 0.5 / s2)


def _infer_smooth_l1(data, scalar):
    if scalar == 0:
        raise ShapeError("smooth_l1: scalar must not be 0")
    return infer_float(data)


def _smooth_l1_vjp(F, dy, x, y, scalar):
    s2 = scalar * scalar
    return dy * F.clip(x[0] * s2, -1.0, 1.0)


operator("smooth_l1", "data, scalar=1.0, out=None", inputs="data", infer=_infer_smooth_l1, kernel=_smooth_l1,
         vjp=_smooth_l1_vjp, npx="smooth_l1", nd="smooth_l1")

# -- topk ----------------------------------------------------------------------------------------------------------

TOPK_KINDS = ("indices", "value", "mask", "both")


def _topk_shape(shape, axis, k):
    """(shape of the result, axis, k): axis None flattens, k below 1 means all."""
    if axis is None:
        size = 1
        for n in shape:
            size *= n
        shape, axis = (size,), 0
    axis = normalize_axis(axis, len(shape))
    if not isinstance(k, int) or k > shape[axis]:
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


def _topk_order(xp, data, axis, k, is_ascend):
    """(data, axis, integer indices of the chosen elements in order); equal elements keep their order."""
    _, at, k = _topk_shape(data.shape, axis, k)
    if axis is None:
        data = data.reshape(-1)
    if is_ascend:
        order = stable_argsort(xp, data, at)
    else:
        order = xp.flip(data.shape[at] - 1 - stable_argsort(xp, xp.flip(data, at), at), at)
    return data, at, order[(slice(None),) * at + (slice(0, k),)]


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
