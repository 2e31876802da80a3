"""The clipping threshold that loses least when a histogram is quantized (calibration by entropy).

The method of S. Migacz, 8-bit inference with TensorRT (2017), in MXNet's form: for each candidate, the middle 2 r + 1
bins of the histogram with everything beyond added to the outermost two are a distribution p; the same bins, without the
left outermost one and what lies beyond, merged into so many quantized bins and spread evenly over those where p has
something, are q. The candidate with the smallest divergence of p from q wins.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from .quantization import RANGE, check_array
from .registry import operator

_SMOOTHING = 1e-4                   # what an empty bin gets, in counts
_CHUNK = 1 << 18                    # elements of a table of candidates by bins
_NONE = 3.4028234663852886e38       # the divergence if no candidate has one: the largest float32


def _infer_calibrate(hist, hist_edges, num_quantized_bins):
    check_array("calibrate_entropy", "hist", hist, ("float32",))
    check_array("calibrate_entropy", "hist_edges", hist_edges, ("float32",))
    if hist_edges.size != hist.size + 1:
        raise ShapeError(f"calibrate_entropy: a histogram of {hist.size} bins has {hist.size + 1} edges, not "
                         f"{hist_edges.size}")
    if hist.size % 2 == 0:
        raise ShapeError(f"calibrate_entropy: hist must have an odd number of bins, with zero in the middle one, not "
                         f"{hist.size}")
    if not isinstance(num_quantized_bins, int) or not 2 <= num_quantized_bins <= hist.size:
        raise ArgumentError(f"calibrate_entropy: num_quantized_bins must be an integer from 2 to the number of bins, "
                            f"{hist.size}, not {num_quantized_bins!r}")
    return RANGE, RANGE


def _smoothed(xp, x, inside, length):
    """(x with something in every bin of ``inside``, taken from those that have some; whether that was possible)."""
    filled = (x != 0) & inside
    count = filled.sum(axis=1, keepdims=True)
    taken = _SMOOTHING * (length - count) / xp.maximum(count, 1)
    return xp.where(filled, x - taken, xp.where(inside, _SMOOTHING, 0.0)), ((count > 0) & (taken < 1))[:, 0]


def _divergences(xp, counts, radii, parts):
    """The divergence of each candidate; infinite where there is none."""
    middle, reach = counts.shape[0] // 2, int(radii[-1])
    whole = xp.floor(counts)
    sums = xp.concatenate([xp.zeros(1), xp.cumsum(whole)])
    filled = xp.concatenate([xp.zeros(1), xp.cumsum(whole != 0)])
    below, above = xp.cumsum(counts), xp.cumsum(counts[::-1])[::-1]
    r = radii[:, None]
    offset = xp.arange(-reach, reach + 1)
    inside = xp.abs(offset) <= r
    p = xp.where(inside, counts[middle - reach:middle + reach + 1], 0.0)
    rows = xp.arange(radii.shape[0])
    p[rows, reach - radii] = below[middle - radii]
    p[rows, reach + radii] = above[middle + radii]
    # the quantized bins: sums and numbers of filled bins between edges
    length = 2 * r + 1
    merged = length // parts
    edges = middle - r + merged * xp.arange(parts + 1)
    edges[:, -1] = middle + radii + 1
    total, number = sums[edges[:, 1:]] - sums[edges[:, :-1]], filled[edges[:, 1:]] - filled[edges[:, :-1]]
    total[:, 0] -= whole[middle - radii]
    number[:, 0] -= whole[middle - radii] != 0
    mean = xp.where(number > 0, total / xp.maximum(number, 1), 0.0)
    part = xp.clip((offset + r) // merged, 0, parts - 1)
    q = xp.where(inside & (p != 0), xp.take_along_axis(mean, part, axis=1), 0.0)
    p, p_valid = _smoothed(xp, p, inside, length)
    q, q_valid = _smoothed(xp, q, inside, length)
    valid = p_valid & q_valid
    if bool((((p <= 0) | (q <= 0)) & inside & valid[:, None]).any()):
        raise ValueError("calibrate_entropy: hist must hold counts: whole numbers, none negative")
    p /= p.sum(axis=1, keepdims=True)
    q /= q.sum(axis=1, keepdims=True)
    outside = ~inside
    p[outside] = q[outside] = 1.0
    return xp.where(valid, (p * xp.log(p / q)).sum(axis=1), xp.inf)


def _calibrate(xp, hist, hist_edges, num_quantized_bins):
    """(threshold, divergence), both of shape (1,): where to clip numbers before they are quantized.

    ``hist``: float32 counts in an odd number of bins of equal width, zero in the middle of the middle one;
    ``hist_edges``: their edges, one more. ``num_quantized_bins``: 255 for int8. Without any candidate (an empty
    histogram) the divergence is the largest float32.
    """
    counts, middle = hist.reshape(-1).astype("float64"), hist.size // 2
    radii = xp.arange(num_quantized_bins // 2, middle + 1)
    rows = max(1, _CHUNK // hist.size)
    divergence = xp.concatenate([_divergences(xp, counts, radii[i:i + rows], num_quantized_bins)
                                 for i in range(0, radii.shape[0], rows)])
    best = int(divergence.argmin())
    value = min(float(divergence[best]), _NONE)
    edge = middle + int(radii[best]) + 1
    return hist_edges.reshape(-1)[edge:edge + 1].copy(), xp.full((1,), value, "float32")


operator("calibrate_entropy", "hist, hist_edges, num_quantized_bins=255, out=None", infer=_infer_calibrate,
         kernel=_calibrate, npx="contrib_calibrate_entropy", nd="_contrib_calibrate_entropy")
