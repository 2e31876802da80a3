"""Indices: where elements are not zero, of diagonals and triangles, of flat positions."""
from __future__ import annotations

import numpy

from ..dispatch import F, Proxy
from ..errors import ArgumentError, ShapeError
from ..ndarray.array import ndarray
from ..spec import as_shape
from .creation import array, asarray

__all__ = ["nonzero", "flatnonzero", "argwhere", "unravel_index", "diag_indices_from", "tril_indices", "triu_indices",
           "tril_indices_from", "triu_indices_from", "fill_diagonal"]


def nonzero(a):
    """The indices of the elements that are not zero: a tuple with an int64 array for each axis. Waits for their
    number. A zero-dim array counts as one of one element, as in MXNet."""
    a = asarray(a)
    if a.ndim == 0:
        a = F.reshape(a, newshape=(1,))
    found = F.mask_places(a, count=int(F.mask_count(a).item()))
    return found if isinstance(found, tuple) else (found,)


def flatnonzero(a):
    """The int64 indices of the elements of the flattened array that are not zero. Waits for their number."""
    return nonzero(F.reshape(asarray(a), newshape=(-1,)))[0]


def argwhere(a):
    """The indices of the elements that are not zero, a row an element: an int64 array (number, axes). Waits for their
    number."""
    a = asarray(a)
    if a.ndim == 0:
        count = int(F.mask_count(a).item())
        return array(numpy.zeros((count, 0)), dtype="int64", device=a.device)
    return F.transpose(F.stack(*nonzero(a), axis=0))


def unravel_index(indices, shape, order="C"):
    """The indices along each axis of flat ``indices`` into an array of ``shape``: a tuple of arrays of their dtype
    (int64 for plain integers). An index out of bounds raises ValueError at once if ``indices`` are on the host; those
    on the device are not checked, as in MXNet."""
    if order != "C":
        raise ArgumentError(f"unravel_index: only order='C' is supported, not {order!r}")
    shape = as_shape(shape)
    if not isinstance(indices, Proxy):
        host = numpy.asarray(indices)
        if host.size and (host.min() < 0 or host.max() >= numpy.prod(shape, dtype="int64")):
            raise ShapeError(f"unravel_index: an index is out of bounds for an array of shape {shape}")
        indices = array(host, dtype="int64")
    rows = F.nd_unravel_index(indices, shape=shape)
    return tuple(rows[i] for i in range(len(shape)))


def _pair(values, device=None):
    return tuple(array(v, dtype="int64", device=device) for v in values)


def diag_indices_from(arr):
    """The indices of the main diagonal of an array whose axes (two or more) have equal sizes: a tuple of arrays."""
    if arr.ndim < 2:
        raise ShapeError("diag_indices_from: the array must be at least 2-d")
    if len(set(arr.shape)) > 1:
        raise ShapeError(f"diag_indices_from: all axes must have the same size, got shape {arr.shape}")
    return _pair([numpy.arange(arr.shape[0])] * arr.ndim, arr.device)


def tril_indices(n, k=0, m=None, device=None):
    """(rows, columns) of the elements on and below diagonal ``k`` of an ``n`` by ``m`` (default ``n``) matrix."""
    return _pair(numpy.tril_indices(n, k, m), device)


def triu_indices(n, k=0, m=None, device=None):
    """(rows, columns) of the elements on and above diagonal ``k`` of an ``n`` by ``m`` (default ``n``) matrix."""
    return _pair(numpy.triu_indices(n, k, m), device)


def _matrix(arr):
    if arr.ndim != 2:
        raise ShapeError(f"the array must be 2-d, got shape {arr.shape}")
    return arr.shape


def tril_indices_from(arr, k=0):
    """(rows, columns) of the elements on and below diagonal ``k`` of a matrix."""
    n, m = _matrix(arr)
    return tril_indices(n, k, m, arr.device)


def triu_indices_from(arr, k=0):
    """(rows, columns) of the elements on and above diagonal ``k`` of a matrix."""
    n, m = _matrix(arr)
    return triu_indices(n, k, m, arr.device)


def fill_diagonal(a, val, wrap=False):
    """Write ``val`` (a number, or an array whose flattened elements are repeated as needed) to the main diagonal of
    ``a`` in place. ``wrap``: in a tall matrix, the diagonal starts again after each ``a.shape[1]`` rows and one."""
    if a.ndim < 2:
        raise ShapeError("array must be at least 2-d")
    if a.ndim == 2:
        step = a.shape[1] + 1
        end = a.size if wrap else min(a.size, a.shape[1] * a.shape[1])
    else:
        if len(set(a.shape)) > 1:
            raise ShapeError("All dimensions of input must be of equal length")
        step = 1 + sum(int(numpy.prod(a.shape[i:])) for i in range(1, a.ndim))
        end = a.size
    places = numpy.arange(0, end, step)
    if isinstance(val, (list, tuple, numpy.ndarray, Proxy)) and numpy.ndim(val):
        val = val if isinstance(val, Proxy) else array(val, dtype=a.dtype, device=a.device)
        if not val.size:
            raise ShapeError("fill_diagonal: val has no elements")
        val = F.take(val, array(numpy.arange(len(places)) % val.size, dtype="int64", device=a.device), axis=None)
    a[tuple(numpy.unravel_index(places, a.shape))] = val


ndarray.nonzero = nonzero
