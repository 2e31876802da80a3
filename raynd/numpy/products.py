"""Products of arrays that are made of several operators: ``einsum`` and ``cross``."""
from __future__ import annotations

from ..dispatch import F, Proxy
from ..errors import ArgumentError, ShapeError
from ..ops.einsum import LETTERS, prepare
from ..spec import normalize_axis

__all__ = ["einsum", "cross"]


def _interleaved(operands):
    """(subscripts, arrays) from ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    out = operands[-1] if len(operands) % 2 else None
    pairs = list(zip(operands[0::2], operands[1::2]))

    def letters(sublist):
        try:
            return "".join(["..." if i is Ellipsis else LETTERS[i] for i in sublist])
        except (TypeError, IndexError):
            raise ArgumentError(f"einsum: {sublist!r} is not a list of axis numbers 0 to 51 and Ellipsis") from None
    text = ",".join([letters(sub) for _, sub in pairs])
    return text if out is None else f"{text}->{letters(out)}", [a for a, _ in pairs]


def einsum(*operands, optimize=False, out=None):
    """Einstein summation: ``einsum('ij,jk->ik', a, b)``, or with lists of axis numbers in place of the string.

    ``optimize`` is accepted as NumPy's; contractions are always done two operands at a time in a good order. Raises
    ValueError for subscripts that do not fit the operands. ``out``: an array of the result's shape to write to.
    """
    if not operands:
        raise ShapeError("einsum: at least subscripts and one operand are needed")
    if not (optimize is None or isinstance(optimize, (bool, int, str, list, tuple))):
        raise ArgumentError(f"einsum: optimize must be a bool, a strategy's name or a path, not {optimize!r}")
    if isinstance(operands[0], str):
        subscripts, arrays = operands[0], list(operands[1:])
    else:
        subscripts, arrays = _interleaved(operands)
    arrays = _as_arrays("einsum", arrays)
    text, shapes = prepare(subscripts, [a.shape for a in arrays])
    arrays = [a if a.shape == s else F.reshape(a, newshape=s) for a, s in zip(arrays, shapes)]
    result = F.einsum(*arrays, subscripts=text)
    return result if out is None else _write(out, result)


def _write(out, result):
    if not isinstance(out, Proxy):
        raise ArgumentError(f"out= must be an array, not {type(out).__name__}")
    if out.shape != result.shape:
        raise ShapeError(f"out= has shape {out.shape}, the result has shape {result.shape}")
    out[...] = result
    return out


def _as_arrays(name, arrays):
    """Arrays of a call, of which some may be NumPy arrays, lists or numbers."""
    from ..ndarray.array import from_numpy
    first = next((a for a in arrays if isinstance(a, Proxy)), None)
    if first is None:
        raise ArgumentError(f"{name} needs at least one array among its arguments")
    return [a if isinstance(a, Proxy) else from_numpy(a, first.device, type(first)) for a in arrays]


def _vectors_last(a, axis, name):
    """``a`` with the axis of its vectors last, and their size."""
    if a.ndim == 0:
        raise ShapeError("cross: vectors are needed, got a zero-dim array")
    axis = normalize_axis(axis, a.ndim, name)
    if a.shape[axis] not in (2, 3):
        raise ShapeError(f"cross: vectors must have 2 or 3 elements, axis {axis} of {a.shape} has {a.shape[axis]}")
    if axis != a.ndim - 1:
        order = tuple([i for i in range(a.ndim) if i != axis] + [axis])
        a = F.transpose(a, axes=order)
    return a, a.shape[-1]


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """Cross product of vectors of 2 or 3 elements along ``axisa`` of ``a`` and ``axisb`` of ``b`` (``axis`` sets all
    three). The vectors of the result lie along ``axisc``; two vectors of 2 elements give their z component alone."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = _as_arrays("cross", [a, b])
    a, na = _vectors_last(a, axisa, "axisa")
    b, nb = _vectors_last(b, axisb, "axisb")
    result = F.cross3(F.pad3(a) if na == 2 else a, F.pad3(b) if nb == 2 else b)
    if na == nb == 2:
        return result[..., 2]
    axisc = normalize_axis(axisc, result.ndim, "axisc")
    if axisc == result.ndim - 1:
        return result
    order = list(range(result.ndim - 1))
    order.insert(axisc, result.ndim - 1)
    return F.transpose(result, axes=tuple(order))
