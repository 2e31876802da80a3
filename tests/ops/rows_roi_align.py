"""Rows of averages over regions, against loops over bins and samples."""
import numpy as np
from table import S, exempt, normal, row


def at(image, y, x):
    """Bilinear values of (C, H, W) at one point; the edge goes on for one pixel, then zeros."""
    h, w = image.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return np.zeros(len(image))
    y, x = np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)
    i, j = int(y), int(x)
    k, m, fy, fx = min(i + 1, h - 1), min(j + 1, w - 1), y - i, x - j
    return ((1 - fy) * ((1 - fx) * image[:, i, j] + fx * image[:, i, m])
            + fy * ((1 - fx) * image[:, k, j] + fx * image[:, k, m]))


def _align(data, rois, pooled_size, spatial_scale, sample_ratio=-1, position_sensitive=False, aligned=False):
    ph, pw = pooled_size
    channels = data.shape[1] // (ph * pw if position_sensitive else 1)
    result = np.zeros((len(rois), channels, ph, pw))
    for r, (b, *corner) in enumerate(rois):
        if b < 0:
            continue
        x0, y0, x1, y1 = np.array(corner) * spatial_scale - 0.5 * aligned
        width, height = (x1 - x0, y1 - y0) if aligned else (max(x1 - x0, 1), max(y1 - y0, 1))
        gh, gw = (sample_ratio,) * 2 if sample_ratio > 0 else (int(np.ceil(height / ph)), int(np.ceil(width / pw)))
        for i in range(ph):
            for j in range(pw):
                values = [at(data[int(b)], y0 + height * (i + (a + 0.5) / gh) / ph,
                             x0 + width * (j + (c + 0.5) / gw) / pw) for a in range(gh) for c in range(gw)]
                mean = np.mean(values, 0)
                result[r, :, i, j] = mean.reshape(channels, ph, pw)[:, i, j] if position_sensitive else mean
    return result


REGIONS = np.array([[0, 1, 1, 6, 5], [1, 0.25, 0, 17, 11], [0, 3, 2, 3, 2], [-1, 1, 1, 3, 3], [1, -3, -2, 30, 25],
                    [0, 40, 40, 50, 50]])
row("roi_align", ref=_align, grad=(0,), tol=8, samples=[
    S(normal(2, 3, 7, 9), REGIONS, pooled_size=(3, 2), spatial_scale=1.0),
    S(normal(2, 3, 7, 9), REGIONS, pooled_size=(2, 2), spatial_scale=0.5, sample_ratio=2),
    S(normal(2, 3, 7, 9), REGIONS[[0, 1, 4]], pooled_size=(3, 2), spatial_scale=0.5, aligned=True),
    S(normal(2, 12, 5, 4), REGIONS, pooled_size=(3, 2), spatial_scale=0.5, position_sensitive=True),
    S(normal(2, 3, 7, 9), normal(0, 5), pooled_size=(2, 2), spatial_scale=1.0)])
exempt("roi_align_grad", "roi_align")


def _rotated(data, rois, pooled_size, spatial_scale, sampling_ratio=-1):
    ph, pw = pooled_size
    result = np.zeros((len(rois), data.shape[1], ph, pw))
    for r, (b, x, y, w, h, angle) in enumerate(rois):
        if b < 0:
            continue
        x, y, w, h = x * spatial_scale, y * spatial_scale, max(w * spatial_scale, 1), max(h * spatial_scale, 1)
        cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        gh, gw = (sampling_ratio,) * 2 if sampling_ratio > 0 else (int(np.ceil(h / ph)), int(np.ceil(w / pw)))
        for i in range(ph):
            for j in range(pw):
                v = [h * ((i + (a + 0.5) / gh) / ph - 0.5) for a in range(gh)]
                u = [w * ((j + (a + 0.5) / gw) / pw - 0.5) for a in range(gw)]
                result[r, :, i, j] = np.mean([at(data[int(b)], q * cos - p * sin + y, p * cos + q * sin + x)
                                              for p in u for q in v], 0)
    return result


ROTATED = np.array([[0, 4, 3, 5, 4, 30], [1, 8, 5, 9, 3, -70], [1, 2, 2, .5, .5, 0], [-1, 1, 1, 3, 3, 9],
                    [0, 5, 5, 20, 20, 45]])
row("rroi_align", ref=_rotated, grad=(0,), tol=8, dtypes="float32 float64", samples=[
    S(normal(2, 3, 7, 9), ROTATED, pooled_size=(3, 2), spatial_scale=1.0),
    S(normal(2, 3, 7, 9), ROTATED, pooled_size=(2, 2), spatial_scale=0.5, sampling_ratio=2),
    S(normal(2, 3, 7, 9), normal(0, 6), pooled_size=(2, 2), spatial_scale=1.0)])
exempt("rroi_align_grad", "rroi_align")
