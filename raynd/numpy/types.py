"""Constants, dtypes and what is known of them."""
from __future__ import annotations

import math

import ml_dtypes
import numpy

from ..dispatch import Proxy
from ..errors import ShapeError
from ..spec import as_dtype, bfloat16, is_float, promote

__all__ = [
    "NAN", "NINF", "NZERO", "NaN", "PINF", "PZERO", "bfloat16", "bool", "bool_", "boolean_dtypes", "can_cast",
    "complex128", "complex64", "dtype", "e", "euler_gamma", "finfo", "float16", "float32", "float64", "floating_dtypes",
    "iinfo", "inf", "int16", "int32", "int64", "int8", "integer_dtypes", "nan", "newaxis", "numeric_dtypes", "pi",
    "promote_types", "result_type", "uint16", "uint32", "uint64", "uint8",
]

pi, e, euler_gamma = math.pi, math.e, numpy.euler_gamma
inf = PINF = math.inf
NINF = -math.inf
nan = NAN = NaN = math.nan
PZERO, NZERO = 0.0, -0.0
newaxis = None

float16, float32, float64 = numpy.float16, numpy.float32, numpy.float64
int8, int16, int32, int64 = numpy.int8, numpy.int16, numpy.int32, numpy.int64
uint8, uint16, uint32, uint64 = numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64
complex64, complex128 = numpy.complex64, numpy.complex128
bool_ = bool = numpy.bool_

boolean_dtypes = [numpy.dtype("bool")]
integer_dtypes = [numpy.dtype(n) for n in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
floating_dtypes = [numpy.dtype(n) for n in ("float16", "float32", "float64")]
numeric_dtypes = integer_dtypes + floating_dtypes


def dtype(value, *args, **kwargs):
    """The ``numpy.dtype`` of a type or a name; 'bfloat16' is known too."""
    if isinstance(value, str) and value == "bfloat16":
        return bfloat16
    return numpy.dtype(value, *args, **kwargs)


def _dtype_of(value):
    """The dtype of an array, or of what names one."""
    if isinstance(value, Proxy):
        return value._spec.dtype
    return as_dtype(value.dtype if isinstance(value, (numpy.ndarray, numpy.generic)) else value)


def finfo(dtype):
    """Limits of a floating dtype: ``bits, eps, max, min, smallest_normal, ...`` as in ``numpy.finfo``."""
    dtype = _dtype_of(dtype)
    if not is_float(dtype):
        raise ShapeError(f"finfo: {dtype} is not a floating dtype; use iinfo")
    return ml_dtypes.finfo(dtype) if dtype == bfloat16 else numpy.finfo(dtype)


def iinfo(dtype):
    """Limits of an integer dtype: ``bits, max, min`` as in ``numpy.iinfo``."""
    return numpy.iinfo(_dtype_of(dtype))


def result_type(*arrays_and_dtypes):
    """The dtype of an arithmetic result of these arrays and dtypes (``float16`` with ``int64`` is ``float16``)."""
    if not arrays_and_dtypes:
        raise ShapeError("result_type needs at least one array or dtype")
    found = None
    for value in arrays_and_dtypes:
        if isinstance(value, (int, float)) and not isinstance(value, numpy.generic):
            raise ShapeError("result_type takes arrays and dtypes, not numbers")
        this = _dtype_of(value)
        found = this if found is None else promote(found, this)
    return found


def promote_types(type1, type2):
    """NumPy's smallest dtype that holds both without loss (``int32`` with ``float32`` is ``float64``)."""
    return numpy.promote_types(as_dtype(type1), as_dtype(type2))


def can_cast(from_, to, casting="safe"):
    """Whether values of a dtype, or of an array's, can become ``to`` under NumPy's rule ``casting``."""
    return numpy.can_cast(_dtype_of(from_), as_dtype(to), casting=casting)
