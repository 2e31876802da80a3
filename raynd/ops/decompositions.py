"""Matrix decompositions, inverses and solvers, over stacks of matrices (..., m, n).

Gradients are written in operators, so they can be differentiated again. Sources: M. Giles, "Collected matrix derivative
results for forward and reverse mode algorithmic differentiation" (2008), for inverse, determinant, solve, eigh;
I. Murray, "Differentiation of the Cholesky decomposition" (2016); J. Townsend, "Differentiating the singular value
decomposition" (2016); S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010), for
QR; G. Golub and V. Pereyra (1973) for the pseudo-inverse. Where singular values or eigenvalues coincide, terms that
would divide by zero are left out.
"""
from __future__ import annotations

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, broadcast, is_float, spec
from .elementwise import default_float
from .registry import operator

FLOAT64 = numpy.dtype("float64")


def real(x, integers=None):
    """The dtype of a decomposition: that of a float array, else the default float (or ``integers``)."""
    return x.dtype if is_float(x.dtype) else integers or default_float()


def lapack(xp, a):
    """``a`` in a dtype that LAPACK has."""
    if a.dtype.kind == "f" and a.dtype.itemsize >= 4:
        return a
    return a.astype("float64" if a.dtype.kind in "iub" and a.dtype.itemsize >= 4 else "float32")


def matrices(x, name, square=True):
    """Check that ``x`` is a stack of (square) matrices; returns its shape."""
    if not isinstance(x, ArraySpec) or len(x.shape) < 2:
        raise ShapeError(f"{name}: an array of at least two axes is needed, got shape {getattr(x, 'shape', ())}")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name}: the last two axes must be equal (square matrices), got shape {x.shape}")
    return x.shape


def turn(x):
    """``x`` (a NumPy-like array) with its last two axes exchanged."""
    return x.swapaxes(-1, -2)


# -- linear helpers that gradients are written in ------------------------------------------------------------------

def _matrix_transpose(xp, a):
    """The last two axes exchanged."""
    return turn(a)


operator("matrix_transpose", "a", kernel=_matrix_transpose, linalg="matrix_transpose",
         infer=lambda a: spec(matrices(a, "matrix_transpose", False)[:-2] + (a.shape[-1], a.shape[-2]), a.dtype),
         vjp=lambda F, dy, x, y: F.matrix_transpose(dy))


def _triangle(xp, a, lower, diagonal):
    """One triangle of a matrix, the diagonal scaled by ``diagonal``. Its own adjoint."""
    if diagonal == 0:
        return xp.tril(a, -1) if lower else xp.triu(a, 1)
    result = xp.tril(a) if lower else xp.triu(a)
    if diagonal != 1:
        n = min(a.shape[-2:])
        result[..., xp.arange(n), xp.arange(n)] *= diagonal
    return result


operator("triangle", "a, lower=True, diagonal=1.0", inputs="a", infer=lambda a, lower, diagonal: a, kernel=_triangle,
         vjp=lambda F, dy, x, y, lower, diagonal: F.triangle(dy, lower=lower, diagonal=diagonal))


def _reciprocal0(xp, x):
    """1 / x, and 0 where x is 0."""
    zero = x == 0
    return xp.where(zero, 0, 1 / xp.where(zero, xp.ones((), x.dtype), x))


operator("reciprocal0", "x", infer=lambda x: x, kernel=_reciprocal0, vjp=lambda F, dy, x, y: -dy * y[0] * y[0])


def _gaps(xp, s):
    """E[i, j] = 1 / (s[j] - s[i]), and 0 where they are equal."""
    return _reciprocal0(xp, s[..., None, :] - s[..., :, None])


def _gaps_vjp(F, dy, x, y):
    m = dy * y[0] * y[0]
    return F.sum(m, axis=-1) - F.sum(m, axis=-2)


operator("gaps", "s", infer=lambda s: spec((*s.shape, s.shape[-1]), s.dtype), kernel=_gaps, vjp=_gaps_vjp)


def rows(F, v):
    """Vectors (..., n) as (..., n, 1): scale the rows of a matrix."""
    return F.reshape(v, newshape=(*v.shape, 1))


def columns(F, v):
    """Vectors (..., n) as (..., 1, n): scale the columns of a matrix."""
    return F.reshape(v, newshape=(*v.shape[:-1], 1, v.shape[-1]))


def mirrored(F, a):
    """The symmetric matrix whose lower triangle is that of ``a``."""
    return F.triangle(a) + F.matrix_transpose(F.triangle(a, diagonal=0.0))


# -- inverse, determinant, solve -----------------------------------------------------------------------------------

def _infer_square(name):
    def infer(a, **_):
        matrices(a, name)
        return spec(a.shape, real(a))
    return infer


def _inverse_vjp(F, dy, x, y):
    return -F.matmul_t(F.matmul_t(y[0], dy, True, False), y[0], False, True)


operator("inv", "a", infer=_infer_square("inv"), kernel=lambda xp, a: xp.linalg.inv(lapack(xp, a)), vjp=_inverse_vjp,
         linalg="inv", nd="linalg_inverse", doc="Inverse of square matrices (..., n, n). A singular "
         "matrix is an error of value (ValueError).")


def _inverse_or_zero(xp, a):
    """Inverses; zeros for singular matrices, where a determinant has no useful gradient."""
    a = lapack(xp, a)
    singular = xp.linalg.det(a) == 0
    if not bool(singular.any()):
        return xp.linalg.inv(a)
    mask = singular[..., None, None]
    return xp.where(mask, xp.zeros((), a.dtype), xp.linalg.inv(xp.where(mask, xp.eye(a.shape[-1], dtype=a.dtype), a)))


operator("inverse_or_zero", "a", infer=_infer_square("inv"), kernel=_inverse_or_zero, vjp=_inverse_vjp)


def _scaled_inverse(F, scale, a):
    """The transposed inverse of ``a`` times ``scale`` (a number for each matrix)."""
    return F.reshape(scale, newshape=(*scale.shape, 1, 1)) * F.matrix_transpose(F.inverse_or_zero(a))


operator("det", "a", infer=lambda a: spec(matrices(a, "det")[:-2], real(a)),
         kernel=lambda xp, a: xp.linalg.det(lapack(xp, a)), linalg="det", nd="linalg_det",
         vjp=lambda F, dy, x, y: _scaled_inverse(F, dy * y[0], x[0]),
         doc="Determinants of square matrices (..., n, n).")


def _infer_slogdet(a):
    out = spec(matrices(a, "slogdet")[:-2], real(a))
    return out, out


operator("slogdet", "a", infer=_infer_slogdet, kernel=lambda xp, a: tuple(xp.linalg.slogdet(lapack(xp, a))),
         vjp=lambda F, dy, x, y: None if dy[1] is None else _scaled_inverse(F, dy[1], x[0]), linalg="slogdet",
         nd="linalg_slogdet",
         doc="(sign, logarithm of the absolute value) of the determinants of square matrices; no gradient of the sign.")


def is_vector(a, b):
    """Whether ``b`` holds vectors and not matrices, for ``solve(a, b)``: it has one axis less than ``a``, or one."""
    return len(b) == 1 or len(b) == len(a) - 1


def _infer_solve(a, b):
    matrices(a, "solve")
    n, vector = a.shape[-1], is_vector(a.shape, b.shape)
    full = (*b.shape, 1) if vector else b.shape
    if len(full) < 2 or full[-2] != n:
        raise ShapeError(f"solve: b of shape {b.shape} does not fit a of shape {a.shape}")
    lead = broadcast(a.shape[:-2], full[:-2])
    dtype = real(a) if real(a).itemsize >= real(b).itemsize else real(b)
    return spec(lead + (full[-2:-1] if vector else full[-2:]), dtype)


def _solve(xp, a, b):
    """x with a x = b, for square a (..., n, n) and b (..., n) or (..., n, k). Singular a is an error of value."""
    a, b = lapack(xp, a), lapack(xp, b)
    if is_vector(a.shape, b.shape):
        return xp.linalg.solve(a, b[..., None])[..., 0]
    return xp.linalg.solve(a, b)


def _solve_vjp(F, dy, x, y):
    a, b = x
    if not is_vector(a.shape, b.shape):
        gb = F.solve(F.matrix_transpose(a), dy)
        return -F.matmul_t(gb, y[0], False, True), gb
    gb = F.solve(F.matrix_transpose(a), rows(F, dy))
    ga = -F.matmul_t(gb, rows(F, y[0]), False, True)
    return ga, F.reshape(gb, newshape=gb.shape[:-1])


operator("solve", "a, b", infer=_infer_solve, kernel=_solve, vjp=_solve_vjp, broadcasts=True, linalg="solve")

# -- Cholesky ------------------------------------------------------------------------------------------------------


def _cholesky(xp, a, upper):
    """The lower triangular L with L L^T = a, or the upper U with U^T U = a; a is symmetric and positive definite, of
    which one triangle is read. A matrix that is not positive definite is an error of value (ValueError)."""
    a = lapack(xp, a)
    return turn(xp.linalg.cholesky(turn(a))) if upper else xp.linalg.cholesky(a)


def cholesky_gradient(F, dy, factor):
    """Gradient (symmetric) of the matrix from that of its lower Cholesky factor."""
    half = F.triangle(F.matmul_t(factor, dy, True, False), diagonal=0.5)
    half = (half + F.matrix_transpose(half)) * 0.5
    inner = F.linalg_trsm(factor, half, transpose=True)
    return F.linalg_trsm(factor, inner, rightside=True)


def _cholesky_vjp(F, dy, x, y, upper):
    if upper:
        return cholesky_gradient(F, F.matrix_transpose(dy), F.matrix_transpose(y[0]))
    return cholesky_gradient(F, dy, y[0])


operator("cholesky", "a, upper=False", inputs="a", infer=_infer_square("cholesky"), kernel=_cholesky,
         vjp=_cholesky_vjp, linalg="cholesky")

# -- eigenvalues ---------------------------------------------------------------------------------------------------


def _infer_eigh(a, upper=False):
    matrices(a, "eigh")
    dtype = real(a, FLOAT64)
    return spec(a.shape[:-1], dtype), spec(a.shape, dtype)


def _eigh(xp, a, upper=False):
    """(eigenvalues in ascending order, eigenvectors as columns) of symmetric matrices, of which one triangle is read.
    The element of largest magnitude of every eigenvector is positive."""
    w, v = xp.linalg.eigh(lapack(xp, a), UPLO="U" if upper else "L")
    if not v.size:
        return w, v
    largest = xp.take_along_axis(v, xp.abs(v).argmax(axis=-2)[..., None, :], axis=-2)
    return w, xp.where(largest < 0, -v, v)


def eigh_gradient(F, dw, dv, w, v):
    """Gradient (symmetric) of the matrix from those of its eigenvalues and eigenvectors (either may be None)."""
    total = None
    if dv is not None:
        inner = F.gaps(w) * F.matmul_t(v, dv, True, False)
        total = F.matmul_t(F.matmul_t(v, inner), v, False, True)
        total = (total + F.matrix_transpose(total)) * 0.5
    if dw is not None:
        part = F.matmul_t(v * columns(F, dw), v, False, True)
        total = part if total is None else total + part
    return total


operator("eigh", "a, upper=False", inputs="a", infer=_infer_eigh, kernel=_eigh, linalg="eigh",
         vjp=lambda F, dy, x, y, upper: eigh_gradient(F, *dy, *y))
operator("eigvalsh", "a, upper=False", inputs="a", linalg="eigvalsh",
         infer=lambda a, upper: _infer_eigh(a)[0], doc="Eigenvalues of symmetric matrices, in ascending order.",
         kernel=lambda xp, a, upper: xp.linalg.eigvalsh(lapack(xp, a), UPLO="U" if upper else "L"),
         vjp=lambda F, dy, x, y, upper: eigh_gradient(F, dy, None, *F.eigh(x[0], upper=upper)))


def _real_eig(xp, a):
    """Real eigenvalues and eigenvectors of general matrices; complex ones are an error of value."""
    host = xp.asnumpy(a) if hasattr(xp, "asnumpy") else a
    w, v = numpy.linalg.eig(lapack(numpy, host))
    if numpy.iscomplexobj(w):
        if numpy.abs(w.imag).max(initial=0) > 1e-15:
            raise ValueError("the matrix has complex eigenvalues; there are only arrays of real numbers here")
        w, v = w.real, v.real
    return xp.asarray(w), xp.asarray(v)


operator("eig", "a", infer=lambda a: _infer_eigh(a), kernel=_real_eig, linalg="eig",
         doc="(eigenvalues, eigenvectors as columns) of square matrices whose eigenvalues are real; complex ones are "
         "an error of value. No gradient.")
operator("eigvals", "a", infer=lambda a: _infer_eigh(a)[0], kernel=lambda xp, a: _real_eig(xp, a)[0], linalg="eigvals",
         doc="Eigenvalues of square matrices if they are real; complex ones are an error of value. No gradient.")

# -- singular values -----------------------------------------------------------------------------------------------


def _infer_svd(a):
    m, n = matrices(a, "svd", False)[-2:]
    k, lead, dtype = min(m, n), a.shape[:-2], real(a)
    return spec((*lead, m, k), dtype), spec((*lead, k), dtype), spec((*lead, k, n), dtype)


def _svd(xp, a):
    """(U, s, V) with a = U diag(s) V: the columns of U and the rows of V are orthonormal, s is not negative and
    descends. For a of shape (..., m, n) and k = min(m, n): (..., m, k), (..., k) and (..., k, n)."""
    return tuple(xp.linalg.svd(lapack(xp, a), full_matrices=False))


def svd_gradient(F, du, ds, dv, u, s, v):
    """Gradient of the matrix from those of its factors (None for absent ones)."""
    total = None
    inner = None
    if du is not None or dv is not None:
        gaps, inverse = F.gaps(s * s), F.reciprocal0(s)
    if du is not None:
        p = F.matmul_t(u, du, True, False)
        inner = gaps * (p - F.matrix_transpose(p)) * columns(F, s)
        if u.shape[-2] > u.shape[-1]:
            outside = (du - F.matmul_t(u, p)) * columns(F, inverse)
            total = F.matmul_t(outside, v)
    if dv is not None:
        q = F.matmul_t(v, dv, False, True)
        part = rows(F, s) * (gaps * (q - F.matrix_transpose(q)))
        inner = part if inner is None else inner + part
        if v.shape[-1] > v.shape[-2]:
            outside = (dv - F.matmul_t(F.matmul_t(dv, v, False, True), v)) * rows(F, inverse)
            part = F.matmul_t(u, outside)
            total = part if total is None else total + part
    if inner is not None:
        part = F.matmul_t(F.matmul_t(u, inner), v)
        total = part if total is None else total + part
    if ds is not None:
        part = F.matmul_t(u * columns(F, ds), v)
        total = part if total is None else total + part
    return total


def _svdvals_vjp(F, dy, x, y):
    u, _, v = F.svd(x[0])
    return F.matmul_t(u * columns(F, dy), v)


operator("svd", "a", infer=_infer_svd, kernel=_svd, vjp=lambda F, dy, x, y: svd_gradient(F, *dy, *y), linalg="svd")
operator("svdvals", "a", infer=lambda a: _infer_svd(a)[1], vjp=_svdvals_vjp, linalg="svdvals",
         kernel=lambda xp, a: xp.linalg.svd(lapack(xp, a), compute_uv=False),
         doc="Singular values of matrices (..., m, n), in descending order.")


def _epsilon(a):
    return max(a.shape[-2:]) * float(numpy.finfo(a.dtype).eps)


def _infer_pinv(a, rtol, hermitian):
    m, n = matrices(a, "pinv", hermitian)[-2:]
    lead = a.shape[:-2] if not isinstance(rtol, ArraySpec) else broadcast(a.shape[:-2], rtol.shape)
    return spec((*lead, n, m), real(a))


def _pinv(xp, a, rtol, hermitian):
    """Moore-Penrose pseudo-inverse. Singular values up to ``rtol`` (a number, or an array for a stack of matrices;
    default: max(m, n) times the dtype's epsilon) times the largest count as zero. The gradient holds for changes of a
    that leave its rank. ``hermitian`` only says that a is symmetric: the result is the same."""
    a = lapack(xp, a)
    rtol = _epsilon(a) if rtol is None else rtol
    u, s, v = xp.linalg.svd(a, full_matrices=False)
    cutoff = xp.asarray(rtol)[..., None] * s[..., :1]           # they descend
    s = xp.where(s > cutoff, _reciprocal0(xp, s), 0).astype(a.dtype)
    return xp.matmul(turn(v) * s[..., None, :], turn(u))


def _pinv_vjp(F, dy, x, y, hermitian):
    a, p = x[0], y[0]
    t = F.matmul_t                                          # t(x, y, transpose x, transpose y)
    g = -t(t(p, dy, True, False), p, False, True)
    w = t(dy, t(p, p, False, True), True, False)            # dy^T p p^T, (m, n)
    g = g + w - t(a, t(p, w))
    w = t(t(p, p, True, False), dy, False, True)            # p^T p dy^T, (m, n)
    return g + w - t(t(w, p), a), None


operator("pinv", "a, rtol=None, hermitian=False", inputs="a, rtol", optional=("rtol",), infer=_infer_pinv, kernel=_pinv,
         vjp=_pinv_vjp, broadcasts=True, linalg="pinv")


def _infer_rank(M, rtol, hermitian):
    if len(M.shape) < 2:
        return spec((), "int64")
    matrices(M, "matrix_rank", hermitian)
    lead = M.shape[:-2] if not isinstance(rtol, ArraySpec) else broadcast(M.shape[:-2], rtol.shape)
    return spec(lead, "int64")


def _matrix_rank(xp, M, rtol, hermitian):
    """Number of singular values above ``rtol``, an absolute threshold (as MXNet's, whatever its name says); default:
    max(m, n) times the dtype's epsilon times the largest. An array of less than two axes has rank 1 unless it is 0."""
    M = lapack(xp, M)
    if M.ndim < 2:
        return xp.any(M != 0).astype("int64")
    s = xp.abs(xp.linalg.eigvalsh(M)) if hermitian else xp.linalg.svd(M, compute_uv=False)
    if rtol is None:
        limit = (s.max(axis=-1, keepdims=True) if s.size else s) * _epsilon(M)
    else:
        limit = xp.asarray(rtol)[..., None]
    return xp.count_nonzero(s > limit, axis=-1)


operator("matrix_rank", "M, rtol=None, hermitian=False", inputs="M, rtol", optional=("rtol",), infer=_infer_rank,
         kernel=_matrix_rank, linalg="matrix_rank")

# -- QR ------------------------------------------------------------------------------------------------------------


def _infer_qr(a, mode):
    if mode != "reduced":
        raise ArgumentError(f"qr: only mode='reduced' is supported, not {mode!r}")
    m, n = matrices(a, "qr", False)[-2:]
    k, lead, dtype = min(m, n), a.shape[:-2], real(a)
    return spec((*lead, m, k), dtype), spec((*lead, k, n), dtype)


def _qr(xp, a, mode):
    """(Q, R) with a = Q R: Q (..., m, k) has orthonormal columns, R (..., k, n) is upper triangular, k = min(m, n)."""
    return tuple(xp.linalg.qr(lapack(xp, a)))


def _tall_qr_gradient(F, dq, dr, q, r):
    """For m >= n; either gradient may be None."""
    t = F.matmul_t
    inner = None if dr is None else t(r, dr, False, True)
    if dq is not None:
        part = -t(dq, q, True, False)
        inner = part if inner is None else inner + part
    total = t(q, mirrored(F, inner))
    if dq is not None:
        total = total + dq
    return F.linalg_trsm(r, total, transpose=True, rightside=True, lower=False)


def column_range(F, a, start, stop):
    """Columns ``start`` to ``stop`` of matrices."""
    shape = (*a.shape[:-1], stop - start)
    return F.basic_index(a, items=(*[(0, n, 1) for n in a.shape[:-1]], (start, stop, 1)), shape=shape)


def _qr_vjp(F, dy, x, y, mode):
    (dq, dr), (q, r) = dy, y
    m, n = x[0].shape[-2:]
    if m >= n:
        return _tall_qr_gradient(F, dq, dr, q, r)
    rest = column_range(F, x[0], m, n)                      # a = [square | rest], R = [U | Q^T rest]
    d_rest = None
    du = None
    if dr is not None:
        du, dv = column_range(F, dr, 0, m), column_range(F, dr, m, n)
        part = F.matmul_t(rest, dv, False, True)
        dq = part if dq is None else dq + part
        d_rest = F.matmul_t(q, dv)
    square = _tall_qr_gradient(F, dq, du, q, column_range(F, r, 0, m))
    if d_rest is None:
        d_rest = F.zeros_like(rest)
    return F.join_columns(square, d_rest)


operator("qr", "a, mode='reduced'", inputs="a", infer=_infer_qr, kernel=_qr, vjp=_qr_vjp, linalg="qr")
operator("join_columns", "a, b", kernel=lambda xp, a, b: xp.concatenate([a, b], axis=-1),
         infer=lambda a, b: spec((*a.shape[:-1], a.shape[-1] + b.shape[-1]), a.dtype),
         vjp=lambda F, dy, x, y: (column_range(F, dy, 0, x[0].shape[-1]),
                                  column_range(F, dy, x[0].shape[-1], dy.shape[-1])))

# -- least squares -------------------------------------------------------------------------------------------------


def _infer_lstsq(a, b, rcond):
    if len(a.shape) != 2 or len(b.shape) not in (1, 2) or b.shape[0] != a.shape[0]:
        raise ShapeError(f"lstsq: a of shape {a.shape} and b of shape {b.shape} do not fit: a must be a matrix and b a "
                         "vector or a matrix with as many rows")
    m, n = a.shape
    dtype = real(a) if real(a).itemsize >= real(b).itemsize else real(b)
    return (spec((n, *b.shape[1:]), dtype), spec(b.shape[1:] or (1,), dtype), spec((), "int64"),
            spec((min(m, n),), dtype))


def _lstsq(xp, a, b, rcond):
    """(solution, sums of squared residuals, rank, singular values); the residuals are zeros where NumPy gives none."""
    a, b = lapack(xp, a), lapack(xp, b)
    x, residuals, rank, s = xp.linalg.lstsq(a, b, rcond=-1 if rcond == "warn" else rcond)
    if residuals.size == 0:
        residuals = xp.zeros(b.shape[1:] or (1,), a.dtype)
    return x, residuals, xp.asarray(rank), s


operator("lstsq", "a, b, rcond='warn'", inputs="a, b", infer=_infer_lstsq, kernel=_lstsq)
