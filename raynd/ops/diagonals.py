"""Triangles, diagonals and traces of matrices."""
from __future__ import annotations

from ..errors import ShapeError
from ..spec import normalize_axis, spec
from .reduction import accumulator, summed_dtype
from .registry import operator
from .shape import integers

# -- triangles -----------------------------------------------------------------------------------------------------


def _infer_triangle(m, k):
    integers(k, "k")
    if not m.shape:
        raise ShapeError("tril and triu need an array of at least one axis")
    return spec(m.shape if len(m.shape) > 1 else m.shape * 2, m.dtype)


def _triangle(name):
    def kernel(xp, m, k):
        mask = xp.tri(*(m.shape[-2:] if m.ndim > 1 else m.shape * 2), k=k if name == "tril" else k - 1, dtype=bool)
        return xp.where(mask, m, xp.zeros((), m.dtype)) if name == "tril" else xp.where(mask, xp.zeros((), m.dtype), m)

    def vjp(F, dy, x, y, k):
        g = getattr(F, name)(dy, k=k)
        return F.sum_to(g, shape=x[0].shape) if len(x[0].shape) == 1 else g

    operator(name, "m, k=0", inputs="m", infer=_infer_triangle, kernel=kernel, vjp=vjp, np=name,
             doc=f"Matrices (the last two axes) with zeros {'above' if name == 'tril' else 'below'} diagonal ``k``; a "
                 "vector stands for a square matrix of which it is every row.")


_triangle("tril")
_triangle("triu")

# -- diagonals -----------------------------------------------------------------------------------------------------


def diagonal_axes(ndim, axis1, axis2):
    """Both axes, normalised."""
    if ndim < 2:
        raise ShapeError(f"a diagonal needs an array of at least two axes, not {ndim}")
    first, second = normalize_axis(axis1, ndim, "axis1"), normalize_axis(axis2, ndim, "axis2")
    if first == second:
        raise ShapeError(f"axis1 and axis2 cannot be the same: {axis1}, {axis2}")
    return first, second


def diagonal_length(shape, offset, axis1, axis2) -> int:
    """Number of elements of a diagonal."""
    rows, columns = shape[axis1], shape[axis2]
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


def _infer_diagonal(a, offset, axis1, axis2):
    integers(offset, "offset")
    first, second = diagonal_axes(len(a.shape), axis1, axis2)
    rest = tuple([n for i, n in enumerate(a.shape) if i not in (first, second)])
    return spec((*rest, diagonal_length(a.shape, offset, first, second)), a.dtype)


def _diagonal_grad(xp, dy, offset, axis1, axis2, shape):
    """Zeros of ``shape`` with ``dy`` on a diagonal."""
    first, second = diagonal_axes(len(shape), axis1, axis2)
    result = xp.zeros(shape, dy.dtype)
    n = diagonal_length(shape, offset, first, second)
    if n:
        index = xp.arange(n)
        xp.moveaxis(result, (first, second), (-2, -1))[..., index + max(-offset, 0), index + max(offset, 0)] = dy
    return result


operator("diagonal", "a, offset=0, axis1=0, axis2=1", inputs="a", infer=_infer_diagonal, np="diagonal",
         method="diagonal",
         kernel=lambda xp, a, offset, axis1, axis2: a.diagonal(offset, axis1, axis2),
         vjp=lambda F, dy, x, y, offset, axis1, axis2: F.diagonal_grad(
             dy, offset=offset, axis1=axis1, axis2=axis2, shape=x[0].shape),
         doc="Diagonal ``offset`` of the matrices in ``axis1`` and ``axis2``, as the last axis of a copy.")
operator("diagonal_grad", "dy, offset, axis1, axis2, shape", inputs="dy", kernel=_diagonal_grad,
         infer=lambda dy, offset, axis1, axis2, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, offset, axis1, axis2, shape: F.diagonal(g, offset=offset, axis1=axis1, axis2=axis2))


def _infer_diag(array, k):
    integers(k, "k")
    if len(array.shape) == 1:
        return spec((array.shape[0] + abs(k),) * 2, array.dtype)
    if len(array.shape) != 2:
        raise ShapeError(f"diag: input must be 1- or 2-d, not of shape {array.shape}")
    return spec((diagonal_length(array.shape, k, 0, 1),), array.dtype)


def _diag_vjp(F, dy, x, y, k):
    if len(x[0].shape) == 1:
        return F.diagonal(dy, offset=k)
    return F.diagonal_grad(dy, offset=k, axis1=0, axis2=1, shape=x[0].shape)


operator("diag", "array, k=0", inputs="array", infer=_infer_diag, kernel=lambda xp, array, k: xp.diag(array, k),
         vjp=_diag_vjp, np="diag", doc="Diagonal ``k`` of a matrix, or a matrix with a vector on its diagonal ``k``.")


def _infer_trace(a, offset, axis1, axis2):
    found = _infer_diagonal(a, offset, axis1, axis2)
    return spec(found.shape[:-1], summed_dtype(a.dtype, None))


def _trace(xp, a, offset, axis1, axis2):
    """The sum along diagonal ``offset`` of the matrices in ``axis1`` and ``axis2``."""
    return a.diagonal(offset, axis1, axis2).sum(axis=-1, dtype=accumulator(summed_dtype(a.dtype, None)))


def _trace_vjp(F, dy, x, y, offset, axis1, axis2):
    shape = x[0].shape
    n = diagonal_length(shape, offset, *diagonal_axes(len(shape), axis1, axis2))
    spread = F.unreduce(dy, axis=(len(dy.shape),), shape=(*dy.shape, n))
    return F.diagonal_grad(spread, offset=offset, axis1=axis1, axis2=axis2, shape=shape)


operator("trace", "a, offset=0, axis1=0, axis2=1, out=None", inputs="a", infer=_infer_trace, kernel=_trace,
         vjp=_trace_vjp, np="trace")
