"""Detection by anchor boxes (SSD, Liu et al. 2016): anchors of a feature map, their training targets, detections."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .boxes import overlaps, to_center
from .matching import greedy_matching
from .parallel import run_chunks
from .registry import operator
from .softmax import wide
from .suppression import suppressed
from .topk import top_order


def _prior_count(sizes, ratios):
    return len(sizes) + len(ratios) - 1


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def _infer_prior(data, sizes, ratios, clip, steps, offsets):
    if len(data.shape) < 4:
        raise ShapeError(f"multibox_prior: data must have 4 axes, not shape {data.shape}")
    sizes, ratios = _as_tuple(sizes), _as_tuple(ratios)
    if not sizes or not ratios or any(v <= 0 for v in (*sizes, *ratios)):
        raise ShapeError(f"multibox_prior: sizes and ratios must be positive, got {sizes} and {ratios}")
    if len(_as_tuple(steps)) != 2 or len(_as_tuple(offsets)) != 2:
        raise ShapeError(f"multibox_prior: steps and offsets need 2 numbers, (y, x), got {steps} and {offsets}")
    if steps[0] * steps[1] < 0:
        raise ArgumentError(f"multibox_prior: give both steps or none, not {steps}")
    if 0 in data.shape[2:4]:
        raise ShapeError(f"multibox_prior: data of shape {data.shape} has no places for boxes")
    return spec((1, data.shape[2] * data.shape[3] * _prior_count(sizes, ratios), 4), data.dtype)


def _multibox_prior(xp, data, sizes, ratios, clip, steps, offsets):
    """Anchor boxes (1, height * width * (sizes + ratios - 1), 4) for a feature map (n, c, height, width).

    At each place: every size with the first ratio, then the first size with each other ratio. ``steps`` (y, x):
    distance of places, 1 / height and 1 / width unless both are positive; ``offsets`` (y, x): their start in steps;
    ``clip``: to [0, 1].
    """
    sizes, ratios = _as_tuple(sizes), _as_tuple(ratios)
    height, width = data.shape[2:4]
    step_y, step_x = steps if min(steps) > 0 else (1 / height, 1 / width)
    pairs = [(s, ratios[0]) for s in sizes] + [(sizes[0], r) for r in ratios[1:]]
    half = xp.asarray([[s * height / width * math.sqrt(r) / 2, s / math.sqrt(r) / 2] for s, r in pairs])
    y = (xp.arange(height) + offsets[0]) * step_y
    x = (xp.arange(width) + offsets[1]) * step_x
    centres = xp.stack(xp.broadcast_arrays(x[None, :], y[:, None]), axis=-1)[:, :, None, :]
    boxes = xp.concatenate([centres - half, centres + half], axis=-1).reshape(1, -1, 4)
    return xp.clip(boxes, 0, 1) if clip else boxes


operator("multibox_prior", "data, sizes=(1.0,), ratios=(1.0,), clip=False, steps=(-1.0, -1.0), offsets=(0.5, 0.5), "
         "out=None", inputs="data", infer=_infer_prior, kernel=_multibox_prior, npx="multibox_prior",
         nd="_contrib_MultiBoxPrior")


def _infer_target(anchor, label, cls_pred, overlap_threshold, ignore_label, negative_mining_ratio,
                  negative_mining_thresh, minimum_negative_samples, variances):
    if len(anchor.shape) != 3 or anchor.shape[0] != 1 or anchor.shape[2] != 4:
        raise ShapeError(f"multibox_target: anchor must have shape (1, anchors, 4), not {anchor.shape}")
    if len(label.shape) != 3 or label.shape[2] < 5:
        raise ShapeError(f"multibox_target: label must have shape (batch, objects, 5 or more), not {label.shape}")
    if len(cls_pred.shape) != 3 or cls_pred.shape[0] != label.shape[0] or cls_pred.shape[2] != anchor.shape[1]:
        raise ShapeError(f"multibox_target: cls_pred must have shape (batch, classes, anchors), not {cls_pred.shape}")
    if len(variances) != 4:
        raise ShapeError(f"multibox_target: 4 variances are needed, got {variances}")
    n, a = label.shape[0], anchor.shape[1]
    return spec((n, a * 4), anchor.dtype), spec((n, a * 4), anchor.dtype), spec((n, a), anchor.dtype)


_CHUNK_BYTES = 1 << 20             # of what is computed for some images at once


def _by_images(xp, count, bytes_each, function):
    """Call ``function(first, last)`` for parts of ``count`` images that fit the cache, in threads."""
    step = max(1, _CHUNK_BYTES // max(bytes_each, 1))
    run_chunks(xp, [(i, min(i + step, count)) for i in range(0, count, step)], lambda: function)


def _match(xp, boxes, objects, real, threshold):
    """(object of each anchor, its overlap, positive or not), each (n, anchors), for anchors ``boxes`` (a, 4) and
    ``objects`` (n, m, 4), of which those ``real`` (n, m) count: first each object takes its best free anchor, best pair
    first; then every other anchor takes its best object, positive above the threshold."""
    n, m, a = *real.shape, boxes.shape[0]
    ious = xp.empty((n, m, a), boxes.dtype)
    best, overlap = xp.empty((n, a), "int64"), xp.empty((n, a), boxes.dtype)

    def compare(first, last):
        part = overlaps(xp, objects[first:last], boxes)
        part[~real[first:last]] = -1
        ious[first:last] = part
        overlap[first:last] = part.max(axis=1)
        best[first:last] = (part == overlap[first:last, None]).argmax(axis=1)
    _by_images(xp, n, m * a * boxes.dtype.itemsize, compare)
    positive = overlap > threshold if threshold > 0 else xp.zeros((n, a), bool)
    chosen = greedy_matching(xp, ious, 1e-6)
    image, number = xp.nonzero(chosen >= 0)
    place = chosen[image, number]
    best[image, place], overlap[image, place] = number, ious[image, number, place]
    positive[image, place] = True
    return best, overlap, positive


def _background(xp, cls_pred):
    """The probability of background, the first class, from predictions (n, classes, a): (n, a)."""
    result = xp.empty((cls_pred.shape[0], cls_pred.shape[2]), cls_pred.dtype)

    def fill(first, last):
        part = cls_pred[first:last]
        e = xp.exp(part - part.max(axis=1, keepdims=True))
        result[first:last] = e[:, 0] / e.sum(axis=1)
    _by_images(xp, len(cls_pred), cls_pred[:1].nbytes, fill)
    return result


def _negatives(xp, cls_pred, positive, overlap, ratio, thresh, minimum):
    """Which anchors (n, a) are background: all that are not positive, or with ``ratio`` > 0 so many times the positives
    (at least ``minimum``), of those below ``thresh`` those that are taken for background least."""
    if ratio <= 0:
        return ~positive
    a = positive.shape[1]
    count = positive.sum(axis=1)
    wanted = xp.minimum(xp.maximum((count * ratio).astype("int64"), minimum), a - count)
    candidate = ~positive & (overlap < thresh)
    wanted = xp.minimum(wanted, candidate.sum(axis=1))
    hardest = top_order(xp, xp.where(candidate, _background(xp, cls_pred), xp.inf), 1, int(wanted.max()), True)
    image, rank = xp.nonzero(xp.arange(hardest.shape[1]) < wanted[:, None])
    result = xp.zeros(positive.shape, bool)
    result[image, hardest[image, rank]] = True
    return result


def _multibox_target(xp, anchor, label, cls_pred, overlap_threshold, ignore_label, negative_mining_ratio,
                     negative_mining_thresh, minimum_negative_samples, variances):
    """Targets of the anchors (1, a, 4) for objects ``label`` (n, objects, (class, left, top, right, bottom)), which end
    at class -1: offsets (n, 4a), their mask (n, 4a), and classes (n, a), where 0 is background and ``ignore_label``
    stands for anchors that are neither. With ``negative_mining_ratio`` > 0 only that many times the positives, those
    taken for background least, of overlap below ``negative_mining_thresh``, are background (at least
    ``minimum_negative_samples``)."""
    boxes = wide(xp, anchor.reshape(-1, 4))
    n, a = label.shape[0], boxes.shape[0]
    offsets, mask = xp.zeros((n, a, 4), boxes.dtype), xp.zeros((n, a, 4), anchor.dtype)
    classes = xp.full((n, a), ignore_label, anchor.dtype)
    real = xp.cumsum(label[:, :, 0] == -1, axis=1) == 0
    most = int(real.sum(axis=1).max()) if real.size else 0
    if not most or not a:
        return offsets.reshape(n, 4 * a), mask.reshape(n, 4 * a), classes
    label, real = wide(xp, label[:, :most]), real[:, :most]
    best, overlap, positive = _match(xp, boxes, label[:, :, 1:5], real, overlap_threshold)
    negative = _negatives(xp, wide(xp, cls_pred), positive, overlap, negative_mining_ratio, negative_mining_thresh,
                          minimum_negative_samples)
    classes[negative & real[:, :1]] = 0
    image, place = xp.nonzero(positive)
    objects = label[image, best[image, place]]
    classes[image, place] = objects[:, 0] + 1
    g, mine = to_center(xp, objects[:, 1:5]), to_center(xp, boxes)[place]
    target = xp.concatenate([(g[:, :2] - mine[:, :2]) / mine[:, 2:], xp.log(g[:, 2:] / mine[:, 2:])], axis=1)
    offsets[image, place] = target / xp.asarray(variances, target.dtype)
    mask[image, place] = 1
    return offsets.reshape(n, 4 * a), mask.reshape(n, 4 * a), classes


operator("multibox_target", "anchor, label, cls_pred, overlap_threshold=0.5, ignore_label=-1.0, "
         "negative_mining_ratio=-1.0, negative_mining_thresh=0.5, minimum_negative_samples=0, "
         "variances=(0.1, 0.1, 0.2, 0.2), out=None", inputs="anchor, label, cls_pred", infer=_infer_target,
         kernel=_multibox_target, npx="multibox_target", nd="_contrib_MultiBoxTarget")


def _infer_detection(cls_prob, loc_pred, anchor, clip, threshold, background_id, nms_threshold, force_suppress,
                     variances, nms_topk):
    if background_id != 0:
        raise ArgumentError("multibox_detection: background_id must be 0")
    if len(cls_prob.shape) != 3 or anchor.shape != (1, cls_prob.shape[2], 4) or \
            loc_pred.shape != (cls_prob.shape[0], cls_prob.shape[2] * 4):
        raise ShapeError(f"multibox_detection: cls_prob {cls_prob.shape}, loc_pred {loc_pred.shape} and anchor "
                         f"{anchor.shape} do not fit; needed are (n, classes, a), (n, 4a) and (1, a, 4)")
    return spec((cls_prob.shape[0], cls_prob.shape[2], 6), cls_prob.dtype)


def _multibox_detection(xp, cls_prob, loc_pred, anchor, clip, threshold, background_id, nms_threshold, force_suppress,
                        variances, nms_topk):
    """Detections (n, a, (class, score, left, top, right, bottom)) from class probabilities (n, classes, a), predicted
    offsets (n, 4a) and anchors (1, a, 4); class -1 marks what is no detection.

    An anchor's class is the likeliest but background, if its probability is at least ``threshold``. Detections come
    best first; of the ``nms_topk`` best, each that a better one of its class (any with ``force_suppress``) overlaps by
    at least ``nms_threshold`` is dropped."""
    n, _, a = cls_prob.shape
    out = xp.full((n, a, 6), -1, cls_prob.dtype)
    if cls_prob.shape[1] < 2 or not n * a:
        return out
    prob = wide(xp, cls_prob)
    scores, ids = xp.empty((n, a), prob.dtype), xp.empty((n, a), "int64")

    def choose(first, last):
        part = prob[first:last, 1:]
        scores[first:last] = part.max(axis=1)
        ids[first:last] = (part == scores[first:last, None]).argmax(axis=1)
    _by_images(xp, n, prob[:1].nbytes, choose)
    valid = scores >= threshold
    boxes = _decoded(xp, wide(xp, loc_pred).reshape(n, a, 4), wide(xp, anchor.reshape(-1, 4)), variances, clip)

    def rows(image, place):
        return xp.concatenate([ids[image, place, None].astype(prob.dtype), scores[image, place, None],
                               boxes[image, place]], axis=-1)
    image, place = xp.nonzero(valid)
    out[image, (xp.cumsum(valid, axis=1) - 1)[image, place]] = rows(image, place)
    if not 0 < nms_threshold <= 1:
        return out
    keep = a if nms_topk <= 0 else min(nms_topk, a)
    order = top_order(xp, xp.where(valid, scores, -xp.inf), 1, keep, False)
    valid = xp.take_along_axis(valid, order, axis=1)
    best = rows(xp.arange(n)[:, None], order)
    gone = suppressed(xp, best[..., 2:], valid, None if force_suppress else best[..., 0], nms_threshold, False)
    best[gone, 0] = -1
    out[:, keep:, 0] = -1                     # what is not among the best stays where it was
    image, rank = xp.nonzero(valid)
    out[image, rank] = best[image, rank]
    return out


def _decoded(xp, offsets, anchors, variances, clip):
    """Boxes (n, a, 4) in corner format from predicted ``offsets`` (n, a, 4) of ``anchors`` (a, 4)."""
    own = to_center(xp, anchors)
    t = offsets * xp.asarray(variances, offsets.dtype)
    half = xp.exp(t[..., 2:]) * own[:, 2:] / 2
    centre = t[..., :2] * own[:, 2:] + own[:, :2]
    boxes = xp.concatenate([centre - half, centre + half], axis=-1)
    return xp.clip(boxes, 0, 1, out=boxes) if clip else boxes


operator("multibox_detection", "cls_prob, loc_pred, anchor, clip=True, threshold=0.01, background_id=0, "
         "nms_threshold=0.5, force_suppress=False, variances=(0.1, 0.1, 0.2, 0.2), nms_topk=-1, out=None",
         inputs="cls_prob, loc_pred, anchor", infer=_infer_detection, kernel=_multibox_detection,
         npx="multibox_detection", nd="_contrib_MultiBoxDetection")
