"""Position-sensitive pooling of regions (Dai et al. 2016, R-FCN) and its deformable kind (Dai et al. 2017): each bin of
a region averages channels of its own.

Channel ``(d * group_size + i) * group_size + j`` of the data belongs to output channel d and to group (i, j), the part
of a region in which the bin lies. Pixels are rows of a table of their output channels, so that all bins of many regions
are a sum of chosen rows, and the gradient puts rows there; regions come in chunks of bounded size.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float, spec
from .indexing import add_rows
from .registry import operator
from .softmax import wide

_CHUNK_BYTES = 1 << 25


def _check(function, data, rois, spatial_scale, output_dim, group_size, pooled_size):
    if not isinstance(data, ArraySpec) or data.ndim != 4 or 0 in data.shape[2:]:
        raise ShapeError(f"{function}: data must be (N, C, H, W), not of shape {getattr(data, 'shape', ())}")
    if not isinstance(rois, ArraySpec) or rois.ndim != 2 or rois.shape[1] != 5:
        raise ShapeError(f"{function}: rois must be (regions, 5), not of shape {getattr(rois, 'shape', ())}")
    if not is_float(data.dtype) or rois.dtype != data.dtype:
        raise ArgumentError(f"{function}: data and rois must have one floating dtype, not {data.dtype} and "
                            f"{rois.dtype}; use astype")
    if not isinstance(spatial_scale, (int, float)) or not 0 <= spatial_scale <= 1:
        raise ArgumentError(f"{function}: spatial_scale must lie within 0 and 1, not {spatial_scale}")
    for name, value in (("output_dim", output_dim), ("group_size", group_size), ("pooled_size", pooled_size)):
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"{function}: {name} must be a positive int, not {value!r}")
    if data.shape[1] < output_dim * group_size ** 2:
        raise ShapeError(f"{function}: output_dim={output_dim} and group_size={group_size} need "
                         f"{output_dim * group_size ** 2} channels, the data of shape {data.shape} has fewer")
    return spec((rois.shape[0], output_dim, pooled_size, pooled_size), data.dtype)


class _Table:
    """The pixels of data (N, C, H, W) as rows of the output channels of one class: row
    ``((image * classes + class) * groups + group) * H * W + pixel``."""

    def __init__(self, shape, output_dim, group_size, classes=1):
        self.shape = shape
        self.groups, self.classes, self.width = group_size ** 2, classes, output_dim // classes
        self.used = output_dim * self.groups                      # further channels belong to no output
        self.pixels = shape[2] * shape[3]
        self.count = shape[0] * classes * self.groups * self.pixels

    def rows(self, xp, x):
        split = x[:, :self.used].reshape(self.shape[0], self.classes, self.width, self.groups, self.pixels)
        return xp.ascontiguousarray(split.transpose(0, 1, 3, 4, 2)).reshape(self.count, self.width)

    def data(self, xp, rows):
        """The inverse of ``rows``: zeros in channels that are not used."""
        split = rows.reshape(self.shape[0], self.classes, self.groups, self.pixels, self.width).transpose(0, 1, 4, 2, 3)
        result = xp.zeros(self.shape, rows.dtype)
        result[:, :self.used] = split.reshape(self.shape[0], self.used, *self.shape[2:])
        return result

    def group(self, xp, pooled_size):
        """The group of each bin: (pooled_size, pooled_size)."""
        part = xp.arange(pooled_size) * math.isqrt(self.groups) // pooled_size
        return part[:, None] * math.isqrt(self.groups) + part


def _corners(xp, function, rois, images, scale):
    """(regions that are in an image, its number, (left, top), (right, bottom)) of ``rois``, rounded and scaled."""
    image = rois[:, 0].astype("int64")
    if rois.shape[0] and int(image.max()) >= images:
        raise ValueError(f"{function}: a region lies in image {int(image.max())}, but there are {images}")
    kept = xp.flatnonzero(image >= 0)
    place = wide(xp, rois)[kept, 1:]
    rounded = xp.sign(place) * xp.floor(xp.abs(place) + 0.5)                       # halves away from zero
    scale = rounded.dtype.type(scale)
    return kept, image[kept], rounded[:, :2] * scale, (rounded[:, 2:] + 1) * scale


def _chunks(count, bytes_each):
    step = max(1, _CHUNK_BYTES // max(bytes_each, 1))
    return [slice(start, start + step) for start in range(0, count, step)]


# -- averages of whole bins ----------------------------------------------------------------------------------------

_PSROI = "spatial_scale, output_dim, pooled_size, group_size=0"


def _infer_psroi(data, rois, spatial_scale, output_dim, pooled_size, group_size):
    return _check("PSROIPooling", data, rois, spatial_scale, output_dim, group_size or pooled_size, pooled_size)


def _bins(xp, start, stop, bins, n):
    """First and last + 1 pixel of [0, n) of each bin of each region."""
    size = xp.maximum(stop - start, start.dtype.type(0.1))[:, None] / bins
    number, start = xp.arange(bins).astype(size.dtype), start[:, None]
    low, high = xp.floor(number * size + start), xp.ceil((number + 1) * size + start)
    return xp.clip(low, 0, n).astype("int64"), xp.clip(high, 0, n).astype("int64")


def _pixels_of_bins(xp, table, rois, pooled_size, spatial_scale):
    """For chunks of regions: (regions, pixels in each bin, the number of a bin in the chunk and the row of a pixel in
    it, for all of these pixels)."""
    n, _, height, width = table.shape
    kept, image, low, high = _corners(xp, "PSROIPooling", rois, n, spatial_scale)
    if not kept.size:
        return
    (x0, x1), (y0, y1) = (_bins(xp, low[:, i], high[:, i], pooled_size, size) for i, size in ((0, width), (1, height)))
    tall, broad = xp.maximum(y1 - y0, 0), xp.maximum(x1 - x0, 0)
    most = int((tall.sum(axis=1) * broad.sum(axis=1)).max())
    group = table.group(xp, pooled_size)
    for part in _chunks(kept.size, most * (table.width + 4) * 8):
        counts = tall[part][:, :, None] * broad[part][:, None, :]
        stop = counts.reshape(-1).cumsum()
        place = xp.arange(int(stop[-1]))
        number = xp.searchsorted(stop, place, side="right")
        offset = place - (stop - counts.reshape(-1))[number]
        columns = xp.maximum(xp.broadcast_to(broad[part][:, None, :], counts.shape).reshape(-1)[number], 1)
        first = (image[part][:, None, None] * table.groups + group) * height + y0[part][:, :, None]
        first = (first * width + x0[part][:, None, :]).reshape(-1)[number]
        yield kept[part], counts, number, first + offset // columns * width + offset % columns


def _psroi(xp, data, rois, spatial_scale, output_dim, pooled_size, group_size):
    """Averages of the channels of each bin over its pixels: (regions, output_dim, pooled_size, pooled_size).

    ``data`` (N, C, H, W), C at least ``output_dim * group_size**2`` (``group_size`` 0: as ``pooled_size``); ``rois``
    (regions, 5): image, x1, y1, x2, y2, both ends included, rounded and then multiplied by ``spatial_scale`` (0 to 1).
    Empty bins, and regions of a negative image, give 0. Source: Dai et al. 2016, R-FCN.
    """
    table = _Table(data.shape, output_dim, group_size or pooled_size)
    rows = table.rows(xp, wide(xp, data))
    result = xp.zeros((rois.shape[0], pooled_size, pooled_size, output_dim), rows.dtype)
    for regions, counts, number, row in _pixels_of_bins(xp, table, rois, pooled_size, spatial_scale):
        sums = add_rows(xp, counts.size, number, rows[row]).reshape(*counts.shape, output_dim)
        result[regions] = sums / xp.maximum(counts, 1)[..., None].astype(rows.dtype)
    return result.transpose(0, 3, 1, 2)


def _psroi_grad(xp, dy, rois, shape, spatial_scale, output_dim, pooled_size, group_size):
    table = _Table(shape, output_dim, group_size or pooled_size)
    dy = wide(xp, dy).transpose(0, 2, 3, 1)
    result = xp.zeros((table.count, table.width), dy.dtype)
    for regions, counts, number, row in _pixels_of_bins(xp, table, rois, pooled_size, spatial_scale):
        share = (dy[regions] / xp.maximum(counts, 1)[..., None].astype(dy.dtype)).reshape(-1, output_dim)
        result += add_rows(xp, table.count, row, share[number])
    return table.data(xp, result)


operator("psroi_pooling", f"data, rois, {_PSROI}, out=None", inputs="data, rois", infer=_infer_psroi, kernel=_psroi,
         nd="_contrib_PSROIPooling",
         vjp=lambda F, dy, x, y, **attrs: (F.psroi_pooling_grad(dy, x[1], shape=x[0].shape, **attrs), None))
operator("psroi_pooling_grad", f"dy, rois, shape, {_PSROI}", inputs="dy, rois", kernel=_psroi_grad,
         infer=lambda dy, rois, shape, **_: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, **attrs: (F.psroi_pooling(g, x[1], **attrs), None))

# -- averages of bilinear samples in bins that move ----------------------------------------------------------------

_DEFORMABLE = "spatial_scale, output_dim, group_size, pooled_size, part_size=0, sample_per_part=1, trans_std=0.0, " \
              "no_trans=False"


def _infer_deformable(data, rois, trans, spatial_scale, output_dim, group_size, pooled_size, part_size, sample_per_part,
                      trans_std, no_trans):
    result = _check("DeformablePSROIPooling", data, rois, spatial_scale, output_dim, group_size, pooled_size)
    part = part_size or pooled_size
    if part < 1 or sample_per_part < 1 or not 0 <= trans_std <= 1:
        raise ArgumentError("DeformablePSROIPooling: part_size and sample_per_part must be positive and trans_std "
                            f"within 0 and 1, not {part_size}, {sample_per_part} and {trans_std}")
    if no_trans != (trans is None):
        raise ArgumentError("DeformablePSROIPooling: trans is " + ("not taken with" if no_trans else "needed without")
                            + " no_trans=True")
    if not no_trans:
        shape = getattr(trans, "shape", ())
        if len(shape) != 4 or shape[0] != rois.shape[0] or shape[2:] != (part, part) or shape[1] < 2 or shape[1] % 2:
            raise ShapeError(f"DeformablePSROIPooling: trans must be ({rois.shape[0]} regions, classes * 2, {part}, "
                             f"{part}), not of shape {shape}")
        if output_dim % (shape[1] // 2):
            raise ShapeError(f"DeformablePSROIPooling: the {shape[1] // 2} classes of trans of shape {shape} must "
                             f"divide output_dim={output_dim}")
        if not is_float(trans.dtype):
            raise ArgumentError(f"DeformablePSROIPooling: trans must be floating, not {trans.dtype}")
    return result


class _Samples:
    """Where the samples of moved bins lie. Arrays are (regions, classes, bins down, bins across, samples)."""

    def __init__(self, xp, shape, rois, trans, spatial_scale, output_dim, group_size, pooled_size, part_size,
                 sample_per_part, trans_std, no_trans):
        classes = 1 if no_trans else trans.shape[1] // 2
        self.table = _Table(shape, output_dim, group_size, classes)
        self.xp, self.size, self.samples = xp, pooled_size, sample_per_part
        self.kept, self.image, low, high = _corners(xp, "DeformablePSROIPooling", rois, shape[0], spatial_scale)
        self.start, self.extent = low - 0.5, xp.maximum(high - low, low.dtype.type(0.1))
        self.std = low.dtype.type(trans_std)
        number, parts = xp.arange(pooled_size), part_size or pooled_size
        self.part = (number[:, None] * parts // pooled_size == xp.arange(parts)).astype(low.dtype)
        self.moves = None if no_trans else wide(xp, trans)[self.kept].reshape(self.kept.size, classes, 2, parts, parts)

    def chunks(self):
        """(regions, rest of what :meth:`place` needs) of bounded work."""
        points = self.table.classes * self.size ** 2 * self.samples ** 2
        return _chunks(self.kept.size, points * (self.table.width + 8) * 16)

    def place(self, part):
        """(four pairs (row of the table, (weight, its derivatives by x and y)), how many samples a bin has) of the
        regions ``part``."""
        xp, (height, width) = self.xp, self.table.shape[2:]
        step = self.extent[part] / self.size                                       # (regions, (x, y))
        number = xp.arange(self.size).astype(step.dtype)
        at = number * step[:, :, None] + self.start[part][:, :, None]              # (regions, (x, y), bins)
        x, y = at[:, None, 0, None, :], at[:, None, 1, :, None]                    # (regions, 1, down, across)
        if self.moves is not None:
            x, y = x + self._moved(part, 0), y + self._moved(part, 1)
        inner = xp.arange(self.samples).astype(step.dtype) * (step / self.samples)[:, :, None]
        inner = inner[:, :, None, None, None, None]                                # (regions, (x, y), ..., samples)
        x, y = x[..., None, None] + inner[:, 0], y[..., None, None] + inner[:, 1].swapaxes(4, 5)
        valid = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
        shape = (*valid.shape[:4], self.samples ** 2)
        across, down = (_neighbours(xp, xp.broadcast_to(v, valid.shape).reshape(shape), size)
                        for v, size in ((x, width), (y, height)))
        valid = valid.reshape(shape)
        base = self.image[part][:, None] * self.table.classes + xp.arange(self.table.classes)
        base = base[:, :, None, None, None] * self.table.groups + self.table.group(xp, self.size)[..., None]
        corners = [((base * height + j) * width + i, tuple(xp.where(valid, v, 0) for v in (wx * wy, dx * wy, wx * dy)))
                   for i, wx, dx in across for j, wy, dy in down]
        return corners, valid.sum(axis=4)

    def _moved(self, part, axis):
        """How far the bins move: the part's value times the region's size."""
        parts = self.xp.matmul(self.xp.matmul(self.part, self.moves[part, :, axis]), self.part.T)
        return parts * self.std * self.extent[part, axis][:, None, None, None]

    def to_moves(self, part, gradient, axis):
        """The gradient of ``trans`` along an axis from that of the bins' positions (regions, classes, bins, bins)."""
        scaled = gradient * self.std * self.extent[part, axis][:, None, None, None]
        return self.xp.matmul(self.xp.matmul(self.part.T, scaled), self.part)


def _neighbours(xp, position, n):
    """(pixel, weight, derivative of the weight) of the two pixels beside each position."""
    at = xp.clip(position, 0, n - 1)
    low, high = xp.floor(at), xp.ceil(at)                        # the same at a pixel, and so outside the image
    one = xp.ones_like(at)
    return (low.astype("int64"), 1 - (at - low), -one), (high.astype("int64"), at - low, one)


def _deformable(xp, data, rois, trans, **attrs):
    """Averages of bilinear samples of the channels of each bin: (regions, output_dim, pooled_size, pooled_size).

    ``data`` (N, C, H, W), C at least ``output_dim * group_size**2``; ``rois`` (regions, 5): image, x1, y1, x2, y2, both
    ends included, rounded and then multiplied by ``spatial_scale``; ``trans`` (regions, classes * 2, part_size,
    part_size): how far (x, y) the bins in a part move for a class's output channels, times ``trans_std`` and the
    region's size; none with ``no_trans``. A bin has ``sample_per_part**2`` samples, from its corner on; those outside
    the image do not count. A region of a negative image gives 0. Source: Dai et al. 2017, Deformable Convolutional
    Networks.
    """
    s = _Samples(xp, data.shape, rois, trans, **attrs)
    rows = s.table.rows(xp, wide(xp, data))
    result = xp.zeros((rois.shape[0], s.table.classes, s.size, s.size, s.table.width), rows.dtype)
    for part in s.chunks():
        corners, count = s.place(part)
        sums = sum((rows[row] * weight[..., None]).sum(axis=4) for row, (weight, _, _) in corners)
        result[s.kept[part]] = sums / xp.maximum(count, 1)[..., None].astype(rows.dtype)
    return result.transpose(0, 1, 4, 2, 3).reshape(rois.shape[0], attrs["output_dim"], s.size, s.size)


def _deformable_grad(xp, dy, data, rois, trans, **attrs):
    s = _Samples(xp, data.shape, rois, trans, **attrs)
    rows = s.table.rows(xp, wide(xp, data))
    dy = wide(xp, dy).reshape(rois.shape[0], s.table.classes, s.table.width, s.size, s.size).transpose(0, 1, 3, 4, 2)
    by_rows = xp.zeros_like(rows)
    by_trans = None if trans is None else xp.zeros((trans.shape[0], s.table.classes, 2, *trans.shape[2:]), rows.dtype)
    for part in s.chunks():
        corners, count = s.place(part)
        share = (dy[s.kept[part]] / xp.maximum(count, 1)[..., None].astype(dy.dtype))[..., None, :]
        along = [0, 0]
        for row, (weight, *slopes) in corners:
            put = (share * weight[..., None]).reshape(-1, s.table.width)
            by_rows += add_rows(xp, s.table.count, row.reshape(-1), put)
            if trans is not None:
                value = (rows[row] * share).sum(axis=5)
                along = [a + (value * slope).sum(axis=4) for a, slope in zip(along, slopes)]
        for axis in (0, 1) if trans is not None else ():
            by_trans[s.kept[part], :, axis] = s.to_moves(part, along[axis], axis)
    gradient = s.table.data(xp, by_rows)
    return gradient if trans is None else (gradient, by_trans.reshape(trans.shape))


def _deformable_vjp(F, dy, x, y, **attrs):
    result = F.deformable_psroi_pooling_grad(dy, *x, **attrs)
    return (result, None, None) if x[2] is None else (result[0], None, result[1])


operator("deformable_psroi_pooling", "data, rois, trans=None, spatial_scale=None, output_dim=None, group_size=None, "
         "pooled_size=None, part_size=0, sample_per_part=1, trans_std=0.0, no_trans=False, out=None",
         inputs="data, rois, trans", optional=("trans",), infer=_infer_deformable, kernel=_deformable,
         vjp=_deformable_vjp, first_order_only=True, nd="_contrib_DeformablePSROIPooling")
operator("deformable_psroi_pooling_grad", f"dy, data, rois, trans, {_DEFORMABLE}", inputs="dy, data, rois, trans",
         optional=("trans",), kernel=_deformable_grad, first_order_only=True,
         infer=lambda dy, data, rois, trans, **_: data if trans is None else (data, trans))
