"""Sorting by several keys, and searching in sorted arrays."""
from __future__ import annotations

import numpy

from ..dispatch import F, Proxy
from ..errors import ArgumentError
from .manipulation import as_array, as_arrays

__all__ = ["lexsort", "msort", "searchsorted"]


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
