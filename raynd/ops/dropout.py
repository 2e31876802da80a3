"""Dropout's operator; whether it runs at all is decided by ``npx.dropout``."""
from __future__ import annotations

from ..spec import is_float, normalize_axis, spec
from .elementwise import default_float
from .registry import operator


def _infer_dropout(x, p, axes):
    for a in axes:
        normalize_axis(a, len(x.shape))
    result = x if is_float(x.dtype) else spec(x.shape, default_float())
    return result, spec(_mask_shape(x.shape, axes), "bool")


def _mask_shape(shape, axes):
    shared = {a % len(shape) for a in axes}
    return tuple(1 if i in shared else n for i, n in enumerate(shape))


def _dropout(xp, x, p, axes, rng):
    """The data with dropped elements, and the mask of those kept."""
    keep = rng.random(_mask_shape(x.shape, axes), dtype="float32") >= p
    return _scaled(xp, x, keep, p), keep


def _scaled(xp, x, keep, p):
    if p == 1:
        return xp.zeros_like(x)
    result = xp.multiply(x, x.dtype.type(1 / (1 - p)) if is_float(x.dtype) else 1 / (1 - p))
    return xp.multiply(result, keep, dtype=result.dtype)


def _dropout_vjp(F, dy, x, y, p, axes):
    return None if dy[0] is None else F.dropout_apply(dy[0], y[1], p=p)


operator("dropout", "x, p, axes", inputs="x", draws=1, outputs=1, infer=_infer_dropout, kernel=_dropout,
         vjp=_dropout_vjp, doc="Random elements set to 0, the others scaled; and the mask of those kept.")
operator("dropout_apply", "x, keep, p", inputs="x, keep", infer=lambda x, keep, p: x, kernel=_scaled,
         vjp=lambda F, dy, x, y, p: (F.dropout_apply(dy, x[1], p=p), None))
