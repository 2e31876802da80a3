"""Turning operator records and programs into Python functions of arrays."""
from __future__ import annotations

from functools import partial

from ..ops import registry
from ..spec import ArraySpec, as_dtype, decode_spec
from . import providers


class Prepared:
    """A call bound for its specs: ``run(*arrays)`` gives an array or a tuple of arrays, as inferred.

    ``outputs`` counts the results stored under the ids of ``outs``; results after them are the new values of the
    inputs at ``mutates``. ``into`` holds dtypes where ``outs`` are existing arrays to be written.
    """
    __slots__ = ("name", "run", "outputs", "mutates", "inplace", "into", "simple", "shapes")

    def __init__(self, name, run, outputs, mutates=(), inplace=False, into=None, shapes=()):
        self.name, self.run, self.outputs, self.shapes = name, run, outputs, shapes
        self.mutates, self.inplace, self.into = mutates, inplace, into
        self.simple = outputs == 1 and not mutates and into is None


def own(xp, result, dtype, arrays=()):
    """``result`` as a C-contiguous array of ``dtype`` that shares memory with nothing else, unless it is read-only."""
    if not isinstance(result, xp.ndarray):
        return xp.asarray(result, dtype=dtype)
    if result.dtype != dtype:
        return xp.ascontiguousarray(result.astype(dtype)).reshape(result.shape)
    if isinstance(result.base, xp.ndarray) or not result.flags.c_contiguous:
        return result.copy(order="C")        # a base that is no array is a provider's own memory
    if any(result is a for a in arrays):
        return result.copy()
    return result


def prepare(backend, name, in_specs, out_specs, attrs, into) -> Prepared:
    """Bind operator ``name`` (see the protocol's PREPARE)."""
    record = registry.get(name)
    xp = backend.xp
    in_specs = [decode_spec(s) for s in in_specs]
    out_specs = [decode_spec(s) for s in out_specs]
    function = providers.kernel(xp, name, in_specs, out_specs, attrs)
    if function is not None:
        pass
    elif record.bind is not None:
        function = record.bind(xp, in_specs, out_specs, attrs)
    else:
        function = partial(record.kernel, xp, **attrs)
    if record.draws:
        function = _with_generator(backend, function)
    mutates = record.mutated(attrs)
    mutated = () if record.inplace else [in_specs[i] for i in mutates]
    specs = [*out_specs, *mutated]
    if into is None and len(specs) == 1 and out_specs and _is_plain_ufunc(xp, function, in_specs, out_specs[0]):
        run = function
    elif len(specs) == 1:
        run = _one(xp, function, specs[0].dtype)
    else:
        dtypes = [s.dtype for s in specs]
        if record.workspace:
            dtypes[len(out_specs) - 1] = None
        run = _several(xp, function, dtypes)
    return Prepared(name, run, len(out_specs), mutates, record.inplace,
                    None if into is None else [as_dtype(d) for d in into], [s.shape for s in out_specs])


def unprepared(name, out_specs, into, error) -> Prepared:
    """What stands for a call that could not be bound: running it raises the error."""
    def run(*arrays):
        raise error.with_traceback(None)
    return Prepared(name, run, len(out_specs), into=into)


def _with_generator(backend, function):
    def call(*args):
        return function(*args[:-1], rng=backend.generator(args[-1]))
    return call


def _is_plain_ufunc(xp, function, in_specs, out_spec):
    """Whether ``function`` is a ufunc whose result for these specs is always a fresh array of the inferred dtype, so
    that it can be stored as it is. Decided once, on empty arrays."""
    if not isinstance(function, xp.ufunc) or function.nout != 1 or out_spec.shape == ():
        return False
    probes = [xp.empty(0, s.dtype) if isinstance(s, ArraySpec) else s(1) for s in in_specs]
    try:
        result = function(*probes)
    except TypeError:
        return False
    return isinstance(result, xp.ndarray) and result.dtype == out_spec.dtype


def _one(xp, function, dtype):
    def run(*arrays):
        return own(xp, function(*arrays), dtype, arrays)
    return run


def _several(xp, function, dtypes):
    def run(*arrays):
        results = function(*arrays)
        if results is None:
            results = ()
        elif not isinstance(results, (tuple, list)):
            results = (results,)
        return tuple([r if d is None else own(xp, r, d, arrays) for r, d in zip(results, dtypes, strict=True)])
    return run


class ProgramRunner:
    """A registered program as one function: ``run(*inputs)``.

    ``steps`` are ``(prepared, ins, outs, dead)``: slot numbers read and written, and slots no longer needed.
    """

    def __init__(self, slots, constants, steps, outputs):
        self.slots, self.constants, self.steps, self.outputs = slots, constants, steps, outputs

    def __call__(self, *inputs):
        slots = [*inputs, *self.constants]
        slots.extend([None] * (self.slots - len(slots)))
        for run, ins, outs, dead in self.steps:
            result = run(*[slots[i] for i in ins])
            if type(outs) is int:
                slots[outs] = result
            else:
                for slot, value in zip(outs, result):
                    slots[slot] = value
            for slot in dead:
                slots[slot] = None
        return tuple([slots[i] for i in self.outputs])
