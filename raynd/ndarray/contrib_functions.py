"""Functions of ``mx.nd.contrib`` and ``mx.nd._internal`` that are made of several operators."""
from __future__ import annotations

import math

from ..dispatch import F
from ..errors import ArgumentError, ShapeError
from ..random import draw
from ..spec import as_shape
from .array import NDArray
from .legacy import at_least_1d, coded_shape, give, need_array
from .neural import run, several
from .operators import reshape_target
from .random import uniform


def isnan(data):
    """1 where an element is not a number, else 0, in the dtype of ``data``."""
    return F.cast(F.isnan(data), dtype=data._spec.dtype.name)


def isinf(data):
    """1 where an element is infinite, else 0, in the dtype of ``data``."""
    return F.cast(F.isinf(data), dtype=data._spec.dtype.name)


def isfinite(data):
    """1 where an element is finite, else 0, in the dtype of ``data``."""
    return F.cast(F.isfinite(data), dtype=data._spec.dtype.name)


def boolean_mask(data, index, axis=0, out=None, name=None):
    """The rows of ``data`` whose ``index`` is not 0; waits for the count."""
    if axis != 0:
        raise NotImplementedError("boolean_mask: axis must be 0")
    return give(data[F.cast(index, dtype="bool").as_np_ndarray()], out)


def rand_zipfian(true_classes, num_sampled, range_max, ctx=None):
    """``num_sampled`` log-uniform classes below ``range_max``: int64 classes, and the expected counts of
    ``true_classes`` and of the sampled ones (float64)."""
    log_range = math.log(range_max + 1)
    u = uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=ctx or true_classes.device)
    sampled = F.mod(F.cast(F.exp(u), dtype="int64") - 1, range_max)

    def expected(classes):
        c = F.cast(classes, dtype="float64")
        return F.log((c + 2.0) / (c + 1.0)) * (num_sampled / log_range)
    return sampled, expected(true_classes), expected(sampled)


def sample_unique_zipfian(range_max, shape=None, out=None, name=None):
    """For each row of ``shape`` (rows, count): distinct log-uniform classes, and the number of tries it took."""
    return list(draw("sample_unique_zipfian", (), {"range_max": int(range_max), "shape": as_shape(shape)},
                     cls=NDArray))


def quadratic(data, a=0, b=0, c=0, out=None, name=None):
    """``a * x**2 + b * x + c``."""
    return give((data * float(a) + float(b)) * data + float(c), out)


def div_sqrt_dim(data, out=None, name=None):
    """The array divided by the square root of the length of its last axis."""
    if not need_array(data, "div_sqrt_dim").shape:
        raise ShapeError("div_sqrt_dim: data needs at least one axis")
    return give(data / math.sqrt(max(data.shape[-1], 1)), out)


def dynamic_reshape(data, shape, out=None, name=None):
    """The array in the shape whose numbers (or reshape codes) are the elements of the array ``shape``; waits for it."""
    codes = [int(n) for n in shape.asnumpy().ravel()]
    return give(F.reshape(data, newshape=coded_shape(data.shape, codes)), out)


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=True, out=None, name=None):
    """1 if all elements of ``a`` and ``b`` are close, else 0, as float32 of shape (1,)."""
    result = F.allclose(a, b, rtol=float(rtol), atol=float(atol), equal_nan=bool(equal_nan))
    return give(at_least_1d(F.cast(result, dtype="float32")), out)


def getnnz(data, axis=None, out=None, name=None):
    """How many elements are not zero, in all or along ``axis``; int64."""
    result = F.sum(F.cast(F.not_equal(data, 0), dtype="int64"), axis=axis)
    return give(at_least_1d(result), out)


def quantized_reshape(data, min_data, max_data, shape=(), reverse=False, target_shape=(), keep_highest=False, out=None,
                      name=None):
    """A copy of quantized data in another shape, given in the codes of ``nd.reshape``, and its range: (integers, low,
    high)."""
    new = reshape_target(need_array(data, "quantized_reshape").shape, shape, reverse, target_shape, keep_highest)
    return run("quantized_reshape", (data, min_data, max_data), out, newshape=new)


def multi_proposal(cls_prob, bbox_pred, im_info, rpn_pre_nms_top_n=6000, rpn_post_nms_top_n=300, threshold=0.7,
                   rpn_min_size=16, scales=(4.0, 8.0, 16.0, 32.0), ratios=(0.5, 1.0, 2.0), feature_stride=16,
                   output_score=False, iou_loss=False, out=None, name=None):
    """The best boxes of a region proposal network for each image (the operator ``proposals``); with ``output_score``
    also their scores."""
    scales, ratios = (tuple(v) if isinstance(v, (tuple, list)) else (v,) for v in (scales, ratios))
    result = run("proposals", (cls_prob, bbox_pred, im_info), rpn_pre_nms_top_n=rpn_pre_nms_top_n,
                 rpn_post_nms_top_n=rpn_post_nms_top_n, threshold=threshold, rpn_min_size=rpn_min_size,
                 scales=scales, ratios=ratios, feature_stride=feature_stride, iou_loss=bool(iou_loss))
    return several(result, output_score, out)


def proposal(cls_prob, bbox_pred, im_info, *args, **kwargs):
    """:func:`multi_proposal` of a single image."""
    if need_array(cls_prob, "Proposal").shape[:1] != (1,):
        raise ShapeError(f"Proposal takes one image, not cls_prob of shape {cls_prob.shape}; use MultiProposal")
    return multi_proposal(cls_prob, bbox_pred, im_info, *args, **kwargs)


def crop(*data, offset=(0, 0), h_w=(0, 0), center_crop=False, num_args=None, out=None, name=None):
    """A part of images (N, C, H, W): of the size of a second array's images, or ``h_w``, at ``offset`` (both height,
    width) or, with ``center_crop``, in the middle."""
    if len(data) not in (1, 2) or num_args not in (None, len(data)):
        raise ArgumentError(f"Crop takes one or two arrays, and num_args={num_args} says otherwise of {len(data)}")
    if any(need_array(x, "Crop").ndim != 4 for x in data):
        raise ShapeError(f"Crop: arrays must be (N, C, H, W), not of shapes {[x.shape for x in data]}")
    x, items, size = data[0], [(None, None, None)] * 2, tuple(h_w) if len(data) == 1 else data[1].shape[2:]
    for n, length, start in zip(x.shape[2:], size, offset):
        start = (n - length) // 2 if center_crop else start
        if not (1 <= length and 0 <= start <= n - length):
            raise ShapeError(f"Crop: a part of {size[0]} by {size[1]} pixels at offset {tuple(offset)} does not lie in "
                             f"images of shape {x.shape}")
        items.append((start, start + length, None))
    return give(F.basic_index(x, items=tuple(items), shape=(*x.shape[:2], *size)), out)


def _region(x, begin, end, step):
    step = step or (None,) * len(begin)
    return tuple(slice(b, e, s) for b, e, s in zip(begin, end, step, strict=True))


def slice_assign(lhs, rhs, begin, end, step=(), out=None, name=None):
    """``lhs`` with a region replaced by ``rhs``: a copy, or in place with ``out=lhs``."""
    result = lhs.copy() if out is None else out
    if out is not None and out is not lhs:
        out[:] = lhs
    result[_region(lhs, begin, end, step)] = rhs
    return result


def slice_assign_scalar(data, scalar=0, begin=(), end=(), step=(), out=None, name=None):
    """:func:`slice_assign` of a number."""
    return slice_assign(data, scalar, begin, end, step, out)


FUNCTIONS = {f.__name__: f for f in (isnan, isinf, isfinite, boolean_mask, rand_zipfian, uniform, quadratic,
                                     div_sqrt_dim, dynamic_reshape, allclose, getnnz, quantized_reshape)}
FUNCTIONS |= {"MultiProposal": multi_proposal, "Proposal": proposal}
ND_FUNCTIONS = {"quantized_reshape": quantized_reshape, "Crop": crop}
INTERNAL = {"_sample_unique_zipfian": sample_unique_zipfian, "_slice_assign": slice_assign,
            "_crop_assign": slice_assign, "_slice_assign_scalar": slice_assign_scalar,
            "_crop_assign_scalar": slice_assign_scalar}
METHODS = {
    "slice_assign": lambda self, rhs, begin, end, step: slice_assign(self, rhs, begin, end, step, self),
    "slice_assign_scalar": lambda self, value, begin, end, step: slice_assign(self, value, begin, end, step, self)}
