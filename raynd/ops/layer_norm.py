"""Layer normalisation (Ba et al. 2016) and group normalisation (Wu and He 2018).

Statistics are computed in float32 for 16-bit floats. Gradient operators work on the saved mean and standard deviation.
"""
from __future__ import annotations

import math

from ..errors import ShapeError
from ..spec import normalize_axis
from .normalization import spread, statistics_spec, vector
from .parallel import map_chunks
from .registry import check_float, operator
from .softmax import wide

# -- layer normalisation -------------------------------------------------------------------------------------------


def _infer_layer_norm(data, gamma, beta, axis, eps, output_mean_var):
    axis = normalize_axis(-1 if axis is None else axis, len(data.shape))
    for name, p in (("gamma", gamma), ("beta", beta)):
        if p.shape != data.shape[axis:axis + 1]:
            raise ShapeError(f"layer_norm: {name} has shape {p.shape}, data of shape {data.shape} needs "
                             f"{data.shape[axis:axis + 1]} for axis {axis}")
    check_float("layer_norm", data)
    kept = statistics_spec(data, data.shape[:axis] + (1,) + data.shape[axis + 1:])
    return data, kept, kept


def _axis_eps(axis, eps):
    return -1 if axis is None else axis, 1e-5 if eps is None else eps


def _layer_norm(xp, data, gamma, beta, axis, eps, output_mean_var):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta``, mean and variance over ``axis`` (Ba et al. 2016).

    Also gives the mean and the standard deviation sqrt(variance + eps), the axis kept, if ``output_mean_var``.
    """
    axis, eps = _axis_eps(axis, eps)
    x, restore = _rows(xp, data, axis)
    y, kind = xp.empty(x.shape, x.dtype), x.dtype.type
    mean, std = xp.empty((len(x), 1), x.dtype), xp.empty((len(x), 1), x.dtype)
    gamma, beta, n = gamma.astype(x.dtype, copy=False), beta.astype(x.dtype, copy=False), kind(max(x.shape[1], 1))

    def normalise(part):
        mean[part] = xp.matmul(x[part], xp.ones((x.shape[1], 1), x.dtype)) / n
        out = xp.subtract(x[part], mean[part], out=y[part])
        variance = xp.matmul(out[:, None, :], out[:, :, None])[:, 0] / n
        std[part] = xp.sqrt(variance + kind(eps))
        out *= 1 / std[part]
        out *= gamma
        out += beta
    map_chunks(xp, normalise, _chunks(xp, x))
    return restore(y), restore(mean), restore(std)


_CHUNK = 1 << 17                     # elements of a chunk of rows: what follows a pass over it finds it in the cache


def _rows(xp, a, axis):
    """``a`` (n, size of ``axis``) with that axis last, and the function that brings such rows back in place."""
    moved = xp.moveaxis(wide(xp, a), axis, -1)
    outer = moved.shape[:-1]
    return moved.reshape(math.prod(outer), moved.shape[-1]), lambda rows: xp.moveaxis(
        rows.reshape(*outer, rows.shape[1]), -1, axis)


def _chunks(xp, rows):
    """Slices of the rows, at least one; on a GPU just one."""
    step = max(1, _CHUNK // max(rows.shape[1], 1)) if xp.__name__ == "numpy" else max(len(rows), 1)
    return [slice(start, start + step) for start in range(0, max(len(rows), 1), step)]


def _layer_norm_grad(xp, dy, data, gamma, mean, std, axis):
    (x, restore), (dy, _), (mean, _), (std, _) = (_rows(xp, a, axis) for a in (data, dy, mean, std))
    dx, gamma, n = xp.empty(x.shape, x.dtype), gamma.astype(x.dtype, copy=False), x.dtype.type(max(x.shape[1], 1))

    def differentiate(part):
        """dx = (dy gamma - mean(dy gamma) - xhat mean(dy gamma xhat)) / std; gives the sums for gamma and beta."""
        head, inv = dy[part], 1 / std[part]
        xhat = x[part] - mean[part]
        xhat *= inv
        out = xp.multiply(head, xhat, out=dx[part])
        sums, average = out.sum(axis=0), xp.matmul(out, gamma[:, None]) / n
        xhat *= average
        xp.multiply(head, gamma, out=out)
        out -= xp.matmul(head, gamma[:, None]) / n
        out -= xhat
        out *= inv
        return sums, head.sum(axis=0)
    dg, db = (sum(parts) for parts in zip(*map_chunks(xp, differentiate, _chunks(xp, x))))
    return restore(dx), dg, db


def _layer_norm_grad_vjp(F, g, x, y, axis):
    dy, data, gamma, mean, std = x
    gx, gg, gb = g
    axis %= len(data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != axis)
    inv = F.reciprocal(std)
    xhat, gam = (data - mean) * inv, vector(F, gamma, data, axis)
    h = dy * gam

    def average(a):
        return F.mean(a, axis=axis, keepdims=True)

    def project(a):
        return a - average(a) - xhat * average(a * xhat)
    d_dy, d_data, d_gamma = None, None, None

    def add(a, b):
        return b if a is None else a + b
    if gx is not None:
        p = inv * project(gx)
        d_dy, d_gamma = p * gam, F.sum(p * dy, axis=axes)
        a, b = average(gx * xhat), average(h * xhat)
        along = average(gx * h) - average(gx) * average(h) - a * b
        d_data = -inv * inv * (project(h) * a + project(gx) * b + xhat * along)
    if gg is not None:
        v = vector(F, gg, data, axis)
        d_dy = add(d_dy, xhat * v)
        d_data = add(d_data, inv * project(dy * v))
    if gb is not None:
        d_dy = add(d_dy, F.zeros_like(dy) + vector(F, gb, data, axis))
    return d_dy, d_data, d_gamma, None, None


def _layer_norm_vjp(F, dy, x, y, axis, eps, output_mean_var):
    axis, _ = _axis_eps(axis, eps)
    if dy[0] is None:
        return None, None, None
    return F.layer_norm_grad(dy[0], x[0], x[1], y[1], y[2], axis=axis)


operator("layer_norm", "data, gamma, beta, axis=None, eps=None, output_mean_var=False", inputs="data, gamma, beta",
         infer=_infer_layer_norm, kernel=_layer_norm, vjp=_layer_norm_vjp)
operator("layer_norm_grad", "dy, data, gamma, mean, std, axis", inputs="dy, data, gamma, mean, std",
         infer=lambda dy, data, gamma, mean, std, axis: (data, gamma, gamma), kernel=_layer_norm_grad,
         vjp=_layer_norm_grad_vjp)

# -- group and instance normalisation ------------------------------------------------------------------------------


def _infer_group_norm(data, gamma, beta, num_groups, eps, output_mean_var):
    if len(data.shape) < 2:
        raise ShapeError(f"group_norm: data needs at least 2 axes (batch, channels), not shape {data.shape}")
    check_float("group_norm", data)
    if num_groups < 1 or data.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {data.shape[1]} channels do not divide into {num_groups} groups")
    for name, p in (("gamma", gamma), ("beta", beta)):
        if p.shape != data.shape[1:2] and data.shape[1]:         # without channels MXNet takes any gamma and beta
            raise ShapeError(f"group_norm: {name} has shape {p.shape}, data of shape {data.shape} has "
                             f"{data.shape[1]} channels")
    kept = statistics_spec(data, (data.shape[0], num_groups))
    return data, kept, kept


def _group_norm(xp, data, gamma, beta, num_groups, eps, output_mean_var):
    """Normalise each of ``num_groups`` groups of channels of each sample; then a scale and a shift for each channel
    (Wu and He 2018). Also gives mean and standard deviation of the groups if ``output_mean_var``."""
    x = wide(xp, data)
    y = xp.empty(x.shape, x.dtype)
    if not x.size:
        return y, xp.zeros((x.shape[0], num_groups), x.dtype), xp.zeros((x.shape[0], num_groups), x.dtype)
    groups = (x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups)
    xg, yg = x.reshape(groups), y.reshape(groups)
    n = x.dtype.type(max(groups[2], 1))
    mean = xg.sum(axis=2, keepdims=True) / n
    xp.subtract(xg, mean, out=yg)
    variance = xp.matmul(yg[:, :, None, :], yg[:, :, :, None])[..., 0] / n
    std = xp.sqrt(variance + x.dtype.type(eps))
    yg *= 1 / std
    shape = spread(x.ndim, 1)
    y *= gamma.reshape(shape).astype(x.dtype, copy=False)
    y += beta.reshape(shape).astype(x.dtype, copy=False)
    return y, mean[..., 0], std[..., 0]


def _group_norm_vjp(F, dy, x, y, num_groups, eps, output_mean_var):
    dy, (data, gamma, _) = dy[0], x
    if dy is None:
        return None, None, None
    if 0 in data.shape:
        return F.zeros_like(data), F.zeros_like(gamma), F.zeros_like(gamma)
    groups = (data.shape[0], num_groups, math.prod(data.shape[1:]) // num_groups)

    def grouped(a):
        return F.reshape(a, newshape=groups)

    def average(a):
        return F.mean(a, axis=2, keepdims=True)
    mean = F.reshape(y[1], newshape=(*y[1].shape, 1))
    inv = F.reciprocal(F.reshape(y[2], newshape=(*y[2].shape, 1)))
    xhat = (grouped(data) - mean) * inv
    h = grouped(dy * vector(F, gamma, data, 1))
    dx = F.reshape((h - average(h) - xhat * average(h * xhat)) * inv, newshape=data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != 1)
    return dx, F.sum(dy * F.reshape(xhat, newshape=data.shape), axis=axes), F.sum(dy, axis=axes)


# mean and standard deviation are results here, so that the rule above differentiates through them only if a gradient
# of theirs is defined; second derivatives therefore stop
operator("group_norm", "data, gamma, beta, num_groups=1, eps=0.001, output_mean_var=False", inputs="data, gamma, beta",
         infer=_infer_group_norm, kernel=_group_norm, vjp=_group_norm_vjp, first_order_only=True)
