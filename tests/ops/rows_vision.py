"""Rows of the operators of detection and sampling."""
import itertools

import numpy as np
from table import S, exempt, ints, normal, positive, row, uniform


def boxes(*shape):
    """Random boxes (left, top, right, bottom)."""
    def draw(rng):
        corner = rng.uniform(0, 0.6, (*shape, 2))
        return np.concatenate([corner, corner + rng.uniform(0.1, 0.4, (*shape, 2))], -1)
    return draw


def scored(*shape, classes=3):
    """Rows of class, score and box."""
    def draw(rng):
        head = np.stack([rng.integers(0, classes, shape).astype(float), rng.permutation(int(np.prod(shape))).reshape(
            shape) / np.prod(shape)], -1)
        return np.concatenate([head, boxes(*shape)(rng)], -1)
    return draw


def corners(b, box_format):
    return b if box_format == "corner" else np.array([b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2,
                                                      b[1] + b[3] / 2])


def iou(a, b, box_format="corner"):
    a, b = corners(a, box_format), corners(b, box_format)
    w, h = (max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    area = [(v[2] - v[0]) * (v[3] - v[1]) for v in (a, b)]
    return w * h / (sum(area) - w * h) if w * h else 0.0


row("box_iou", ref=lambda a, b, format="corner": np.array(
    [iou(p, q, format) for p in a.reshape(-1, 4) for q in b.reshape(-1, 4)]).reshape(a.shape[:-1] + b.shape[:-1]),
    tol=8, samples=[S(boxes(3), boxes(2)), S(boxes(2, 2), boxes(3), format="center"), S(boxes(0), boxes(2))])


def _centred(b):
    return np.concatenate([(b[..., :2] + b[..., 2:]) / 2, b[..., 2:] - b[..., :2]], -1)


def _encode(samples, matches, anchors, refs, means, stds):
    g = _centred(np.take_along_axis(refs, matches.astype(int)[..., None], 1))
    a = _centred(anchors)
    t = np.concatenate([(g[..., :2] - a[..., :2]) / a[..., 2:], np.log(g[..., 2:] / a[..., 2:])], -1)
    mask = np.repeat((samples > 0.5)[..., None], 4, -1)
    return np.where(mask, (t - means) / stds, 0), mask.astype(float)


row("box_encode", ref=_encode, tol=40, samples=[
    S(ints(2, 5, low=-1, high=2), ints(2, 5, high=3), boxes(2, 5), boxes(2, 3), normal(4), positive(4))])


def _decode(data, anchors, std0=1.0, std1=1.0, std2=1.0, std3=1.0, clip=-1.0, format="center"):
    a = anchors if format == "center" else _centred(anchors)
    t = data * np.array([std0, std1, std2, std3])
    s = np.minimum(t[..., 2:], clip) if clip > 0 else t[..., 2:]
    c, h = t[..., :2] * a[..., 2:] + a[..., :2], np.exp(s) * a[..., 2:] / 2
    return np.concatenate([c - h, c + h], -1)


row("box_decode", ref=_decode, tol=8, samples=[
    S(normal(2, 5, 4), boxes(1, 5), std0=0.1, std2=0.2, format="corner"),
    S(normal(1, 3, 4), positive(1, 3, 4), clip=0.1)])


def _nms(data, overlap_thresh=0.5, valid_thresh=0, topk=-1, coord_start=2, score_index=1, id_index=-1, background_id=-1,
         force_suppress=False, in_format="corner", out_format="corner"):
    flat = data.reshape(-1, *data.shape[-2:])
    out, record = np.full(flat.shape, -1.0), np.full((*flat.shape[:2], 1), -1.0)
    for b, rows in enumerate(flat):
        order = [i for i in np.argsort(-rows[:, score_index], kind="stable") if rows[i, score_index] > valid_thresh
                 and (id_index < 0 or rows[i, id_index] != background_id)]
        kept = []
        for i in order[:topk if topk > 0 else None]:
            if all(iou(rows[i, coord_start:coord_start + 4], rows[j, coord_start:coord_start + 4], in_format) <=
                   overlap_thresh or not (force_suppress or id_index < 0 or rows[i, id_index] == rows[j, id_index])
                   for j in kept):
                kept.append(i)
        for k, i in enumerate(kept):
            out[b, k], record[b, k] = rows[i], i + b * len(rows)
            if out_format != in_format:
                part = out[b, k, coord_start:coord_start + 4]
                part[...] = _centred(part) if out_format == "center" else corners(part.copy(), "center")
    return out.reshape(data.shape), record.reshape(*data.shape[:-1], 1)


row("box_nms", ref=_nms, dtypes="float32 float64", tol=4, grad=(), samples=[
    S(scored(2, 10), overlap_thresh=0.3, valid_thresh=0.12, id_index=0), S(scored(8), overlap_thresh=0.2),
    S(scored(300), overlap_thresh=0.6, id_index=0),
    S(scored(2, 9), overlap_thresh=0.2, topk=4, id_index=0, background_id=1, force_suppress=True, out_format="center")])
exempt("box_nms_grad", "box_nms")


def _bipartite(scores, is_ascend=False, threshold=None, topk=-1):
    flat = scores.reshape(-1, *scores.shape[-2:])
    rows, columns = np.full(flat.shape[:2], -1.0), np.full((len(flat), flat.shape[2]), -1.0)
    for b, m in enumerate(flat):
        pairs = sorted(np.ndindex(*m.shape), key=lambda p: m[p] if is_ascend else -m[p])
        for r, c in pairs:
            good = m[r, c] < threshold if is_ascend else m[r, c] > threshold
            if good and rows[b, r] < 0 and columns[b, c] < 0 and (topk <= 0 or (rows[b] >= 0).sum() < topk):
                rows[b, r], columns[b, c] = c, r
    return rows.reshape(scores.shape[:-1]), columns.reshape(*scores.shape[:-2], scores.shape[-1])


row("bipartite_matching", ref=_bipartite, samples=[
    S(uniform(2, 3, 4, low=0), threshold=0.2), S(uniform(3, 4, low=0), threshold=0.6, is_ascend=True, topk=2)],
    dtypes="float32 float64")


def _prior(data, sizes=(1.0,), ratios=(1.0,), clip=False, steps=(-1.0, -1.0), offsets=(0.5, 0.5)):
    h, w = data.shape[2:]
    step = [s if s > 0 else 1 / n for s, n in zip(steps, (h, w))]
    out = []
    for y, x in itertools.product(range(h), range(w)):
        cy, cx = (y + offsets[0]) * step[0], (x + offsets[1]) * step[1]
        for s, r in [(s, ratios[0]) for s in sizes] + [(sizes[0], r) for r in ratios[1:]]:
            bw, bh = s * h / w * np.sqrt(r) / 2, s / np.sqrt(r) / 2
            out.append([cx - bw, cy - bh, cx + bw, cy + bh])
    out = np.array(out)[None]
    return np.clip(out, 0, 1) if clip else out


row("multibox_prior", ref=_prior, tol=4, samples=[
    S(normal(1, 2, 3, 4), sizes=(0.5, 0.2), ratios=(1.0, 2.0, 0.5)),
    S(normal(1, 1, 2, 2), clip=True, steps=(0.3, 0.2))])


def _target(inputs, outputs, attrs):
    anchor, label = inputs[0][0], inputs[1]
    offsets, mask, classes = (v.astype(float) for v in outputs)
    for b in range(len(label)):
        objects = [o for o in label[b] if o[0] != -1]
        table = np.array([[iou(a.astype(float), o[1:5].astype(float)) for o in objects] for a in anchor])
        positive = classes[b] > 0
        assert positive.sum() >= len(objects) or table.max() <= 1e-6
        assert (classes[b][positive] - 1 == [o[0] for o in objects][0]).all() or len(objects) > 1
        assert (table[~positive].max(axis=1) <= attrs.get("overlap_threshold", 0.5) + 1e-6).all()
        assert (mask[b].reshape(-1, 4) == positive[:, None]).all() and (offsets[b][mask[b] == 0] == 0).all()
        if attrs.get("negative_mining_ratio", -1) > 0:
            assert (classes[b] == 0).sum() <= attrs["negative_mining_ratio"] * positive.sum()
            assert (classes[b] == -1).any()
        else:
            assert ((classes[b] == 0) == ~positive).all()


def _labels(*shape):
    def draw(rng):
        result = scored(*shape)(rng)[..., [0, 2, 3, 4, 5]]
        result[-1, -1] = -1
        return result
    return draw


row("multibox_target", check=_target, dtypes="float32 float64", samples=[
    S(boxes(1, 30), _labels(2, 3), normal(2, 4, 30)),
    S(boxes(1, 30), _labels(2, 3), normal(2, 4, 30), overlap_threshold=0.3, negative_mining_ratio=2.0,
      negative_mining_thresh=0.4)])


def _detection(inputs, outputs, attrs):
    p, out = inputs[0], outputs[0].astype(float)
    for b in range(len(p)):
        rows = out[b][out[b, :, 0] >= 0]
        best = p[b, 1:].max(axis=0)
        assert len(rows) <= (best >= attrs.get("threshold", 0.01)).sum()
        assert (np.diff(rows[:, 1]) <= 1e-6).all()
        for i, j in itertools.combinations(range(len(rows)), 2):
            if attrs.get("force_suppress") or rows[i, 0] == rows[j, 0]:
                assert iou(rows[i, 2:], rows[j, 2:]) < attrs.get("nms_threshold", 0.5) + 1e-3
        if attrs.get("clip", True):
            assert rows[:, 2:].min(initial=0) >= 0 and rows[:, 2:].max(initial=0) <= 1


row("multibox_detection", check=_detection, dtypes="float32 float64", samples=[
    S(positive(2, 3, 12, low=0.1, high=0.9), normal(2, 48), boxes(1, 12)),
    S(positive(2, 3, 12, low=0.1, high=0.9), normal(2, 48), boxes(1, 12), threshold=0.5, clip=False, nms_topk=5,
      force_suppress=True, nms_threshold=0.2)])


def _roi(data, rois, pooled_size, spatial_scale=1.0):
    ph, pw = pooled_size
    height, width = data.shape[2:]
    out = np.zeros((len(rois), data.shape[1], ph, pw))
    where = np.full(out.shape, -1)
    for r, (b, *box) in enumerate(rois):
        if not 0 <= b < len(data):
            continue
        x0, y0, x1, y1 = (int(np.floor(v * spatial_scale + 0.5)) for v in box)
        h, w = max(y1 - y0 + 1, 1), max(x1 - x0 + 1, 1)
        for c, i, j in np.ndindex(data.shape[1], ph, pw):
            best = None
            for y in range(int(np.floor(i * h / ph)) + y0, int(np.ceil((i + 1) * h / ph)) + y0):
                for x in range(int(np.floor(j * w / pw)) + x0, int(np.ceil((j + 1) * w / pw)) + x0):
                    if 0 <= y < height and 0 <= x < width and (best is None or data[int(b), c, y, x] > best):
                        best, where[r, c, i, j] = data[int(b), c, y, x], y * width + x
            out[r, c, i, j] = 0 if best is None else best
    return out, where


row("roi_pooling", ref=_roi, grad=(0,), dtypes="float32 float64", outputs=(0,), samples=[
    S(normal(2, 2, 6, 8), np.array([[0, 0, 0, 7, 5], [1, 2, 1, 5, 5], [0, 3, 3, 3, 3], [1, 10, 10, 20, 20.0]]),
      pooled_size=(2, 3), spatial_scale=0.9),
    S(normal(2, 2, 6, 8), np.array([[-1, 0, 0, 7, 5], [2, 2, 1, 5, 5], [1, 1, 3, 3, 3.0]]), pooled_size=(2, 2),
      spatial_scale=1.0), S(normal(2, 2, 6, 8), normal(0, 5), pooled_size=(2, 2), spatial_scale=1.0)])
exempt("roi_pooling_grad", "roi_pooling")

# -- sampling ------------------------------------------------------------------------------------------------------


def _points(data, y, x, inside=False):
    n, c, h, w = data.shape
    if inside:
        valid = (y >= 0) & (y < h) & (x >= 0) & (x < w)
        return _points(data, np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)) * valid[:, None]
    out = np.zeros((n, c, y.shape[1]))
    for i, p in np.ndindex(*y.shape):
        for py, px in itertools.product(*[(int(np.floor(v)), int(np.floor(v)) + 1) for v in (y[i, p], x[i, p])]):
            if 0 <= py < h and 0 <= px < w:
                out[i, :, p] += data[i, :, py, px] * (1 - abs(y[i, p] - py)) * (1 - abs(x[i, p] - px))
    return out


row("bilinear_points", ref=_points, tol=20, samples=[
    S(normal(2, 3, 5, 6), uniform(2, 9, low=-1.5, high=5.5), uniform(2, 9, low=-1.5, high=6.5)),
    S(normal(2, 3, 5, 6), uniform(2, 20, low=-1.5, high=5.5), uniform(2, 20, low=-1.5, high=6.5), inside=True),
    S(normal(1, 2, 3, 3), uniform(1, 0), uniform(1, 0))], dtypes="float32 float64")
exempt("bilinear_points_grad", "bilinear_points")


def _grid(data, transform_type, target_shape=(0, 0)):
    if transform_type == "affine":
        h, w = target_shape
        y, x = (v.reshape(-1) for v in np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij"))
        return (data.reshape(-1, 2, 3) @ np.stack([x, y, np.ones(h * w)])).reshape(-1, 2, h, w)
    h, w = data.shape[2:]
    y, x = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    return (data + np.stack([x, y])) / (np.array([w - 1, h - 1]).reshape(2, 1, 1) / 2) - 1


row("grid_generator", ref=_grid, tol=8, second=False, samples=[
    S(normal(2, 6), transform_type="affine", target_shape=(4, 5)), S(normal(2, 2, 4, 5), transform_type="warp")])
exempt("grid_generator_grad", "grid_generator")


def _resize(x, height, width, align_corners=True):
    def matrix(n, out):
        m = np.zeros((out, n))
        for i in range(out):
            at = i * (n - 1) / (out - 1) if align_corners and out > 1 else 0 if align_corners else \
                min(max((i + 0.5) * n / out - 0.5, 0), n - 1)
            k = min(int(at), n - 1)
            m[i, k] += 1 - (at - k)
            m[i, min(k + 1, n - 1)] += at - k
        return m
    return matrix(x.shape[2], height) @ x @ matrix(x.shape[3], width).T


row("bilinear_resize", ref=_resize, tol=8, samples=[
    S(normal(2, 3, 5, 6), height=7, width=4), S(normal(2, 3, 5, 6), height=7, width=4, align_corners=False)])
exempt("bilinear_resize_grad", "bilinear_resize")
row("nearest_upsampling", ref=lambda x, scale: x.repeat(scale, 2).repeat(scale, 3), samples=[
    S(normal(2, 3, 4, 5), scale=2), S(normal(1, 2, 3, 3), scale=1)])


def _im2col(x, kernel, stride=(), dilate=(), pad=()):
    n = x.ndim - 2
    stride, dilate, pad = stride or (1,) * n, dilate or (1,) * n, pad or (0,) * n
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    out = [(m - d * (k - 1) - 1) // s + 1 for m, d, k, s in zip(x.shape[2:], dilate, kernel, stride)]
    taps = [x[(slice(None), slice(None), *[slice(i * d, i * d + (o - 1) * s + 1, s)
                                           for i, d, o, s in zip(tap, dilate, out, stride)])]
            for tap in itertools.product(*[range(k) for k in kernel])]
    return np.stack(taps, 2).reshape(x.shape[0], -1, int(np.prod(out)))


def _col2im(columns, output_size, **attrs):
    shape = (1, columns.shape[1] // int(np.prod(attrs["kernel"])), *output_size)
    basis = np.eye(int(np.prod(shape))).reshape(-1, *shape[1:])
    matrix = _im2col(basis, **attrs).reshape(len(basis), -1)
    return (columns.reshape(len(columns), -1) @ matrix.T).reshape(-1, *shape[1:])


row("im2col", ref=_im2col, samples=[S(normal(2, 3, 5, 6), kernel=(2, 3), stride=(1, 2), pad=(1, 1)),
                                    S(normal(2, 2, 7), kernel=(3,), dilate=(2,))])
row("col2im", ref=_col2im, tol=4, samples=[
    S(normal(2, 12, 18), output_size=(5, 6), kernel=(2, 3), stride=(1, 2), pad=(1, 1))])
