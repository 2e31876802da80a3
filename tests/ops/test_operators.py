"""One harness for all operators: every row of the table against its float64 reference, its gradient and that
gradient's gradient against central differences along random directions, and the rules that hold for all operators
(inferred shapes and dtypes, views as inputs, ``out=``, outputs that share no memory with inputs)."""
from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

import numpy
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import table

from raynd import autograd, random
from raynd.dispatch import F, Proxy, function_of, invoke_into
from raynd.errors import MXNetError
from raynd.ndarray.array import from_numpy
from raynd.ops import registry
from raynd.spec import as_dtype, is_float

ROWS = table.load()
registry.load_all()
RELATIVE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-9, "bfloat16": 3e-2}
STEP = 1e-6


@pytest.fixture(scope="module", params=["immediate", "random batches"], autouse=True)
def batches(request):
    """Commands one by one, and in batches of random size that are pickled and back."""
    import raynd as mx
    previous = os.environ.get("RAYND_LOCAL_BATCH")
    mx.shutdown()
    os.environ["RAYND_LOCAL_BATCH"] = "1" if request.param == "immediate" else "random:7"
    yield request.param
    mx.shutdown()
    os.environ.pop("RAYND_LOCAL_BATCH")
    if previous is not None:
        os.environ["RAYND_LOCAL_BATCH"] = previous


every_row = pytest.mark.parametrize("name", sorted(ROWS))


def samples_of(name):
    """(row, operator, [(sample, inputs drawn)])."""
    row, op = ROWS[name], registry.get(name)
    rng = numpy.random.default_rng(zlib.crc32(name.encode()))
    return row, op, [(s, s.draw(rng)) for s in row.samples], rng


def cast(values, dtype):
    """Inputs with the floating arrays in ``dtype``."""
    return [x.astype(as_dtype(dtype)) if isinstance(x, numpy.ndarray) and x.dtype.kind == "f" else x for x in values]


def as_reference(values):
    """Inputs as a reference sees them: floating arrays in float64."""
    return [x.astype("float64") if isinstance(x, numpy.ndarray) and is_float(x.dtype) else x for x in values]


def arrays(values):
    """Inputs as arrays on the device."""
    return [from_numpy(x) if isinstance(x, (numpy.ndarray, numpy.generic)) else x for x in values]


def tuple_of(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def run(op, sample, inputs):
    """The outputs of a call, as a tuple of arrays; without a workspace, which need not be one."""
    random.seed(11)
    with autograd.train_mode() if sample.train else autograd.predict_mode():
        result = tuple_of(function_of(op)(*inputs, **sample.attrs))
    return result[:-1] if op.workspace else result


def close(actual, expected, dtype, factor, what):
    """Assert that two NumPy arrays agree to the precision of ``dtype``."""
    relative = RELATIVE.get(dtype, 0) * factor
    expected = numpy.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, the reference has {expected.shape}"
    if actual.dtype.kind in "biu":
        numpy.testing.assert_array_equal(actual, expected.astype(actual.dtype), err_msg=what)
    else:
        wide = "complex128" if expected.dtype.kind == "c" else "float64"
        scale = numpy.max(numpy.abs(expected[numpy.isfinite(expected)]), initial=0)
        numpy.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=relative,
                                      atol=relative * max(scale, 1e-3), err_msg=what)


def values_match(row, op, sample, values, dtype):
    """One call in one dtype against the reference."""
    what = f"{op.name} of {[getattr(v, 'shape', v) for v in values]} {sample.attrs} in {dtype}"
    inputs = arrays(values)
    outputs = run(op, sample, inputs)
    results = [y.asnumpy() for y in outputs]
    for y, value in zip(outputs, results):
        assert y._spec.shape == value.shape and y._spec.dtype == value.dtype, f"{what}: not as inferred"
    attrs = dict(sample.attrs)
    if row.ref is not None:
        with numpy.errstate(all="ignore"):
            expected = tuple_of(row.ref(*as_reference(values), **attrs))
        results += [inputs[i].asnumpy() for i in mutated(op, sample)]
        assert len(results) == len(expected), f"{what}: {len(results)} results, the reference gives {len(expected)}"
        for y, e in zip(results, expected):
            close(y, e, dtype, row.tol, what)
    if row.check is not None:
        row.check(values, results, attrs)


@every_row
def test_value(name):
    """Every floating dtype, integers where the row says so, zero-size and zero-dim as the samples have them."""
    row, op, samples, _ = samples_of(name)
    for sample, values in samples:
        floats = any(isinstance(v, numpy.ndarray) and v.dtype.kind == "f" for v in values)
        for dtype in row.dtypes if floats else ("float64",):
            values_match(row, op, sample, cast(values, dtype), dtype)
        for dtype in row.ints_as if floats else ():
            whole = [numpy.asarray(numpy.rint(v)).astype(dtype)
                     if isinstance(v, numpy.ndarray) and v.dtype.kind == "f" else v for v in values]
            values_match(row, op, sample, whole, "float32" if as_dtype(dtype).itemsize > 1 else "float16")


# -- gradients -----------------------------------------------------------------------------------------------------

def mutated(op, sample):
    """Indices of the inputs a sample's call updates."""
    return op.mutated({**op.defaults, **sample.attrs})


def differentiable(row, op, sample, values):
    """The indices of the inputs that have a gradient to check."""
    if op.vjp is None or row.grad == ():
        return ()
    floats = [i for i, v in enumerate(values) if isinstance(v, numpy.ndarray) and v.dtype.kind in "fc" and v.size
              and i not in mutated(op, sample)]
    return tuple(i for i in floats if row.grad is None or i in row.grad)


class Problem:
    """A scalar function ``sum_k <w_k, output_k>`` of the differentiable inputs of one sample, in float64."""

    def __init__(self, row, op, sample, values, indices, rng):
        self.op, self.sample, self.values, self.indices = op, sample, values, indices
        outputs = self.outputs(self.inputs({}))
        wanted = range(len(outputs)) if row.outputs is None else row.outputs
        self.weights = {k: rng.standard_normal(outputs[k].shape) for k in wanted if is_float(outputs[k]._spec.dtype)}

    def inputs(self, changed):
        return arrays([changed.get(i, v) for i, v in enumerate(self.values)])

    def outputs(self, inputs):
        return run(self.op, self.sample, inputs)

    def value(self, changed):
        """The function's value, in NumPy."""
        outputs = self.outputs(self.inputs(changed))
        return sum(float(numpy.sum(w * outputs[k].asnumpy())) for k, w in self.weights.items())

    def gradients(self, changed, create_graph=False):
        """(inputs, gradients) as arrays."""
        inputs = self.inputs(changed)
        marked = [inputs[i] for i in self.indices]
        for x in marked:
            x.attach_grad()
        with autograd.record(train_mode=self.sample.train):
            random.seed(11)
            outputs = tuple_of(function_of(self.op)(*inputs, **self.sample.attrs))
            heads = [outputs[k] for k in self.weights if outputs[k]._entry is not None]
            weights = [from_numpy(w) for k, w in self.weights.items() if outputs[k]._entry is not None]
            if not heads:
                return marked, None
            grads = autograd.grad(heads, marked, weights, retain_graph=True, create_graph=create_graph,
                                  train_mode=self.sample.train)
        return marked, grads

    def direction(self, rng):
        return {i: rng.standard_normal(self.values[i].shape) for i in self.indices}

    def moved(self, direction, step):
        return {i: self.values[i] + step * v for i, v in direction.items()}


def agree(actual, expected, scale, what):
    """Compare a derivative with its central difference."""
    assert abs(actual - expected) <= 2e-5 * max(scale, abs(expected), 1e-3), \
        f"{what}: gradient gives {actual}, central difference {expected}"


def problems(name):
    """(problem, description, rng) for each sample that has gradients."""
    row, op, samples, rng = samples_of(name)
    for sample, values in samples:
        values = cast(values, "float64")
        indices = differentiable(row, op, sample, values) if sample.grad else ()
        if indices:
            problem = Problem(row, op, sample, values, indices, rng)
            if problem.weights and any(w.size for w in problem.weights.values()):
                yield problem, f"{name} of {[getattr(v, 'shape', v) for v in values]} {sample.attrs}", rng


@every_row
def test_gradient(name):
    """The gradient along a random direction is the central difference of the values."""
    for problem, what, rng in problems(name):
        direction = problem.direction(rng)
        _, grads = problem.gradients({})
        assert grads is not None, f"{what}: nothing was recorded"
        parts = [grads[k].asnumpy() * direction[i] for k, i in enumerate(problem.indices)]
        for g, i in zip(grads, problem.indices):
            assert g.shape == problem.values[i].shape and g.dtype == problem.values[i].dtype
        difference = (problem.value(problem.moved(direction, STEP)) -
                      problem.value(problem.moved(direction, -STEP))) / (2 * STEP)
        agree(sum(float(p.sum()) for p in parts), difference, sum(float(abs(p).sum()) for p in parts), what)


@every_row
def test_second_order(name):
    """The gradient of the gradient along a direction is the central difference of the gradient."""
    row, op = ROWS[name], registry.get(name)
    if not row.second:
        return
    for problem, what, rng in problems(name):
        if op.first_order_only:
            with pytest.raises(MXNetError, match="second-order"):
                problem.gradients({}, create_graph=True)
            continue
        direction, weights = problem.direction(rng), problem.direction(rng)

        def first(changed, problem=problem, weights=weights):
            _, grads = problem.gradients(changed)
            return sum(float(numpy.sum(weights[i] * g.asnumpy())) for g, i in zip(grads, problem.indices))

        marked, grads = problem.gradients({}, create_graph=True)
        with autograd.record(train_mode=problem.sample.train):
            total = None
            for g, i in zip(grads, problem.indices):
                if g._entry is not None:
                    part = F.sum(g * from_numpy(weights[i]))
                    total = part if total is None else total + part
        difference = (first(problem.moved(direction, STEP)) - first(problem.moved(direction, -STEP))) / (2 * STEP)
        if total is None or total._entry is None:
            agree(0.0, difference, 1.0, f"{what} (no second-order graph)")
            continue
        second = autograd.grad([total], marked, train_mode=problem.sample.train)
        parts = [h.asnumpy() * direction[i] for h, i in zip(second, problem.indices)]
        agree(sum(float(p.sum()) for p in parts), difference, sum(float(abs(p).sum()) for p in parts) + 1e-2,
              f"second derivative of {what}")


# -- rules for all operators ---------------------------------------------------------------------------------------

def view_of(value):
    """The values as a view into the middle of a larger array."""
    host = numpy.zeros((3, *value.shape), value.dtype)
    host[1] = value
    return from_numpy(host)[1]


@every_row
def test_views_and_memory(name):
    """A view gives what an array of its own gives; writing to an input afterwards leaves the outputs alone, and
    writing to an output leaves the inputs alone."""
    row, op, samples, _ = samples_of(name)
    for sample, values in samples:
        inputs = arrays(values)
        before = run(op, sample, inputs)
        expected = [y.asnumpy() for y in before]
        views = [view_of(v) if isinstance(v, numpy.ndarray) else v for v in values]
        if row.ref is not None or op.draws:
            for y, e in zip(run(op, sample, views), expected):
                numpy.testing.assert_allclose(y.asnumpy(), e, rtol=1e-6, err_msg=f"{name}: views give other values")
        for x in inputs:
            if isinstance(x, Proxy):
                x[...] = 0
        for y, e in zip(before, expected):
            numpy.testing.assert_array_equal(y.asnumpy(), e, err_msg=f"{name}: an output shares memory with an input")
        inputs = arrays(values)
        for y in run(op, sample, inputs):
            y[...] = 0
        for i, (x, v) in enumerate(zip(inputs, values)):
            if isinstance(x, Proxy) and i not in mutated(op, sample):
                numpy.testing.assert_array_equal(x.asnumpy(), v,
                                                 err_msg=f"{name}: an output shares memory with an input")


@every_row
def test_out(name):
    """``out=`` writes into the given array, also where that is a view, and returns it."""
    row, op, samples, _ = samples_of(name)
    if "out=None" not in op.signature.replace(" ", "").split(","):
        return
    for sample, values in samples:
        inputs = arrays(values)
        if not any(isinstance(x, Proxy) for x in inputs):
            continue
        expected = [y.asnumpy() for y in run(op, sample, inputs)]
        attrs = {**op.defaults, **sample.attrs}
        targets = tuple(view_of(numpy.zeros_like(e)) for e in expected)
        random.seed(11)
        with autograd.train_mode() if sample.train else autograd.predict_mode():
            written = invoke_into(op, tuple(inputs), attrs, targets)
        assert len(written) == len(targets) and all(a is b for a, b in zip(written, targets)), f"{name}: out="
        for t, e in zip(targets, expected):
            numpy.testing.assert_array_equal(t.asnumpy(), e, err_msg=f"{name}: out=")


def test_every_operator_has_a_row():
    """No record without a row; an exempt one says which rows exercise it."""
    missing = sorted(set(registry.REGISTRY) - set(ROWS) - set(table.EXEMPT))
    assert not missing, f"operators without a row in tests/ops/rows_*.py: {', '.join(missing)}"
    for name, through in table.EXEMPT.items():
        assert name in registry.REGISTRY, f"exempt {name!r} does not exist"
        assert through and all(t in ROWS for t in through), f"exempt {name!r} names no row that exercises it"
    unknown = sorted(set(ROWS) - set(registry.REGISTRY))
    assert not unknown, f"rows of operators that do not exist: {', '.join(unknown)}"
