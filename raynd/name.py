"""Names for things that are not given one (``mx.name``): counted by kind, within the manager in force.

Arrays and operators have no names, so nothing here asks for one; libraries and scripts do.
"""
from __future__ import annotations

import contextvars

__all__ = ["NameManager", "Prefix", "current"]


class NameManager:
    """Gives the names hint0, hint1, ...; in force inside ``with``, in the thread that enters it."""

    def __init__(self):
        self._counter = {}
        self._outer = []

    def get(self, name, hint):
        """``name`` itself if there is one, else the next name for ``hint``."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self):
        self._outer.append(_current.get(_OUTERMOST))
        _current.set(self)
        return self

    def __exit__(self, *exc):
        _current.set(self._outer.pop())


class Prefix(NameManager):
    """Puts ``prefix`` before every name, given or made."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return self._prefix + super().get(name, hint)


_current: contextvars.ContextVar = contextvars.ContextVar("raynd_names")
_OUTERMOST = NameManager()


def current() -> NameManager:
    """The manager in force."""
    return _current.get(_OUTERMOST)
