"""Searching: where elements are, and how many. Results whose length depends on values wait for their number."""
from __future__ import annotations

import numpy

from ..dispatch import F, Proxy
from ..errors import ArgumentError
from ..ndarray.shape_methods import nonzero as _nonzero
from .manipulation import as_array, as_arrays

__all__ = ["argwhere", "flatnonzero", "lexsort", "msort", "nonzero", "searchsorted"]


def nonzero(a):
    """A tuple with the indices of the elements that are not zero, one int64 array an axis; waits for their number."""
    return _nonzero(as_array(a))


def flatnonzero(a):
    """The indices of the elements of the flattened array that are not zero, as int64; waits for their number."""
    a = as_array(a)
    return _nonzero(F.reshape(a, newshape=(a.size,)))[0]


def argwhere(a):
    """The indices of the elements that are not zero, as the rows of an int64 matrix; waits for their number."""
    a = as_array(a)
    found = _nonzero(a)
    if not a.ndim:
        return F.reshape(found[0][:0] if not found[0].size else found[0], newshape=(found[0].size, 1))[:, :0]
    return F.stack(*found, axis=1)


def lexsort(keys, axis=-1):
    """The int64 indices that sort by the last of ``keys``, equal ones by the key before it, and so on."""
    keys = as_arrays("lexsort", keys)
    return F.lexsort(*keys, axis=axis)


def msort(a):
    """A copy sorted along the first axis."""
    return F.sort(as_array(a), axis=0)


def searchsorted(a, v, side="left", sorter=None):
    """Where to insert ``v`` (an array or a number) into the sorted 1-D ``a``, as int64.

    side: before ('left') or after ('right') equal elements; sorter: indices that sort ``a``.
    """
    a = as_array(a)
    if isinstance(v, (list, tuple, numpy.ndarray)):
        v = as_array(v, a)
    elif not isinstance(v, (Proxy, bool, int, float)):
        if not isinstance(v, numpy.generic):
            raise ArgumentError(f"searchsorted: v must be an array or a number, not {type(v).__name__}")
        v = v.item()
    return F.searchsorted(a, v, None if sorter is None else as_array(sorter, a), side=side)
