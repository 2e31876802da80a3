"""Fully connected layers, embeddings, and one-hot and pick, which address one axis by an array of indices."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import as_dtype, is_float, normalize_axis, promote, spec
from .creation import constant
from .indexing import add_rows
from .products import common
from .registry import check_optional, operator

# -- fully_connected -----------------------------------------------------------------------------------------------


def rows_of(shape, flatten):
    """(rows, columns) of the matrix that data of ``shape`` is to a fully connected layer."""
    if flatten:
        return shape[0], math.prod(shape[1:])
    return math.prod(shape[:-1]), shape[-1]


def out_shape(shape, units, flatten):
    """The shape of a fully connected layer's output for data of ``shape``."""
    return (*(shape[:1] if flatten else shape[:-1]), units)


def _infer_fully_connected(x, weight, bias, num_hidden, no_bias, flatten):
    if len(weight.shape) != 2:
        raise ShapeError(f"fully_connected: weight must have 2 axes (units, inputs), not shape {weight.shape}")
    if num_hidden is not None and num_hidden != weight.shape[0]:
        raise ShapeError(f"fully_connected: num_hidden={num_hidden}, but weight has shape {weight.shape}")
    if not x.shape:
        raise ShapeError("fully_connected: data needs at least one axis")
    columns = rows_of(x.shape, flatten)[1]
    if columns != weight.shape[1]:
        raise ShapeError(f"fully_connected: data of shape {x.shape} (flatten={flatten}) has {columns} inputs, weight "
                         f"of shape {weight.shape} has {weight.shape[1]}")
    check_optional("fully_connected", "bias", bias, not no_bias, no_bias=no_bias)
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"fully_connected: bias of shape {bias.shape} for {weight.shape[0]} units")
    return spec(out_shape(x.shape, weight.shape[0], flatten), promote(x.dtype, weight.dtype))


def _product(xp, a, b, shape):
    """``a @ b`` in an array of ``shape`` that owns its memory."""
    a, b = common(xp, a, b)
    result = xp.empty(shape, a.dtype)
    xp.matmul(a, b, out=result.reshape(a.shape[0], b.shape[1]))
    return result


def _fully_connected(xp, x, weight, bias, num_hidden, no_bias, flatten):
    """``x @ weight.T + bias``.

    ``weight`` has shape (units, inputs). With ``flatten`` all axes of x but the first count as one, else the last axis
    is transformed and the others are kept.
    """
    result = _product(xp, x.reshape(rows_of(x.shape, flatten)), weight.T,
                      out_shape(x.shape, weight.shape[0], flatten))
    if not no_bias:
        result += bias
    return result


def _fully_connected_vjp(F, dy, x, y, num_hidden, no_bias, flatten):
    data, weight, bias = x
    db = None if no_bias else F.sum(dy, axis=tuple(range(len(dy.shape) - 1)))
    return F.dense_data_grad(dy, weight, shape=data.shape, flatten=flatten), \
        F.dense_weight_grad(dy, data, flatten=flatten), db


operator("fully_connected", "x, weight, bias=None, num_hidden=None, no_bias=True, flatten=True",
         inputs="x, weight, bias", optional=("bias",), infer=_infer_fully_connected, kernel=_fully_connected,
         vjp=_fully_connected_vjp)
operator("dense_data_grad", "dy, weight, shape, flatten", inputs="dy, weight",
         infer=lambda dy, weight, shape, flatten: spec(shape, dy.dtype),
         kernel=lambda xp, dy, w, shape, flatten: _product(xp, dy.reshape(rows_of(shape, flatten)[0], w.shape[0]), w,
                                                           shape),
         vjp=lambda F, g, x, y, shape, flatten: (F.fully_connected(g, x[1], flatten=flatten),
                                                 F.dense_weight_grad(x[0], g, flatten=flatten)))
operator("dense_weight_grad", "dy, x, flatten", inputs="dy, x",
         infer=lambda dy, x, flatten: spec((dy.shape[-1], rows_of(x.shape, flatten)[1]), dy.dtype),
         kernel=lambda xp, dy, x, flatten: _product(
             xp, dy.reshape(rows_of(x.shape, flatten)[0], dy.shape[-1]).T, x.reshape(rows_of(x.shape, flatten)),
             (dy.shape[-1], rows_of(x.shape, flatten)[1])),
         vjp=lambda F, g, x, y, flatten: (F.fully_connected(x[1], g, flatten=flatten),
                                          F.dense_data_grad(x[0], g, shape=x[1].shape, flatten=flatten)))

# -- embedding -----------------------------------------------------------------------------------------------------


def whole(xp, index):
    """Indices as integers; those of another dtype are cut off."""
    return index if index.dtype.kind in "iu" else index.astype("int64")


def _infer_embedding(data, weight, input_dim, output_dim, dtype, sparse_grad):
    if sparse_grad:
        raise ArgumentError("embedding: sparse_grad=True is not supported; gradients are dense, leave it False")
    if len(weight.shape) != 2:
        raise ShapeError(f"embedding: weight must have 2 axes (input_dim, output_dim), not shape {weight.shape}")
    for i, n in enumerate((input_dim, output_dim)):
        if n is not None and n != weight.shape[i]:
            raise ShapeError(f"embedding: input_dim={input_dim}, output_dim={output_dim}, but weight has shape "
                             f"{weight.shape}")
    return spec(data.shape + weight.shape[1:], weight.dtype)


def _embedding(xp, data, weight, input_dim, output_dim, dtype, sparse_grad):
    """Rows of ``weight`` at the indices in ``data``; indices out of bounds are clipped to the nearest row."""
    if not weight.shape[0] and data.size:
        raise IndexError("embedding: weight has no rows")
    index = whole(xp, data).reshape(-1)
    return weight.take(xp.clip(index, 0, max(weight.shape[0] - 1, 0)), axis=0).reshape(data.shape + weight.shape[1:])


def _embedding_grad(xp, dy, data, rows):
    index = xp.clip(whole(xp, data).reshape(-1), 0, max(rows - 1, 0))
    return add_rows(xp, rows, index, dy.reshape(index.size, dy.shape[-1]))


operator("embedding", "data, weight, input_dim=None, output_dim=None, dtype='float32', sparse_grad=False, **kwargs",
         inputs="data, weight", infer=_infer_embedding, kernel=_embedding, npx="embedding", nd="Embedding",
         vjp=lambda F, dy, x, y, **_: (None, F.embedding_grad(dy, x[0], rows=x[1].shape[0])))
operator("embedding_grad", "dy, data, rows", inputs="dy, data", kernel=_embedding_grad,
         infer=lambda dy, data, rows: spec((rows, dy.shape[-1]), dy.dtype),
         vjp=lambda F, g, x, y, rows: (F.embedding(x[1], g), None))

# -- one_hot and pick ----------------------------------------------------------------------------------------------


def _infer_one_hot(data, depth, on_value, off_value, dtype):
    if not isinstance(depth, int) or depth < 0:
        raise ArgumentError(f"one_hot: depth must be a number of classes, not {depth!r}")
    return spec(data.shape + (depth,), as_dtype(dtype))


def _one_hot(xp, data, depth, on_value, off_value, dtype):
    """``on_value`` at the index along a new last axis of size ``depth``, ``off_value`` elsewhere; an index out of
    bounds gives ``off_value`` only."""
    index, dtype = whole(xp, data).reshape(-1), as_dtype(dtype)
    result = xp.full(data.shape + (depth,), constant(off_value, dtype), dtype)
    valid = xp.flatnonzero((index >= 0) & (index < depth))
    result.reshape(-1)[valid * depth + index[valid]] = constant(on_value, dtype)
    return result


operator("one_hot", "data, depth=None, on_value=1.0, off_value=0.0, dtype='float32'", inputs="data",
         infer=_infer_one_hot, kernel=_one_hot, npx="one_hot")
operator("nd_one_hot", "indices, depth=None, on_value=1.0, off_value=0.0, dtype='float32', out=None", inputs="indices",
         infer=_infer_one_hot, kernel=_one_hot, nd="one_hot", method="one_hot")


def _picked(shape, index, axis):
    """(shape of the result with the axis kept, axis) for indices of shape ``index``."""
    if axis is None:
        shape, axis = (math.prod(shape),), 0
    axis = normalize_axis(axis, len(shape))
    rest = shape[:axis] + shape[axis + 1:]
    kept = shape[:axis] + (1,) + shape[axis + 1:]
    if index not in (rest, kept) and not (axis == 0 and len(shape) == 1 and index in ((), (1,))):
        raise ShapeError(f"pick: the index of shape {index} must have the shape of data without axis {axis}, {rest}")
    return kept, axis


def _keeps(keepdims, shape, index):
    """Whether the result has the axis: with data of one axis and an index of shape (1,) always, it is index-shaped."""
    return keepdims or len(shape) == 1 and index == (1,)


def _infer_pick(data, index, axis, mode, keepdims):
    if mode not in ("clip", "wrap"):
        raise ArgumentError(f"pick: mode must be 'clip' or 'wrap', not {mode!r}")
    kept, at = _picked(data.shape, index.shape, axis)
    if 0 in data.shape and 0 not in kept:
        raise ShapeError(f"pick: there is nothing to pick from along axis {axis} of shape {data.shape}")
    return spec(kept if _keeps(keepdims, data.shape, index.shape) else kept[:at] + kept[at + 1:], data.dtype)


def _places(xp, shape, index, axis, mode):
    kept, axis = _picked(shape, index.shape, axis)
    size = math.prod(shape) if len(kept) != len(shape) else shape[axis]
    index = whole(xp, index).reshape(kept)
    return (xp.clip(index, 0, max(size - 1, 0)) if mode == "clip" else index % max(size, 1)), axis


def _pick(xp, data, index, axis, mode, keepdims):
    """For every position of the other axes the element of ``axis`` at the given index.

    mode: 'clip' limits indices to the axis, 'wrap' counts them around. ``axis=None`` picks from the flattened array.
    """
    places, at = _places(xp, data.shape, index, axis, mode)
    result = xp.take_along_axis(data.reshape(-1) if axis is None else data, places, at)
    if _keeps(keepdims, data.shape, index.shape):
        return result
    return result.reshape(result.shape[:at] + result.shape[at + 1:])


def _pick_grad(xp, dy, index, shape, axis, mode):
    places, at = _places(xp, shape, index, axis, mode)
    result = xp.zeros(shape, dy.dtype)
    xp.put_along_axis(result.reshape(-1) if axis is None else result, places, dy.reshape(places.shape), at)
    return result


operator("pick", "data, index, axis=-1, mode='clip', keepdims=False", inputs="data, index", infer=_infer_pick,
         kernel=_pick, npx="pick",
         vjp=lambda F, dy, x, y, axis, mode, keepdims: (F.pick_grad(dy, x[1], shape=x[0].shape, axis=axis, mode=mode),
                                                        None))
operator("nd_pick", "data, index, axis=-1, keepdims=False, mode='clip', out=None", inputs="data, index",
         infer=lambda data, index, axis, keepdims, mode: _infer_pick(data, index, axis, mode, keepdims),
         kernel=lambda xp, data, index, axis, keepdims, mode: _pick(xp, data, index, axis, mode, keepdims),
         nd="pick, choose_element_0index", method="pick",
         vjp=lambda F, dy, x, y, axis, keepdims, mode: (F.pick_grad(dy, x[1], shape=x[0].shape, axis=axis, mode=mode),
                                                        None))
operator("pick_grad", "dy, index, shape, axis, mode", inputs="dy, index", kernel=_pick_grad,
         infer=lambda dy, index, shape, axis, mode: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, axis, mode: (F.pick(g, x[1], axis=axis, mode=mode,
                                                           keepdims=len(x[0].shape) == len(shape)), None))

# -- quantised gradients -------------------------------------------------------------------------------------------


def straight_through(name, kernel, doc):
    """A function whose gradient is that of the identity (Bengio et al. 2013)."""
    operator(name, "data, out=None", infer=lambda data: data, kernel=kernel, npx=name, nd=f"_contrib_{name}",
             vjp=lambda F, dy, x, y: dy, doc=doc)


straight_through("round_ste", lambda xp, x: xp.sign(x) * xp.floor(xp.abs(x) + 0.5) if is_float(x.dtype) else x,
                 "Round to the nearest integer, halves away from zero; the gradient is passed through.")
straight_through("sign_ste", lambda xp, x: xp.sign(x), "The sign; the gradient is passed through.")
