"""Which functions of NumPy run on the device when they are called with arrays of ``mx.np`` (NEP 13 and NEP 18).

Here all that ``mx.np`` has do, so the lists only name them, as MXNet's module of this name does; the protocols
themselves stand in ``raynd/numpy/interop.py``. Names that the installed NumPy does not have are left out.
"""
from __future__ import annotations

import functools

import numpy

_UFUNCS = """
    abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not bitwise_or bitwise_xor
    cbrt ceil copysign cos cosh degrees equal exp expm1 fabs floor floor_divide fmax fmin fmod gcd greater greater_equal
    hypot invert lcm less less_equal log log10 log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    maximum minimum mod multiply negative not_equal power reciprocal remainder rint sign sin sinh sqrt square subtract
    tan tanh true_divide trunc
"""
_FUNCTIONS = """
    all amax amin any append argmax argmin argsort around array_split atleast_1d atleast_2d atleast_3d bincount
    broadcast_arrays broadcast_to clip column_stack concatenate copy cross cumsum delete diag diag_indices_from diagflat
    diagonal diff dot dsplit dstack ediff1d einsum empty_like expand_dims fix flatnonzero flip fliplr flipud full_like
    hsplit hstack inner insert interp isfinite isinf isnan isneginf isposinf kron max may_share_memory mean median
    meshgrid min nan_to_num nonzero ones_like outer pad percentile polyval prod product quantile ravel repeat reshape
    resize roll round round_ shape shares_memory sometrue sort split squeeze stack std sum swapaxes take tensordot tile
    trace transpose tril triu unique unravel_index var vdot vsplit vstack where zeros_like linalg.cholesky linalg.eig
    linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv linalg.lstsq linalg.matrix_rank linalg.norm linalg.pinv
    linalg.qr linalg.solve linalg.tensorinv linalg.tensorsolve
"""


def _known(names):
    return [n for n in names.split() if functools.reduce(lambda space, part: getattr(space, part, None), n.split("."),
                                                         numpy) is not None]


_NUMPY_ARRAY_UFUNC_LIST = _known(_UFUNCS)
_NUMPY_ARRAY_FUNCTION_LIST = _known(_FUNCTIONS)


def _decorated(protocol):
    def decorate(func):
        @functools.wraps(func)
        def run(*args, **kwargs):
            try:
                return func(*args, **kwargs)
            except Exception as error:
                raise RuntimeError(f"{func.__name__}, which needs NumPy's {protocol} protocol, failed: "
                                   f"{error}") from error
        return run
    return decorate


def with_array_function_protocol(func):
    """``func``, which calls NumPy's functions with arrays of ours; a failure is a RuntimeError."""
    return _decorated("array function")(func)


def with_array_ufunc_protocol(func):
    """``func``, which calls NumPy's ufuncs with arrays of ours; a failure is a RuntimeError."""
    return _decorated("array ufunc")(func)
