"""Kernels of PyTorch (oneDNN on the CPU, cuDNN on a GPU) for the operators of ``providers.TORCH_OPERATORS``.

Arrays become tensors without a copy and results go back the same way. float32 and float64 only: other types, and the
cases that PyTorch defines differently or computes slowly, are left to the reference kernels.
"""
from __future__ import annotations

import numpy
import torch

from ..ops.convolution import Geometry, _deconvolution_geometry
from ..ops.convolution_kernels import conv_data_grad
from ..ops.pooling import Windows
from ..ops.shape import axes_order
from . import torch_ctc, torch_recurrent  # noqa: F401
from .torch_bridge import bind, kernel, supported  # noqa: F401

_aten = torch.ops.aten


# -- convolution ---------------------------------------------------------------------------------------------------


def _geometry(in_specs, attrs):
    data, weight = in_specs[:2]
    return Geometry("convolution", data.shape, weight.shape, attrs["kernel"], attrs["stride"], attrs["dilate"],
                    attrs["pad"], attrs["num_group"], attrs["layout"])


@kernel("convolution")
def _convolution(xp, in_specs, out_specs, attrs):
    if not supported(*in_specs, *out_specs):
        return None
    g = _geometry(in_specs, attrs)
    if g.last:
        return None
    function = (torch.conv1d, torch.conv2d, torch.conv3d)[g.n - 1]
    no_bias = attrs["no_bias"]

    def run(x, w, b):
        return function(x, w, None if no_bias else b, g.stride, g.pad, g.dilate, g.groups)
    return run


def _backward(dy, x, w, attrs, which):
    n = dy.dim() - 2
    return _aten.convolution_backward(dy, x, w, [w.shape[0]], attrs["stride"], attrs["pad"], attrs["dilate"], False,
                                      [0] * n, attrs["groups"], which)


def _shape_only(like, shape):
    """A tensor of a shape whose values are not read. It is contiguous, else PyTorch would copy it."""
    return like.new_empty(shape)


FEW_CHANNELS = 8        # oneDNN computes the gradient of data with fewer channels as if they were 16


def _few_channels(dy, w, shape, attrs):
    """The gradient of the data by the reference kernel."""
    return torch.from_numpy(conv_data_grad(numpy, dy.numpy(), w.numpy(), shape[2:], attrs["stride"], attrs["dilate"],
                                           attrs["pad"], attrs["groups"]))


@kernel("convolution_grads")
def _convolution_grads(xp, in_specs, out_specs, attrs):
    if not supported(*in_specs, *out_specs) or attrs["channels_last"]:
        return None
    shape, bias, groups = in_specs[1].shape, attrs["bias"], attrs["groups"]
    if xp.__name__ == "numpy" and groups == 1 and shape[1] <= FEW_CHANNELS:
        return lambda dy, x, w: [_few_channels(dy, w, shape, attrs),
                                 *_backward(dy, x, w, attrs, (False, True, bias))[1:2 + bias]]
    return lambda dy, x, w: _backward(dy, x, w, attrs, (True, True, bias))[:2 + bias]


@kernel("convolution_data_grad")
def _data_grad(xp, in_specs, out_specs, attrs):
    if not supported(*in_specs, *out_specs) or attrs["channels_last"]:
        return None
    if xp.__name__ == "numpy" and attrs["groups"] == 1 and attrs["shape"][1] <= FEW_CHANNELS:
        return lambda dy, w: _few_channels(dy, w, attrs["shape"], attrs)

    def run(dy, w):
        return _backward(dy, _shape_only(dy, attrs["shape"]), w, attrs, (True, False, False))[0]
    return run


@kernel("convolution_weight_grad")
def _weight_grad(xp, in_specs, out_specs, attrs):
    if not supported(*in_specs, *out_specs) or attrs["channels_last"]:
        return None

    def run(dy, x):
        return _backward(dy, x, _shape_only(dy, attrs["shape"]), attrs, (False, True, False))[1]
    return run


@kernel("deconvolution")
def _deconvolution(xp, in_specs, out_specs, attrs):
    if not supported(*in_specs, *out_specs):
        return None
    data, weight = in_specs[:2]
    g, out = _deconvolution_geometry(data.shape, weight.shape, attrs["kernel"], attrs["stride"], attrs["dilate"],
                                     attrs["pad"], attrs["adj"], attrs["target_shape"], attrs["num_group"],
                                     attrs["layout"])
    if g.last:
        return None
    extra = [o - ((n - 1) * s + d * (k - 1) + 1 - 2 * p)
             for o, n, s, d, k, p in zip(out, data.shape[2:], g.stride, g.dilate, g.kernel, g.pad)]
    if any(e < 0 or (e and e >= max(s, d)) for e, s, d in zip(extra, g.stride, g.dilate)):
        return None
    function = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[g.n - 1]
    no_bias = attrs["no_bias"]

    def run(x, w, b):
        return function(x, w, None if no_bias else b, g.stride, g.pad, extra, g.groups, g.dilate)
    return run


# -- pooling: on a GPU only; the reference kernels are as fast on the CPU, and keep NaN and -inf ---------------------


def _windows(shape, attrs, convention):
    """The windows if PyTorch's pooling means the same by them, else None."""
    w = Windows(shape, attrs["kernel"], attrs["stride"], attrs["pad"], attrs[convention], attrs["global_pool"],
                attrs["layout"])
    fits = not w.last and all(2 * p <= k for p, k in zip(w.pad, w.kernel)) and len(w.kernel) == 2 and all(
        o == (n + 2 * p - k) // s + 1 for o, n, p, k, s in zip(w.out, w.sizes, w.pad, w.kernel, w.stride))
    return w if fits else None


@kernel("pooling", "nd_pooling")
def _pooling(xp, in_specs, out_specs, attrs):
    if xp.__name__ == "numpy" or not supported(*in_specs, *out_specs) or attrs["global_pool"] \
            or attrs["pool_type"] not in ("max", "avg"):
        return None
    w = _windows(in_specs[0].shape, attrs, "pooling_convention")
    if w is None:
        return None
    if attrs["pool_type"] == "max":
        return lambda x: torch.max_pool2d(x, w.kernel, w.stride, w.pad)
    padded = attrs["count_include_pad"] is not False
    return lambda x: _aten.avg_pool2d(x, w.kernel, w.stride, w.pad, False, padded)


@kernel("max_pool_grad")
def _max_pool_grad(xp, in_specs, out_specs, attrs):
    if xp.__name__ == "numpy" or not supported(*in_specs, *out_specs) or attrs["global_pool"]:
        return None
    w = _windows(in_specs[1].shape, attrs, "convention")
    if w is None:
        return None

    def run(dy, x, y):
        where = _aten.max_pool2d_with_indices(x, w.kernel, w.stride, w.pad)[1]
        return _aten.max_pool2d_with_indices_backward(dy, x, w.kernel, w.stride, w.pad, [1, 1], False, where)
    return run


# -- normalisation -------------------------------------------------------------------------------------------------


def _channels_second(in_specs, attrs):
    return supported(*in_specs) and attrs["axis"] % len(in_specs[0].shape) == 1


@kernel("batch_norm_train")
def _batch_norm_train(xp, in_specs, out_specs, attrs):
    if not _channels_second(in_specs, attrs):
        return None
    eps, momentum, fixed = attrs["eps"], attrs["momentum"], attrs["fix_gamma"]

    def run(x, gamma, beta, running_mean, running_var):
        y, mean, inv = torch.native_batch_norm(x, None if fixed else gamma, beta, None, None, True, 0.0, eps)
        variance = (inv.pow(-2) - eps).clamp_(min=0)
        moved = [torch.add(running * momentum, batch, alpha=1 - momentum)
                 for running, batch in ((running_mean, mean), (running_var, variance))]
        return (y, mean, inv, *moved)
    return run


@kernel("batch_norm_fixed")
def _batch_norm_fixed(xp, in_specs, out_specs, attrs):
    if not _channels_second(in_specs, attrs):
        return None
    eps, fixed = attrs["eps"], attrs["fix_gamma"]

    def run(x, gamma, beta, mean, var):
        y = torch.native_batch_norm(x, None if fixed else gamma, beta, mean, var, False, 0.0, eps)[0]
        return y, mean.clone(), torch.rsqrt(var + eps)
    return run


@kernel("batch_norm_grad")
def _batch_norm_grad(xp, in_specs, out_specs, attrs):
    if not supported(*in_specs) or attrs["axis"] % len(in_specs[1].shape) != 1:
        return None
    fixed = attrs["fix_gamma"]

    def run(dy, x, gamma, mean, inv):
        dx, dg, db = _aten.native_batch_norm_backward(
            dy, x, None if fixed else gamma, None, None, mean, inv, True, 0.0,
            (True, True, True))
        return dx, torch.zeros_like(gamma) if fixed else dg, db
    return run


@kernel("channel_sum")
def _channel_sum(xp, in_specs, out_specs, attrs):
    if not supported(*in_specs, *out_specs):
        return None
    n = len(in_specs[0].shape)
    others = [i for i in range(n) if i != attrs["axis"] % n]
    return (lambda x: x.sum(others)) if others else None


@kernel("layer_norm")
def _layer_norm(xp, in_specs, out_specs, attrs):
    shape = in_specs[0].shape
    axis = -1 if attrs["axis"] is None else attrs["axis"]
    if not supported(*in_specs) or axis % len(shape) != len(shape) - 1:
        return None
    eps = 1e-5 if attrs["eps"] is None else attrs["eps"]

    def run(x, gamma, beta):
        y, mean, inv = torch.native_layer_norm(x, shape[-1:], gamma, beta, eps)
        return y, mean, torch.reciprocal(inv)
    return run


@kernel("layer_norm_grad")
def _layer_norm_grad(xp, in_specs, out_specs, attrs):
    shape = in_specs[1].shape
    if not supported(*in_specs) or attrs["axis"] % len(shape) != len(shape) - 1:
        return None

    def run(dy, x, gamma, mean, std):
        return _aten.native_layer_norm_backward(dy, x, shape[-1:], mean, torch.reciprocal(std), gamma, gamma,
                                                (True, True, True))
    return run


# -- functions that are computed slowly without it -----------------------------------------------------------------


def _elementwise(name, function):
    @kernel(name)
    def factory(xp, in_specs, out_specs, attrs):
        return function if supported(*in_specs, *out_specs) else None


_elementwise("erf", torch.erf)
_elementwise("erfinv", torch.erfinv)
_elementwise("gammaln", torch.lgamma)
_elementwise("gelu", torch.nn.functional.gelu)
_elementwise("gelu_grad", _aten.gelu_backward)
_elementwise("sigmoid", torch.sigmoid)


@kernel("activation")
def _activation(xp, in_specs, out_specs, attrs):
    return torch.sigmoid if attrs["act_type"] == "sigmoid" and supported(*in_specs, *out_specs) else None


@kernel("leaky_grad")
def _leaky_grad(xp, in_specs, out_specs, attrs):
    slope = attrs["slope"]
    return (lambda dy, x: _aten.leaky_relu_backward(dy, x, slope, False)) if supported(*in_specs, *out_specs) else None


@kernel("elu")
def _elu(xp, in_specs, out_specs, attrs):
    slope = attrs["slope"]
    return (lambda x: torch.nn.functional.elu(x, slope)) if supported(*in_specs, *out_specs) else None


@kernel("elu_grad")
def _elu_grad(xp, in_specs, out_specs, attrs):
    alpha, scale = attrs["slope"] / attrs["scale"], attrs["scale"]
    if not supported(*in_specs, *out_specs):
        return None
    return lambda dy, x, y: _aten.elu_backward(dy, alpha, scale, 1.0, False, x)


@kernel("transpose")
def _transpose(xp, in_specs, out_specs, attrs):
    order = axes_order(attrs["axes"], in_specs[0].ndim)
    if xp.__name__ != "numpy" or not supported(*in_specs, *out_specs) or order[-1:] in ((), (len(order) - 1,)):
        return None                          # whole rows: NumPy copies them as fast
    return lambda x: x.permute(order).contiguous()


# -- softmax, embedding --------------------------------------------------------------------------------------------


@kernel("softmax", "nd_softmax")
def _softmax(xp, in_specs, out_specs, attrs):
    return _softmax_like(torch.softmax, in_specs, out_specs, attrs)


@kernel("log_softmax", "nd_log_softmax")
def _log_softmax(xp, in_specs, out_specs, attrs):
    return _softmax_like(torch.log_softmax, in_specs, out_specs, attrs)


def _softmax_like(function, in_specs, out_specs, attrs):
    if attrs["use_length"] or attrs["temperature"] not in (None, 1) or not supported(in_specs[0], *out_specs):
        return None
    return lambda x, length: function(x, attrs["axis"])


@kernel("softmax_grad")
def _softmax_grad(xp, in_specs, out_specs, attrs):
    if attrs["scale"] != 1 or not supported(*in_specs) or not isinstance(attrs["axis"], int):
        return None
    return lambda dy, y: _aten._softmax_backward_data(dy, y, attrs["axis"], y.dtype)


@kernel("log_softmax_grad")
def _log_softmax_grad(xp, in_specs, out_specs, attrs):
    if attrs["scale"] != 1 or not supported(*in_specs):
        return None
    return lambda dy, y: _aten._log_softmax_backward_data(dy, y, attrs["axis"], y.dtype)


@kernel("embedding_grad")
def _embedding_grad(xp, in_specs, out_specs, attrs):
    if not supported(in_specs[0], *out_specs) or not in_specs[1].size:
        return None
    rows = attrs["rows"]

    def run(dy, data):
        index = data.to(torch.int64).reshape(-1).clamp(0, rows - 1)
        grads = dy.reshape(index.numel(), -1)
        return _aten.embedding_dense_backward(grads, index, rows, -1, False)
    return run
