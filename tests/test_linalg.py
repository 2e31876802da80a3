"""Products and linear algebra through the public functions: values, gradients of both orders, errors.

Operator records have rows of their own in ``tests/ops``; here are functions made of several operators, and gradients
that need inputs of a special form (symmetric matrices, factors known up to signs)."""

from __future__ import annotations

import numpy as np
import pytest

import raynd as mx
from raynd import autograd
from raynd.errors import MXNetError
from raynd.ndarray.array import from_numpy

L = np.linalg
RNG = np.random.default_rng(3)


def check(function, reference, *shapes, second=True, tol=1e-6):
    """Value, gradient and second derivative along random directions, in float64."""
    hosts = [RNG.standard_normal(s) for s in shapes]
    arrays = [from_numpy(h) for h in hosts]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        y = function(*arrays)
        w = from_numpy(RNG.standard_normal(y.shape))
        grads = autograd.grad(mx.np.sum(y * w), arrays, create_graph=True)
        directions = [RNG.standard_normal(h.shape) for h in hosts]
        slope = sum(mx.np.sum(g * from_numpy(v)) for g, v in zip(grads, directions))
    np.testing.assert_allclose(y.asnumpy(), reference(*hosts), rtol=1e-9, atol=1e-9)
    weights = w.asnumpy()

    def value(a, b, others):
        moved = [h + a * v + b * u for h, v, u in zip(hosts, directions, others)]
        return (reference(*moved) * weights).sum()

    e = 1e-6
    expected = (value(e, 0, directions) - value(-e, 0, directions)) / (2 * e)
    assert abs(expected - slope.item()) <= tol * max(1, abs(expected)), (expected, slope.item())
    if second and slope._entry is not None:
        slope.backward()
        others = [RNG.standard_normal(h.shape) for h in hosts]
        got = sum((x.grad.asnumpy() * u).sum() for x, u in zip(arrays, others))
        e = 1e-4
        expected = (value(e, e, others) - value(e, -e, others) - value(-e, e, others) + value(-e, -e, others)) / (
            4 * e * e
        )
        assert abs(expected - got) <= 1e-3 * max(1, abs(expected)), (expected, got)


def t(a):
    return np.swapaxes(a, -1, -2)


# -- products ------------------------------------------------------------------------------------------------------


def test_matmul_operator():
    a, b = RNG.standard_normal((2, 3)), RNG.standard_normal((3, 3))
    x, y = from_numpy(a), from_numpy(b)
    np.testing.assert_allclose((x @ y).asnumpy(), a @ b)
    np.testing.assert_allclose((a @ y).asnumpy(), a @ b)
    z = x
    z @= y
    assert z is x
    np.testing.assert_allclose(z.asnumpy(), a @ b)
    nd = x.as_nd_ndarray() @ y.as_nd_ndarray()
    assert type(nd) is mx.nd.NDArray
    with pytest.raises(ValueError, match="matmul"):
        x @ from_numpy(np.ones((4, 2)))
    with pytest.raises(ValueError, match="scalar"):
        mx.np.matmul(x, 2)


@pytest.mark.parametrize(
    "subscripts,shapes",
    [
        ("ij,jk", ((2, 3), (3, 4))),
        ("...ij,...jk", ((2, 3, 4), (4, 5))),
        ("...ij->...ji", ((2, 3, 4),)),
        ("i...->...", ((2, 3),)),
        ("...a,...a", ((1, 3), (4, 3))),
        ("ab,ab->ab", ((2, 1), (2, 3))),
        ("...,...", ((2, 3), (3,))),
        ("ii", ((3, 3),)),
        ("ij , jk -> ik", ((2, 3), (3, 4))),
        ("ba", ((2, 3),)),
        ("i,i,i", ((4,), (4,), (1,))),
    ],
)
def test_einsum(subscripts, shapes):
    check(lambda *a: mx.np.einsum(subscripts, *a), lambda *a: np.einsum(subscripts, *a), *shapes)


def test_einsum_other_forms_and_errors():
    check(lambda a, b: mx.np.einsum(a, [0, 1], b, [1, 2], [2, 0]), lambda a, b: (a @ b).T, (2, 3), (3, 4))
    check(lambda a, b: mx.np.einsum(a, [..., 0], b, [..., 0]), lambda a, b: (a * b).sum(-1), (2, 3), (2, 3))
    x, out = mx.np.ones((2, 3)), mx.np.zeros((3, 2))
    assert mx.np.einsum("ij->ji", x, out=out, optimize="greedy") is out and out.asnumpy().sum() == 6
    for bad in ("ij,jk", "ijk", "ij->ik", "ij->ii", "i?", "i...j...", "...->"):
        with pytest.raises(ValueError):
            mx.np.einsum(bad, x)
    with pytest.raises(ValueError):
        mx.np.einsum("ij,jk", x, x)


def test_cross():
    check(mx.np.cross, np.cross, (4, 3), (3,))
    check(
        lambda a, b: mx.np.cross(a, b, axisa=0, axisc=0), lambda a, b: np.cross(a, b, axisa=0, axisc=0), (3, 4), (4, 3)
    )
    check(mx.np.cross, lambda a, b: a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], (4, 2), (4, 2))
    check(mx.np.cross, lambda a, b: np.cross(np.pad(a, ((0, 0), (0, 1))), b), (4, 2), (3,))
    with pytest.raises(ValueError):
        mx.np.cross(mx.np.ones(4), mx.np.ones(3))


def test_int_and_half_products():
    i = from_numpy(np.arange(6).reshape(2, 3))
    assert (i @ mx.np.transpose(i)).dtype == "int64"
    h = from_numpy(np.full((2, 300), 100, "float16"))
    assert mx.np.dot(h, mx.np.transpose(h)).asnumpy().dtype == "float16"


# -- decompositions of symmetric matrices --------------------------------------------------------------------------


def positive(h):
    return h @ t(h) + 2 * np.eye(h.shape[-1])


def made_positive(x):
    return mx.np.matmul(x, mx.np.swapaxes(x, -1, -2)) + from_numpy(2 * np.eye(x.shape[-1]))


def eigenvectors(h, **kw):
    v = L.eigh(positive(h))[1]
    return np.where(np.take_along_axis(v, abs(v).argmax(-2)[..., None, :], -2) < 0, -v, v)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_symmetric_decompositions(shape):
    lin, nd = mx.np.linalg, mx.nd.linalg
    check(lambda x: lin.cholesky(made_positive(x)), lambda h: L.cholesky(positive(h)), shape)
    check(lambda x: lin.cholesky(made_positive(x), upper=True), lambda h: t(L.cholesky(positive(h))), shape)
    check(lambda x: nd.potrf(made_positive(x)), lambda h: L.cholesky(positive(h)), shape)
    check(lambda x: nd.potri(nd.potrf(made_positive(x))), lambda h: L.inv(positive(h)), shape)
    check(lambda x: lin.eigvalsh(made_positive(x)), lambda h: L.eigvalsh(positive(h)), shape)
    check(lambda x: lin.eigh(made_positive(x))[0], lambda h: L.eigvalsh(positive(h)), shape)
    check(lambda x: lin.eigh(made_positive(x), upper=True)[1], eigenvectors, shape)
    check(lambda x: nd.syevd(made_positive(x))[0], lambda h: t(eigenvectors(h)), shape)


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (2, 3, 4)])
def test_svd(shape):
    signs = []

    def factors(h):
        u, s, v = L.svd(h, full_matrices=False)
        signs.append(u) if not signs else None
        sign = np.sign((u * signs[0]).sum(-2, keepdims=True))
        return u * sign, s, v * t(sign)

    for i in range(3):
        signs.clear()
        check(lambda x, i=i: mx.np.linalg.svd(x)[i], lambda h, i=i: factors(h)[i], shape)
    check(
        lambda x: mx.np.matmul(*mx.np.linalg.svd(x)[::2]),
        lambda h: np.matmul(*L.svd(h, full_matrices=False)[::2]),
        shape,
    )


def test_gradients_at_singular_points_are_zero_and_finite():
    for function in (mx.np.linalg.norm, mx.np.linalg.det):
        x = mx.np.zeros((2, 2))
        x.attach_grad()
        with autograd.record():
            y = function(x)
        y.backward()
        assert (x.grad.asnumpy() == 0).all()


# -- functions of several operators --------------------------------------------------------------------------------


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms(ord):
    for axis, shape in (((0, 1), (3, 4)), ((2, 0), (2, 3, 4)), ((-2, -1), (2, 3, 4))):
        for keepdims in (False, True):
            check(
                lambda x, a=axis, k=keepdims: mx.np.linalg.norm(x, ord, axis=a, keepdims=k),
                lambda h, a=axis, k=keepdims: L.norm(h, ord, axis=a, keepdims=k),
                shape,
                second=False,
            )
    check(lambda x: mx.np.linalg.norm(x, ord), lambda h: L.norm(h, ord), (3, 4), second=False)


@pytest.mark.parametrize("ord", [None, 1, 2, 3, np.inf, -np.inf, 0.5])
def test_vector_norms(ord):
    for axis in (0, -1):
        check(
            lambda x, a=axis: mx.np.linalg.norm(x, ord, axis=a),
            lambda h, a=axis: L.norm(h, ord, axis=a),
            (2, 3),
            second=False,
        )
    check(
        lambda x: mx.np.linalg.vector_norm(x, ord),
        lambda h: L.vector_norm(h, ord=2 if ord is None else ord),
        (2, 3),
        second=False,
    )
    assert mx.np.linalg.norm(mx.np.array([0, 3.0, 4]), 0).item() == 2
    assert mx.np.linalg.norm(mx.np.array([[3.0, 4]], dtype="int32")).item() == 5


def test_composites():
    lin = mx.np.linalg
    check(lin.matrix_norm, L.matrix_norm, (2, 3, 4))
    check(lin.vecdot, L.vecdot, (2, 3), (2, 3))
    check(lambda x: lin.trace(x, 1), lambda h: L.trace(h, offset=1), (2, 3, 4))
    check(lambda x: lin.diagonal(x, -1), lambda h: L.diagonal(h, offset=-1), (2, 3, 4))
    check(lin.tensorinv, L.tensorinv, (2, 3, 3, 2))
    check(lin.tensorsolve, L.tensorsolve, (2, 3, 6), (2, 3))
    check(
        lambda a, b: lin.tensorsolve(a, b, axes=(0,)),
        lambda a, b: L.tensorsolve(a, b, axes=(0,)),
        (6, 2, 3),
        (2, 3),
        tol=1e-4,
    )
    for shapes in (((3, 4), (4, 5), (5, 2), (2, 2)), ((4,), (4, 5), (5,)), ((3, 4), (4,))):
        check(lambda *a: lin.multi_dot(a), lambda *a: L.multi_dot(a), *shapes)
    for n in (0, 1, 2, 3, 5):
        check(lambda x, n=n: lin.matrix_power(x, n), lambda h, n=n: L.matrix_power(h, n), (2, 3, 3))
    a = positive(RNG.standard_normal((3, 3)))
    np.testing.assert_allclose(lin.matrix_power(from_numpy(a), -2).asnumpy(), L.matrix_power(a, -2))
    for p in (None, 2, -2, 1, "fro", np.inf):
        np.testing.assert_allclose(lin.cond(from_numpy(a), p).asnumpy(), L.cond(a, p))


def test_lstsq():
    h, b = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 2))
    for m, rhs in ((h, b), (h.T, b[:3]), (h, b[:, 0]), (np.ones((5, 3)), b)):
        got = mx.np.linalg.lstsq(from_numpy(m), from_numpy(rhs), rcond=None)
        for x, expected in zip(got, L.lstsq(m, rhs, rcond=None)):
            assert x.shape == np.shape(expected)
            np.testing.assert_allclose(x.asnumpy(), expected, atol=1e-8)


def test_errors():
    lin, zero = mx.np.linalg, mx.np.zeros((2, 2))
    for deferred in (
        lambda: lin.inv(zero),
        lambda: lin.cholesky(zero - 1),
        lambda: lin.solve(zero, mx.np.ones(2)),
        lambda: lin.eigvals(mx.np.array([[0, 1.0], [-1, 0]])),
    ):
        result = deferred()  # depends on values: an error value
        with pytest.raises(ValueError) as caught:
            result.asnumpy()
        assert isinstance(caught.value, MXNetError)
    x = mx.np.ones((2, 3))
    for call in (
        lambda: lin.inv(x),
        lambda: lin.det(x),
        lambda: lin.solve(zero, mx.np.ones(3)),
        lambda: lin.norm(x, "abc"),
        lambda: lin.norm(x, 3, axis=(0, 1)),
        lambda: lin.tensorinv(x),
        lambda: lin.multi_dot([x]),
        lambda: mx.np.dot(x, x),
        lambda: mx.np.tensordot(x, x, 1),
        lambda: mx.nd.batch_dot(zero, zero),
        lambda: lin.cholesky(mx.np.ones(3)),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError):
        lin.qr(x, mode="complete")
    with pytest.raises(TypeError):
        mx.np.dot(x, "a")


def test_integers_give_floats():
    i = from_numpy(np.array([[2, 1], [1, 3]]))
    assert mx.np.linalg.det(i).dtype == "float32" and mx.np.linalg.inv(i).dtype == "float32"
    assert mx.np.linalg.eigh(i)[0].dtype == "float64"
    np.testing.assert_allclose(mx.np.linalg.det(i).item(), 5, rtol=1e-6)


def test_legacy_names():
    a = mx.nd.array([[4, 2], [2, 3]])
    assert mx.nd.linalg_potrf(a).asnumpy()[0].tolist() == [2, 0]
    np.testing.assert_allclose(mx.nd.linalg.inverse(a).asnumpy(), L.inv(a.asnumpy()), rtol=1e-6)
    assert mx.nd.linalg.sumlogdiag(a).shape == (1,)
    assert mx.nd.dot(mx.nd.ones(3), mx.nd.ones(3)).shape == (1,)
    assert mx.nd.dot(mx.nd.ones((2, 3, 4)), mx.nd.ones((4, 5))).shape == (2, 3, 5)
    q, low = mx.nd.linalg.gelqf(mx.nd.array([[1, 2, 3], [4, 5, 6]]))
    np.testing.assert_allclose(mx.nd.dot(low, q).asnumpy(), [[1, 2, 3], [4, 5, 6]], rtol=1e-5)


def test_interleaved_attention_names():
    x = mx.np.ones((3, 2, 24))
    scores = mx.npx.interleaved_matmul_selfatt_qk(x, heads=2)
    assert scores.shape == (4, 3, 3) and mx.npx.interleaved_matmul_selfatt_valatt(x, scores, heads=2).shape == (3, 2, 8)
    with pytest.raises(ValueError):
        mx.npx.interleaved_matmul_selfatt_qk(x, heads=5)
