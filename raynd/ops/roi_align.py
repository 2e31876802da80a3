"""Averages over regions of interest: bilinear samples in upright regions (He et al. 2017) and rotated ones (Ma et al.
2018).

Averages of all regions are one product of a sparse matrix of bilinear weights with the pixels, the gradient a product
with its transpose. The weights of an upright region are separable, into those of its rows and of its columns.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float, spec
from .parallel import run_chunks
from .registry import operator
from .runs import chunks_of_runs, runs
from .softmax import wide
from .special import csr_matrix

_ENTRIES = 1 << 17                  # of the sparse matrix that exist at once


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


def _images(function, xp, batch, count):
    """The image of each region as an integer; a negative one means none."""
    result = batch.astype("int64")
    if result.size and int(result.max()) >= count:
        raise ValueError(f"{function}: a region lies in image {int(result.max())}, but there are {count}")
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
    """Matrices (regions, bins, n) that average along one axis."""
    counts = _grid_counts(xp, size, bins, ratio)[:, None]
    step = (size / bins)[:, None]
    result = xp.zeros((size.shape[0] * bins, n), size.dtype)
    rows = xp.arange(size.shape[0] * bins)
    for i in range(int(counts.max()) if counts.size else 0):
        place = start[:, None] + xp.arange(bins) * step + (i + 0.5) * step / counts
        for pixel, weight in _pixels(xp, place.astype(size.dtype), n, i < counts):
            result[rows, pixel.reshape(-1)] += (weight / counts).astype(size.dtype).reshape(-1)
    return result.reshape(-1, bins, n)


def _corners(xp, rois, spatial_scale, aligned):
    """(image, x, y, width, height) of each region, in pixels."""
    place = wide(xp, rois)
    corner = place[:, 1:] * spatial_scale - (0.5 if aligned else 0)
    width, height = corner[:, 2] - corner[:, 0], corner[:, 3] - corner[:, 1]
    if not aligned:
        width, height = xp.maximum(width, 1), xp.maximum(height, 1)
    elif not bool(((width > 0) & (height > 0)).all()):
        raise ValueError("ROIAlign: with aligned=True, all regions must have a positive width and height")
    return place[:, 0], corner[:, 0], corner[:, 1], width, height


def _span(xp, weights):
    """(first, count) of the elements of each row of ``weights`` (regions, bins, n) from its first to its last that is
    not 0."""
    used = weights != 0
    first = used.argmax(axis=2)
    return first, xp.where(used.any(axis=2), weights.shape[2] - used[..., ::-1].argmax(axis=2) - first, 0)


def _upright(xp, rois, shape, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned):
    """The :class:`_Averages` of upright regions."""
    n, channels, h, w = shape
    ph, pw = pooled_size
    image, x, y, width, height = _corners(xp, rois, spatial_scale, aligned)
    image = _images("ROIAlign", xp, image, n)
    rows, columns = _averaging(xp, y, height, ph, h, sample_ratio), _averaging(xp, x, width, pw, w, sample_ratio)
    (top, tall), (left, broad) = _span(xp, rows), _span(xp, columns)
    counts = (tall[:, :, None] * broad[:, None, :]).reshape(-1, ph * pw) * (image >= 0)[:, None]

    def entries(first, last):
        part = counts[first:last].reshape(-1)
        number, t = runs(xp, xp.zeros_like(part), part)
        region, at = first + number // (ph * pw), number % (ph * pw)
        i, j = at // pw, at % pw
        iy, ix = top[region, i] + t // broad[region, j], left[region, j] + t % broad[region, j]
        plane = image[region] * (ph * pw) + at if position_sensitive else image[region]
        return (plane * h + iy) * w + ix, rows[region, i, iy] * columns[region, j, ix]
    return _Averages(xp, shape, pooled_size, counts, entries, position_sensitive)


class _Averages:
    """The averages of regions as a sparse matrix: a row for each bin of each region, a column for each pixel of each
    image (and, if ``position_sensitive``, of each group of channels that belongs to a bin).

    ``counts`` (regions, bins): how many entries each bin has; ``entries(first, last)``: the (column, weight) of all
    entries of some regions, bin by bin. The matrix exists for some regions at a time.
    """

    def __init__(self, xp, shape, pooled_size, counts, entries, position_sensitive=False):
        self.xp, self.shape, self.size, self.counts, self.entries = xp, shape, tuple(pooled_size), counts, entries
        self.groups = math.prod(pooled_size) if position_sensitive else 1
        self.channels, self.pixels = shape[1] // self.groups, shape[2] * shape[3]
        self.chunks = list(chunks_of_runs(xp, counts.sum(axis=1), _ENTRIES))

    def matrix(self, first, last, dtype):
        """The rows of the regions from ``first`` to before ``last``."""
        xp = self.xp
        part = self.counts[first:last].reshape(-1)
        column, weight = self.entries(first, last)
        bounds = xp.concatenate([xp.zeros(1, part.dtype), xp.cumsum(part)])
        return csr_matrix(xp, weight.astype(dtype, copy=False), column, bounds,
                          (part.size, self.shape[0] * self.groups * self.pixels))

    def forward(self, data):
        """Averages (regions, C, *size) of ``data`` (N, C, H, W)."""
        n, c, g, p = self.shape[0], self.channels, self.groups, self.pixels
        planes = self.xp.ascontiguousarray(data.reshape(n, c, g, p).transpose(0, 2, 3, 1)).reshape(n * g * p, c)
        result = self.xp.empty((len(self.counts), c, math.prod(self.size)), data.dtype)

        def average(first, last):
            values = self.matrix(first, last, data.dtype) @ planes
            result[first:last] = values.reshape(last - first, -1, c).transpose(0, 2, 1)
        run_chunks(self.xp, self.chunks, lambda: average)
        return result.reshape(-1, c, *self.size)

    def backward(self, dy):
        """The gradient of ``data`` for that of the averages (regions, C, *size): the product with the transpose."""
        n, c, g, p = self.shape[0], self.channels, self.groups, self.pixels
        bins = dy.reshape(len(self.counts), c, math.prod(self.size)).transpose(0, 2, 1)
        parts = []

        def worker():
            total = self.xp.zeros((n * g * p, c), dy.dtype)
            parts.append(total)

            def spread(first, last):
                nonlocal total
                rows = self.xp.ascontiguousarray(bins[first:last]).reshape(-1, c)
                total += self.matrix(first, last, dy.dtype).T @ rows
            return spread
        run_chunks(self.xp, self.chunks, worker)
        result = sum(parts[1:], start=parts[0])
        return result.reshape(n, g, p, c).transpose(0, 3, 1, 2).reshape(self.shape)


def _align(xp, data, rois, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned):
    """Averages of bilinear samples in each bin of each region: (regions, C, *pooled_size).

    ``data`` (N, C, H, W); ``rois`` (regions, 5): image, x1, y1, x2, y2, the last four times ``spatial_scale``; a
    negative image gives zeros. ``sample_ratio``: samples a bin along each axis, else as many as it has pixels.
    ``aligned``: pixels have their centres at halves. ``position_sensitive``: each bin has channels of its own (C is
    divided by their number).
    """
    averages = _upright(xp, rois, data.shape, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned)
    return averages.forward(wide(xp, data))


def _align_grad(xp, dy, rois, shape, **attrs):
    return _upright(xp, rois, shape, **attrs).backward(wide(xp, dy))


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


def _turned(xp, rois, shape, pooled_size, spatial_scale, sampling_ratio):
    """The :class:`_Averages` of rotated regions."""
    n, _, h, w = shape
    ph, pw = pooled_size
    place = wide(xp, rois)
    image = _images("RROIAlign", xp, place[:, 0], n)
    middle, size = place[:, 1:3] * spatial_scale, xp.maximum(place[:, 3:5] * spatial_scale, 1)
    angle = place[:, 5] * (math.pi / 180)
    cos, sin = xp.cos(angle), xp.sin(angle)
    gh, gw = _grid_counts(xp, size[:, 1], ph, sampling_ratio), _grid_counts(xp, size[:, 0], pw, sampling_ratio)
    samples = xp.broadcast_to((gh * gw * (image >= 0))[:, None], (len(image), ph * pw))

    def entries(first, last):
        part = samples[first:last].reshape(-1)
        number, t = runs(xp, xp.zeros_like(part), part)
        r, at = first + number // (ph * pw), number % (ph * pw)
        v = ((at // pw * gh[r] + t // gw[r] + 0.5) / (ph * gh[r]) - 0.5).astype(place.dtype) * size[r, 1]
        u = ((at % pw * gw[r] + t % gw[r] + 0.5) / (pw * gw[r]) - 0.5).astype(place.dtype) * size[r, 0]
        xs, ys = u * cos[r] + v * sin[r] + middle[r, 0], v * cos[r] - u * sin[r] + middle[r, 1]
        share, base = 1 / (gh * gw)[r].astype(place.dtype), image[r] * (h * w)
        taps = [(base + iy * w + ix, wy * wx * share)
                for iy, wy in _pixels(xp, ys, h) for ix, wx in _pixels(xp, xs, w)]
        return tuple(xp.stack(part, axis=1).reshape(-1) for part in zip(*taps))
    return _Averages(xp, shape, pooled_size, 4 * samples, entries)


def _rotated(xp, data, rois, pooled_size, spatial_scale, sampling_ratio):
    """Averages of bilinear samples in each bin of rotated regions: (regions, C, *pooled_size).

    ``rois`` (regions, 6): image, x and y of the centre, width, height (all four multiplied by ``spatial_scale``), and
    the angle in degrees. ``sampling_ratio``: samples a bin along each axis, else as many as it has pixels.
    """
    averages = _turned(xp, rois, data.shape, pooled_size, spatial_scale, sampling_ratio)
    return averages.forward(wide(xp, data))


def _rotated_grad(xp, dy, rois, shape, **attrs):
    return _turned(xp, rois, shape, **attrs).backward(wide(xp, dy))


operator("rroi_align", f"data, rois, {_ROTATED}, out=None", inputs="data, rois", infer=_infer_rotated, kernel=_rotated,
         nd="_contrib_RROIAlign",
         vjp=lambda F, dy, x, y, **attrs: (F.rroi_align_grad(dy, x[1], shape=x[0].shape, **attrs), None))
operator("rroi_align_grad", f"dy, rois, shape, {_ROTATED}", inputs="dy, rois", kernel=_rotated_grad,
         infer=lambda dy, rois, shape, **_: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, **attrs: (F.rroi_align(g, x[1], **attrs), None))
