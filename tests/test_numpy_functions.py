"""Functions of ``mx.np`` that are made of several operators, against NumPy: values, dtypes, errors, gradients."""
from __future__ import annotations

import warnings

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd
from raynd.errors import MXNetError

np = mx.np
npx = mx.npx


def of(x):
    """NumPy values of arrays in nested results."""
    if isinstance(x, (list, tuple)):
        return [of(v) for v in x]
    return x.asnumpy() if hasattr(x, "asnumpy") else onp.asarray(x)


def same(actual, expected):
    if isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected):
            same(a, e)
    else:
        onp.testing.assert_allclose(of(actual), expected, rtol=1e-6, atol=1e-12)
        assert of(actual).shape == onp.shape(expected)


RNG = onp.random.default_rng(5)
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal((2, 3, 4))
V = RNG.standard_normal(5)
I = RNG.integers(0, 4, (3, 4))                                                            # noqa: E741
N = onp.where(RNG.random((3, 4)) < 0.3, onp.nan, A)
S = onp.array(1.5)

CALLS = [      # function, arguments, keywords
    ("swapaxes", (B, 0, -1), {}), ("moveaxis", (B, (0, 1), (-1, 0)), {}), ("moveaxis", (B, 0, 2), {}),
    ("rollaxis", (B, 2), {}), ("rollaxis", (B, 0, 3), {}), ("rollaxis", (B, 1, -1), {}),
    ("atleast_1d", (S, A), {}), ("atleast_2d", (S, V), {}), ("atleast_3d", (V, A), {}), ("atleast_3d", (S, B), {}),
    ("rot90", (A,), {}), ("rot90", (A, 2), {}), ("rot90", (B, -1, (1, 2)), {}), ("rot90", (A, 4), {}),
    ("fliplr", (A,), {}), ("flipud", (V,), {}),
    ("broadcast_to", (V, (2, 5)), {}), ("broadcast_arrays", (A, onp.ones((2, 1, 1))), {}),
    ("concatenate", ((A, A),), {}), ("concatenate", ((A, B[0]), 1), {}), ("concatenate", ((A, V), None), {}),
    ("stack", ((A, A),), {"axis": -1}), ("vstack", ((V, V),), {}), ("hstack", ((V, V),), {}), ("hstack", ((A, A),), {}),
    ("dstack", ((A, A),), {}), ("dstack", ((V, V),), {}), ("column_stack", ((V, V),), {}), ("append", (A, V), {}),
    ("append", (A, A), {"axis": 1}),
    ("split", (A, 2), {"axis": 1}), ("split", (A, (1, 3)), {"axis": -1}), ("split", (V, [2, 9]), {}),
    ("array_split", (V, 3), {}), ("array_split", (V, 7), {}), ("hsplit", (A, 2), {}), ("vsplit", (A, 3), {}),
    ("dsplit", (B, (1,)), {}), ("split", (onp.zeros((0, 2)), 3), {}),
    ("tile", (A, (2, 1, 2)), {}), ("repeat", (A, 2), {"axis": 0}), ("repeat", (V, [1, 0, 2, 0, 1]), {}),
    ("resize", (V, (3, 4)), {}), ("resize", (A, 3), {}), ("resize", (A, (0, 2)), {}),
    ("pad", (A, ((1, 2), (0, 3))), {}), ("pad", (A, ((1, 2),)), {"mode": "edge"}),
    ("pad", (A, (2,)), {"mode": "reflect"}),
    ("pad", (A, (1, 5)), {"mode": "symmetric"}), ("pad", (A, ((1, 1), (2, 0))), {"mode": "maximum"}),
    ("pad", (B, ((1, 1), (2, 0), (0, 3))), {"mode": "minimum"}), ("pad", (A, (3,)), {"mode": "wrap"}),
    ("trim_zeros", (onp.array([0.0, 0, 1, 0, 2, 0]),), {}), ("trim_zeros", (onp.array([0.0, 1, 0]), "f"), {}),
    ("trim_zeros", (onp.zeros(3),), {}),
    ("delete", (A, 1), {}), ("delete", (A, [0, -1]), {"axis": 1}), ("delete", (B, slice(0, 2)), {"axis": 1}),
    ("delete", (V, onp.array([True, False, True, False, False])), {}), ("delete", (V, []), {}),
    ("insert", (A, 1, 5), {}), ("insert", (A, 1, 5), {"axis": 0}), ("insert", (A, [1, 3], [5, 6]), {"axis": 1}),
    ("insert", (A, 1, onp.arange(3.0)), {"axis": 1}), ("insert", (A, [2, 2, -1], onp.ones((3, 3))), {"axis": 1}),
    ("insert", (V, slice(1, 3), 7), {}), ("insert", (S, 0, 5), {}),
    ("diagflat", (A, 1), {}), ("lexsort", ((V, V),), {}), ("lexsort", (I,), {}),
    ("searchsorted", (onp.sort(V), A), {}), ("searchsorted", (onp.sort(V), 0.1), {"side": "right"}),
    ("searchsorted", (V, V), {"sorter": onp.argsort(V)}),
    ("unique", (I,), {}), ("unique", (I, True, True, True), {}), ("unique", (I % 2,), {"axis": 0}),
    ("unique", (I % 2, True, True, True), {"axis": 1}), ("unique", (N,), {"return_counts": True}),
    ("isin", (I, onp.array([1, 3])), {}), ("isin", (I, [1, 3]), {"invert": True}), ("union1d", (I, V), {}),
    ("intersect1d", (I, onp.array([1, 3, 9, 1])), {}), ("setdiff1d", (I, onp.array([1, 3])), {}),
    ("intersect1d", (I, onp.array([3, 1, 1])), {"return_indices": True}), ("intersect1d", (V, I[:0]), {}),
    ("intersect1d", (V, V[:2]), {"assume_unique": True, "return_indices": True}),
    ("setxor1d", (I, onp.array([1, 5])), {}), ("setxor1d", (I[:0], I[:0]), {}),
    ("median", (A,), {}), ("median", (A,), {"axis": 0}), ("median", (B,), {"axis": (0, 2), "keepdims": True}),
    ("percentile", (A, 30), {}), ("percentile", (A, onp.array([10.0, 50.0, 100.0])), {"axis": 1}),
    ("quantile", (B, 0.37), {"axis": (1, 2)}), ("quantile", (A, [0.1, 0.9]), {"axis": 0, "keepdims": True}),
    ("quantile", (N, 0.5), {"axis": 1}),
    ("average", (A,), {}), ("average", (A,), {"axis": 1, "weights": onp.arange(4.0)}),
    ("average", (A,), {"weights": A ** 2, "returned": True}), ("average", (A,), {"axis": 0, "returned": True}),
    ("ptp", (A,), {"axis": 0}), ("count_nonzero", (I,), {}), ("count_nonzero", (I,), {"axis": 1}),
    ("nanmean", (N,), {"axis": 0}), ("nanvar", (N,), {"axis": 1, "ddof": 1}), ("nanstd", (N,), {}),
    ("nancumsum", (N,), {"axis": 1}), ("nancumprod", (N,), {}), ("nanmedian", (N,), {"axis": 1}),
    ("cov", (A,), {}), ("cov", (A, A[:2]), {"bias": True}), ("cov", (A,), {"rowvar": False, "ddof": 0}),
    ("cov", (V,), {}),
    ("cov", (A,), {"fweights": onp.array([1, 2, 1, 3]), "aweights": onp.array([0.5, 1, 1, 2])}),
    ("corrcoef", (A,), {}), ("corrcoef", (V, V ** 2), {}),
    ("histogram", (A, 4), {}), ("histogram", (A, 4), {"range": (-1, 1), "weights": A ** 2}),
    ("histogram", (A, onp.array([-1.0, 0, 2])), {"density": True}), ("histogram", (A, "auto"), {}),
    ("bincount", (I.ravel(),), {}), ("bincount", (I.ravel(),), {"weights": A.ravel(), "minlength": 9}),
    ("bincount", (I.ravel()[:0],), {}),
    ("diff", (A,), {}), ("diff", (A, 2), {"axis": 0}), ("diff", (A,), {"prepend": 0, "append": onp.ones((3, 2))}),
    ("diff", (I > 1,), {}), ("diff", (A, 9), {}), ("ediff1d", (A,), {}),
    ("ediff1d", (V,), {"to_begin": 5.0, "to_end": onp.array([1.0, 2.0])}),
    ("trapezoid", (A,), {}), ("trapezoid", (A, onp.array([0.0, 1, 3, 4])), {}),
    ("trapezoid", (A,), {"dx": 0.5, "axis": 0}),
    ("polyval", (V, A), {}),
]
RENAMED = {"trapezoid": "trapz"}


def convert(value, dtype=None):
    """NumPy arrays in arguments as arrays."""
    if isinstance(value, onp.ndarray):
        return np.array(value, dtype=dtype or value.dtype)
    if isinstance(value, tuple) and any(isinstance(v, onp.ndarray) for v in value):
        return tuple(convert(v) for v in value)
    return value


@pytest.mark.parametrize("index", range(len(CALLS)), ids=[f"{i}-{c[0]}" for i, c in enumerate(CALLS)])
def test_against_numpy(index):
    name, args, keywords = CALLS[index]
    with onp.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(onp, name)(*args, **keywords)
    actual = getattr(np, RENAMED.get(name, name))(*convert(args), **{k: convert(v) for k, v in keywords.items()})
    same(actual, expected)


@pytest.mark.parametrize("call, kind", [
    (lambda a: np.swapaxes(a, 0, 5), IndexError), (lambda a: np.moveaxis(a, (0, 0), (0, 1)), ValueError),
    (lambda a: np.moveaxis(a, (0, 1), (0,)), ValueError), (lambda a: np.rot90(a, axes=(0, 0)), ValueError),
    (lambda a: np.concatenate([]), ValueError), (lambda a: np.concatenate((a, a.T)), ValueError),
    (lambda a: np.concatenate(3), TypeError), (lambda a: np.stack((a, a.T)), ValueError),
    (lambda a: np.split(a, 2), ValueError), (lambda a: np.split(a, 0), ValueError),
    (lambda a: np.vsplit(a[0], 1), ValueError), (lambda a: np.tile(a, -1), ValueError),
    (lambda a: np.repeat(a, -1), ValueError), (lambda a: np.repeat(a, (1, 2), axis=0), ValueError),
    (lambda a: np.pad(a, ((1, 1), (0, 2)), mode="mean"), ValueError), (lambda a: np.pad(a, 1), TypeError),
    (lambda a: np.pad(a, (1,), mode="edge", constant_values=1), ValueError), (lambda a: np.pad(a, (-1,)), ValueError),
    (lambda a: np.pad(a, (1,), mode="reflect", reflect_type="odd"), ValueError),
    (lambda a: np.delete(a, 12), IndexError), (lambda a: np.insert(a, 13, 1), IndexError),
    (lambda a: np.insert(a, 0, np.ones((7,)), axis=0), ValueError),
    (lambda a: np.reshape(a, (5, -1)), ValueError), (lambda a: np.reshape(a, (-1, -1)), ValueError),
    (lambda a: np.reshape(a, (6, 2), order="F"), NotImplementedError), (lambda a: a.reshape(), TypeError),
    (lambda a: a.reshape(12, colour=1), TypeError), (lambda a: np.transpose(a, (0, 0)), ValueError),
    (lambda a: np.transpose(a, (0, 1, 2)), ValueError), (lambda a: np.squeeze(a, 0), ValueError),
    (lambda a: np.expand_dims(a, 4), IndexError), (lambda a: np.broadcast_to(a, (4, 3)), ValueError),
    (lambda a: np.max(np.zeros((0, 3))), ValueError), (lambda a: np.argmax(np.zeros((0, 3))), ValueError),
    (lambda a: np.sum(a, axis=2), IndexError), (lambda a: np.sum(a, axis=(0, 0)), ValueError),
    (lambda a: np.sum(a, axis=0.5), TypeError), (lambda a: np.sum([1.0, 2.0]), TypeError),
    (lambda a: np.std(a, correction=1, ddof=1), TypeError), (lambda a: np.sum(a, where=a), TypeError),
    (lambda a: np.percentile(a, 101), ValueError), (lambda a: np.quantile(a, np.array([2.0])).asnumpy(), ValueError),
    (lambda a: np.quantile(a, 0.5, interpolation="cubic"), ValueError), (lambda a: np.sort(a, axis=2), IndexError),
    (lambda a: np.sort(np.array(1.0)), IndexError), (lambda a: np.sort(a, kind="fast"), ValueError),
    (lambda a: np.average(a, weights=np.ones(4)), TypeError), (lambda a: np.bincount(a[0]), TypeError),
    (lambda a: np.average(a, axis=0, weights=np.ones(4)), ValueError), (lambda a: np.diff(a, n=-1), ValueError),
    (lambda a: np.bincount(np.array([-1], dtype="int64")).asnumpy(), ValueError),
    (lambda a: np.diag(np.zeros((2, 2, 2))), ValueError), (lambda a: np.trace(a[0]), ValueError),
    (lambda a: np.diagonal(a, axis1=1, axis2=-1), ValueError), (lambda a: np.tril(np.array(1.0)), ValueError),
    (lambda a: np.nanargmax(np.array([np.nan])).asnumpy(), ValueError), (lambda a: np.histogram(a, 0), ValueError),
    (lambda a: np.digitize(a, np.array([1.0, 3.0, 2.0])).asnumpy(), ValueError),
    (lambda a: npx.reshape(a, (-7,)), ValueError), (lambda a: npx.reshape(a, (-3, -2)), ValueError),
    (lambda a: npx.reshape(a, (-4, -5)), ValueError), (lambda a: npx.reshape(a, (-6, 2, 2, -2)), ValueError),
    (lambda a: npx.slice_like(a, np.zeros((1,))), ValueError), (lambda a: npx.broadcast_like(a[0], a), ValueError),
    (lambda a: a[0].mT, ValueError), (lambda a: np.polyval(a, a), ValueError),
])
def test_errors(call, kind):
    with pytest.raises(MXNetError) as caught:
        call(np.ones((3, 4)))
    assert isinstance(caught.value, kind)


@pytest.mark.parametrize("dtype, total, average", [
    ("bool", "int64", "float32"), ("int8", "int8", "float32"), ("uint8", "uint8", "float32"),
    ("int64", "int64", "float32"), ("float16", "float16", "float16"), ("bfloat16", "bfloat16", "bfloat16"),
    ("float32", "float32", "float32"), ("float64", "float64", "float64")])
def test_dtypes_of_reductions(dtype, total, average):
    a = np.array([[1, 0, 1], [1, 1, 1]], dtype=dtype)
    for function in (np.sum, np.prod, np.cumsum, np.cumprod, np.trace, np.nansum):
        assert function(a).dtype.name == total, function
    for function in (np.mean, np.std, np.var, np.median, np.average):
        assert function(a).dtype.name == average, function
    for function in (np.max, np.min, np.sort, np.flip, np.tril):
        assert function(a).dtype.name == dtype, function
    for function in (np.argmax, np.argmin, np.argsort, np.count_nonzero):
        assert function(a).dtype.name == "int64", function
    assert np.sum(a, dtype="float64").dtype == "float64"
    onp.testing.assert_allclose(np.mean(a).astype("float64").asnumpy(), 5 / 6, rtol=1e-2)


def test_half_precision_is_accumulated_in_single():
    a = np.ones((100, 100), dtype="float16")
    assert np.sum(a * 0.1, dtype="float32").item() == pytest.approx(1000, rel=1e-3)
    assert np.mean(a * 7).item() == 7
    assert np.sum(a).item() == 10000
    assert np.var(a * 300).item() == 0
    assert np.cumsum(a)[-1].item() == 10000
    assert np.std(np.array([60000.0, 60001.0] * 50, dtype="float16")).item() == 0


def gradient(function, *values):
    arrays = [np.array(v, dtype="float64") for v in values]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = function(*arrays)
        y = sum(np.sum(p * (i + 1)) for i, p in enumerate(y)) if isinstance(y, (list, tuple)) else np.sum(y * y)
    y.backward()
    return [a.grad.asnumpy() for a in arrays], arrays, y


@pytest.mark.parametrize("function, values", [
    (lambda a: np.split(a, (1, 3), axis=1), (A,)), (lambda a, b: np.vstack((a, b)), (A, A)),
    (lambda a: np.pad(a, ((1, 2), (0, 1)), mode="maximum"), (A,)), (lambda a: np.pad(a, (2,), mode="symmetric"), (A,)),
    (lambda a, v: np.insert(a, 1, v, axis=1), (A, onp.arange(3.0))), (lambda a: np.delete(a, 2, axis=0), (A,)),
    (lambda a: np.percentile(a, np.array([20.0, 70.0]), axis=0), (A,)), (lambda a: np.median(a), (A,)),
    (lambda a, w: np.average(a, weights=w), (A, A ** 2 + 1)), (lambda a: np.cov(a), (A,)),
    (lambda a: np.corrcoef(a), (A,)),
    (lambda a: np.diff(a, 2), (A,)), (lambda a: np.ediff1d(a), (A,)), (lambda a: np.resize(a, (4, 5)), (A,)),
    (lambda a: np.trapz(a, axis=0), (A,)), (lambda p, x: np.polyval(p, x), (V, A)), (lambda a: np.ptp(a, axis=1), (A,)),
    (lambda a: np.rot90(a), (A,)), (lambda a: np.nanvar(a, axis=0), (A,)), (lambda a: np.sort(a, axis=0), (A,)),
    (lambda a: npx.reshape(a, (-2, -6, 2, -1)), (A,)), (lambda a: a.reshape_view(2, 6), (A,)), (lambda a: a.T, (A,)),
    (lambda w: np.bincount(np.array([0, 2, 2, 1, 0], dtype="int64"), weights=w), (V,)),
])
def test_gradients_of_compositions(function, values):
    grads, arrays, _ = gradient(function, *values)
    for i, (g, v) in enumerate(zip(grads, values)):
        direction = onp.random.default_rng(i).standard_normal(v.shape)

        def at(step, i=i, v=v, direction=direction):
            moved = [x + step * direction if k == i else x for k, x in enumerate(values)]
            return gradient(function, *moved)[2].item()
        expected = (at(1e-6) - at(-1e-6)) / 2e-6
        assert (g * direction).sum() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_ties_share_nothing():
    """As in MXNet, each of several maxima gets the whole gradient."""
    a = np.array([1.0, 3.0, 3.0])
    a.attach_grad()
    with autograd.record():
        y = np.max(a)
    y.backward()
    assert a.grad.tolist() == [0, 1, 1]


def test_product_with_zeros_has_gradients():
    a = np.array([[2.0, 0, 3], [0, 5, 0]])
    a.attach_grad()
    with autograd.record():
        y = np.prod(a, axis=1)
    y.backward()
    assert a.grad.tolist() == [[0, 6, 0], [0, 0, 0]]


def test_views_and_copies():
    a = np.zeros((2, 6))
    for copy in (np.reshape(a, (3, 4)), a.reshape(3, 4), a.T, a.squeeze(), a.flatten(), np.ravel(a), np.transpose(a),
                 np.expand_dims(a, 0), np.broadcast_to(a, (2, 6)), np.atleast_3d(a), *np.split(a, 2), np.flip(a)):
        copy[...] = 1
        assert not a.any().item()
    view = a.reshape_view((3, 4))
    view[0] = 7
    assert a[0, :4].tolist() == [7] * 4
    assert a.reshape_view(-1, 3).shape == (4, 3) and a.reshape_view((-5,)).shape == (12,)


def test_out_is_written_and_returned():
    out = np.zeros(4)
    a = np.array(A)
    assert np.sum(a, axis=0, out=out) is out
    onp.testing.assert_allclose(out.asnumpy(), A.sum(0), rtol=1e-5)
    assert np.median(a, axis=0, out=out) is out
    onp.testing.assert_allclose(out.asnumpy(), onp.median(A, 0), rtol=1e-5)
    both = np.zeros((6, 4))
    assert np.concatenate((a, a), out=both) is both
    onp.testing.assert_allclose(both.asnumpy()[3:], A, rtol=1e-6)
    with pytest.raises(ValueError):
        np.sum(a, axis=0, out=np.zeros(3))


def test_sum_with_where_and_initial():
    a = np.array(A)
    onp.testing.assert_allclose(np.sum(a, axis=0, where=a > 0, initial=2).asnumpy(),
                                onp.sum(A, axis=0, where=A > 0, initial=2), rtol=1e-5)
    a.attach_grad()
    with autograd.record():
        y = np.sum(a, where=a > 0)
    y.backward()
    onp.testing.assert_array_equal(a.grad.asnumpy(), A > 0)


def test_methods_match_functions():
    a = np.array(A)
    for name in ("sum", "mean", "std", "var", "max", "min", "argmax", "argmin", "prod", "cumsum", "sort", "argsort",
                 "any", "all"):
        onp.testing.assert_array_equal(getattr(a, name)(axis=1).asnumpy(), getattr(np, name)(a, axis=1).asnumpy())
    for moved in (a.transpose(1, 0), a.transpose((1, 0)), a.transpose(), a.transpose(None)):
        assert moved.shape == (4, 3)
    assert a.swapaxes(0, 1).shape == a.mT.shape == (4, 3)
    assert a.repeat(2, 0).shape == (6, 4) and a.tile((2, 1)).shape == (6, 4)
    assert a.broadcast_to((2, 3, 4)).shape == (2, 3, 4) and a.broadcast_like(np.zeros((2, 3, 4))).shape == (2, 3, 4)
    assert a.expand_dims(1).squeeze(1).shape == a.diagonal().repeat(4).reshape(3, 4).shape
    with pytest.raises(NotImplementedError):
        a.flatten("F")


@pytest.mark.parametrize("shape, codes, reverse, expected", [
    ((2, 3, 4), (-5, -2), False, (6, 4)), ((2, 3, 4), (-1, -2), True, (6, 4)), ((1, 3), (-3, -2), False, (3,)),
    ((2, 3, 4), (-6, 1, 2, -4), False, (1, 2, 3, 4)), ((2, 3, 4), (-2, -6, -1, 3, -2), False, (2, 1, 3, 4)),
    ((2, 3, 8), (-4, -1, 2, -6), True, (2, 3, 4, 2)), ((2, 3, 4), (-2, -2, -4, -1), False, (2, 3, 4, 1)),
    ((2, 0), (-2, -1), False, (2, 0)), ((), (1, -1), False, (1, 1))])
def test_codes_of_npx_reshape(shape, codes, reverse, expected):
    assert npx.reshape(np.zeros(shape), codes, reverse=reverse).shape == expected
