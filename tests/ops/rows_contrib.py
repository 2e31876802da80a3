"""Rows of the operators that MXNet has in its contrib namespace: attention in windows, point processes, proposals."""
import numpy as np
from table import S, exempt, ints, normal, positive, row

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

# -- Hawkes processes ----------------------------------------------------------------------------------------------


def _hawkesll(lda, alpha, beta, state, lags, marks, valid_length, max_time):
    n, k = lda.shape
    result, out = np.zeros(n), np.zeros((n, k))
    for i in range(n):
        s, last, t = state[i].copy(), np.zeros(k), 0.0
        for j in range(int(valid_length[i])):
            m, t = marks[i, j], t + lags[i, j]
            decayed = s[m] * np.exp(-beta[m] * (t - last[m]))
            result[i] += np.log(lda[i, m] + alpha[m] * beta[m] * decayed)
            result[i] -= lda[i, m] * (t - last[m]) + alpha[m] * (s[m] - decayed)
            s[m], last[m] = decayed + 1, t
        out[i] = s * np.exp(-beta * (max_time[i] - last))
        result[i] -= (lda[i] * (max_time[i] - last) + alpha * (s - out[i])).sum()
    return result, out


def _processes(n, points, k):
    return [positive(n, k), positive(k), positive(k), positive(n, k), positive(n, points, low=0.1, high=0.8),
            ints(n, points, high=k, dtype="int32"), ints(n, low=0, high=points + 1, dtype="int32"),
            positive(n, low=points, high=points + 3)]


row("hawkesll", ref=_hawkesll, tol=8, samples=[S(*_processes(3, 6, 2)), S(*_processes(1, 5, 1)),
                                               S(*_processes(0, 4, 2)), S(*_processes(2, 0, 3))])
exempt("hawkesll_grad", "hawkesll")
