"""``mx.np``: NumPy's functions over arrays on devices.

Most are generated from operator records (see ``ndarray/bindings.py``); the modules beside this one hold those that
are made of several operators or need Python of their own.
"""
from __future__ import annotations

import importlib.util as _util
from importlib import import_module as _import

from ..ndarray.array import ndarray  # noqa: F401
from ..ndarray.bindings import export

_MODULES = ("creation", "types", "logic", "mathematics", "manipulation", "reductions", "sorting", "sets", "statistics",
            "polynomial", "interop",
            "products", "selection", "exchange", "financial")


def _fill(space):
    """Bind the records' exports, then the modules, whose functions win."""
    space.update(export("np", __name__))
    for name in _MODULES:
        if _util.find_spec(f"{__name__}.{name}") is not None:
            module = _import(f"{__name__}.{name}")
            for public in module.__all__:
                space[public] = getattr(module, public)
    from .fallback import FUNCTIONS
    for name, function in FUNCTIONS.items():
        space.setdefault(name, function)
    for name in ("linalg", "random", "fft"):
        if _util.find_spec(f"{__name__}.{name}") is not None:
            space[name] = _import(f"{__name__}.{name}")


_fill(globals())

__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in ("export", "annotations"))
