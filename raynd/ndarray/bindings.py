"""Public functions and methods made from operator records.

Each gets real Python source (as ``collections.namedtuple`` does), so it has the documented signature, refuses unknown
arguments by itself, and costs one call on the way to the dispatcher.
"""
from __future__ import annotations

import inspect
import linecache
import os

import numpy

from ..dispatch import PlaceholderScalar, Proxy, freeze, invoke, invoke_into
from ..errors import ArgumentError, dual
from ..ops import registry


def call(op, arrays, attrs, out):
    """Run ``op`` for a public function: array-likes become arrays, attributes canonical, ``out`` is written."""
    for x in arrays:
        if not isinstance(x, Proxy) and type(x) not in _PASS:
            given = arrays
            arrays = convert(op, arrays)
            if out is None and not any(isinstance(a, Proxy) for a in arrays) and _computes_scalars(op):
                return all_scalars(op, given, attrs)
            break
    if attrs:
        for name, value in attrs.items():
            if type(value) not in _PLAIN:
                attrs[name] = freeze(value)
    if out is None:
        result = invoke(op, arrays, attrs)
        return result if op.outputs is None or type(result) is not tuple else _visible(result, op.outputs)
    targets = out if isinstance(out, (tuple, list)) else (out,)
    for t in targets:
        if not isinstance(t, Proxy):
            raise ArgumentError(f"{op.name}: out= must be an array, not {type(t).__name__}")
    invoke_into(op, arrays, attrs, targets, same_kind=True)
    return out


def call_listed(op, arrays, attrs, out):
    """:func:`call`, but several results come as a list: so in MXNet's own namespaces, while NumPy's give tuples."""
    result = call(op, arrays, attrs, out)
    return list(result) if type(result) is tuple and out is None else result


_PASS = frozenset((int, float, bool, type(None), PlaceholderScalar))
_PLAIN = frozenset((int, float, bool, type(None), str))


def _visible(result, count):
    return result[0] if count == 1 else result[:count]


def convert(op, arrays):
    """Inputs with NumPy arrays and numbers turned into arrays (of their own dtype) next to the other arrays."""
    from .array import from_numpy
    first = next((x for x in arrays if isinstance(x, Proxy)), None)
    result = []
    for i, x in enumerate(arrays):
        if isinstance(x, Proxy) or type(x) in _PASS:
            result.append(x)
        elif isinstance(x, (numpy.bool_, numpy.integer, numpy.floating)):
            result.append(x.item())
        elif isinstance(x, numpy.ndarray):
            result.append(from_numpy(x, None if first is None else first._buffer.queue.device,
                                     None if first is None else type(first)))
        elif isinstance(x, (bool, int, float, PlaceholderScalar)):
            result.append(x)
        else:
            raise ArgumentError(f"{op.name}: argument {i + 1} must be an array, not {type(x).__name__}; wrap lists "
                                "with np.array(...)")
    return result


def _computes_scalars(op):
    """Whether the public function of ``op`` takes numbers alone, as NumPy's function of the same name does."""
    return bool(op.inputs) and not op.variadic and "np" in op.exports and hasattr(numpy, op.exports["np"][0])


def all_scalars(op, arrays, attrs=()):
    """A function of numbers alone, as NumPy computes it (``np.exp(1)``)."""
    try:
        with numpy.errstate(all="ignore"):
            return getattr(numpy, op.exports["np"][0])(*arrays, **dict(attrs))
    except (ValueError, TypeError) as error:             # it takes arrays only (np.tril(10))
        raise dual(type(error))(f"{op.name} of numbers: {error}") from None


# Options of NumPy's ufuncs that MXNet's functions take next to out=: the value that means nothing special, and whether
# another value is one that NumPy knows.
_DTYPES = frozenset(("int8", "uint8", "int32", "int64", "float16", "float32", "float64"))
UFUNC_OPTIONS = {
    "where": (True, lambda v: True),
    "casting": ("same_kind", lambda v: v in ("no", "equiv", "safe", "same_kind", "unsafe")),
    "order": ("K", lambda v: isinstance(v, str)),
    "dtype": (None, lambda v: v in _DTYPES or getattr(v, "__name__", getattr(v, "name", None)) in _DTYPES),
    "subok": (True, lambda v: isinstance(v, bool)),
}


def check_options(op, options):
    """Accept what means nothing special among the ``**kwargs`` of an element-wise function; raise for the rest."""
    for key, value in options.items():
        if key not in UFUNC_OPTIONS:
            raise ArgumentError(f"{key} is an invalid keyword to function {op.name!r}")
        ordinary, known = UFUNC_OPTIONS[key]
        if isinstance(value, Proxy) or value != ordinary:
            if isinstance(value, Proxy) or known(value):
                raise dual(NotImplementedError)(f"{op.name}: {key}={value!r} is not supported")
            raise ArgumentError(f"{op.name}: {key}={value!r} is not understood")


def define(source, name, module, space):
    """The function ``name`` that Python source defines. Its file name is one that no file has, in this package (whose
    frames are never a user's line), and tracebacks show its source, not lines of the file that made it."""
    path = os.path.join(os.path.dirname(__file__), f"<{module}.{name}>")
    linecache.cache[path] = len(source), None, source.splitlines(True), path
    exec(compile(source, path, "exec"), space)
    return space[name]


def make(op, name, module, method=False, ignored=(), call=call):
    """The public function ``name`` of ``op`` (its first array becomes ``self`` if ``method``). ``ignored``: further
    keywords it accepts and does nothing with."""
    parameters = registry.parameters_of(op.signature)
    names = list(parameters)
    declared, passed = [], []
    for i, (n, p) in enumerate(parameters.items()):
        shown = "self" if method and i == 0 else n
        if p.kind is p.KEYWORD_ONLY and not op.variadic and "*" not in declared:
            declared.append("*")
        if p.kind is p.VAR_POSITIONAL:
            declared.append(f"*{n}")
        elif p.kind is p.VAR_KEYWORD:
            declared.append(f"**{n}")
        elif p.default is p.empty:
            declared.append(shown)
        else:
            declared.append(f"{shown}={p.default!r}")
    end = len(declared) - (declared[-1].startswith("**") if declared else 0)
    declared[end:end] = [f"{n}=None" for n in ignored if n not in names]
    arrays = []
    for n in op.inputs:
        shown = "self" if method and n == names[0] else n
        arrays.append(f"*{shown}" if parameters[n].kind is inspect.Parameter.VAR_POSITIONAL else shown)
    passed = "{" + ", ".join(f"{n!r}: {n}" for n in op.attrs) + "}" if op.attrs else "()"
    tuple_text = f"({', '.join(arrays)},)"
    out = "out" if "out" in names else "None"
    body = f"    return _call(_op, {tuple_text}, {passed}, {out})\n"
    if not method and _computes_scalars(op):
        check = " and ".join(f"type({n}) in _numbers" for n in op.inputs)
        body = f"    if {check}:\n        return _all_scalars(_op, {tuple_text}, {passed})\n" + body
    options = next((n for n, p in parameters.items() if p.kind is p.VAR_KEYWORD), None)
    if options is not None:
        body = f"    if {options}:\n        _check(_op, {options})\n" + body
    source = f"def {name}({', '.join(declared)}):\n{body}"
    space = {"_call": call, "_op": op, "_all_scalars": all_scalars, "_numbers": _NUMBERS, "_check": check_options}
    function = define(source, name, module, space)
    function.__doc__ = op.doc
    function.__module__ = module
    function.__qualname__ = name
    return function


_NUMBERS = frozenset((int, float, bool))


def export(kind, module) -> dict:
    """All public functions of namespace ``kind`` ('np', 'npx', 'nd', 'linalg', 'random', 'image', 'method')."""
    registry.load_all()
    functions = {}
    for op in registry.REGISTRY.values():
        for name in op.exports.get(kind, ()):
            ignored = ("name",) if kind in ("nd", "image") else ()      # a symbol's in MXNet; means nothing to arrays
            functions[name] = make(op, name.rpartition(".")[2], module, kind == "method", ignored,
                                   call if kind in ("np", "linalg", "random") else call_listed)
    return functions
