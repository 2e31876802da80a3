"""Operators that stop something: a gradient, or the computation if a condition does not hold."""
from __future__ import annotations

from ..errors import ArgumentError
from ..spec import spec
from .registry import operator

operator("stop_gradient", "data, out=None", infer=lambda data: data, kernel=lambda xp, data: data.copy(),
         doc="A copy through which no gradient flows: that of ``data`` is zero.")


def _infer_constraint_check(data, msg):
    if data.dtype.kind != "b":
        raise ArgumentError(f"constraint_check: a bool array is needed, not one of {data.dtype}")
    return spec((), data.dtype)


def _constraint_check(xp, data, msg):
    """True if all of the bool array ``data`` holds; else reading the result raises ValueError with ``msg``.

    The result is meant to be multiplied into what must not be used otherwise: an error is a value, so it reaches
    whoever reads what was computed from it.
    """
    if not bool(data.all()):
        raise ValueError(msg)
    return xp.ones((), "bool")


operator("constraint_check", "x, msg='Constraint violated.', out=None", inputs="x", npx="constraint_check",
         infer=_infer_constraint_check, kernel=_constraint_check)
