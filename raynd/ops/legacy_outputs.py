"""The output layers of MXNet 1: operators whose gradient is that of a loss, whatever comes from behind them."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from .registry import check_float, operator


def _choice(value, allowed, name):
    if value not in allowed:
        raise ArgumentError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


# -- softmax -------------------------------------------------------------------------------------------------------


def _as_three(data, multi_output, preserve_shape):
    """``data`` as (batch, classes, positions)."""
    shape = data.shape
    if multi_output:
        return data.reshape(*shape[:2], math.prod(shape[2:]))
    if preserve_shape:
        return data.reshape(math.prod(shape[:-1]), shape[-1], 1)
    return data.reshape(shape[0], math.prod(shape[1:]), 1)


def _label_shapes(data, multi_output, preserve_shape):
    if multi_output:
        n, rest = data[0], data[2:]
        return {(n, *rest), (n, math.prod(rest)), (n, 1, *rest)}
    return {data[:-1]} if preserve_shape else {(data[0],), (data[0], 1)}


def _infer_softmax(data, label, multi_output=False, preserve_shape=False, normalization="null", **_):
    check_float("SoftmaxOutput", data)
    _choice(normalization, ("batch", "null", "valid"), "normalization")
    if data.ndim < 2:
        raise ShapeError(f"SoftmaxOutput: the data needs at least two axes, not the shape {data.shape}")
    if label.shape != data.shape and label.shape not in _label_shapes(data.shape, multi_output, preserve_shape):
        raise ShapeError(f"SoftmaxOutput: labels of shape {label.shape} do not fit data of shape {data.shape}")
    return data


def _softmax_output(xp, data, label, multi_output, preserve_shape, **_):
    if not data.size:
        return data.copy()
    x = _as_three(data, multi_output, preserve_shape)
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).reshape(data.shape)


def _softmax_output_grad(xp, dy, output, label, grad_scale, ignore_label, multi_output, use_ignore, preserve_shape,
                         normalization, out_grad, smooth_alpha):
    if label.shape == output.shape:
        grad, count = output - label, 1.0
        batch, positions = output.shape[0], 1
    else:
        p = _as_three(output, multi_output, preserve_shape)
        batch, classes, positions = p.shape
        target = label.reshape(p.shape[0], 1, p.shape[2])
        hit = target.astype("int64") == xp.arange(classes).reshape(1, -1, 1)
        off = smooth_alpha / max(classes - 1, 1)
        grad = p - xp.where(hit, 1.0 - smooth_alpha, off)
        if use_ignore:
            grad = xp.where(target == ignore_label, 0.0, grad)
        if normalization == "valid":
            count = xp.maximum((label != ignore_label).sum(), 1)
    count = count if normalization == "valid" else max(positions * (batch if normalization == "batch" else 1), 1)
    scale = grad_scale / count
    grad = grad.reshape(output.shape) * scale
    return grad * dy if out_grad else grad


_SOFTMAX = ("grad_scale=1.0, ignore_label=-1.0, multi_output=False, use_ignore=False, preserve_shape=False, "
            "normalization='null', out_grad=False, smooth_alpha=0.0")

operator("softmax_output", f"data, label, {_SOFTMAX}, out=None", infer=_infer_softmax, kernel=_softmax_output,
         vjp=lambda F, dy, x, y, **attrs: (F.softmax_output_grad(dy, y[0], x[1], **attrs), None),
         nd="SoftmaxOutput, Softmax",
         doc="Softmax over the classes (axis 1 with multi_output, the last with preserve_shape, else all but the first)"
             " whose gradient is that of the cross entropy with ``label`` (class numbers or probabilities), times "
             "grad_scale and divided by the number of positions and, with normalization 'batch', of softmaxes at each; "
             "or, with 'valid', by the number of labels that are not ignore_label.")
operator("softmax_output_grad", f"dy, output, label, {_SOFTMAX}", first_order_only=True,
         infer=lambda dy, output, label, **_: output, kernel=_softmax_output_grad)

# -- regression ----------------------------------------------------------------------------------------------------


def _regression(name, export, forward, error, doc):
    def infer(data, label, grad_scale=1.0):
        check_float(export, data)
        if data.size != label.size or data.shape[:1] != label.shape[:1]:
            raise ShapeError(f"{export}: labels of shape {label.shape} do not fit data of shape {data.shape}")
        return data

    def grad(xp, output, label, grad_scale):
        outputs = label.size // max(label.shape[0], 1) if label.ndim else 1
        return error(xp, output - label.reshape(output.shape)) * (grad_scale / max(outputs, 1))

    operator(f"{name}_output", "data, label, grad_scale=1.0, out=None", infer=infer,
             kernel=lambda xp, data, label, grad_scale: forward(xp, data), nd=export,
             vjp=lambda F, dy, x, y, grad_scale: (getattr(F, f"{name}_output_grad")(y[0], x[1], grad_scale=grad_scale),
                                                  None), doc=doc)
    operator(f"{name}_output_grad", "output, label, grad_scale=1.0", first_order_only=True, kernel=grad,
             infer=lambda output, label, grad_scale: output)


_regression("linear_regression", "LinearRegressionOutput", lambda xp, x: x.copy(), lambda xp, e: e,
            "The data; its gradient is that of half the squared error to ``label``, averaged over the outputs.")
_regression("logistic_regression", "LogisticRegressionOutput", lambda xp, x: 1 / (1 + xp.exp(-x)), lambda xp, e: e,
            "The sigmoid of the data; its gradient is that of the cross entropy with ``label``.")
_regression("mae_regression", "MAERegressionOutput", lambda xp, x: x.copy(), lambda xp, e: xp.sign(e),
            "The data; its gradient is that of the absolute error to ``label``, averaged over the outputs.")

# -- losses and margins --------------------------------------------------------------------------------------------


def _infer_loss(data, grad_scale=1.0, valid_thresh=0.0, normalization="null"):
    _choice(normalization, ("batch", "null", "valid"), "normalization")
    return data


def _make_loss_grad(xp, data, grad_scale, valid_thresh, normalization):
    if normalization == "batch":
        grad_scale = grad_scale / max(data.shape[0], 1) if data.ndim else grad_scale
    elif normalization == "valid":
        grad_scale = grad_scale / xp.maximum((data > valid_thresh).sum(), 1)
    return xp.zeros_like(data) + grad_scale


operator("make_loss", "data, grad_scale=1.0, valid_thresh=0.0, normalization='null', out=None", infer=_infer_loss,
         kernel=lambda xp, data, **_: data.copy(), nd="MakeLoss, make_loss",
         vjp=lambda F, dy, x, y, **attrs: F.make_loss_grad(x[0], **attrs),
         doc="The data as a loss: its gradient is ``grad_scale``, whatever comes from behind.")
operator("make_loss_grad", "data, grad_scale=1.0, valid_thresh=0.0, normalization='null'", first_order_only=True,
         infer=lambda data, **_: data, kernel=_make_loss_grad)


def _infer_svm(data, label, **_):
    if data.ndim < 2 or label.size != data.shape[0]:
        raise ShapeError(f"SVMOutput: labels of shape {label.shape} do not fit data of shape {data.shape}")
    return data


def _svm_grad(xp, data, label, margin, regularization_coefficient, use_linear):
    x = data.reshape(data.shape[0], math.prod(data.shape[1:]))
    hit = label.reshape(-1, 1).astype("int64") == xp.arange(x.shape[1]).reshape(1, -1)
    sign = xp.where(hit, -1.0, 1.0)
    slack = xp.maximum(margin + sign * x, 0.0)
    size = (slack > 0) * 1.0 if use_linear else 2.0 * slack
    return (sign * size * regularization_coefficient).reshape(data.shape)


_SVM = "margin=1.0, regularization_coefficient=1.0, use_linear=False"
operator("svm_output", f"data, label, {_SVM}, out=None", infer=_infer_svm,
         kernel=lambda xp, data, label, **_: data.copy(), nd="SVMOutput",
         vjp=lambda F, dy, x, y, **attrs: (F.svm_output_grad(x[0], x[1], **attrs), None),
         doc="The data; its gradient is that of the squared (or, with use_linear, plain) hinge loss of each class.")
operator("svm_output_grad", f"data, label, {_SVM}", first_order_only=True,
         infer=lambda data, label, **_: data, kernel=_svm_grad)
operator("gradientmultiplier", "data, scalar=1.0, is_int=True, out=None", infer=lambda data, scalar, is_int: data,
         kernel=lambda xp, data, scalar, is_int: data.copy(), nd="_contrib_gradientmultiplier",
         vjp=lambda F, dy, x, y, scalar, is_int: dy * float(scalar),
         doc="The data; its gradient is multiplied by ``scalar`` (negative values reverse it).")


def _infer_sparse(data, moving_average, **_):
    if data.ndim != 2 or moving_average.shape != data.shape[1:]:
        raise ShapeError(f"IdentityAttachKLSparseReg: data must be (batch, units) and moving_avg (units,), not of "
                         f"shapes {data.shape} and {moving_average.shape}")
    return data, moving_average


def _sparse(xp, data, moving_average, sparseness_target, penalty, momentum):
    """The data; its gradient is increased by that of ``penalty`` times the Kullback-Leibler divergence of each unit's
    mean activity from ``sparseness_target`` (Hinton 2010, A practical guide to training restricted Boltzmann machines),
    where the mean runs over batches with ``momentum``."""
    average = momentum * moving_average + (1 - momentum) * data.mean(axis=0)
    return data.copy(), average, average


def _sparse_vjp(F, dy, x, y, sparseness_target, penalty, momentum):
    if dy[0] is None:
        return None, None
    return dy[0] + penalty * ((1 - sparseness_target) / (1 - y[1]) - sparseness_target / y[1]), None


operator("kl_sparse_identity", "data, moving_average, sparseness_target, penalty, momentum",
         inputs="data, moving_average", infer=_infer_sparse, kernel=_sparse, vjp=_sparse_vjp, mutates=(1,), outputs=1)
