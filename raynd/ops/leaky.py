"""Activation functions that let negative values through in part: what ``npx.leaky_relu`` chooses among, and the
hard sigmoid."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, spec
from .blocks import select
from .elementwise import gradient, infer_float, unary
from .registry import operator
from .special import special

# -- lines and exponentials ----------------------------------------------------------------------------------------


def _leaky(xp, x, slope):
    if 0 <= slope <= 1:
        return xp.maximum(x, x * slope)
    return select(xp, x > 0, x, x * slope)


def _elu(xp, x, slope):
    """One of the two terms is 0."""
    return xp.expm1(xp.minimum(x, 0)) * slope + xp.maximum(x, 0)


gradient("leaky", lambda xp, dy, x, slope: select(xp, x > 0, dy, dy * slope), "dy, x, slope",
         lambda F, g, x, y, slope: (F.leaky_grad(g, x[1], slope=slope), None))
gradient("elu", lambda xp, dy, x, y, slope, scale: select(xp, x > 0, dy * scale, dy * (y + slope)),
         "dy, x, y, slope, scale",
         lambda F, g, x, out, slope, scale: (F.elu_grad(g, x[1], x[2], slope=slope, scale=scale), None,
                                             F.where(F.greater(x[1], 0), 0.0, g * x[0])))

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805   # Klambauer et al. 2017

unary("leaky", _leaky, signature="x, slope", np=(), nd=(),
      vjp=lambda F, dy, x, y, slope: F.leaky_grad(dy, x, slope=slope), doc="x, and slope * x where x is negative.")
unary("elu", _elu, signature="x, slope", np=(), nd=(),
      vjp=lambda F, dy, x, y, slope: F.elu_grad(dy, x, y, slope=slope, scale=1.0),
      doc="x, and slope * (exp(x) - 1) where x is not positive (Clevert et al. 2016).")
unary("selu", lambda xp, x: SELU_SCALE * _elu(xp, x, SELU_ALPHA), signature="x", np=(), nd=(),
      vjp=lambda F, dy, x, y: F.elu_grad(dy, x, y, slope=SELU_SCALE * SELU_ALPHA, scale=SELU_SCALE),
      doc="ELU with the constants of self-normalizing networks (Klambauer et al. 2017).")

# -- Gaussian error linear units -----------------------------------------------------------------------------------

_SQRT_HALF, _SQRT_2_PI, _CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


def _normal_cdf(xp, x):
    return 0.5 * (1 + special(xp, "erf")(x * _SQRT_HALF))


def _gelu_grad(xp, dy, x):
    return dy * (_normal_cdf(xp, x) + x * (xp.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))))


def _gelu_grad_vjp(F, g, x, y):
    dy, x = x
    density = F.exp(F.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
    return F.gelu_grad(g, x), g * dy * density * (2 - F.square(x))


gradient("gelu", _gelu_grad, "dy, x", _gelu_grad_vjp)
unary("gelu", lambda xp, x: x * _normal_cdf(xp, x), signature="x", np=(), nd=(),
      vjp=lambda F, dy, x, y: F.gelu_grad(dy, x),
      doc="x times the standard normal distribution function of x (Hendrycks and Gimpel 2016).")


def _gelu_tanh(xp, x):
    return 0.5 * x * (1 + xp.tanh(_SQRT_2_PI * (x + _CUBIC * x * x * x)))


def _gelu_tanh_grad(xp, dy, x):
    square = x * x
    t = xp.tanh(_SQRT_2_PI * x * (1 + _CUBIC * square))
    slope = _SQRT_2_PI * (1 + 3 * _CUBIC * square)
    return 0.5 * dy * (1 + t + x * (1 - t * t) * slope)


def _gelu_tanh_grad_vjp(F, g, x, y):
    dy, x = x
    t = F.tanh((x + F.square(x) * x * _CUBIC) * _SQRT_2_PI)
    slope, curvature = (F.square(x) * (3 * _CUBIC) + 1) * _SQRT_2_PI, x * (6 * _CUBIC * _SQRT_2_PI)
    second = (1 - F.square(t)) * (slope + x * 0.5 * (curvature - t * F.square(slope) * 2))
    return F.gelu_tanh_grad(g, x), g * dy * second


gradient("gelu_tanh", _gelu_tanh_grad, "dy, x", _gelu_tanh_grad_vjp)
unary("gelu_tanh", _gelu_tanh, signature="x", np=(), nd=(), vjp=lambda F, dy, x, y: F.gelu_tanh_grad(dy, x),
      doc="The approximation of gelu by tanh.")

# -- slopes that are learned or random -----------------------------------------------------------------------------


def gamma_shape(x, gamma):
    """The shape in which a slope array of shape ``gamma`` broadcasts to ``x``: a vector belongs to axis 1."""
    if len(gamma) == 1 and len(x) > 1 and gamma[0] != 1:
        return gamma + (1,) * (len(x) - 2)
    return gamma


def _infer_prelu(x, gamma):
    shape = gamma_shape(x.shape, gamma.shape)
    if len(shape) > len(x.shape) or any(m not in (1, n) for m, n in zip(reversed(shape), reversed(x.shape))):
        raise ShapeError(f"leaky_relu: gamma of shape {gamma.shape} does not fit data of shape {x.shape}; it needs one "
                         "element, or one for each channel (axis 1)")
    return infer_float(x)


def _prelu(xp, x, gamma):
    """x, and gamma * x where x is not positive; gamma has one element, or one for each channel."""
    return select(xp, x > 0, x, x * gamma.reshape(gamma_shape(x.shape, gamma.shape)))


def _prelu_vjp(F, dy, x, y):
    data, gamma = x
    shape = gamma_shape(data.shape, gamma.shape)
    slope = F.reshape(gamma, newshape=shape) if shape != gamma.shape else gamma
    positive = F.greater(data, 0)
    part = F.sum_to(F.where(positive, 0.0, dy * data), shape=shape)
    return F.where(positive, dy, dy * slope), part if shape == gamma.shape else F.reshape(part, newshape=gamma.shape)


operator("prelu", "x, gamma", infer=_infer_prelu, kernel=_prelu, vjp=_prelu_vjp)


def _rrelu(xp, x, lower, upper, rng):
    """x, and a random multiple of x, uniform in [lower, upper), where x is negative; and those multiples."""
    mask = rng.random(x.shape, dtype="float64" if x.dtype.itemsize == 8 else "float32")
    mask = (mask * (upper - lower) + lower).astype(x.dtype)
    mask = xp.where(x > 0, x.dtype.type(1), mask)
    return x * mask, mask


operator("rrelu", "x, lower, upper", inputs="x", draws=1, outputs=1, kernel=_rrelu,
         infer=lambda x, lower, upper: (infer_float(x), infer_float(x)),
         vjp=lambda F, dy, x, y, lower, upper: None if dy[0] is None else dy[0] * y[1],
         doc="Randomized leaky ReLU (Xu et al. 2015).")

# -- a limited line ------------------------------------------------------------------------------------------------


def _infer_hard_sigmoid(x, alpha, beta):
    if not isinstance(x, ArraySpec):
        raise ArgumentError("hard_sigmoid needs an array")
    return infer_float(spec(x.shape, x.dtype))


operator("hard_sigmoid", "data, alpha=0.2, beta=0.5", inputs="data", infer=_infer_hard_sigmoid,
         kernel=lambda xp, x, alpha, beta: xp.clip(alpha * x + beta, 0, 1), npx="hard_sigmoid",
         vjp=lambda F, dy, x, y, alpha, beta: F.where(F.logical_and(F.greater(y[0], 0), F.less(y[0], 1)),
                                                      dy * alpha, 0.0),
         doc="``alpha * x + beta``, limited to [0, 1].")
