"""Methods of the NumPy face that change shapes. All but ``reshape_view`` give copies, as in MXNet."""
from __future__ import annotations

import numpy

from ..dispatch import F, Proxy, scope
from ..errors import ArgumentError, ShapeError
from ..ops import registry
from ..ops.shape import axes_order, check_order, npx_reshaped
from ..spec import normalize_axis
from .bindings import call
from .indexing import view


def _shape_argument(name, args, kwargs, key):
    if kwargs.get(key) is not None:
        args = (kwargs.pop(key),)
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    elif not args:
        raise ArgumentError(f"{name}() takes exactly 1 argument (0 given)")
    return args


def reshape(self, *args, **kwargs):
    """A copy in another shape, given as a tuple or as numbers; one size may be -1. ``order`` must be 'C'."""
    check_order(kwargs.pop("order", "C"), "reshape")
    shape = _shape_argument("reshape", args, kwargs, "newshape" if "newshape" in kwargs else "shape")
    for name in ("newshape", "shape"):
        kwargs.pop(name, None)
    if kwargs:
        raise ArgumentError(f"reshape() got an unexpected keyword argument {next(iter(kwargs))!r}")
    return F.reshape(self, newshape=shape)


def reshape_view(self, *shape, **kwargs):
    """The same memory in another shape, which may hold the codes of ``npx.reshape``; under recording a copy."""
    reverse = kwargs.pop("reverse", False)
    check_order(kwargs.pop("order", "C"), "reshape_view")
    shape = npx_reshaped(self.shape, _shape_argument("reshape_view", shape, kwargs, "shape"), reverse)
    kwargs.pop("shape", None)
    if kwargs:
        raise ArgumentError(f"reshape_view() got an unexpected keyword argument {next(iter(kwargs))!r}")
    if scope().recording and self._entry is not None:
        return F.reshape(self, newshape=shape)
    return view(self, self._offset or 0, shape)


def flatten(self, order="C"):
    """A copy with one axis."""
    check_order(order, "flatten")
    return F.reshape(self, newshape=(self.size,))


def transpose(self, *axes):
    """A copy with the axes in another order (by default reversed), given as a tuple or as numbers."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0]
    return F.transpose(self, axes=axes_order(None if axes is None else tuple(axes), self.ndim))


def swapaxes(self, axis1, axis2):
    """A copy with two axes exchanged."""
    order = list(range(self.ndim))
    i, j = normalize_axis(axis1, self.ndim, "axis1"), normalize_axis(axis2, self.ndim, "axis2")
    order[i], order[j] = order[j], order[i]
    return F.transpose(self, axes=tuple(order))


def squeeze(self, axis=None):
    """A copy without the axes of length 1 (all, or those in ``axis``)."""
    return call(registry.get("squeeze"), (self,), {"axis": axis}, None)


def expand_dims(self, axis):
    """A copy with a new axis of length 1 at ``axis``."""
    return call(registry.get("expand_dims"), (self,), {"axis": axis}, None)


def repeat(self, repeats, axis=None):
    """Every element repeated, along ``axis`` or in the flattened array."""
    if isinstance(repeats, (Proxy, numpy.ndarray)):
        repeats = repeats.tolist()
    return call(registry.get("repeat"), (self,), {"repeats": repeats, "axis": axis}, None)


def tile(self, reps):
    """The whole array repeated ``reps`` times along each axis (an int: along the last)."""
    return call(registry.get("tile"), (self,), {"reps": reps}, None)


def broadcast_to(self, shape):
    """A copy repeated to ``shape``."""
    return call(registry.get("broadcast_to"), (self,), {"shape": shape}, None)


def matrix_transpose(self):
    """A copy with the last two axes exchanged."""
    if self.ndim < 2:
        raise ShapeError("x must be at least 2-dimensional for matrix_transpose")
    return swapaxes(self, -1, -2)


def broadcast_like(self, other):
    """A copy broadcast to the shape of ``other``."""
    return F.broadcast_to(self, shape=other.shape)


METHODS = {f.__name__: f for f in (reshape, reshape_view, flatten, transpose, swapaxes, squeeze, expand_dims, repeat,
                                   tile, broadcast_to, broadcast_like)}
METHODS.update(T=property(transpose, doc="A copy with the axes in reverse order."),
               mT=property(matrix_transpose, doc="A copy with the last two axes exchanged."))
