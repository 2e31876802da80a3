"""Joining, splitting, repeating and padding arrays."""
from __future__ import annotations

import math

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import normalize_axis, promote, spec
from .creation import constant
from .indexing import add_rows
from .registry import operator
from .shape import integers

# -- concatenate and split -----------------------------------------------------------------------------------------


def _common_dtype(arrays):
    dtype = arrays[0].dtype
    for a in arrays[1:]:
        dtype = promote(dtype, a.dtype)
    return dtype


def _need_arrays(name, arrays):
    if not arrays:
        raise ShapeError(f"{name}: need at least one array")
    for i, a in enumerate(arrays):
        if not hasattr(a, "shape"):
            raise ArgumentError(f"{name}: argument {i + 1} must be an array, not a number")


def _infer_concatenate(*arrays, axis):
    _need_arrays("concatenate", arrays)
    dtype = _common_dtype(arrays)
    if axis is None:
        return spec((sum([a.size for a in arrays]),), dtype)
    first = arrays[0].shape
    if not first:
        raise ShapeError("concatenate: zero-dimensional arrays cannot be concatenated")
    axis = normalize_axis(axis, len(first))
    rest = first[:axis] + first[axis + 1:]
    for a in arrays[1:]:
        if len(a.shape) != len(first) or a.shape[:axis] + a.shape[axis + 1:] != rest:
            raise ShapeError(f"concatenate: all the input array dimensions except for axis {axis} must match: shapes "
                             f"{[a.shape for a in arrays]}")
    return spec(first[:axis] + (sum([a.shape[axis] for a in arrays]),) + first[axis + 1:], dtype)


def _bind_concatenate(xp, in_specs, out_specs, attrs):
    axis, dtype = attrs["axis"], out_specs[0].dtype
    if axis is None:
        return lambda *arrays: xp.concatenate([a.reshape(-1).astype(dtype, copy=False) for a in arrays])
    if all(s.dtype == dtype for s in in_specs):
        return lambda *arrays: xp.concatenate(arrays, axis=axis)
    return lambda *arrays: xp.concatenate([a.astype(dtype, copy=False) for a in arrays], axis=axis)


def _points(sizes):
    """The cut points of consecutive parts of the given sizes."""
    points, at = [], 0
    for n in sizes[:-1]:
        at += n
        points.append(at)
    return tuple(points)


def _tuple_of(value):
    return value if isinstance(value, tuple) else (value,)


def _concatenate_vjp(F, dy, x, y, axis):
    if axis is None:
        parts = _tuple_of(F.split(dy, points=_points([math.prod(a.shape) for a in x]), axis=0))
        return tuple([F.reshape(p, newshape=a.shape) for p, a in zip(parts, x)])
    return _tuple_of(F.split(dy, points=_points([a.shape[axis] for a in x]), axis=axis))


operator("concatenate", "*arrays, axis=0", infer=_infer_concatenate, bind=_bind_concatenate, vjp=_concatenate_vjp,
         doc="Arrays joined along an existing axis (None: flattened first).")


def _infer_stack(*arrays, axis):
    _need_arrays("stack", arrays)
    shape = arrays[0].shape
    if any(a.shape != shape for a in arrays):
        raise ShapeError(f"stack: all input arrays must have the same shape, got {[a.shape for a in arrays]}")
    axis = normalize_axis(axis, len(shape) + 1)
    return spec(shape[:axis] + (len(arrays),) + shape[axis:], _common_dtype(arrays))


def _stack(xp, *arrays, axis):
    """Arrays of one shape joined along a new axis."""
    dtype = _common_dtype(arrays)
    return xp.stack([a if a.dtype == dtype else a.astype(dtype) for a in arrays], axis=axis)


operator("stack", "*arrays, axis=0", infer=_infer_stack, kernel=_stack,
         vjp=lambda F, dy, x, y, axis: tuple([F.reshape(p, newshape=a.shape) for p, a in zip(
             _tuple_of(F.split(dy, points=tuple(range(1, len(x))), axis=axis)), x)]))


def bounds(points, n) -> list:
    """(start, stop) of the parts of an axis of length ``n`` cut at ``points``, by the rules of slices."""
    edges = [0, *points, n]
    return [slice(a, b).indices(n)[:2] for a, b in zip(edges, edges[1:])]


def _part(axis, start, stop):
    return (slice(None),) * axis + (slice(start, max(start, stop)),)


def _infer_split(ary, points, axis):
    if not ary.shape:
        raise ShapeError("split: a zero-dim array has no axis to split")
    axis = normalize_axis(axis, len(ary.shape))
    shape = ary.shape
    return tuple([spec(shape[:axis] + (max(0, b - a),) + shape[axis + 1:], ary.dtype)
                  for a, b in bounds(points, shape[axis])])


def _bind_split(xp, in_specs, out_specs, attrs):
    axis = normalize_axis(attrs["axis"], in_specs[0].ndim)
    places = [_part(axis, a, b) for a, b in bounds(attrs["points"], in_specs[0].shape[axis])]
    if len(places) == 1:
        return lambda ary: ary[places[0]]
    return lambda ary: tuple([ary[p] for p in places])


def _split_vjp(F, dy, x, y, points, axis):
    dy = _tuple_of(dy)
    which = tuple([i for i, g in enumerate(dy) if g is not None])
    return F.split_grad(*[dy[i] for i in which], which=which, points=points, axis=axis, shape=x[0].shape)


operator("split", "ary, points, axis", inputs="ary", infer=_infer_split, bind=_bind_split, vjp=_split_vjp,
         doc="A tuple of the parts of an array cut before the indices ``points`` of ``axis``.")


def _split_grad(xp, *parts, which, points, axis, shape):
    axis = normalize_axis(axis, len(shape))
    result = xp.zeros(shape, parts[0].dtype)
    cuts = bounds(points, shape[axis])
    for i, part in zip(which, parts):
        result[_part(axis, *cuts[i])] += part
    return result


def _split_grad_vjp(F, g, x, y, which, points, axis, shape):
    parts = _tuple_of(F.split(g, points=points, axis=axis))
    return tuple([parts[i] for i in which])


operator("split_grad", "*parts, which, points, axis, shape", kernel=_split_grad, vjp=_split_grad_vjp,
         infer=lambda *parts, which, points, axis, shape: spec(shape, parts[0].dtype))

# -- repeating -----------------------------------------------------------------------------------------------------


def _tile_shapes(shape, reps):
    """(shape with 1s in front, repetitions for each axis)."""
    reps = integers(reps, "reps")
    if any(r < 0 for r in reps):
        raise ShapeError(f"tile: repetitions must not be negative: {reps}")
    ndim = max(len(reps), len(shape))
    return (1,) * (ndim - len(shape)) + shape, (1,) * (ndim - len(reps)) + reps


def _infer_tile(A, reps):
    shape, reps = _tile_shapes(A.shape, reps)
    return spec(tuple([n * r for n, r in zip(shape, reps)]), A.dtype)


def _tile_vjp(F, dy, x, y, reps):
    shape, reps = _tile_shapes(x[0].shape, reps)
    pairs = tuple([k for r, n in zip(reps, shape) for k in (r, n)])
    g = F.sum(F.reshape(dy, newshape=pairs), axis=tuple(range(0, len(pairs), 2)))
    return F.reshape(g, newshape=x[0].shape)


operator("tile", "A, reps", inputs="A", infer=_infer_tile, vjp=_tile_vjp, kernel=lambda xp, A, reps: xp.tile(A, reps),
         doc="The whole array repeated ``reps`` times along each axis (an int: along the last).")


def _repeat_counts(a, repeats, axis):
    """(axis, counts): an int, or a tuple with one count for each element of the axis."""
    n = a.size if axis is None else a.shape[normalize_axis(axis, len(a.shape))]
    axis = None if axis is None else normalize_axis(axis, len(a.shape))
    counts = repeats[0] if isinstance(repeats, tuple) and len(repeats) == 1 else repeats
    counts = integers(counts, "repeats") if isinstance(counts, tuple) else integers(counts, "repeats")[0]
    if isinstance(counts, tuple) and len(counts) != n:
        raise ShapeError(f"repeat: {len(counts)} counts for {n} elements")
    if any(c < 0 for c in _tuple_of(counts)):
        raise ShapeError(f"repeat: counts must not be negative: {repeats}")
    return axis, counts


def _infer_repeat(a, repeats, axis):
    at, counts = _repeat_counts(a, repeats, axis)
    n = a.size if at is None else a.shape[at]
    total = sum(counts) if isinstance(counts, tuple) else n * counts
    return spec((total,) if at is None else a.shape[:at] + (total,) + a.shape[at + 1:], a.dtype)


def _repeat(xp, a, repeats, axis):
    """Every element repeated, along ``axis`` or in the flattened array."""
    axis, counts = _repeat_counts(a, repeats, axis)
    return xp.repeat(a, list(counts) if isinstance(counts, tuple) else counts, axis=axis)


def _repeat_vjp(F, dy, x, y, repeats, axis):
    return F.repeat_grad(dy, repeats=repeats, axis=axis, shape=x[0].shape)


operator("repeat", "a, repeats, axis=None", inputs="a", infer=_infer_repeat, kernel=_repeat, vjp=_repeat_vjp)


def _repeat_grad(xp, dy, repeats, axis, shape):
    axis, counts = _repeat_counts(spec(shape, dy.dtype), repeats, axis)
    flat = (math.prod(shape),) if axis is None else shape
    axis = 0 if axis is None else axis
    if not isinstance(counts, tuple):
        pairs = flat[:axis + 1] + (counts,) + flat[axis + 1:]
        return dy.reshape(pairs).sum(axis=axis + 1).reshape(shape)
    index = xp.asarray(numpy.repeat(numpy.arange(flat[axis]), counts))
    rows = xp.moveaxis(dy, axis, 0) if axis else dy
    return xp.moveaxis(add_rows(xp, flat[axis], index, rows), 0, axis).reshape(shape)


operator("repeat_grad", "dy, repeats, axis, shape", inputs="dy", kernel=_repeat_grad,
         infer=lambda dy, repeats, axis, shape: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, repeats, axis, shape: F.repeat(g, repeats=repeats, axis=axis))

# -- padding -------------------------------------------------------------------------------------------------------

INDEX_MODES = ("edge", "reflect", "symmetric", "wrap")


def pad_pairs(pad_width, ndim) -> tuple:
    """(before, after) for each axis, from NumPy's forms of pad_width."""
    pairs = pad_width if isinstance(pad_width, tuple) else (pad_width,)
    if pairs and not isinstance(pairs[0], tuple):
        pairs = (pairs,)
    pairs = tuple([integers(p, "pad_width") for p in pairs])
    pairs = tuple([p * 2 if len(p) == 1 else p for p in pairs])
    if len(pairs) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim or any(len(p) != 2 for p in pairs):
        raise ShapeError(f"pad: pad_width {pad_width} does not fit an array of {ndim} axes")
    if any(n < 0 for p in pairs for n in p):
        raise ShapeError(f"pad: pad_width must not be negative: {pad_width}")
    return pairs


def _pad_values(values, ndim):
    """Constants for each side of each axis."""
    values = values if isinstance(values, tuple) else (values,)
    if not isinstance(values[0], tuple):
        values = (values,)
    values = [v * 2 if len(v) == 1 else v for v in values]
    return values * ndim if len(values) == 1 else values


def _infer_pad(x, pad_width, mode, constant_values, reflect_type):
    pairs = pad_pairs(pad_width, len(x.shape))
    if mode not in ("constant", *INDEX_MODES):
        raise ShapeError(f"pad: mode {mode!r} is not supported; there are constant, edge, maximum, minimum, reflect, "
                         "symmetric and wrap")
    if reflect_type != "even":
        raise ShapeError(f"pad: reflect_type {reflect_type!r} is not supported; only 'even' is")
    if mode != "constant" and any(n == 0 and any(p) for n, p in zip(x.shape, pairs)):
        raise ShapeError(f"pad: an axis of length 0 of shape {x.shape} cannot be extended by mode {mode!r}")
    return spec(tuple([n + before + after for n, (before, after) in zip(x.shape, pairs)]), x.dtype)


def _pad_sources(n, pair, mode):
    """For each position of a padded axis of length ``n`` the position it is copied from."""
    return numpy.pad(numpy.arange(n), pair, mode)


def _pad(xp, x, pad_width, mode, constant_values, reflect_type):
    pairs = pad_pairs(pad_width, x.ndim)
    if mode == "constant":
        values = _pad_values(constant_values, x.ndim)
        result = xp.zeros([n + sum(p) for n, p in zip(x.shape, pairs)], x.dtype)
        result[tuple([slice(p[0], p[0] + n) for n, p in zip(x.shape, pairs)])] = x
        for axis, ((before, after), (low, high)) in enumerate(zip(pairs, values)):
            at = (slice(None),) * axis
            if before and low:
                result[at + (slice(0, before),)] = constant(low, x.dtype)
            if after and high:
                result[at + (slice(result.shape[axis] - after, None),)] = constant(high, x.dtype)
        return result
    for axis, pair in enumerate(pairs):
        if any(pair):
            x = x.take(xp.asarray(_pad_sources(x.shape[axis], pair, mode)), axis=axis)
    return x


def _pad_vjp(F, dy, x, y, pad_width, mode, constant_values, reflect_type):
    shape = x[0].shape
    pairs = pad_pairs(pad_width, len(shape))
    if mode == "constant":
        items = tuple([(before, before + n, 1) for n, (before, _) in zip(shape, pairs)])
        return F.basic_index(dy, items=items, shape=shape)
    return F.pad_grad(dy, pairs=pairs, mode=mode)


operator("pad", "x, pad_width, mode='constant', constant_values=0, reflect_type='even'", inputs="x", infer=_infer_pad,
         kernel=_pad, vjp=_pad_vjp)


def _pad_grad(xp, dy, pairs, mode):
    """The adjoint of padding by copies: what was copied is added up where it came from."""
    for axis in range(dy.ndim - 1, -1, -1):
        before, after = pairs[axis]
        if not before and not after:
            continue
        n = dy.shape[axis] - before - after
        at = (slice(None),) * axis
        result = dy[at + (slice(before, before + n),)].copy()
        sources = _pad_sources(n, (before, after), mode)
        for place in (*range(before), *range(before + n, before + n + after)):
            result[at + (int(sources[place]),)] += dy[at + (place,)]
        dy = result
    return dy


operator("pad_grad", "dy, pairs, mode", inputs="dy", kernel=_pad_grad,
         infer=lambda dy, pairs, mode: spec(tuple([n - sum(p) for n, p in zip(dy.shape, pairs)]), dy.dtype),
         vjp=lambda F, g, x, y, pairs, mode: F.pad(g, pad_width=pairs, mode=mode))
