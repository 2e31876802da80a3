"""``mx.np.linalg``: linear algebra over stacks of matrices.

Decompositions, solvers and determinants are operator records (``ops/decompositions.py``); here are the functions made
of several operators.
"""
from __future__ import annotations

import math

import numpy

from ..dispatch import F
from ..errors import ArgumentError, ShapeError
from ..ndarray.bindings import export
from ..spec import normalize_axes, normalize_axis
from .products import _as_arrays, cross as _cross

_records = export("linalg", __name__)
globals().update(_records)

_ORDERS = {"inf": "inf", "-inf": "-inf", "fro": "fro", "nuc": "nuc", None: None}


def _order(ord):
    """``ord`` as a number or one of the names 'inf', '-inf', 'fro', 'nuc'."""
    if isinstance(ord, str) or ord is None:
        if ord not in _ORDERS:
            raise ShapeError(f"norm: {ord!r} is not an order; use a number, 'fro', 'nuc', 'inf' or '-inf'")
        return ord
    if not isinstance(ord, (int, float, numpy.integer, numpy.floating)):
        raise ArgumentError(f"norm: ord must be a number or a name, not {ord!r}")
    ord = float(ord)
    return ("inf" if ord > 0 else "-inf") if math.isinf(ord) else int(ord) if ord.is_integer() else ord


def _keep(result, shape, axes, keepdims):
    if not keepdims:
        return result
    return F.reshape(result, newshape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def norm(x, ord=None, axis=None, keepdims=False):
    """Norm of vectors or matrices.

    ``axis``: None, an int (vectors along it) or two ints (matrices). Without ``axis``: the 2-norm of all elements if
    ``ord`` is None, else that of the vector, or of the matrices in the last two axes. ``ord`` of vectors: a number or
    'inf', '-inf'; of matrices: 'fro', 'nuc', 1, -1, 2, -2, 'inf', '-inf'.
    """
    x, = _as_arrays("norm", [x])
    ord = _order(ord)
    if axis is None:
        if ord is None:
            return F.vector_norm(x, ord=2, axis=None, keepdims=keepdims)
        axis = tuple(range(x.ndim))[-2:]
    axes = (axis,) if isinstance(axis, (int, numpy.integer)) else tuple(axis)
    axes = tuple([normalize_axis(a, x.ndim) for a in axes])
    if len(axes) == 1:
        if ord == "nuc":
            raise ShapeError("norm: 'nuc' is an order of matrices, not of vectors")
        return F.vector_norm(x, ord=2 if ord in (None, "fro") else ord, axis=axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ShapeError(f"norm: one axis (vectors) or two (matrices) can be given, not {len(axes)}")
    return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)


def _matrix_norm(x, ord, axes, keepdims):
    row, column = axes
    if row == column:
        raise ShapeError("norm: the two axes are the same")
    if ord == "fro":
        return F.vector_norm(x, ord=2, axis=axes, keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        order = tuple([i for i in range(x.ndim) if i not in axes]) + axes
        values = F.svdvals(x if order == tuple(range(x.ndim)) else F.transpose(x, axes=order))
        return _keep(F.vector_norm(values, ord={"nuc": 1, 2: "inf", -2: "-inf"}[ord], axis=-1), x.shape, axes, keepdims)
    if ord not in (1, -1, "inf", "-inf"):
        raise ShapeError(f"norm: {ord!r} is not an order of matrix norms")
    summed, other = (row, column) if ord in (1, -1) else (column, row)
    sums = F.vector_norm(x, ord=1, axis=summed, keepdims=True)
    result = F.vector_norm(sums, ord="inf" if ord in (1, "inf") else "-inf", axis=other, keepdims=True)
    return result if keepdims else F.reshape(result, newshape=tuple([n for i, n in enumerate(x.shape)
                                                                     if i not in axes]))


def vector_norm(x, ord=None, axis=None, keepdims=False):
    """Norm of order ``ord`` (default 2) of vectors along ``axis``: an int, a tuple of ints or None (all elements).

    ``keepdims`` keeps one axis of size 1: in place for an int, in front of the remaining axes for None or a tuple of
    ints (as in MXNet, where such axes are first made one; NumPy keeps each in its place).
    """
    x, = _as_arrays("vector_norm", [x])
    ord = 2 if ord is None else _order(ord)
    if ord in ("fro", "nuc"):
        raise ShapeError(f"vector_norm: {ord!r} is an order of matrices")
    axes = None if axis is None else normalize_axes(axis, x.ndim)
    if not keepdims or isinstance(axis, (int, numpy.integer)):
        return F.vector_norm(x, ord=ord, axis=axes, keepdims=keepdims)
    result = F.vector_norm(x, ord=ord, axis=axes, keepdims=False)
    return F.reshape(result, newshape=(1, *result.shape))


def matrix_norm(x, ord="fro", axis=(-2, -1), keepdims=False):
    """Norm of the matrices in the two axes ``axis``, of order ``ord``: 'fro', 'nuc', 1, -1, 2, -2, 'inf' or '-inf'."""
    x, = _as_arrays("matrix_norm", [x])
    if not isinstance(axis, (tuple, list)) or len(axis) != 2:
        raise ShapeError(f"matrix_norm: axis must be two axes, not {axis!r}")
    return norm(x, ord="fro" if ord is None else ord, axis=axis, keepdims=keepdims)


def vecdot(a, b, axis=None):
    """Sum of the products of two arrays (which broadcast) along ``axis`` (default: the last)."""
    a, b = _as_arrays("vecdot", [a, b])
    return F.sum(F.multiply(a, b), axis=-1 if axis is None else axis)


def cross(a, b, axis=-1):
    """Cross product of vectors of 3 elements along ``axis``."""
    return _cross(a, b, axis=axis)


def diagonal(a, offset=0):
    """Diagonal ``offset`` of the matrices in the last two axes, as the last axis of the result."""
    a, = _as_arrays("diagonal", [a])
    return F.linalg_extractdiag(a, offset=offset)


def trace(a, offset=0):
    """Sum of diagonal ``offset`` of the matrices in the last two axes."""
    return F.sum(diagonal(a, offset), axis=-1)


def tensorinv(a, ind=2):
    """The inverse of ``tensordot(a, ., ind)``: an array of shape ``a.shape[ind:] + a.shape[:ind]``. The products of the
    sizes of the first ``ind`` axes and of the others must be equal."""
    a, = _as_arrays("tensorinv", [a])
    if ind <= 0:
        raise ShapeError("tensorinv: ind must be positive")
    first, last = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise ShapeError(f"tensorinv: the first {ind} axes of {a.shape} have {math.prod(first)} elements, the others "
                         f"{math.prod(last)}")
    inverse = F.inv(F.reshape(a, newshape=(math.prod(first), math.prod(last))))
    return F.reshape(inverse, newshape=last + first)


def tensorsolve(a, b, axes=None):
    """x with ``tensordot(a, x, x.ndim) == b``; ``axes`` of ``a`` are moved to its end first."""
    a, b = _as_arrays("tensorsolve", [a, b])
    if axes is not None:
        moved = [normalize_axis(i, a.ndim) for i in ((axes,) if isinstance(axes, int) else axes)]
        order = tuple([i for i in range(a.ndim) if i not in moved] + moved)
        a = F.transpose(a, axes=order)
    out = a.shape[-(a.ndim - b.ndim):]       # all of them if a and b have the same number of axes, as in NumPy
    size = math.prod(out)
    if a.size != size * size or b.size != size:
        raise ShapeError(f"tensorsolve: a of shape {a.shape} and b of shape {b.shape} do not make a square system")
    x = F.solve(F.reshape(a, newshape=(size, size)), F.reshape(b, newshape=(size,)))
    return F.reshape(x, newshape=out)


def lstsq(a, b, rcond="warn"):
    """Least-squares solution of a x = b for a matrix ``a`` (m, n) and ``b`` (m,) or (m, k).

    Returns (x, residuals, rank, singular values). ``residuals``, the sums of squares, is empty unless m > n and the
    rank is n (to know that waits). Singular values up to ``rcond`` times the largest count as zero; None: max(m, n)
    times the dtype's epsilon; 'warn' (default): only the dtype's epsilon.
    """
    a, b = _as_arrays("lstsq", [a, b])
    x, residuals, rank, s = F.lstsq(a, b, rcond=rcond)
    m, n = a.shape
    if m <= n or int(rank.item()) != n:
        residuals = residuals[:0]
    return x, residuals, rank, s


def _chain(sizes):
    """Where to split the product of matrices of ``sizes[i]`` rows and ``sizes[i + 1]`` columns, for the least work
    (dynamic programming; Cormen et al., Introduction to Algorithms, section 15.2)."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min((cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                                          for k in range(i, j))
    return split


def multi_dot(arrays, out=None):
    """Product of two or more matrices, in the order of least work. The first and last may be vectors. ``out``: an array
    of the result's shape to write to."""
    from .products import _write
    arrays = _as_arrays("multi_dot", list(arrays))
    if len(arrays) < 2:
        raise ShapeError("multi_dot: two arrays or more are needed")
    for i, a in enumerate(arrays):
        if a.ndim != 2 and not (a.ndim == 1 and i in (0, len(arrays) - 1)):
            raise ShapeError(f"multi_dot: array {i} has shape {a.shape}; only matrices, and vectors at the ends, are "
                             "multiplied")
    first, last = arrays[0].ndim == 1, arrays[-1].ndim == 1
    if first:
        arrays[0] = F.reshape(arrays[0], newshape=(1, arrays[0].size))
    if last:
        arrays[-1] = F.reshape(arrays[-1], newshape=(arrays[-1].size, 1))
    split = _chain([a.shape[0] for a in arrays] + [arrays[-1].shape[1]])

    def product(i, j):
        return arrays[i] if i == j else F.matmul(product(i, split[i][j]), product(split[i][j] + 1, j))

    result = product(0, len(arrays) - 1)
    if first or last:
        result = F.reshape(result, newshape=(() if first else result.shape[:1]) + (() if last else result.shape[1:]))
    return result if out is None else _write(out, result)


def matrix_power(a, n):
    """Square matrices multiplied ``n`` times; a negative ``n`` takes powers of the inverse."""
    a, = _as_arrays("matrix_power", [a])
    if isinstance(n, bool) or not isinstance(n, (int, numpy.integer)):
        raise ArgumentError(f"matrix_power: n must be an int, not {n!r}")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"matrix_power: square matrices are needed, got shape {a.shape}")
    if n == 0:
        return F.linalg_makediag(F.ones_like(F.linalg_extractdiag(a)))
    if n < 0:
        a, n = F.inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else F.matmul(result, a)
        n >>= 1
        if n:
            a = F.matmul(a, a)
    return F.copy(result) if result is a else result


def cond(x, p=None):
    """Condition number of matrices: for ``p`` None or 2 the largest by the smallest singular value, for -2 the other
    way, else ``norm(x, p) * norm(inv(x), p)``."""
    x, = _as_arrays("cond", [x])
    if x.ndim < 2:
        raise ShapeError(f"cond: matrices are needed, got shape {x.shape}")
    if p in (None, 2, -2):
        s = F.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return norm(x, p, axis=(-2, -1)) * norm(F.inv(x), p, axis=(-2, -1))


__all__ = sorted([*_records, "norm", "vector_norm", "matrix_norm", "vecdot", "cross", "diagonal", "trace", "tensorinv",
                  "tensorsolve", "lstsq", "multi_dot", "matrix_power", "cond"])
