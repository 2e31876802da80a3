"""Maxima over parts of regions of interest (Girshick 2015)."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .indexing import add_rows
from .parallel import run_chunks
from .registry import check_float, operator
from .softmax import wide

_CHUNK_BYTES = 1 << 20              # of the maxima of some regions, which every pass updates


def _infer_roi(data, rois, pooled_size, spatial_scale):
    if len(data.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 5:
        raise ShapeError(f"roi_pooling: data must have 4 axes and rois shape (regions, 5), got {data.shape} and "
                         f"{rois.shape}")
    check_float("roi_pooling", data)
    size = _pooled(pooled_size)
    shape = (rois.shape[0], data.shape[1], *size)
    return spec(shape, data.dtype), spec(shape, "int32")


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
    count = rois.shape[0]
    out, where = xp.zeros((count, ph * pw, c), data.dtype), xp.full((count, ph * pw, c), -1, "int32")
    place = wide(xp, rois)
    image = place[:, 0]
    corner = place[:, 1:] * spatial_scale
    corner = (xp.sign(corner) * xp.floor(xp.abs(corner) + 0.5)).astype("int64")     # halves away from zero
    y0, y1 = _bins(xp, corner[:, 1], corner[:, 3], ph, height)
    x0, x1 = _bins(xp, corner[:, 0], corner[:, 2], pw, width)
    tall, broad = (y1 - y0).max(axis=1), (x1 - x0).max(axis=1)
    regions = xp.flatnonzero((image >= 0) & (image < n) & (tall > 0) & (broad > 0))
    regions = regions[xp.lexsort(xp.stack([broad[regions], tall[regions]]))]        # alike ones together
    planes = xp.ascontiguousarray(data.reshape(n, c, height * width).transpose(0, 2, 1)).reshape(-1, c)
    step = max(1, _CHUNK_BYTES // max(ph * pw * c * data.dtype.itemsize, 1))

    def pool(first, last):
        r = regions[first:last]
        columns = int(broad[r].max())
        base = (image[r].astype("int64") * (height * width))[:, None, None]
        best, tap = xp.full((r.size * ph * pw, c), -xp.inf, data.dtype), xp.zeros((r.size * ph * pw, c), "int32")
        for k in range(int(tall[r].max()) * columns):           # a pixel of every part at a time
            dy, dx = divmod(k, columns)
            ys, xs = y0[r] + dy, x0[r] + dx
            pixels = base + ys.clip(0, height - 1)[:, :, None] * width + xs.clip(0, width - 1)[:, None, :]
            inside = (ys < y1[r])[:, :, None] & (xs < x1[r])[:, None, :]
            _take_maximum(xp, best, tap, k, planes, pixels.reshape(-1), inside.reshape(-1))
        filled = ((y1 > y0)[r][:, :, None] & (x1 > x0)[r][:, None, :]).reshape(r.size, ph * pw, 1)
        start = (y0[r][:, :, None] * width + x0[r][:, None, :]).reshape(r.size, ph * pw, 1)
        tap = tap.reshape(r.size, ph * pw, c)
        out[r] = xp.where(filled, best.reshape(tap.shape), 0)
        where[r] = xp.where(filled, start + tap // columns * width + tap % columns, -1)
    run_chunks(xp, [(i, min(i + step, regions.size)) for i in range(0, regions.size, step)], lambda: pool)
    return tuple(xp.ascontiguousarray(a.transpose(0, 2, 1)).reshape(count, c, ph, pw) for a in (out, where))


def _take_maximum(xp, best, tap, k, planes, pixels, inside):
    """Update ``best`` (parts, c) and ``tap``, the number of the first element that equals it, with element ``k`` of
    every part: ``planes[pixels]`` where ``inside``."""
    rows = slice(None)
    if not bool(inside.all()):
        rows = xp.flatnonzero(inside)
        pixels = pixels[rows]
    values, before = planes[pixels], best[rows]
    higher = values > before
    if isinstance(rows, slice):
        xp.maximum(best, values, out=best)
        xp.copyto(tap, k, where=higher)
    else:
        best[rows] = xp.maximum(before, values)
        tap[rows] = xp.where(higher, k, tap[rows])


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
