"""Activation functions: the family of ``npx.activation`` and that of ``npx.leaky_relu``.

The frequent ones have a gradient operator of their own, which makes no temporaries beyond its result. All keep the
dtype of their input; integers are computed as the float of their width (see ``float_of``).
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, spec
from .elementwise import bind_elementwise, infer_float, infer_same, unary
from .registry import operator
from .special import special

# -- kernels -------------------------------------------------------------------------------------------------------


def relu(xp, x):
    """max(x, 0)."""
    return xp.maximum(x, x.dtype.type(0))


def sigmoid(xp, x):
    """1 / (1 + exp(-x)); exp may overflow to inf, which gives 0 as it should."""
    result = xp.negative(x)
    if not result.ndim:
        return 1 / (1 + xp.exp(result))
    xp.exp(result, out=result)
    result += 1
    return xp.reciprocal(result, out=result)


def softrelu(xp, x):
    """log(1 + exp(x)), without overflow."""
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


def log_sigmoid(xp, x):
    """log(sigmoid(x)), without underflow."""
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


def softsign(xp, x):
    """x / (1 + |x|)."""
    return x / (1 + xp.abs(x))


def mish(xp, x):
    """x tanh(log(1 + exp(x))) (Misra 2019)."""
    return x * xp.tanh(softrelu(xp, x))


def _relu_grad(xp, dy, y):
    return xp.multiply(dy, y > 0, dtype=dy.dtype)


def _sigmoid_grad(xp, dy, y):
    result = xp.subtract(1, y)
    result = result * y
    return result * dy


# -- records -------------------------------------------------------------------------------------------------------

operator("relu_grad", "dy, y", infer=lambda dy, y: dy, kernel=_relu_grad,
         vjp=lambda F, g, x, out: (F.relu_grad(g, x[1]), None))
operator("sigmoid_grad", "dy, y", infer=lambda dy, y: dy, kernel=_sigmoid_grad,
         vjp=lambda F, g, x, out: (F.sigmoid_grad(g, x[1]), g * x[0] * (1 - x[1] * 2)))

unary("relu", relu, vjp=lambda F, dy, x, y: F.relu_grad(dy, y), result="same", np=(), npx="relu", method="relu",
      doc="max(x, 0), element-wise.")
unary("sigmoid", sigmoid, vjp=lambda F, dy, x, y: F.sigmoid_grad(dy, y), np=(), npx="sigmoid", method="sigmoid",
      doc="1 / (1 + exp(-x)), element-wise.")
unary("softrelu", softrelu, vjp=lambda F, dy, x, y: dy * F.sigmoid(x), np=(), nd=(),
      doc="log(1 + exp(x)), element-wise.")
unary("log_sigmoid", log_sigmoid, vjp=lambda F, dy, x, y: dy * F.sigmoid(-x), np=(), npx="log_sigmoid",
      method="log_sigmoid", doc="log(sigmoid(x)), element-wise.")
unary("softsign", softsign, vjp=lambda F, dy, x, y: dy / F.square(F.absolute(x) + 1), np=(), npx="softsign",
      method="softsign", doc="x / (1 + abs(x)), element-wise.")


def _mish_vjp(F, dy, x, y):
    t = F.tanh(F.softrelu(x))
    return dy * (t + x * (1 - F.square(t)) * F.sigmoid(x))


unary("mish", mish, vjp=_mish_vjp, np=(), npx="mish", method="mish",
      doc="x * tanh(log(1 + exp(x))), element-wise (Misra 2019).")
unary("silu", lambda xp, x: x * sigmoid(xp, x), np=(), nd=(), npx="silu",
      vjp=lambda F, dy, x, y: dy * (F.sigmoid(x) + y * (1 - F.sigmoid(x))),
      doc="x * sigmoid(x), element-wise (Elfwing et al. 2017).")

ACTIVATIONS = {"relu": relu, "sigmoid": sigmoid, "log_sigmoid": log_sigmoid, "mish": mish, "softrelu": softrelu,
               "softsign": softsign, "tanh": lambda xp, x: xp.tanh(x)}
_GRADIENTS = {
    "relu": lambda F, dy, x, y: F.relu_grad(dy, y),
    "sigmoid": lambda F, dy, x, y: F.sigmoid_grad(dy, y),
    "tanh": lambda F, dy, x, y: F.tanh_grad(dy, y),
    "softrelu": lambda F, dy, x, y: dy * F.sigmoid(x),
    "log_sigmoid": lambda F, dy, x, y: dy * F.sigmoid(-x),
    "softsign": lambda F, dy, x, y: dy / F.square(F.absolute(x) + 1),
    "mish": _mish_vjp,
}


def _output_dtype(ins, out):
    return out.dtype


def _infer_activation(data, act_type):
    if act_type not in ACTIVATIONS:
        raise ArgumentError(f"activation: act_type must be one of {', '.join(sorted(ACTIVATIONS))}, not {act_type!r}")
    return infer_same(data) if act_type == "relu" else infer_float(data)


operator("activation", "data, act_type='relu', out=None, **kwargs", inputs="data", infer=_infer_activation,
         bind=lambda xp, ins, outs, attrs: bind_elementwise(ACTIVATIONS[attrs["act_type"]], _output_dtype)(
             xp, ins, outs, None),
         npx="activation", nd="Activation",
         vjp=lambda F, dy, x, y, act_type: _GRADIENTS[act_type](F, dy, x[0], y[0]),
         doc="Element-wise activation: 'relu', 'sigmoid', 'log_sigmoid', 'mish', 'softrelu', 'softsign' or 'tanh'.")

# -- leaky_relu and its relatives; npx.leaky_relu chooses among them ---------------------------------------------------


def leaky(xp, x, slope):
    """x, and slope * x where x is negative."""
    if 0 <= slope <= 1:
        return xp.maximum(x, x * slope)
    return xp.where(x > 0, x, x * slope)


def elu(xp, x, slope):
    """x, and slope * (exp(x) - 1) where x is not positive: one of the two terms is 0."""
    return xp.expm1(xp.minimum(x, 0)) * slope + xp.maximum(x, 0)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805   # Klambauer et al. 2017

operator("leaky", "x, slope", inputs="x", infer=infer_float, kernel=leaky,
         vjp=lambda F, dy, x, y, slope: F.leaky_grad(dy, x[0], slope=slope),
         doc="x, and slope * x where x is negative.")
operator("leaky_grad", "dy, x, slope", inputs="dy, x", infer=lambda dy, x, slope: dy,
         kernel=lambda xp, dy, x, slope: xp.where(x > 0, dy, dy * slope),
         vjp=lambda F, g, x, y, slope: (F.leaky_grad(g, x[1], slope=slope), None))
operator("elu", "x, slope", inputs="x", infer=infer_float, kernel=elu,
         vjp=lambda F, dy, x, y, slope: F.where(F.greater(x[0], 0), dy, dy * (y[0] + slope)),
         doc="x, and slope * (exp(x) - 1) where x is not positive (Clevert et al. 2016).")
operator("selu", "x", infer=infer_float, kernel=lambda xp, x: SELU_SCALE * elu(xp, x, SELU_ALPHA),
         vjp=lambda F, dy, x, y: F.where(F.greater(x[0], 0), dy * SELU_SCALE, dy * (y[0] + SELU_SCALE * SELU_ALPHA)),
         doc="ELU with the constants of self-normalizing networks (Klambauer et al. 2017).")

_SQRT_HALF, _SQRT_2_PI, _CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


def _normal_cdf(xp, x):
    return 0.5 * (1 + special(xp, "erf")(x * _SQRT_HALF))


def gelu(xp, x):
    """x times the standard normal distribution function of x."""
    return x * _normal_cdf(xp, x)


def _gelu_grad(xp, dy, x):
    return dy * (_normal_cdf(xp, x) + x * (xp.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))))


def _gelu_grad_vjp(F, g, x, y):
    dy, x = x
    density = F.exp(F.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
    return F.gelu_grad(g, x), g * dy * density * (2 - F.square(x))


operator("gelu", "x", infer=infer_float, kernel=gelu, vjp=lambda F, dy, x, y: F.gelu_grad(dy, x[0]),
         doc="x times the standard normal distribution function of x (Hendrycks and Gimpel 2016).")
operator("gelu_grad", "dy, x", infer=lambda dy, x: dy, kernel=_gelu_grad, vjp=_gelu_grad_vjp)


def gelu_tanh(xp, x):
    """The approximation of gelu by tanh."""
    return 0.5 * x * (1 + xp.tanh(_SQRT_2_PI * (x + _CUBIC * x * x * x)))


def _gelu_tanh_vjp(F, dy, x, y):
    x = x[0]
    t = F.tanh((x + F.square(x) * x * _CUBIC) * _SQRT_2_PI)
    slope = (F.square(x) * (3 * _CUBIC) + 1) * _SQRT_2_PI
    return dy * ((t + 1) * 0.5 + x * 0.5 * (1 - F.square(t)) * slope)


operator("gelu_tanh", "x", infer=infer_float, kernel=gelu_tanh, vjp=_gelu_tanh_vjp,
         doc="The approximation of gelu by tanh.")


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
    return xp.where(x > 0, x, x * gamma.reshape(gamma_shape(x.shape, gamma.shape)))


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


def _infer_hard_sigmoid(x, alpha, beta):
    if not isinstance(x, ArraySpec):
        raise ArgumentError("hard_sigmoid needs an array")
    return infer_float(spec(x.shape, x.dtype))


operator("hard_sigmoid", "data, alpha=0.2, beta=0.5", inputs="data", infer=_infer_hard_sigmoid,
         kernel=lambda xp, x, alpha, beta: xp.clip(alpha * x + beta, 0, 1), npx="hard_sigmoid",
         vjp=lambda F, dy, x, y, alpha, beta: F.where(F.logical_and(F.greater(y[0], 0), F.less(y[0], 1)),
                                                      dy * alpha, 0.0),
         doc="``alpha * x + beta``, limited to [0, 1].")
