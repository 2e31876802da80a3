"""``mx.nd``: the legacy arrays and their functions.

Functions come from the operator records (``nd=`` exports) and, for what follows rules of its own, from the modules
beside this one, which win.
"""
from __future__ import annotations

import sys as _sys
import types as _types

from . import (  # noqa: F401  (methods attaches the methods of both classes)
    contrib_functions as _contrib,
    control_flow as _control_flow,
    creation as _creation,
    interop as _interop,
    legacy as _legacy,
    methods as _methods,
    neural as _neural,
    operators as _operators,
    optimizer_functions as _optimizers,
    random,
    sampling as _sampling,
)
from .array import NDArray, ndarray
from .bindings import export as _export
from .custom import Custom  # noqa: F401
from .serialization import load_frombuffer, load_legacy as load, save_legacy as save  # noqa: F401

_METHODS = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "argmax", "argmax_channel", "argmin",
    "argsort", "broadcast_axes", "broadcast_like", "cbrt", "ceil", "clip", "cos", "cosh", "degrees", "depth_to_space",
    "diag", "exp", "expm1", "fix", "flip", "floor", "log", "log10", "log1p", "log2", "log_sigmoid", "log_softmax",
    "max", "mean", "min", "mish", "nanprod", "nansum", "norm", "one_hot", "ones_like", "pad", "pick", "prod",
    "radians", "rcbrt", "reciprocal", "relu", "repeat", "reshape_like", "rint", "round", "rsqrt", "shape_array",
    "sigmoid", "sign", "sin", "sinh", "size_array", "slice", "slice_axis", "slice_like", "softmax", "softmin", "sort",
    "space_to_depth", "split", "split_v2", "sqrt", "square", "squeeze", "sum", "swapaxes", "take", "tan", "tanh",
    "tile", "topk", "trunc", "zeros_like", "broadcast_to", "expand_dims", "flatten", "transpose", "sum_axis",
    "moveaxis",
)


def _install():
    """Give NDArray the legacy operators and methods; the NumPy face keeps its own."""
    def put(name, value):
        if name in vars(NDArray) and name not in vars(ndarray):
            setattr(ndarray, name, vars(NDArray)[name])
        setattr(NDArray, name, value)

    for name, method in _legacy.operators().items():
        put(name, method)
    for name in _METHODS:
        if name in globals():
            put(name, globals()[name])
    for name, method in {**_legacy.METHODS, **_contrib.METHODS}.items():
        put(name, method)
    put("T", property(lambda self: _operators.FUNCTIONS["transpose"](self), doc="The axes in reverse order."))


def _submodule(name, functions, doc):
    """A module ``raynd.ndarray.<name>`` of the given functions."""
    module = _types.ModuleType(f"{__name__}.{name}", doc)
    module.__dict__.update(functions)
    module.__all__ = sorted(functions)
    _sys.modules[module.__name__] = module
    globals()[name] = module
    return module


def _fill():
    space = globals()
    exported = _export("nd", __name__)
    groups = {"contrib": {}, "linalg": {}, "image": {}}
    for name, function in exported.items():
        for group, members in groups.items():
            for prefix in (f"_{group}_", f"{group}."):
                if name.startswith(prefix):
                    members[name[len(prefix):]] = function
                    break
        if name.startswith("linalg_"):
            groups["linalg"][name[len("linalg_"):]] = function
        if "." not in name:
            space[name] = function
    space.update({n: getattr(_creation, n) for n in _creation.__all__})
    space.update(_operators.FUNCTIONS)
    space.update(_interop.ND_FUNCTIONS)
    space.update(_neural.ND_FUNCTIONS)
    space.update(_optimizers.FUNCTIONS)
    space.update(_sampling.ND_FUNCTIONS)
    space.update(_contrib.ND_FUNCTIONS)
    groups["image"].update(_export("image", f"{__name__}.image"))
    groups["contrib"].update(_sampling.CONTRIB_FUNCTIONS)
    groups["contrib"].update(_optimizers.CONTRIB_FUNCTIONS)
    groups["contrib"].update(_neural.CONTRIB_FUNCTIONS)
    groups["contrib"].update(_contrib.FUNCTIONS)
    groups["contrib"].update(_control_flow.CONTRIB_FUNCTIONS)
    _submodule("_internal", {**{n: f for n, f in exported.items() if n.startswith("_")}, **_contrib.INTERNAL},
               "Operators whose names begin with an underscore.")
    for group, members in groups.items():
        _submodule(group, members, f"``mx.nd.{group}``.")
    names = ("NDArray", "array", "empty", "load", "load_frombuffer", "save", "zeros")
    _submodule("utils", {n: space[n] for n in names}, "Making arrays, and files of arrays.")


_fill()
_install()

globals().update(random.OPERATORS)


def waitall():
    """Wait until all computations on all devices are done; raises the first error that nobody has seen."""
    from ..engine import waitall as wait
    wait()


def __getattr__(name):
    if name == "op":                          # mx.nd.op.<operator>: the same functions under their module's name
        return _sys.modules[__name__]
    if name == "sparse":
        raise AttributeError("mx.nd.sparse is not part of this release")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
