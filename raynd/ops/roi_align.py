"""Averages over regions of interest: bilinear samples in upright regions (He et al. 2017) and rotated ones (Ma et al.
2018).

Regions differ in size, so the kernels go over regions, and treat all channels and bins of one at once. The averages of
an upright region are separable: a matrix for its rows and one for its columns, with bilinear weights as elements.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float, spec
from .registry import operator
from .softmax import wide


def _check(function, data, rois, pooled_size, columns):
    """``pooled_size``, if all inputs fit; else raise."""
    if not isinstance(data, ArraySpec) or data.ndim != 4 or 0 in data.shape[2:]:
        raise ShapeError(f"{function}: data must be (N, C, H, W), not of shape {getattr(data, 'shape', ())}")
    if not isinstance(rois, ArraySpec) or rois.ndim != 2 or rois.shape[1] != columns:
        raise ShapeError(f"{function}: rois must be (regions, {columns}), not of shape {getattr(rois, 'shape', ())}")
    if not is_float(data.dtype) or rois.dtype != data.dtype:
        raise ArgumentError(f"{function}: data and rois must have one floating dtype, not {data.dtype} and "
                            f"{rois.dtype}; use astype")
    if isinstance(pooled_size, tuple) and len(pooled_size) == 2 and all(isinstance(n, int) and n > 0
                                                                         for n in pooled_size):
        return pooled_size
    raise ShapeError(f"{function}: pooled_size must be two positive ints (height, width), not {pooled_size!r}")


def _images(function, batch, count):
    """The image of each region as Python ints; a negative number means none."""
    result = [int(b) for b in batch.tolist()]
    for b in result:
        if b >= count:
            raise ValueError(f"{function}: a region lies in image {b}, but there are {count}")
    return result


def _pixels(xp, position, n, valid=True):
    """The two pixels of [0, n) that each position lies between, as (index, weight) each. Positions outside [-1, n], and
    those not ``valid``, weigh nothing; others outside count as the nearest pixel."""
    ok = ((position >= -1) & (position <= n) & valid).astype(position.dtype)
    position = xp.where(ok, position, 0).clip(0, n - 1)
    low = position.astype("int64")
    fraction = position - low
    return (low, ok * (1 - fraction)), (xp.minimum(low + 1, n - 1), ok * fraction)


# -- averages ------------------------------------------------------------------------------------------------------

_ALIGN = "pooled_size, spatial_scale, sample_ratio=-1, position_sensitive=False, aligned=False"


def _infer_align(data, rois, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned):
    ph, pw = _check("ROIAlign", data, rois, pooled_size, 5)
    channels = data.shape[1]
    if position_sensitive:
        if channels % (ph * pw):
            raise ShapeError(f"ROIAlign: position_sensitive needs channels that {ph} * {pw} divides, not {channels}")
        channels //= ph * pw
    return spec((rois.shape[0], channels, ph, pw), data.dtype)


def _grid_counts(xp, size, bins, ratio):
    """How many samples a bin has along one axis, for each region."""
    return xp.full(size.shape, ratio, "int64") if ratio > 0 else xp.ceil(size / bins).astype("int64")


def _averaging(xp, start, size, bins, n, ratio):
    """(matrices (regions, bins, n), first and last + 1 pixel that each region uses): averages along one axis."""
    counts = _grid_counts(xp, size, bins, ratio)[:, None]
    step = (size / bins)[:, None]
    result = xp.zeros((size.shape[0] * bins, n), size.dtype)
    rows = xp.arange(size.shape[0] * bins)
    for i in range(int(counts.max())):
        place = start[:, None] + xp.arange(bins) * step + (i + 0.5) * step / counts
        for pixel, weight in _pixels(xp, place.astype(size.dtype), n, i < counts):
            result[rows, pixel.reshape(-1)] += (weight / counts).astype(size.dtype).reshape(-1)
    result = result.reshape(-1, bins, n)
    used = (result != 0).any(axis=1)
    stop = xp.where(used.any(axis=1), n - used[:, ::-1].argmax(axis=1), 0)
    return result, used.argmax(axis=1).tolist(), stop.tolist()


def _regions(xp, rois, shape, pooled_size, spatial_scale, sample_ratio, aligned):
    """For each region of an image: (number, image, row matrix, column matrix, part of the image)."""
    n, _, h, w = shape
    place = wide(xp, rois)
    if not place.shape[0]:
        return
    corner = place[:, 1:] * spatial_scale - (0.5 if aligned else 0)
    width, height = corner[:, 2] - corner[:, 0], corner[:, 3] - corner[:, 1]
    if not aligned:
        width, height = xp.maximum(width, 1), xp.maximum(height, 1)
    elif not bool(((width > 0) & (height > 0)).all()):
        raise ValueError("ROIAlign: with aligned=True, all regions must have a positive width and height")
    rows, top, bottom = _averaging(xp, corner[:, 1], height, pooled_size[0], h, sample_ratio)
    columns, left, right = _averaging(xp, corner[:, 0], width, pooled_size[1], w, sample_ratio)
    for r, b in enumerate(_images("ROIAlign", place[:, 0], n)):
        if b >= 0 and bottom[r] > top[r] and right[r] > left[r]:
            ys, xs = slice(top[r], bottom[r]), slice(left[r], right[r])
            yield r, b, rows[r, :, ys], columns[r, :, xs], (slice(None), ys, xs)


def _align(xp, data, rois, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned):
    """Averages of bilinear samples in each bin of each region: (regions, C, *pooled_size).

    ``data`` (N, C, H, W); ``rois`` (regions, 5): image, x1, y1, x2, y2, the last four times ``spatial_scale``; a
    negative image gives zeros. ``sample_ratio``: samples a bin along each axis, else as many as it has pixels.
    ``aligned``: pixels have their centres at halves. ``position_sensitive``: each bin has channels of its own (C is
    divided by their number).
    """
    ph, pw = pooled_size
    x = wide(xp, data)
    channels = data.shape[1] // (ph * pw if position_sensitive else 1)
    result = xp.zeros((rois.shape[0], channels, ph, pw), x.dtype)
    for r, b, rows, columns, part in _regions(xp, rois, data.shape, pooled_size, spatial_scale, sample_ratio, aligned):
        block = x[b][part]
        if position_sensitive:
            block = block.reshape(channels, ph, pw, *block.shape[1:])
            result[r] = ((block * rows[:, None, :, None]).sum(axis=3) * columns).sum(axis=3)
        else:
            result[r] = xp.matmul(xp.matmul(rows, block), columns.T)
    return result


def _align_grad(xp, dy, rois, shape, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned):
    dy = wide(xp, dy)
    result = xp.zeros(shape, dy.dtype)
    for r, b, rows, columns, part in _regions(xp, rois, shape, pooled_size, spatial_scale, sample_ratio, aligned):
        if position_sensitive:
            grown = dy[r][..., None, None] * rows[:, None, :, None] * columns[:, None, :]
            result[b][part] += grown.reshape(shape[1], *grown.shape[3:])
        else:
            result[b][part] += xp.matmul(xp.matmul(rows.T, dy[r]), columns)
    return result


operator("roi_align", f"data, rois, {_ALIGN}, out=None", inputs="data, rois", infer=_infer_align, kernel=_align,
         nd="_contrib_ROIAlign",
         vjp=lambda F, dy, x, y, **attrs: (F.roi_align_grad(dy, x[1], shape=x[0].shape, **attrs), None))
operator("roi_align_grad", f"dy, rois, shape, {_ALIGN}", inputs="dy, rois", kernel=_align_grad,
         infer=lambda dy, rois, shape, **_: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, **attrs: (F.roi_align(g, x[1], **attrs), None))

# -- averages over rotated regions ---------------------------------------------------------------------------------

_ROTATED = "pooled_size, spatial_scale, sampling_ratio=-1"


def _infer_rotated(data, rois, pooled_size, spatial_scale, sampling_ratio):
    size = _check("RROIAlign", data, rois, pooled_size, 6)
    return spec((rois.shape[0], data.shape[1], *size), data.dtype)


def _rotated_regions(xp, rois, shape, pooled_size, spatial_scale, sampling_ratio):
    """For each region of an image: (number, image, (pixels, weights) of its samples, four times, samples a bin as
    (rows, columns))."""
    n, _, h, w = shape
    ph, pw = pooled_size
    place = wide(xp, rois)
    if not place.shape[0]:
        return
    middle, size = place[:, 1:3] * spatial_scale, xp.maximum(place[:, 3:5] * spatial_scale, 1)
    angle = place[:, 5] * (math.pi / 180)
    tall = _grid_counts(xp, size[:, 1], ph, sampling_ratio).tolist()
    broad = _grid_counts(xp, size[:, 0], pw, sampling_ratio).tolist()
    for r, b in enumerate(_images("RROIAlign", place[:, 0], n)):
        if b < 0:
            continue
        gh, gw = tall[r], broad[r]
        v = ((xp.arange(ph * gh).astype(place.dtype) + 0.5) / (ph * gh) - 0.5)[:, None] * size[r, 1]
        u = ((xp.arange(pw * gw).astype(place.dtype) + 0.5) / (pw * gw) - 0.5) * size[r, 0]
        cos, sin = xp.cos(angle[r]), xp.sin(angle[r])
        xs = (u * cos + v * sin + middle[r, 0]).reshape(-1)
        ys = (v * cos - u * sin + middle[r, 1]).reshape(-1)
        taps = [(iy * w + ix, wy * wx) for iy, wy in _pixels(xp, ys, h) for ix, wx in _pixels(xp, xs, w)]
        yield r, b, taps, (gh, gw)


def _rotated(xp, data, rois, pooled_size, spatial_scale, sampling_ratio):
    """Averages of bilinear samples in each bin of rotated regions: (regions, C, *pooled_size).

    ``rois`` (regions, 6): image, x and y of the centre, width, height (all four multiplied by ``spatial_scale``), and
    the angle in degrees. ``sampling_ratio``: samples a bin along each axis, else as many as it has pixels.
    """
    ph, pw = pooled_size
    x = wide(xp, data)
    result = xp.zeros((rois.shape[0], data.shape[1], ph, pw), x.dtype)
    for r, b, taps, (gh, gw) in _rotated_regions(xp, rois, data.shape, pooled_size, spatial_scale, sampling_ratio):
        flat = x[b].reshape(x.shape[1], -1)
        values = sum(flat[:, pixels] * weights for pixels, weights in taps)
        result[r] = values.reshape(-1, ph, gh, pw, gw).mean(axis=(2, 4))
    return result


def _rotated_grad(xp, dy, rois, shape, pooled_size, spatial_scale, sampling_ratio):
    ph, pw = pooled_size
    dy = wide(xp, dy)
    channels, size = shape[1], math.prod(shape[1:])
    result = xp.zeros((shape[0], size), dy.dtype)
    first = xp.arange(channels)[:, None] * (shape[2] * shape[3])
    for r, b, taps, (gh, gw) in _rotated_regions(xp, rois, shape, pooled_size, spatial_scale, sampling_ratio):
        grown = dy[r][:, :, None, :, None] / (gh * gw)
        grown = xp.broadcast_to(grown, (channels, ph, gh, pw, gw)).reshape(channels, -1)
        for pixels, weights in taps:
            result[b] += xp.bincount((first + pixels).reshape(-1), (grown * weights).reshape(-1), minlength=size)
    return result.reshape(shape)


operator("rroi_align", f"data, rois, {_ROTATED}, out=None", inputs="data, rois", infer=_infer_rotated, kernel=_rotated,
         nd="_contrib_RROIAlign",
         vjp=lambda F, dy, x, y, **attrs: (F.rroi_align_grad(dy, x[1], shape=x[0].shape, **attrs), None))
operator("rroi_align_grad", f"dy, rois, shape, {_ROTATED}", inputs="dy, rois", kernel=_rotated_grad,
         infer=lambda dy, rois, shape, **_: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, **attrs: (F.rroi_align(g, x[1], **attrs), None))
