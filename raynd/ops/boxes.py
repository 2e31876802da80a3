"""Boxes: their formats, how much they overlap, and their encoding as offsets from anchors.

Boxes are (left, top, right, bottom) in 'corner' and (x, y, width, height) in 'center' format.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .registry import operator
from .softmax import wide

_FORMATS = ("corner", "center")


def check_format(name, value):
    if value not in _FORMATS:
        raise ArgumentError(f"{name} must be 'corner' or 'center', not {value!r}")


def to_corner(xp, boxes, box_format):
    """Boxes (..., 4) in corner format."""
    if box_format == "corner":
        return boxes
    half = boxes[..., 2:] / 2
    return xp.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)


def to_center(xp, boxes):
    """Corner boxes (..., 4) in center format."""
    return xp.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], axis=-1)


def iou(xp, a, b):
    """Intersection over union, element by element, of boxes a and b (..., 4) in corner format, which broadcast."""
    w, h = (xp.minimum(a[..., i + 2], b[..., i + 2]) - xp.maximum(a[..., i], b[..., i]) for i in (0, 1))
    inter = xp.maximum(w, 0, out=w)
    inter *= xp.maximum(h, 0, out=h)
    union = _area(xp, a) + _area(xp, b)
    union -= inter
    inter *= union > 0
    return xp.divide(inter, xp.maximum(union, xp.finfo(union.dtype).tiny, out=union), out=inter)


def _area(xp, box):
    w, h = (xp.maximum(box[..., i + 2] - box[..., i], 0) for i in (0, 1))
    return w * h


def overlaps(xp, a, b):
    """Intersection over union of all pairs: a (..., m, 4), b (..., n, 4) in corner format give (..., m, n)."""
    return iou(xp, a[..., :, None, :], b[..., None, :, :])


# -- box_iou, box_encode, box_decode -------------------------------------------------------------------------------


def _infer_iou(lhs, rhs, format):
    check_format("box_iou: format", format)
    for s in (lhs, rhs):
        if not s.shape or s.shape[-1] != 4:
            raise ShapeError(f"box_iou: the last axis must hold 4 coordinates, got shape {s.shape}")
    return spec(lhs.shape[:-1] + rhs.shape[:-1], lhs.dtype)


def _box_iou(xp, lhs, rhs, format):
    """Intersection over union of every box of ``lhs`` (..., 4) with every one of ``rhs`` (..., 4)."""
    lhs_boxes, rhs_boxes = (to_corner(xp, wide(xp, a).reshape(-1, 4), format) for a in (lhs, rhs))
    result = overlaps(xp, lhs_boxes, rhs_boxes)
    return result.reshape(lhs.shape[:-1] + rhs.shape[:-1])


operator("box_iou", "lhs, rhs, format='corner', out=None", inputs="lhs, rhs", infer=_infer_iou, kernel=_box_iou,
         npx="box_iou", nd="_contrib_box_iou")


def _box_encode(xp, samples, matches, anchors, refs, means, stds):
    """Training targets of anchors (b, n, 4) matched with reference boxes (b, m, 4), and their masks (b, n, 4).

    ``samples`` (b, n): 1 positive, else the target is 0. ``matches`` (b, n): the index of the reference. Targets are
    offsets of centres over the anchor's size and logarithms of relative sizes, minus ``means`` over ``stds``.
    """
    matched = xp.take_along_axis(refs, matches.astype("int64")[..., None], axis=1)
    g, a = to_center(xp, matched), to_center(xp, anchors)
    targets = xp.concatenate([(g[..., :2] - a[..., :2]) / a[..., 2:], xp.log(g[..., 2:] / a[..., 2:])], axis=-1)
    mask = xp.broadcast_to((samples > 0.5)[..., None], targets.shape)
    return xp.where(mask, (targets - means) / stds, 0), mask.astype(anchors.dtype)


def _infer_encode(samples, matches, anchors, refs, means, stds):
    if len(anchors.shape) != 3 or samples.shape != anchors.shape[:2] or matches.shape != samples.shape \
            or len(refs.shape) != 3 or refs.shape[0] != anchors.shape[0]:
        raise ShapeError(f"box_encode: samples {samples.shape}, matches {matches.shape}, anchors {anchors.shape} and "
                         f"refs {refs.shape} do not fit; needed are (b, n), (b, n), (b, n, 4) and (b, m, 4)")
    return anchors, anchors


operator("box_encode", "samples, matches, anchors, refs, means, stds, out=None", infer=_infer_encode,
         kernel=_box_encode, npx="box_encode", nd="_contrib_box_encode")


def _box_decode(xp, data, anchors, std0, std1, std2, std3, clip, format):
    """Boxes in corner format from predicted offsets ``data`` (b, n, 4) and ``anchors`` (1, n, 4); ``std``: the factors
    that box_encode divided by; ``clip`` > 0 bounds the predicted logarithms of sizes."""
    a = anchors if format == "center" else to_center(xp, anchors)
    t = data * xp.asarray([std0, std1, std2, std3], data.dtype)
    sizes = t[..., 2:] if clip <= 0 else xp.minimum(t[..., 2:], clip)
    half = xp.exp(sizes) * a[..., 2:] / 2
    centre = t[..., :2] * a[..., 2:] + a[..., :2]
    return xp.concatenate([centre - half, centre + half], axis=-1)


def _infer_decode(data, anchors, std0, std1, std2, std3, clip, format):
    check_format("box_decode: format", format)
    if len(data.shape) != 3 or anchors.shape != (1, *data.shape[1:]) or data.shape[2] != 4:
        raise ShapeError(f"box_decode: data {data.shape} and anchors {anchors.shape} do not fit; needed are (b, n, 4) "
                         "and (1, n, 4)")
    return data


operator("box_decode", "data, anchors, std0=1.0, std1=1.0, std2=1.0, std3=1.0, clip=-1.0, format='center', out=None",
         inputs="data, anchors", infer=_infer_decode, kernel=_box_decode, npx="box_decode", nd="_contrib_box_decode")
