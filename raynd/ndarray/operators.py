"""The operators of ``mx.nd`` under their legacy names and signatures, by the rules of :mod:`.legacy`.

Those of neural networks, optimizers and linear algebra come from their records (``nd=`` exports); here are the
element-wise operators, reductions, and those on shapes, indices and orders. ``name=`` is accepted and ignored.
"""
from __future__ import annotations

import numpy

from ..dispatch import F, Proxy
from ..errors import ArgumentError, MXNetError, ShapeError
from ..ops.shape import integers
from ..spec import as_dtype, is_float, normalize_axis
from . import legacy
from .legacy import (
    arg_reduce,
    arithmetic,
    as_dtype_of,
    at_least_1d,
    coded_shape,
    compare,
    give,
    need_array,
    norm,
    reduce,
    unary,
)

FUNCTIONS: dict = {"norm": norm}


def public(function):
    """Make a function part of ``mx.nd``."""
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def alias(**names):
    """Further names of functions: ``alias(Concat="concat")``."""
    for name, target in names.items():
        FUNCTIONS[name] = FUNCTIONS[target]


# -- element-wise --------------------------------------------------------------------------------------------------

UNARY = {   # nd name: record
    "abs": "absolute", "arccos": "arccos", "arccosh": "arccosh", "arcsin": "arcsin", "arcsinh": "arcsinh",
    "arctan": "arctan", "arctanh": "arctanh", "cbrt": "cbrt", "ceil": "ceil", "cos": "cos", "cosh": "cosh",
    "degrees": "degrees", "digamma": "digamma", "erf": "erf", "erfinv": "erfinv", "exp": "exp", "expm1": "expm1",
    "fix": "fix", "floor": "floor", "gamma": "gamma", "gammaln": "gammaln", "log": "log", "log10": "log10",
    "log1p": "log1p", "log2": "log2", "negative": "negative", "radians": "radians", "rcbrt": "rcbrt",
    "reciprocal": "reciprocal", "relu": "relu", "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sign": "sign", "sin": "sin",
    "sinh": "sinh", "softsign": "softsign", "sqrt": "sqrt", "square": "square", "tan": "tan", "tanh": "tanh",
    "trunc": "trunc", "log_sigmoid": "log_sigmoid", "mish": "mish",
}


def _unary(name, record):
    def function(data, out=None, name=None):
        return unary(record, data, out)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Element-wise {name}; the result has the dtype of ``data``."
    return function


def _binary(name, record, rule, same_shape=False):
    def function(lhs, rhs, out=None, name=None):
        if same_shape and lhs.shape != rhs.shape:
            raise ShapeError(f"{shown}: the shapes {lhs.shape} and {rhs.shape} differ; "
                             f"broadcast_{shown[9:]} broadcasts")
        return rule(record, lhs, rhs, out)
    shown = name
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Element-wise {record.replace('_', ' ')}" + \
        (" of two arrays of one shape." if same_shape else " of arrays and numbers, with broadcasting.")
    return function


for _name, _record in UNARY.items():
    FUNCTIONS[_name] = _unary(_name, _record)
for _name, _record in {
        "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "true_divide",
        "true_divide": "true_divide", "modulo": "mod", "maximum": "maximum", "minimum": "minimum",
        "broadcast_add": "add", "broadcast_plus": "add", "broadcast_sub": "subtract", "broadcast_minus": "subtract",
        "broadcast_mul": "multiply", "broadcast_div": "true_divide", "broadcast_mod": "mod",
        "broadcast_power": "power", "broadcast_maximum": "maximum", "broadcast_minimum": "minimum",
        "broadcast_hypot": "hypot"}.items():
    FUNCTIONS[_name] = _binary(_name, _record, arithmetic)
for _name, _record in {"elemwise_add": "add", "elemwise_sub": "subtract", "elemwise_mul": "multiply",
                       "elemwise_div": "true_divide"}.items():
    FUNCTIONS[_name] = _binary(_name, _record, arithmetic, same_shape=True)
for _name, _record in {"equal": "equal", "not_equal": "not_equal", "greater": "greater", "lesser": "less",
                       "greater_equal": "greater_equal", "lesser_equal": "less_equal", "logical_and": "logical_and",
                       "logical_or": "logical_or", "logical_xor": "logical_xor"}.items():
    FUNCTIONS[_name] = FUNCTIONS["broadcast_" + _name] = _binary(_name, _record, compare)


@public
def power(base, exp, out=None, name=None):
    """Element-wise power of arrays and numbers, with broadcasting."""
    return FUNCTIONS["broadcast_power"](base, exp, out)


@public
def logical_not(data, out=None, name=None):
    """1 where ``data`` is 0, else 0, in its dtype."""
    return compare("equal", data, 0, out)


@public
def round_(data, out=None, name=None):
    """Round to the nearest integer, halves away from zero; the gradient is zero."""
    data = need_array(data, "round").detach()
    return give(as_dtype_of(F.sign(data) * F.floor(F.absolute(data) + 0.5), data), out)


@public
def rint(data, out=None, name=None):
    """Round to the nearest integer, halves downwards; the gradient is zero."""
    data = need_array(data, "rint").detach()
    return give(as_dtype_of(F.ceil(data - 0.5), data), out)


@public
def clip(data, a_min, a_max, out=None, name=None):
    """Values limited to [a_min, a_max]."""
    return give(as_dtype_of(F.clip(need_array(data, "clip"), a_min, a_max), data), out)


@public
def identity(data, out=None, name=None):
    """A copy."""
    return give(F.copy(need_array(data, "identity")), out)


@public
def stop_gradient(data, out=None, name=None):
    """A copy through which no gradient flows."""
    return give(F.stop_gradient(need_array(data, "stop_gradient")), out)


@public
def cast(data, dtype, out=None, name=None):
    """The array in another dtype."""
    return give(F.cast(need_array(data, "cast"), dtype=as_dtype(dtype).name), out)


@public
def amp_cast(data, dtype, out=None, name=None):
    """A float array in another float dtype; other arrays as they are."""
    return give(F.cast(data, dtype=as_dtype(dtype).name) if is_float(data._spec.dtype) else F.copy(data), out)


@public
def amp_multicast(*data, num_outputs, cast_narrow=False, out=None, name=None):
    """Float arrays in the widest of their dtypes, or with ``cast_narrow`` in the narrowest."""
    _check_count(data, num_outputs, "amp_multicast")
    widths = [x._spec.dtype for x in data if is_float(x._spec.dtype)]
    if not widths:
        return [F.copy(x) for x in data]
    dtype = (min if cast_narrow else max)(widths, key=lambda d: d.itemsize)
    return [amp_cast(x, dtype) for x in data]


@public
def cast_storage(data, stype, out=None, name=None):
    """A copy in the storage type ``stype``, of which only 'default' is available."""
    if stype != "default":
        raise MXNetError(f"cast_storage: stype={stype!r} is not available here; arrays are dense")
    return give(F.copy(data), out)


@public
def add_n(*args, out=None, name=None):
    """The sum of arrays of one shape."""
    if not args:
        raise ArgumentError("add_n: at least one array is needed")
    total = args[0] if len(args) > 1 else F.copy(args[0])
    for x in args[1:]:
        if x.shape != total.shape:
            raise ShapeError(f"add_n: the shapes {total.shape} and {x.shape} differ")
        total = arithmetic("add", total, x)
    return give(total, out)


@public
def where(condition, x, y, out=None, name=None):
    """``x`` where ``condition`` is not 0, else ``y``; a 1-D condition chooses rows."""
    if condition.ndim == 1 and x.ndim > 1:
        condition = F.reshape(condition, newshape=condition.shape + (1,) * (x.ndim - 1))
    return give(F.where(condition, x, y), out)


@public
def hard_sigmoid(data, alpha=0.2, beta=0.5, out=None, name=None):
    """``alpha * x + beta`` limited to [0, 1]."""
    return give(F.hard_sigmoid(data, alpha=float(alpha), beta=float(beta)), out)


# -- reductions ----------------------------------------------------------------------------------------------------


def _reduction(name, record):
    def function(data, axis=None, keepdims=False, exclude=False, out=None, name=None):
        return reduce(record, data, axis, keepdims, exclude, out)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} over ``axis`` (all by default), or over all other axes with ``exclude``."
    return function


for _name in ("sum", "mean", "prod", "max", "min", "nansum", "nanprod"):
    FUNCTIONS[_name] = _reduction(_name, _name)
alias(sum_axis="sum", max_axis="max", min_axis="min")


@public
def argmax(data, axis=None, keepdims=False, out=None, name=None):
    """Indices of the largest values, as float32."""
    return arg_reduce("argmax", data, axis, keepdims, out)


@public
def argmin(data, axis=None, keepdims=False, out=None, name=None):
    """Indices of the smallest values, as float32."""
    return arg_reduce("argmin", data, axis, keepdims, out)


@public
def argmax_channel(data, out=None, name=None):
    """Indices of the largest values of axis 1, as float32."""
    return arg_reduce("argmax", data, 1, False, out)


@public
def moments(data, axes=None, keepdims=False, out=None, name=None):
    """Mean and variance over ``axes``."""
    mean = reduce("mean", data, axes, True)
    return [reduce("mean", data, axes, keepdims), reduce("mean", F.square(data - mean), axes, keepdims)]


@public
def cumsum(a, axis=None, dtype=None, out=None, name=None):
    """Cumulative sums along ``axis``, or of the flattened array."""
    dtype = a._spec.dtype if dtype is None else as_dtype(dtype)
    return give(F.cumsum(a, axis=axis, dtype=dtype.name), out)


# -- shapes --------------------------------------------------------------------------------------------------------


@public
def reshape(data, shape=(), reverse=False, target_shape=(), keep_highest=False, out=None, name=None):
    """A copy in another shape, which may hold the codes 0, -1, -2, -3 and -4 (see ``NDArray.reshape``)."""
    need_array(data, "reshape")
    return give(F.reshape(data, newshape=reshape_target(data.shape, shape, reverse, target_shape, keep_highest)), out)


def reshape_target(old, shape, reverse, target_shape, keep_highest):
    """The shape that the arguments of :func:`reshape` make of the shape ``old``."""
    if not shape and target_shape:
        shape = tuple(target_shape)
        if keep_highest:
            shape = (old[0], *shape[1:])
        shape = tuple(-1 if n == 0 else n for n in shape)
    return coded_shape(old, shape, reverse)


@public
def flatten(data, out=None, name=None):
    """The array as a matrix that keeps the first axis."""
    return give(legacy.flatten(need_array(data, "flatten")), out)


@public
def expand_dims(data, axis, out=None, name=None):
    """A new axis of length 1 at ``axis``."""
    return give(legacy.expand_dims(need_array(data, "expand_dims"), axis), out)


@public
def squeeze(data, axis=None, out=None, name=None):
    """Without the axes of length 1 (all, or those given); at least one axis stays."""
    return give(legacy.squeeze(need_array(data, "squeeze"), axis), out)


@public
def transpose(data, axes=(), out=None, name=None):
    """The axes in another order (reversed by default)."""
    return give(F.transpose(need_array(data, "transpose"), axes=tuple(axes) or tuple(range(data.ndim))[::-1]), out)


@public
def swapaxes(data, dim1=0, dim2=0, out=None, name=None):
    """Two axes exchanged."""
    order = list(range(need_array(data, "swapaxes").ndim))
    i, j = normalize_axis(dim1, data.ndim), normalize_axis(dim2, data.ndim)
    order[i], order[j] = order[j], order[i]
    return give(F.transpose(data, axes=tuple(order)), out)


@public
def moveaxis(tensor, source, destination):
    """Axes moved to other positions, as in NumPy."""
    source = [source] if isinstance(source, int) else list(source)
    destination = [destination] if isinstance(destination, int) else list(destination)
    if len(source) != len(destination):
        raise ShapeError("moveaxis: `source` and `destination` arguments must have the same number of elements")
    source = [normalize_axis(a, tensor.ndim, "source") for a in source]
    destination = [normalize_axis(a, tensor.ndim, "destination") for a in destination]
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise ShapeError("moveaxis: an axis is named twice")
    order = [i for i in range(tensor.ndim) if i not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return F.transpose(tensor, axes=tuple(order))


def _arrays(data, function):
    """The arrays of a variadic call, which may come as one list."""
    if len(data) == 1 and isinstance(data[0], (list, tuple)):
        data = tuple(data[0])
    if not data:
        raise ArgumentError(f"{function}: at least one array is needed")
    return data


@public
def concat(*data, dim=1, out=None, name=None):
    """Arrays joined along an existing axis."""
    data = _arrays(data, "concat")
    axis = normalize_axis(dim, data[0].ndim)
    return give(F.concatenate(*data, axis=axis), out)


@public
def concatenate(arrays, axis=0, always_copy=True):
    """Arrays joined along ``axis``; one array alone is returned itself unless ``always_copy``."""
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return concat(*arrays, dim=axis)


@public
def stack(*data, axis=0, out=None, name=None):
    """Arrays of one shape joined along a new axis."""
    data = _arrays(data, "stack")
    axis = normalize_axis(axis, data[0].ndim + 1)
    return give(F.concatenate(*[expand_dims(x, axis) for x in data], axis=axis), out)


def _pieces(x, bounds, axis, squeeze_axis):
    items = [slice(None)] * x.ndim
    result = []
    for start, stop in zip(bounds, bounds[1:]):
        items[axis] = slice(start, stop)
        piece = F.copy(x[tuple(items)])
        if squeeze_axis:
            piece = squeeze(piece, axis)
        result.append(piece)
    return result


@public
def split(data, num_outputs, axis=1, squeeze_axis=False, out=None, name=None):
    """Equal parts along ``axis``: a list, or the one array if there is one part."""
    axis = normalize_axis(axis, data.ndim)
    n = data.shape[axis]
    if num_outputs < 1 or n % num_outputs:
        raise ShapeError(f"split: {n} along axis {axis} does not divide into {num_outputs} parts")
    if squeeze_axis and n != num_outputs:
        raise ShapeError(f"split: squeeze_axis needs {n} outputs along axis {axis}, not {num_outputs}")
    parts = _pieces(data, range(0, n + 1, n // num_outputs) if n else (0,) * (num_outputs + 1), axis, squeeze_axis)
    if out is not None:
        for part, target in zip(parts, out if isinstance(out, (list, tuple)) else [out]):
            give(part, target)
        return out
    return parts[0] if num_outputs == 1 else parts


@public
def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts along ``axis``: equal ones by their number, or those between the given indices."""
    axis = normalize_axis(axis, ary.ndim)
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or n % indices_or_sections:
            raise ShapeError("array split does not result in an equal division")
        step = n // indices_or_sections
        bounds = [i * step for i in range(indices_or_sections + 1)]
    elif isinstance(indices_or_sections, (tuple, list)):
        bounds = [0, *indices_or_sections, n]
    else:
        raise ShapeError("indices_or_sections must be either int, or tuple / set of ints")
    parts = _pieces(ary, bounds, axis, squeeze_axis)
    return parts[0] if len(parts) == 1 else parts


@public
def slice_(data, begin, end, step=(), out=None, name=None):
    """The region from ``begin`` to ``end`` (a tuple for the leading axes; None: the whole axis)."""
    begin = (begin,) if isinstance(begin, int) or begin is None else tuple(begin)
    end = (end,) if isinstance(end, int) or end is None else tuple(end)
    step = (step,) if isinstance(step, int) else tuple(step or (None,) * len(begin))
    if not len(begin) == len(end) == len(step) or len(begin) > data.ndim:
        raise ShapeError(f"slice: begin {begin}, end {end} and step {step} do not fit the shape {data.shape}")
    if 0 in step:
        raise MXNetError("slice: a step must not be 0")
    result = data[tuple(slice(b, e, s) for b, e, s in zip(begin, end, step))]
    return give(F.copy(result) if result._buffer is data._buffer else result, out)


@public
def slice_axis(data, axis, begin, end, out=None, name=None):
    """The part from ``begin`` to ``end`` (None: to the end) of one axis."""
    axis = normalize_axis(axis, data.ndim)
    n = data.shape[axis]
    start, stop = begin + n if begin < 0 else begin, n if end is None else end + n if end < 0 else end
    if not 0 <= start < stop <= n:
        raise ShapeError(f"slice_axis: {begin} to {end} is not a range of an axis of length {n}")
    result = data[(slice(None),) * axis + (slice(start, stop),)]
    return give(F.copy(result) if result._buffer is data._buffer else result, out)


@public
def slice_like(data, shape_like, axes=(), out=None, name=None):
    """The leading part of ``data`` with the lengths of ``shape_like`` along ``axes`` (all by default)."""
    axes = [normalize_axis(a, data.ndim) for a in integers(axes, "slice_like: axes")] or list(range(data.ndim))
    if max(axes, default=-1) >= shape_like.ndim:
        raise ShapeError(f"slice_like: shape_like of shape {shape_like.shape} has no axis {max(axes)}")
    items = [slice(None)] * data.ndim
    for a in axes:
        if shape_like.shape[a] > data.shape[a]:
            raise ShapeError(f"slice_like: axis {a} of {data.shape} is shorter than that of {shape_like.shape}")
        items[a] = slice(0, shape_like.shape[a])
    result = data[tuple(items)]
    return give(F.copy(result) if result._buffer is data._buffer else result, out)


@public
def flip(data, axis, out=None, name=None):
    """The order of elements reversed along ``axis`` (an int or a tuple)."""
    axes = [normalize_axis(a, data.ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    return give(data[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(data.ndim))], out)


@public
def tile(data, reps, out=None, name=None):
    """The array repeated as a whole."""
    return give(F.tile(data, reps=(reps,) if isinstance(reps, int) else tuple(reps)), out)


@public
def repeat(data, repeats, axis=None, out=None, name=None):
    """Every element repeated, along ``axis`` or in the flattened array."""
    return give(F.repeat(data, repeats=repeats, axis=axis), out)


@public
def pad(data, mode, pad_width, constant_value=0, out=None, name=None):
    """Padding of the axes after the first two of a 4- or 5-D array; ``pad_width``: before and after of each axis."""
    pad_width = tuple(pad_width)
    if data.ndim not in (4, 5) or len(pad_width) != 2 * data.ndim or any(pad_width[:4]):
        raise ShapeError("pad: the array must have 4 or 5 axes, and pad_width two numbers for each, of which the first "
                         "four are 0")
    pairs = tuple(zip(pad_width[::2], pad_width[1::2]))
    if mode not in ("constant", "edge", "reflect"):
        raise ArgumentError(f"pad: mode must be 'constant', 'edge' or 'reflect', not {mode!r}")
    attrs = {"constant_values": constant_value} if mode == "constant" else {}
    return give(F.pad(data, pad_width=pairs, mode=mode, **attrs), out)


@public
def broadcast_to(data, shape=(), out=None, name=None):
    """The array broadcast to ``shape``; 0 keeps an axis."""
    shape = integers(shape, "broadcast_to: shape")
    if len(shape) != data.ndim:
        raise ShapeError(f"broadcast_to: the shape {shape} must have as many axes as the array, {data.ndim}")
    return give(F.broadcast_to(data, shape=tuple(m if n == 0 else n for m, n in zip(data.shape, shape))), out)


@public
def broadcast_axis(data, axis=(), size=(), out=None, name=None):
    """Axes of length 1 broadcast to the given sizes."""
    axes, sizes = integers(axis, "broadcast_axis: axis"), integers(size, "broadcast_axis: size")
    if len(axes) != len(sizes):
        raise ShapeError(f"broadcast_axis: axis {axes} and size {sizes} must be equally many")
    shape = list(data.shape)
    for a, n in zip(axes, sizes):
        if shape[normalize_axis(a, data.ndim)] != 1:
            raise ShapeError(f"broadcast_axis: axis {a} of shape {data.shape} is not of length 1")
        shape[a] = n
    return give(F.broadcast_to(data, shape=tuple(shape)), out)


@public
def broadcast_like(lhs, rhs, lhs_axes=None, rhs_axes=None, out=None, name=None):
    """``lhs`` broadcast to the shape of ``rhs``, or only its ``lhs_axes`` to the lengths of ``rhs_axes``."""
    if (lhs_axes is None) != (rhs_axes is None):
        raise ArgumentError("broadcast_like: give both lhs_axes and rhs_axes, or none")
    if lhs_axes is not None:
        lhs_axes, rhs_axes = integers(lhs_axes, "lhs_axes"), integers(rhs_axes, "rhs_axes")
    if lhs_axes is not None and (not lhs_axes or len(lhs_axes) != len(rhs_axes)):
        raise ShapeError(f"broadcast_like: lhs_axes {lhs_axes} and rhs_axes {rhs_axes} must name equally many axes")
    if lhs_axes is None:
        shape = rhs.shape
    else:
        shape = list(lhs.shape)
        for a, b in zip(lhs_axes, rhs_axes):
            shape[normalize_axis(a, lhs.ndim)] = rhs.shape[normalize_axis(b, rhs.ndim)]
    return give(F.broadcast_to(lhs, shape=tuple(shape)), out)


@public
def reshape_like(lhs, rhs, lhs_begin=None, lhs_end=None, rhs_begin=None, rhs_end=None, out=None, name=None):
    """``lhs`` in the shape of ``rhs``, or the axes of one range replaced by those of another."""
    for name, x, begin, end in (("lhs", lhs, lhs_begin, lhs_end), ("rhs", rhs, rhs_begin, rhs_end)):
        if any(v is not None and not -x.ndim <= v <= x.ndim for v in (begin, end)):
            raise ShapeError(f"reshape_like: {name}_begin={begin}, {name}_end={end} is no range of the {x.ndim} axes "
                             f"of shape {x.shape}")
    lo, hi, _ = slice(lhs_begin, lhs_end).indices(lhs.ndim)
    first, last, _ = slice(rhs_begin, rhs_end).indices(rhs.ndim)
    shape = lhs.shape[:lo] + rhs.shape[first:last] + lhs.shape[hi:]
    return give(F.reshape(lhs, newshape=shape), out)


@public
def diag(data, k=0, axis1=0, axis2=1, out=None, name=None):
    """The k-th diagonal of an array, or a matrix with a vector on its k-th diagonal."""
    if data.ndim == 1:
        return give(F.diag(data, k=k), out)
    return give(F.diagonal(data, offset=k, axis1=axis1, axis2=axis2), out)


@public
def depth_to_space(data, block_size, out=None, name=None):
    """(n, c, h, w) to (n, c / block**2, h * block, w * block)."""
    n, c, h, w = data.shape
    b = block_size
    if b < 1 or c % (b * b):
        raise ShapeError(f"depth_to_space: {c} channels do not divide into blocks of {b} x {b}")
    x = F.reshape(data, newshape=(n, b, b, c // (b * b), h, w))
    x = F.transpose(x, axes=(0, 3, 4, 1, 5, 2))
    return give(F.reshape(x, newshape=(n, c // (b * b), h * b, w * b)), out)


@public
def space_to_depth(data, block_size, out=None, name=None):
    """(n, c, h, w) to (n, c * block**2, h / block, w / block)."""
    n, c, h, w = data.shape
    b = block_size
    if b < 1 or h % b or w % b:
        raise ShapeError(f"space_to_depth: {h} x {w} does not divide into blocks of {b} x {b}")
    x = F.reshape(data, newshape=(n, c, h // b, b, w // b, b))
    x = F.transpose(x, axes=(0, 3, 5, 1, 2, 4))
    return give(F.reshape(x, newshape=(n, c * b * b, h // b, w // b)), out)


@public
def shape_array(data, out=None, name=None):
    """The shape, as an int64 array."""
    from .creation import array
    return give(array(data.shape, ctx=data.device, dtype="int64"), out)


@public
def size_array(data, out=None, name=None):
    """The number of elements, as an int64 array of shape (1,)."""
    from .creation import array
    return give(array([data.size], ctx=data.device, dtype="int64"), out)


# -- indices and orders --------------------------------------------------------------------------------------------


def _along(data, axis):
    """``data`` flattened if ``axis`` is None, and the axis to sort along."""
    return (F.reshape(data, newshape=(data.size,)), 0) if axis is None else (data, normalize_axis(axis, data.ndim))


@public
def sort(data, axis=-1, is_ascend=True, out=None, name=None):
    """The values in order along ``axis``, or of the flattened array if it is None."""
    data, axis = _along(need_array(data, "sort"), axis)
    return give(F.sort(data, axis=axis, descending=not is_ascend), out)


@public
def argsort(data, axis=-1, is_ascend=True, dtype="float32", out=None, name=None):
    """The indices that sort ``data`` along ``axis``, or the flattened array if it is None."""
    data, axis = _along(need_array(data, "argsort"), axis)
    return give(F.cast(F.argsort(data, axis=axis, descending=not is_ascend), dtype=as_dtype(dtype).name), out)


def _integers(x):
    """Indices, which legacy code keeps in floats, as integers."""
    return x if x._spec.dtype.kind in "iu" else F.cast(x, dtype="int64")


@public
def onehot_encode(indices, out):
    """One-hot rows of ``indices`` written into ``out``."""
    return give(as_dtype_of(F.one_hot(_integers(indices), depth=out.shape[1]), out), out)


@public
def histogram(a, bins=10, range=None):
    """Counts and bin edges: of ``bins`` equal bins over ``range``, or of the bins between the edges ``bins``."""
    from .creation import array
    if isinstance(bins, Proxy):
        counts, edges = numpy.histogram(a.asnumpy(), bins.asnumpy())
        return [array(counts, ctx=a.device, dtype="int64"), array(edges, ctx=a.device, dtype=bins._spec.dtype)]
    if not isinstance(bins, int):
        raise ShapeError("bins argument should be either an integer or an NDArray")
    counts, edges = numpy.histogram(a.asnumpy(), bins, range)
    return [array(counts, ctx=a.device, dtype="float32" if range is None else "int64"),
            array(edges, ctx=a.device, dtype="float32")]


@public
def all_finite(data, init_output=True, out=None, name=None):
    """1 if every element is finite, else 0, as float32 of shape (1,)."""
    result = at_least_1d(F.cast(F.min(F.cast(F.isfinite(data), dtype="float32")), dtype="float32"))
    return give(result if init_output or out is None else result * out, out)


@public
def multi_all_finite(*data, num_arrays=1, init_output=True, out=None, name=None):
    """:func:`all_finite` of several arrays together."""
    _check_count(data, num_arrays, "multi_all_finite")
    result = all_finite(data[0])
    for x in data[1:]:
        result = result * all_finite(x)
    return give(result if init_output or out is None else result * out, out)


@public
def multi_sum_sq(*data, num_arrays, scale=1, out=None, name=None):
    """The sum of squares of each array, in one float32 array."""
    _check_count(data, num_arrays, "multi_sum_sq")
    sums = [at_least_1d(F.sum(F.square(F.cast(x, dtype="float32") * float(scale)))) for x in data]
    return give(concat(*sums, dim=0), out)


@public
def reset_arrays(*data, num_arrays, out=None, name=None):
    """Set all elements of the arrays to 0."""
    _check_count(data, num_arrays, "reset_arrays")
    for x in data:
        x[:] = 0
    return []


def _check_count(data, count, function):
    if len(data) != count:
        raise ArgumentError(f"{function}: num_arrays={count}, but {len(data)} arrays were given")


@public
def softmax_cross_entropy(data, label, out=None, name=None):
    """The sum over rows of the cross entropy between softmax(data) and the class ``label``, of shape (1,)."""
    picked = F.nd_pick(F.log_softmax(data, axis=-1), label, axis=1)
    return give(at_least_1d(-F.sum(picked)), out)




alias(BlockGrad="stop_gradient", Cast="cast", ElementWiseSum="add_n", Reshape="reshape",
      Flatten="flatten", SwapAxis="swapaxes", Concat="concat", SliceChannel="split", crop="slice", reverse="flip",
      Pad="pad", broadcast_axes="broadcast_axis")
