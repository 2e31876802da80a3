"""Rows of the correlation of two images, against loops over patches and displacements."""
import numpy as np
from table import S, exempt, normal, row


def _correlation(a, b, kernel_size=1, max_displacement=1, stride1=1, stride2=1, pad_size=0, is_multiply=True):
    a, b = (np.pad(x, ((0, 0), (0, 0), (pad_size,) * 2, (pad_size,) * 2)) for x in (a, b))
    border = max_displacement + kernel_size // 2
    ys, xs = (range(border, n - border, stride1) for n in a.shape[2:])
    radius = max_displacement // stride2
    steps = [(i * stride2, j * stride2) for i in range(-radius, radius + 1) for j in range(-radius, radius + 1)]
    result = np.zeros((len(a), len(steps), len(ys), len(xs)))
    k = kernel_size // 2
    for s, (dy, dx) in enumerate(steps):
        for i, y in enumerate(ys):
            for j, x in enumerate(xs):
                p = a[:, :, y - k:y + k + 1, x - k:x + k + 1]
                q = b[:, :, y + dy - k:y + dy + k + 1, x + dx - k:x + dx + k + 1]
                result[:, s, i, j] = (p * q if is_multiply else abs(p - q)).mean((1, 2, 3))
    return result


row("correlation", ref=_correlation, tol=8, samples=[
    S(normal(2, 3, 5, 6), normal(2, 3, 5, 6)),
    S(normal(1, 2, 6, 5), normal(1, 2, 6, 5), kernel_size=3, max_displacement=2, stride1=2, pad_size=3),
    S(normal(2, 2, 4, 5), normal(2, 2, 4, 5), max_displacement=3, stride2=2, pad_size=3, is_multiply=False),
    S(normal(1, 2, 5, 5), normal(1, 2, 5, 5), kernel_size=3, max_displacement=1, pad_size=1, is_multiply=False),
    S(normal(0, 2, 4, 5), normal(0, 2, 4, 5))])
exempt("correlation_grad", "correlation")
