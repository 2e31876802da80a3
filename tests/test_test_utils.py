"""``mx.test_utils``: comparisons and their messages, gradient and generator checks, surroundings."""
from __future__ import annotations

import os
import sys

import numpy
import pytest

import raynd as mx
from raynd import nd, test_utils as tu


def test_comparisons():
    a = nd.ones((3, 4))
    b = a + 5e-4
    tu.assert_almost_equal(a, b)                         # float32: rtol 1e-4, atol 1e-3
    tu.assert_almost_equal(a.astype("float64"), b)       # the less exact dtype decides
    with pytest.raises(AssertionError):
        tu.assert_almost_equal(a, b, rtol=1e-6, atol=1e-6)
    tu.assert_almost_equal(a, 1.0)
    tu.assert_almost_equal(a, numpy.ones((1, 4)))
    with pytest.raises(AssertionError):
        tu.assert_almost_equal(a, numpy.ones((1, 4)), use_broadcast=False)
    with pytest.raises(AssertionError):
        tu.assert_almost_equal(nd.array([1, 2], dtype="int32"), [1, 3])
    nan = numpy.array([1, numpy.nan])
    with pytest.raises(AssertionError):
        tu.assert_almost_equal(nan, nan)
    tu.assert_almost_equal(nan, nan, equal_nan=True)
    tu.assert_almost_equal_ignore_nan(nan, numpy.array([1.0, 5.0]))
    tu.assert_almost_equal_with_err(numpy.arange(10.0), numpy.r_[0:9, 100.0], etol=0.2)
    tu.assert_almost_equal(numpy.array([numpy.inf]), numpy.array([numpy.inf]))
    tu.assert_almost_equal(a, a * 2, rtol={numpy.dtype("float32"): 1.0})
    assert tu.same(a, numpy.ones((3, 4))) and not tu.same(a, b) and tu.almost_equal(a, a) and not tu.almost_equal(a, b)
    tu.assert_almost_equal(numpy.zeros((0, 3)), numpy.zeros((0, 3)))


def test_messages_name_the_worst_elements():
    a, b = numpy.zeros((2, 3), "float32"), numpy.zeros((2, 3), "float32")
    b[1, 2], b[0, 1] = 5, 2
    with pytest.raises(AssertionError) as caught:
        tu.assert_almost_equal(a, b, names=("got", "wanted"))
    text = str(caught.value)
    assert "(1, 2), got=0.00000000, wanted=5.00000000" in text and "2 of 6 elements" in text and "(0, 1)" in text


def test_references():
    x = numpy.arange(24.0).reshape(2, 3, 4)
    assert tu.np_reduce(x, (0, 2), True, numpy.sum).tolist() == x.sum((0, 2), keepdims=True).tolist()
    assert tu.collapse_sum_like(x, (3, 1)).tolist() == x.sum((0, 2)).reshape(3, 1).tolist()
    assert tu.assign_each(x, lambda v: v * v).tolist() == (x * x).tolist()
    assert tu.assign_each2(x, x, lambda a, b: a + b).tolist() == (2 * x).tolist()
    assert sorted(tu.random_sample(list(range(5)), 5)) == list(range(5))
    assert len(tu.rand_shape_nd(4, dim=3)) == 4 and all(1 <= n <= 3 for n in tu.rand_shape_nd(4, dim=3))
    assert tu.rand_ndarray((2, 3)).shape == (2, 3) and tu.rand_ndarray((2,), dtype="float64").dtype is numpy.float64
    assert isinstance(tu.random_arrays((2, 3), ()), list) and tu.random_arrays(()).shape == ()
    matrix = tu.new_matrix_with_real_eigvals_nd((2, 3, 3))
    numpy.testing.assert_allclose(numpy.sort(numpy.linalg.eigvals(matrix).real), [[1, 2, 3]] * 2, rtol=1e-6)
    with pytest.raises(mx.MXNetError):
        tu.rand_ndarray((2, 3), "csr")


def test_gradient_check():
    x, y = numpy.random.uniform(0.5, 1, (2, 3)), numpy.random.uniform(0.5, 1, (3,))
    tu.check_numeric_gradient(lambda a, b: nd.broadcast_mul(nd.sin(a), b) + nd.log(b), [x, y])
    tu.check_numeric_gradient(lambda a, b: [a * 2, nd.exp(b)], [x, y], grad_nodes=[1])

    class Wrong(mx.autograd.Function):
        def forward(self, a):
            return a * a

        def backward(self, dy):
            return dy
    with pytest.raises(AssertionError):
        tu.check_numeric_gradient(lambda a: Wrong()(a), [x])
    for function in (tu.check_symbolic_forward, tu.check_symbolic_backward, tu.check_consistency):
        with pytest.raises(mx.MXNetError):
            function(None, [], [])


def test_generator_checks():
    rng = numpy.random.default_rng(3)
    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda q: q * 2 - 1, 5)
    tu.verify_generator(lambda n: rng.uniform(-1, 1, n), buckets, probs, nsamples=10000)
    with pytest.raises(AssertionError):
        tu.verify_generator(lambda n: rng.uniform(-1, 1, n) ** 3, buckets, probs, nsamples=10000)
    tu.verify_generator(lambda n: rng.integers(0, 3, n), [0, 1, 2], [1 / 3] * 3, nsamples=10000)
    assert tu.mean_check(lambda n: rng.normal(1, 2, n), 1, 2, 10000)
    assert tu.var_check(lambda n: rng.normal(1, 2, n), 2, 10000)
    assert not tu.mean_check(lambda n: rng.normal(1, 2, n), 2, 2, 10000)


def test_surroundings(capfd):
    os.environ.pop("RAYND_TEST_ABC", None)
    with tu.environment("RAYND_TEST_ABC", "1"):
        with tu.environment({"RAYND_TEST_ABC": None, "RAYND_TEST_DEF": "2"}):
            assert "RAYND_TEST_ABC" not in os.environ and os.environ["RAYND_TEST_DEF"] == "2"
        assert os.environ["RAYND_TEST_ABC"] == "1"
    assert "RAYND_TEST_ABC" not in os.environ and "RAYND_TEST_DEF" not in os.environ
    with tu.discard_stderr():
        print("unheard", file=sys.__stderr__, flush=True)
        os.write(2, b"unheard")
    assert "unheard" not in capfd.readouterr().err
    tu.assert_exception(lambda: nd.ones(3) + nd.ones(4), ValueError)
    with pytest.raises(AssertionError):
        tu.assert_exception(lambda: None, ValueError)
    assert tu.list_gpus() == list(range(mx.num_gpus())) and tu.default_device() == mx.current_device()


def test_same_array():
    a = nd.ones((2, 3))
    assert tu.same_array(a, a.detach()) and not tu.same_array(a, a.copy())
