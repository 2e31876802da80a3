"""Region proposals of a network that scores anchor boxes and moves them (Ren et al. 2015, Faster R-CNN).

Here a box ends with the pixels of its right and bottom coordinate, so that its width is ``right - left + 1``.
"""
from __future__ import annotations

import itertools

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float, spec
from .registry import operator
from .softmax import wide
from .suppression import suppressed

_ATTRS = "rpn_pre_nms_top_n=6000, rpn_post_nms_top_n=300, threshold=0.7, rpn_min_size=16, " \
         "scales=(4.0, 8.0, 16.0, 32.0), ratios=(0.5, 1.0, 2.0), feature_stride=16, iou_loss=False"


def _infer(cls_prob, bbox_pred, im_info, rpn_pre_nms_top_n, rpn_post_nms_top_n, threshold, rpn_min_size, scales, ratios,
           feature_stride, iou_loss):
    if not isinstance(cls_prob, ArraySpec) or cls_prob.ndim != 4 or 0 in cls_prob.shape[1:]:
        raise ShapeError("proposals: cls_prob must be (images, 2 * anchors, height, width), not of shape "
                         f"{getattr(cls_prob, 'shape', ())}")
    n, channels, height, width = cls_prob.shape
    for name, x, shape in (("bbox_pred", bbox_pred, (n, 2 * channels, height, width)), ("im_info", im_info, (n, 3))):
        if not isinstance(x, ArraySpec) or x.shape != shape:
            raise ShapeError(f"proposals: {name} must have shape {shape} for cls_prob of shape {cls_prob.shape}, not "
                             f"{getattr(x, 'shape', ())}")
        if x.dtype != cls_prob.dtype or not is_float(x.dtype):
            raise ArgumentError(f"proposals: cls_prob and {name} must have one floating dtype, not {cls_prob.dtype} "
                                f"and {x.dtype}")
    if channels != 2 * len(_anchors(scales, ratios, feature_stride)):
        raise ShapeError(f"proposals: {len(scales)} scales and {len(ratios)} ratios need "
                         f"{2 * len(scales) * len(ratios)} channels, not those of cls_prob of shape {cls_prob.shape}")
    if rpn_post_nms_top_n < 0 or feature_stride < 1:
        raise ArgumentError(f"proposals: rpn_post_nms_top_n must not be negative and feature_stride positive, not "
                            f"{rpn_post_nms_top_n} and {feature_stride}")
    return tuple(spec((n * rpn_post_nms_top_n, size), cls_prob.dtype) for size in (5, 1))


def _anchors(scales, ratios, feature_stride):
    """Anchors about the first place: rounded sides of the stride's area in each ratio, times each scale."""
    if not isinstance(scales, tuple) or not isinstance(ratios, tuple) or not all(v > 0 for v in (*scales, *ratios)):
        raise ArgumentError(f"proposals: scales and ratios must be tuples of positive numbers, not {scales!r} and "
                            f"{ratios!r}")
    one, half = numpy.float32(1), numpy.float32(0.5)      # MXNet's roundings decide about halves: 23 * 0.5 among them
    result = []
    for ratio, scale in itertools.product(map(numpy.float32, ratios), map(numpy.float32, scales)):
        width = numpy.floor(numpy.sqrt(numpy.floor(feature_stride ** 2 / ratio)) + half) * scale
        height = numpy.floor(width / scale * ratio + half) * scale
        x, y = (float(half * (side - one)) for side in (width, height))
        result.append([-x, -y, x, y])
    middle = (feature_stride - 1) / 2
    return [[v + middle for v in box] for box in result]


def _moved(xp, anchors, offsets, iou_loss):
    """Anchors (..., 4) moved by predicted offsets: of the corners, or of the centre in sizes and of log sizes."""
    if iou_loss:
        return anchors + offsets
    size = anchors[..., 2:] - anchors[..., :2] + 1
    centre = anchors[..., :2] + (size - 1) / 2
    centre, half = offsets[..., :2] * size + centre, (xp.exp(offsets[..., 2:]) * size - 1) / 2
    return xp.concatenate([centre - half, centre + half], axis=-1)


def _boxes(xp, cls_prob, bbox_pred, im_info, rpn_min_size, scales, ratios, feature_stride, iou_loss):
    """(boxes (images, height * width * anchors, 4), their scores) of all anchors, within the images. Boxes that are too
    small, which are grown, or at a place beyond the image have the score -1."""
    n, channels, height, width = cls_prob.shape
    anchors, dtype = channels // 2, im_info.dtype
    real = (im_info[:, :2] / feature_stride).astype("int64")
    if n and bool((real > xp.asarray([height, width])).any()):
        raise ValueError(f"proposals: an image of im_info has more than {height} by {width} places of "
                         f"{feature_stride} pixels")
    y, x = (xp.arange(k).reshape(shape) for k, shape in ((height, (-1, 1, 1)), (width, (1, -1, 1))))
    base = xp.asarray(_anchors(scales, ratios, feature_stride), dtype)
    shift = xp.stack(xp.broadcast_arrays(x, y, x, y), axis=-1).astype(dtype) * feature_stride
    offsets = bbox_pred.reshape(n, anchors, 4, height, width).transpose(0, 3, 4, 1, 2)
    boxes = _moved(xp, base + shift, offsets, iou_loss)
    limit = xp.concatenate([im_info[:, 1::-1]] * 2, axis=1)[:, None, None, None] - 1
    boxes = xp.maximum(xp.minimum(boxes, limit), 0)
    least = (rpn_min_size * im_info[:, 2])[:, None, None, None]
    small = (boxes[..., 2:] - boxes[..., :2] + 1 < least[..., None]).any(axis=-1)
    half = xp.where(small, least / 2, 0)[..., None]
    boxes = xp.concatenate([boxes[..., :2] - half, boxes[..., 2:] + half], axis=-1)
    beyond = (y >= real[:, 0, None, None, None]) | (x >= real[:, 1, None, None, None])
    scores = xp.where(small | beyond, -1, cls_prob[:, anchors:].transpose(0, 2, 3, 1))
    return boxes.reshape(n, -1, 4), scores.reshape(n, -1)


def _survivors(xp, boxes, threshold, count):
    """The first ``count`` of the boxes (images, n, 4), best first, that no better one overlaps by more than
    ``threshold``, as places (images, count); repeated where there are fewer."""
    whole = boxes + xp.asarray([0, 0, 1, 1], boxes.dtype)
    size = 2 * count                                  # most often enough is left of few more boxes than are asked for
    while True:
        part = whole[:, :size]
        gone = suppressed(xp, part, xp.ones(part.shape[:2], bool), None, threshold, True)
        left = part.shape[1] - gone.sum(axis=1)
        if size >= boxes.shape[1] or bool((left >= count).all()):
            places = xp.argsort(gone, axis=1, kind="stable")
            return xp.take_along_axis(places, xp.arange(count) % left[:, None], axis=1)
        size *= 2


def _proposals(xp, cls_prob, bbox_pred, im_info, rpn_pre_nms_top_n, rpn_post_nms_top_n, threshold, rpn_min_size, scales,
               ratios, feature_stride, iou_loss):
    """The best boxes of each image, (images * rpn_post_nms_top_n, (image, left, top, right, bottom)), and their scores
    (images * rpn_post_nms_top_n, 1). No gradient. Source: Ren et al. 2015, Faster R-CNN.

    ``cls_prob`` (images, 2 * anchors, height, width): probabilities of background, then of an object; ``bbox_pred``
    (images, 4 * anchors, height, width): how each anchor is to be moved: centre in sizes and logarithms of sizes, or
    the corners with ``iou_loss``; ``im_info`` (images, (height, width, scale)). At each place, ``feature_stride``
    pixels apart, are anchors of all ``scales`` in all ``ratios`` (height over width). Boxes are cut to the image;
    those with a side below ``rpn_min_size * scale`` come last. Of the ``rpn_pre_nms_top_n`` (0: all) best, those remain
    that no better one overlaps by more than ``threshold``; if these are too few, they are repeated.
    """
    boxes, scores = _boxes(xp, wide(xp, cls_prob), wide(xp, bbox_pred), wide(xp, im_info), rpn_min_size, scales, ratios,
                           feature_stride, iou_loss)
    n, post = scores.shape[0], rpn_post_nms_top_n
    best = xp.argsort(-scores, axis=1, kind="stable")
    if rpn_pre_nms_top_n > 0:
        best = best[:, :rpn_pre_nms_top_n]
    boxes = xp.take_along_axis(boxes, best[..., None], axis=1)
    kept = _survivors(xp, boxes, threshold, post) if n and post else xp.zeros((n, post), "int64")
    result = xp.empty((n, post, 5), boxes.dtype)
    result[..., 0] = xp.arange(n)[:, None]
    result[..., 1:] = xp.take_along_axis(boxes, kept[..., None], axis=1)
    scores = xp.take_along_axis(scores, xp.take_along_axis(best, kept, axis=1), axis=1)
    return result.reshape(n * post, 5), scores.reshape(n * post, 1)


operator("proposals", f"cls_prob, bbox_pred, im_info, {_ATTRS}", inputs="cls_prob, bbox_pred, im_info", infer=_infer,
         kernel=_proposals)
