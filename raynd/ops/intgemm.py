"""Products of float matrices by way of int8, in the interface of intgemm (Bogoychev et al., arXiv 2010.08518).

One number, the largest absolute value, stands for 127 on each side; -128 is not used. Prepared weights are int8 rows as
they are: the products of ``integer_products.py`` need no layout of their own, so they may have any number of rows and
columns, and are the same on every machine. The operators have no gradients.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from . import integer_products
from .dense import out_shape, rows_of
from .quantization import RANGE, check_array, check_ranges, choice, levels, scaled
from .registry import operator


def _infer_maxabsolute(data):
    check_array("intgemm_maxabsolute", "data", data, ("float32",))
    return RANGE


def _largest(xp, data):
    """The largest absolute value of float32 data as float32 of shape (1,); 0 if there is none."""
    if not data.size:
        return xp.zeros(1, "float32")
    return xp.maximum(-data.min(), data.max()).reshape(1)


operator("intgemm_maxabsolute", "data, out=None", infer=_infer_maxabsolute, kernel=_largest,
         npx="intgemm_maxabsolute", nd="_contrib_intgemm_maxabsolute")


def _infer_prepare_data(data, maxabs):
    check_array("intgemm_prepare_data", "data", data, ("float32",))
    check_ranges("intgemm_prepare_data", maxabs=maxabs)
    return spec(data.shape, "int8")


def _prepare_data(xp, data, maxabs):
    """float32 data as int8: ``data * 127 / maxabs``, rounded, from -127 to 127. ``maxabs``: float32 of shape (1,)."""
    x = scaled(xp, data, levels(xp, 127, maxabs.reshape(())))
    xp.rint(x, out=x)
    xp.fmax(x, -127.0, out=x)
    return xp.fmin(x, 127.0, out=x).astype("int8")


operator("intgemm_prepare_data", "data, maxabs, out=None", infer=_infer_prepare_data, kernel=_prepare_data,
         npx="intgemm_prepare_data", nd="_contrib_intgemm_prepare_data")


def _infer_prepare_weight(weight, maxabs, already_quantized):
    function = "intgemm_prepare_weight"
    check_array(function, "weight", weight, ("int8",) if already_quantized else ("float32",))
    if not already_quantized:
        check_ranges(function, maxabs=maxabs)
    elif maxabs is not None:
        raise ArgumentError(f"{function}: maxabs scales float weights; with already_quantized=True leave it out")
    if weight.ndim < 2:
        raise ShapeError(f"{function}: weight must have at least 2 axes (outputs, inputs), not shape {weight.shape}")
    return spec(weight.shape, "int8")


def _prepare_weight(xp, weight, maxabs, already_quantized):
    """A weight matrix (outputs, inputs) for :func:`intgemm_fully_connected`: float32, which is quantized as by
    ``intgemm_prepare_data``, or int8 with ``already_quantized``."""
    return weight.copy() if already_quantized else _prepare_data(xp, weight, maxabs)


operator("intgemm_prepare_weight", "weight, maxabs=None, already_quantized=False, out=None", inputs="weight, maxabs",
         optional=("maxabs",), infer=_infer_prepare_weight, kernel=_prepare_weight, npx="intgemm_prepare_weight",
         nd="_contrib_intgemm_prepare_weight")


def _infer_take_weight(weight, indices):
    function = "intgemm_take_weight"
    check_array(function, "weight", weight, ("int8",))
    check_array(function, "indices", indices, ("int32", "int64"))
    if weight.ndim != 2 or indices.ndim != 1:
        raise ShapeError(f"{function}: weight must have 2 axes and indices 1, not shapes {weight.shape} and "
                         f"{indices.shape}")
    return spec((indices.shape[0], weight.shape[1]), "int8")


def _take_weight(xp, weight, indices):
    """The outputs (rows) ``indices`` of a prepared weight matrix; an index out of bounds is an error."""
    if indices.size and not bool(((indices >= 0) & (indices < weight.shape[0])).all()):
        raise IndexError(f"intgemm_take_weight: an index is out of bounds for {weight.shape[0]} rows")
    return weight[indices]


operator("intgemm_take_weight", "weight, indices, out=None", infer=_infer_take_weight, kernel=_take_weight,
         npx="intgemm_take_weight", nd="_contrib_intgemm_take_weight")


def _sorted_out(no_bias, out_type, *given):
    """(scaling, bias), None for one that the call does not have; as in MXNet, such a one may be left out, so that a
    bias stands in the place of scaling."""
    arrays = [x for x in given if x is not None]
    names = ["scaling"] * (out_type == "float32") + ["bias"] * (not no_bias)
    if len(arrays) != len(names):
        raise ArgumentError(f"intgemm_fully_connected: with out_type={out_type!r} and no_bias={no_bias} it takes "
                            f"{', '.join(['data', 'weight', *names])}; got {len(arrays) + 2} arrays")
    found = dict(zip(names, arrays))
    return found.get("scaling"), found.get("bias")


def _infer_fully_connected(data, weight, scaling, bias, num_hidden, no_bias, flatten, out_type):
    function = "intgemm_fully_connected"
    choice(function, "out_type", out_type, ("float32", "int32"))
    check_array(function, "data", data, ("float32", "int8"))
    check_array(function, "weight", weight, ("int8",))
    scaling, bias = _sorted_out(no_bias, out_type, scaling, bias)
    if scaling is not None:
        check_ranges(function, scaling=scaling)
    if not data.shape:
        raise ShapeError(f"{function}: data needs at least one axis")
    needed = num_hidden, rows_of(data.shape, flatten)[1]
    if weight.shape != needed:
        raise ShapeError(f"{function}: weight must have shape (num_hidden, inputs) = {needed} for data of shape "
                         f"{data.shape} (flatten={flatten}), not {weight.shape}")
    if bias is not None:
        check_array(function, "bias", bias, (out_type,))
        if bias.shape not in ((num_hidden,), (num_hidden, 1)):
            raise ShapeError(f"{function}: bias must have shape ({num_hidden},), not {bias.shape}")
    return spec(out_shape(data.shape, num_hidden, flatten), out_type)


def _fully_connected(xp, data, weight, scaling, bias, num_hidden, no_bias, flatten, out_type):
    """``data @ weight.T * scaling + bias``, multiplied in int8 and added up in int32.

    data: int8 of ``intgemm_prepare_data``, or float32, which is quantized by its largest absolute value m, and the
    products multiplied by m / 127. weight (num_hidden, inputs): of ``intgemm_prepare_weight``. out_type 'float32' needs
    scaling, float32 of shape (1,); 'int32' has none, and gives the products of the integers. bias, of the dtype of the
    result, is absent with ``no_bias``. With ``flatten`` all axes of data but the first count as one.
    """
    scaling, bias = _sorted_out(no_bias, out_type, scaling, bias)
    if data.dtype.kind == "f":
        largest = _largest(xp, data)
        data = _prepare_data(xp, data, largest)
        if scaling is not None:
            scaling = scaling / levels(xp, 127, largest.reshape(()))
    y = integer_products.product(xp, data.reshape(rows_of(data.shape, flatten)), weight)
    if scaling is not None:
        y = scaled(xp, y, scaling.reshape(()))
    if bias is not None:
        y += bias.reshape(-1)
    return y.reshape(out_shape(data.shape, num_hidden, flatten))


_INPUTS = "data, weight, scaling, bias"
operator("intgemm_fully_connected", "data, weight, scaling=None, bias=None, num_hidden=None, no_bias=False, "
         "flatten=True, out_type='float32', out=None", inputs=_INPUTS, optional=("scaling", "bias"),
         infer=_infer_fully_connected, kernel=_fully_connected, npx="intgemm_fully_connected",
         nd="_contrib_intgemm_fully_connected")
