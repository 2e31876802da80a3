"""Element-wise losses."""
from __future__ import annotations

from ..errors import ShapeError
from .elementwise import infer_float
from .registry import operator


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
