"""Reading and writing parts of arrays, gathering and scattering."""
from __future__ import annotations

from ..spec import spec
from .registry import operator


def decode_items(items):
    """A NumPy index from the plain attributes of ``basic_index``."""
    return tuple([slice(*k) if type(k) is tuple else k for k in items])


operator("basic_index", "x, items, shape", inputs="x", infer=lambda x, items, shape: spec(shape, x.dtype),
         kernel=lambda xp, x, items, shape: x[decode_items(items)].reshape(shape),
         vjp=lambda F, dy, x, y, items, shape: F.basic_index_grad(dy, items=items, shape=x[0].shape),
         doc="x[items]: ints and slices; ``shape`` includes new axes.")


def _basic_index_grad(xp, dy, items, shape):
    result = xp.zeros(shape, dy.dtype)
    target = result[decode_items(items)]
    result[decode_items(items)] = dy.reshape(target.shape)
    return result


operator("basic_index_grad", "dy, items, shape", inputs="dy", infer=lambda dy, items, shape: spec(shape, dy.dtype),
         kernel=_basic_index_grad,
         vjp=lambda F, g, x, y, items, shape: F.basic_index(g, items=items, shape=x[0].shape))


def _basic_assign(xp, x, value, items, shape):
    index = decode_items(items)
    if hasattr(value, "reshape"):
        value = xp.broadcast_to(value.reshape(value.shape[max(0, value.ndim - len(shape)):]), shape)
        value = value.reshape(x[index].shape)
    x[index] = value


operator("basic_assign", "x, value, items, shape", inputs="x, value", infer=lambda x, value, items, shape: (),
         kernel=_basic_assign, mutates=(0,), inplace=True)
