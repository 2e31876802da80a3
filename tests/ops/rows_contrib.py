"""Rows of the operators that MXNet has in its contrib namespace: attention in windows, point processes, proposals."""
import numpy as np
from table import S, exempt, ints, normal, row

# -- attention within a sliding window -----------------------------------------------------------------------------


def _pairs(shape, dilation, w, symmetric):
    """(token, head, place in the window, token there) of all elements of windows that are in the sequence."""
    for t, h, j in np.ndindex(shape[1], shape[2], 2 * w + 1 if symmetric else w + 1):
        other = t + int(dilation[h]) * (j - w)
        if 0 <= other < shape[1]:
            yield t, h, j, other


def _score(query, key, dilation, w, symmetric):
    out = np.zeros((*query.shape[:3], 2 * w + 1 if symmetric else w + 1))
    for t, h, j, other in _pairs(query.shape, dilation, w, symmetric):
        out[:, t, h, j] = (query[:, t, h] * key[:, other, h]).sum(axis=-1)
    return out


def _context(score, value, dilation, w, symmetric):
    out = np.zeros(value.shape)
    for t, h, j, other in _pairs(value.shape, dilation, w, symmetric):
        out[:, t, h] += score[:, t, h, j, None] * value[:, other, h]
    return out


def _mask(score, dilation, valid_length, w, symmetric):
    out = np.zeros(score.shape)
    for t, h, j in np.ndindex(*score.shape[1:]):
        other = t + int(dilation[h]) * (j - w)
        out[:, t, h, j] = (t < valid_length) & (other >= 0) & (other < valid_length)
    return out


_WINDOWS = [((2, 7, 3, 4), [1, 2, 3], 2, True), ((1, 40, 2, 3), [2, 1], 5, False), ((2, 5, 2, 3), [9, 1], 1, True),
            ((1, 6, 1, 2), [1], 0, False), ((0, 4, 2, 3), [1, 1], 1, True), ((2, 33, 2, 5), [3, 3], 9, True)]


def _samples(first, last):
    for shape, dilation, w, symmetric in _WINDOWS:
        size = {"window": (*shape[:3], 2 * w + 1 if symmetric else w + 1), "units": shape}
        x = [normal(*size[name]) for name in (first, last) if name]
        yield x, np.array(dilation, "int32"), shape, {"w": w, "symmetric": symmetric}


row("sldwin_atten_score", ref=_score, tol=4, samples=[S(*x, d, **attrs) for x, d, _, attrs in
                                                      _samples("units", "units")])
row("sldwin_atten_context", ref=_context, tol=4, samples=[S(*x, d, **attrs) for x, d, _, attrs in
                                                          _samples("window", "units")])
row("sldwin_atten_mask_like", ref=_mask, samples=[
    S(*x, d, ints(shape[0], low=0, high=shape[1] + 1, dtype="int32"), **attrs)
    for x, d, shape, attrs in _samples("window", None)])
exempt("window_scores", "sldwin_atten_context")
exempt("window_context", "sldwin_atten_score")
exempt("window_mirror", "sldwin_atten_score", "sldwin_atten_context")
