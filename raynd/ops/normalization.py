"""Normalisations without parameters (L2, local response), and what all normalisations share."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .registry import check_float, operator
from .softmax import wide


def statistics_spec(x, shape):
    """The spec of means and deviations of ``x``: float32 for 16-bit floats."""
    return spec(shape, x.dtype if x.dtype.itemsize >= 4 else "float32")


def spread(ndim, axis):
    """Shape in which a vector over ``axis`` broadcasts."""
    return tuple(-1 if i == axis else 1 for i in range(ndim))


def vector(F, v, like, axis):
    """``v`` over ``axis`` in the shape in which it broadcasts to ``like``."""
    return F.reshape(v, newshape=tuple(n if i == axis else 1 for i, n in enumerate(like.shape)))

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
