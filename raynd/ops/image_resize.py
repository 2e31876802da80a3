"""Resizing images with the results of OpenCV's ``resize`` (its version 3.4, after its documentation and by comparison).

All methods are separable. An axis is resized by *taps*: each new pixel is a sum of a few old ones, ``index`` (taps, new
size), times ``weight`` (taps, new size). Pixels have their centres at halves, and what lies beyond an edge is the
edge's pixel. The columns are resized first, then the rows.

Images of uint8 are computed as OpenCV does it, in integers: weights are multiples of 1/2048 (of 1/256 in method 5), and
intermediate sums are cut off and rounded at the same places, so that results agree with it to the last bit (but for
about one pixel in a million in method 2, where OpenCV itself rounds halves up in some columns and to even in others).
Floats are computed in floats, with the weights of single precision that OpenCV uses for doubles too.

The adjoint (the gradient) has the transposed taps, and needs no addition into shared places.
"""
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import is_float, spec
from .image import check_image, positive_int
from .registry import operator
from .softmax import wide

NEAREST, LINEAR, CUBIC, AREA, LANCZOS, EXACT = range(6)
_METHODS = "0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area), 4 (Lanczos) or 5 (bilinear, exact in integers)"


class Taps(NamedTuple):
    """How an axis is resized; see the module's text."""
    index: numpy.ndarray
    weight: numpy.ndarray


# -- taps ----------------------------------------------------------------------------------------------------------


def _scale(n, new):
    """Old pixels a new one. (The inverse of an inverse, as in OpenCV: the last bit decides at halves.)"""
    return 1.0 / (new / n)


def _neighbours(n, first, weights):
    """Taps of consecutive pixels from ``first`` on, one for each of ``weights``."""
    index = first + numpy.arange(len(weights))[:, None]
    return Taps(numpy.clip(index, 0, n - 1), numpy.stack(weights))


def _position(n, new, dtype="float32"):
    """The old pixel at or before the centre of each new one, and the way from there to the next, in [0, 1)."""
    place = ((numpy.arange(new) + 0.5) * _scale(n, new) - 0.5).astype(dtype)
    left = numpy.floor(place)
    return left.astype("int64"), place - left


def _nearest(n, new):
    index = numpy.floor(numpy.arange(new) * _scale(n, new)).astype("int64")
    return Taps(numpy.minimum(index, n - 1)[None], numpy.ones((1, new), "float32"))


def _linear(n, new):
    left, t = _position(n, new)
    return _neighbours(n, left, [1 - t, t])


def _linear_exact(n, new):
    left, t = _position(n, new, "float64")
    return _neighbours(n, left, [1 - t, t])


def _cubic(n, new):
    """Cubic convolution (Keys 1981) with a = -3/4."""
    left, t = _position(n, new)
    a = numpy.float32(-0.75)

    def near(d):                             # at a distance up to 1
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):                              # at a distance from 1 to 2
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    first = [far(t + 1), near(t), near(1 - t)]
    return _neighbours(n, left - 1, [*first, 1 - first[0] - first[1] - first[2]])


def _lanczos(n, new):
    """Lanczos' window of 8 pixels, sinc(d) * sinc(d / 4), with weights that add up to 1.

    sin(pi d) is the same for all distances d to pixels, but for its sign; so sin(pi d / 4) / d**2 remains."""
    left, t = _position(n, new)
    d = t.astype("float64") + numpy.arange(3, -5, -1)[:, None]
    at = numpy.where(d == 0, 1.0, d)
    sign = numpy.where(numpy.arange(8) % 2, 1.0, -1.0)[:, None]
    weight = (sign * numpy.sin(at * (numpy.pi / 4)) / at ** 2).astype("float32")
    weight *= 1 / weight.sum(axis=0)
    weight = numpy.where(t < numpy.finfo("float32").eps, (numpy.arange(8) == 3)[:, None], weight).astype("float32")
    return _neighbours(n, left - 3, list(weight))


def _area(n, new):
    """Averages: the overlaps of the stretches that new pixels cover with old pixels. For a scale of at least 1."""
    scale = _scale(n, new)
    start = numpy.arange(new) * scale
    size = numpy.minimum(scale, n - start)
    first = numpy.floor(start).astype("int64")
    index = first + numpy.arange(int(scale) + 2)[:, None]
    overlap = numpy.minimum(index + 1, start + scale) - numpy.maximum(index, start)
    overlap = numpy.where((overlap > 1e-3) & (index < n), overlap, 0)   # OpenCV, too, leaves out what is below 1/1000
    return Taps(numpy.minimum(index, n - 1), (numpy.minimum(overlap, 1) / size).astype("float32"))


def _area_linear(n, new):
    """What stands for averages where one axis grows: bilinear, but constant within the old pixels."""
    left = numpy.floor(numpy.arange(new) * _scale(n, new)).astype("int64")
    t = (numpy.arange(1, new + 1) - (left + 1) * (new / n)).astype("float32")
    t = numpy.where(t <= 0, 0, t - numpy.floor(t)).astype("float32")
    return _neighbours(n, left, [1 - t, t])


_RULES = {NEAREST: _nearest, LINEAR: _linear, CUBIC: _cubic, AREA: _area, LANCZOS: _lanczos, EXACT: _linear_exact,
          "area linear": _area_linear}


@lru_cache(maxsize=256)
def taps(rule, n, new):
    """The taps that resize an axis of ``n`` pixels to ``new``."""
    result = _RULES[rule](n, new)
    for part in result:
        part.flags.writeable = False         # shared by all callers
    return result


def transposed(rule, n, new):
    """The taps of the adjoint, from ``new`` pixels to ``n``: every old pixel collects from the new ones it went to."""
    index, weight = taps(rule, n, new)
    target = index.reshape(-1)
    order = numpy.argsort(target, kind="stable")
    counts = numpy.bincount(target, minlength=n)
    rank = numpy.arange(target.size) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    result = Taps(numpy.zeros((counts.max(), n), "int64"), numpy.zeros((counts.max(), n), weight.dtype))
    result.index[rank, target[order]] = order % new
    result.weight[rank, target[order]] = weight.reshape(-1)[order]
    return result


def _rule(size, new, interp):
    """The rule of a method for (height, width) ``size`` and ``new``. Bilinear resizing to exactly half is averaging."""
    scales = [_scale(a, b) for a, b in zip(size, new)]
    if interp == LINEAR and scales == [2, 2]:
        return AREA
    if interp == AREA and min(scales) < 1:
        return "area linear"
    return interp


# -- sums of taps --------------------------------------------------------------------------------------------------


def _column_taps(xp, tap, channels):
    """Taps on the columns of an image for its rows as vectors (width * channels)."""
    count, new = tap.index.shape
    index = (tap.index[:, :, None] * channels + numpy.arange(channels)).reshape(count, new * channels)
    return xp.asarray(index), xp.asarray(numpy.repeat(tap.weight, channels, axis=1))


def _sum(xp, x, index, weight, dtype):
    """Taps along the last axis."""
    total = xp.multiply(xp.take(x, index[0], axis=-1), weight[0], dtype=dtype)
    for i, w in zip(index[1:], weight[1:]):
        total += xp.multiply(xp.take(x, i, axis=-1), w, dtype=dtype)
    return total


def _sum_rows(xp, x, index, weight, dtype):
    """Taps along the last but one axis."""
    total = xp.multiply(xp.take(x, index[0], axis=-2), weight[0][:, None], dtype=dtype)
    for i, w in zip(index[1:], weight[1:]):
        total += xp.multiply(xp.take(x, i, axis=-2), w[:, None], dtype=dtype)
    return total


def _separable(xp, columns, rows, channels, dtype, row_sum=_sum_rows):
    """A function of images that applies ``columns`` and then ``rows``, computed in ``dtype``. Rows that no tap of
    ``rows`` uses are left out."""
    used, inverse = numpy.unique(rows.index, return_inverse=True)
    row_index = xp.asarray(inverse.reshape(rows.index.shape))
    row_weight = xp.asarray(rows.weight)
    column_index, column_weight = _column_taps(xp, columns, channels)
    part = xp.asarray(used)

    def resize(x):
        x = x.reshape(*x.shape[:-2], x.shape[-2] * channels)             # (..., height, width * channels)
        if len(used) < x.shape[-2]:
            x = xp.take(x, part, axis=-2)
        y = row_sum(xp, _sum(xp, x, column_index, column_weight, dtype), row_index, row_weight, dtype)
        return y.reshape(*y.shape[:-1], columns.index.shape[1], channels)
    return resize


def _integers(tap, one):
    """Taps with weights in integer multiples of ``1 / one``, halves rounded to even."""
    return Taps(tap.index, numpy.rint(tap.weight * numpy.asarray(one, tap.weight.dtype)).astype("int32"))


def _rows_linear(xp, x, index, weight, dtype):
    """The bilinear sum of rows in multiples of 1/2048: each product is cut off to a quarter of a step, and the sum of
    the two rounded."""
    x = x >> 4
    total = (xp.take(x, index[0], axis=-2) * weight[0][:, None]) >> 16
    total += (xp.take(x, index[1], axis=-2) * weight[1][:, None]) >> 16
    return ((total + 2) >> 2).astype("uint8")


def _rows_exact(xp, x, index, weight, dtype):
    """The bilinear sum of rows in multiples of 1/256, rounded once."""
    return ((_sum_rows(xp, x, index, weight, dtype) + (1 << 15)) >> 16).astype("uint8")


def _rows_cubic(xp, x, index, weight, dtype):
    """The bicubic sum of rows, in floats, rounded to even."""
    total = _sum_rows(xp, x.astype("float32"), index, weight.astype("float32") * numpy.float32(2.0 ** -22), "float32")
    return xp.clip(xp.rint(total), 0, 255).astype("uint8")


def _rows_lanczos(xp, x, index, weight, dtype):
    """The sum of rows in multiples of 1/2048, rounded once."""
    return xp.clip((_sum_rows(xp, x, index, weight, dtype) + (1 << 21)) >> 22, 0, 255).astype("uint8")


_FIXED = {LINEAR: (2048, _rows_linear), "area linear": (2048, _rows_linear), CUBIC: (2048, _rows_cubic),
          LANCZOS: (2048, _rows_lanczos), EXACT: (256, _rows_exact)}


def _blocks(xp, high, broad):
    """A function of uint8 images that averages blocks of ``high`` by ``broad`` pixels."""
    def average(x):
        total = sum(xp.add(x[..., i::high, j::broad, :], 0, dtype="int32") for i in range(high) for j in range(broad))
        if high == broad == 2:
            return ((total + 2) >> 2).astype("uint8")
        return xp.rint(total.astype("float32") * numpy.float32(1 / (high * broad))).astype("uint8")
    return average


# -- resizing ------------------------------------------------------------------------------------------------------


def resizer(xp, size, new, interp, channels, dtype):
    """The function that resizes images (..., *size, channels) of ``dtype`` to (..., *new, channels)."""
    if interp == NEAREST:
        rows, columns = (xp.asarray(taps(NEAREST, a, b).index[0]) for a, b in zip(size, new))
        return lambda x: xp.take(xp.take(x, rows, axis=-3), columns, axis=-2)
    if interp == EXACT and dtype != "uint8":
        interp = LINEAR
    rule = _rule(size, new, interp)
    rows, columns = (taps(rule, a, b) for a, b in zip(size, new))
    if dtype == "uint8" and rule == AREA:
        if size[0] % new[0] == 0 and size[1] % new[1] == 0:
            return _blocks(xp, size[0] // new[0], size[1] // new[1])
        average = _separable(xp, columns, rows, channels, "float32")
        return lambda x: xp.clip(xp.rint(average(x)), 0, 255).astype("uint8")
    if dtype == "uint8":
        one, row_sum = _FIXED[rule]
        return _separable(xp, _integers(columns, one), _integers(rows, one), channels, "int32", row_sum)
    resize = _separable(xp, columns, rows, channels, "float64" if dtype == "float64" else "float32")
    return lambda x: resize(wide(xp, x))


def adjoint(xp, size, new, interp, channels, dtype):
    """The adjoint of :func:`resizer` for floats: a function from (..., *new, channels) to (..., *size, channels)."""
    rule = _rule(size, new, LINEAR if interp == EXACT else interp)
    rows, columns = (transposed(rule, a, b) for a, b in zip(size, new))
    resize = _separable(xp, columns, rows, channels, "float64" if dtype == "float64" else "float32")
    return lambda x: resize(wide(xp, x))


def check_method(function, interp, data, resizes=True):
    """Raise unless ``interp`` is a method, and, if it is to be used, one for images ``data``."""
    if type(interp) is not int or not 0 <= interp <= 5:
        raise ArgumentError(f"{function}: interp must be {_METHODS}, not {interp!r}")
    if resizes and interp != NEAREST and data.dtype != "uint8" and not is_float(data.dtype):
        raise ArgumentError(f"{function}: images of {data.dtype} can be resized with interp=0 only; use "
                            "astype('uint8') or astype('float32')")
    if 0 in data.shape[-3:-1]:
        raise ShapeError(f"{function}: an image of shape {data.shape} has no pixels")


def new_size(size, old, keep_ratio):
    """(height, width) from the attribute ``size`` of an image of size ``old``."""
    sizes = size if type(size) is tuple else (size,)
    if len(sizes) not in (1, 2):
        raise ShapeError(f"resize: size must be an integer or (width, height), not {size!r}")
    for n in sizes:
        positive_int("resize", "size", n)
    if len(sizes) == 2:
        return sizes[1], sizes[0]
    short = sizes[0]
    if not keep_ratio:
        return short, short
    height, width = old
    return (height * short // width, short) if height > width else (short, width * short // height)


def _infer_resize(data, size, keep_ratio, interp):
    old = check_image("resize", data, channels=None)
    check_method("resize", interp, data)
    return spec((*data.shape[:-3], *new_size(size, old, keep_ratio), data.shape[-1]), data.dtype)


def _bind_resize(xp, in_specs, out_specs, attrs):
    (data,), (result,) = in_specs, out_specs
    return resizer(xp, data.shape[-3:-1], result.shape[-3:-1], attrs["interp"], data.shape[-1], data.dtype)


def _resize_vjp(F, dy, x, y, size, keep_ratio, interp):
    return F.image_resize_grad(dy, size=x[0].shape[-3:-1], interp=interp)


def _bind_resize_grad(xp, in_specs, out_specs, attrs):
    (dy,), (result,) = in_specs, out_specs
    return adjoint(xp, result.shape[-3:-1], dy.shape[-3:-1], attrs["interp"], dy.shape[-1], dy.dtype)


operator("image_resize", "data, size=(), keep_ratio=False, interp=1, out=None", infer=_infer_resize, bind=_bind_resize,
         vjp=_resize_vjp, image="resize",
         doc="Images (height, width, channels) or (n, height, width, channels) in another size.\n\n"
             "``size``: (width, height), or one number for both; with ``keep_ratio`` one number is the length of the "
             f"shorter side.\n``interp``: {_METHODS}, with OpenCV's results.")
operator("image_resize_grad", "dy, size, interp", inputs="dy", bind=_bind_resize_grad,
         infer=lambda dy, size, interp: spec((*dy.shape[:-3], *size, dy.shape[-1]), dy.dtype),
         vjp=lambda F, g, x, y, size, interp: F.image_resize(g, size=(x[0].shape[-2], x[0].shape[-3]),
                                                             keep_ratio=False, interp=interp))
