"""Greedy matching of rows and columns of scores."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .registry import operator
from .softmax import wide
from .sorting import stable_argsort


def greedy_matching(xp, scores, floor):
    """The column of each row (-1: none), (n, rows), when the best pair of a free row and a free column of ``scores``
    (n, rows, columns) is matched again and again, as long as it is above ``floor``. Of equal pairs the first counts.

    Pairs that are the best both of their row and of their column are matched at once, which gives the same (Preis
    1999); so it takes few rounds. Cheapest with fewer rows than columns.
    """
    match = xp.full(scores.shape[:2], -1)
    if 0 in scores.shape:
        return match
    work = xp.where(scores > floor, scores, -xp.inf)
    best = work.argmax(axis=2)
    free = xp.take_along_axis(work, best[..., None], axis=2)[..., 0] > -xp.inf
    while True:
        n, row = xp.nonzero(free)
        if not n.size:
            return match
        column = best[n, row]
        mutual = work[n, :, column].argmax(axis=1) == row
        n, row, column = n[mutual], row[mutual], column[mutual]
        match[n, row] = column
        free[n, row] = False
        work[n, row] = -xp.inf
        work[n, :, column] = -xp.inf
        n, row = xp.nonzero(free & (xp.take_along_axis(work, best[..., None], axis=2)[..., 0] == -xp.inf))
        best[n, row] = work[n, row].argmax(axis=1)                      # their best column was taken: the next one
        free[n, row] = work[n, row, best[n, row]] > -xp.inf


def _bipartite_matching(xp, data, is_ascend, threshold, topk):
    """Greedy matching of rows and columns of scores (..., rows, columns), best first (smallest with ``is_ascend``),
    down to ``threshold``: the column of each row (-1: none) and the row of each column. ``topk`` > 0 limits the
    matches."""
    flat = wide(xp, data) if data.dtype.kind == "f" else data.astype("float64")
    flat = flat.reshape(math.prod(data.shape[:-2]), *data.shape[-2:])
    flat, floor = (-flat, -threshold) if is_ascend else (flat, threshold)
    rows, columns = xp.full(flat.shape[:2], -1), xp.full((flat.shape[0], flat.shape[2]), -1)
    if flat.shape[1] <= flat.shape[2]:
        found = greedy_matching(xp, flat, floor)
        n, row = xp.nonzero(found >= 0)
        column = found[n, row]
    else:
        found = greedy_matching(xp, xp.ascontiguousarray(flat.transpose(0, 2, 1)), floor)
        n, column = xp.nonzero(found >= 0)
        row = found[n, column]
    rows[n, row], columns[n, column] = column, row
    if 0 < topk < rows.shape[1]:
        got = xp.full(rows.shape, -xp.inf, flat.dtype)
        got[n, row] = flat[n, row, column]
        late = stable_argsort(xp, got, 1, descending=True)[:, topk:]
        lost = xp.take_along_axis(rows, late, axis=1)
        n, at = xp.nonzero(lost >= 0)
        columns[n, lost[n, at]] = -1
        rows[n, late[n, at]] = -1
    return rows.reshape(data.shape[:-1]), columns.reshape(data.shape[:-2] + data.shape[-1:])


def _infer_bipartite(data, is_ascend, threshold, topk):
    if threshold is None:
        raise ArgumentError("bipartite_matching: threshold is needed")
    if len(data.shape) < 2:
        raise ShapeError(f"bipartite_matching: scores need at least 2 axes, got shape {data.shape}")
    return spec(data.shape[:-1], data.dtype), spec(data.shape[:-2] + data.shape[-1:], data.dtype)


operator("bipartite_matching", "data, is_ascend=False, threshold=None, topk=-1, out=None", inputs="data",
         infer=_infer_bipartite, kernel=_bipartite_matching, npx="bipartite_matching", nd="_contrib_bipartite_matching")
