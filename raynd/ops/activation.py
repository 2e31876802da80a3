"""Activation functions: the family of ``npx.activation``; that of ``npx.leaky_relu`` is in ``leaky.py``.

Each has a gradient operator of its own, one pass instead of many. All keep the dtype of their input; integers are
computed as the float of their width (see ``float_of``).
"""
from __future__ import annotations

from ..errors import ArgumentError
from .elementwise import bind_elementwise, gradient, infer_float, infer_same, unary
from .registry import operator
from .softmax import wide

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


def _mish_parts(xp, x):
    """(exp(x), n = exp(x) (exp(x) + 2)): tanh(log(1 + exp(x))) is n / (n + 2), which beyond 20 rounds to 1."""
    e = xp.exp(xp.minimum(wide(xp, x), 20))
    n = e + 2
    n *= e
    return e, n


def mish(xp, x):
    """x tanh(log(1 + exp(x))) (Misra 2019)."""
    _, n = _mish_parts(xp, x)
    result = n / (n + 2)
    result *= x
    return result


# -- gradients -----------------------------------------------------------------------------------------------------


def _sigmoid_grad(xp, dy, y):
    result = 1 - y
    result *= y
    result *= dy
    return result


def _softsign_grad(xp, dy, x):
    return dy / xp.square(xp.abs(x) + 1)


def _mish_grad(xp, dy, x):
    e, n = _mish_parts(xp, x)
    below = 1 / (n + 2)
    result = e * e
    result += e
    result *= x
    result *= 4
    result *= below
    result += n
    result *= below
    result *= dy
    return result


def _mish_grad_vjp(F, g, x, y):
    dy, x = x
    t, s = F.tanh(F.softrelu(x)), F.sigmoid(x)
    return F.mish_grad(g, x), g * dy * (1 - F.square(t)) * s * (x * (1 - s - t * s * 2) + 2)


gradient("relu", lambda xp, dy, y: xp.multiply(dy, y > 0, dtype=dy.dtype), "dy, y",
          lambda F, g, x, out: (F.relu_grad(g, x[1]), None))
gradient("sigmoid", _sigmoid_grad, "dy, y",
          lambda F, g, x, out: (F.sigmoid_grad(g, x[1]), g * x[0] * (1 - x[1] * 2)))
gradient("softrelu", lambda xp, dy, x: dy * sigmoid(xp, x), "dy, x",
          lambda F, g, x, out: (F.softrelu_grad(g, x[1]), F.sigmoid_grad(g * x[0], F.sigmoid(x[1]))))
gradient("log_sigmoid", lambda xp, dy, x: dy * sigmoid(xp, -x), "dy, x",
          lambda F, g, x, out: (F.log_sigmoid_grad(g, x[1]), -F.sigmoid_grad(g * x[0], F.sigmoid(x[1]))))
gradient("softsign", _softsign_grad, "dy, x",
          lambda F, g, x, out: (F.softsign_grad(g, x[1]),
                                g * x[0] * F.sign(x[1]) * -2 / F.power(F.absolute(x[1]) + 1, 3)))
gradient("mish", _mish_grad, "dy, x", _mish_grad_vjp)

_GRADIENTS = {
    "relu": lambda F, dy, x, y: F.relu_grad(dy, y),
    "sigmoid": lambda F, dy, x, y: F.sigmoid_grad(dy, y),
    "tanh": lambda F, dy, x, y: F.tanh_grad(dy, y),
    "softrelu": lambda F, dy, x, y: F.softrelu_grad(dy, x),
    "log_sigmoid": lambda F, dy, x, y: F.log_sigmoid_grad(dy, x),
    "softsign": lambda F, dy, x, y: F.softsign_grad(dy, x),
    "mish": lambda F, dy, x, y: F.mish_grad(dy, x),
}

# -- records -------------------------------------------------------------------------------------------------------

unary("relu", relu, vjp=_GRADIENTS["relu"], result="same", np=(), npx="relu", method="relu",
      doc="max(x, 0), element-wise.")
unary("sigmoid", sigmoid, vjp=_GRADIENTS["sigmoid"], np=(), npx="sigmoid", method="sigmoid",
      doc="1 / (1 + exp(-x)), element-wise.")
unary("softrelu", softrelu, vjp=_GRADIENTS["softrelu"], np=(), nd=(), doc="log(1 + exp(x)), element-wise.")
unary("log_sigmoid", log_sigmoid, vjp=_GRADIENTS["log_sigmoid"], np=(), npx="log_sigmoid", method="log_sigmoid",
      doc="log(sigmoid(x)), element-wise.")
unary("softsign", softsign, vjp=_GRADIENTS["softsign"], np=(), npx="softsign", method="softsign",
      doc="x / (1 + abs(x)), element-wise.")
unary("mish", mish, vjp=_GRADIENTS["mish"], np=(), npx="mish", method="mish",
      doc="x * tanh(log(1 + exp(x))), element-wise (Misra 2019).")
unary("silu", lambda xp, x: x * sigmoid(xp, x), np=(), nd=(), npx="silu",
      vjp=lambda F, dy, x, y: dy * (F.sigmoid(x) + y * (1 - F.sigmoid(x))),
      doc="x * sigmoid(x), element-wise (Elfwing et al. 2017).")

ACTIVATIONS = {"relu": relu, "sigmoid": sigmoid, "log_sigmoid": log_sigmoid, "mish": mish, "softrelu": softrelu,
               "softsign": softsign, "tanh": lambda xp, x: xp.tanh(x)}


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
