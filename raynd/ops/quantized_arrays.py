"""Operators of quantized arrays that move, join, add and multiply their integers (see ``quantization.py``).

Each takes the ranges of its inputs after them and returns (integers, low, high).
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import normalize_axis, spec
from .quantization import (
    EIGHT_BIT,
    INT32,
    LIMITS,
    RANGE,
    calibrated,
    check_array,
    check_ranges,
    choice,
    levels,
    magnitude,
    range_of,
    saturated,
    scaled,
)
from .registry import REGISTRY, operator
from .shape import check_order, npx_reshaped

# -- the same numbers in another order -----------------------------------------------------------------------------


def _check(function, data, min_data, max_data, dtypes=EIGHT_BIT):
    check_array(function, "data", data, dtypes)
    check_ranges(function, min_data=min_data, max_data=max_data)


def _infer_act(data, min_data, max_data, act_type):
    choice("quantized_act", "act_type", act_type, ("relu",))
    _check("quantized_act", data, min_data, max_data)
    return data, RANGE, RANGE


def _act(xp, data, min_data, max_data, act_type):
    """The larger of each int8 or uint8 integer and 0 (``act_type`` 'relu', the only one), and the range as it was."""
    return xp.maximum(data, data.dtype.type(0)), *range_of(xp, min_data, max_data)


operator("quantized_act", "data, min_data, max_data, act_type=None, out=None", infer=_infer_act, kernel=_act,
         npx="quantized_act", nd="_contrib_quantized_act")


def _infer_flatten(data, min_data, max_data):
    _check("quantized_flatten", data, min_data, max_data, (*EIGHT_BIT, "int32", "float32"))
    if not data.shape:
        raise ShapeError("quantized_flatten: data needs at least one axis")
    return spec((data.shape[0], math.prod(data.shape[1:])), data.dtype), RANGE, RANGE


def _flatten(xp, data, min_data, max_data):
    """The array as a matrix that keeps the first axis, and its range."""
    return data.reshape(data.shape[0], math.prod(data.shape[1:])).copy(), *range_of(xp, min_data, max_data)


operator("quantized_flatten", "data, min_data, max_data, out=None", infer=_infer_flatten, kernel=_flatten,
         npx="quantized_flatten", nd="_contrib_quantized_flatten")


def _infer_reshape(data, min_data, max_data, newshape, reverse, order):
    _check("quantized_reshape", data, min_data, max_data)
    if newshape is None:
        raise ArgumentError("quantized_reshape: newshape is needed")
    check_order(order, "quantized_reshape")
    return spec(npx_reshaped(data.shape, newshape, reverse), data.dtype), RANGE, RANGE


def _reshape(xp, data, min_data, max_data, newshape, reverse, order):
    """A copy in another shape, given in the codes of ``npx.reshape``, and its range."""
    return data.reshape(npx_reshaped(data.shape, newshape, reverse)).copy(), *range_of(xp, min_data, max_data)


operator("quantized_reshape", "data, min_data, max_data, newshape=None, reverse=False, order='C', out=None",
         inputs="data, min_data, max_data", infer=_infer_reshape, kernel=_reshape, npx="quantized_reshape")


def _order(ndim, axes):
    """``axes`` as a permutation; None and () reverse all."""
    if axes in (None, ()):
        return tuple(reversed(range(ndim)))
    axes = axes if isinstance(axes, tuple) else (axes,)
    order = tuple(normalize_axis(a, ndim, "axes") for a in axes)
    if len(order) != ndim or len(set(order)) != ndim:
        raise ShapeError(f"quantized_transpose: axes={axes} is not an order of the {ndim} axes")
    return order


def _infer_transpose(data, min_data, max_data, axes):
    _check("quantized_transpose", data, min_data, max_data)
    return spec(tuple(data.shape[a] for a in _order(data.ndim, axes)), data.dtype), RANGE, RANGE


def _transpose(xp, data, min_data, max_data, axes):
    """The array with its axes in the order ``axes`` (default: reversed), and its range."""
    return xp.ascontiguousarray(data.transpose(_order(data.ndim, axes))).reshape(
        tuple(data.shape[a] for a in _order(data.ndim, axes))), *range_of(xp, min_data, max_data)


operator("quantized_transpose", "data, min_data, max_data, axes=None, out=None", inputs="data, min_data, max_data",
         infer=_infer_transpose, kernel=_transpose, npx="quantized_transpose",
         nd="quantized_transpose, _contrib_quantized_transpose")


def _infer_embedding(data, weight, min_weight, max_weight, input_dim, output_dim, dtype, sparse_grad):
    check_array("quantized_embedding", "weight", weight, ("int8",))
    check_ranges("quantized_embedding", min_weight=min_weight, max_weight=max_weight)
    result = REGISTRY["embedding"].infer(data, weight, input_dim=input_dim, output_dim=output_dim, dtype=dtype,
                                         sparse_grad=sparse_grad)
    return result, RANGE, RANGE


def _embedding(xp, data, weight, min_weight, max_weight, **attrs):
    """Rows of int8 ``weight`` (input_dim, output_dim) at the indices in ``data`` (clipped to the nearest row), and the
    range of the weight. ``dtype`` is that of the layer this stands for; the result is int8."""
    return REGISTRY["embedding"].kernel(xp, data, weight, **attrs), *range_of(xp, min_weight, max_weight)


operator("quantized_embedding", "data, weight, min_weight, max_weight, input_dim=None, output_dim=None, "
         "dtype='float32', sparse_grad=False, out=None", inputs="data, weight, min_weight, max_weight",
         infer=_infer_embedding, kernel=_embedding, npx="quantized_embedding", nd="_contrib_quantized_embedding")

# -- concatenation -------------------------------------------------------------------------------------------------


def _parts(data, num_args):
    """(arrays, lows, highs) of the inputs ``array, ..., low, high, low, high, ...``."""
    count = len(data) // 3 if num_args is None else num_args
    if not data or count * 3 != len(data):
        raise ArgumentError("quantized_concat: the inputs must be the arrays, then a low and a high for each"
                            + (f" ({3 * num_args} with num_args={num_args})" if num_args is not None else "")
                            + f"; got {len(data)}")
    return data[:count], data[count::2], data[count + 1::2]


def _infer_concat(*data, dim, num_args):
    arrays, lows, highs = _parts(data, num_args)
    for i, (a, low, high) in enumerate(zip(arrays, lows, highs)):
        check_array("quantized_concat", f"array {i + 1}", a, EIGHT_BIT)
        check_ranges("quantized_concat", **{f"the low of array {i + 1}": low, f"the high of array {i + 1}": high})
    dtype = "int8" if any(a.dtype.name == "int8" for a in arrays) else "uint8"
    joined = REGISTRY["concatenate"].infer(*arrays, axis=0 if dim is None else dim)
    return spec(joined.shape, dtype), RANGE, RANGE


def _concat(xp, *data, dim, num_args):
    """Quantized arrays joined along the axis ``dim`` (None: 0), brought to the range that holds all of theirs and zero.

    The inputs are the arrays (int8 or uint8, of one shape but for ``dim``), then the low and high of each. The result
    is int8 if one of them is, else uint8.
    """
    arrays, lows, highs = _parts(data, num_args)
    low = xp.minimum(xp.concatenate([x.reshape(1) for x in lows]).min(), xp.float32(0))
    high = xp.maximum(xp.concatenate([x.reshape(1) for x in highs]).max(), xp.float32(0))
    dtype = "int8" if any(a.dtype.kind == "i" for a in arrays) else "uint8"
    target = levels(xp, LIMITS[dtype], magnitude(xp, low, high))
    parts = [saturated(xp, scaled(xp, a, target / levels(xp, LIMITS[a.dtype.name], magnitude(xp, *ends))), dtype)
             for a, *ends in zip(arrays, lows, highs)]
    return xp.concatenate(parts, axis=0 if dim is None else dim), *range_of(xp, low, high)


operator("quantized_concat", "*data, dim=1, num_args=None, out=None", infer=_infer_concat, kernel=_concat,
         nd="_contrib_quantized_concat")

# -- element-wise --------------------------------------------------------------------------------------------------


def _check_pair(function, lhs, rhs, dtypes, **ranges):
    check_array(function, "lhs", lhs, dtypes)
    check_array(function, "rhs", rhs, dtypes)
    check_ranges(function, **ranges)
    if lhs.shape != rhs.shape:
        raise ShapeError(f"{function}: lhs and rhs must have one shape, they are not broadcast; got {lhs.shape} and "
                         f"{rhs.shape}")


def _infer_add(lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max, min_calib_range, max_calib_range):
    _check_pair("quantized_elemwise_add", lhs, rhs, EIGHT_BIT, lhs_min=lhs_min, lhs_max=lhs_max, rhs_min=rhs_min,
                rhs_max=rhs_max)
    if not calibrated("quantized_elemwise_add", min_calib_range, max_calib_range):
        return spec(lhs.shape, "int32"), RANGE, RANGE
    return spec(lhs.shape, lhs.dtype if lhs.dtype == rhs.dtype else "int8"), RANGE, RANGE


def _add(xp, lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max, min_calib_range, max_calib_range):
    """The sum of two int8 or uint8 arrays of one shape.

    Returns (integers, low, high): in the calibrated range, as uint8 if both are uint8, else int8; without one, in int32
    with the sum of the two ranges.
    """
    a, b = magnitude(xp, lhs_min, lhs_max), magnitude(xp, rhs_min, rhs_max)
    limits = LIMITS[lhs.dtype.name], LIMITS[rhs.dtype.name]
    if min_calib_range is None:
        real = a + b
        unit = xp.float32(INT32) / xp.where(real == 0, xp.float32(1), real)
        first, second = (x.astype("float64") * (own * unit / limit).astype("float64")
                         for x, own, limit in zip((lhs, rhs), (a, b), limits))
        return xp.rint(first + second).clip(-2 ** 31, 2 ** 31 - 1).astype("int32"), *range_of(xp, -real, real)
    dtype = lhs.dtype if lhs.dtype == rhs.dtype else xp.dtype("int8")
    unit = levels(xp, LIMITS[dtype.name], magnitude(xp, min_calib_range, max_calib_range))
    parts = [scaled(xp, x, unit / levels(xp, limit, real))
             for x, limit, real in zip((lhs, rhs), limits, (a, b))]
    if lhs.dtype != rhs.dtype:               # as in MXNet, the uint8 one becomes integers of the result first
        unsigned = parts[0 if lhs.dtype.kind == "u" else 1]
        xp.rint(unsigned, out=unsigned)
    return saturated(xp, xp.add(*parts, out=parts[0]), dtype.name), *range_of(xp, min_calib_range, max_calib_range)


_PAIR = "lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max"
_CALIBRATION = "min_calib_range=None, max_calib_range=None"
operator("quantized_elemwise_add", f"{_PAIR}, {_CALIBRATION}, out=None", inputs=_PAIR, infer=_infer_add, kernel=_add,
         npx="quantized_elemwise_add", nd="_contrib_quantized_elemwise_add")


def _infer_mul(lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max, min_calib_range, max_calib_range, enable_float_output):
    _check_pair("quantized_elemwise_mul", lhs, rhs, ("int8",), lhs_min=lhs_min, lhs_max=lhs_max, rhs_min=rhs_min,
                rhs_max=rhs_max)
    given = calibrated("quantized_elemwise_mul", min_calib_range, max_calib_range)
    if enable_float_output:
        return spec(lhs.shape, "float32")
    return spec(lhs.shape, "int8" if given else "int32"), RANGE, RANGE


def product_range(xp, a, b, unsigned=False):
    """The range of int32 products of int8 integers with magnitude ``a`` and ``b``; the first are uint8 if ``unsigned``.
    Here, as in MXNet, the largest integers (127, 255) stand for the magnitudes."""
    real = a / xp.float32(127) * (b / xp.float32(255 if unsigned else 127)) * xp.float32(INT32)
    return range_of(xp, -real, real)


def _mul(xp, lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max, min_calib_range, max_calib_range, enable_float_output):
    """The product of two int8 arrays of one shape.

    Returns (integers, low, high): in int8 with the calibrated range (products are cut to integers), without one in
    int32, where the integers are the plain products. ``enable_float_output``: returns one array, the products as
    float32 numbers; a calibrated range is not needed then.
    """
    a, b = magnitude(xp, lhs_min, lhs_max), magnitude(xp, rhs_min, rhs_max)
    result = lhs.astype("int32") * rhs
    if not enable_float_output and min_calib_range is None:
        return result, *product_range(xp, a, b)
    unit = levels(xp, 127.5, a), levels(xp, 127.5, b)
    if enable_float_output:
        return scaled(xp, result, (1.0 / unit[0].astype("float64") / unit[1]).astype("float32"))
    target = levels(xp, 127.5, magnitude(xp, min_calib_range, max_calib_range))
    result = scaled(xp, result, target / unit[0] / unit[1])
    return saturated(xp, xp.trunc(result, out=result), "int8"), *range_of(xp, min_calib_range, max_calib_range)


operator("quantized_elemwise_mul", f"{_PAIR}, {_CALIBRATION}, enable_float_output=False, out=None", inputs=_PAIR,
         infer=_infer_mul, kernel=_mul, npx="quantized_elemwise_mul", nd="_contrib_quantized_elemwise_mul")
