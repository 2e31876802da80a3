"""Helpers for tests: tolerances, comparisons with readable failures, random data, gradient and generator checks.

Comparisons take NumPy arrays, arrays of either face, numbers and lists. Tolerances default to those of the less exact
dtype of the two operands. What works on symbols (``check_symbolic_forward`` and its relatives) raises MXNetError,
since there is no ``mx.sym``; :func:`check_numeric_gradient` takes a function of arrays instead.
"""
from __future__ import annotations

import gzip
import importlib
import os
import struct
import sys
from contextlib import contextmanager, redirect_stderr

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import raynd as mx

from . import autograd, device as _device, random as _random
from .device import current_device
from .dispatch import Proxy
from .engine import waitall
from .errors import ArgumentError, MXNetError
from .ndarray import NDArray, array as _array
from .spec import as_dtype, bfloat16
from .util import getenv, setenv, use_np, use_np_default_dtype  # noqa: F401  (part of this module's interface)

# -- defaults ------------------------------------------------------------------------------------------------------


def default_device():
    """The device that tests run on: the current one."""
    return current_device()


default_context = default_device


def set_default_device(device):
    """Make ``device`` the current device of this context from now on."""
    _device._current.set(_device.as_device(device))


set_default_context = set_default_device


def default_dtype():
    """The dtype of test data: float32."""
    return np.float32


def _tolerances(half, single, double):
    exact = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    table = {np.dtype("float16"): half, np.dtype("float32"): single, np.dtype("float64"): double, bfloat16: half}
    return {**table, **{np.dtype(name): 0 for name in exact}}


def default_rtols():
    """Relative tolerance of each dtype."""
    return _tolerances(1e-2, 1e-4, 1e-5)


def default_atols():
    """Absolute tolerance of each dtype."""
    return _tolerances(1e-1, 1e-3, 1e-20)


def default_numeric_eps():
    """Step of finite differences for each floating dtype: powers of two, so that inputs lose no bits."""
    return {np.dtype("float16"): 2.0 ** -6, np.dtype("float32"): 2.0 ** -9, np.dtype("float64"): 2.0 ** -14}


def effective_dtype(dat):
    """The dtype that decides the tolerance of a comparison: that of the data, or float16 for float32 data on a GPU
    whose matrix products round to TF32."""
    dtype = dat._spec.dtype if isinstance(dat, Proxy) else np.dtype(dat.dtype)
    if dtype == np.float32 and isinstance(dat, Proxy) and dat.device.device_type == "gpu" \
            and os.environ.get("NVIDIA_TF32_OVERRIDE") == "1":
        return np.dtype("float16")
    return dtype


def get_tolerance(dat, tol, default_tol):
    """The tolerance for ``dat``: ``tol`` if it is a number, else its entry, or the default's, for the dtype."""
    if isinstance(tol, (int, float, np.number)):
        return tol
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol[dtype])


def _with_dtype(x):
    return x if hasattr(x, "dtype") else np.array(x)


def get_tols(x, y, rtol, atol):
    """(rtol, atol) for comparing ``x`` and ``y``: the larger of both operands' tolerances."""
    x, y = _with_dtype(x), _with_dtype(y)
    return (max(get_tolerance(x, rtol, default_rtols()), get_tolerance(y, rtol, default_rtols())),
            max(get_tolerance(x, atol, default_atols()), get_tolerance(y, atol, default_atols())))


def get_atol(atol=None, dtype="float64"):
    """``atol``, or the default of ``dtype``."""
    return default_atols()[as_dtype(dtype)] if atol is None else atol


def get_rtol(rtol=None, dtype="float64"):
    """``rtol``, or the default of ``dtype``."""
    return default_rtols()[as_dtype(dtype)] if rtol is None else rtol


def get_etol(etol=None):
    """``etol``, or 0: the share of elements that may differ."""
    return 0 if etol is None else etol


# -- random data ---------------------------------------------------------------------------------------------------


def random_arrays(*shapes):
    """Standard normal float32 NumPy arrays of the given shapes: a list, or the array if there is one."""
    arrays = [np.asarray(np.random.randn(*s)).astype(default_dtype()) for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes, **kwargs):
    """A list of uniform NumPy arrays; keywords ``low``, ``high``, ``dtype``."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise ArgumentError(f"random_uniform_arrays() got an unexpected argument {next(iter(kwargs))!r}")
    return [np.random.uniform(low, high, size=s).astype(dtype) for s in shapes]


def random_sample(population, k):
    """``k`` different elements of a sequence, in random order."""
    if not 0 <= k <= len(population):
        raise AssertionError(f"cannot choose {k} of {len(population)} elements")
    return [population[i] for i in np.random.permutation(len(population))[:k]]


def rand_shape_2d(dim0=10, dim1=10, allow_zero_size=False):
    """A random shape with axes up to the given lengths."""
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, n + 1)) for n in (dim0, dim1))


def rand_shape_3d(dim0=10, dim1=10, dim2=10, allow_zero_size=False):
    """A random shape with axes up to the given lengths."""
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, n + 1)) for n in (dim0, dim1, dim2))


def rand_shape_nd(num_dim, dim=10, allow_zero_size=False):
    """A random shape of ``num_dim`` axes up to length ``dim``."""
    return tuple(int(n) for n in np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_coord_2d(x_low, x_high, y_low, y_high):
    """Random integer coordinates."""
    return np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64)


def rand_ndarray(shape, stype="default", density=None, dtype=None, modifier_func=None, shuffle_csr_indices=False,
                 distribution=None, ctx=None):
    """A standard normal NDArray. Only dense arrays (stype 'default') are available."""
    if stype != "default":
        return _no_sparse("rand_ndarray")
    for name, value in (("density", density), ("modifier_func", modifier_func), ("distribution", distribution)):
        if value is not None:
            raise ArgumentError(f"rand_ndarray: {name} is only for sparse arrays")
    return _array(random_arrays(tuple(shape)), ctx=ctx or default_device(), dtype=dtype)


def _no_sparse(function):
    raise MXNetError(f"{function}: sparse arrays are not available here; use stype='default'")


def rand_sparse_ndarray(shape, stype, *args, **kwargs):
    """Sparse arrays are not available: raises MXNetError."""
    _no_sparse("rand_sparse_ndarray")


def create_sparse_array(shape, stype, *args, **kwargs):
    """Sparse arrays are not available: raises MXNetError."""
    _no_sparse("create_sparse_array")


def create_sparse_array_zd(shape, stype, density, *args, **kwargs):
    """Sparse arrays are not available: raises MXNetError."""
    _no_sparse("create_sparse_array_zd")


def shuffle_csr_column_indices(csr):
    """Shuffle the column numbers within each row of a SciPy csr matrix, in place."""
    for start, stop in zip(csr.indptr, csr.indptr[1:]):
        np.random.shuffle(csr.indices[start:stop])


def create_2d_np_tensor(rows, columns, dtype=np.int64):
    """An np array whose rows hold their number."""
    mxnp = importlib.import_module(f"{__package__}.numpy")
    return mxnp.broadcast_to(mxnp.arange(0, rows, dtype=dtype).reshape(rows, 1), (rows, columns))


def create_2d_tensor(rows, columns, dtype=np.int64):
    """An NDArray whose rows hold their number."""
    return create_2d_np_tensor(rows, columns, dtype).as_nd_ndarray()


def create_vector(size, dtype=np.int64):
    """The NDArray 0, 1, ..., size - 1."""
    return _array(np.arange(size), dtype=dtype)


def _gram_schmidt(n):
    return np.linalg.qr(np.random.uniform(-1.0, 1.0, (n, n)))[0]


def new_orthonormal_matrix_2d(n):
    """A random orthonormal matrix."""
    return _gram_schmidt(n)


def new_matrix_with_real_eigvals_2d(n):
    """A random square matrix whose eigenvalues are real and apart."""
    basis = _gram_schmidt(n)
    upper = np.triu(np.random.uniform(-1.0, 1.0, (n, n)), 1)
    return basis @ (upper + np.diag(np.arange(1.0, n + 1))) @ basis.T


def new_sym_matrix_with_real_eigvals_2d(n):
    """A random symmetric matrix with eigenvalues that are apart."""
    basis = _gram_schmidt(n)
    return basis @ np.diag(np.arange(1.0, n + 1)) @ basis.T


def _stack_of(make, shape):
    count = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape):
    """A stack (..., n, n) of matrices as of :func:`new_matrix_with_real_eigvals_2d`."""
    return _stack_of(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_nd(shape):
    """A stack (..., n, n) of matrices as of :func:`new_sym_matrix_with_real_eigvals_2d`."""
    return _stack_of(new_sym_matrix_with_real_eigvals_2d, shape)


# -- NumPy references ----------------------------------------------------------------------------------------------


def assign_each(the_input, function):
    """``function`` applied to every element of a NumPy array (a copy if None)."""
    the_input = np.asarray(the_input)
    if function is None:
        return the_input.copy()
    return np.array([function(v) for v in the_input.ravel()], dtype=float).reshape(the_input.shape)


def assign_each2(input1, input2, function):
    """``function`` applied to the pairs of elements of two arrays of one shape."""
    if function is None:
        return np.array(input1)
    if input1.shape != input2.shape:
        raise AssertionError(f"shapes {input1.shape} and {input2.shape} differ")
    pairs = zip(np.asarray(input1).ravel(), np.asarray(input2).ravel())
    return np.array([function(a, b) for a, b in pairs], dtype=float).reshape(input1.shape)


def np_reduce(dat, axis, keepdims, numpy_reduce_func):
    """A reduction ``numpy_reduce_func(array, axis=)`` of one axis applied to several."""
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = [a % dat.ndim for a in axes]
    result = dat
    for a in sorted(axes, reverse=True):
        result = numpy_reduce_func(result, axis=a)
    if keepdims:
        result = np.asarray(result).reshape([1 if i in axes else n for i, n in enumerate(dat.shape)])
    return result


def collapse_sum_like(a, shape):
    """``a`` summed over the axes along which ``shape`` was broadcast to its shape."""
    extra = a.ndim - len(shape)
    if extra < 0:
        raise AssertionError(f"shape {shape} has more axes than {a.shape}")
    if a.size == 0 or 0 in shape:
        return np.zeros(shape, a.dtype)
    axes = list(range(extra))
    for i, n in enumerate(shape):
        if n != a.shape[i + extra]:
            if n != 1:
                raise AssertionError(f"shape {shape} does not broadcast to {a.shape}")
            axes.append(i + extra)
    return a.sum(axis=tuple(axes)).reshape(shape)


# -- comparisons ---------------------------------------------------------------------------------------------------


def _values(x):
    """``x`` as a NumPy array, bfloat16 as float32."""
    x = x.asnumpy() if isinstance(x, Proxy) else np.asarray(x)
    return x.astype(np.float32) if x.dtype == bfloat16 else x


def same(a, b):
    """Whether two arrays have the same shape and elements."""
    return np.array_equal(_values(a), _values(b))


def same_array(array1, array2):
    """Whether two arrays share memory: whether a write to the first is seen in the second."""
    array1[:] += 1
    shared = same(array1, array2)
    array1[:] -= 1
    return shared and same(array1, array2)


def checkShapes(a, b):
    """Raise AssertionError unless both have the same shape."""
    if tuple(a.shape) != tuple(b.shape):
        raise AssertionError(f"a.shape = {tuple(a.shape)} and b.shape = {tuple(b.shape)} are not equal")


def almost_equal(a, b, rtol=None, atol=None, equal_nan=False, use_broadcast=True):
    """Whether ``|a - b| <= atol + rtol * |b|`` everywhere (tolerances of float64 by default)."""
    if not use_broadcast:
        checkShapes(a, b)
    return bool(np.allclose(_values(a), _values(b), rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan))


def _violations(a, b, rtol, atol, equal_nan):
    """How many times over its tolerance each element is (values up to 1 are within it)."""
    a, b = np.broadcast_arrays(a, b)
    exact = a == b
    if equal_nan:
        exact = exact | (_isnan(a) & _isnan(b))
    wide = np.result_type(a.dtype, b.dtype, np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(a.astype(wide) - b.astype(wide))
        ratio = difference / (atol + rtol * np.abs(b.astype(wide)) + 1e-300)
    return np.where(exact, 0.0, np.where(np.isnan(ratio), np.inf, ratio))


def _isnan(x):
    return np.isnan(x) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)


def locationError(a, b, index, names, maxError=False):
    """Text that names the elements of ``a`` and ``b`` at ``index``."""
    return f"Location of {'maximum ' if maxError else ''}error: {tuple(int(i) for i in index)}, " \
           f"{names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def assert_almost_equal(a, b, rtol=None, atol=None, names=("a", "b"), equal_nan=False, use_broadcast=True,
                        mismatches=(10, 10)):
    """Raise AssertionError unless ``|a - b| <= atol + rtol * |b|`` everywhere.

    ``rtol`` and ``atol`` are numbers or dicts by dtype; None: by the dtypes (see :func:`default_rtols`). The message
    lists the ``mismatches[0]`` worst elements with their places.
    """
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = _values(a), _values(b)
    if a.dtype == bool and b.dtype == bool:
        np.testing.assert_equal(a, b)
        return
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan):
        return
    raise AssertionError(_report(a, b, rtol, atol, equal_nan, names, mismatches[0]))


def _report(a, b, rtol, atol, equal_nan, names, listed):
    ratio = _violations(a, b, rtol, atol, equal_nan)
    wide_a, wide_b = (x.astype(np.float64) if x.dtype.kind in "biuf" else x for x in np.broadcast_arrays(a, b))
    order = np.argsort(-ratio, axis=None)
    worst = np.unravel_index(order[0], ratio.shape)
    count = int((ratio > 1).sum())
    lines = [f"Error {ratio[worst]:f} exceeds tolerance rtol={rtol:e}, atol={atol:e} "
             f"({count} of {ratio.size} elements, {100 * count / ratio.size:f}%).",
             locationError(wide_a, wide_b, worst, names, maxError=True)]
    for i, flat in enumerate(order[:min(listed, count)], 1):
        place = np.unravel_index(flat, ratio.shape)
        lines.append(f"{i:3d}: Error {ratio[place]:f}  {locationError(wide_a, wide_b, place, names)}")
    with np.printoptions(threshold=40, edgeitems=3, suppress=True):
        lines += [f"{names[0]}: shape {a.shape}, {a.dtype}\n{a}", f"{names[1]}: shape {b.shape}, {b.dtype}\n{b}"]
    return "\n".join(lines)


def assert_allclose(a, b, rtol=1e-07, atol=0, equal_nan=True):
    """:func:`assert_almost_equal` with NumPy's default tolerances."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(a, b, rtol=None, atol=None, etol=None, names=("a", "b"), equal_nan=False,
                                 mismatches=(10, 10)):
    """:func:`assert_almost_equal`, but a share ``etol`` of the elements may differ."""
    if not get_etol(etol):
        assert_almost_equal(a, b, rtol, atol, names, equal_nan, mismatches=mismatches)
        return
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = _values(a), _values(b)
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    share = 1 - close.mean() if close.size else 0.0
    if share > etol:
        raise AssertionError(f"a share {share:f} of the elements differs, more than etol={etol:f}\n"
                             + _report(a, b, rtol, atol, equal_nan, names, mismatches[0]))


def assert_almost_equal_ignore_nan(a, b, rtol=None, atol=None, names=("a", "b")):
    """:func:`assert_almost_equal` where neither operand is NaN."""
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = np.copy(_values(a)), np.copy(_values(b))
    skip = _isnan(a) | _isnan(b)
    a[skip] = 0
    b[skip] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_exception(f, exception_type, *args, **kwargs):
    """Raise AssertionError unless ``f(*args, **kwargs)`` raises ``exception_type``."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} did not raise {exception_type}")


def compare_ndarray_tuple(t1, t2, rtol=None, atol=None):
    """Compare arrays, or nested tuples or lists of them; None matches anything."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, (tuple, list)):
        for a, b in zip(t1, t2, strict=True):
            compare_ndarray_tuple(a, b, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


# -- gradients -----------------------------------------------------------------------------------------------------


def _no_symbols(function):
    raise MXNetError(f"{function} works on symbols, and there is no mx.sym; test the imperative function with "
                     "check_numeric_gradient(function, inputs), or a block with check_gluon_hybridize_consistency")


def numeric_grad(executor, location, aux_states=None, eps=1e-4, use_forward_train=True, dtype=np.float32):
    """Central differences of the sum of a function's results with regard to each input.

    ``executor``: a function of arrays; ``location``: its inputs, a list of NumPy arrays. Returns a list of arrays.
    """
    if not callable(executor):
        _no_symbols("numeric_grad")
    if aux_states is not None:
        raise ArgumentError("numeric_grad: aux_states are only for symbols")
    location = [np.array(_values(x), dtype=dtype) for x in location]

    def total():
        with (autograd.train_mode() if use_forward_train else autograd.predict_mode()):
            result = executor(*[_array(x, dtype=dtype) for x in location])
        results = result if isinstance(result, (list, tuple)) else [result]
        return sum(float(r.asnumpy().astype(np.float64).sum()) for r in results)

    grads = []
    for x in location:
        g = np.zeros(x.shape, np.float64)
        for place in np.ndindex(*x.shape):
            kept = x[place]
            x[place] = kept + eps
            high = total()
            x[place] = kept - eps
            low = total()
            x[place] = kept
            g[place] = (high - low) / (2 * eps)
        grads.append(g.astype(dtype))
    return grads


def check_numeric_gradient(sym, location, aux_states=None, numeric_eps=None, rtol=None, atol=None, grad_nodes=None,
                           use_forward_train=True, ctx=None, grad_stype_dict=None, dtype=np.float64):
    """Compare a function's gradients with central differences, under a random projection of its results.

    ``sym``: a function of NDArrays that returns one or several; ``location``: its inputs. ``grad_nodes``: numbers of
    the inputs to check (all by default). Symbols raise MXNetError.
    """
    if not callable(sym) or hasattr(sym, "list_arguments"):
        _no_symbols("check_numeric_gradient")
    if aux_states is not None or grad_stype_dict is not None:
        raise ArgumentError("check_numeric_gradient: aux_states and grad_stype_dict are only for symbols")
    if isinstance(location, dict):
        raise ArgumentError("check_numeric_gradient: give the inputs of a function as a list")
    dtype = as_dtype(dtype)
    numeric_eps = default_numeric_eps()[dtype] if numeric_eps is None else numeric_eps
    location = [np.array(_values(x), dtype=dtype) for x in location]
    ctx = ctx or default_device()
    weights = {}

    def projected(*arrays):
        result = sym(*arrays)
        results = result if isinstance(result, (list, tuple)) else [result]
        terms = []
        for i, r in enumerate(results):
            if i not in weights:
                weights[i] = np.random.uniform(0.5, 1.5, r.shape) * np.random.choice([-1, 1], r.shape)
            terms.append((r * _array(weights[i], ctx=r.device, dtype=r.dtype)).sum())
        total = terms[0]
        for t in terms[1:]:
            total = total + t
        return total

    inputs = [_array(x, ctx=ctx, dtype=dtype) for x in location]
    for x in inputs:
        x.attach_grad()
    with autograd.record(train_mode=use_forward_train):
        total = projected(*inputs)
    total.backward()
    expected = numeric_grad(projected, location, eps=numeric_eps, use_forward_train=use_forward_train, dtype=dtype)
    rtol = 1e-4 if rtol is None and dtype == np.float64 else rtol
    atol = 1e-6 if atol is None and dtype == np.float64 else atol
    for i in range(len(inputs)) if grad_nodes is None else grad_nodes:
        assert_almost_equal(expected[i], inputs[i].grad, rtol, atol, (f"numeric gradient {i}", f"gradient {i}"))


def check_symbolic_forward(sym, *args, **kwargs):
    """Needs symbols: raises MXNetError."""
    _no_symbols("check_symbolic_forward")


def check_symbolic_backward(sym, *args, **kwargs):
    """Needs symbols: raises MXNetError."""
    _no_symbols("check_symbolic_backward")


def check_consistency(sym, *args, **kwargs):
    """Needs symbols: raises MXNetError."""
    _no_symbols("check_consistency")


def check_speed(sym, *args, **kwargs):
    """Needs symbols: raises MXNetError."""
    _no_symbols("check_speed")


def same_symbol_structure(sym1, sym2):
    """Needs symbols: raises MXNetError."""
    _no_symbols("same_symbol_structure")


def check_gluon_hybridize_consistency(net_builder, data_l, numpy_func=None, test_grad=True, rtol=1e-4, atol=1e-4):
    """Check that a block gives the same result, gradients and parameters' gradients with and without hybridize.

    ``net_builder()`` makes the block, ``data_l`` holds its inputs; ``numpy_func`` gives the expected result from
    NumPy arrays.
    """
    runs = []
    parameters = None
    for hybridize in (False, True):
        net = net_builder()
        net.initialize()
        if hybridize:
            net.hybridize()
        net(*data_l)                               # parameters take their shapes
        if parameters is None:
            parameters = {name: p.data() for name, p in net.collect_params().items()}
        else:
            for name, p in net.collect_params().items():
                p.set_data(parameters[name])
        inputs = [x.copy() for x in data_l]
        for x in inputs:
            if test_grad and x.dtype in (np.float16, np.float32, np.float64):
                x.attach_grad()
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
        grads = {}
        if test_grad:
            out.backward(out)
            grads = {f"input {i}": x.grad for i, x in enumerate(inputs) if x.grad is not None}
            grads.update({n: p.grad() for n, p in net.collect_params().items() if p.grad_req != "null"})
        runs.append((out, grads))
    (eager, eager_grads), (hybrid, hybrid_grads) = runs
    assert_almost_equal(eager, hybrid, rtol=rtol, atol=atol)
    if numpy_func is not None:
        assert_almost_equal(eager, numpy_func(*[_values(x) for x in data_l]), rtol=rtol, atol=atol)
    for name, g in eager_grads.items():
        assert_almost_equal(g, hybrid_grads[name], rtol=rtol, atol=atol, names=(f"eager {name}", f"hybrid {name}"))


# -- optimizers ----------------------------------------------------------------------------------------------------


def compare_optimizer(opt1, opt2, shapes, dtype, w_stype="default", g_stype="default", rtol=1e-4, atol=1e-5,
                      compare_states=True):
    """Check that two optimizers make the same update of weights of the given shapes (and the same states)."""
    _compare_optimizers(opt1, opt2, shapes, dtype, w_stype, g_stype, rtol, atol, compare_states, None)


def compare_optimizer_noise_seeded(opt1, opt2, shapes, dtype, noise_seed, w_stype="default", g_stype="default",
                                   rtol=1e-4, atol=1e-5, compare_states=True):
    """:func:`compare_optimizer` of optimizers that draw noise, seeded by ``noise_seed`` for each."""
    _compare_optimizers(opt1, opt2, shapes, dtype, w_stype, g_stype, rtol, atol, compare_states, noise_seed)


def _compare_optimizers(opt1, opt2, shapes, dtype, w_stype, g_stype, rtol, atol, compare_states, noise_seed):
    if w_stype != "default" or g_stype != "default":
        _no_sparse("compare_optimizer")
    runs = []
    drawn = [[_random.uniform(shape=shape, ctx=default_device(), dtype=dtype) for shape in shapes] for _ in range(2)]
    for opt in (opt1, opt2):
        weights, grads = ([x.copy() for x in group] for group in drawn)
        states = [opt.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
        runs.append((opt, weights, grads, states))
    if compare_states:
        for a, b in zip(runs[0][3], runs[1][3]):
            compare_ndarray_tuple(a, b)
    for opt, weights, grads, states in runs:
        if noise_seed is not None:
            _random.seed(noise_seed)
        opt.update_multi_precision(list(range(len(shapes))), weights, grads, states)
    if compare_states:
        compare_ndarray_tuple(runs[0][3], runs[1][3], rtol, atol)
    compare_ndarray_tuple(runs[0][1], runs[1][1], rtol, atol)


# -- random generators ---------------------------------------------------------------------------------------------


def gen_buckets_probs_with_ppf(ppf, nbuckets):
    """Buckets of equal probability of a distribution, from its quantile function, and their probabilities."""
    if nbuckets <= 0:
        raise AssertionError("at least one bucket is needed")
    edges = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(edges, edges[1:])), [1.0 / nbuckets] * nbuckets


def mean_check(generator, mu, sigma, nsamples=1000000):
    """Whether the mean of ``generator(nsamples)`` lies within three standard errors of ``mu``."""
    return bool(abs(np.asarray(generator(nsamples)).mean() - mu) < 3 * sigma / np.sqrt(nsamples))


def var_check(generator, sigma, nsamples=1000000):
    """Whether the variance of ``generator(nsamples)`` lies within three standard errors (of a normal) of sigma**2."""
    variance = np.asarray(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma ** 2) < 3 * np.sqrt(2 * sigma ** 4 / (nsamples - 1)))


def chi_square_check(generator, buckets, probs, nsamples=1000000):
    """Pearson's chi-square test of ``generator(nsamples)``: (p value, observed counts, expected counts).

    ``buckets``: a list of (low, high) ranges in ascending order, or of the values of a discrete distribution;
    ``probs``: their probabilities.
    """
    from scipy.stats import chi2
    if not isinstance(buckets, list) or len(buckets) != len(probs):
        raise AssertionError("buckets must be a list with one probability each")
    samples = np.asarray(generator(nsamples)).ravel()
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array(buckets, dtype=np.float64)
        if (edges[:, 0] > edges[:, 1]).any() or (edges[:-1, 1] > edges[1:, 0]).any():
            raise AssertionError("buckets must be ranges in ascending order without overlap")
        below = {e: int((samples < e).sum()) for e in {*edges.ravel().tolist()}}
        observed = np.array([below[high] - below[low] for low, high in edges.tolist()])
        observed[-1] += (samples == edges[-1, 1]).sum()
    else:
        observed = np.array([(samples == value).sum() for value in buckets])
    expected = nsamples * np.asarray(probs, dtype=np.float64)
    keep = expected > 0
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    p = 0.0 if observed[~keep].any() else float(chi2.sf(statistic, keep.sum() - 1))
    return p, observed, expected


def verify_generator(generator, buckets, probs, nsamples=1000000, nrepeat=5, success_rate=0.2, alpha=0.05):
    """Raise AssertionError unless at least ``success_rate`` of ``nrepeat`` chi-square tests give p > ``alpha``.

    Returns the p values. See :func:`chi_square_check`.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    values = [r[0] for r in results]
    if sum(p > alpha for p in values) < nrepeat * success_rate:
        raise AssertionError(f"the generator does not have the expected distribution: p values {values}, observed "
                             f"{[r[1].tolist() for r in results]}, expected {results[0][2].tolist()}\n"
                             f"buckets {buckets}, probabilities {probs}")
    return values


# -- surroundings --------------------------------------------------------------------------------------------------


@contextmanager
def environment(*args):
    """Environment variables set inside the block and restored after it: ``environment(name, value)`` or
    ``environment({name: value, ...})``; None unsets."""
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise ArgumentError("environment: give a name and a value, or one dict")
    before = {name: os.environ.get(name) for name in wanted}
    for name, value in wanted.items():
        setenv(name, value)
    try:
        yield
    finally:
        waitall()
        for name, value in before.items():
            setenv(name, value)


@contextmanager
def discard_stderr():
    """Discard what is written to the standard error inside the block, by libraries too."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as sink, redirect_stderr(sink):
            os.dup2(sink.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def list_gpus():
    """Numbers of the GPUs."""
    from .session import num_gpus
    return list(range(num_gpus()))


def is_cd_run():
    """Whether this is a run of MXNet's delivery pipeline (environment variable CD_JOB=1)."""
    return os.environ.get("CD_JOB") == "1"


def has_tvm_ops():
    """Whether operators made by TVM are there: never."""
    return False


def is_op_runnable():
    """Whether optional operators can run on the default device: always."""
    return True


def get_im2rec_path(home_env="MXNET_HOME"):
    """The path of MXNet's tools/im2rec.py below the directory in ``home_env``; raises OSError if it is not there."""
    path = os.path.join(os.environ.get(home_env, os.path.dirname(__file__)), "tools", "im2rec.py")
    if not os.path.isfile(path):
        raise OSError(f"tools/im2rec.py was not found; set {home_env} to the directory of MXNet's sources")
    return path


# -- data sets -----------------------------------------------------------------------------------------------------


def download(url, fname=None, dirname=None, overwrite=False, retries=5):
    """Fetch ``url`` into ``dirname`` under ``fname`` (default: its last part); returns the path."""
    fname = fname or url.split("/")[-1]
    path = os.path.join(dirname, fname) if dirname else fname
    if os.path.exists(path) and not overwrite:
        return path
    from .gluon.utils import download as fetch
    return fetch(url, path=path, overwrite=overwrite, retries=retries)


def get_mnist(path="data"):
    """MNIST from the four files of its usual names in ``path`` (``train-images-idx3-ubyte.gz``, ...): a dict of
    'train_data', 'train_label', 'test_data', 'test_label'; images (n, 1, 28, 28) in [0, 1]."""
    def read(name):
        for file, opener in ((os.path.join(path, name + ".gz"), gzip.open), (os.path.join(path, name), open)):
            if os.path.exists(file):
                with opener(file, "rb") as f:
                    return f.read()
        raise FileNotFoundError(f"get_mnist reads {name}.gz in {path!r}, which is not there; nothing is downloaded")

    def images(name):
        data = read(name)
        _, n, rows, columns = struct.unpack(">IIII", data[:16])
        return np.frombuffer(data, np.uint8, offset=16).reshape(n, 1, rows, columns).astype(np.float32) / 255

    def labels(name):
        return np.frombuffer(read(name), np.int8, offset=8)
    return {"train_data": images("train-images-idx3-ubyte"), "train_label": labels("train-labels-idx1-ubyte"),
            "test_data": images("t10k-images-idx3-ubyte"), "test_label": labels("t10k-labels-idx1-ubyte")}


__all__ = [name for name, value in list(globals().items())
           if not name.startswith("_") and getattr(value, "__module__", None) == __name__] + [
    "default_context", "set_default_context", "use_np", "use_np_default_dtype", "NDArray",
    "mx", "np", "npt", "rnd", "os", "sys"]       # tests written for MXNet take these from here by import *
