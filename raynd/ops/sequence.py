"""Operators on batches of sequences of different lengths: masks, the last element, reversal."""
from __future__ import annotations

from ..errors import ShapeError
from ..spec import normalize_axis, spec
from .creation import constant
from .elementwise import operand_shape
from .registry import check_optional, operator


def _lengths(data, sequence_length, use_sequence_length, axis, function, axes=(0, 1)):
    if axis not in axes:
        raise ShapeError(f"{function}: axis must be {' or '.join(map(str, axes))}, not {axis}")
    if len(data.shape) < 2:
        raise ShapeError(f"{function}: data needs at least 2 axes (time and batch), not shape {data.shape}")
    normalize_axis(axis, len(data.shape))
    check_optional(function, "sequence_length", sequence_length, bool(use_sequence_length),
                   use_sequence_length=use_sequence_length)
    if use_sequence_length:
        batch = data.shape[1 - axis]
        if operand_shape(sequence_length) != (batch,):
            raise ShapeError(f"{function}: sequence_length of shape {operand_shape(sequence_length)} for a batch of "
                             f"{batch}")
    return data


def _valid(xp, data, sequence_length, axis):
    """True where the time index is below the sequence's length: of the first two axes of ``data``."""
    time = xp.arange(data.shape[axis])
    lengths = sequence_length.astype("int64")
    return time[:, None] < lengths if axis == 0 else time < lengths[:, None]


def _sequence_mask(xp, data, sequence_length, use_sequence_length, value, axis):
    """``data`` with ``value`` at times at and after each sequence's length. ``axis`` is the time axis, 0 or 1; the
    other of these is the batch."""
    result = data.copy()
    if use_sequence_length:
        result[~_valid(xp, data, sequence_length, axis)] = constant(value, data.dtype)
    return result


def _sequence_mask_vjp(F, dy, x, y, use_sequence_length, value, axis):
    if not use_sequence_length:
        return dy, None
    return F.sequence_mask(dy, x[1], use_sequence_length=True, value=0.0, axis=axis), None


def _time_index(xp, data, sequence_length, use_sequence_length, axis):
    """The index of the last valid time of each sequence, shaped to take along ``axis``."""
    n = data.shape[axis]
    last = sequence_length.astype("int64") - 1 if use_sequence_length else xp.full(data.shape[1 - axis], n - 1)
    if last.size and (int(last.min()) < 0 or int(last.max()) >= n):
        raise IndexError(f"sequence_last: a sequence length lies outside 1 to {n}")
    return last


def _sequence_last(xp, data, sequence_length, use_sequence_length, axis):
    """For each sequence of the batch its last valid element."""
    last = _time_index(xp, data, sequence_length, use_sequence_length, axis)
    batch = xp.arange(data.shape[1 - axis])
    return data[last, batch] if axis == 0 else data[batch, last]


def _sequence_last_grad(xp, dy, sequence_length, shape, use_sequence_length, axis):
    result = xp.zeros(shape, dy.dtype)
    last = _time_index(xp, result, sequence_length, use_sequence_length, axis)
    batch = xp.arange(shape[1 - axis])
    result[(last, batch) if axis == 0 else (batch, last)] = dy
    return result


def _sequence_reverse(xp, data, sequence_length, use_sequence_length, axis):
    """Each sequence's valid part in reverse order, the rest as it is. ``axis`` is the time axis."""
    if not use_sequence_length:
        return xp.flip(data, axis=axis).copy()
    lengths = sequence_length.astype("int64")
    n = data.shape[axis]
    if lengths.size and (int(lengths.min()) < 0 or int(lengths.max()) > n):
        raise IndexError(f"sequence_reverse: a sequence length lies outside 0 to {n}")
    time = xp.arange(n)[:, None]
    source = xp.where(time < lengths, lengths - 1 - time, time)                # (time, batch)
    batch = xp.arange(lengths.size)
    return data[source, batch] if axis == 0 else data[batch[:, None], source.T]


_SEQUENCE = "data, sequence_length=None, use_sequence_length=False"
_OPTIONS = {"inputs": "data, sequence_length", "optional": ("sequence_length",)}
operator("sequence_mask", _SEQUENCE + ", value=0.0, axis=0, out=None", **_OPTIONS, npx="sequence_mask",
         nd="SequenceMask",
         infer=lambda data, length, use_sequence_length, value, axis: _lengths(data, length, use_sequence_length, axis,
                                                                               "sequence_mask"),
         kernel=_sequence_mask, vjp=_sequence_mask_vjp)
operator("sequence_last", _SEQUENCE + ", axis=0, out=None", **_OPTIONS, npx="sequence_last", nd="SequenceLast",
         infer=lambda data, length, use_sequence_length, axis: spec(
             _lengths(data, length, use_sequence_length, axis, "sequence_last").shape[1 - axis:2 - axis]
             + data.shape[2:], data.dtype),
         kernel=_sequence_last,
         vjp=lambda F, dy, x, y, use_sequence_length, axis: (
             F.sequence_last_grad(dy, x[1], shape=x[0].shape, use_sequence_length=use_sequence_length, axis=axis),
             None))
operator("sequence_last_grad", "dy, sequence_length, shape, use_sequence_length, axis", inputs="dy, sequence_length",
         optional=("sequence_length",), kernel=_sequence_last_grad,
         infer=lambda dy, length, shape, use_sequence_length, axis: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, use_sequence_length, axis: (
             F.sequence_last(g, x[1], use_sequence_length=use_sequence_length, axis=axis), None))
operator("sequence_reverse", _SEQUENCE + ", axis=0, out=None", **_OPTIONS, npx="sequence_reverse", nd="SequenceReverse",
         infer=lambda data, length, use_sequence_length, axis: _lengths(data, length, use_sequence_length, axis,
                                                                        "sequence_reverse"),
         kernel=_sequence_reverse,
         vjp=lambda F, dy, x, y, use_sequence_length, axis: (
             F.sequence_reverse(dy, x[1], use_sequence_length=use_sequence_length, axis=axis), None))
