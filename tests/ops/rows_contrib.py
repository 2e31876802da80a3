"""Rows of the operators that MXNet has in its contrib namespace: attention in windows, point processes, proposals."""
import itertools

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

# -- position-sensitive pooling ------------------------------------------------------------------------------------


def _rounded(v):
    return np.sign(v) * np.floor(np.abs(v) + 0.5)


def _region(box, scale):
    """Left, top, width and height."""
    low, high = _rounded(box[:2]) * scale, (_rounded(box[2:]) + 1) * scale
    return (*low, *np.maximum(high - low, 0.1))


def _psroi(data, rois, spatial_scale, output_dim, pooled_size, group_size=0):
    g, p, (height, width) = group_size or pooled_size, pooled_size, data.shape[2:]
    out = np.zeros((len(rois), output_dim, p, p))
    for r, d, i, j in np.ndindex(*out.shape):
        if rois[r, 0] < 0:
            continue
        x, y, w, h = _region(rois[r, 1:], spatial_scale)
        rows, columns = (np.clip([np.floor(k * n / p + start), np.ceil((k + 1) * n / p + start)], 0, size).astype(int)
                         for k, n, start, size in ((i, h, y, height), (j, w, x, width)))
        part = data[int(rois[r, 0]), (d * g + i * g // p) * g + j * g // p, slice(*rows), slice(*columns)]
        out[r, d, i, j] = part.mean() if part.size else 0
    return out


def _deformable(data, rois, trans, spatial_scale, output_dim, group_size, pooled_size, part_size=0, sample_per_part=1,
                trans_std=0.0, no_trans=False):
    g, p, s, (height, width) = group_size, pooled_size, sample_per_part, data.shape[2:]
    parts, out = part_size or p, np.zeros((len(rois), output_dim, p, p))
    for r, d, i, j in np.ndindex(*out.shape):
        if rois[r, 0] < 0:
            continue
        x, y, w, h = _region(rois[r, 1:], spatial_scale)
        x, y = x - 0.5 + j * w / p, y - 0.5 + i * h / p
        if not no_trans:
            k = d // (output_dim // (trans.shape[1] // 2)) * 2
            x += trans[r, k, i * parts // p, j * parts // p] * trans_std * w
            y += trans[r, k + 1, i * parts // p, j * parts // p] * trans_std * h
        image, values = data[int(rois[r, 0]), (d * g + i * g // p) * g + j * g // p], []
        for a, b in np.ndindex(s, s):
            ys, xs = y + a * h / p / s, x + b * w / p / s
            if -0.5 <= xs <= width - 0.5 and -0.5 <= ys <= height - 0.5:
                ys, xs = np.clip(ys, 0, height - 1), np.clip(xs, 0, width - 1)
                down, across = ([(int(np.floor(v)), 1 - v % 1), (int(np.ceil(v)), v % 1)] for v in (ys, xs))
                values.append(sum(image[m, n] * wm * wn for m, wm in down for n, wn in across))
        out[r, d, i, j] = np.mean(values) if values else 0
    return out


REGIONS = np.array([[0, 1, 1, 14, 10], [1, 0.4, 0, 17, 11.6], [0, 6, 4, 6, 4], [-1, 1, 1, 3, 3], [1, -6, -4, 60, 50],
                    [0, 40, 40, 50, 50], [1, 5, 7, 2, 3.0]])
row("psroi_pooling", ref=_psroi, grad=(0,), tol=8, samples=[
    S(normal(2, 18, 6, 8), REGIONS, spatial_scale=0.5, output_dim=2, pooled_size=3),
    S(normal(2, 14, 6, 8), REGIONS, spatial_scale=1.0, output_dim=3, pooled_size=5, group_size=2),
    S(normal(2, 4, 6, 8), REGIONS[3:4], spatial_scale=1.0, output_dim=4, pooled_size=1),
    S(normal(2, 4, 6, 8), normal(0, 5), spatial_scale=1.0, output_dim=1, pooled_size=2)])
exempt("psroi_pooling_grad", "psroi_pooling")
row("deformable_psroi_pooling", ref=_deformable, grad=(0, 2), tol=20, dtypes="float32 float64", samples=[
    S(normal(2, 16, 6, 8), REGIONS, normal(7, 4, 3, 3), spatial_scale=0.45, output_dim=4, group_size=2, pooled_size=3,
      sample_per_part=2, trans_std=0.1),
    S(normal(2, 19, 6, 8), REGIONS, normal(7, 2, 2, 2), spatial_scale=0.9, output_dim=2, group_size=3, pooled_size=4,
      part_size=2, sample_per_part=3, trans_std=0.3),
    S(normal(2, 4, 6, 8), REGIONS, None, spatial_scale=0.5, output_dim=1, group_size=2, pooled_size=2, no_trans=True),
    S(normal(2, 4, 6, 8), normal(0, 5), normal(0, 2, 2, 2), spatial_scale=0.5, output_dim=1, group_size=2,
      pooled_size=2)])
exempt("deformable_psroi_pooling_grad", "deformable_psroi_pooling")

# -- region proposals ----------------------------------------------------------------------------------------------


def _overlap(a, b):
    """Intersection over union of boxes whose last pixels belong to them."""
    sides = [max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i]) + 1) for i in (0, 1)]
    area = sum((v[2] - v[0] + 1) * (v[3] - v[1] + 1) for v in (a, b))
    return np.prod(sides) / (area - np.prod(sides))


def _proposals(cls_prob, bbox_pred, im_info, rpn_pre_nms_top_n=6000, rpn_post_nms_top_n=300, threshold=0.7,
               rpn_min_size=16, scales=(4.0, 8.0, 16.0, 32.0), ratios=(0.5, 1.0, 2.0), feature_stride=16,
               iou_loss=False):
    n, c, height, width = cls_prob.shape
    out, scores, stride = [], [], feature_stride
    for b in range(n):
        found = []
        for y, x, (a, (ratio, scale)) in itertools.product(range(height), range(width), enumerate(itertools.product(
                ratios, scales))):
            w = np.floor(np.sqrt(np.floor(stride ** 2 / ratio)) + 0.5)
            size = np.array([w, np.floor(w * ratio + 0.5)]) * scale
            middle = (stride - 1) / 2 + stride * np.array([x, y])
            d = bbox_pred[b, 4 * a:4 * a + 4, y, x]
            low, high = middle - (size - 1) / 2, middle + (size - 1) / 2
            if iou_loss:
                low, high = low + d[:2], high + d[2:]
            else:
                middle, size = middle + d[:2] * size, size * np.exp(d[2:])
                low, high = middle - (size - 1) / 2, middle + (size - 1) / 2
            low, high = (np.maximum(np.minimum(v, im_info[b, 1::-1] - 1), 0) for v in (low, high))
            least = rpn_min_size * im_info[b, 2]
            small = (high - low + 1 < least).any()
            beyond = y >= int(im_info[b, 0] / stride) or x >= int(im_info[b, 1] / stride)
            grow = least / 2 if small else 0
            found.append([-1 if small or beyond else cls_prob[b, c // 2 + a, y, x], *(low - grow), *(high + grow)])
        found = sorted(found, key=lambda f: -f[0])[:rpn_pre_nms_top_n or None]
        kept = []
        for f in found:
            if len(kept) < rpn_post_nms_top_n and all(_overlap(f[1:], k[1:]) <= threshold for k in kept):
                kept.append(f)
        for i in range(rpn_post_nms_top_n):
            out.append([b, *kept[i % len(kept)][1:]])
            scores.append(kept[i % len(kept)][0])
    return np.array(out, "float64").reshape(-1, 5), np.array(scores, "float64").reshape(-1, 1)


def _scores(*shape):
    return lambda rng: (rng.permutation(int(np.prod(shape))) + 0.5).reshape(shape) / np.prod(shape)


_SIZES = np.array([[40, 60, 1], [50, 44, 0.5]])
row("proposals", ref=_proposals, tol=8, dtypes="float32 float64", samples=[
    S(_scores(2, 8, 3, 4), normal(2, 16, 3, 4, scale=0.3), _SIZES, rpn_post_nms_top_n=6, threshold=0.3,
      scales=(1.0, 2.5), ratios=(0.5, 2.0)),
    S(_scores(2, 2, 3, 4), normal(2, 4, 3, 4, scale=8.0), _SIZES, rpn_pre_nms_top_n=7, rpn_post_nms_top_n=9,
      rpn_min_size=12, scales=(2.0,), ratios=(1.0,), iou_loss=True),
    S(_scores(1, 2, 3, 4), normal(1, 4, 3, 4), _SIZES[:1], rpn_post_nms_top_n=0, scales=(2.0,), ratios=(1.0,))])

# -- count sketches ------------------------------------------------------------------------------------------------


def _sketch(data, h, s, out_dim):
    return (data * s[0]) @ (h[0][:, None] == np.arange(out_dim))


row("count_sketch", ref=_sketch, grad=(0, 2), tol=4, samples=[
    S(normal(3, 7), ints(1, 7, high=4), normal(1, 7), out_dim=4), S(normal(0, 4), ints(1, 4), normal(1, 4), out_dim=10),
    S(normal(2, 3, 2, 5), ints(1, 5, high=2), normal(1, 5), out_dim=3)])
