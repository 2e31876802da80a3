"""Where special functions (gamma, erf, ...) and sparse matrices come from: SciPy, or its counterpart in CuPy."""
from __future__ import annotations

import importlib
from functools import cache


@cache
def functions(name):
    """The module of special functions that belongs to the array module called ``name``."""
    return importlib.import_module("cupyx.scipy.special" if name == "cupy" else "scipy.special")


def special(xp, name):
    """Special function ``name`` for arrays of ``xp``."""
    return getattr(functions(xp.__name__), name)


def special_kernel(name):
    """A kernel that applies special function ``name``; float16 is computed in float32."""
    def kernel(xp, x):
        if x.dtype.itemsize <= 2:
            x = x.astype("float32")
        return special(xp, name)(x)
    return kernel


def csr_matrix(xp, values, columns, bounds, shape):
    """The sparse matrix of rows ``values[bounds[i]:bounds[i + 1]]`` at ``columns``; repeated columns add up."""
    sparse = importlib.import_module("cupyx.scipy.sparse" if xp.__name__ == "cupy" else "scipy.sparse")
    return sparse.csr_matrix((values, columns, bounds), shape)
