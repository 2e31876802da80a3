"""Rows of sorting, searching, quantiles, counting and sets."""
import numpy as np
from table import S, distinct, exempt, ints, normal, positive, row


def flat_or(a, axis):
    return (a.reshape(-1), 0) if axis is None else (a, axis)


def sorted_(a, axis=-1, descending=False, **_):
    a, axis = flat_or(a, axis)
    result = np.sort(a, axis=axis)
    return np.flip(result, axis) if descending else result


def argsorted(a, axis=-1, descending=False, **_):
    a, axis = flat_or(a, axis)
    return np.argsort(-a if descending else a, axis=axis, kind="stable")


SORTS = [S(distinct(3, 4)), S(distinct(3, 4), axis=0, descending=True), S(distinct(2, 3, 2), axis=None),
         S(distinct(5), descending=True), S(distinct(0, 3)), S(distinct(2, 3), kind="mergesort")]
row("sort", ref=sorted_, samples=SORTS, ints_as="int32")
row("argsort", ref=argsorted, samples=SORTS + [S(ints(20, high=3, dtype="float64"), descending=True),
                                               S(ints(4, 9, high=3, dtype="int32"), axis=0)])
row("lexsort", ref=lambda *keys, axis=-1: np.lexsort(keys, axis), samples=[
    S(ints(20, high=3), ints(20, high=4)), S(ints(3, 9, high=3), normal(3, 9), ints(3, 9, high=2), axis=0), S(ints(0))])
row("partition", ref=lambda a, kth, axis=-1: np.sort(a, axis=axis) if axis is not None else np.sort(a, axis=None),
    samples=[S(distinct(2, 3), kth=(0, 1, 2)), S(distinct(3, 2), kth=(0, 1, 2), axis=0), S(distinct(3), kth=(-1, 1))])
row("argpartition", ref=lambda a, kth, axis=-1: np.argsort(a, axis=axis), samples=[
    S(distinct(2, 3), kth=(0, 1, 2)), S(distinct(3, 2), kth=(0, 1, 2), axis=0)])
EDGES = np.array([-1.0, 0.0, 0.5, 2.0])
row("searchsorted", ref=lambda a, v, sorter=None, side="left": np.searchsorted(a, v, side, sorter), samples=[
    S(EDGES, normal(3, 4), None), S(EDGES, EDGES, None, side="right"), S(EDGES, 0.5, None), S(EDGES, normal(0), None),
    S(EDGES[::-1].copy(), normal(5), np.array([3, 2, 1, 0])), S(np.zeros(0), normal(2), None)])
row("digitize", ref=lambda x, bins, right=False: np.digitize(x, bins, right), samples=[
    S(normal(3, 4), EDGES), S(EDGES, EDGES, right=True), S(normal(5), EDGES[::-1].copy()), S(normal(), EDGES)])
MISSING = np.array([[1.5, np.nan, 2.0], [0.0, 3.0, np.nan]])
for _name, _f in (("nanargmax", np.nanargmax), ("nanargmin", np.nanargmin), ("nanmax", np.nanmax),
                  ("nanmin", np.nanmin)):
    row(_name, ref=lambda a, axis=None, keepdims=False, _f=_f: _f(a, axis=axis, keepdims=keepdims), grad=(),
        samples=[S(MISSING), S(MISSING, axis=0), S(MISSING, axis=1, keepdims=True), S(distinct(2, 3), axis=-1)])


def quantiles(s, q, method, scale):
    return np.quantile(s, np.asarray(q, "float64") / scale, axis=-1, method=method)


row("quantile_sorted", ref=quantiles, grad=(0,), samples=[
    S(np.sort(np.arange(10.0).reshape(2, 5) ** 1.5), q, method=m, scale=s)
    for m in ("linear", "lower", "higher", "midpoint", "nearest")
    for q, s in ((0.3, 1), (np.array([0.0, 37.0, 100.0]), 100), (np.zeros(0), 1))])
exempt("quantile_sorted_grad", "quantile_sorted")


def histogram(a, bins, weights, count, range, density):
    return np.histogram(a, count if bins is None else bins, range=range, weights=weights, density=density)


row("histogram", ref=histogram, dtypes="float32 float64", samples=[
    S(normal(40), None, None, count=5, range=(-2.0, 2.0), density=False),
    S(normal(4, 5), None, None, count=3, range=None, density=True),
    S(normal(40), EDGES, positive(40), count=0, range=None, density=False),
    S(normal(0), EDGES, None, count=0, range=None, density=False)])
row("bincount", ref=lambda x, weights, length: np.bincount(x, weights, length), samples=[
    S(ints(20), None, length=10), S(ints(20), normal(20), length=12), S(ints(0), None, length=3)])


def check_unique(inputs, outputs, attrs):
    count, values, index, inverse, counts = outputs
    x, axis = inputs[0], attrs["axis"]
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    n = int(count)
    assert n == expected[0].shape[axis or 0]
    np.testing.assert_array_equal(np.take(values, range(n), axis or 0), expected[0])
    for got, wanted, asked in ((index[:n], expected[1], attrs["index"]),
                               (inverse, expected[2].reshape(-1), attrs["inverse"]),
                               (counts[:n], expected[3], attrs["counts"])):
        if asked:
            np.testing.assert_array_equal(got, wanted)


row("unique_parts", check=check_unique, samples=[
    S(ints(4, 5, high=6), axis=None, index=True, inverse=True, counts=True),
    S(ints(7, 2, high=2), axis=0, index=True, inverse=True, counts=True),
    S(ints(2, 3, 7, high=2), axis=2, index=False, inverse=True, counts=False),
    S(ints(9, high=3, dtype="float64"), axis=None, index=False, inverse=False, counts=True),
    S(np.array([np.nan, 1.0, np.nan]), axis=None, index=True, inverse=True, counts=True),
    S(ints(0), axis=None, index=True, inverse=True, counts=True)])
row("isin", ref=lambda element, test, invert=False: np.isin(element, test, invert=invert), samples=[
    S(ints(3, 4), ints(5)), S(ints(3, 4, dtype="int32"), ints(5), invert=True), S(ints(0), ints(2)), S(ints(3), 2)])
