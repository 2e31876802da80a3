"""Maxima over parts of regions of interest (Girshick 2015)."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import is_float, spec
from .indexing import add_rows
from .registry import operator
from .softmax import wide


def _infer_roi(data, rois, pooled_size, spatial_scale):
    if len(data.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 5:
        raise ShapeError(f"roi_pooling: data must have 4 axes and rois shape (regions, 5), got {data.shape} and "
                         f"{rois.shape}")
    if not is_float(data.dtype):
        raise ArgumentError(f"roi_pooling needs floating data, not {data.dtype}")
    size = _pooled(pooled_size)
    shape = (rois.shape[0], data.shape[1], *size)
    return spec(shape, data.dtype), spec(shape, "int64")


def _pooled(pooled_size):
    size = (pooled_size, pooled_size) if isinstance(pooled_size, int) else pooled_size
    if size is None or len(size) != 2 or any(n < 1 for n in size):
        raise ArgumentError(f"roi_pooling: pooled_size must be two positive integers, not {pooled_size!r}")
    return tuple(size)


def _bins(xp, first, last, count, n):
    """Start and stop (regions, count) of the parts of regions from pixel ``first`` to ``last``, within [0, n)."""
    size = xp.maximum(last - first + 1, 1)[:, None]
    number = xp.arange(count)
    start, stop = number * size // count, -(-(number + 1) * size // count)
    return xp.clip(start + first[:, None], 0, n), xp.clip(stop + first[:, None], 0, n)


def _roi_pooling(xp, data, rois, pooled_size, spatial_scale):
    """Maxima over ``pooled_size`` parts of each region (Girshick 2015), and where they are (-1: an empty part).

    ``rois``: rows (batch index, left, top, right, bottom), both ends included, scaled by ``spatial_scale`` and rounded.
    Empty parts, and regions whose batch index does not exist, give 0.
    """
    ph, pw = _pooled(pooled_size)
    n, c, height, width = data.shape
    out = xp.zeros((rois.shape[0], c, ph, pw), data.dtype)
    where = xp.full(out.shape, -1, "int64")
    if not out.size:
        return out, where
    place = wide(xp, rois)
    corner = place[:, 1:] * spatial_scale
    corner = (xp.sign(corner) * xp.floor(xp.abs(corner) + 0.5)).astype("int64")     # halves away from zero
    y0, y1 = _bins(xp, corner[:, 1], corner[:, 3], ph, height)
    x0, x1 = _bins(xp, corner[:, 0], corner[:, 2], pw, width)
    tall, broad = (y1 - y0).max(axis=1).tolist(), (x1 - x0).max(axis=1).tolist()
    planes = xp.ascontiguousarray(data.reshape(n, c, height * width).transpose(0, 2, 1))
    for r, b in enumerate(place[:, 0].tolist()):
        if not 0 <= b < n or min(tall[r], broad[r]) < 1:
            continue
        ys, xs = xp.arange(tall[r])[:, None] + y0[r], xp.arange(broad[r])[:, None] + x0[r]     # (places, parts)
        inside = ((ys < y1[r])[:, None, :, None] & (xs < x1[r])[None, :, None, :]).reshape(-1, ph * pw)
        pixels = (xp.minimum(ys, height - 1) * width)[:, None, :, None] + xp.minimum(xs, width - 1)[None, :, None, :]
        pixels = pixels.reshape(-1, ph * pw)
        values = xp.where(inside[..., None], planes[int(b)][pixels], -xp.inf)                  # (places, parts, c)
        best, first = values.max(axis=0), pixels[0][:, None]
        for k in range(values.shape[0] - 1, -1, -1):
            first = xp.where(values[k] == best, pixels[k][:, None], first)
        filled = inside[0][:, None]
        out[r] = xp.where(filled, best, 0).T.reshape(c, ph, pw)
        where[r] = xp.where(filled, first, -1).T.reshape(c, ph, pw)
    return out, where


def _roi_grad(xp, dy, rois, where, shape):
    n, c, height, width = shape
    planes = (rois[:, 0].astype("int64")[:, None] * c + xp.arange(c))[:, :, None, None]
    places = planes * (height * width) + where
    kept = where >= 0
    return add_rows(xp, math.prod(shape), places[kept], dy[kept]).reshape(shape)


operator("roi_pooling", "data, rois, pooled_size=None, spatial_scale=1.0, out=None", inputs="data, rois", outputs=1,
         infer=_infer_roi, kernel=_roi_pooling, npx="roi_pooling", nd="ROIPooling", first_order_only=True,
         vjp=lambda F, dy, x, y, pooled_size, spatial_scale: (
             None if dy[0] is None else F.roi_pooling_grad(dy[0], x[1], y[1], shape=x[0].shape), None))
operator("roi_pooling_grad", "dy, rois, where, shape", inputs="dy, rois, where", kernel=_roi_grad,
         infer=lambda dy, rois, where, shape: spec(shape, dy.dtype))
