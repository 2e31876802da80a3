"""Layers of quantized arrays: fully connected, convolution, pooling, batch normalisation (see ``quantization.py``).

Products of 8-bit integers are added up exactly in int32; ``requantize`` brings them back to 8 bits.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import normalize_axis, spec
from . import integer_products
from .convolution import Geometry, out_sizes
from .dense import out_shape, rows_of
from .pooling import Windows
from .quantization import (
    EIGHT_BIT,
    LIMITS,
    RANGE,
    calibrated,
    check_array,
    check_ranges,
    levels,
    magnitude,
    range_of,
    saturated,
    scaled,
)
from .quantized_arrays import product_range
from .registry import REGISTRY, operator
from .windows import channels_back, channels_first, moved_back, moved_shape

# -- products with weights -----------------------------------------------------------------------------------------

_WEIGHTED = "data, weight, bias, min_data, max_data, min_weight, max_weight, min_bias, max_bias"
_SIGNATURE = _WEIGHTED.replace(", ", "=None, ").replace("=None", "", 2) + "=None"
_OPTIONAL = tuple(_WEIGHTED.split(", ")[2:])


def _sorted_out(function, no_bias, given):
    """(bias or None, ranges) of what was given after data and weight. Arrays that a layer does not have may be None or,
    as in MXNet, left out, so that the others move up: ``f(data, weight, min_data, ..., no_bias=True)``."""
    arrays = [x for x in given if x is not None]
    names = [n for n in _OPTIONAL if not (no_bias and n.endswith("bias"))]
    if len(arrays) != len(names):
        raise ArgumentError(f"{function}: with no_bias={no_bias} it takes data, weight, {', '.join(names)}; got "
                            f"{len(arrays) + 2} arrays")
    return (None, arrays) if no_bias else (arrays[0], arrays[1:])


def _check_layer(function, data, weight, no_bias, given, units):
    """Raise unless the inputs of a layer fit one another."""
    check_array(function, "data", data, EIGHT_BIT)
    check_array(function, "weight", weight, ("int8",))
    bias, ranges = _sorted_out(function, no_bias, given)
    check_ranges(function, **dict(zip(_OPTIONAL[1:], ranges)))
    if bias is not None:
        check_array(function, "bias", bias, ("int8",))
        if bias.shape != (units,):
            raise ShapeError(f"{function}: bias must have shape ({units},), not {bias.shape}")


def _with_bias(xp, y, data, bias, ranges, channels_last):
    """(int32 sums with the bias, low, high). The bias is brought to the scale of the sums and cut to integers."""
    real = [magnitude(xp, *ends) for ends in zip(ranges[::2], ranges[1::2])]
    if bias is not None:
        factor = levels(xp, LIMITS[data.dtype.name], real[0]) * levels(xp, 127.5, real[1]) * real[2] / xp.float32(127.5)
        whole = xp.trunc(scaled(xp, bias, factor)).clip(-2.0 ** 31, 2.0 ** 31).astype("int64")
        if not channels_last:
            whole = whole.reshape(-1, *(1,) * (y.ndim - 2))
        y = (y + whole).clip(-2 ** 31, 2 ** 31 - 1).astype("int32")
    return y, *product_range(xp, real[0], real[1], data.dtype.kind == "u")


def _infer_fully_connected(data, weight, *given, num_hidden, no_bias, flatten):
    function = "quantized_fully_connected"
    _check_layer(function, data, weight, no_bias, given, num_hidden)
    if not data.shape:
        raise ShapeError(f"{function}: data needs at least one axis")
    needed = num_hidden, rows_of(data.shape, flatten)[1]
    if weight.shape != needed:
        raise ShapeError(f"{function}: weight must have shape (num_hidden, inputs) = {needed} for data of shape "
                         f"{data.shape} (flatten={flatten}), not {weight.shape}")
    return spec(out_shape(data.shape, num_hidden, flatten), "int32"), RANGE, RANGE


def _fully_connected(xp, data, weight, *given, num_hidden, no_bias, flatten):
    """``data @ weight.T + bias`` in int32, for int8 or uint8 data and int8 weight (num_hidden, inputs) and bias.

    Returns (integers, low, high). With ``flatten`` all axes of data but the first count as one, else the last axis is
    transformed and the others are kept. The bias has a range of its own and is brought to the scale of the products.
    With ``no_bias`` bias, min_bias and max_bias are absent: None, or left out.
    """
    bias, ranges = _sorted_out("quantized_fully_connected", no_bias, given)
    y = integer_products.product(xp, data.reshape(rows_of(data.shape, flatten)), weight)
    return _with_bias(xp, y.reshape(out_shape(data.shape, num_hidden, flatten)), data, bias, ranges, True)


operator("quantized_fully_connected", f"{_SIGNATURE}, num_hidden=None, no_bias=False, flatten=True, out=None",
         inputs=_WEIGHTED, optional=_OPTIONAL, infer=_infer_fully_connected, kernel=_fully_connected,
         npx="quantized_fully_connected", nd="_contrib_quantized_fully_connected")


def _geometry(data, weight, kernel, stride, dilate, pad, num_group, layout):
    """The convolution's geometry. As in MXNet, 'NCHW' stands for channels first whatever the number of axes."""
    return Geometry("quantized_conv", data.shape, weight.shape, kernel, stride, dilate, pad, num_group,
                    None if layout in ("NCHW", "NCDHW") else layout)


def _infer_conv(data, weight, *given, kernel, stride, dilate, pad, num_filter, num_group, no_bias, layout, **_):
    function = "quantized_conv"
    if kernel is None or num_filter is None:
        raise ArgumentError(f"{function}: kernel and num_filter are needed")
    _check_layer(function, data, weight, no_bias, given, num_filter)
    g = _geometry(data, weight, kernel, stride, dilate, pad, num_group, layout)
    x, w = moved_shape(data.shape, g.last), moved_shape(weight.shape, g.last)
    if num_filter % num_group or x[1] % num_group or w[:2] != (num_filter, x[1] // num_group):
        raise ShapeError(f"{function}: data of shape {data.shape}, weight of shape {weight.shape}, "
                         f"num_filter={num_filter} and num_group={num_group} do not fit")
    out = out_sizes(x[2:], g.kernel, g.stride, g.dilate, g.pad, function)
    return spec(moved_back((x[0], num_filter, *out), g.last), "int32"), RANGE, RANGE


def _conv(xp, data, weight, *given, kernel, stride, dilate, pad, num_filter, num_group, no_bias, layout, **_):
    """The convolution of int8 or uint8 data with int8 weight and bias, in int32 (see ``npx.convolution`` for shapes).

    Returns (integers, low, high). The bias has a range of its own and is brought to the scale of the products. With
    ``no_bias`` bias, min_bias and max_bias are absent: None, or left out. ``workspace``, ``cudnn_tune`` and
    ``cudnn_off`` tune MXNet's kernels and mean nothing here.
    """
    bias, ranges = _sorted_out("quantized_conv", no_bias, given)
    g = _geometry(data, weight, kernel, stride, dilate, pad, num_group, layout)
    y = integer_products.convolution(xp, channels_first(xp, data, g.last), channels_first(xp, weight, g.last),
                                     g.stride, g.dilate, g.pad, g.groups)
    y, low, high = _with_bias(xp, y, data, bias, ranges, False)
    return channels_back(xp, y, g.last), low, high


operator("quantized_conv", f"{_SIGNATURE}, kernel=None, stride=(), dilate=(), pad=(), num_filter=None, num_group=1, "
         "workspace=1024, no_bias=False, cudnn_tune=None, cudnn_off=False, layout=None, out=None", inputs=_WEIGHTED,
         optional=_OPTIONAL, infer=_infer_conv, kernel=_conv, npx="quantized_conv", nd="_contrib_quantized_conv")

# -- pooling -------------------------------------------------------------------------------------------------------


def _infer_pooling(data, min_data, max_data, pool_type, output_size, **attrs):
    function = "quantized_pooling"
    check_array(function, "data", data, EIGHT_BIT)
    check_ranges(function, min_data=min_data, max_data=max_data)
    if pool_type not in ("max", "avg"):
        raise ArgumentError(f"{function}: pool_type must be 'max' or 'avg', not {pool_type!r}")
    if output_size not in (None, ()):
        raise ArgumentError(f"{function}: output_size is not supported; give kernel and stride")
    w = Windows(data.shape, attrs["kernel"], attrs["stride"], attrs["pad"], attrs["pooling_convention"],
                attrs["global_pool"], attrs["layout"], function)
    shape = moved_shape(data.shape, w.last)
    return spec(moved_back((*shape[:2], *w.out), w.last), data.dtype), RANGE, RANGE


def _pooling(xp, data, min_data, max_data, pool_type, output_size, **attrs):
    """Maximum ('max') or average ('avg', rounded) of int8 or uint8 data over windows, and the range of the data.

    The windows are those of ``npx.pooling``, in all its conventions and layouts.
    """
    result = REGISTRY["nd_pooling"].kernel(xp, data, pool_type=pool_type, **attrs)
    if pool_type == "avg":
        result = saturated(xp, result.astype("float32"), data.dtype.name)
    return result, *range_of(xp, min_data, max_data)


operator("quantized_pooling", "data, min_data, max_data, kernel=(), pool_type='max', global_pool=False, "
         "cudnn_off=False, pooling_convention='valid', stride=(), pad=(), p_value=None, count_include_pad=None, "
         "layout=None, output_size=None, out=None", inputs="data, min_data, max_data", infer=_infer_pooling,
         kernel=_pooling, npx="quantized_pooling", nd="_contrib_quantized_pooling")

# -- batch normalisation -------------------------------------------------------------------------------------------


def _infer_batch_norm(data, gamma, beta, moving_mean, moving_var, min_data, max_data, axis, output_mean_var,
                      min_calib_range, max_calib_range, **_):
    function = "quantized_batch_norm"
    check_array(function, "data", data, EIGHT_BIT)
    check_ranges(function, min_data=min_data, max_data=max_data)
    if not data.shape:
        raise ShapeError(f"{function}: data needs at least one axis")
    channels = data.shape[normalize_axis(axis, data.ndim)]
    for name, x in {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}.items():
        check_array(function, name, x, ("float32",))
        if x.shape != (channels,):
            raise ShapeError(f"{function}: {name} must have shape ({channels},), one for each channel (axis {axis}), "
                             f"not {x.shape}")
    if not calibrated(function, min_calib_range, max_calib_range):
        raise ArgumentError(f"{function}: min_calib_range and max_calib_range, the range of the result, are needed")
    if output_mean_var:
        raise ArgumentError(f"{function}: it has no batch statistics to return; leave output_mean_var False")
    return spec(data.shape, "int8"), RANGE, RANGE


def _batch_norm(xp, data, gamma, beta, moving_mean, moving_var, min_data, max_data, eps, fix_gamma, axis,
                min_calib_range, max_calib_range, **_):
    """``(x - moving_mean) * gamma / sqrt(moving_var + eps) + beta`` of int8 or uint8 data, in int8.

    Returns (integers, low, high) in the calibrated range, which is needed. ``fix_gamma``: gamma counts as 1. It is for
    inference: the statistics are always the moving ones and do not move, so ``momentum`` and ``use_global_stats`` have
    no effect.
    """
    shape = [1] * data.ndim
    shape[axis] = -1
    real, target = magnitude(xp, min_data, max_data), magnitude(xp, min_calib_range, max_calib_range)
    unit = levels(xp, 127.5, target)
    slope = (xp.float32(1) if fix_gamma else gamma) / xp.sqrt(moving_var + xp.float32(eps))
    shift = (beta - moving_mean * slope) * unit
    x = data.astype("float32")
    if data.dtype.kind == "u":               # as in MXNet, first int8 of the same range
        xp.rint(xp.multiply(x, xp.float32(LIMITS["int8"] / LIMITS["uint8"]), out=x), out=x)
    x *= (slope * (real * unit / xp.float32(127.5))).reshape(shape)
    x += shift.reshape(shape)
    return saturated(xp, x, "int8"), *range_of(xp, min_calib_range, max_calib_range)


operator("quantized_batch_norm", "data, gamma, beta, moving_mean, moving_var, min_data, max_data, eps=0.001, "
         "momentum=0.9, fix_gamma=True, use_global_stats=False, output_mean_var=False, axis=1, cudnn_off=False, "
         "min_calib_range=None, max_calib_range=None, out=None",
         inputs="data, gamma, beta, moving_mean, moving_var, min_data, max_data", infer=_infer_batch_norm,
         kernel=_batch_norm, nd="_contrib_quantized_batch_norm")
