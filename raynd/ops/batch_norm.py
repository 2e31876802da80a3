"""Batch normalisation (Ioffe and Szegedy 2015).

Statistics are computed in float32 for 16-bit floats. The gradient operator works on the saved mean and inverse standard
deviation, ``dx = gamma * inv / m * (m dy - sum(dy) - xhat sum(dy xhat))``; its own gradient is written in
differentiable operators.
"""
from __future__ import annotations

import math

from ..errors import ShapeError
from ..spec import normalize_axis, spec
from .normalization import statistics_spec, vector
from .parallel import map_chunks
from .registry import check_float, operator
from .softmax import wide


def _infer_batch_norm(x, gamma, beta, running_mean, running_var, eps, momentum, fix_gamma, axis):
    check_float("batch_norm", x)
    axis = normalize_axis(axis, len(x.shape))
    for name, p in (("gamma", gamma), ("beta", beta), ("running_mean", running_mean), ("running_var", running_var)):
        if p.shape != x.shape[axis:axis + 1]:
            raise ShapeError(f"batch_norm: {name} has shape {p.shape}, data of shape {x.shape} has "
                             f"{x.shape[axis]} channels on axis {axis}")
    statistics = statistics_spec(x, x.shape[axis:axis + 1])
    return x, statistics, statistics


def _as_three(x, axis):
    """``x`` as (outer, channels, inner): the channel axis alone, the axes before and after it merged."""
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1:]))


_CHUNK_BYTES = 1 << 20              # of one array: what follows a pass over a chunk finds it in the cache


def _chunks(xp, x3):
    """Slices of the outer axis, at least one; on a GPU just one."""
    outer, channels, inner = x3.shape
    step = max(1, _CHUNK_BYTES // max(channels * inner * x3.itemsize, 1)) if xp.__name__ == "numpy" else max(outer, 1)
    return [slice(start, start + step) for start in range(0, max(outer, 1), step)]


def _channel_sum(xp, x3):
    """Sums over all but the channel axis of (outer, channels, inner)."""
    if x3.shape[2] == 1:
        return x3[:, :, 0].sum(axis=0)
    return xp.matmul(x3, xp.ones(x3.shape[2], x3.dtype)).sum(axis=0)     # twice as fast as a reduction of axis 2


def _channel_dot(xp, a3, b3):
    """Sums of a * b over all but the channel axis."""
    if a3.shape[2] == 1:
        return xp.einsum("nc,nc->c", a3[:, :, 0], b3[:, :, 0])
    return xp.matmul(a3[:, :, None, :], b3[:, :, :, None])[:, :, 0, 0].sum(axis=0)


def channel_sum(xp, x, axis):
    """Sums over all axes but one."""
    return _channel_sum(xp, _as_three(wide(xp, x), axis))


operator("channel_sum", "x, axis", inputs="x", infer=lambda x, axis: spec(x.shape[axis:axis + 1], x.dtype),
         kernel=channel_sum, vjp=lambda F, dy, x, y, axis: F.zeros_like(x[0]) + vector(F, dy, x[0], axis))


def _batch_norm_train(xp, x, gamma, beta, running_mean, running_var, eps, momentum, fix_gamma, axis):
    """Normalise by the batch; also gives mean, inverse standard deviation, and the new running statistics, which an
    empty batch does not move."""
    axis %= x.ndim
    y = xp.empty(x.shape, wide(xp, x).dtype)
    kind = y.dtype.type
    if not y.size:
        mean = xp.zeros(x.shape[axis], y.dtype)
        return y, mean, mean + kind(eps) ** -0.5, running_mean.copy(), running_var.copy()
    x3, y3 = _as_three(wide(xp, x), axis), _as_three(y, axis)

    def centre(part):
        """Mean and sum of squares of a chunk, of which y becomes the distance from its mean."""
        mean = _channel_sum(xp, x3[part]) / kind(x3[part].shape[0] * x3.shape[2])
        out = xp.subtract(x3[part], mean[:, None], out=y3[part])
        return mean, _channel_dot(xp, out, out)
    chunks = _chunks(xp, x3)
    means, squares = (xp.stack(v) for v in zip(*map_chunks(xp, centre, chunks)))
    # the moments of chunks joined (Chan, Golub and LeVeque 1983)
    counts = xp.asarray([[(min(c.stop, len(x3)) - c.start) * x3.shape[2]] for c in chunks], y.dtype)
    total = kind(x3.shape[0] * x3.shape[2])
    mean = (means * counts).sum(axis=0) / total
    means -= mean
    variance = (squares + counts * means * means).sum(axis=0) / total
    inv = 1 / xp.sqrt(variance + kind(eps))
    scale = inv if fix_gamma else inv * gamma.astype(y.dtype, copy=False)

    def normalise(part, shift):
        out = y3[part]
        out *= scale[:, None]
        out += shift[:, None]
    map_chunks(xp, normalise, chunks, means * scale + beta.astype(y.dtype, copy=False))
    return y, mean, inv, _moved(running_mean, mean, momentum), _moved(running_var, variance, momentum)


def _moved(running, batch, momentum):
    return running * running.dtype.type(momentum) + batch * batch.dtype.type(1 - momentum)


def _batch_norm_grad(xp, dy, x, gamma, mean, inv, fix_gamma, axis):
    """Gradients of data, gamma and beta."""
    axis %= x.ndim
    x, dy = wide(xp, x), wide(xp, dy)
    dx = xp.empty(x.shape, x.dtype)
    x3, dy3, dx3 = (_as_three(a, axis) for a in (x, dy, dx))

    def sums(part):
        centred = xp.subtract(x3[part], mean[:, None], out=dx3[part])
        return _channel_sum(xp, dy3[part]), _channel_dot(xp, dy3[part], centred)
    chunks = _chunks(xp, x3)
    db, dot = (sum(parts) for parts in zip(*map_chunks(xp, sums, chunks)))
    # dx = scale * (dy - db / m - centred * inv^2 * dot / m)
    count = x.dtype.type(max(x3.shape[0] * x3.shape[2], 1))
    scale = inv if fix_gamma else inv * gamma.astype(x.dtype, copy=False)
    slope, shift = -scale * inv * inv * dot / count, scale * db / count

    def differentiate(part):
        out = dx3[part]
        out *= slope[:, None]
        out += dy3[part] * scale[:, None]
        out -= shift[:, None]
    map_chunks(xp, differentiate, chunks)
    return dx, xp.zeros_like(db) if fix_gamma else dot * inv, db


def _batch_norm_grad_vjp(F, g, x, y, fix_gamma, axis):
    """By differentiating ``dx = s (dy - mean(dy) - xhat mean(dy xhat))`` written in operators. Mean and inverse
    standard deviation are functions of the data, so they are computed from it here and get no gradient of their own."""
    dy, data, gamma, _, _ = x
    gx, gg, gb = g
    axis %= len(data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != axis)
    inv = vector(F, x[4], data, axis)
    xhat = (data - vector(F, x[3], data, axis)) * inv
    scale = inv if fix_gamma else inv * vector(F, gamma, data, axis)

    def mean(a):
        return F.mean(a, axis=axes, keepdims=True)

    def project(a):
        """The part of ``a`` that changing the data can change: without its mean and its part along xhat."""
        return a - mean(a) - xhat * mean(a * xhat)
    d_dy, d_data, d_gamma = None, None, None

    def add(a, b):
        return b if a is None else a + b
    if gx is not None:
        d_dy = scale * project(gx)
        a, b = mean(gx * xhat), mean(dy * xhat)
        along = mean(gx * dy) - mean(gx) * mean(dy) - a * b
        d_data = -scale * inv * (project(dy) * a + project(gx) * b + xhat * along)
        if not fix_gamma:
            d_gamma = F.sum(gx * inv * project(dy), axis=axes)
    if gg is not None and not fix_gamma:
        v = vector(F, gg, data, axis)
        d_dy = add(d_dy, xhat * v)
        d_data = add(d_data, inv * v * project(dy))
    if gb is not None:
        d_dy = add(d_dy, F.zeros_like(dy) + vector(F, gb, data, axis))
    return d_dy, d_data, d_gamma, None, None


def _batch_norm_train_vjp(F, dy, x, y, eps, momentum, fix_gamma, axis):
    dy = dy[0]
    if dy is None:
        return (None,) * 5
    dx, dg, db = F.batch_norm_grad(dy, x[0], x[1], y[1], y[2], fix_gamma=fix_gamma, axis=axis)
    return dx, dg, db, None, None


_PARAMETERS = "x, gamma, beta, running_mean, running_var"
operator("batch_norm_train", _PARAMETERS + ", eps, momentum, fix_gamma, axis", inputs=_PARAMETERS, mutates=(3, 4),
         infer=_infer_batch_norm, kernel=_batch_norm_train, vjp=_batch_norm_train_vjp)


def _infer_batch_norm_grad(dy, x, gamma, mean, inv, fix_gamma, axis):
    return x, spec(gamma.shape, gamma.dtype), spec(gamma.shape, gamma.dtype)


operator("batch_norm_grad", "dy, x, gamma, mean, inv, fix_gamma, axis", inputs="dy, x, gamma, mean, inv",
         infer=_infer_batch_norm_grad, kernel=_batch_norm_grad, vjp=_batch_norm_grad_vjp)


def _batch_norm_fixed(xp, x, gamma, beta, running_mean, running_var, eps, momentum, fix_gamma, axis):
    """Normalise by the given statistics; also gives the mean and the inverse standard deviation."""
    axis %= x.ndim
    y = xp.empty(x.shape, wide(xp, x).dtype)
    x3, y3 = _as_three(wide(xp, x), axis), _as_three(y, axis)
    mean = running_mean.astype(y.dtype)
    inv = 1 / xp.sqrt(running_var.astype(y.dtype) + y.dtype.type(eps))
    scale = inv if fix_gamma else inv * gamma.astype(y.dtype, copy=False)
    shift = beta.astype(y.dtype, copy=False) - mean * scale

    def normalise(part):
        out = xp.multiply(x3[part], scale[:, None], out=y3[part])
        out += shift[:, None]
    map_chunks(xp, normalise, _chunks(xp, x3))
    return y, mean, inv


def _batch_norm_fixed_vjp(F, dy, x, y, eps, momentum, fix_gamma, axis):
    dy, data, gamma = dy[0], x[0], x[1]
    if dy is None:
        return (None,) * 5
    axis %= len(data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != axis)
    mean, inv = vector(F, y[1], data, axis), vector(F, y[2], data, axis)
    dx = dy * (inv if fix_gamma else inv * vector(F, gamma, data, axis))
    dg = F.zeros_like(gamma) if fix_gamma else F.sum(dy * (data - mean) * inv, axis=axes)
    return dx, dg, F.channel_sum(dy, axis=axis), None, None


operator("batch_norm_fixed", _PARAMETERS + ", eps, momentum, fix_gamma, axis", inputs=_PARAMETERS,
         infer=_infer_batch_norm, kernel=_batch_norm_fixed, vjp=_batch_norm_fixed_vjp)
