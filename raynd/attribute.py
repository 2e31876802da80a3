"""Attributes of a scope (``mx.AttrScope``), for symbols in MXNet. Arrays have none; libraries may read the scope."""
from __future__ import annotations

import contextvars

from .errors import ShapeError

__all__ = ["AttrScope", "current"]


class AttrScope:
    """String attributes, added to those of the scopes around it; in force inside ``with``, in the thread that enters
    it."""

    def __init__(self, **kwargs):
        for value in kwargs.values():
            if not isinstance(value, str):
                raise ShapeError("Attributes need to be string")
        self._attr = kwargs
        self._outer = []

    def get(self, attr):
        """The scope's attributes with those of the dict ``attr`` (or None) over them."""
        return {**self._attr, **(attr or {})}

    def __enter__(self):
        outer = _current.get(_OUTERMOST)
        self._outer.append((outer, self._attr))
        self._attr = {**outer._attr, **self._attr}
        _current.set(self)
        return self

    def __exit__(self, *exc):
        outer, self._attr = self._outer.pop()
        _current.set(outer)


_current: contextvars.ContextVar = contextvars.ContextVar("raynd_attributes")
_OUTERMOST = AttrScope()


def current() -> AttrScope:
    """The scope in force."""
    return _current.get(_OUTERMOST)
