"""im2col and col2im: the windows of images as the columns of a matrix, and back."""
from __future__ import annotations

import itertools
import math

from ..errors import ShapeError
from ..spec import spec
from .convolution import out_sizes
from .registry import operator
from .windows import per_axis


def _columns(function, shape, kernel, stride, dilate, pad):
    n = len(shape) - 2
    if n not in (1, 2, 3):
        raise ShapeError(f"{function}: data must have 3, 4 or 5 axes, not shape {shape}")
    kernel, stride = per_axis(kernel, n, 1, "kernel", function), per_axis(stride, n, 1, "stride", function)
    dilate, pad = per_axis(dilate, n, 1, "dilate", function), per_axis(pad, n, 0, "pad", function)
    return kernel, stride, dilate, pad, out_sizes(shape[2:], kernel, stride, dilate, pad, function)


def _tap_slices(kernel, stride, dilate, out):
    for tap in itertools.product(*[range(k) for k in kernel]):
        yield tuple([slice(i * d, i * d + (o - 1) * s + 1, s) for i, d, o, s in zip(tap, dilate, out, stride)])


def _im2col(xp, data, kernel, stride, dilate, pad):
    """The windows of (n, c, sizes...) data as columns: (n, c * prod(kernel), windows)."""
    kernel, stride, dilate, pad, out = _columns("im2col", data.shape, kernel, stride, dilate, pad)
    x = xp.pad(data, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    result = xp.empty((*data.shape[:2], math.prod(kernel), *out), data.dtype)
    for t, where in enumerate(_tap_slices(kernel, stride, dilate, out)):
        result[:, :, t] = x[(slice(None), slice(None), *where)]
    return result.reshape(data.shape[0], data.shape[1] * math.prod(kernel), math.prod(out))


def _col2im(xp, data, output_size, kernel, stride, dilate, pad):
    """The adjoint of im2col: columns (n, c * prod(kernel), windows) added up into (n, c, output_size...)."""
    c = data.shape[1] // math.prod(kernel)
    shape = (data.shape[0], c, *output_size)
    kernel, stride, dilate, pad, out = _columns("col2im", shape, kernel, stride, dilate, pad)
    parts = data.reshape(data.shape[0], c, math.prod(kernel), *out)
    big = xp.zeros((data.shape[0], c, *[n + 2 * p for n, p in zip(output_size, pad)]), data.dtype)
    for t, where in enumerate(_tap_slices(kernel, stride, dilate, out)):
        big[(slice(None), slice(None), *where)] += parts[:, :, t]
    return big[(slice(None), slice(None), *[slice(p, p + n) for n, p in zip(output_size, pad)])]


def _infer_im2col(data, kernel, stride, dilate, pad):
    kernel, _, _, _, out = _columns("im2col", data.shape, kernel, stride, dilate, pad)
    return spec((data.shape[0], data.shape[1] * math.prod(kernel), math.prod(out)), data.dtype)


def _infer_col2im(data, output_size, kernel, stride, dilate, pad):
    if len(data.shape) != 3 or not output_size or data.shape[1] % math.prod(kernel):
        raise ShapeError(f"col2im: data must have shape (n, c * prod(kernel), windows), not {data.shape} for kernel "
                         f"{kernel}")
    shape = (data.shape[0], data.shape[1] // math.prod(kernel), *output_size)
    out = _columns("col2im", shape, kernel, stride, dilate, pad)[4]
    if math.prod(out) != data.shape[2]:
        raise ShapeError(f"col2im: {math.prod(out)} windows fit output_size {output_size}, data has {data.shape[2]}")
    return spec(shape, data.dtype)


operator("im2col", "data, kernel, stride=(), dilate=(), pad=(), out=None", inputs="data", infer=_infer_im2col,
         kernel=_im2col, nd="im2col", vjp=lambda F, dy, x, y, **a: F.col2im(dy, output_size=x[0].shape[2:], **a))
operator("col2im", "data, output_size, kernel, stride=(), dilate=(), pad=(), out=None", inputs="data",
         infer=_infer_col2im, kernel=_col2im, nd="col2im",
         vjp=lambda F, dy, x, y, output_size, **a: F.im2col(dy, **a))
