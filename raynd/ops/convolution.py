"""Convolution (cross-correlation) and its transpose, in 1 to 3 dimensions.

A convolution y = conv(x, w) is linear in data and in weights, so three trilinear operators are closed under
differentiation: ``convolution``, ``convolution_data_grad(dy, w)`` (which is also the transposed convolution,
'deconvolution') and ``convolution_weight_grad(dy, x)``. Each one's gradients are the other two. The bias is part of
``convolution`` and ``deconvolution`` alone. ``convolution_grads`` are all gradients of a convolution at once, which
libraries compute faster. The kernels are in ``convolution_kernels.py``.
"""
from __future__ import annotations

from ..errors import ShapeError
from ..spec import promote, spec
from .batch_norm import channel_sum
from .convolution_kernels import conv, conv_data_grad, conv_weight_grad
from .normalization import spread
from .registry import check_float, check_optional, operator
from .windows import channel_axis, channels_back, channels_first, moved_back, moved_shape, per_axis


class Geometry:
    """The canonical parameters of a convolution: window axes, kernel, stride, dilation, padding, groups, layout."""
    __slots__ = ("n", "kernel", "stride", "dilate", "pad", "groups", "last")

    def __init__(self, function, shape, weight, kernel, stride, dilate, pad, num_group, layout):
        n = self.n = len(shape) - 2
        if n not in (1, 2, 3):
            raise ShapeError(f"{function}: data must have 3, 4 or 5 axes, not shape {shape}")
        if len(weight) != n + 2:
            raise ShapeError(f"{function}: weight must have {n + 2} axes for data of shape {shape}, not shape {weight}")
        self.last = channel_axis(layout, n, function) != 1
        w = moved_shape(weight, self.last)
        self.kernel = w[2:] if kernel in (None, ()) else per_axis(kernel, n, 1, "kernel", function)
        if self.kernel != w[2:]:
            raise ShapeError(f"{function}: kernel={kernel}, but weight has shape {weight}")
        self.stride = per_axis(stride, n, 1, "stride", function)
        self.dilate = per_axis(dilate, n, 1, "dilate", function)
        self.pad = per_axis(pad, n, 0, "pad", function)
        self.groups = num_group
        if not isinstance(num_group, int) or num_group < 1:
            raise ShapeError(f"{function}: num_group must be a positive integer, not {num_group!r}")

    @property
    def attrs(self):
        """The attributes of the inner operators."""
        return {"stride": self.stride, "dilate": self.dilate, "pad": self.pad, "groups": self.groups,
                "channels_last": self.last}


def out_sizes(sizes, kernel, stride, dilate, pad, function="convolution"):
    """``floor((size + 2 pad - dilate (kernel - 1) - 1) / stride) + 1`` for each axis."""
    result = []
    for n, k, s, d, p in zip(sizes, kernel, stride, dilate, pad):
        span = d * (k - 1) + 1
        if n + 2 * p < span:
            raise ShapeError(f"{function}: the kernel (size {k}, dilation {d}) is larger than the padded input "
                             f"({n} + 2 * {p})")
        result.append((n + 2 * p - span) // s + 1)
    return tuple(result)


def _infer_convolution(data, weight, bias, kernel, stride, dilate, pad, num_filter, num_group, workspace, no_bias,
                       cudnn_tune, cudnn_off, layout):
    g = Geometry("convolution", data.shape, weight.shape, kernel, stride, dilate, pad, num_group, layout)
    x, w = moved_shape(data.shape, g.last), moved_shape(weight.shape, g.last)
    check_float("convolution", data, weight)
    if num_filter is not None and num_filter not in (1, w[0]):
        raise ShapeError(f"convolution: num_filter={num_filter}, but weight has shape {weight.shape}")
    if x[1] % g.groups or w[0] % g.groups:
        raise ShapeError(f"convolution: {x[1]} input and {w[0]} output channels do not divide into {g.groups} groups")
    if x[1] // g.groups != w[1]:
        raise ShapeError(f"convolution: data of shape {data.shape} has {x[1]} channels, weight of shape {weight.shape} "
                         f"with {g.groups} groups takes {w[1] * g.groups}")
    check_bias(bias, no_bias, w[0], "convolution")
    out = out_sizes(x[2:], g.kernel, g.stride, g.dilate, g.pad)
    return spec(moved_back((x[0], w[0], *out), g.last), promote(data.dtype, weight.dtype))


def check_bias(bias, no_bias, channels, function):
    check_optional(function, "bias", bias, not no_bias, no_bias=no_bias)
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"{function}: bias of shape {bias.shape} for {channels} channels")


def _add_bias(y, bias, channels_last):
    y += bias.astype(y.dtype, copy=False).reshape((-1,) if channels_last else (-1,) + (1,) * (y.ndim - 2))
    return y


def _convolution(xp, data, weight, bias, kernel, stride, dilate, pad, num_filter, num_group, workspace, no_bias,
                 cudnn_tune, cudnn_off, layout):
    """Cross-correlation of data with a filter for each output channel.

    data (N, C, sizes...), weight (num_filter, C / num_group, kernel...); with a channels-last layout (N, sizes..., C)
    and (num_filter, kernel..., C / num_group). Output sizes: floor((size + 2 pad - dilate (kernel - 1) - 1) / stride) +
    1. ``workspace``, ``cudnn_tune`` and ``cudnn_off`` tune MXNet's kernels and mean nothing here.
    """
    g = Geometry("convolution", data.shape, weight.shape, kernel, stride, dilate, pad, num_group, layout)
    y = conv(xp, channels_first(xp, data, g.last), channels_first(xp, weight, g.last), g.stride, g.dilate, g.pad,
             g.groups)
    if not no_bias:
        _add_bias(y, bias, False)
    return channels_back(xp, y, g.last)


def _bias_grad(F, dy, channels_last):
    return F.channel_sum(dy, axis=len(dy.shape) - 1 if channels_last else 1)


def _convolution_vjp(F, dy, x, y, kernel, stride, dilate, pad, num_filter, num_group, workspace, no_bias, cudnn_tune,
                     cudnn_off, layout, wanted):
    data, weight, _ = x
    g = Geometry("convolution", data.shape, weight.shape, kernel, stride, dilate, pad, num_group, layout)
    if {0, 1} <= wanted:
        grads = F.convolution_grads(dy, data, weight, bias=2 in wanted, **g.attrs)
        return (*grads, None)[:3]
    return F.convolution_data_grad(dy, weight, shape=data.shape, **g.attrs) if 0 in wanted else None, \
        F.convolution_weight_grad(dy, data, shape=weight.shape, **g.attrs) if 1 in wanted else None, \
        _bias_grad(F, dy, g.last) if 2 in wanted else None


_TUNING = "cudnn_tune=None, cudnn_off=False, layout=None"
operator("convolution", "data, weight, bias=None, kernel=None, stride=None, dilate=None, pad=None, num_filter=1, "
         "num_group=1, workspace=1024, no_bias=False, " + _TUNING + ", out=None", inputs="data, weight, bias",
         optional=("bias",), infer=_infer_convolution, kernel=_convolution, vjp=_convolution_vjp, npx="convolution",
         nd="Convolution, Convolution_v1")

# -- the gradients -------------------------------------------------------------------------------------------------

_ATTRS = "shape, stride, dilate, pad, groups, channels_last"


def _layout(channels_last, ndim):
    return {3: "NWC", 4: "NHWC", 5: "NDHWC"}[ndim] if channels_last else None


def _again(F, x, weight, stride, dilate, pad, groups, channels_last):
    """The convolution without bias, as an operator."""
    return F.convolution(x, weight, None, stride=stride, dilate=dilate, pad=pad, num_group=groups, no_bias=True,
                         num_filter=None, layout=_layout(channels_last, len(x.shape)))


def _data_grad(xp, dy, weight, shape, stride, dilate, pad, groups, channels_last):
    dx = conv_data_grad(xp, channels_first(xp, dy, channels_last), channels_first(xp, weight, channels_last),
                        moved_shape(shape, channels_last)[2:], stride, dilate, pad, groups)
    return channels_back(xp, dx, channels_last)


def _data_grad_vjp(F, g, x, y, shape, **attrs):
    return _again(F, g, x[1], **attrs), F.convolution_weight_grad(x[0], g, shape=x[1].shape, **attrs)


def _weight_grad(xp, dy, x, shape, stride, dilate, pad, groups, channels_last):
    dw = conv_weight_grad(xp, channels_first(xp, dy, channels_last), channels_first(xp, x, channels_last),
                          moved_shape(shape, channels_last)[2:], stride, dilate, pad, groups)
    return channels_back(xp, dw, channels_last)


def _weight_grad_vjp(F, g, x, y, shape, **attrs):
    return _again(F, x[1], g, **attrs), F.convolution_data_grad(x[0], g, shape=x[1].shape, **attrs)


operator("convolution_data_grad", "dy, weight, " + _ATTRS, inputs="dy, weight", kernel=_data_grad, vjp=_data_grad_vjp,
         infer=lambda dy, weight, shape, **_: spec(shape, promote(dy.dtype, weight.dtype)))
operator("convolution_weight_grad", "dy, x, " + _ATTRS, inputs="dy, x", kernel=_weight_grad, vjp=_weight_grad_vjp,
         infer=lambda dy, x, shape, **_: spec(shape, promote(dy.dtype, x.dtype)))



def _grads(xp, dy, data, weight, bias, channels_last, **attrs):
    result = (_data_grad(xp, dy, weight, data.shape, channels_last=channels_last, **attrs),
              _weight_grad(xp, dy, data, weight.shape, channels_last=channels_last, **attrs))
    return (*result, channel_sum(xp, dy, dy.ndim - 1 if channels_last else 1)) if bias else result


def _infer_grads(dy, data, weight, bias, channels_last, **_):
    result = spec(data.shape, dy.dtype), spec(weight.shape, dy.dtype)
    return (*result, spec((dy.shape[-1 if channels_last else 1],), dy.dtype)) if bias else result


def _grads_vjp(F, g, x, y, bias, channels_last, **attrs):
    """Each gradient is bilinear in two of the inputs."""
    attrs["channels_last"] = channels_last
    dy, data, weight = x
    for_data, for_weight, for_bias = (*g, None)[:3]
    terms = []
    if for_data is not None:
        terms.append(_again(F, for_data, weight, **attrs))
    if for_weight is not None:
        terms.append(_again(F, data, for_weight, **attrs))
    if for_bias is not None:
        axis = dy.ndim - 1 if channels_last else 1
        terms.append(F.zeros_like(dy) + F.reshape(for_bias, newshape=spread(dy.ndim, axis)))
    return sum(terms[1:], start=terms[0]) if terms else None, \
        None if for_weight is None else F.convolution_data_grad(dy, for_weight, shape=data.shape, **attrs), \
        None if for_data is None else F.convolution_weight_grad(dy, for_data, shape=weight.shape, **attrs)


operator("convolution_grads", "dy, data, weight, bias, stride, dilate, pad, groups, channels_last",
         inputs="dy, data, weight", infer=_infer_grads, kernel=_grads, vjp=_grads_vjp,
         doc="The gradients of data, weight and, if ``bias``, bias.")

# -- the transposed convolution ------------------------------------------------------------------------------------


def _deconvolution_geometry(data, weight, kernel, stride, dilate, pad, adj, target_shape, num_group, layout):
    """(geometry, output sizes): ``target_shape`` fixes the sizes and takes the place of ``pad`` and ``adj``."""
    g = Geometry("deconvolution", data, weight, kernel, stride, dilate, pad, num_group, layout)
    sizes = moved_shape(data, g.last)[2:]
    adj = per_axis(adj, g.n, 0, "adj", "deconvolution")
    full = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(sizes, g.stride, g.dilate, g.kernel)]
    if target_shape not in (None, ()) and any(per_axis(target_shape, g.n, 0, "target_shape", "deconvolution")):
        out = per_axis(target_shape, g.n, 0, "target_shape", "deconvolution")
        over = [f - t for f, t in zip(full, out)]
        if any(o < 0 for o in over):
            raise ShapeError(f"deconvolution: target_shape={target_shape} is larger than the full output {tuple(full)}")
        g.pad, adj = tuple((o + 1) // 2 for o in over), tuple(o % 2 for o in over)
        if any(a >= s for a, s in zip(adj, g.stride)):
            raise ShapeError(f"deconvolution: target_shape={tuple(out)} is not reached from the full output "
                             f"{tuple(full)}: the difference must be even where the stride is 1")
    elif any(a >= s for a, s in zip(adj, g.stride)):
        raise ShapeError(f"deconvolution: adj={adj} must be smaller than stride={g.stride}")
    out = tuple(f - 2 * p + a for f, p, a in zip(full, g.pad, adj))
    if any(n < 1 for n in out):
        raise ShapeError(f"deconvolution: the output of data of shape {data} would have sizes {out}")
    return g, out


def _infer_deconvolution(data, weight, bias, kernel, stride, dilate, pad, adj, target_shape, num_filter, num_group,
                         workspace, no_bias, cudnn_tune, cudnn_off, layout):
    g, out = _deconvolution_geometry(data.shape, weight.shape, kernel, stride, dilate, pad, adj, target_shape,
                                     num_group, layout)
    x, w = moved_shape(data.shape, g.last), moved_shape(weight.shape, g.last)
    check_float("deconvolution", data, weight)
    if x[1] != w[0]:
        raise ShapeError(f"deconvolution: data of shape {data.shape} has {x[1]} channels, weight of shape "
                         f"{weight.shape} takes {w[0]}")
    if w[0] % g.groups:
        raise ShapeError(f"deconvolution: {w[0]} channels do not divide into {g.groups} groups")
    channels = w[1] * g.groups
    if num_filter is not None and num_filter not in (1, channels):
        raise ShapeError(f"deconvolution: num_filter={num_filter}, but weight has shape {weight.shape} in {g.groups} "
                         "groups")
    check_bias(bias, no_bias, channels, "deconvolution")
    return spec(moved_back((x[0], channels, *out), g.last), promote(data.dtype, weight.dtype))


def _deconvolution(xp, data, weight, bias, kernel, stride, dilate, pad, adj, target_shape, num_filter, num_group,
                   workspace, no_bias, cudnn_tune, cudnn_off, layout):
    """The transpose of a convolution: the gradient of one with regard to its data.

    data (N, C, sizes...), weight (C, num_filter / num_group, kernel...). Output sizes: (size - 1) stride - 2 pad +
    dilate (kernel - 1) + 1 + adj, or ``target_shape``.
    """
    g, out = _deconvolution_geometry(data.shape, weight.shape, kernel, stride, dilate, pad, adj, target_shape,
                                     num_group, layout)
    y = conv_data_grad(xp, channels_first(xp, data, g.last), channels_first(xp, weight, g.last), out, g.stride,
                       g.dilate, g.pad, g.groups)
    if not no_bias:
        _add_bias(y, bias, False)
    return channels_back(xp, y, g.last)


def _deconvolution_vjp(F, dy, x, y, kernel, stride, dilate, pad, adj, target_shape, num_filter, num_group, workspace,
                       no_bias, cudnn_tune, cudnn_off, layout):
    data, weight, _ = x
    g, _ = _deconvolution_geometry(data.shape, weight.shape, kernel, stride, dilate, pad, adj, target_shape, num_group,
                                   layout)
    return _again(F, dy, weight, **g.attrs), F.convolution_weight_grad(data, dy, shape=weight.shape, **g.attrs), \
        None if no_bias else _bias_grad(F, dy, g.last)


operator("deconvolution", "data, weight, bias=None, kernel=None, stride=None, dilate=None, pad=None, adj=None, "
         "target_shape=None, num_filter=1, num_group=1, workspace=1024, no_bias=False, " + _TUNING + ", out=None",
         inputs="data, weight, bias", optional=("bias",), infer=_infer_deconvolution, kernel=_deconvolution,
         vjp=_deconvolution_vjp, npx="deconvolution")
