"""Count sketches: sums of elements with random signs at random places (Charikar, Chen and Farach-Colton 2002)."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .indexing import add_rows
from .registry import operator
from .softmax import wide


def _infer(data, h, s, out_dim, processing_batch_size):
    if data.ndim not in (2, 4) or not h.shape == s.shape == (1, data.shape[-1]):
        raise ShapeError(f"count_sketch: data (n, d) or (n, a, b, d), h and s (1, d) are needed, not {data.shape}, "
                         f"{h.shape} and {s.shape}")
    if data.dtype != s.dtype:
        raise ArgumentError(f"count_sketch: data and s must have one dtype, not {data.dtype} and {s.dtype}")
    if out_dim < 1 or processing_batch_size < 1:
        raise ArgumentError(f"count_sketch: out_dim and processing_batch_size must be positive, not {out_dim} and "
                            f"{processing_batch_size}")
    return spec((*data.shape[:-1], out_dim), data.dtype)


def _count_sketch(xp, data, h, s, out_dim, processing_batch_size):
    """``result[..., h[0, i]] += s[0, i] * data[..., i]``, from zeros: (n, out_dim) or (n, a, b, out_dim).

    data (n, d) or (n, a, b, d); ``h`` (1, d): places from 0 to ``out_dim - 1``, in any dtype; ``s`` (1, d): signs.
    ``processing_batch_size`` has no effect on results.
    """
    place = h.reshape(-1).astype("int64")
    if place.size and not (0 <= int(place.min()) and int(place.max()) < out_dim):
        raise IndexError(f"count_sketch: a place in h lies outside 0 to {out_dim - 1}")
    rows = (wide(xp, data) * wide(xp, s).reshape(-1)).reshape(-1, place.size)
    return add_rows(xp, out_dim, place, xp.ascontiguousarray(rows.T)).T.reshape(*data.shape[:-1], out_dim)


def _vjp(F, dy, x, y, out_dim, processing_batch_size):
    data, h, s = x
    d = h.shape[1:]
    taken = F.take(dy, F.reshape(h, newshape=d), axis=-1, mode="clip")
    by_sign = F.sum(taken * data, axis=tuple(range(len(data.shape) - 1)))
    return taken * F.reshape(s, newshape=d), None, F.reshape(by_sign, newshape=s.shape)


operator("count_sketch", "data, h, s, out_dim, processing_batch_size=32, out=None", inputs="data, h, s", infer=_infer,
         kernel=_count_sketch, vjp=_vjp, nd="_contrib_count_sketch")
