"""Correlation of the patches of two images (Dosovitskiy et al. 2015, FlowNet)."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float, spec
from .registry import operator
from .softmax import wide

_ATTRS = "kernel_size=1, max_displacement=1, stride1=1, stride2=1, pad_size=0, is_multiply=True"


class _Patches:
    """The geometry of a correlation: output sizes, displacements, and where patches lie in the padded images."""

    def __init__(self, shape, kernel_size, max_displacement, stride1, stride2, pad_size, is_multiply):
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ArgumentError(f"Correlation: kernel_size must be odd, not {kernel_size}")
        if min(stride1, stride2) < 1 or min(max_displacement, pad_size) < 0:
            raise ArgumentError("Correlation: strides must be positive, max_displacement and pad_size not negative")
        self.kernel, self.reach, self.stride, self.pad = kernel_size, max_displacement, stride1, pad_size
        self.multiply = is_multiply
        border = 2 * (max_displacement + (kernel_size - 1) // 2)
        self.out = tuple(-(-(n + 2 * pad_size - border) // stride1) for n in shape[2:])
        if min(self.out) < 1:
            raise ShapeError(f"Correlation: displacements and kernel do not fit into {shape[2]} by {shape[3]} pixels "
                             f"with pad_size={pad_size}")
        radius = max_displacement // stride2
        self.steps = [i * stride2 for i in range(-radius, radius + 1)]
        self.scale = 1 / (kernel_size ** 2 * max(shape[1], 1))

    def padded(self, xp, x):
        p = self.pad
        return xp.pad(wide(xp, x), ((0, 0), (0, 0), (p, p), (p, p)))

    def inner(self, x):
        p = self.pad
        return x[:, :, p:x.shape[2] - p, p:x.shape[3] - p]

    def pairs(self):
        """(displacement's number, pixels of the first image, pixels of the second) for each place in a patch; pixels
        are an index that reads them for all patches at once."""
        for number, (y, x) in enumerate((a, b) for a in self.steps for b in self.steps):
            for i in range(self.kernel):
                for j in range(self.kernel):
                    yield number, self._pixels(i, j), self._pixels(i + y, j + x)

    def _pixels(self, *start):
        return (slice(None), slice(None), *[slice(a, a + (n - 1) * self.stride + 1, self.stride)
                                            for a, n in zip((s + self.reach for s in start), self.out)])


def _infer(data1, data2, **attrs):
    for x in (data1, data2):
        if not isinstance(x, ArraySpec) or x.ndim != 4:
            raise ShapeError(f"Correlation: inputs must be (N, C, H, W), not of shape {getattr(x, 'shape', ())}")
    if data1.shape != data2.shape or data1.dtype != data2.dtype or not is_float(data1.dtype):
        raise ShapeError(f"Correlation: inputs must have one shape and floating dtype, not {data1} and {data2}")
    p = _Patches(data1.shape, **attrs)
    return spec((data1.shape[0], len(p.steps) ** 2, *p.out), data1.dtype)


def _correlation(xp, data1, data2, **attrs):
    """How well patches of ``data1`` (N, C, H, W) match those of ``data2`` nearby: (N, displacements, H', W').

    Means over patches of ``kernel_size`` and all channels, of products or (``is_multiply=False``) absolute differences;
    every ``stride1`` pixels of the image padded by ``pad_size``, for displacements up to ``max_displacement`` in steps
    of ``stride2``, along both axes.
    """
    p = _Patches(data1.shape, **attrs)
    a, b = p.padded(xp, data1), p.padded(xp, data2)
    result = xp.zeros((a.shape[0], len(p.steps) ** 2, *p.out), a.dtype)
    for number, one, two in p.pairs():
        result[:, number] += (a[one] * b[two] if p.multiply else xp.abs(a[one] - b[two])).sum(axis=1)
    return result * p.scale


def _grad(xp, dy, data1, data2, **attrs):
    p = _Patches(data1.shape, **attrs)
    a, b, dy = p.padded(xp, data1), p.padded(xp, data2), wide(xp, dy) * p.scale
    by_a, by_b = xp.zeros(a.shape, a.dtype), xp.zeros(b.shape, b.dtype)
    for number, one, two in p.pairs():
        g = dy[:, number][:, None]
        if p.multiply:
            by_a[one] += g * b[two]
            by_b[two] += g * a[one]
        else:
            g = xp.where(a[one] >= b[two], g, -g)
            by_a[one] += g
            by_b[two] -= g
    return p.inner(by_a), p.inner(by_b)


operator("correlation", f"data1, data2, {_ATTRS}, out=None", infer=_infer, kernel=_correlation, nd="Correlation",
         vjp=lambda F, dy, x, y, **attrs: F.correlation_grad(dy, *x, **attrs), first_order_only=True)
operator("correlation_grad", f"dy, data1, data2, {_ATTRS}", kernel=_grad, first_order_only=True,
         infer=lambda dy, data1, data2, **_: (data1, data2))
