"""Loops and branches as functions: foreach, while_loop and cond, of ``mx.npx`` and of ``mx.nd.contrib``.

They run their Python functions for every step, so the tape sees ordinary operators. While a hybridized block is
recorded, ``foreach`` becomes as many copies of its body as the data are long; the others read a condition's value, so a
block with one of them stays eager.
"""
from __future__ import annotations

from ..autograd import pause
from ..dispatch import F, Proxy
from ..errors import ArgumentError, IndexOutOfBounds, ShapeError

# -- nested lists of arrays ----------------------------------------------------------------------------------------


def _leaves(value, what):
    """The arrays (and Nones) of nested lists and tuples, in order."""
    if value is None or isinstance(value, Proxy):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise ShapeError(f"{what} must be an array or nested lists of arrays, not {type(value).__name__}")
    return [leaf for v in value for leaf in _leaves(v, what)]


def _rebuild(structure, leaves):
    """Nested lists in the ``structure`` of others, with the leaves of an iterator."""
    if isinstance(structure, (list, tuple)):
        return [_rebuild(v, leaves) for v in structure]
    return next(leaves)


def _as_lists(value, what):
    """Nested lists where tuples may have been."""
    return _rebuild(value, iter(_leaves(value, what)))


# -- foreach -------------------------------------------------------------------------------------------------------


def _elements(x):
    """The elements of an array along its first axis, from one operator whatever their number."""
    n = x.shape[0]
    parts = F.split(x, points=tuple(range(1, n)), axis=0)
    return [F.reshape(p, newshape=x.shape[1:]) for p in (parts if n > 1 else (parts,))]


def _stacked(rows):
    """Arrays of the steps, one after the other, stacked for each of a step's arrays. A step may have None."""
    return [None if column[0] is None else F.stack(*column, axis=0) for column in zip(*rows, strict=True)]


def foreach(body, data, init_states):
    """Run ``out, states = body(element, states)`` for every element of ``data`` along its first axis.

    ``data`` is an array, or (nested) lists of arrays of one length, from which ``element`` takes its structure.
    ``init_states``: the first ``states``, an array or nested lists of arrays. Returns the stacked ``out`` of all steps,
    in the structure that ``body`` gives them, and the last states.
    """
    arrays = _leaves(data, "foreach: data")
    _leaves(init_states, "foreach: init_states")
    if not arrays:
        raise ShapeError("foreach: data must hold at least one array")
    lengths = {x.shape[0] if isinstance(x, Proxy) and x.ndim else None for x in arrays}
    if None in lengths or len(lengths) > 1:
        raise ShapeError("foreach: data must be arrays of one length, got shapes "
                         + ", ".join(str(getattr(x, "shape", None)) for x in arrays))
    if lengths == {0}:
        raise IndexOutOfBounds("foreach: data has length 0, so the body's outputs are not known")
    states, rows = init_states, []
    for element in zip(*[_elements(x) for x in arrays], strict=True):
        result = body(_rebuild(data, iter(element)), states)
        if not isinstance(result, (list, tuple)) or len(result) != 2:
            raise ShapeError("foreach: the body must return two things, its outputs and the new states")
        out, states = result
        rows.append(_leaves(out, "foreach: the body's output"))
        if len(rows[-1]) != len(rows[0]):
            raise ShapeError(f"foreach: the body returned {len(rows[-1])} outputs after {len(rows[0])}")
    return _rebuild(out, iter(_stacked(rows))), _as_lists(states, "foreach: the body's states")


# -- while_loop ----------------------------------------------------------------------------------------------------


def _truth(value, what):
    """The truth of a condition: an array of one element, which is read, or a plain number."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, Proxy):
        if value.size != 1:
            raise ShapeError(f"{what} must give one element, not an array of shape {value.shape}")
        return bool(value.item())
    return bool(value)


def _step(func, loop_vars):
    """(structure of the outputs, their leaves, new loop variables) of one step."""
    result = func(*loop_vars)
    if not isinstance(result, (list, tuple)) or len(result) != 2:
        raise ShapeError("while_loop: func must return two things, the step's outputs and the new loop_vars")
    out, new = result
    out = [] if out is None else out
    new = [] if new is None else list(new) if isinstance(new, (list, tuple)) else [new]
    if len(new) != len(loop_vars):
        raise ShapeError(f"The length of loop_vars should be consistent during the loop: {len(loop_vars)} became "
                         f"{len(new)}")
    return out, _leaves(out, "while_loop: the step's output"), new


def _padded(x, length):
    """``x`` with zeros behind, up to ``length`` rows."""
    missing = length - x.shape[0]
    return F.pad(x, pad_width=((0, missing), *[(0, 0)] * (x.ndim - 1))) if missing else x


def _while_loop(cond, func, loop_vars, max_iterations):
    """(structure of the outputs, or None before any step; rows of their leaves; last loop variables)."""
    for function, name in ((cond, "cond"), (func, "func")):
        if not callable(function):
            raise ArgumentError(f"while_loop: {name} must be a function, not {type(function).__name__}")
    if max_iterations is None:
        raise ShapeError("max_iterations should be specified")
    try:
        max_iterations = int(max_iterations.item() if isinstance(max_iterations, Proxy) else max_iterations)
    except (TypeError, ValueError):
        raise ShapeError(f"Cannot convert max_iterations to python int: {max_iterations!r}") from None
    if not _leaves(loop_vars, "while_loop: loop_vars"):
        raise ShapeError("loop_vars should contain at least one element")
    single = isinstance(loop_vars, Proxy)
    values = [loop_vars] if single else list(loop_vars)
    structure, rows = None, []
    while len(rows) < max_iterations and _truth(cond(*values), "while_loop: cond"):
        structure, leaves, values = _step(func, values)
        rows.append(leaves)
        if len(leaves) != len(rows[0]):
            raise ShapeError(f"while_loop: func returned {len(leaves)} outputs after {len(rows[0])}")
    return structure, rows, values, max_iterations, single


def while_loop(cond, func, loop_vars, max_iterations=None):
    """While ``cond(*loop_vars)`` holds, at most ``max_iterations`` times: ``out, loop_vars = func(*loop_vars)``.

    Returns the stacked outputs of all steps, in the structure that ``func`` gives them, and the last loop variables.
    The outputs have ``max_iterations`` rows; those of steps that did not happen are zero. If none happens, ``func`` is
    called once all the same, off the tape, to know their shapes. Each step waits for the condition's value.
    """
    structure, rows, values, count, single = _while_loop(cond, func, loop_vars, max_iterations)
    if rows:
        outputs = [None if x is None else _padded(x, count) for x in _stacked(rows)]
    else:
        with pause():
            structure, leaves, _ = _step(func, [v if v is None else _detached(v) for v in values])
        outputs = [None if x is None else F.broadcast_to(F.expand_dims(F.zeros_like(x), axis=0),
                                                         shape=(count, *x.shape)) for x in leaves]
    values = [_as_lists(v, "while_loop: loop_vars") for v in values]
    return _rebuild(structure, iter(outputs)), values[0] if single else values


def _detached(value):
    return _rebuild(value, iter([x if x is None else x.detach() for x in _leaves(value, "while_loop: loop_vars")]))


# -- cond ----------------------------------------------------------------------------------------------------------


def cond(pred, then_func, else_func, inputs, name="cond"):
    """``then_func(*inputs)`` if ``pred(*inputs)`` holds, else ``else_func(*inputs)``: an array or nested lists of them.

    ``inputs``: an array, or a list of arrays or lists of them. Waits for the value of ``pred``, which may also be an
    array of one element or a plain value.
    """
    if not _leaves(inputs, "cond: inputs"):
        raise ShapeError("inputs should contain at least one element")
    inputs = [inputs] if isinstance(inputs, Proxy) else inputs
    chosen = then_func if _truth(pred(*inputs) if callable(pred) else pred, "cond: pred") else else_func
    return _as_lists(chosen(*inputs), "cond: a branch's output")


# -- mx.nd.contrib -------------------------------------------------------------------------------------------------


def nd_while_loop(cond, func, loop_vars, max_iterations=None):
    """:func:`while_loop` of ``mx.nd.contrib``: without any step the outputs are an empty list."""
    structure, rows, values, count, single = _while_loop(cond, func, loop_vars, max_iterations)
    if not rows:
        return [], loop_vars
    outputs = [None if x is None else _padded(x, count) for x in _stacked(rows)]
    return _rebuild(structure, iter(outputs)), values[0] if single else values


def nd_cond(pred, then_func, else_func):
    """``then_func()`` if ``pred`` (an array of one element, a number, or a function without arguments that gives one)
    holds, else ``else_func()``. Waits for its value."""
    return (then_func if _truth(pred() if callable(pred) else pred, "cond: pred") else else_func)()


CONTRIB_FUNCTIONS = {"foreach": foreach, "while_loop": nd_while_loop, "cond": nd_cond}
