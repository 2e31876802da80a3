"""Convolutions with fewer output positions than window taps, such as a kernel as large as its input.

Then the window of each position is one row of a matrix (im2col by positions, taken through strides), and the gradient
of the data adds up one window a position. Rows are built in bounded blocks.
"""
from __future__ import annotations

import itertools
import math

BLOCK_BYTES = 1 << 25


def fewer_positions(out, kernel):
    """Whether these kernels are the ones to use."""
    return math.prod(out) < math.prod(kernel)


def _padded(xp, x, pad, dtype):
    sizes = [n + 2 * p for n, p in zip(x.shape[2:], pad)]
    result = xp.zeros((*x.shape[:2], *sizes), dtype)
    result[_inside(x.shape[2:], pad)] = x
    return result


def _inside(sizes, pad):
    return (slice(None), slice(None), *[slice(p, p + n) for p, n in zip(pad, sizes)])


def _rows(xp, x, kernel, out, stride, dilate, groups):
    """Blocks of windows of a padded x: (samples, rows of the first output axis, (groups, windows, channels * taps))."""
    n, c = x.shape[0], x.shape[1] // groups
    strides = x.strides[2:]
    windows = xp.lib.stride_tricks.as_strided(
        x.reshape(n, groups, c, *x.shape[2:]), (n, groups, c, *out, *kernel),
        (x.strides[0], x.strides[1] * c, x.strides[1], *[s * t for s, t in zip(stride, strides)],
         *[d * t for d, t in zip(dilate, strides)]))
    axes = len(out)
    windows = windows.transpose(1, 0, *range(3, 3 + axes), 2, *range(3 + axes, 3 + 2 * axes))
    per_row = math.prod(out[1:]) * x.shape[1] * math.prod(kernel) * x.dtype.itemsize
    rows = max(1, min(out[0], BLOCK_BYTES // per_row))
    samples = max(1, BLOCK_BYTES // (per_row * out[0])) if rows == out[0] else 1
    for start, first in itertools.product(range(0, n, samples), range(0, out[0], rows)):
        block = slice(start, start + samples), slice(first, first + rows)
        yield (*block, windows[(slice(None), *block)].reshape(groups, -1, c * math.prod(kernel)))


def conv(xp, x, w, out, stride, dilate, pad, groups, dtype):
    """x (N, C, sizes...), w (O, C / groups, kernel...): the cross-correlation (N, O, out...)."""
    o, kernel = w.shape[0] // groups, w.shape[2:]
    weights = w.reshape(groups, o, -1).astype(dtype, copy=False).swapaxes(1, 2)
    y = xp.empty((x.shape[0], *out, groups, o), dtype)
    for samples, rows, columns in _rows(xp, _padded(xp, x, pad, dtype), kernel, out, stride, dilate, groups):
        part = y[samples, rows]
        part[...] = xp.matmul(columns, weights).swapaxes(0, 1).reshape(part.shape)
    return xp.ascontiguousarray(xp.moveaxis(y.reshape(*y.shape[:-2], groups * o), -1, 1))


def weight_grad(xp, dy, x, kernel, stride, dilate, pad, groups, dtype):
    """dy (N, O, out...), x (N, C, sizes...): the gradient (O, C / groups, kernel...) of the weights."""
    out, o = dy.shape[2:], dy.shape[1] // groups
    heads = xp.moveaxis(dy.astype(dtype, copy=False), 1, -1)
    result = xp.zeros((groups, o, x.shape[1] // groups * math.prod(kernel)), dtype)
    for samples, rows, columns in _rows(xp, _padded(xp, x, pad, dtype), kernel, out, stride, dilate, groups):
        result += xp.matmul(heads[samples, rows].reshape(-1, groups, o).transpose(1, 2, 0), columns)
    return result.reshape(dy.shape[1], -1, *kernel)


def data_grad(xp, dy, w, sizes, stride, dilate, pad, groups, dtype):
    """dy (N, O, out...), w (O, C / groups, kernel...): the gradient (N, C, sizes...) of the data."""
    o, kernel = w.shape[0] // groups, w.shape[2:]
    weights = w.reshape(groups, o, -1).astype(dtype, copy=False)
    n, channels = dy.shape[0], w.shape[1] * groups
    dx = xp.zeros((n, channels, *[m + 2 * p for m, p in zip(sizes, pad)]), dtype)
    heads = dy.reshape(n, groups, o, *dy.shape[2:]).astype(dtype, copy=False)
    samples = max(1, BLOCK_BYTES // (channels * math.prod(kernel) * dx.dtype.itemsize))
    for position in itertools.product(*[range(m) for m in dy.shape[2:]]):
        window = tuple(slice(p * s, p * s + (k - 1) * d + 1, d)
                       for p, s, k, d in zip(position, stride, kernel, dilate))
        for start in range(0, n, samples):
            head = heads[(slice(start, start + samples), slice(None), slice(None), *position)].swapaxes(0, 1)
            part = xp.matmul(head, weights).swapaxes(0, 1)
            dx[(slice(start, start + samples), slice(None), *window)] += part.reshape(-1, channels, *kernel)
    return xp.ascontiguousarray(dx[_inside(sizes, pad)])
