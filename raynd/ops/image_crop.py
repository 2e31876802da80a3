"""Random crops of images, resized to one size. Where a crop was made is a second output, which the gradient reads."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .image import CHANNELS, check_image, numbers, positive_int
from .image_resize import adjoint, check_method, resizer
from .registry import operator

# -- a crop that is then resized -----------------------------------------------------------------------------------


def _crop_resize(xp, data, place, width, height, interp):
    """The part of images at ``place`` (x, y, width, height), resized to ``width`` and ``height``."""
    x, y, w, h = place.tolist()
    part = data[..., y:y + h, x:x + w, :]
    if (h, w) == (height, width):
        return part
    return resizer(xp, (h, w), (height, width), interp, data.shape[-1], data.dtype)(part)


def _crop_resize_grad(xp, dy, place, shape, interp):
    x, y, w, h = place.tolist()
    result = xp.zeros(shape, dy.dtype)
    if dy.shape[-3:-1] != (h, w):
        dy = adjoint(xp, (h, w), dy.shape[-3:-1], interp, dy.shape[-1], dy.dtype)(dy)
    result[..., y:y + h, x:x + w, :] = dy
    return result


operator("image_crop_resize", "data, place, width, height, interp", inputs="data, place", kernel=_crop_resize,
         infer=lambda data, place, width, height, interp: _resized(data, width, height),
         vjp=lambda F, dy, x, y, width, height, interp: (
             F.image_crop_resize_grad(dy, x[1], shape=x[0].shape, interp=interp), None))
operator("image_crop_resize_grad", "dy, place, shape, interp", inputs="dy, place", kernel=_crop_resize_grad,
         infer=lambda dy, place, shape, interp: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, interp: (
             F.image_crop_resize(g, x[1], width=x[0].shape[-2], height=x[0].shape[-3], interp=interp), None))


def _resized(data, width, height):
    return spec((*data.shape[:-3], height, width, data.shape[-1]), data.dtype)


def _random_vjp(F, dy, x, y, width, height, interp, **attrs):
    return None if dy[0] is None else F.image_crop_resize_grad(dy[0], y[1], shape=x[0].shape, interp=interp)


def _apply(xp, data, place, width, height, interp):
    """The outputs of a random crop at ``place``, four Python ints."""
    place = xp.asarray(place, dtype="int64")
    return _crop_resize(xp, data, place, width, height, interp), place


# -- draws ---------------------------------------------------------------------------------------------------------


def scale_down(source, size):
    """The largest (width, height) of the shape of ``size`` that is not larger than ``size`` and lies within
    ``source``."""
    (limit_w, limit_h), (w, h) = source, size
    if limit_h < h:
        w, h = w * limit_h / h, limit_h
    if limit_w < w:
        w, h = limit_w, h * limit_w / w
    return max(1, int(w)), max(1, int(h))


def _infer(function, data, width, height, interp, channels=None, may_fit=False):
    """The outputs' specs of a random crop, after the checks that both kinds share. ``may_fit``: crops are resized only
    if the image is too small."""
    rows, columns = check_image(function, data, channels=channels)
    for name, value in (("width", width), ("height", height)):
        if value is None:
            raise ArgumentError(f"{function}: {name} must be given")
        positive_int(function, name, value)
    check_method(function, interp, data, resizes=not may_fit or width > columns or height > rows)
    return _resized(data, width, height), spec((4,), "int64")


def _infer_random_crop(data, xrange, yrange, width, height, interp):
    for name, value in (("xrange", xrange), ("yrange", yrange)):
        low, high = numbers("random_crop", name, value, 2)
        if not 0 <= low <= high <= 1:
            raise ShapeError(f"random_crop: {name} must be two numbers 0 <= low <= high <= 1, not {value!r}")
    return _infer("random_crop", data, width, height, interp, CHANNELS, True)


def _random_crop(xp, data, xrange, yrange, width, height, interp, rng):
    """A part of images of the size ``width``, ``height`` at a random place; from a smaller image, the largest part of
    that shape, resized by method ``interp``.

    The part's first column is ``xrange``, a uniform number between its two, times the number of columns left over, and
    so for the rows. The whole batch is cropped at one place.
    """
    rows, columns = data.shape[-3:-1]
    w, h = scale_down((columns, rows), (width, height))
    (x0, x1), (y0, y1) = xrange, yrange
    u, v = rng.random(2).tolist()
    x, y = int((x0 + (x1 - x0) * u) * (columns - w)), int((y0 + (y1 - y0) * v) * (rows - h))
    return _apply(xp, data, (x, y, w, h), width, height, interp)


operator("image_random_crop",
         "data, xrange=(0.0, 1.0), yrange=(0.0, 1.0), width=None, height=None, interp=1, out=None",
         infer=_infer_random_crop, kernel=_random_crop, vjp=_random_vjp, draws=1, outputs=1, image="random_crop")


def _infer_random_resized_crop(data, width, height, area, ratio, interp, max_trial):
    if min(numbers("random_resized_crop", "area", area, 2)) < 0:
        raise ShapeError(f"random_resized_crop: area must be two numbers of at least 0, not {area!r}")
    if not min(numbers("random_resized_crop", "ratio", ratio, 2)) > 0:
        raise ShapeError(f"random_resized_crop: ratio must be two positive numbers, not {ratio!r}")
    if type(max_trial) is not int or max_trial < 0:
        raise ArgumentError(f"random_resized_crop: max_trial must be an integer of at least 0, not {max_trial!r}")
    return _infer("random_resized_crop", data, width, height, interp)


def _random_resized_crop(xp, data, width, height, area, ratio, interp, max_trial, rng):
    """A part of images with a random size, shape and place, resized to ``width`` and ``height`` by method ``interp``.

    Its share of the image's area is uniform between the two numbers of ``area``, its width over its height between
    those of ``ratio``, the logarithm being uniform. If in ``max_trial`` trials none fits into the image, it is the
    largest part in the middle with the shape of the result. The whole batch is cropped alike.
    """
    rows, columns = data.shape[-3:-1]
    w, h = scale_down((columns, rows), (width, height))
    place = ((columns - w) // 2, (rows - h) // 2, w, h)
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for a, r, u, v in rng.random((max_trial, 4)).tolist():
        pixels = (area[0] + (area[1] - area[0]) * a) * rows * columns
        shape = math.exp(low + (high - low) * r)
        w, h = math.floor(math.sqrt(pixels * shape) + 0.5), math.floor(math.sqrt(pixels / shape) + 0.5)
        if 0 < w <= columns and 0 < h <= rows:
            place = (int(u * (columns - w)), int(v * (rows - h)), w, h)
            break
    return _apply(xp, data, place, width, height, interp)


operator("image_random_resized_crop",
         f"data, width, height, area=(0.08, 1.0), ratio=(0.75, {4 / 3}), interp=1, max_trial=10, out=None",
         inputs="data", infer=_infer_random_resized_crop, kernel=_random_resized_crop, vjp=_random_vjp, draws=1,
         outputs=1, image="random_resized_crop")
