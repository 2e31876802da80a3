"""``import mxnet`` as raynd: a finder for ``sys.meta_path`` under which unmodified scripts run.

After :func:`install`, ``mxnet`` and every ``mxnet.a.b`` are the very modules ``raynd`` and ``raynd.a.b``, not copies,
so classes and module state are shared whichever name a script or a library uses. A module that MXNet has under two
names (``mxnet.nd`` and ``mxnet.ndarray``) is found by either, because ``raynd`` offers both as attributes.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType

import raynd

ALIAS = "mxnet"


def _by_import(name):
    """Module ``name``, or None if it or a parent of it does not exist. An import that fails inside it raises."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise


def resolve(name):
    """The raynd module that stands for ``name`` ('mxnet', 'mxnet.gluon.nn', 'mxnet.nd'), or None."""
    parent, _, last = name.rpartition(".")
    if not parent:
        return raynd
    base = resolve(parent)
    if base is None:
        return None
    module = _by_import(f"{base.__name__}.{last}")
    if module is None:
        module = getattr(base, last, None)
        if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] != raynd.__name__:
            return None
    return module


class _ExistingModule(importlib.abc.Loader):
    """Hands the import system a module that is loaded already."""

    def __init__(self, module):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec          # the import system has just put the alias's there


class AliasFinder(importlib.abc.MetaPathFinder):
    """Finds ``mxnet`` and ``mxnet.*``. It must stand before the path finder, which would load raynd's files twice."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] != ALIAS:
            return None
        module = resolve(fullname)
        if module is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}: it is imported as raynd, and raynd "
                                      f"{raynd.__version__} has no such module", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, _ExistingModule(module), origin=raynd.__file__)


def install():
    """From now on ``import mxnet`` gives raynd. Raises ImportError if the real MXNet is loaded already."""
    loaded = sys.modules.get(ALIAS)
    if loaded is not None and loaded is not raynd:
        raise ImportError(f"mxnet is already imported from {getattr(loaded, '__file__', None)}; "
                          "call raynd.compat.install() before it", name=ALIAS)
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
