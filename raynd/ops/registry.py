"""Operator records: everything raynd knows about one operator, in one place.

A record is made by :func:`operator` (general), or by the family helpers in ``ops/elementwise.py``. It has

``name``
    The unique internal name, also its name in ``F`` (see ``vjp``).
``signature``
    The Python signature of its public function: ``"a, axis=None, out=None, keepdims=False"``. The parameters named in
    ``inputs`` (by default those without a default) are arrays; ``out`` says that the public function has an out=, and
    where; the rest are attributes, in the order given. ``"*arrays, axis=0"`` makes a variadic operator. A final
    ``**kwargs`` takes the options of NumPy's ufuncs (``where=True``), which must have their ordinary values.
``infer(*specs, **attrs)``
    The result's :class:`~raynd.spec.ArraySpec`, or a tuple of them. A Python-scalar input is given as its type
    (``int``, ``float`` or ``bool``). Runs on the driver, is cached by specs and attributes, and raises
    ``ShapeError``, ``ArgumentError`` or ``IndexOutOfBounds`` for what does not fit.
``kernel(xp, *arrays, **attrs)``
    The computation on a device, over ``xp`` (numpy or cupy). Returns an array or a tuple of them. The worker casts
    results to the inferred dtype and copies results that are views, so a kernel need not. Inputs are C-contiguous
    and must not be written to, except those in ``inplace`` records. Python scalars arrive as they are.
``bind(xp, in_specs, out_specs, attrs)``
    Instead of ``kernel``: returns the function of the arrays alone, prepared once for these specs.
``vjp(F, dy, x, y, **attrs)``
    The vector-Jacobian product, written in operators. ``x`` is the tuple of inputs, ``y`` that of outputs, ``dy`` the
    gradient of the output (a tuple with None for absent ones if there are several). Returns the gradients of all
    inputs, None for one that has none; a single-input record may return the bare gradient. Arrays among these are
    proxies with NumPy operators; ``F.name(...)`` calls any operator. It is run once on abstract arrays for each
    (specs, attributes), and becomes a program: what it does not touch is not kept for backward. Python scalars among
    ``x`` are placeholders that may only be passed on as operands. Gradients are cast to the input's dtype and,
    with ``broadcasts=True``, summed to its shape by the machinery. A rule with a parameter ``wanted`` gets the set of
    the numbers of the inputs whose gradients are asked for, and may leave out the others.
``mutates``
    Indices of inputs the operator updates, or a function of the attributes that gives them. A functional kernel returns
    their new values after its outputs; an ``inplace=True`` kernel writes into them itself (they are then private and
    writable) and returns only its outputs.
``draws``
    1 if it needs random numbers: the kernel gets a keyword ``rng``, a ``numpy.random.Generator`` (or CuPy's) keyed by
    (seed, device, draw number). May be a function of the attributes.
``train``
    True if the kernel gets a keyword ``train`` (bool): whether the call is in training mode.
``first_order_only``
    Differentiating its gradient again raises.
``workspace``
    True if the last output is what only this operator's gradients read: a kernel may return any object for it. The
    inferred spec says about how large it is.
"""
from __future__ import annotations

import importlib
import inspect
import pathlib
import pkgutil
from functools import cache

from ..errors import ArgumentError
from ..spec import is_float

REGISTRY: dict[str, Operator] = {}


class Operator:
    """One operator record; see the module's text for the fields."""
    __slots__ = ("name", "signature", "inputs", "attrs", "defaults", "variadic", "infer", "kernel", "bind", "vjp",
                 "mutates", "inplace", "draws", "train", "broadcasts", "first_order_only", "outputs", "exports", "doc",
                 "creates", "optional", "value_shape", "workspace", "selective")

    def __init__(self, name, signature, *, infer, kernel=None, bind=None, vjp=None, inputs=None, mutates=(),
                 inplace=False, draws=0, train=False, broadcasts=False, first_order_only=False, outputs=None,
                 np=None, npx=None, nd=None, method=None, linalg=None, random=None, image=None, doc=None,
                 optional=(), value_shape=False, workspace=False):
        parameters = parameters_of(signature)
        self.name, self.signature = name, signature
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        names = [n for n, p in parameters.items() if n != "out" and p.kind is not p.VAR_KEYWORD]
        if inputs is None:
            inputs = [n for n in names if parameters[n].default is inspect.Parameter.empty
                      and parameters[n].kind is not inspect.Parameter.KEYWORD_ONLY]
        elif isinstance(inputs, str):
            inputs = [n.strip() for n in inputs.split(",") if n.strip()]
        self.inputs = tuple(inputs)
        self.attrs = tuple(n for n in names if n not in self.inputs)
        self.defaults = {n: parameters[n].default for n in self.attrs}
        self.creates = not self.inputs
        self.optional = tuple(optional)          # inputs that may be None (a missing bias)
        self.infer, self.kernel, self.bind, self.vjp = infer, kernel, bind, vjp
        self.mutates = mutates if callable(mutates) else tuple(mutates)
        self.inplace, self.draws, self.train = inplace, draws, train
        self.broadcasts, self.first_order_only = broadcasts, first_order_only
        self.outputs = outputs                   # how many outputs the public function returns; None: all
        self.workspace = workspace
        self.selective = vjp is not None and "wanted" in inspect.signature(vjp).parameters
        self.value_shape = value_shape           # the output's shape depends on values: the call waits
        exports = {"np": np, "npx": npx, "nd": nd, "method": method, "linalg": linalg, "random": random,
                   "image": image}
        self.exports = {k: _names(v) for k, v in exports.items() if v}
        self.doc = doc or (inspect.cleandoc(kernel.__doc__) if kernel is not None and kernel.__doc__ else None)
        if name in REGISTRY:
            raise ValueError(f"operator {name!r} is registered twice")
        REGISTRY[name] = self

    def mutated(self, attrs):
        """Indices of the inputs that a call with these attributes updates."""
        return self.mutates(**attrs) if callable(self.mutates) else self.mutates

    def __repr__(self):
        return f"<operator {self.name}({self.signature})>"

    def __reduce__(self):
        return get, (self.name,)


@cache
def parameters_of(signature):
    """The parameters of a signature given as text."""
    return inspect.signature(eval(f"lambda {signature}: None")).parameters


def _names(value):
    return tuple(n.strip() for n in value.split(",")) if isinstance(value, str) else tuple(value)


def check_optional(function, name, array, needed, **switch):
    """Raise unless an optional input is there exactly where ``needed``, which the one attribute ``switch`` decides."""
    if needed is (array is not None):
        return
    (key, value), = switch.items()
    raise ArgumentError(f"{function}: {name} is needed with {key}={value}" if needed else
                        f"{function}: {name} is given with {key}={value}, where it has no effect")


def check_float(function, *arrays):
    """Raise unless the inputs (specs) hold floats: results that are fractions do not fit into an integer dtype."""
    for x in arrays:
        if not is_float(x.dtype):
            raise ArgumentError(f"{function} needs floating data, not {x.dtype}")


def operator(name, signature, **fields) -> Operator:
    """Register an operator record (see the module's text)."""
    return Operator(name, signature, **fields)


@cache
def get(name) -> Operator:
    """The record called ``name``."""
    load_all()
    try:
        return REGISTRY[name]
    except KeyError:
        raise ArgumentError(f"there is no operator {name!r}") from None


_loaded = False


def load_all():
    """Import every module of this package, and with it every operator record (idempotent)."""
    global _loaded
    if not _loaded:
        _loaded = True
        for module in sorted(m.name for m in pkgutil.iter_modules([str(pathlib.Path(__file__).parent)])):
            importlib.import_module(f"{__package__}.{module}")
