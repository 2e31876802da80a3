"""Sets of values. Their results' length depends on values: they wait for the number, and for nothing else."""
from __future__ import annotations

from collections import namedtuple

from ..dispatch import F, Proxy
from ..spec import normalize_axis
from .creation import array
from .manipulation import as_array

__all__ = ["in1d", "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_inverse",
           "unique_values", "unique_counts"]

UniqueAll = namedtuple("UniqueAll", ["values", "indices", "inverse_indices", "counts"])
UniqueInverse = namedtuple("UniqueInverse", ["values", "inverse_indices"])
UniqueCounts = namedtuple("UniqueCounts", ["values", "counts"])


def _front(x, count, axis=0):
    """A copy of the first ``count`` slices along ``axis``."""
    items = tuple([(0, count if i == axis else n, 1) for i, n in enumerate(x.shape)])
    return F.basic_index(x, items=items, shape=x.shape[:axis] + (count,) + x.shape[axis + 1:])


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None):
    """The distinct values of an array, sorted, or with ``axis`` its distinct slices; all NaN are one value.

    Returns the values, or a tuple of them and what is asked for, as int64: the index of the first occurrence of each
    (in the flattened array), for each element the number of its value (in the array's shape, or along ``axis``, as in
    NumPy 2 and the array API; MXNet flattens it), how often each occurs.
    """
    ar = as_array(ar)
    axis = None if axis is None else normalize_axis(axis, ar.ndim)
    wanted = bool(return_index), bool(return_inverse), bool(return_counts)
    count, values, index, inverse, counts = F.unique_parts(ar, axis=axis, index=wanted[0], inverse=wanted[1],
                                                           counts=wanted[2])
    count = int(count.item())
    results = [_front(values, count, axis or 0)]
    if return_index:
        results.append(_front(index, count))
    if return_inverse:
        results.append(inverse if axis is not None or ar.ndim == 1 else F.reshape(inverse, newshape=ar.shape))
    if return_counts:
        results.append(_front(counts, count))
    return results[0] if len(results) == 1 else tuple(results)


def unique_values(x):
    """The distinct values, sorted."""
    return unique(x)


def unique_all(x):
    """(values, indices, inverse_indices, counts), see :func:`unique`."""
    return UniqueAll(*unique(x, True, True, True))


def unique_inverse(x):
    """(values, inverse_indices), see :func:`unique`."""
    return UniqueInverse(*unique(x, False, True, False))


def unique_counts(x):
    """(values, counts), see :func:`unique`."""
    return UniqueCounts(*unique(x, False, False, True))


def isin(element, test_elements, assume_unique=False, invert=False):
    """Whether each element of an array is (``invert``: is not) among ``test_elements``. ``assume_unique`` promises
    that both have no duplicates, which is of no use here."""
    element = as_array(element)
    if not isinstance(test_elements, (Proxy, bool, int, float)):
        test_elements = as_array(test_elements, element)
    return F.isin(element, test_elements, invert=bool(invert))


def in1d(ar1, ar2, assume_unique=False, invert=False):
    """:func:`isin` of the flattened ``ar1``."""
    return isin(_flat(as_array(ar1)), ar2, assume_unique, invert)


def _flat(x):
    return x if x.ndim == 1 else F.reshape(x, newshape=(x.size,))


def union1d(ar1, ar2):
    """The distinct values of both arrays, sorted."""
    ar1 = as_array(ar1)
    return unique(F.concatenate(ar1, as_array(ar2, ar1), axis=None))


def _pair(ar1, ar2):
    ar1 = as_array(ar1)
    return _flat(ar1), _flat(as_array(ar2, ar1))


def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    """The sorted distinct values that are in both arrays; with ``return_indices`` a tuple of them and of the indices of
    their first occurrence in each array."""
    ar1, ar2 = _pair(ar1, ar2)
    first1 = first2 = None
    if not assume_unique:
        if return_indices:
            (ar1, first1), (ar2, first2) = unique(ar1, True), unique(ar2, True)
        else:
            ar1, ar2 = unique(ar1), unique(ar2)
    both = F.concatenate(ar1, ar2)
    order = F.argsort(both)
    both = F.take_along_axis(both, order, axis=0)
    n = both.size
    if n < 2:
        common = F.zeros_like(order[:0]) == 1
    else:
        common = both[1:] == both[:-1]
    values = both[:n - 1][common] if n else both
    if not return_indices:
        return values
    in1 = order[:n - 1][common] if n else order
    in2 = order[1:][common] - ar1.size if n else order
    if first1 is not None:
        in1, in2 = F.take(first1, in1, axis=0, mode="clip"), F.take(first2, in2, axis=0, mode="clip")
    return values, in1, in2


def setdiff1d(ar1, ar2, assume_unique=False):
    """The distinct values of ``ar1`` that are not in ``ar2``, sorted unless ``assume_unique``."""
    ar1, ar2 = _pair(ar1, ar2)
    if not assume_unique:
        ar1 = unique(ar1)
    return ar1[F.isin(ar1, ar2, invert=True)]


def setxor1d(ar1, ar2, assume_unique=False):
    """The sorted distinct values that are in one of the arrays only."""
    ar1, ar2 = _pair(ar1, ar2)
    if not assume_unique:
        ar1, ar2 = unique(ar1), unique(ar2)
    both = F.sort(F.concatenate(ar1, ar2))
    if not both.size:
        return both
    edge = array([True], dtype="bool", device=both.device)
    flags = F.concatenate(edge, both[1:] != both[:-1], edge)
    return both[F.equal(flags[1:], flags[:-1]) & flags[1:]]
