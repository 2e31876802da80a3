"""Object detection: anchor boxes, matching, non-maximum suppression, box encodings, pooling of regions.

Boxes are (left, top, right, bottom) in 'corner' and (x, y, width, height) in 'center' format. Greedy algorithms loop
over boxes in Python, with all that does not depend on the order computed at once; none has a gradient unless said.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import is_float, spec
from .indexing import add_rows
from .registry import operator
from .softmax import wide

_FORMATS = ("corner", "center")


def _check_format(name, value):
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


def overlaps(xp, a, b):
    """Intersection over union of all pairs: a (..., m, 4), b (..., n, 4) in corner format give (..., m, n)."""
    def sides(box):
        return [xp.maximum(box[..., i + 2] - box[..., i], 0) for i in (0, 1)]
    (wa, ha), (wb, hb) = sides(a), sides(b)
    a, b = a[..., :, None, :], b[..., None, :, :]
    w, h = (xp.minimum(a[..., i + 2], b[..., i + 2]) - xp.maximum(a[..., i], b[..., i]) for i in (0, 1))
    inter = xp.maximum(w, 0) * xp.maximum(h, 0)
    union = (wa * ha)[..., :, None] + (wb * hb)[..., None, :] - inter
    return xp.where(union > 0, inter / xp.where(union > 0, union, 1), 0)


# -- box_iou, box_encode, box_decode -------------------------------------------------------------------------------


def _infer_iou(lhs, rhs, format):
    _check_format("box_iou: format", format)
    for s in (lhs, rhs):
        if not s.shape or s.shape[-1] != 4:
            raise ShapeError(f"box_iou: the last axis must hold 4 coordinates, got shape {s.shape}")
    return spec(lhs.shape[:-1] + rhs.shape[:-1], lhs.dtype)


def _box_iou(xp, lhs, rhs, format):
    """Intersection over union of every box of ``lhs`` (..., 4) with every one of ``rhs`` (..., 4)."""
    result = overlaps(xp, to_corner(xp, lhs.reshape(-1, 4), format), to_corner(xp, rhs.reshape(-1, 4), format))
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
    _check_format("box_decode: format", format)
    if len(data.shape) != 3 or anchors.shape != (1, *data.shape[1:]) or data.shape[2] != 4:
        raise ShapeError(f"box_decode: data {data.shape} and anchors {anchors.shape} do not fit; needed are (b, n, 4) "
                         "and (1, n, 4)")
    return data


operator("box_decode", "data, anchors, std0=1.0, std1=1.0, std2=1.0, std3=1.0, clip=-1.0, format='center', out=None",
         inputs="data, anchors", infer=_infer_decode, kernel=_box_decode, npx="box_decode", nd="_contrib_box_decode")

# -- non-maximum suppression ---------------------------------------------------------------------------------------


_BLOCK = 256                       # rows of overlaps computed at once: bounds the memory for thousands of boxes


def suppressed(xp, boxes, classes, threshold, strict):
    """Which of the boxes (n, 4), in order of falling score, a kept one before it overlaps by more than ``threshold``
    (at least, unless ``strict``). ``classes`` (n,) or None: only boxes of one class suppress each other."""
    n = boxes.shape[0]
    gone = xp.zeros(n, bool)
    for start in range(0, n, _BLOCK):
        rows = start + xp.flatnonzero(~gone[start:start + _BLOCK])         # the others suppress nothing any more
        iou = overlaps(xp, boxes[rows], boxes[start:])
        hit = iou > threshold if strict else iou >= threshold
        if classes is not None:
            hit &= classes[rows][:, None] == classes[start:]
        hit &= xp.arange(start, n) > rows[:, None]
        later = gone[start:]
        for i, row in enumerate((rows - start).tolist()):
            later |= hit[i] & ~later[row]
    return gone


def _infer_nms(data, overlap_thresh, valid_thresh, topk, coord_start, score_index, id_index, background_id,
               force_suppress, in_format, out_format):
    _check_format("box_nms: in_format", in_format)
    _check_format("box_nms: out_format", out_format)
    if len(data.shape) < 2 or data.shape[-1] < coord_start + 4 or score_index >= data.shape[-1]:
        raise ShapeError(f"box_nms: data of shape {data.shape} must end in (boxes, values) with 4 coordinates from "
                         f"{coord_start} on and a score at {score_index}")
    return data, spec(data.shape[:-1] + (1,), data.dtype)


def _box_nms(xp, data, overlap_thresh, valid_thresh, topk, coord_start, score_index, id_index, background_id,
             force_suppress, in_format, out_format):
    """Boxes that survive non-maximum suppression, best score first, and -1 for the rest; and their places (or -1).

    data (..., boxes, values). Boxes with scores at most ``valid_thresh``, or of class ``background_id``, are dropped,
    then all but the ``topk`` best of each batch, then each that a better one overlaps by more than ``overlap_thresh``:
    of the same class (``id_index``), or of any with ``force_suppress``. The gradient goes to the boxes that survive.
    """
    flat = data.reshape(-1, *data.shape[-2:])
    count = flat.shape[1]
    out, record = xp.full(flat.shape, -1, data.dtype), xp.full((*flat.shape[:2], 1), -1, data.dtype)
    limit = count if topk < 0 else min(topk, count)
    if limit < 1:
        return data.copy(), xp.arange(flat.shape[0] * count, dtype=data.dtype).reshape(data.shape[:-1] + (1,))
    for b in range(flat.shape[0]):
        boxes = flat[b]
        valid = boxes[:, score_index] > valid_thresh
        if id_index >= 0:
            valid &= boxes[:, id_index] != background_id
        places = xp.flatnonzero(valid)
        places = places[xp.argsort(-boxes[places, score_index], kind="stable")][:limit]
        classes = boxes[places, id_index] if id_index >= 0 and not force_suppress else None
        corners = to_corner(xp, boxes[places, coord_start:coord_start + 4], in_format)
        places = places[~suppressed(xp, corners, classes, overlap_thresh, True)]
        out[b, :places.size] = boxes[places]
        record[b, :places.size, 0] = places + b * count
        if in_format != out_format:
            part = out[b, :places.size, coord_start:coord_start + 4]
            part[...] = to_center(xp, part) if out_format == "center" else to_corner(xp, part, "center")
    return out.reshape(data.shape), record.reshape(data.shape[:-1] + (1,))


def _box_nms_vjp(F, dy, x, y, **_):
    return None if dy[0] is None else F.box_nms_grad(dy[0], y[1])


def _box_nms_grad(xp, dy, record):
    places = record.reshape(-1).astype("int64")
    kept = places >= 0
    rows = dy.reshape(-1, dy.shape[-1])
    result = xp.zeros(rows.shape, dy.dtype)
    result[places[kept]] = rows[kept]
    return result.reshape(dy.shape)


_NMS = "data, overlap_thresh=0.5, valid_thresh=0, topk=-1, coord_start=2, score_index=1, id_index=-1, " \
       "background_id=-1, force_suppress=False, in_format='corner', out_format='corner', out=None"
operator("box_nms", _NMS, inputs="data", outputs=1, infer=_infer_nms, kernel=_box_nms, vjp=_box_nms_vjp, npx="box_nms",
         nd="_contrib_box_nms, _contrib_box_non_maximum_suppression", first_order_only=True)
operator("box_nms_grad", "dy, record", infer=lambda dy, record: dy, kernel=_box_nms_grad)


def _bipartite_matching(xp, data, is_ascend, threshold, topk):
    """Greedy matching of rows and columns of scores (..., rows, columns), best first (smallest with ``is_ascend``),
    down to ``threshold``: the column of each row (-1: none) and the row of each column. ``topk`` > 0 limits the
    matches."""
    flat = data.reshape(-1, *data.shape[-2:])
    rows = xp.full(flat.shape[:2], -1, data.dtype)
    columns = xp.full((flat.shape[0], flat.shape[2]), -1, data.dtype)
    for b in range(flat.shape[0]):
        scores = flat[b].reshape(-1)
        order = xp.argsort(scores if is_ascend else -scores, kind="stable")
        good = scores[order] < threshold if is_ascend else scores[order] > threshold
        matched = 0
        for place in order[good].tolist():
            r, c = divmod(place, flat.shape[2])
            if rows[b, r] < 0 and columns[b, c] < 0:
                rows[b, r], columns[b, c] = c, r
                matched += 1
                if topk > 0 and matched >= topk:
                    break
    return rows.reshape(data.shape[:-1]), columns.reshape(data.shape[:-2] + data.shape[-1:])


def _infer_bipartite(data, is_ascend, threshold, topk):
    if threshold is None:
        raise ArgumentError("bipartite_matching: threshold is needed")
    if len(data.shape) < 2:
        raise ShapeError(f"bipartite_matching: scores need at least 2 axes, got shape {data.shape}")
    return spec(data.shape[:-1], data.dtype), spec(data.shape[:-2] + data.shape[-1:], data.dtype)


operator("bipartite_matching", "data, is_ascend=False, threshold=None, topk=-1, out=None", inputs="data",
         infer=_infer_bipartite, kernel=_bipartite_matching, npx="bipartite_matching", nd="_contrib_bipartite_matching")

# -- multibox ------------------------------------------------------------------------------------------------------


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
    return spec((1, data.shape[2] * data.shape[3] * _prior_count(sizes, ratios), 4), data.dtype)


def _multibox_prior(xp, data, sizes, ratios, clip, steps, offsets):
    """Anchor boxes (1, height * width * (sizes + ratios - 1), 4) for a feature map (n, c, height, width).

    At each place: every size with the first ratio, then the first size with each other ratio. ``steps`` (y, x):
    distance of places, negative: 1 / height and 1 / width; ``offsets`` (y, x): their start in steps; ``clip``: to [0,
    1].
    """
    sizes, ratios = _as_tuple(sizes), _as_tuple(ratios)
    height, width = data.shape[2:4]
    step_y, step_x = (s if s > 0 else 1 / n for s, n in zip(steps, (height, width)))
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


def _match(xp, iou, threshold):
    """(object of each anchor or -1, its overlap, positive or not): first each object takes its best free anchor, best
    pair first; then every other anchor takes its best object, positive above the threshold."""
    anchors, objects = iou.shape
    best, overlap = iou.argmax(axis=1), iou.max(axis=1)
    positive = xp.zeros(anchors, bool)
    free = iou.copy()
    for _ in range(objects):
        place = int(free.argmax())
        j, k = divmod(place, objects)
        if free[j, k] <= 1e-6:
            break
        best[j], overlap[j], positive[j] = k, free[j, k], True
        free[j, :] = -1
        free[:, k] = -1
    if threshold > 0:
        positive |= overlap > threshold
    return best, overlap, positive


def _multibox_target(xp, anchor, label, cls_pred, overlap_threshold, ignore_label, negative_mining_ratio,
                     negative_mining_thresh, minimum_negative_samples, variances):
    """Targets of the anchors (1, a, 4) for objects ``label`` (n, objects, (class, left, top, right, bottom)), which end
    at class -1: offsets (n, 4a), their mask (n, 4a), and classes (n, a), where 0 is background and ``ignore_label``
    stands for anchors that are neither. With ``negative_mining_ratio`` > 0 only that many times the positives, those
    taken for background least, of overlap below ``negative_mining_thresh``, are background (at least
    ``minimum_negative_samples``)."""
    boxes = anchor.reshape(-1, 4)
    n, a = label.shape[0], boxes.shape[0]
    offsets, mask = xp.zeros((n, a, 4), anchor.dtype), xp.zeros((n, a, 4), anchor.dtype)
    classes = xp.full((n, a), ignore_label, anchor.dtype)
    own = to_center(xp, boxes)
    for b in range(n):
        ended = label[b, :, 0] == -1
        count = int(ended.argmax()) if ended.any() else label.shape[1]
        if not count or not a:
            continue
        best, overlap, positive = _match(xp, overlaps(xp, boxes, label[b, :count, 1:5]), overlap_threshold)
        if negative_mining_ratio > 0:
            wanted = max(int(positive.sum() * negative_mining_ratio), minimum_negative_samples)
            candidates = xp.flatnonzero(~positive & (overlap < negative_mining_thresh))
            scores = cls_pred[b][:, candidates]
            e = xp.exp(scores - scores.max(axis=0))
            order = xp.argsort(e[0] / e.sum(axis=0), kind="stable")
            negative = candidates[order[:min(wanted, a - int(positive.sum()))]]
        else:
            negative = xp.flatnonzero(~positive)
        classes[b, negative] = 0
        chosen = xp.flatnonzero(positive)
        objects = label[b, best[chosen]]
        classes[b, chosen] = objects[:, 0] + 1
        g, mine = to_center(xp, objects[:, 1:5]), own[chosen]
        target = xp.concatenate([(g[:, :2] - mine[:, :2]) / mine[:, 2:], xp.log(g[:, 2:] / mine[:, 2:])], axis=1)
        offsets[b, chosen] = target / xp.asarray(variances, target.dtype)
        mask[b, chosen] = 1
    return offsets.reshape(n, -1), mask.reshape(n, -1), classes


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
    own = to_center(xp, anchor.reshape(-1, 4))
    t = loc_pred.reshape(n, a, 4) * xp.asarray(variances, loc_pred.dtype)
    half = xp.exp(t[..., 2:]) * own[:, 2:] / 2
    centre = t[..., :2] * own[:, 2:] + own[:, :2]
    boxes = xp.concatenate([centre - half, centre + half], axis=-1)
    if clip:
        boxes = xp.clip(boxes, 0, 1)
    if cls_prob.shape[1] < 2:
        return out
    ids, scores = cls_prob[:, 1:].argmax(axis=1), cls_prob[:, 1:].max(axis=1)
    for b in range(n):
        valid = xp.flatnonzero(scores[b] >= threshold)
        rows = xp.concatenate([ids[b, valid, None].astype(out.dtype), scores[b, valid, None], boxes[b, valid]], axis=1)
        if 0 < nms_threshold <= 1:
            order = xp.argsort(-rows[:, 1], kind="stable")
            keep = order.size if nms_topk <= 0 else min(nms_topk, order.size)
            best = rows[order[:keep]]
            gone = suppressed(xp, best[:, 2:], None if force_suppress else best[:, 0], nms_threshold, False)
            best[gone, 0] = -1
            rows[keep:, 0] = -1
            rows[:keep] = best
        out[b, :rows.shape[0]] = rows
    return out


operator("multibox_detection", "cls_prob, loc_pred, anchor, clip=True, threshold=0.01, background_id=0, "
         "nms_threshold=0.5, force_suppress=False, variances=(0.1, 0.1, 0.2, 0.2), nms_topk=-1, out=None",
         inputs="cls_prob, loc_pred, anchor", infer=_infer_detection, kernel=_multibox_detection,
         npx="multibox_detection", nd="_contrib_MultiBoxDetection")

# -- pooling of regions --------------------------------------------------------------------------------------------


def _infer_roi(data, rois, pooled_size, spatial_scale):
    if len(data.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 5:
        raise ShapeError(f"roi_pooling: data must have 4 axes and rois shape (regions, 5), got {data.shape} and "
                         f"{rois.shape}")
    if not is_float(data.dtype):
        raise ArgumentError(f"roi_pooling needs floating data, not {data.dtype}")
    size = _pooled(pooled_size)
    shape = (rois.shape[0], data.shape[1], *size)
    return spec(shape, data.dtype), spec(shape, "int64")


def _pooled(pooled_size):
    size = (pooled_size, pooled_size) if isinstance(pooled_size, int) else pooled_size
    if size is None or len(size) != 2 or any(n < 1 for n in size):
        raise ArgumentError(f"roi_pooling: pooled_size must be two positive integers, not {pooled_size!r}")
    return tuple(size)


def _bins(xp, first, last, count, n):
    """Start and stop (regions, count) of the parts of regions from pixel ``first`` to ``last``, within [0, n)."""
    size = xp.maximum(last - first + 1, 1)[:, None]
    number = xp.arange(count)
    start, stop = number * size // count, -(-(number + 1) * size // count)
    return xp.clip(start + first[:, None], 0, n), xp.clip(stop + first[:, None], 0, n)


def _roi_pooling(xp, data, rois, pooled_size, spatial_scale):
    """Maxima over ``pooled_size`` parts of each region (Girshick 2015), and where they are (-1: an empty part).

    ``rois``: rows (batch index, left, top, right, bottom), both ends included, scaled by ``spatial_scale`` and rounded.
    Empty parts, and regions whose batch index does not exist, give 0.
    """
    ph, pw = _pooled(pooled_size)
    n, c, height, width = data.shape
    out = xp.zeros((rois.shape[0], c, ph, pw), data.dtype)
    where = xp.full(out.shape, -1, "int64")
    if not out.size:
        return out, where
    place = wide(xp, rois)
    corner = place[:, 1:] * spatial_scale
    corner = (xp.sign(corner) * xp.floor(xp.abs(corner) + 0.5)).astype("int64")     # halves away from zero
    y0, y1 = _bins(xp, corner[:, 1], corner[:, 3], ph, height)
    x0, x1 = _bins(xp, corner[:, 0], corner[:, 2], pw, width)
    tall, broad = (y1 - y0).max(axis=1).tolist(), (x1 - x0).max(axis=1).tolist()
    planes = xp.ascontiguousarray(data.reshape(n, c, height * width).transpose(0, 2, 1))
    for r, b in enumerate(place[:, 0].tolist()):
        if not 0 <= b < n or min(tall[r], broad[r]) < 1:
            continue
        ys, xs = xp.arange(tall[r])[:, None] + y0[r], xp.arange(broad[r])[:, None] + x0[r]     # (places, parts)
        inside = ((ys < y1[r])[:, None, :, None] & (xs < x1[r])[None, :, None, :]).reshape(-1, ph * pw)
        pixels = (xp.minimum(ys, height - 1) * width)[:, None, :, None] + xp.minimum(xs, width - 1)[None, :, None, :]
        pixels = pixels.reshape(-1, ph * pw)
        values = xp.where(inside[..., None], planes[int(b)][pixels], -xp.inf)                  # (places, parts, c)
        best, first = values.max(axis=0), pixels[0][:, None]
        for k in range(values.shape[0] - 1, -1, -1):
            first = xp.where(values[k] == best, pixels[k][:, None], first)
        filled = inside[0][:, None]
        out[r] = xp.where(filled, best, 0).T.reshape(c, ph, pw)
        where[r] = xp.where(filled, first, -1).T.reshape(c, ph, pw)
    return out, where


def _roi_grad(xp, dy, rois, where, shape):
    n, c, height, width = shape
    planes = (rois[:, 0].astype("int64")[:, None] * c + xp.arange(c))[:, :, None, None]
    places = planes * (height * width) + where
    kept = where >= 0
    return add_rows(xp, math.prod(shape), places[kept], dy[kept]).reshape(shape)


operator("roi_pooling", "data, rois, pooled_size=None, spatial_scale=1.0, out=None", inputs="data, rois", outputs=1,
         infer=_infer_roi, kernel=_roi_pooling, npx="roi_pooling", nd="ROIPooling", first_order_only=True,
         vjp=lambda F, dy, x, y, pooled_size, spatial_scale: (
             None if dy[0] is None else F.roi_pooling_grad(dy[0], x[1], y[1], shape=x[0].shape), None))
operator("roi_pooling_grad", "dy, rois, where, shape", inputs="dy, rois, where", kernel=_roi_grad,
         infer=lambda dy, rois, where, shape: spec(shape, dy.dtype))
