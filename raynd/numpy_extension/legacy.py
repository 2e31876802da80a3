"""Functions of ``mx.npx`` that are those of ``mx.nd`` under the same or another name, on arrays of either class."""
from __future__ import annotations

from ..dispatch import Proxy
from ..errors import ArgumentError
from ..ndarray.operators import FUNCTIONS
from ..random import per_parameter, sample
from ..spec import as_dtype, as_shape, is_float

__all__ = ["add_n", "broadcast_greater", "cast", "norm", "scalar_poisson", "stop_gradient", "tensor_poisson"]

add_n = FUNCTIONS["add_n"]
broadcast_greater = FUNCTIONS["broadcast_greater"]
cast = FUNCTIONS["cast"]
norm = FUNCTIONS["norm"]
stop_gradient = FUNCTIONS["stop_gradient"]


def _float(dtype, function):
    """``dtype`` if it is None or a type of floats."""
    if dtype is not None and not is_float(as_dtype(dtype)):
        raise ArgumentError(f"{function}: dtype must be a float type, not {dtype!r}")
    return dtype


def scalar_poisson(lam=1, shape=None, ctx=None, dtype=None, out=None, name=None):
    """Samples of the Poisson distribution with mean ``lam``, a number, as floats (``shape`` defaults to one sample)."""
    if isinstance(lam, Proxy):
        raise ArgumentError("scalar_poisson: lam must be a number; tensor_poisson takes an array")
    if shape is None and out is None:
        shape = (1,)
    return sample("poisson", (lam,), shape, _float(dtype, "scalar_poisson"), ctx or None, out=out)


def tensor_poisson(lam, shape=(), dtype=None, out=None, name=None):
    """``shape`` samples of the Poisson distribution for each mean in the array ``lam``, as floats."""
    if not isinstance(lam, Proxy):
        raise ArgumentError(f"tensor_poisson: lam must be an array, not {type(lam).__name__}")
    params, full = per_parameter((lam,), as_shape(shape))
    dtype = _float(dtype, "tensor_poisson") or (lam.dtype if is_float(as_dtype(lam.dtype)) else None)
    return sample("poisson", params, full, dtype, out=out)
