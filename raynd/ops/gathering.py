"""Taking and putting elements by arrays of indices: take, gather_nd, scatter_nd, index_update and relatives.

Indices may have any numeric dtype, as in MXNet; fractions are cut off. Where an index has to lie within bounds and does
not, the kernel raises IndexError, so the result is an error value.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, as_shape, broadcast, normalize_axis, spec
from .indexing import add_rows, as_index, check_assignable, wrapped
from .registry import operator
from .shape import integers

# -- take ----------------------------------------------------------------------------------------------------------

_MODES = ("raise", "clip", "wrap")


def _placed(xp, index, size, mode):
    """``index`` as integers in ``[0, size)``."""
    index = xp.asarray(index)
    if index.dtype.kind not in "iu":
        index = index.astype("int64")
    if mode == "clip":
        return xp.clip(index, 0, max(size - 1, 0))
    if mode == "wrap":
        return index % max(size, 1)
    return as_index(xp, index, size)


def _infer_take(a, indices, axis, mode):
    if mode not in _MODES:
        raise ArgumentError(f"take: mode must be one of {_MODES}, not {mode!r}")
    shape = a.shape if axis is not None else (a.size,)
    axis = normalize_axis(0 if axis is None else axis, len(shape))
    index = indices.shape if isinstance(indices, ArraySpec) else ()
    if shape[axis] == 0 and math.prod(index):
        raise ShapeError("cannot do a non-empty take from an empty axis")
    return spec(shape[:axis] + index + shape[axis + 1:], a.dtype)


def _take(xp, a, indices, axis, mode):
    """Elements (``axis`` None: of the flattened array) or slices along ``axis`` at ``indices``.

    mode: 'raise' (IndexError for an index out of bounds; negative ones count from the end), 'clip' or 'wrap'.
    """
    if axis is None:
        a, axis = a.reshape(-1), 0
    return a.take(_placed(xp, indices, a.shape[axis], mode), axis=axis)


def _take_grad(xp, dy, indices, axis, mode, shape):
    flat = shape if axis is not None else (math.prod(shape),)
    axis = 0 if axis is None else axis % len(flat)
    index = wrapped(xp, _placed(xp, indices, flat[axis], mode), flat[axis])
    rest = flat[:axis] + flat[axis + 1:]
    rows = dy.reshape(flat[:axis] + (index.size,) + flat[axis + 1:])
    rows = xp.moveaxis(rows, axis, 0).reshape((index.size, math.prod(rest)))
    result = add_rows(xp, flat[axis], index.reshape(-1), rows).reshape((flat[axis], *rest))
    return xp.moveaxis(result, 0, axis).reshape(shape)


def _take_vjp(F, dy, x, y, axis, mode):
    return F.take_grad(dy, x[1], axis=axis, mode=mode, shape=x[0].shape), None


operator("take", "a, indices, axis=None, mode='raise', out=None", infer=_infer_take, kernel=_take, vjp=_take_vjp,
         np="take", method="take")
operator("nd_take", "a, indices, axis=0, mode='clip', out=None", infer=_infer_take, kernel=_take, vjp=_take_vjp,
         nd="take")
operator("take_grad", "dy, indices, axis, mode, shape", inputs="dy, indices", kernel=_take_grad,
         infer=lambda dy, indices, axis, mode, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, axis, mode, shape: (F.take(g, x[1], axis=axis, mode=mode), None))


def _along_shapes(arr, indices, axis):
    """(the array's shape, the result's shape, axis) of ``take_along_axis``."""
    shape = arr if axis is not None else (math.prod(arr),)
    axis = normalize_axis(0 if axis is None else axis, len(shape))
    if len(indices) != len(shape):
        raise ShapeError(f"take_along_axis: indices of shape {indices} and an array of shape {shape} must have the "
                         "same number of axes")
    together = broadcast(shape[:axis] + (1,) + shape[axis + 1:], indices[:axis] + (1,) + indices[axis + 1:])
    return shape, together[:axis] + (indices[axis],) + together[axis + 1:], axis


def _take_along(xp, arr, indices, axis):
    """Elements picked along an axis by an array of indices of as many axes; the other axes broadcast."""
    shape, out, axis = _along_shapes(arr.shape, indices.shape, axis)
    arr = xp.broadcast_to(arr.reshape(shape), out[:axis] + (shape[axis],) + out[axis + 1:])
    index = xp.broadcast_to(as_index(xp, indices, shape[axis]), out)
    return xp.take_along_axis(arr, index, axis)


def _take_along_grad(xp, dy, indices, axis, shape):
    places = _take_along(xp, xp.arange(math.prod(shape)).reshape(shape), indices, axis)
    return add_rows(xp, math.prod(shape), places.reshape(-1), dy.reshape(-1)).reshape(shape)


operator("take_along_axis", "arr, indices, axis", inputs="arr, indices", kernel=_take_along, np="take_along_axis",
         infer=lambda arr, indices, axis: spec(_along_shapes(arr.shape, indices.shape, axis)[1], arr.dtype),
         vjp=lambda F, dy, x, y, axis: (F.take_along_axis_grad(dy, x[1], axis=axis, shape=x[0].shape), None))
operator("take_along_axis_grad", "dy, indices, axis, shape", inputs="dy, indices", kernel=_take_along_grad,
         infer=lambda dy, indices, axis, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, axis, shape: (F.take_along_axis(g, x[1], axis=axis), None))


def _infer_batch_take(a, indices):
    if len(a.shape) != 2 or indices.shape != a.shape[:1]:
        raise ShapeError(f"batch_take: a matrix and an index for each of its rows are needed, got {a.shape} and "
                         f"{indices.shape}")
    return spec(indices.shape, a.dtype)


def _batch_take(xp, a, indices):
    """``a[i, indices[i]]`` for every row i of a matrix; indices are clipped to the row."""
    return a[xp.arange(a.shape[0]), _placed(xp, indices, a.shape[1], "clip")]


def _batch_take_grad(xp, dy, indices, shape):
    places = xp.arange(shape[0]) * shape[1] + _placed(xp, indices, shape[1], "clip")
    return add_rows(xp, shape[0] * shape[1], places, dy).reshape(shape)


operator("batch_take", "a, indices, out=None", infer=_infer_batch_take, kernel=_batch_take, nd="batch_take",
         vjp=lambda F, dy, x, y: (F.batch_take_grad(dy, x[1], shape=x[0].shape), None))
operator("batch_take_grad", "dy, indices, shape", inputs="dy, indices", kernel=_batch_take_grad,
         infer=lambda dy, indices, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape: (F.batch_take(g, x[1]), None))

# -- many axes at once: indices[i] are the indices of axis i -------------------------------------------------------


def _nd_parts(shape, indices):
    """(shape of one selected part, number of indexed axes) for ``indices`` of shape (axes, ...)."""
    if not indices or not 1 <= indices[0] <= len(shape):
        raise ShapeError(f"indices of shape {indices} for an array of shape {shape}: the first axis of the indices "
                         f"counts the axes they index, 1 to {len(shape)}")
    return shape[indices[0]:], indices[0]


def _nd_places(xp, indices, shape):
    """Numbers of the selected parts in an array of ``shape``, flattened over the indexed axes."""
    places = 0
    for i in range(indices.shape[0]):
        index = as_index(xp, indices[i], shape[i])
        if index.size and xp.__name__ == "numpy" and not (-shape[i] <= int(index.min()) and
                                                          int(index.max()) < shape[i]):
            bad = index[(index < -shape[i]) | (index >= shape[i])][0]
            raise IndexError(f"index {bad} is out of bounds for axis {i} with size {shape[i]}")
        places = places * shape[i] + wrapped(xp, index, shape[i])
    return places.reshape(-1)


def _gather_nd(xp, data, indices):
    """``data[indices[0], indices[1], ...]``: the first axis of ``indices`` counts the axes of ``data`` it indexes."""
    part, n = _nd_parts(data.shape, indices.shape)
    flat = data.reshape((math.prod(data.shape[:n]), *part))
    return flat.take(_nd_places(xp, indices, data.shape), axis=0).reshape(indices.shape[1:] + part)


def _scatter_add_nd(xp, dy, indices, shape):
    part, n = _nd_parts(shape, indices.shape)
    places = _nd_places(xp, indices, shape)
    return add_rows(xp, math.prod(shape[:n]), places, dy.reshape((places.size, *part))).reshape(shape)


def _infer_scatter_nd(data, indices, shape):
    shape = as_shape(shape)
    part, _ = _nd_parts(shape, indices.shape)
    if data.shape != indices.shape[1:] + part:
        raise ShapeError(f"scatter_nd: data of shape {data.shape}, but indices of shape {indices.shape} into shape "
                         f"{shape} ask for {indices.shape[1:] + part}")
    return spec(shape, data.dtype)


def _scatter_nd(xp, data, indices, shape):
    """Zeros of ``shape`` with ``data`` written at ``indices``; of repeated indices one wins. Inverse of gather_nd."""
    part, n = _nd_parts(shape, indices.shape)
    places = _nd_places(xp, indices, shape)
    result = xp.zeros((math.prod(shape[:n]), *part), data.dtype)
    result[places] = data.reshape((places.size, *part))
    return result.reshape(shape)


operator("gather_nd", "data, indices, out=None", kernel=_gather_nd, npx="gather_nd", nd="gather_nd",
         infer=lambda data, indices: spec(indices.shape[1:] + _nd_parts(data.shape, indices.shape)[0], data.dtype),
         vjp=lambda F, dy, x, y: (F.scatter_add_nd(dy, x[1], shape=x[0].shape), None))
operator("scatter_nd", "data, indices, shape, out=None", inputs="data, indices", infer=_infer_scatter_nd,
         kernel=_scatter_nd, npx="scatter_nd", nd="scatter_nd",
         vjp=lambda F, dy, x, y, shape: (F.gather_nd(dy, x[1]), None))
operator("scatter_add_nd", "data, indices, shape, out=None", inputs="data, indices", infer=_infer_scatter_nd,
         kernel=_scatter_add_nd, nd="_backward_gather_nd",
         vjp=lambda F, dy, x, y, shape: (F.gather_nd(dy, x[1]), None),
         doc="Zeros of ``shape`` to which ``data`` is added at ``indices``; repeated indices add up.")


def _as_matrix_shape(indices):
    """Indices of index_add and index_update as (axes, number): a scalar or vector indexes the first axis."""
    return indices if len(indices) > 1 else (1, math.prod(indices))


def _infer_index_put(a, ind, val):
    part, _ = _nd_parts(a.shape, _as_matrix_shape(ind.shape))
    if isinstance(val, ArraySpec):
        check_assignable(val.shape, _as_matrix_shape(ind.shape)[1:] + part)
    return a


def _put_parts(xp, a, ind, val):
    """(copy of a with the indexed axes flattened, places, values in the region's shape, shape of a)."""
    ind = ind.reshape(_as_matrix_shape(ind.shape))
    part, n = _nd_parts(a.shape, ind.shape)
    places = _nd_places(xp, ind, a.shape)
    region = (places.size, *part)
    val = xp.asarray(val).astype(a.dtype)
    if val.ndim > len(region):
        val = val.reshape(val.shape[val.ndim - len(region):])
    return a.reshape((math.prod(a.shape[:n]), *part)).copy(), places, xp.broadcast_to(val, region)


def _index_update(xp, a, ind, val):
    """A copy of ``a`` with ``a[ind[0], ind[1], ...] = val``; of repeated indices one wins."""
    result, places, val = _put_parts(xp, a, ind, val)
    result[places] = val
    return result.reshape(a.shape)


def _index_add(xp, a, ind, val):
    """A copy of ``a`` with ``val`` added at ``a[ind[0], ind[1], ...]``; repeated indices add up."""
    result, places, val = _put_parts(xp, a, ind, val)
    return (result + add_rows(xp, result.shape[0], places, xp.ascontiguousarray(val))).reshape(a.shape)


def _value_gradient(F, dy, a, ind, val):
    if not hasattr(val, "shape"):
        return None
    g = F.gather_nd(dy, F.reshape(ind, newshape=_as_matrix_shape(ind.shape)))
    if len(val.shape) > len(g.shape):
        return F.reshape(F.sum_to(g, shape=val.shape[len(val.shape) - len(g.shape):]), newshape=val.shape)
    return F.sum_to(g, shape=val.shape) if val.shape != g.shape else g


operator("index_update", "a, ind, val", infer=_infer_index_put, kernel=_index_update, npx="index_update",
         vjp=lambda F, dy, x, y: (F.index_update(dy, x[1], 0), None, _value_gradient(F, dy, *x)))
operator("index_add", "a, ind, val", infer=_infer_index_put, kernel=_index_add, npx="index_add",
         vjp=lambda F, dy, x, y: (dy, None, _value_gradient(F, dy, *x)))


def _infer_index_copy(old, index, new):
    if len(index.shape) != 1 or new.shape != index.shape + old.shape[1:]:
        raise ShapeError(f"index_copy: {new.shape} is not the shape of {index.shape} rows of {old.shape}")
    return old


def _index_copy(xp, old, index, new):
    """A copy of ``old`` whose rows at the places in ``index`` are those of ``new``."""
    result = old.copy()
    result[as_index(xp, index, old.shape[0])] = new
    return result


operator("index_copy", "old_tensor, index_vector, new_tensor, out=None", infer=_infer_index_copy, kernel=_index_copy,
         npx="index_copy", nd="_contrib_index_copy",
         vjp=lambda F, dy, x, y: (F.index_copy(dy, x[1], F.zeros_like(x[2])), None,
                                  F.take(dy, x[1], axis=0, mode="raise")))

# -- index arithmetic ----------------------------------------------------------------------------------------------


def _index_axes(ndim, axes):
    return tuple(range(ndim)) if axes is None else tuple([normalize_axis(a, ndim) for a in integers(axes, "axes")])


def _index_array(xp, data, axes):
    """For every element of ``data`` its indices along ``axes`` (default all), as one more last axis of int64."""
    grids = [xp.arange(data.shape[a]).reshape([-1 if i == a else 1 for i in range(data.ndim)])
             for a in _index_axes(data.ndim, axes)]
    return xp.stack([xp.broadcast_to(g, data.shape) for g in grids], axis=-1)


operator("index_array", "data, axes=None, out=None", kernel=_index_array, npx="index_array",
         nd="_contrib_index_array",
         infer=lambda data, axes: spec(data.shape + (len(_index_axes(len(data.shape), axes)),), "int64"))


def _fill_element(xp, lhs, mhs, rhs):
    """A copy of a matrix with ``lhs[i, rhs[i]] = mhs[i]``."""
    result = lhs.copy()
    result[xp.arange(lhs.shape[0]), as_index(xp, rhs, lhs.shape[1])] = mhs
    return result


def _infer_fill_element(lhs, mhs, rhs):
    if len(lhs.shape) != 2 or mhs.shape != lhs.shape[:1] or rhs.shape != lhs.shape[:1]:
        raise ShapeError("fill_element_0index: a matrix and two vectors of as many elements as it has rows are "
                         f"needed, got {lhs.shape}, {mhs.shape} and {rhs.shape}")
    return lhs


operator("fill_element_0index", "lhs, mhs, rhs, out=None", infer=_infer_fill_element, kernel=_fill_element,
         nd="fill_element_0index")


def _known_shape(shape, name):
    if shape is None:
        raise ArgumentError(f"{name}: shape is needed")
    return as_shape(shape)


def _unravel(xp, data, shape):
    """The indices, an axis of ``shape`` a row, of flat indices into an array of ``shape``."""
    flat, rows = data.astype("int64"), []
    for n in reversed(as_shape(shape)[1:]):
        rows.append(flat % n)
        flat = flat // n
    return xp.stack([flat, *reversed(rows)])


def _ravel(xp, data, shape):
    """Flat indices into an array of ``shape`` from indices given an axis a row."""
    shape, flat = as_shape(shape), 0
    for i, n in enumerate(shape):
        flat = flat * n + data[i].astype("int64")
    return flat


def _infer_ravel(data, shape):
    shape = _known_shape(shape, "ravel_multi_index")
    if data.shape[:1] != (len(shape),):
        raise ShapeError(f"ravel_multi_index: indices of shape {data.shape} for the {len(shape)} axes of {shape}")
    return spec(data.shape[1:], data.dtype)


operator("nd_unravel_index", "data, shape=None, out=None", inputs="data", kernel=_unravel, nd="unravel_index",
         infer=lambda data, shape: spec((len(_known_shape(shape, "unravel_index")), *data.shape), data.dtype))
operator("nd_ravel_multi_index", "data, shape=None, out=None", inputs="data", kernel=_ravel, infer=_infer_ravel,
         nd="ravel_multi_index")
