"""Reading and writing parts of arrays by NumPy's index expressions.

An index expression is a plain attribute: ``items`` of ints and (start, stop, step) for basic indexing, and for advanced
indexing a ``structure`` that may also hold None (a new axis) and ``'#'``, which stands for the next index array. Index
arrays are operands: they stay on the device, and an index out of bounds is an error value. Every axis of the array
has an entry, so there is no ellipsis here.
"""
from __future__ import annotations

import math

from ..errors import IndexOutOfBounds, ShapeError
from ..spec import ArraySpec, broadcast, is_float, spec
from .creation import constant
from .registry import operator

# -- basic indexing ------------------------------------------------------------------------------------------------


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
    else:
        value = constant(value, x.dtype)
    x[index] = value


operator("basic_assign", "x, value, items, shape", inputs="x, value", infer=lambda x, value, items, shape: (),
         kernel=_basic_assign, mutates=(0,), inplace=True)

# -- advanced indexing ---------------------------------------------------------------------------------------------


def advanced_shape(shape, structure, index_shapes) -> tuple:
    """The shape of ``x[structure]`` by NumPy's rules: the broadcast shape of the index arrays stands where the first
    of them stands if nothing separates them, else in front."""
    arrays = iter(index_shapes)
    given, result, positions, axis = [], [], [], 0
    for position, item in enumerate(structure):
        if item == "#" or type(item) is int:
            if item == "#":
                given.append(next(arrays))
            if not positions:
                first = len(result)
            positions.append(position)
            axis += 1
        elif item is None:
            result.append(1)
        else:
            result.append(len(range(shape[axis])[slice(*item)]))
            axis += 1
    try:
        together = broadcast(*given)
    except ShapeError:
        raise IndexOutOfBounds("shape mismatch: indexing arrays could not be broadcast together with shapes "
                               f"{' '.join(str(s) for s in given)}") from None
    separated = positions[-1] - positions[0] + 1 != len(positions)
    first = 0 if separated else first
    return (*result[:first], *together, *result[first:])


def as_index(xp, array, size):
    """An index array as integers. Where ``xp`` does not check bounds by itself (it wraps), this does."""
    if array.dtype.kind not in "iu":
        array = array.astype("int64")
    if xp.__name__ != "numpy" and array.size and bool(((array < -size) | (array >= size)).any()):
        raise IndexError(f"an index is out of bounds for an axis of size {size}")
    return array


def advanced_key(xp, structure, arrays, shape):
    """The NumPy index of a structure and its arrays."""
    rest, key, axis = iter(arrays), [], 0
    for item in structure:
        if item == "#":
            key.append(as_index(xp, next(rest), shape[axis]))
        else:
            key.append(slice(*item) if type(item) is tuple else item)
        axis += item is not None
    return tuple(key)


def _advanced_index(xp, x, *arrays, structure):
    """x[structure] with index arrays."""
    if structure[0] == "#" and len(arrays) == 1 and all(type(k) is tuple for k in structure[1:]):
        index = as_index(xp, arrays[0], x.shape[0])
        if _whole(structure[1:], x.shape[1:]):
            return x.take(index, axis=0)              # several times faster than x[index]
    return x[advanced_key(xp, structure, arrays, x.shape)]


def _whole(items, shape):
    return all(type(k) is tuple and k in ((0, n, 1), (None, None, None)) for k, n in zip(items, shape))


def add_rows(xp, count, index, rows):
    """``result[index[i]] += rows[i]`` into zeros of ``count`` rows; ``index`` (integers from 0) may repeat.

    Sums are made in the order of the rows, so the result is reproducible. On NumPy it is a product with a sparse matrix
    that has a one a column, many times as fast as ``add.at``.
    """
    shape = (count, *rows.shape[1:])
    width = math.prod(rows.shape[1:])
    if xp.__name__ != "numpy":
        result = xp.zeros(shape, rows.dtype)
        xp.add.at(result, index, rows)
        return result
    if index.size and not (0 <= int(index.min()) and int(index.max()) < count):      # scipy would write elsewhere
        raise IndexError(f"an index lies outside 0 to {count - 1}")
    if width == 1 and rows.dtype.kind == "f":
        return xp.bincount(index, weights=rows.reshape(-1), minlength=count).reshape(shape).astype(rows.dtype)
    from scipy import sparse
    wide = rows.dtype if rows.dtype.itemsize > 2 else xp.dtype("float32" if is_float(rows.dtype) else "int64")
    matrix = sparse.csc_array((xp.ones(index.size, wide), index, xp.arange(index.size + 1)), (count, index.size))
    result = matrix @ rows.reshape(index.size, width).astype(wide, copy=False)
    return result.reshape(shape).astype(rows.dtype, copy=False)


def wrapped(xp, index, size):
    """Negative indices counted from the end."""
    index = as_index(xp, index, size)
    if index.dtype.kind == "u":
        index = index.astype("int64")
    return xp.where(index < 0, index + size, index)


def _advanced_index_grad(xp, dy, *arrays, structure, shape):
    """Scatter-add: the adjoint of ``advanced_index``."""
    if structure[0] == "#" and len(arrays) == 1 and _whole(structure[1:], shape[1:]):
        rows = dy.reshape(-1, *shape[1:]) if dy.size else dy.reshape(arrays[0].size, *shape[1:])
        return add_rows(xp, shape[0], wrapped(xp, arrays[0].reshape(-1), shape[0]), rows)
    places = xp.arange(math.prod(shape)).reshape(shape)[advanced_key(xp, structure, arrays, shape)]
    return add_rows(xp, math.prod(shape), places.reshape(-1), dy.reshape(-1)).reshape(shape)


def _no_gradient(arrays):
    return (None,) * len(arrays)


operator("advanced_index", "x, *indices, structure", kernel=_advanced_index,
         infer=lambda x, *indices, structure: spec(advanced_shape(x.shape, structure, [i.shape for i in indices]),
                                                   x.dtype),
         vjp=lambda F, dy, x, y, structure: (F.advanced_index_grad(dy, *x[1:], structure=structure, shape=x[0].shape),
                                             *_no_gradient(x[1:])))
operator("advanced_index_grad", "dy, *indices, structure, shape", kernel=_advanced_index_grad,
         infer=lambda dy, *indices, structure, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, structure, shape: (F.advanced_index(g, *x[1:], structure=structure),
                                                   *_no_gradient(x[1:])))


def check_assignable(source, target):
    """``source`` must broadcast to ``target``; leading 1s are dropped, as in NumPy's assignment."""
    trimmed = source
    while len(trimmed) > len(target) and trimmed[0] == 1:
        trimmed = trimmed[1:]
    if len(trimmed) > len(target) or any(m not in (1, n) for m, n in zip(reversed(trimmed), reversed(target))):
        raise ShapeError(f"could not broadcast input array from shape {source} into shape {target}")


def _infer_advanced_assign(x, value, *indices, structure):
    region = advanced_shape(x.shape, structure, [i.shape for i in indices])
    if isinstance(value, ArraySpec):
        check_assignable(value.shape, region)
    return ()


def _advanced_assign(xp, x, value, *arrays, structure):
    """x[structure] = value."""
    key = advanced_key(xp, structure, arrays, x.shape)
    region = advanced_shape(x.shape, structure, [a.shape for a in arrays])
    if getattr(value, "ndim", 0) > len(region):
        value = value.reshape(value.shape[value.ndim - len(region):])
    x[key] = constant(value, x.dtype)


operator("advanced_assign", "x, value, *indices, structure", infer=_infer_advanced_assign, kernel=_advanced_assign,
         mutates=(0,), inplace=True)

# -- boolean masks -------------------------------------------------------------------------------------------------


def check_mask(shape, mask, axis):
    """A mask must have the sizes of the axes it selects from, which start at ``axis``."""
    for i, n in enumerate(mask):
        if n != shape[axis + i]:
            raise IndexOutOfBounds("boolean index did not match indexed array along "
                                   f"axis {axis + i}; size of axis is {shape[axis + i]} but size of corresponding "
                                   f"boolean axis is {n}")


operator("mask_count", "mask", infer=lambda mask: spec((), "int64"),
         kernel=lambda xp, mask: xp.count_nonzero(mask), doc="How many elements are not zero.")
operator("mask_places", "mask, count", inputs="mask", doc="Where the elements are that are not zero: an array an axis.",
         infer=lambda mask, count: tuple([spec((count,), "int64") for _ in mask.shape]),
         kernel=lambda xp, mask, count: xp.nonzero(mask) if mask.ndim > 1 else xp.nonzero(mask)[0])


def _flat_mask(x_shape, mask, axis):
    return (*x_shape[:axis], mask.size, *x_shape[axis + mask.ndim:])


def _mask_index(xp, x, mask, count, axis):
    """x[..., mask, ...]: the elements of the mask's axes where it is True, in C order, as one axis of ``count``."""
    flat = mask.reshape(-1)
    flat = flat if flat.dtype.kind == "b" else flat != 0
    return xp.compress(flat, x.reshape(_flat_mask(x.shape, mask, axis)), axis=axis)


def _infer_mask_index(x, mask, count, axis):
    check_mask(x.shape, mask.shape, axis)
    return spec((*x.shape[:axis], count, *x.shape[axis + len(mask.shape):]), x.dtype)


def _mask_index_grad(xp, dy, mask, axis, shape):
    result = xp.zeros(_flat_mask(shape, mask, axis), dy.dtype)
    result[(slice(None),) * axis + (mask.reshape(-1) != 0,)] = dy
    return result.reshape(shape)


operator("mask_index", "x, mask, count, axis=0", inputs="x, mask", infer=_infer_mask_index, kernel=_mask_index,
         vjp=lambda F, dy, x, y, count, axis: (F.mask_index_grad(dy, x[1], axis=axis, shape=x[0].shape), None))
operator("mask_index_grad", "dy, mask, axis, shape", inputs="dy, mask", kernel=_mask_index_grad,
         infer=lambda dy, mask, axis, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, axis, shape: (F.mask_index(g, x[1], count=x[0].shape[axis], axis=axis), None))


def _infer_mask_assign(x, value, mask, axis):
    check_mask(x.shape, mask.shape, axis)
    return ()


def _mask_assign(xp, x, value, mask, axis):
    """x[..., mask, ...] = value, without knowing how many elements are selected."""
    view = x.reshape(_flat_mask(x.shape, mask, axis))
    flat = mask.reshape(-1)
    rest = view.ndim
    if getattr(value, "ndim", 0) > rest:
        value = value.reshape(value.shape[value.ndim - rest:])
    view[(slice(None),) * axis + (flat if flat.dtype.kind == "b" else flat != 0,)] = constant(value, x.dtype)


operator("mask_assign", "x, value, mask, axis=0", inputs="x, value, mask", infer=_infer_mask_assign,
         kernel=_mask_assign, mutates=(0,), inplace=True)
