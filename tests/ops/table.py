"""The operator table: one row for every operator record, from which ``test_operators.py`` makes all its checks.

A family's rows stand in ``rows_<family>.py`` beside this file; every such file is found and loaded by :func:`load`.
Write a row as ::

    from table import S, ints, normal, row, uniform

    row("softmax", ref=lambda x, axis=-1: scipy.special.softmax(x, axis),
        samples=[S(normal(3, 4)), S(normal(2, 3, 5), axis=1), S(normal(0, 4))])

``name``
    The record's internal name.
``ref(*inputs, **attrs)``
    The value in NumPy: gets the inputs as float64 (integers and bools as they are, None and numbers too) and the
    sample's own attributes; returns an array, or a tuple of them (outputs first, then the new values of mutated
    inputs). None only together with ``check``.
``samples``
    A list of :class:`S`: inputs and attributes of one call. An input is ``normal(*shape)``, ``uniform(*shape, low=,
    high=)``, ``ints(*shape, low=, high=, dtype=)``, ``bools(*shape)``, ``distinct(*shape)`` (a shuffled range, for
    sorting and maxima), ``positive(*shape)``, a NumPy array as it is, a Python number, or None. Floating inputs are
    cast to the dtype under test; others are not. Have one zero-size and, where allowed, one zero-dim sample.
    ``S(..., train=True)`` runs in training mode; ``S(..., grad=False)`` is left out of the gradient checks.
``check(inputs, outputs, attrs)``
    Instead of (or beside) ``ref``: assertions on NumPy values, for results that are not unique or are random.
``grad``
    Which inputs have a gradient to compare with central differences: None (default) means every floating array input
    if the record has a vjp; a tuple of indices restricts it, ``()`` switches it off.
``outputs``
    Indices of the outputs whose gradient flows in the gradient check (default: all floating outputs).
``second``
    False where a second derivative is not to be checked. Records with ``first_order_only`` are checked to raise.
``dtypes``
    Floating dtypes under test, default ``"float16 float32 float64"``. ``"float32 float64"`` for LAPACK and the like.
``tol``
    Factor on the default tolerances, for ill-conditioned values.
``ints_as``
    A dtype name, or several, in which the *floating* inputs are tried as well (``"int32 uint8"``): the values are
    rounded, and the result must be ``ref`` of them, rounded if the result is an integer.

Shorthands: :func:`unary_row` and :func:`binary_row` for element-wise records. A helper record that only gradients use
is named by :func:`exempt` with the rows that exercise it.
"""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy

ROWS: dict[str, Row] = {}
EXEMPT: dict[str, tuple] = {}


# -- inputs --------------------------------------------------------------------------------------------------------

def normal(*shape, scale=1.0):
    """Standard normal numbers."""
    return lambda rng: scale * rng.standard_normal(shape)


def uniform(*shape, low=-1.0, high=1.0):
    """Uniform numbers in [low, high)."""
    return lambda rng: rng.uniform(low, high, shape)


def positive(*shape, low=0.5, high=2.0):
    """Uniform numbers, by default in [0.5, 2)."""
    return uniform(*shape, low=low, high=high)


def distinct(*shape, scale=1.0):
    """All different, well apart, in random order."""
    size = int(numpy.prod(shape))
    return lambda rng: (rng.permutation(size).astype("float64") - size / 2 + 0.25).reshape(shape) * scale


def ints(*shape, low=0, high=10, dtype="int64"):
    """Uniform integers in [low, high)."""
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def bools(*shape):
    """Fair coins."""
    return lambda rng: rng.integers(0, 2, shape).astype(bool)


class S:
    """One call: ``S(*inputs, train=False, grad=True, **attrs)``."""

    def __init__(self, *inputs, train=False, grad=True, **attrs):
        self.inputs, self.train, self.grad, self.attrs = inputs, train, grad, attrs

    def draw(self, rng):
        """The inputs as NumPy arrays, numbers and None."""
        return [numpy.asarray(x(rng)) if callable(x) else x for x in self.inputs]


class Row:
    """One line of the table; see the module's text."""

    def __init__(self, name, *, samples, ref=None, check=None, grad=None, outputs=None, second=True,
                 dtypes="float16 float32 float64", tol=1.0, ints_as=""):
        if ref is None and check is None:
            raise ValueError(f"row {name!r} needs ref= or check=")
        self.name, self.samples, self.ref, self.check = name, list(samples), ref, check
        self.grad, self.outputs, self.second = grad, outputs, second
        self.dtypes, self.tol, self.ints_as = tuple(dtypes.split()), tol, tuple(ints_as.split())


def row(name, **fields) -> Row:
    """Add a row."""
    if name in ROWS:
        raise ValueError(f"operator {name!r} has two rows")
    ROWS[name] = Row(name, **fields)
    return ROWS[name]


def exempt(name, *through):
    """Say that record ``name`` has no row of its own because the gradients of the rows ``through`` exercise it."""
    EXEMPT[name] = through


SHAPES = ((3, 4), (5,), (), (0, 3), (2, 1, 3))
PAIRS = (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3,)), ((2, 3), ()), ((0, 3), (3,)),
         ((2, 3), (0, 1, 1)))


def unary_row(name, ref, low=-2.0, high=2.0, **fields):
    """A row of an element-wise record of one array with values in [low, high)."""
    return row(name, ref=ref, samples=[S(uniform(*s, low=low, high=high)) for s in SHAPES], **fields)


def binary_row(name, ref, low=-2.0, high=2.0, low2=None, high2=None, scalar=1.5, second_dtype=None, **fields):
    """A row of a broadcasting record of two operands: arrays of several shapes, and a number on either side."""
    low2, high2 = low if low2 is None else low2, high if high2 is None else high2
    samples = [S(uniform(*a, low=low, high=high), uniform(*b, low=low2, high=high2)) for a, b in PAIRS]
    if scalar is not None:
        samples += [S(uniform(2, 3, low=low, high=high), scalar), S(scalar, uniform(2, 3, low=low2, high=high2))]
    return row(name, ref=ref, samples=samples, **fields)


def load() -> dict[str, Row]:
    """All rows, from every ``rows_*.py``."""
    here = Path(__file__).resolve().parent
    for file in sorted(here.glob("rows_*.py")):
        name = f"operator_{file.stem}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, file)
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    return ROWS
