"""Rows of products and linear algebra."""

import numpy as np
from table import S, exempt, normal, positive, row, uniform

LAPACK = {"dtypes": "float32 float64", "tol": 16}
L = np.linalg


def t(a):
    return np.swapaxes(a, -1, -2)


def op(a, transpose):
    return t(a) if transpose else a


def spd(*shape):
    """Symmetric matrices, well away from singular and with distinct eigenvalues."""

    def draw(rng):
        n = shape[-1]
        q = L.qr(rng.standard_normal(shape))[0] if n else np.zeros(shape)
        return (q * (1.0 + np.arange(n))) @ t(q)

    return draw


def general(*shape):
    """Square matrices, well away from singular."""
    return lambda rng: rng.standard_normal(shape) * 0.5 + 3 * np.eye(shape[-1])


def spread(*shape):
    """Matrices with well separated singular values."""

    def draw(rng):
        m, n = shape[-2:]
        k = min(m, n)
        u, v = [L.qr(rng.standard_normal((*shape[:-2], i, k)))[0] for i in (m, n)]
        return (u * (1.0 + np.arange(k))) @ t(v)

    return draw


# -- products ------------------------------------------------------------------------------------------------------

PRODUCTS = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
]
row("matmul", ref=np.matmul, ints_as="int32", tol=2, samples=[S(normal(*a), normal(*b)) for a, b in PRODUCTS])
FLAGS = [(a, b) for a in (False, True) for b in (False, True)]


def flagged(first, second, lead=((), ((2,), (2,)))):
    samples = []
    for ta, tb in FLAGS:
        for la, lb in (((), ()), ((2,), (2,)), ((2,), ()), ((2, 1), (3,))) if lead is None else lead:
            a, b = first[::-1] if ta else first, second[::-1] if tb else second
            samples.append(S(normal(*la, *a), normal(*lb, *b), transpose_a=ta, transpose_b=tb))
    return samples


def product(a, b, transpose_a=False, transpose_b=False, **_):
    return op(a, transpose_a) @ op(b, transpose_b)


row("matmul_t", ref=product, tol=2, samples=flagged((3, 4), (4, 5), None))
for _name in ("batch_dot", "nd_batch_dot"):
    row(_name, ref=product, tol=2, samples=flagged((3, 4), (4, 5), [((2,), (2,)), ((0,), (0,)), ((2, 3), (2, 3))]))
row(
    "dot",
    ref=np.dot,
    tol=2,
    ints_as="int32",
    samples=[
        S(normal(*a), normal(*b))
        for a, b in (
            ((3, 4), (4, 5)),
            ((4,), (4,)),
            ((4,), (4, 5)),
            ((3, 4), (4,)),
            ((2, 3, 4), (5, 4, 2)),
            ((2, 3, 4), (4,)),
            ((), (2, 3)),
            ((2, 3), ()),
            ((0, 4), (4, 2)),
            ((3, 0), (0, 2)),
        )
    ]
    + [S(normal(2, 3), 2.5), S(2, normal(3))],
)
row(
    "inner",
    ref=np.inner,
    tol=2,
    samples=[
        S(normal(*a), normal(*b))
        for a, b in (((3, 4), (5, 4)), ((4,), (4,)), ((2, 3, 4), (5, 4)), ((), (2, 3)), ((0, 4), (3, 4)))
    ],
)
row(
    "nd_dot",
    tol=2,
    samples=flagged((3, 4), (4, 5), [((), ())])
    + [
        S(normal(4), normal(4)),
        S(normal(2, 3, 4), normal(4, 5, 2)),
        S(normal(4, 3, 2), normal(5, 4), transpose_a=True, transpose_b=True),
    ],
    ref=lambda a, b, transpose_a=False, transpose_b=False: np.atleast_1d(
        np.tensordot(a, b, ((0 if transpose_a else a.ndim - 1,), (b.ndim - 1 if transpose_b else 0,)))
    ),
)
row(
    "tensordot",
    ref=lambda a, b, axes=2: np.tensordot(a, b, axes),
    tol=2,
    ints_as="int32",
    samples=[
        S(normal(2, 3, 4), normal(3, 4, 5)),
        S(normal(2, 3), normal(4), axes=0),
        S(normal(2, 3), normal(3, 4), axes=1),
        S(normal(3, 2, 4), normal(4, 3, 5), axes=((0, 2), (1, 0))),
        S(normal(3, 4), normal(4, 3), axes=((1, 0), (0, 1))),
        S(normal(), normal(), axes=0),
        S(normal(2, 0), normal(0, 3), axes=1),
    ],
)
row("outer", ref=np.outer, samples=[S(normal(2, 3), normal(4)), S(normal(), normal(2)), S(normal(0), normal(2))])
row("vdot", ref=np.vdot, tol=2, samples=[S(normal(2, 3), normal(3, 2)), S(normal(), normal()), S(normal(0), normal(0))])
row(
    "kron",
    ref=np.kron,
    ints_as="int32",
    samples=[
        S(normal(*a), normal(*b))
        for a, b in (((2, 3), (3, 2)), ((2, 3), (2,)), ((2,), (2, 3, 2)), ((), (2,)), ((), ()), ((0, 2), (2, 2)))
    ],
)
row("cross3", ref=np.cross, samples=[S(normal(4, 3), normal(3)), S(normal(3), normal(3)), S(normal(0, 3), normal(3))])
row(
    "pad3",
    ref=lambda a: np.concatenate([a, np.zeros((*a.shape[:-1], 1))], -1),
    samples=[S(normal(3, 2)), S(normal(2)), S(normal(0, 2))],
)
row(
    "khatri_rao",
    tol=2,
    samples=[
        S(normal(2, 3), normal(4, 3)),
        S(normal(2, 3), normal(4, 3), normal(2, 3)),
        S(normal(2, 3)),
        S(normal(0, 3), normal(2, 3)),
    ],
    ref=lambda *m: (
        m[0]
        if len(m) == 1
        else np.einsum("ac,bc,dc->abdc", m[0], m[1], m[2] if len(m) > 2 else np.ones((1, m[0].shape[1]))).reshape(
            -1, m[0].shape[1]
        )
    ),
)
row(
    "einsum",
    ref=lambda *a, subscripts: np.einsum(subscripts, *a),
    tol=4,
    ints_as="int32",
    samples=[
        S(*[normal(*s) for s in shapes], subscripts=subscripts)
        for subscripts, shapes in (
            ("ij,jk->ik", ((2, 3), (3, 4))),
            ("ij,jk->ki", ((2, 3), (3, 4))),
            ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
            ("ii->", ((3, 3),)),
            ("ii->i", ((3, 3),)),
            ("ij->", ((3, 2),)),
            ("ij->j", ((3, 2),)),
            ("ijk->kij", ((2, 3, 4),)),
            ("i,j,k->ijk", ((2,), (3,), (4,))),
            ("ij,ij,ij->i", ((2, 3),) * 3),
            ("iij,jk->ik", ((2, 2, 3), (3, 2))),
            ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
            ("iijj->ij", ((2, 2, 3, 3),)),
            ("ijk,jil->kl", ((2, 3, 4), (3, 2, 5))),
            (",ij->ij", ((), (2, 3))),
            ("ki,kj->ij", ((3, 2), (3, 4))),
            ("->", ((),)),
            ("ij,jk->ik", ((0, 3), (3, 4))),
            ("ij,jk->ik", ((2, 0), (0, 4))),
            ("chd,bhqd,bhkd->bchqk", ((2, 3, 2), (2, 3, 2, 2), (2, 3, 4, 2))),
        )
    ],
)
exempt("einsum_spread", "einsum")

# -- inverse, determinant, solve -----------------------------------------------------------------------------------

row("inv", ref=L.inv, samples=[S(general(3, 3)), S(general(2, 3, 3)), S(general(0, 0))], **LAPACK)
exempt("inverse_or_zero", "det", "slogdet")
row("det", ref=L.det, samples=[S(general(3, 3)), S(general(2, 3, 3)), S(general(0, 0))], **LAPACK)
row(
    "slogdet",
    ref=lambda a: tuple(L.slogdet(a)),
    outputs=(1,),
    samples=[S(general(3, 3)), S(general(2, 3, 3))],
    **LAPACK,
)
row(
    "solve",
    ref=lambda a, b: L.solve(a, b[..., None])[..., 0] if b.ndim in (1, a.ndim - 1) else L.solve(a, b),
    samples=[
        S(general(3, 3), normal(3)),
        S(general(3, 3), normal(3, 2)),
        S(general(2, 3, 3), normal(2, 3)),
        S(general(2, 3, 3), normal(2, 3, 2)),
        S(general(3, 3), normal(2, 3, 2)),
        S(general(3, 3), normal(3, 0)),
    ],
    **LAPACK,
)
row(
    "lstsq",
    ref=lambda a, b, rcond="warn": (
        L.lstsq(a, b)[0],
        ((a @ L.lstsq(a, b)[0] - b) ** 2).sum(0, keepdims=b.ndim == 1),
        L.lstsq(a, b)[2],
        L.lstsq(a, b)[3],
    ),
    samples=[S(normal(5, 3), normal(5, 2)), S(normal(5, 3), normal(5))],
    **LAPACK,
)
row(
    "pinv",
    ref=lambda a, rtol=None, hermitian=False: L.pinv(a) if rtol is None else L.pinv(a, rtol),
    samples=[
        S(spread(3, 4)),
        S(spread(4, 3)),
        S(spread(2, 3, 3)),
        S(spread(2, 3, 4), np.array([1e-3, 1e-4])),
        S(spread(3, 2), 0.01),
    ],
    grad=(0,),
    **LAPACK,
)
row(
    "matrix_rank",
    ref=lambda M, rtol=None, hermitian=False: L.matrix_rank(M) if rtol is None else L.matrix_rank(M, rtol),
    samples=[
        S(normal(3, 4)),
        S(normal(2, 3, 3)),
        S(np.ones((3, 3))),
        S(normal(2, 3, 3), np.array([1e-3, 100.0])),
        S(normal(3)),
        S(normal(3, 3), 0.001),
    ],
    **LAPACK,
)

# -- decompositions ------------------------------------------------------------------------------------------------


def symmetric(function):
    """Records that read one triangle only are tested as functions of a symmetrised matrix."""
    return lambda a, **k: function((a + t(a)) / 2, **k)


def signed(w, v):
    largest = np.take_along_axis(v, abs(v).argmax(-2)[..., None, :], -2)
    return w, np.where(largest < 0, -v, v)


SYMMETRIC = {"samples": [S(spd(3, 3), grad=False), S(spd(2, 3, 3), grad=False)], **LAPACK}
row(
    "cholesky",
    ref=lambda a, upper=False: t(L.cholesky(a)) if upper else L.cholesky(a),
    samples=SYMMETRIC["samples"] + [S(spd(3, 3), upper=True, grad=False)],
    **LAPACK,
)
row("linalg_potrf", ref=L.cholesky, **SYMMETRIC)
row("eigh", ref=lambda a, upper=False: signed(*L.eigh(a)), **SYMMETRIC)
row("eigvalsh", ref=lambda a, upper=False: L.eigvalsh(a), **SYMMETRIC)
row("linalg_syevd", ref=lambda A: (t(signed(*L.eigh(A))[1]), L.eigvalsh(A)), **SYMMETRIC)


def check_eig(inputs, outputs, attrs):
    """a v = v diag(w)."""
    (a,), (w, v) = inputs, outputs
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-3)


row("eig", check=check_eig, samples=[S(spd(3, 3)), S(spd(2, 3, 3))], **LAPACK)
row(
    "eigvals",
    check=lambda inputs, outputs, attrs: np.testing.assert_allclose(
        np.sort(outputs[0]), np.broadcast_to([1, 2, 3], outputs[0].shape), rtol=1e-4
    ),
    samples=[S(spd(3, 3)), S(spd(2, 3, 3))],
    **LAPACK,
)


def check_svd(inputs, outputs, attrs):
    """The factors are orthonormal and give the matrix; gradients are tested in test_linalg.py up to signs."""
    (a,), (u, s, v) = inputs, outputs
    np.testing.assert_allclose((u * s[..., None, :]) @ v, a, atol=1e-4)
    for q in (t(u) @ u, v @ t(v)):
        np.testing.assert_allclose(q, np.broadcast_to(np.eye(q.shape[-1]), q.shape), atol=1e-4)


WIDE = [S(spread(3, 4)), S(spread(4, 3)), S(spread(2, 3, 3))]
row("svd", check=check_svd, samples=WIDE, grad=(0,), **LAPACK)
row("svdvals", ref=lambda a: L.svd(a, compute_uv=False), samples=WIDE, **LAPACK)
row("qr", ref=lambda a, mode="reduced": tuple(L.qr(a)), samples=WIDE, **LAPACK)
row(
    "linalg_gelqf",
    ref=lambda A: tuple(t(f) for f in L.qr(t(A))),
    samples=[S(spread(3, 4)), S(spread(2, 3, 3))],
    **LAPACK,
)
row(
    "linalg_potri",
    ref=lambda A: L.inv(np.tril(A) @ t(np.tril(A))),
    samples=[S(general(3, 3)), S(general(2, 3, 3))],
    **LAPACK,
)

# -- norms and helpers of gradients --------------------------------------------------------------------------------

ORDERS = [
    S(normal(3, 4), ord=o, axis=a, keepdims=k)
    for o in (2, 1, 3, "inf", "-inf", 2.5)
    for a, k in ((0, False), (-1, True))
]
row(
    "vector_norm",
    ref=lambda x, ord=2, axis=None, keepdims=False: L.vector_norm(x, ord=float(ord), axis=axis, keepdims=keepdims),
    tol=4,
    second=False,
    samples=ORDERS
    + [
        S(normal(2, 3, 4)),
        S(normal(2, 3, 4), axis=(0, 2)),
        S(normal()),
        S(normal(0, 3)),
        S(np.array([[0.0, 2], [0, 0]]), ord=0, axis=1, grad=False),
    ],
)
row(
    "signed_power",
    ref=lambda x, exponent, even=False: np.abs(x) ** exponent * (1 if even else np.sign(x)),
    tol=4,
    samples=[
        S(positive(3), exponent=2.5),
        S(uniform(3, low=-2.0, high=-1.0), exponent=1, even=True),
        S(positive(), exponent=-0.5),
    ],
)
row("matrix_transpose", ref=t, samples=[S(normal(3, 4)), S(normal(2, 3, 4)), S(normal(0, 3))])
row(
    "triangle",
    samples=[S(normal(3, 3), lower=lo, diagonal=d) for lo in (True, False) for d in (1.0, 0.5, 0.0)]
    + [S(normal(2, 3, 4))],
    ref=lambda a, lower=True, diagonal=1.0: (
        (np.tril(a, -1) if lower else np.triu(a, 1)) + diagonal * a * np.eye(*a.shape[-2:])
    ),
)
row(
    "reciprocal0",
    ref=lambda x: np.where(x == 0, 0, 1 / np.where(x == 0, 1, x)),
    samples=[S(positive(3, 4)), S(positive()), S(np.array([0.0, 2.0]), grad=False), S(normal(0))],
)
row(
    "gaps",
    ref=lambda s: np.where(np.eye(s.shape[-1]) > 0, 0, 1 / (s[..., None, :] - s[..., :, None] + np.eye(s.shape[-1]))),
    samples=[
        S(lambda rng: np.arange(4.0) + rng.uniform(0, 0.4, 4)),
        S(lambda rng: np.arange(3.0) + rng.uniform(0, 0.4, (2, 3))),
    ],
    tol=4,
)
row(
    "join_columns",
    ref=lambda a, b: np.concatenate([a, b], -1),
    samples=[S(normal(2, 3), normal(2, 1)), S(normal(2, 0), normal(2, 3))],
)

# -- legacy --------------------------------------------------------------------------------------------------------

TRIANGULAR = []
for _tr in (False, True):
    for _right in (False, True):
        for _lower in (False, True):
            TRIANGULAR += [
                S(
                    general(*lead, 3, 3),
                    normal(*lead2, *((2, 3) if _right else (3, 2))),
                    transpose=_tr,
                    rightside=_right,
                    lower=_lower,
                    alpha=2.0,
                )
                for lead, lead2 in (((), ()), ((2,), (2,)))
            ]


def triangular(solve):
    def ref(a, b, transpose, rightside, lower, alpha):
        a = op(np.tril(a) if lower else np.triu(a), transpose)
        a = L.inv(a) if solve else a
        return alpha * (b @ a if rightside else a @ b)

    return ref


row("linalg_trmm", ref=triangular(False), samples=TRIANGULAR, tol=2)
row("linalg_trsm", ref=triangular(True), samples=TRIANGULAR, **LAPACK)
row(
    "linalg_syrk",
    ref=lambda a, transpose=False, alpha=1.0: alpha * (t(a) @ a if transpose else a @ t(a)),
    tol=4,
    samples=[S(normal(3, 4)), S(normal(2, 3, 4), transpose=True, alpha=2.0)],
)


def gemm2(a, b, transpose_a=False, transpose_b=False, alpha=1.0, axis=-2):
    a, b = np.moveaxis(a, axis, -2), np.moveaxis(b, axis, -2)
    return np.moveaxis(alpha * product(a, b, transpose_a, transpose_b), -2, axis)


AXIS = [
    S(normal(3, 2, 4), normal(4, 2, 5), axis=0, alpha=2.0),
    S(normal(4, 2, 3), normal(5, 2, 4), axis=0, transpose_a=True, transpose_b=True),
]
row("linalg_gemm2", ref=gemm2, tol=4, samples=flagged((3, 4), (4, 5), [((), ()), ((2,), (2,))]) + AXIS)
row(
    "linalg_gemm",
    ref=lambda a, b, c, beta=1.0, **k: gemm2(a, b, **k) + beta * c,
    tol=4,
    samples=[
        S(
            *s.inputs,
            normal(*([3, 5] if len(s.inputs[0](np.random.default_rng(0)).shape) == 2 else [2, 3, 5])),
            beta=3.0,
            alpha=2.0,
            **s.attrs,
        )
        for s in flagged((3, 4), (4, 5), [((), ()), ((2,), (2,))])
    ],
)
row(
    "linalg_sumlogdiag",
    ref=lambda A: np.atleast_1d(np.log(np.diagonal(A, axis1=-2, axis2=-1)).sum(-1)),
    samples=[S(general(3, 3)), S(general(2, 3, 3))],
    tol=2,
)
OFFSETS = (-1, 0, 1)
row(
    "linalg_extractdiag",
    ref=lambda A, offset=0: np.diagonal(A, offset, -2, -1),
    samples=[S(normal(2, 3, 4), offset=k) for k in OFFSETS],
)
exempt("put_diagonal", "linalg_extractdiag")
row(
    "linalg_makediag",
    ref=lambda A, offset=0: np.stack([np.diag(v, offset) for v in A.reshape(-1, A.shape[-1])]).reshape(
        *A.shape[:-1], *[A.shape[-1] + abs(offset)] * 2
    ),
    samples=[S(normal(2, 3), offset=k) for k in OFFSETS] + [S(normal(3))],
)


def triangle_indices(n, offset, lower):
    return np.tril_indices(n, offset) if offset < 0 or (offset == 0 and lower) else np.triu_indices(n, offset)


def maketrian(A, offset=0, lower=True):
    n = int(np.sqrt(2 * A.shape[-1])) + abs(offset)
    result = np.zeros((*A.shape[:-1], n, n))
    result[(..., *triangle_indices(n, offset, lower))] = A
    return result


TRIANGLES = [{"offset": k, "lower": lo} for k in OFFSETS for lo in (True, False)]
row(
    "linalg_extracttrian",
    samples=[S(normal(2, 4, 4), **k) for k in TRIANGLES],
    ref=lambda A, offset=0, lower=True: A[(..., *triangle_indices(A.shape[-1], offset, lower))],
)
row("linalg_maketrian", samples=[S(normal(2, 6), **k) for k in TRIANGLES], ref=maketrian)

# -- Fourier transforms --------------------------------------------------------------------------------------------


def interleaved(z):
    return np.stack([z.real, z.imag], -1).reshape(*z.shape[:-1], -1)


row(
    "contrib_fft",
    ref=lambda x, compute_size=128: interleaved(np.fft.fft(x)),
    samples=[S(normal(3, 4)), S(normal(2, 1, 2, 5), compute_size=2), S(normal(6))],
    dtypes="float32 float64",
    tol=8,
)
row(
    "contrib_ifft",
    ref=lambda x, compute_size=128: np.fft.ifft(x[..., ::2] + 1j * x[..., 1::2]).real * (x.shape[-1] // 2),
    samples=[S(normal(3, 4)), S(normal(2, 1, 2, 10), compute_size=2), S(normal(6))],
    dtypes="float32 float64",
    tol=8,
)

# -- interleaved attention -----------------------------------------------------------------------------------------


def heads_of(x, heads, parts, index):
    """(batch, heads, length, size)."""
    return x.reshape(*x.shape[:2], heads, parts, -1)[:, :, :, index].transpose(1, 2, 0, 3)


def scores(q, k):
    return (q @ t(k) / np.sqrt(q.shape[-1])).reshape(-1, q.shape[2], k.shape[2])


def attended(attention, v):
    result = attention.reshape(*v.shape[:2], *attention.shape[1:]) @ v
    return result.transpose(2, 0, 1, 3).reshape(attention.shape[1], v.shape[0], -1)


row(
    "attention_heads",
    ref=lambda x, heads, parts, index: heads_of(x, heads, parts, index).reshape(x.shape[1] * heads, x.shape[0], -1),
    samples=[S(normal(3, 2, 12), heads=2, parts=3, index=1), S(normal(3, 2, 4), heads=2, parts=1, index=0)],
)
exempt("put_heads", "attention_heads", "interleaved_matmul_selfatt_valatt")
row(
    "interleaved_matmul_selfatt_qk",
    ref=lambda x, heads: scores(heads_of(x, heads, 3, 0), heads_of(x, heads, 3, 1)),
    samples=[S(normal(3, 2, 24), heads=2), S(normal(3, 1, 6), heads=1)],
    tol=4,
)
row(
    "interleaved_matmul_encdec_qk",
    ref=lambda q, kv, heads: scores(heads_of(q, heads, 1, 0), heads_of(kv, heads, 2, 0)),
    samples=[S(normal(5, 2, 8), normal(3, 2, 16), heads=2)],
    tol=4,
)
row(
    "interleaved_matmul_selfatt_valatt",
    ref=lambda x, attention, heads: attended(attention, heads_of(x, heads, 3, 2)),
    samples=[S(normal(3, 2, 24), normal(4, 3, 3), heads=2)],
    tol=4,
)
row(
    "interleaved_matmul_encdec_valatt",
    ref=lambda kv, attention, heads: attended(attention, heads_of(kv, heads, 2, 1)),
    samples=[S(normal(3, 2, 16), normal(4, 5, 3), heads=2)],
    tol=4,
)
