"""Distinct values and membership.

How many distinct values there are depends on the values, so ``unique_parts`` gives arrays as long as its input, with
the results in front, and their number; the caller reads the number and cuts.
"""
from __future__ import annotations

import math

from ..spec import ArraySpec, normalize_axis, spec
from .reduction import INT64
from .registry import operator
from .sorting import plain, stable_argsort

BOOL = "bool"


def _count(shape, axis):
    return math.prod(shape) if axis is None else shape[normalize_axis(axis, len(shape))]


def _infer_unique(x, axis, index, inverse, counts):
    n = _count(x.shape, axis)
    values = spec((n,), x.dtype) if axis is None else x
    return (spec((), INT64), values, *[spec((n if wanted else 0,), INT64) for wanted in (index, inverse, counts)])


def _order_of_rows(xp, rows):
    """Indices that sort rows, first column first, equal rows in their order."""
    order = xp.arange(rows.shape[0])
    for column in range(rows.shape[1] - 1, -1, -1):
        order = order[stable_argsort(xp, rows[order, column])]
    return order


def _unique(xp, x, axis, index, inverse, counts):
    """(number, values, first places, inverse, counts) of the distinct values, or of the slices along ``axis``."""
    x = plain(x)
    n = _count(x.shape, axis)
    if axis is None:
        flat = x.reshape(-1)
        if index or inverse:
            order = stable_argsort(xp, flat)
            ordered = flat[order]
        else:
            ordered = xp.sort(flat)
        fresh = ordered[1:] != ordered[:-1]
        if ordered.dtype.kind == "f":                    # all NaN are one value
            fresh &= ~((ordered[1:] != ordered[1:]) & (ordered[:-1] != ordered[:-1]))
    else:
        axis = normalize_axis(axis, x.ndim)
        moved = xp.moveaxis(x, axis, 0)
        rows = moved.reshape(n, math.prod(moved.shape[1:]))
        order = _order_of_rows(xp, rows)
        ordered = rows[order]
        fresh = (ordered[1:] != ordered[:-1]).any(axis=1)
    first = xp.concatenate([xp.ones(min(n, 1), BOOL), fresh])
    starts = xp.flatnonzero(first)
    found = starts.size
    if axis is None:
        values = xp.zeros(n, x.dtype)
        values[:found] = ordered[starts]
    else:
        values = xp.zeros((n, *moved.shape[1:]), x.dtype)
        values[:found] = ordered[starts].reshape(found, *moved.shape[1:])
        values = xp.moveaxis(values, 0, axis)
    parts = [xp.zeros(n if wanted else 0, "int64") for wanted in (index, inverse, counts)]
    if index:
        parts[0][:found] = order[starts]
    if inverse:
        parts[1][order] = xp.cumsum(first) - 1
    if counts:
        parts[2][:found] = xp.diff(xp.concatenate([starts, xp.full(1, n, starts.dtype)]))
    return (xp.asarray(found), values, *parts)


operator("unique_parts", "x, axis, index, inverse, counts", inputs="x", infer=_infer_unique, kernel=_unique)


def _isin(xp, element, test_elements, invert):
    """Whether each element occurs in ``test_elements``; a NaN never does."""
    return xp.isin(plain(xp.asarray(element)), plain(xp.asarray(test_elements)).reshape(-1), invert=bool(invert))


def _infer_isin(element, test_elements, invert):
    return spec(element.shape if isinstance(element, ArraySpec) else (), BOOL)


operator("isin", "element, test_elements, invert=False", inputs="element, test_elements", infer=_infer_isin,
         kernel=_isin)
