"""Between floats and 8-bit integers: quantize, dequantize and requantize, and what all quantized operators share.

A quantized array is three arrays: integers q, and the range of the numbers that they stand for, low and high, float32
of shape (1,). Zero is always the integer 0, so that a range counts by ``real = max(|low|, |high|)`` alone: q stands for
``q * real / limit``. The limits are 127.5 for int8 and 255.5 for uint8, half a level past the largest integer, except
that ``quantize`` and ``requantize`` put their largest number at 127 and 255; int32 has 2**31 - 1. Numbers become the
nearest integer (halves the even one) and stop at the ends of the type, and NaN becomes the upper end.

These are the rules of MXNet's CPU kernels (over oneDNN). Where ``real`` is 0, zero stays 0. The operators have no
gradients.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, spec
from .registry import operator

LIMITS = {"int8": 127.5, "uint8": 255.5}
INT32 = 2147483648.0                # 2**31 - 1 as float32 holds it
EIGHT_BIT = ("int8", "uint8")
RANGE = spec((1,), "float32")


# -- shared by the quantized operators -----------------------------------------------------------------------------


def check_array(function, name, x, dtypes):
    """Raise unless the input ``x`` is an array of one of ``dtypes`` (names)."""
    if not isinstance(x, ArraySpec):
        raise ArgumentError(f"{function}: {name} must be an array" + (", but is missing" if x is None else
                                                                      f", not a Python {x.__name__}"))
    if x.dtype.name not in dtypes:
        raise ArgumentError(f"{function}: {name} must be of dtype {' or '.join(dtypes)}, not {x.dtype}")


def check_ranges(function, **ranges):
    """Raise unless all of ``ranges`` (name=input) are single float32 numbers."""
    for name, x in ranges.items():
        check_array(function, name, x, ("float32",))
        if x.shape not in ((1,), ()):
            raise ShapeError(f"{function}: {name} must have shape (1,), not {x.shape}")


def calibrated(function, min_calib_range, max_calib_range) -> bool:
    """Whether a range was given; raises if only half of it was."""
    if (min_calib_range is None) != (max_calib_range is None):
        raise ArgumentError(f"{function}: min_calib_range and max_calib_range go together; got {min_calib_range!r} "
                            f"and {max_calib_range!r}")
    return min_calib_range is not None


def choice(function, name, value, allowed):
    """Raise unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        raise ArgumentError(f"{function}: {name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def magnitude(xp, low, high):
    """``max(|low|, |high|)`` of two ranges' ends or of two numbers, a zero-dimensional float32 array."""
    if isinstance(low, (int, float)):
        return xp.asarray(max(abs(low), abs(high)), "float32")
    return xp.maximum(xp.abs(low), xp.abs(high)).astype("float32", copy=False).reshape(())


def levels(xp, limit, real):
    """Levels for one unit, ``limit / real``; 2**31 where ``real`` is 0, which leaves 0 at 0."""
    return xp.float32(limit) / xp.where(real == 0, xp.float32(limit / INT32), real)


def saturated(xp, x, dtype):
    """float32 ``x``, which is overwritten, as the nearest integers of an 8-bit ``dtype``."""
    ends = xp.iinfo(dtype)
    xp.rint(x, out=x)
    xp.fmin(x, ends.max, out=x)
    xp.fmax(x, ends.min, out=x)
    return x.astype(dtype)


def scaled(xp, x, factor):
    """``x * factor`` in float32, as a new array (also of no axes)."""
    return xp.multiply(x.astype("float32", copy=False), factor, out=xp.empty(x.shape, "float32"))


def range_of(xp, low, high):
    """Numbers, or arrays of one element, as the two arrays of a range."""
    if isinstance(low, (int, float)):
        return xp.full((1,), low, "float32"), xp.full((1,), high, "float32")
    return low.astype("float32").reshape(1), high.astype("float32").reshape(1)


# -- quantize ------------------------------------------------------------------------------------------------------


def _infer_quantize(data, min_range, max_range, out_type):
    choice("quantize", "out_type", out_type, EIGHT_BIT)
    check_array("quantize", "data", data, ("float32",))
    check_ranges("quantize", min_range=min_range, max_range=max_range)
    return spec(data.shape, out_type), RANGE, RANGE


def _quantize(xp, data, min_range, max_range, out_type):
    """float32 data in 8-bit integers, for numbers between ``min_range`` and ``max_range`` (both of shape (1,)).

    Returns (integers, low, high). 'uint8': ``data * 255 / real`` with the given range; 'int8': ``data * 127 / real``
    with the range (-real, real), where real is the larger absolute value of the two.
    """
    real = magnitude(xp, min_range, max_range)
    limit = 127 if out_type == "int8" else 255
    result = saturated(xp, scaled(xp, data, levels(xp, limit, real)), out_type)
    return result, *range_of(xp, *((-real, real) if out_type == "int8" else (min_range, max_range)))


operator("quantize", "data, min_range, max_range, out_type='uint8', out=None", infer=_infer_quantize, kernel=_quantize,
         npx="contrib_quantize", nd="_contrib_quantize")


def _quantized_type(function, out_type, min_calib_range, max_calib_range):
    """The dtype's name for ``out_type``: 'auto' is uint8 for a calibrated range without negative numbers."""
    choice(function, "out_type", out_type, ("auto", *EIGHT_BIT))
    given = calibrated(function, min_calib_range, max_calib_range)
    if out_type == "auto":
        return "uint8" if given and min_calib_range >= 0 else "int8"
    return out_type


def _infer_quantize_v2(data, out_type, min_calib_range, max_calib_range):
    dtype = _quantized_type("quantize_v2", out_type, min_calib_range, max_calib_range)
    check_array("quantize_v2", "data", data, ("float32", *EIGHT_BIT))
    if data.dtype.name in EIGHT_BIT:
        if out_type not in ("auto", data.dtype.name):
            raise ArgumentError(f"quantize_v2: data is {data.dtype} already and cannot become {out_type}; use "
                                f"out_type='{data.dtype}' or 'auto'")
        dtype = data.dtype
    return spec(data.shape, dtype), RANGE, RANGE


def _quantize_v2(xp, data, out_type, min_calib_range, max_calib_range):
    """float32 data in 8-bit integers, by a calibrated range or, without one, by the range of the data.

    Returns (integers, low, high). 'uint8': ``data * 255.5 / real`` with the range as it is; 'int8': ``data * 127.5 /
    real`` with the range (-real, real), where real is the larger absolute value of the range's ends; 'auto': uint8 for
    a calibrated range without negative numbers, else int8. Data that is of 8 bits passes through, with the calibrated
    range or that of all its numbers.
    """
    given = calibrated("quantize_v2", min_calib_range, max_calib_range)
    ends = (min_calib_range, max_calib_range)
    if data.dtype.kind != "f":
        limit = LIMITS[data.dtype.name]
        return data.copy(), *range_of(xp, *(ends if given else (-limit if data.dtype.kind == "i" else 0.0, limit)))
    dtype = _quantized_type("quantize_v2", out_type, *ends)
    if not given:
        ends = (data.min(), data.max()) if data.size else (0.0, 0.0)
    real = magnitude(xp, *ends)
    result = saturated(xp, scaled(xp, data, levels(xp, LIMITS[dtype], real)), dtype)
    return result, *range_of(xp, *((-real, real) if dtype == "int8" else ends))


operator("quantize_v2", "data, out_type='int8', min_calib_range=None, max_calib_range=None, out=None",
         infer=_infer_quantize_v2, kernel=_quantize_v2, npx="contrib_quantize_v2", nd="_contrib_quantize_v2")

# -- dequantize ----------------------------------------------------------------------------------------------------


def _infer_dequantize(data, min_range, max_range, out_type):
    choice("dequantize", "out_type", out_type, ("float32",))
    check_array("dequantize", "data", data, EIGHT_BIT)
    check_ranges("dequantize", min_range=min_range, max_range=max_range)
    return spec(data.shape, "float32")


def _dequantize(xp, data, min_range, max_range, out_type):
    """The float32 numbers that 8-bit integers stand for: ``data * real / limit``, where real is the larger absolute
    value of the range's ends and limit is 127.5 for int8, 255.5 for uint8."""
    return scaled(xp, data, magnitude(xp, min_range, max_range) / xp.float32(LIMITS[data.dtype.name]))


operator("dequantize", "data, min_range, max_range, out_type='float32', out=None", infer=_infer_dequantize,
         kernel=_dequantize, nd="_contrib_dequantize")

# -- requantize ----------------------------------------------------------------------------------------------------


def _infer_requantize(data, min_range, max_range, out_type, min_calib_range, max_calib_range):
    dtype = _quantized_type("requantize", out_type, min_calib_range, max_calib_range)
    check_array("requantize", "data", data, ("int32",))
    check_ranges("requantize", min_range=min_range, max_range=max_range)
    return spec(data.shape, dtype), RANGE, RANGE


def _requantize(xp, data, min_range, max_range, out_type, min_calib_range, max_calib_range):
    """int32 integers of a range (from a quantized product) in 8-bit integers.

    Returns (integers, low, high), for the calibrated range or, without one, that of the data: (-real, real) and a
    largest integer of 127 for 'int8', (0, real) and 255 for 'uint8'; 'auto' is uint8 for a calibrated range without
    negative numbers, else int8.
    """
    dtype = _quantized_type("requantize", out_type, min_calib_range, max_calib_range)
    first = magnitude(xp, min_range, max_range)
    if min_calib_range is not None:
        real = magnitude(xp, min_calib_range, max_calib_range)
    elif data.size:
        real = magnitude(xp, data.min().astype("float32"), data.max().astype("float32")) * first / xp.float32(INT32)
    else:
        real = xp.zeros((), "float32")
    factor = first / xp.float32(INT32) * levels(xp, 127 if dtype == "int8" else 255, real)
    return saturated(xp, scaled(xp, data, factor), dtype), *range_of(xp, -real if dtype == "int8" else 0 * real, real)


operator("requantize", "data, min_range, max_range, out_type='int8', min_calib_range=None, max_calib_range=None, "
         "out=None", inputs="data, min_range, max_range", infer=_infer_requantize, kernel=_requantize,
         npx="requantize", nd="_contrib_requantize")
