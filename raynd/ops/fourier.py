"""The discrete Fourier transforms of ``mx.nd.contrib``, with complex numbers stored as pairs (real, imaginary)."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .decompositions import real
from .registry import operator


def _check(data, compute_size, even):
    if not data.shape or (even and data.shape[-1] % 2):
        raise ShapeError(f"the last axis must {'hold pairs of numbers' if even else 'exist'}, got shape {data.shape}")
    if not isinstance(compute_size, int) or compute_size < 1:
        raise ArgumentError(f"compute_size must be a positive int, not {compute_size!r}")


def _infer_fft(data, compute_size):
    _check(data, compute_size, False)
    return spec((*data.shape[:-1], 2 * data.shape[-1]), real(data))


def _fft(xp, data, compute_size):
    """Fourier transform of real numbers along the last axis: (..., n) gives (..., 2 n), real and imaginary parts in
    turn. ``compute_size``, MXNet's number of rows at a time, has no effect on the result and is not needed."""
    if not data.size:
        return xp.zeros((*data.shape[:-1], 2 * data.shape[-1]), data.dtype)
    result = xp.fft.fft(data.astype("float64" if data.dtype.itemsize == 8 else "float32"), axis=-1)
    return xp.stack([result.real, result.imag], axis=-1).reshape((*data.shape[:-1], 2 * data.shape[-1]))


def _infer_ifft(data, compute_size):
    _check(data, compute_size, True)
    return spec((*data.shape[:-1], data.shape[-1] // 2), real(data))


def _ifft(xp, data, compute_size):
    """The real part of the inverse Fourier transform, times n: (..., 2 n), real and imaginary parts in turn, gives
    (..., n). The division by n is left to the caller, as in MXNet. ``compute_size`` has no effect on the result."""
    n = data.shape[-1] // 2
    if not data.size:
        return xp.zeros((*data.shape[:-1], n), data.dtype)
    pairs = data.astype("float64" if data.dtype.itemsize == 8 else "float32").reshape((*data.shape[:-1], n, 2))
    return xp.fft.ifft(pairs[..., 0] + 1j * pairs[..., 1], axis=-1).real * n


operator("contrib_fft", "data, compute_size=128, out=None", inputs="data", infer=_infer_fft, kernel=_fft,
         nd="_contrib_fft", vjp=lambda F, dy, x, y, compute_size: F.contrib_ifft(dy, compute_size=compute_size))
operator("contrib_ifft", "data, compute_size=128, out=None", inputs="data", infer=_infer_ifft, kernel=_ifft,
         nd="_contrib_ifft", vjp=lambda F, dy, x, y, compute_size: F.contrib_fft(dy, compute_size=compute_size))
