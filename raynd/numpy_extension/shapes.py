"""Shapes in ``mx.npx``: the operators of MXNet that NumPy does not have. They are those of ``mx.nd``."""
from __future__ import annotations

from ..dispatch import F
from ..errors import ShapeError
from ..ndarray.operators import FUNCTIONS
from ..numpy.selection import argwhere

__all__ = ["broadcast_like", "nonzero", "pad", "reshape_like", "shape_array", "size_array", "slice", "slice_axis",
           "slice_channel", "slice_like"]

pad = FUNCTIONS["pad"]
reshape_like = FUNCTIONS["reshape_like"]
shape_array = FUNCTIONS["shape_array"]
size_array = FUNCTIONS["size_array"]
slice = FUNCTIONS["slice"]
slice_axis = FUNCTIONS["slice_axis"]
slice_channel = FUNCTIONS["split"]


def slice_like(data, shape_like, axes=(), out=None, name=None):
    """The leading part of ``data`` with the lengths of ``shape_like`` along ``axes`` (all by default; both arrays then
    have the same number of axes)."""
    if axes == () and data.ndim != shape_like.ndim:
        raise ShapeError(f"slice_like: without axes both arrays need the same number of axes, got {data.shape} and "
                         f"{shape_like.shape}")
    return FUNCTIONS["slice_like"](data, shape_like, axes, out)


def broadcast_like(lhs, rhs, lhs_axes=None, rhs_axes=None, out=None, name=None):
    """``lhs`` broadcast to the shape of ``rhs`` (both have the same number of axes), or only its ``lhs_axes`` to the
    lengths of ``rhs_axes``."""
    if lhs_axes is None and lhs.ndim != rhs.ndim:
        raise ShapeError(f"broadcast_like: an array of shape {lhs.shape} cannot be broadcast to {rhs.shape}: both need "
                         "the same number of axes")
    return FUNCTIONS["broadcast_like"](lhs, rhs, lhs_axes, rhs_axes, out)


def nonzero(a):
    """The indices of the elements that are not zero: an int64 array (number, axes). A zero-dim array counts as one of
    one element. Waits for their number."""
    return argwhere(F.reshape(a, newshape=(1,)) if a.ndim == 0 else a)
