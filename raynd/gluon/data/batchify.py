"""How the samples of a batch become arrays."""
from __future__ import annotations

import math
import warnings

import numpy

from ... import numpy as mxnp
from ...device import Device, current_device
from ...dispatch import Proxy
from ...errors import ArgumentError, ShapeError
from ...ndarray.array import NDArray, from_numpy, ndarray
from ...util import is_np_array

__all__ = ["Stack", "Pad", "Append", "Group", "AsList"]


def to_array(values, shared=False):
    """An array of NumPy values, of their dtype, staged for the current device (``shared``: for cpu_shared(0))."""
    values = numpy.asarray(values)
    if values.dtype.kind not in "biufc" and values.dtype.name != "bfloat16":
        raise ArgumentError(f"samples of type {values.dtype} cannot be made into an array; give the loader a "
                            "batchify_fn")
    return from_numpy(values, Device("cpu_shared", 0) if shared else current_device(),
                      ndarray if is_np_array() else NDArray)


class _Batchify:
    """Base of batchify functions."""

    def __mx_handle__(self):
        """MXNet's loader written in C++ takes this; here it is the function itself."""
        return self


class Stack(_Batchify):
    """Samples of one shape along a new first axis; parts of tuple samples each for themselves (a list).

    ``use_shared_mem``: put the batch on cpu_shared(0), which is the memory of cpu(0).
    """

    def __init__(self, use_shared_mem=False):
        self._use_shared_mem = use_shared_mem

    def __call__(self, data):
        first = data[0]
        if isinstance(first, Proxy):
            return mxnp.stack(list(data))
        if isinstance(first, (tuple, list)):
            return [self(part) for part in zip(*data)]
        shapes = {numpy.shape(x) for x in data}
        if len(shapes) > 1:
            raise ShapeError(f"samples of shapes {sorted(shapes)} cannot be stacked; use Pad, or a batchify_fn")
        return to_array(numpy.asarray(data), self._use_shared_mem)


class Pad(_Batchify):
    """Samples of different sizes, each axis padded with ``val`` (0) to the largest, rounded up to a multiple of
    ``round_to``."""

    def __init__(self, val=None, dtype=None, round_to=None, use_shared_mem=False):
        self._pad_val, self._dtype = 0 if val is None else val, dtype
        self._round_to, self._use_shared_mem, self._warned = round_to, use_shared_mem, False

    def __call__(self, data):
        if isinstance(data[0], tuple):
            raise NotImplementedError("Pad() does not support multiple items, use Group(Pad(), Pad(), ...) instead")
        if isinstance(data[0], Proxy) and not self._warned:
            self._warned = True
            warnings.warn("Using Pad with NDArrays is discouraged for speed reasons. Instead you should pad your data "
                          "while it is still a list and before converting to an NDArray. Alternatively you can "
                          "consider inputting a numpy.ndarray.", stacklevel=2)
        arrays = [x.asnumpy() if isinstance(x, Proxy) else numpy.asarray(x) for x in data]
        if len({x.ndim for x in arrays}) > 1:
            raise ShapeError(f"samples with {sorted({x.ndim for x in arrays})} axes cannot be padded to one shape")
        sizes = [max(n) for n in zip(*[x.shape for x in arrays])]
        if self._round_to is not None:
            sizes = [self._round_to * math.ceil(n / self._round_to) for n in sizes]
        result = numpy.full((len(arrays), *sizes), self._pad_val, self._dtype or arrays[0].dtype)
        for i, x in enumerate(arrays):
            result[(i, *[slice(n) for n in x.shape])] = x
        return to_array(result, self._use_shared_mem)


class Append(_Batchify):
    """A list of arrays, one a sample, with a new axis of size 1 at ``batch_axis`` if ``expand``."""

    def __init__(self, expand=True, batch_axis=0, use_shared_mem=False):
        self._expand, self._batch_axis, self._use_shared_mem = expand, batch_axis, use_shared_mem

    def __call__(self, data):
        arrays = [x if isinstance(x, Proxy) else to_array(x, self._use_shared_mem) for x in data]
        return [mxnp.expand_dims(x, self._batch_axis) for x in arrays] if self._expand else arrays


class Group(_Batchify):
    """One batchify function for each part of the samples."""

    def __init__(self, fn, *args):
        if isinstance(fn, (list, tuple)):
            assert not args, ("Input pattern not understood. The input of Group can be Group(A, B, C) or Group([A, B, "
                              f"C]) or Group((A, B, C)). Received fn={fn}, args={args}")
            self._fn = tuple(fn)
        else:
            self._fn = (fn, *args)
        for i, f in enumerate(self._fn):
            assert callable(f), f"Batchify functions must be callable! type(fn[{i}]) = {type(f)}"

    def __call__(self, data):
        assert len(data[0]) == len(self._fn), (
            f"The number of attributes in each data sample should contains {len(self._fn)} elements")
        return tuple([f([sample[i] for sample in data]) for i, f in enumerate(self._fn)])


class AsList(_Batchify):
    """The samples as they are, in a list."""

    def __call__(self, data):
        return list(data)


def rows(array, indices):
    """The rows ``indices`` of an array, in one operation."""
    if isinstance(array, Proxy):
        return mxnp.take(array, from_numpy(numpy.asarray(indices, dtype="int64"), array.device), axis=0)
    return to_array(array[numpy.asarray(indices)])
