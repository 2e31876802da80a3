"""Non-maximum suppression.

Of boxes in the order of their scores, each that a kept one before it overlaps too much is dropped. This is a fixed
point of "dropped if one that is kept overlaps it", found in as many rounds as chains of overlapping boxes are long
(Zheng et al. 2021, Cluster-NMS), for all images at once. Only pairs that may overlap enough by their horizontal extent
are looked at, in bounded parts.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .boxes import check_format, iou, to_center, to_corner
from .registry import operator
from .runs import chunks_of_runs, runs
from .softmax import wide
from .topk import top_order

_PAIRS = 1 << 19                   # pairs of boxes compared at once
_BLOCK_PAIRS = 1 << 22             # pairs among the boxes of a block that may be kept in memory


class _Candidates:
    """Boxes (n, 4) in groups (n,), of which those of one group are compared: finds pairs that overlap by more than
    ``threshold`` (at least, unless ``strict``)."""

    def __init__(self, xp, boxes, groups, threshold, strict):
        self.xp, self.boxes, self.groups = xp, boxes, groups
        self.threshold, self.strict = threshold, strict
        left, right = (boxes[:, i].astype("float64") for i in (0, 2))
        self.left, width = left, xp.maximum(right - left, 0)
        slack = 1e-5 * (xp.abs(left) + xp.abs(right))              # for the rounding of what is computed in the dtype
        if threshold < 0 or (threshold == 0 and not strict):
            self.before = self.after = xp.full(left.shape, xp.inf)
        else:       # the intersection's width is at least threshold times both widths, if the overlap is above it
            self.after = max(1 - threshold, 0) * width + slack
            self.before = self.after / threshold + slack if threshold else xp.full(left.shape, xp.inf)

    def pairs(self, rows, columns, both_sides):
        """Yield arrays (i, j) of pairs of ``rows`` and ``columns`` that overlap enough; without ``both_sides`` only
        those with the left edge of j not before that of i."""
        xp = self.xp
        edges = xp.sort(self.left[columns])
        span = columns.size + 1
        keys = self.groups[columns] * span + xp.searchsorted(edges, self.left[columns])
        order = xp.argsort(keys)
        keys, columns = keys[order], columns[order]
        low = self.left[rows] - (self.before[rows] if both_sides else 0)
        high = self.left[rows] + self.after[rows]
        base = self.groups[rows] * span
        start = xp.searchsorted(keys, base + xp.searchsorted(edges, low))
        stop = xp.searchsorted(keys, base + xp.searchsorted(edges, high, side="right"))
        count = xp.maximum(stop - start, 0)
        for first, last in chunks_of_runs(xp, count, _PAIRS):
            number, place = runs(xp, start[first:last], count[first:last])
            i, j = rows[first:last][number], columns[place]
            overlap = iou(xp, self.boxes[i], self.boxes[j])
            hit = overlap > self.threshold if self.strict else overlap >= self.threshold
            yield i[hit], j[hit]


def suppressed(xp, boxes, valid, classes, threshold, strict):
    """Which of the boxes (images, n, 4), in order of falling score along n, a kept one before it overlaps by more than
    ``threshold`` (at least, unless ``strict``), as bool (images, n).

    valid (images, n): the others neither suppress nor are suppressed. ``classes`` (images, n) or None: only boxes of
    one class suppress each other.
    """
    images, n = valid.shape
    gone = xp.zeros(valid.size, bool)
    places = xp.flatnonzero(valid)
    if not places.size:
        return gone.reshape(valid.shape)
    groups = xp.repeat(xp.arange(images), n)
    if classes is not None:
        kinds, number = xp.unique(classes, return_inverse=True)
        groups = groups * kinds.size + number.reshape(-1)
    candidates = _Candidates(xp, boxes.reshape(-1, 4), groups, threshold, strict)
    rank = places % n
    block = max(16, math.isqrt(_BLOCK_PAIRS // images))
    for start in range(0, n, block):
        rows = places[(rank >= start) & (rank < start + block)]
        rows = rows[~gone[rows]]
        if not rows.size:
            continue
        found = [(xp.minimum(i, j), xp.maximum(i, j)) for i, j in candidates.pairs(rows, rows, False)]
        earlier, later = (xp.concatenate(part) for part in zip(*found))
        _settle(xp, gone, rows, earlier[earlier != later], later[earlier != later])
        rest = places[rank >= start + block]
        rest = rest[~gone[rest]]
        if rest.size:
            for _, j in candidates.pairs(rows[~gone[rows]], rest, True):
                gone[j] = True
    return gone.reshape(valid.shape)


def _settle(xp, gone, rows, earlier, later):
    """Mark in ``gone`` those of the boxes ``rows`` that a kept one suppresses, given the pairs that overlap."""
    while True:
        now = later[~gone[earlier]]
        before = gone[rows]
        gone[rows] = False
        gone[now] = True
        if bool((gone[rows] == before).all()):
            return


def _infer_nms(data, overlap_thresh, valid_thresh, topk, coord_start, score_index, id_index, background_id,
               force_suppress, in_format, out_format):
    check_format("box_nms: in_format", in_format)
    check_format("box_nms: out_format", out_format)
    if len(data.shape) < 2 or data.shape[-1] < coord_start + 4 or score_index >= data.shape[-1]:
        raise ShapeError(f"box_nms: data of shape {data.shape} must end in (boxes, values) with 4 coordinates from "
                         f"{coord_start} on and a score at {score_index}")
    places = range(coord_start, coord_start + 4)
    if coord_start < 0 or score_index < 0 or score_index in places:
        raise ArgumentError(f"box_nms: the score at {score_index} and the coordinates from {coord_start} on must be "
                            "different places, not negative")
    if id_index >= data.shape[-1] or id_index >= 0 and (id_index in places or id_index == score_index):
        raise ArgumentError(f"box_nms: id_index={id_index} must be a place of the {data.shape[-1]} values, not that of "
                            "the score or of a coordinate")
    return data, spec(data.shape[:-1] + (1,), data.dtype)


def _box_nms(xp, data, overlap_thresh, valid_thresh, topk, coord_start, score_index, id_index, background_id,
             force_suppress, in_format, out_format):
    """Boxes that survive non-maximum suppression, best score first, and -1 for the rest; and their places (or -1).

    data (..., boxes, values). Boxes with scores at most ``valid_thresh``, or of class ``background_id``, are dropped,
    then all but the ``topk`` best of each batch, then each that a better one overlaps by more than ``overlap_thresh``:
    of the same class (``id_index``), or of any with ``force_suppress``. The gradient goes to the boxes that survive.
    """
    flat = data.reshape(math.prod(data.shape[:-2]), *data.shape[-2:])
    images, count = flat.shape[:2]
    out, record = xp.full(flat.shape, -1, data.dtype), xp.full((images, count, 1), -1, data.dtype)
    limit = count if topk < 0 else min(topk, count)
    if limit < 1:
        return data.copy(), xp.arange(images * count, dtype=data.dtype).reshape(data.shape[:-1] + (1,))
    scores = wide(xp, flat[..., score_index])
    valid = scores > valid_thresh
    if id_index >= 0:
        valid &= flat[..., id_index] != background_id
    order = top_order(xp, xp.where(valid, scores, -xp.inf), 1, limit, False)
    best = wide(xp, xp.take_along_axis(flat, order[..., None], axis=1))
    valid = xp.take_along_axis(valid, order, axis=1)
    corners = to_corner(xp, best[..., coord_start:coord_start + 4], in_format)
    classes = best[..., id_index] if id_index >= 0 and not force_suppress else None
    kept = valid & ~suppressed(xp, corners, valid, classes, overlap_thresh, True)
    image, rank = xp.nonzero(kept)
    place = (xp.cumsum(kept, axis=1) - 1)[image, rank]
    rows = best[image, rank]
    if in_format != out_format:
        part = rows[:, coord_start:coord_start + 4]
        part[...] = to_center(xp, part) if out_format == "center" else to_corner(xp, part, "center")
    out[image, place] = rows
    record[image, place, 0] = order[image, rank] + image * count
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
