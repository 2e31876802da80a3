"""Batch, layer, group and instance normalisation, and the two normalisations without parameters (L2, LRN).

Statistics are computed in float32 for 16-bit floats. Each family has a gradient operator over the saved mean and the
inverse standard deviation, ``dx = gamma * inv / m * (m dy - sum(dy) - xhat sum(dy xhat))``. Gradients of gradients are
written in differentiable operators, through mean and inverse standard deviation.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import normalize_axis, spec
from .registry import check_float, operator
from .softmax import wide


def _statistics_spec(x, shape):
    return spec(shape, x.dtype if x.dtype.itemsize >= 4 else "float32")


def _along(ndim, axis):
    """Shape in which a vector over ``axis`` broadcasts, as a function of its length."""
    return tuple(-1 if i == axis else 1 for i in range(ndim))


def _mean_inv(xp, x, axes, eps):
    """Mean and 1 / sqrt(variance + eps), axes kept; the variance is the biased one."""
    mean = x.mean(axis=axes, keepdims=True)
    centred = x - mean
    variance = xp.square(centred).mean(axis=axes, keepdims=True)
    return centred, mean, variance, 1 / xp.sqrt(variance + x.dtype.type(eps))


# -- batch normalisation -------------------------------------------------------------------------------------------


def _infer_batch_norm(x, gamma, beta, running_mean, running_var, eps, momentum, fix_gamma, axis):
    check_float("batch_norm", x)
    axis = normalize_axis(axis, len(x.shape))
    for name, p in (("gamma", gamma), ("beta", beta), ("running_mean", running_mean), ("running_var", running_var)):
        if p.shape != x.shape[axis:axis + 1]:
            raise ShapeError(f"batch_norm: {name} has shape {p.shape}, data of shape {x.shape} has "
                             f"{x.shape[axis]} channels on axis {axis}")
    statistics = _statistics_spec(x, x.shape[axis:axis + 1])
    return x, statistics, statistics


def channels_last_or_first(xp, x, axis):
    """``x`` as (outer, channels, inner): the channel axis alone, the axes before and after it merged."""
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1:]))


def channel_sum(xp, x3):
    """Sums over all but the channel axis of (outer, channels, inner)."""
    if x3.shape[2] == 1:
        return x3[:, :, 0].sum(axis=0)
    return xp.matmul(x3, xp.ones(x3.shape[2], x3.dtype)).sum(axis=0)     # twice as fast as a reduction of axis 2


def channel_dot(xp, a3, b3):
    """Sums of a * b over all but the channel axis."""
    if a3.shape[2] == 1:
        return xp.einsum("nc,nc->c", a3[:, :, 0], b3[:, :, 0])
    return xp.matmul(a3[:, :, None, :], b3[:, :, :, None])[:, :, 0, 0].sum(axis=0)


operator("channel_sum", "x, axis", inputs="x", infer=lambda x, axis: spec(x.shape[axis:axis + 1], x.dtype),
         kernel=lambda xp, x, axis: channel_sum(xp, channels_last_or_first(xp, wide(xp, x), axis)),
         vjp=lambda F, dy, x, y, axis: F.zeros_like(x[0]) + _vector(F, dy, x[0], axis),
         doc="Sums over all axes but one.")


def _batch_norm_train(xp, x, gamma, beta, running_mean, running_var, eps, momentum, fix_gamma, axis):
    """Normalise by the batch; also gives mean, inverse standard deviation, and the new running statistics."""
    axis %= x.ndim
    x3 = channels_last_or_first(xp, wide(xp, x), axis)
    count = max(x3.shape[0] * x3.shape[2], 1)
    mean = channel_sum(xp, x3) / x3.dtype.type(count)
    y = xp.empty(x.shape, x3.dtype)
    y3 = channels_last_or_first(xp, y, axis)
    xp.subtract(x3, mean[:, None], out=y3)
    variance = channel_dot(xp, y3, y3) / x3.dtype.type(count)
    inv = 1 / xp.sqrt(variance + variance.dtype.type(eps))
    scale = inv if fix_gamma else inv * gamma
    y3 *= scale[:, None]
    y3 += beta.astype(y.dtype, copy=False)[:, None]
    return (y, mean, inv, _moved(running_mean, mean, momentum), _moved(running_var, variance, momentum))


def _moved(running, batch, momentum):
    return running * running.dtype.type(momentum) + batch * batch.dtype.type(1 - momentum)


def _batch_norm_grad(xp, dy, x, gamma, mean, inv, fix_gamma, axis):
    """Gradients of data, gamma and beta."""
    axis %= x.ndim
    x3, dy3 = (channels_last_or_first(xp, wide(xp, a), axis) for a in (x, dy))
    count = max(x3.shape[0] * x3.shape[2], 1)
    db = channel_sum(xp, dy3)
    dx = xp.empty(x.shape, x3.dtype)
    dx3 = channels_last_or_first(xp, dx, axis)
    xp.subtract(x3, mean[:, None], out=dx3)
    dot = channel_dot(xp, dy3, dx3)
    scale = inv if fix_gamma else inv * gamma
    # dx = scale * (dy - db / m - centred * inv^2 * dot / m)
    dx3 *= (-scale * inv * inv * dot / count)[:, None]
    dx3 += dy3 * scale[:, None]
    dx3 -= (scale * db / count)[:, None]
    return dx, xp.zeros_like(db) if fix_gamma else dot * inv, db


def _vector(F, v, like, axis):
    return F.reshape(v, newshape=tuple(n if i == axis else 1 for i, n in enumerate(like.shape)))


def _batch_norm_grad_vjp(F, g, x, y, fix_gamma, axis):
    """By differentiating ``dx = s (dy - mean(dy) - xhat mean(dy xhat))`` written in operators. Mean and inverse
    standard deviation are functions of the data, so they are computed from it here and get no gradient of their own."""
    dy, data, gamma, _, _ = x
    gx, gg, gb = g
    axis %= len(data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != axis)
    inv = _vector(F, x[4], data, axis)
    xhat = (data - _vector(F, x[3], data, axis)) * inv
    scale = inv if fix_gamma else inv * _vector(F, gamma, data, axis)

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
        v = _vector(F, gg, data, axis)
        d_dy = add(d_dy, xhat * v)
        d_data = add(d_data, inv * v * project(dy))
    if gb is not None:
        d_dy = add(d_dy, F.zeros_like(dy) + _vector(F, gb, data, axis))
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
    x3 = channels_last_or_first(xp, wide(xp, x), axis)
    mean = running_mean.astype(x3.dtype)
    inv = 1 / xp.sqrt(running_var.astype(x3.dtype) + x3.dtype.type(eps))
    scale = inv if fix_gamma else inv * gamma.astype(x3.dtype, copy=False)
    y = xp.empty(x.shape, x3.dtype)
    y3 = channels_last_or_first(xp, y, axis)
    xp.multiply(x3, scale[:, None], out=y3)
    y3 += (beta.astype(x3.dtype, copy=False) - mean * scale)[:, None]
    return y, mean, inv


def _batch_norm_fixed_vjp(F, dy, x, y, eps, momentum, fix_gamma, axis):
    dy, data, gamma = dy[0], x[0], x[1]
    if dy is None:
        return (None,) * 5
    axis %= len(data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != axis)
    mean, inv = _vector(F, y[1], data, axis), _vector(F, y[2], data, axis)
    dx = dy * (inv if fix_gamma else inv * _vector(F, gamma, data, axis))
    dg = F.zeros_like(gamma) if fix_gamma else F.sum(dy * (data - mean) * inv, axis=axes)
    return dx, dg, F.channel_sum(dy, axis=axis), None, None


operator("batch_norm_fixed", _PARAMETERS + ", eps, momentum, fix_gamma, axis", inputs=_PARAMETERS,
         infer=_infer_batch_norm, kernel=_batch_norm_fixed, vjp=_batch_norm_fixed_vjp)

# -- layer normalisation -------------------------------------------------------------------------------------------


def _infer_layer_norm(data, gamma, beta, axis, eps, output_mean_var):
    axis = normalize_axis(-1 if axis is None else axis, len(data.shape))
    for name, p in (("gamma", gamma), ("beta", beta)):
        if p.shape != data.shape[axis:axis + 1]:
            raise ShapeError(f"layer_norm: {name} has shape {p.shape}, data of shape {data.shape} needs "
                             f"{data.shape[axis:axis + 1]} for axis {axis}")
    check_float("layer_norm", data)
    kept = _statistics_spec(data, data.shape[:axis] + (1,) + data.shape[axis + 1:])
    return data, kept, kept


def _axis_eps(axis, eps):
    return -1 if axis is None else axis, 1e-5 if eps is None else eps


def _layer_norm(xp, data, gamma, beta, axis, eps, output_mean_var):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta``, mean and variance over ``axis`` (Ba et al. 2016).

    Also gives the mean and the standard deviation sqrt(variance + eps), the axis kept, if ``output_mean_var``.
    """
    axis, eps = _axis_eps(axis, eps)
    axis %= data.ndim
    x = wide(xp, data)
    n = x.dtype.type(max(x.shape[axis], 1))
    mean = x.sum(axis=axis, keepdims=True) / n
    y = x - mean
    if axis == x.ndim - 1:
        variance = xp.matmul(y[..., None, :], y[..., :, None])[..., 0] / n
    else:
        variance = xp.square(y).sum(axis=axis, keepdims=True) / n
    std = xp.sqrt(variance + x.dtype.type(eps))
    y *= 1 / std
    shape = _along(data.ndim, axis)
    y *= gamma.reshape(shape).astype(x.dtype, copy=False)
    y += beta.reshape(shape).astype(x.dtype, copy=False)
    return y, mean, std


def _layer_norm_grad(xp, dy, data, gamma, mean, std, axis):
    axis %= data.ndim
    shape = _along(data.ndim, axis)
    x, dy = wide(xp, data), wide(xp, dy)
    others = tuple(i for i in range(data.ndim) if i != axis)
    xhat = x - mean
    xhat *= 1 / std
    db = dy.sum(axis=others)
    work = dy * xhat
    dg = work.sum(axis=others)
    g = gamma.reshape(shape).astype(x.dtype, copy=False)
    n = x.dtype.type(max(x.shape[axis], 1))
    work *= g
    along = work.sum(axis=axis, keepdims=True) / n
    dx = xp.multiply(dy, g, out=work)
    xhat *= along
    flat = dx.sum(axis=axis, keepdims=True) / n
    dx -= flat
    dx -= xhat
    dx *= 1 / std
    return dx, dg, db


def _layer_norm_grad_vjp(F, g, x, y, axis):
    dy, data, gamma, mean, std = x
    gx, gg, gb = g
    axis %= len(data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != axis)
    inv = F.reciprocal(std)
    xhat, gam = (data - mean) * inv, _vector(F, gamma, data, axis)
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
        v = _vector(F, gg, data, axis)
        d_dy = add(d_dy, xhat * v)
        d_data = add(d_data, inv * project(dy * v))
    if gb is not None:
        d_dy = add(d_dy, F.zeros_like(dy) + _vector(F, gb, data, axis))
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
    kept = _statistics_spec(data, (data.shape[0], num_groups))
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
    shape = _along(x.ndim, 1)
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
    h = grouped(dy * _vector(F, gamma, data, 1))
    dx = F.reshape((h - average(h) - xhat * average(h * xhat)) * inv, newshape=data.shape)
    axes = tuple(i for i in range(len(data.shape)) if i != 1)
    return dx, F.sum(dy * F.reshape(xhat, newshape=data.shape), axis=axes), F.sum(dy, axis=axes)


# mean and standard deviation are results here, so that the rule above differentiates through them only if a gradient
# of theirs is defined; second derivatives therefore stop
operator("group_norm", "data, gamma, beta, num_groups=1, eps=0.001, output_mean_var=False", inputs="data, gamma, beta",
         infer=_infer_group_norm, kernel=_group_norm, vjp=_group_norm_vjp, first_order_only=True)

# -- L2 and local response normalisation ---------------------------------------------------------------------------

_L2_AXES = {"instance": lambda n: tuple(range(1, n)), "channel": lambda n: (1,),
            "spatial": lambda n: tuple(range(2, n))}


def _infer_l2(data, eps, mode):
    check_float("l2_normalization", data)
    if mode not in _L2_AXES:
        raise ArgumentError(f"l2_normalization: mode must be 'instance', 'channel' or 'spatial', not {mode!r}")
    if len(data.shape) < {"instance": 1, "channel": 2, "spatial": 3}[mode]:
        raise ShapeError(f"l2_normalization: data of shape {data.shape} has too few axes for mode {mode!r}")
    return data


def _l2_normalization(xp, data, eps, mode):
    """``x / sqrt(sum(x ** 2) + eps)``, the sum over all axes but the first ('instance'), over axis 1 ('channel') or
    over all from axis 2 on ('spatial')."""
    x = wide(xp, data)
    return x / xp.sqrt(xp.square(x).sum(axis=_L2_AXES[mode](x.ndim), keepdims=True) + x.dtype.type(eps))


def _wide(F, x):
    """``x``, or as float32 if it is a 16-bit float: what gradients compute in, as the kernels do."""
    return x if x.dtype.itemsize >= 4 else F.cast(x, dtype="float32")


def _l2_vjp(F, dy, x, y, eps, mode):
    x, dy = _wide(F, x[0]), _wide(F, dy)
    axes = _L2_AXES[mode](len(x.shape))
    inv = F.rsqrt(F.sum(F.square(x), axis=axes, keepdims=True) + eps)
    return (dy - x * (F.sum(dy * x, axis=axes, keepdims=True) * F.square(inv))) * inv


operator("l2_normalization", "data, eps=1e-10, mode='instance', out=None", inputs="data", infer=_infer_l2,
         kernel=_l2_normalization, vjp=_l2_vjp, npx="l2_normalization", nd="L2Normalization")


def _infer_window_sum(x, nsize):
    if not isinstance(nsize, int) or nsize < 1 or nsize % 2 == 0:
        raise ShapeError(f"lrn: nsize must be odd and positive, not {nsize!r}")
    if len(x.shape) < 2:
        raise ShapeError(f"lrn: data needs at least 2 axes, not shape {x.shape}")
    return x


def _channel_window_sum(xp, x, nsize):
    """For each channel (axis 1) the sum over the ``nsize`` channels around it."""
    result, half = x.copy(), nsize // 2
    for d in range(1, min(half, x.shape[1] - 1) + 1):
        result[:, d:] += x[:, :-d]
        result[:, :-d] += x[:, d:]
    return result


operator("channel_window_sum", "x, nsize", inputs="x", infer=_infer_window_sum, kernel=_channel_window_sum,
         vjp=lambda F, dy, x, y, nsize: F.channel_window_sum(dy, nsize=nsize))


def _infer_lrn(data, alpha, beta, knorm, nsize):
    check_float("lrn", data)
    return _infer_window_sum(data, nsize)


def _lrn(xp, data, alpha, beta, knorm, nsize):
    """Local response normalisation over ``nsize`` channels (Krizhevsky et al. 2012):
    ``x / (knorm + alpha / nsize * sum(x ** 2)) ** beta``."""
    x = wide(xp, data)
    return x * (knorm + alpha / nsize * _channel_window_sum(xp, xp.square(x), nsize)) ** -beta


def _lrn_vjp(F, dy, x, y, alpha, beta, knorm, nsize):
    x, dy = _wide(F, x[0]), _wide(F, dy)
    base = F.channel_window_sum(F.square(x), nsize=nsize) * (alpha / nsize) + knorm
    power = F.power(base, -beta)
    return dy * power - x * F.channel_window_sum(dy * x * power / base, nsize=nsize) * (2 * alpha * beta / nsize)


operator("lrn", "data, alpha=0.0001, beta=0.75, knorm=2.0, nsize=5, out=None", inputs="data", kernel=_lrn, vjp=_lrn_vjp,
         infer=_infer_lrn, npx="lrn", nd="LRN")
