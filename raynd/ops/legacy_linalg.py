"""The linear algebra operators of the legacy namespace (``mx.nd.linalg``), in the manner of BLAS and LAPACK: general
and triangular products and solves, Cholesky, LQ and symmetric eigenvalue decompositions, diagonals and triangles.

All take stacks of matrices (..., m, n).
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import broadcast, normalize_axis, promote, spec
from .decompositions import (
    _infer_eigh,
    _tall_qr_gradient,
    cholesky_gradient,
    eigh_gradient,
    lapack,
    matrices,
    real,
    turn,
)
from .products import infer_matmul_t, matmul_t, matmul_t_gradients
from .registry import operator

# -- general products ----------------------------------------------------------------------------------------------


def _rows_axis(shape, axis):
    """``axis`` (that of the matrix rows) if it is not the usual last but one, else None. The columns are the last."""
    axis = normalize_axis(axis, len(shape))
    if axis == len(shape) - 1:
        raise ArgumentError("axis is that of the matrix rows; the last axis holds the columns")
    return None if axis == len(shape) - 2 else axis


def _moved(shape, axis):
    return (*shape[:axis], *shape[axis + 1:-1], shape[axis], shape[-1])


def _back(shape, axis):
    return (*shape[:axis], shape[-2], *shape[axis:-2], shape[-1])


def _infer_gemm2(A, B, transpose_a, transpose_b, alpha, axis):
    matrices(A, "gemm", False)
    if len(A.shape) != len(B.shape):
        raise ShapeError(f"gemm: A and B must have the same number of axes, got shapes {A.shape} and {B.shape}")
    at = _rows_axis(A.shape, axis)
    if at is None:
        return infer_matmul_t(A, B, transpose_a, transpose_b)
    out = infer_matmul_t(spec(_moved(A.shape, at), A.dtype), spec(_moved(B.shape, at), B.dtype), transpose_a,
                         transpose_b)
    return spec(_back(out.shape, at), out.dtype)


def _gemm2(xp, A, B, transpose_a, transpose_b, alpha, axis):
    """alpha op(A) op(B), where op transposes if asked to; ``axis`` is that of the matrix rows."""
    at = _rows_axis(A.shape, axis)
    if at is not None:
        A, B = xp.moveaxis(A, at, -2), xp.moveaxis(B, at, -2)
    result = matmul_t(xp, A, B, transpose_a, transpose_b)
    if alpha != 1:
        result = result * alpha
    return result if at is None else xp.moveaxis(result, -2, at)


def _gemm2_vjp(F, dy, x, y, transpose_a, transpose_b, alpha, axis):
    A, B = x
    if alpha != 1:
        dy = dy * alpha
    if _rows_axis(A.shape, axis) is None:
        return matmul_t_gradients(F, dy, A, B, transpose_a, transpose_b)
    ga = F.linalg_gemm2(B, dy, transpose_b, True, 1.0, axis) if transpose_a else \
        F.linalg_gemm2(dy, B, False, not transpose_b, 1.0, axis)
    gb = F.linalg_gemm2(dy, A, True, transpose_a, 1.0, axis) if transpose_b else \
        F.linalg_gemm2(A, dy, not transpose_a, False, 1.0, axis)
    return ga, gb


def _infer_gemm(A, B, C, transpose_a, transpose_b, alpha, beta, axis):
    out = _infer_gemm2(A, B, transpose_a, transpose_b, alpha, axis)
    if broadcast(out.shape, C.shape) != out.shape:
        raise ShapeError(f"gemm: C has shape {C.shape}, the product of A and B {out.shape}")
    return spec(out.shape, promote(out.dtype, C.dtype))


def _gemm_vjp(F, dy, x, y, transpose_a, transpose_b, alpha, beta, axis):
    return (*_gemm2_vjp(F, dy, x[:2], y, transpose_a, transpose_b, alpha, axis), dy * beta)


operator("linalg_gemm2", "A, B, transpose_a=False, transpose_b=False, alpha=1.0, axis=-2, out=None", inputs="A, B",
         infer=_infer_gemm2, kernel=_gemm2, vjp=_gemm2_vjp, broadcasts=True, nd="linalg_gemm2")
operator("linalg_gemm", "A, B, C, transpose_a=False, transpose_b=False, alpha=1.0, beta=1.0, axis=-2, out=None",
         inputs="A, B, C", infer=_infer_gemm, vjp=_gemm_vjp, broadcasts=True, nd="linalg_gemm",
         kernel=lambda xp, A, B, C, transpose_a, transpose_b, alpha, beta, axis:
         _gemm2(xp, A, B, transpose_a, transpose_b, alpha, axis) + C * beta,
         doc="alpha op(A) op(B) + beta C, where op transposes if asked to; ``axis`` is that of the matrix rows.")


def _infer_syrk(A, transpose, alpha):
    *lead, m, n = matrices(A, "syrk", False)
    return spec((*lead, n, n) if transpose else (*lead, m, m), A.dtype)


def _syrk_vjp(F, dy, x, y, transpose, alpha):
    both = (dy + F.matrix_transpose(dy)) * alpha
    return F.matmul_t(x[0], both) if transpose else F.matmul_t(both, x[0])


operator("linalg_syrk", "A, transpose=False, alpha=1.0, out=None", inputs="A", infer=_infer_syrk, vjp=_syrk_vjp,
         kernel=lambda xp, A, transpose, alpha: matmul_t(xp, A, A, transpose, not transpose) * alpha, nd="linalg_syrk",
         doc="alpha A A^T, or alpha A^T A with ``transpose``.")

# -- triangular products and solves --------------------------------------------------------------------------------


def _infer_triangular(A, B, transpose, rightside, lower, alpha):
    n = matrices(A, "triangular matrix")[-1]
    matrices(B, "B", False)
    if B.shape[-1 if rightside else -2] != n:
        raise ShapeError(f"a triangular matrix of shape {A.shape} does not fit B of shape {B.shape} on the "
                         f"{'right' if rightside else 'left'}")
    return spec(broadcast(A.shape[:-2], B.shape[:-2]) + B.shape[-2:], promote(A.dtype, B.dtype))


def _trmm(xp, A, B, transpose, rightside, lower, alpha):
    """alpha op(A) B, or alpha B op(A) with ``rightside``; of A only the lower (or upper) triangle counts."""
    A = xp.tril(A) if lower else xp.triu(A)
    result = matmul_t(xp, B, A, False, transpose) if rightside else matmul_t(xp, A, B, transpose, False)
    return result * alpha if alpha != 1 else result


def _product_gradient(F, dy, B, transpose, rightside):
    """Gradient of a matrix A from that of op(A) B (or B op(A))."""
    t = F.matmul_t
    if rightside:
        return t(dy, B, True, False) if transpose else t(B, dy, True, False)
    return t(B, dy, False, True) if transpose else t(dy, B, False, True)


def _trmm_vjp(F, dy, x, y, transpose, rightside, lower, alpha):
    A, B = x
    gb = F.linalg_trmm(A, dy, transpose=not transpose, rightside=rightside, lower=lower, alpha=alpha)
    ga = F.triangle(_product_gradient(F, dy * alpha, B, transpose, rightside), lower=lower)
    return ga, gb


def _trsm(xp, A, B, transpose, rightside, lower, alpha):
    """X with op(A) X = alpha B, or X op(A) = alpha B with ``rightside``; of A only one triangle counts."""
    A, B = lapack(xp, A), lapack(xp, B)
    A = xp.tril(A) if lower else xp.triu(A)
    if rightside:
        return turn(xp.linalg.solve(A if transpose else turn(A), turn(B))) * alpha
    return xp.linalg.solve(turn(A) if transpose else A, B) * alpha


def _trsm_vjp(F, dy, x, y, transpose, rightside, lower, alpha):
    A = x[0]
    w = F.linalg_trsm(A, dy, transpose=not transpose, rightside=rightside, lower=lower, alpha=1.0)
    ga = F.triangle(-_product_gradient(F, w, y[0], transpose, rightside), lower=lower)
    return ga, w * alpha


for _name, _kernel, _vjp in (("linalg_trmm", _trmm, _trmm_vjp), ("linalg_trsm", _trsm, _trsm_vjp)):
    operator(_name, "A, B, transpose=False, rightside=False, lower=True, alpha=1.0, out=None", inputs="A, B",
             infer=_infer_triangular, kernel=_kernel, vjp=_vjp, broadcasts=True, nd=_name)

# -- decompositions ------------------------------------------------------------------------------------------------


def _infer_square_float(A):
    matrices(A, "linalg")
    return spec(A.shape, real(A))


operator("linalg_potrf", "A, out=None", infer=_infer_square_float, nd="linalg_potrf",
         kernel=lambda xp, A: xp.linalg.cholesky(lapack(xp, A)),
         vjp=lambda F, dy, x, y: cholesky_gradient(F, dy, y[0]),
         doc="The lower Cholesky factor L of A = L L^T. A matrix that is not positive definite is an error of value.")


def _potri(xp, A):
    """The inverse of L L^T, given the lower Cholesky factor L."""
    inverse = xp.linalg.inv(xp.tril(lapack(xp, A)))
    return xp.matmul(turn(inverse), inverse)


def _potri_vjp(F, dy, x, y):
    inner = F.matmul_t(y[0], dy + F.matrix_transpose(dy))
    return F.triangle(-F.linalg_trsm(x[0], inner, transpose=True, rightside=True))


operator("linalg_potri", "A, out=None", infer=_infer_square_float, kernel=_potri, vjp=_potri_vjp, nd="linalg_potri")


def _sumlogdiag_vjp(F, dy, x, y):
    inverse = F.reciprocal0(F.linalg_extractdiag(x[0]))
    lead = x[0].shape[:-2]
    return F.linalg_makediag(inverse * F.reshape(dy, newshape=(*lead, 1)))


operator("linalg_sumlogdiag", "A, out=None", nd="linalg_sumlogdiag", vjp=_sumlogdiag_vjp,
         infer=lambda A: spec(matrices(A, "sumlogdiag")[:-2] or (1,), real(A)),
         kernel=lambda xp, A: xp.log(xp.diagonal(A, axis1=-2, axis2=-1)).sum(axis=-1).reshape(A.shape[:-2] or (1,)),
         doc="Sum of the logarithms of the diagonal elements of square matrices.")


def _infer_gelqf(A):
    *lead, m, n = matrices(A, "gelqf", False)
    if m > n:
        raise ShapeError(f"gelqf: matrices must not have more rows than columns, got shape {A.shape}")
    return spec(A.shape, real(A)), spec((*lead, m, m), real(A))


def _gelqf(xp, A):
    """(Q, L) with A = L Q for matrices (..., m, n), m <= n: the rows of Q are orthonormal, L is lower triangular."""
    q, r = xp.linalg.qr(turn(lapack(xp, A)))
    return turn(q), turn(r)


def _gelqf_vjp(F, dy, x, y):
    dq, dl = [None if g is None else F.matrix_transpose(g) for g in dy]
    q, r = [F.matrix_transpose(f) for f in y]
    return F.matrix_transpose(_tall_qr_gradient(F, dq, dl, q, r))


operator("linalg_gelqf", "A, out=None", infer=_infer_gelqf, kernel=_gelqf, vjp=_gelqf_vjp, nd="linalg_gelqf")


def _syevd(xp, A):
    """(U, L) with A = U^T diag(L) U for symmetric matrices: the rows of U are the eigenvectors, the eigenvalues L
    ascend. The element of largest magnitude of every eigenvector is positive."""
    from .decompositions import _eigh
    w, v = _eigh(xp, A)
    return turn(v), w


def _syevd_vjp(F, dy, x, y):
    du, dl = dy
    return eigh_gradient(F, dl, None if du is None else F.matrix_transpose(du), y[1], F.matrix_transpose(y[0]))


operator("linalg_syevd", "A, out=None", infer=lambda A: _infer_eigh(A)[::-1], kernel=_syevd, vjp=_syevd_vjp,
         nd="linalg_syevd")

# -- diagonals and triangles ---------------------------------------------------------------------------------------


def _diagonal_size(m, n, offset):
    return max(0, min(m, n - offset) if offset >= 0 else min(m + offset, n))


def _on_diagonal(xp, size, offset):
    i = xp.arange(size)
    return (i, i + offset) if offset >= 0 else (i - offset, i)


def _infer_extractdiag(A, offset):
    *lead, m, n = matrices(A, "extractdiag", False)
    return spec((*lead, _diagonal_size(m, n, offset)), A.dtype)


def _extractdiag(xp, A, offset):
    """Diagonal ``offset`` (above the main one if positive) of matrices, as vectors."""
    i, j = _on_diagonal(xp, _diagonal_size(*A.shape[-2:], offset), offset)
    return A[..., i, j]


def _put_diagonal(xp, v, offset, shape):
    result = xp.zeros((*v.shape[:-1], *shape), v.dtype)
    i, j = _on_diagonal(xp, v.shape[-1], offset)
    result[..., i, j] = v
    return result


operator("linalg_extractdiag", "A, offset=0, out=None", inputs="A", infer=_infer_extractdiag, kernel=_extractdiag,
         vjp=lambda F, dy, x, y, offset: F.put_diagonal(dy, offset=offset, shape=x[0].shape[-2:]),
         nd="linalg_extractdiag")
operator("put_diagonal", "v, offset, shape", inputs="v", kernel=_put_diagonal,
         infer=lambda v, offset, shape: spec((*v.shape[:-1], *shape), v.dtype),
         vjp=lambda F, dy, x, y, offset, shape: F.linalg_extractdiag(dy, offset=offset))
operator("linalg_makediag", "A, offset=0, out=None", inputs="A", nd="linalg_makediag",
         infer=lambda A, offset: spec((*A.shape[:-1], *[A.shape[-1] + abs(offset)] * 2), A.dtype),
         kernel=lambda xp, A, offset: _put_diagonal(xp, A, offset, (A.shape[-1] + abs(offset),) * 2),
         vjp=lambda F, dy, x, y, offset: F.linalg_extractdiag(dy, offset=offset),
         doc="Square matrices with vectors on diagonal ``offset`` and zeros elsewhere.")


def _is_lower(offset, lower):
    return lower if offset == 0 else offset < 0


def _in_triangle(xp, n, offset, lower):
    """Row and column numbers of a triangle, row by row."""
    if _is_lower(offset, lower):
        return xp.tril_indices(n, offset)
    return xp.triu_indices(n, offset)


def _triangle_size(n, offset):
    n -= abs(offset)
    return n * (n + 1) // 2


def _infer_extracttrian(A, offset, lower):
    n = matrices(A, "extracttrian")[-1]
    if abs(offset) >= n:
        raise ShapeError(f"extracttrian: offset {offset} lies outside matrices of shape {A.shape}")
    return spec((*A.shape[:-2], _triangle_size(n, offset)), A.dtype)


def _extracttrian(xp, A, offset, lower):
    """A triangle of square matrices as vectors, row by row: that on and below diagonal ``offset`` if it is negative, on
    and above it if positive, and the one that ``lower`` says if it is 0."""
    i, j = _in_triangle(xp, A.shape[-1], offset, lower)
    return A[..., i, j]


def _matrix_size(count, offset):
    k = math.isqrt(2 * count)
    if k * (k + 1) // 2 != count:
        raise ShapeError(f"maketrian: {count} elements do not fill a triangle")
    return k + abs(offset)


def _maketrian(xp, A, offset, lower):
    """Square matrices with vectors in a triangle, row by row, and zeros elsewhere: the inverse of extracttrian."""
    n = _matrix_size(A.shape[-1], offset)
    result = xp.zeros((*A.shape[:-1], n, n), A.dtype)
    i, j = _in_triangle(xp, n, offset, lower)
    result[..., i, j] = A
    return result


operator("linalg_extracttrian", "A, offset=0, lower=True, out=None", inputs="A", infer=_infer_extracttrian,
         kernel=_extracttrian, nd="linalg_extracttrian",
         vjp=lambda F, dy, x, y, offset, lower: F.linalg_maketrian(dy, offset=offset, lower=lower))
operator("linalg_maketrian", "A, offset=0, lower=True, out=None", inputs="A", kernel=_maketrian, nd="linalg_maketrian",
         infer=lambda A, offset, lower: spec((*A.shape[:-1], *[_matrix_size(A.shape[-1], offset)] * 2), A.dtype),
         vjp=lambda F, dy, x, y, offset, lower: F.linalg_extracttrian(dy, offset=offset, lower=lower))
