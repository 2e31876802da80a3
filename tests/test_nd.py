"""``mx.nd``: the rules of the legacy face (dtypes, shapes, reshape codes, modes) and its functions."""
from __future__ import annotations

import math

import numpy
import pytest

import raynd as mx
from raynd import autograd, nd, np, npx


@pytest.fixture
def x():
    return nd.array([[1, 2], [3, 4]])


@pytest.fixture
def i():
    return nd.array([1, 2, 3], dtype="int32")


def values(a):
    return a.asnumpy().tolist()


# -- creation ------------------------------------------------------------------------------------------------------


def test_array_dtypes_and_devices():
    assert nd.array([1, 2]).dtype is numpy.float32 and nd.array(numpy.arange(3)).dtype is numpy.float32
    assert nd.array(nd.array([1], dtype="int32")).dtype is numpy.int32
    assert nd.array([True, False], dtype="bool").dtype is numpy.bool_
    assert nd.array([1.7], dtype="int32").asnumpy().tolist() == [1]
    a = nd.array([[1, 2], [3, 4]], ctx=mx.cpu(1))
    assert a.context == a.ctx == a.device == mx.cpu(1) and a.shape == (2, 2) and a.size == 4
    assert nd.array(a).context == mx.cpu(0)
    source = nd.ones(3)
    other = nd.array(source)
    other[:] = 0
    assert values(source) == [1, 1, 1]
    assert type(nd.array(np.ones(2))) is nd.NDArray
    assert nd.array([nd.array([1, 2]), nd.array([3, 4])]).shape == (2, 2)
    with pytest.raises(TypeError):
        nd.array("abc")
    with pytest.raises(TypeError):
        nd.array([[1, 2], [3]])


def test_filled_arrays():
    assert values(nd.zeros(3)) == [0, 0, 0] and values(nd.ones((2, 1), dtype="int8")) == [[1], [1]]
    assert nd.full((2,), 3).dtype is numpy.float32 and values(nd.full((2,), 2.5)) == [2.5, 2.5]
    assert nd.empty((2, 3), mx.cpu(1)).context == mx.cpu(1)
    assert values(nd.arange(3)) == [0, 1, 2] and nd.arange(3).dtype is numpy.float32
    assert values(nd.arange(1, 7, 2, repeat=2, dtype="int32")) == [1, 1, 3, 3, 5, 5]
    assert values(nd.linspace(0, 1, 3)) == [0, 0.5, 1] and values(nd.eye(2, 3, 1)) == [[0, 1, 0], [0, 0, 1]]
    assert values(nd.zeros_like(nd.array([2], dtype="int32"))) == [0]
    out = nd.empty((2,))
    assert nd.zeros((2,), out=out) is out and values(out) == [0, 0]
    with pytest.raises(mx.MXNetError):
        nd.zeros((2,), stype="csr")
    with pytest.raises(TypeError):
        nd.zeros((2,), foo=1)


def test_printing(x):
    assert str(nd.ones((3, 3))).splitlines()[-1] == "<ndarray shape=(3, 3) cpu(0)>"
    assert repr(x).strip().startswith("[[1. 2.]") and str(x.dtype) == "<class 'numpy.float32'>"


# -- element-wise --------------------------------------------------------------------------------------------------


def test_comparisons_keep_the_dtype(x, i):
    c = x > 2
    assert c.dtype is numpy.float32 and values(c) == [[0, 0], [1, 1]]
    assert (i == 2).dtype is numpy.int32 and values(i != i) == [0, 0, 0]
    assert values(nd.lesser(x, nd.array([2, 4]))) == [[1, 1], [0, 0]]
    assert values(nd.broadcast_greater_equal(x, 3)) == [[0, 0], [1, 1]]
    assert values(nd.logical_and(x, x - 1)) == [[0, 1], [1, 1]] and values(nd.logical_not(i)) == [0, 0, 0]
    assert (x == None) is False and (x != None) is True       # noqa: E711


def test_integers_stay_integers(i):
    assert values(i + 1.5) == [2, 3, 4] and values(1.5 - i) == [0, -1, -2] and values(i / 2) == [0, 1, 1]
    assert (i / 2).dtype is numpy.int32 and values(-i / 2) == [0, -1, -1]
    assert values(nd.exp(i)) == [2, 7, 20] and values(nd.maximum(i, 1.5)) == [1, 2, 3]
    j = i.copy()
    j += 1.5
    assert values(j) == [2, 3, 4] and j.dtype is numpy.int32
    j /= 2
    assert values(j) == [1, 1, 2]
    with pytest.raises(ValueError):
        i + math.inf


def test_operators_and_functions(x):
    y = nd.array([10, 20])
    assert values(x + y) == [[11, 22], [13, 24]] and values(2 - x) == [[1, 0], [-1, -2]]
    assert values(x % 2) == [[1, 0], [1, 0]] and values(2 ** x) == [[2, 4], [8, 16]] and values(x ** 2)[1] == [9, 16]
    assert values(-x) == [[-1, -2], [-3, -4]] and values(abs(-x)) == values(x) and values(x @ x) == [[7, 10], [15, 22]]
    assert nd.add(1, 2) == 3 and values(nd.subtract(1, x)) == [[0, -1], [-2, -3]]
    assert values(nd.broadcast_add(x, y)) == values(x + y)
    with pytest.raises(ValueError):
        nd.elemwise_add(x, y)
    assert values(nd.add_n(x, x, x)) == values(x * 3)
    assert values(nd.round(nd.array([-2.5, -0.5, 0.5, 2.5]))) == [-3, -1, 1, 3]
    assert values(nd.rint(nd.array([-2.5, -0.5, 0.5, 2.5]))) == [-3, -1, 0, 2]
    assert values(x.clip(2, 3)) == [[2, 2], [3, 3]] and values(nd.clip(data=x, a_min=2, a_max=3, name="c")) == \
        [[2, 2], [3, 3]]
    assert nd.exp(data=x, name="e").shape == x.shape and x.log().shape == x.shape
    with pytest.raises(TypeError):
        nd.exp(x, foo=1)
    assert type(x + np.ones(2)) in (nd.NDArray, np.ndarray) and type(nd.exp(np.ones(2))) is np.ndarray


def test_out_and_in_place(x):
    out = nd.empty((2, 2))
    assert nd.add(x, x, out=out) is out and values(out) == [[2, 4], [6, 8]]
    assert nd.exp(x, out=out) is out and out.asnumpy()[0, 0] == pytest.approx(math.e)
    assert nd.sum(x, axis=0, out=nd.empty((2,))).shape == (2,)
    with pytest.raises(ValueError):
        nd.add(x, x, out=nd.empty((3,)))
    view, before = x[0], id(x)
    x += 1
    assert id(x) == before and values(view) == [2, 3]
    x[:] = 5
    assert values(view) == [5, 5]


# -- reductions and products ---------------------------------------------------------------------------------------


def test_reductions_have_an_axis(x, i):
    assert x.sum().shape == (1,) and x.sum().asscalar() == 10 and nd.sum(x, axis=()).shape == (1,)
    assert values(x.mean(axis=0)) == [2, 3] and values(nd.sum(x, axis=0, exclude=True)) == [3, 7]
    assert x.sum(keepdims=True).shape == (1, 1) and nd.max(x, axis=(0, 1)).shape == (1,)
    assert nd.mean(i).dtype is numpy.int32 and values(nd.mean(i)) == [2]
    assert values(x.argmax(axis=1)) == [1, 1] and x.argmax().dtype is numpy.float32 and values(x.argmin()) == [0]
    assert values(nd.norm(x, ord=1, axis=1)) == [3, 7] and x.norm().asscalar() == pytest.approx(30 ** 0.5)
    mean, var = nd.moments(x, axes=(0,))
    assert values(mean) == [2, 3] and values(var) == [1, 1]
    assert values(nd.nansum(nd.array([1, math.nan]))) == [1] and x.prod().asscalar() == 24
    with pytest.raises(IndexError):
        x.sum(axis=2)


def test_products(x):
    assert values(nd.dot(x, x.T)) == [[5, 11], [11, 25]]
    assert nd.dot(nd.ones((2, 3, 4)), nd.ones((4, 5))).shape == (2, 3, 5)
    assert values(nd.dot(nd.ones(3), nd.ones(3))) == [3]
    assert values(nd.dot(x, x, transpose_a=True)) == (x.asnumpy().T @ x.asnumpy()).tolist()
    assert nd.batch_dot(nd.ones((2, 3, 4)), nd.ones((2, 5, 4)), transpose_b=True).shape == (2, 3, 5)
    with pytest.raises(ValueError):
        nd.dot(x, nd.ones(3))


# -- shapes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, codes, reverse, expected", [
    ((2, 3, 4), (4, 0, 2), False, (4, 3, 2)), ((2, 3, 4), (0, -1), False, (2, 12)),
    ((2, 3, 4), (-2,), False, (2, 3, 4)),
    ((2, 3, 4), (2, -2), False, (2, 3, 4)), ((2, 3, 4), (-3, 4), False, (6, 4)), ((2, 3, 4), (0, -3), False, (2, 12)),
    ((2, 3, 4), (-4, 1, 2, -2), False, (1, 2, 3, 4)), ((2, 3, 4), (2, -4, -1, 3, -2), False, (2, 1, 3, 4)),
    ((10, 5, 4), (-1, 0), False, (40, 5)), ((10, 5, 4), (-1, 0), True, (50, 4)),
    ((2, 3, 5, 5), (0, -1), True, (5, 30)), ((2, 0, 3), (0, 0, -1), False, None), ((2, 3), (6,), False, (6,)),
    ((2, 3), (4,), False, None), ((2, 3), (-1, -1), False, None), ((2, 3), (-5,), False, None),
    ((2, 3), (0, 0, 0), False, None), ((2, 3), (-4, 2), False, None), ((6,), (-4, 4, 2), False, None)])
def test_reshape_codes(shape, codes, reverse, expected):
    a = nd.ones(shape)
    if expected is None:
        with pytest.raises(ValueError):
            a.reshape(codes, reverse=reverse)
    else:
        assert a.reshape(codes, reverse=reverse).shape == nd.reshape(a, shape=codes, reverse=reverse).shape == expected


def test_reshape_shares_memory(x):
    y = x.reshape(4)
    y[0] = 9
    assert x.asnumpy()[0, 0] == 9 and x.reshape(shape=(1, -1)).shape == (1, 4) and x.reshape(2, 2).shape == (2, 2)
    z = nd.reshape(x, shape=(4,))
    z[:] = 0
    assert x.asnumpy()[0, 0] == 9


def test_joining_and_splitting(x):
    assert nd.concat(x, x, dim=1).shape == (2, 4) and nd.concat(*[x] * 3, dim=0).shape == (6, 2)
    assert nd.stack(x, x, axis=-1).shape == (2, 2, 2) and nd.concatenate([x, x]).shape == (4, 2)
    left, right = nd.split(x, num_outputs=2, axis=1)
    assert values(left) == [[1], [3]] and nd.split(x, 2, squeeze_axis=True)[1].shape == (2,)
    assert type(nd.split(x, 1)) is nd.NDArray and len(nd.split_v2(nd.arange(6), (1, 3))) == 3
    with pytest.raises(ValueError):
        nd.split(x, 3)


def test_slices_and_orders(x):
    assert values(nd.slice(x, begin=(0, 1), end=(2, 2))) == [[2], [4]]
    assert values(nd.slice(x, begin=(1,), end=(None,), step=(-1,))) == [[3, 4], [1, 2]]
    assert values(x.slice_axis(axis=1, begin=-1, end=None)) == [[2], [4]]
    assert nd.slice_like(nd.ones((3, 3)), x).shape == (2, 2) and values(x.flip(axis=1)) == [[2, 1], [4, 3]]
    assert values(x.T) == [[1, 3], [2, 4]] and nd.ones((2, 3, 4)).T.shape == (4, 3, 2)
    assert nd.ones((2, 3, 4)).transpose((1, 0, 2)).shape == (3, 2, 4) and x.expand_dims(axis=0).shape == (1, 2, 2)
    assert nd.ones((1, 2, 1)).squeeze().shape == (2,) and nd.squeeze(nd.ones((1, 1))).shape == (1,)
    assert nd.ones((2, 3, 4)).flatten().shape == (2, 12) and nd.swapaxes(nd.ones((2, 3)), 0, 1).shape == (3, 2)
    assert values(nd.tile(x, reps=(1, 2))) == [[1, 2, 1, 2], [3, 4, 3, 4]] and x.repeat(2).shape == (8,)
    assert nd.moveaxis(nd.ones((2, 3, 4)), 0, -1).shape == (3, 4, 2)
    assert nd.broadcast_to(nd.ones((1, 2)), (3, 0)).shape == (3, 2)
    assert nd.broadcast_axis(nd.ones((1, 2, 1)), axis=(0, 2), size=(3, 4)).shape == (3, 2, 4)
    assert nd.broadcast_like(nd.ones((1, 2)), nd.ones((3, 2))).shape == (3, 2)
    cube = nd.arange(16).reshape((1, 4, 2, 2))
    assert values(nd.space_to_depth(nd.depth_to_space(cube, 2), 2)) == values(cube)
    padded = nd.pad(nd.ones((1, 1, 2, 2)), mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 0, 0), constant_value=5)
    assert padded.shape == (1, 1, 4, 2) and padded.asnumpy()[0, 0, 0].tolist() == [5, 5]
    assert values(nd.where(nd.array([0, 1]), x, -x)) == [[-1, -2], [3, 4]]
    assert values(x[0]) == [1, 2] and x[0, 0].shape == () and values(nd.diag(x)) == [1, 4]


def test_sorting():
    a = nd.array([[3, 1, 2], [1, 3, 2]])
    assert values(a.sort()) == [[1, 2, 3]] * 2 and values(nd.sort(a, is_ascend=False, axis=0)) == [[3, 3, 2], [1, 1, 2]]
    order = nd.argsort(a)
    assert values(order) == [[1, 2, 0], [0, 2, 1]] and order.dtype is numpy.float32
    assert values(a.argsort(axis=None, dtype="int32")) == [1, 3, 2, 5, 0, 4]


def test_positions_and_names_of_arguments_are_those_of_mxnet(x):
    matrix, ones = [[1.0, 2], [3, 4]], nd.ones((2,))
    down = numpy.log(numpy.exp(matrix) / numpy.exp(matrix).sum(0))
    for function, a in ((nd.log_softmax, x), (mx.npx.log_softmax, mx.np.array(matrix))):
        numpy.testing.assert_allclose(function(a, 0).asnumpy(), down, rtol=1e-5)
    numpy.testing.assert_allclose(nd.softmin(-x, 0).asnumpy(), numpy.exp(down), rtol=1e-5)
    numpy.testing.assert_allclose(nd.softmax(x, None, 0).asnumpy(), numpy.exp(down), rtol=1e-5)
    y = nd.BatchNorm(data=x, gamma=ones, beta=ones, moving_mean=ones, moving_var=ones, eps=0)
    numpy.testing.assert_allclose(y.asnumpy(), matrix)
    y = nd.RNN(nd.ones((1, 1, 1)), nd.ones((4,)), nd.zeros((1, 1, 1)), None, None, 1, 1, False, "rnn_tanh")
    numpy.testing.assert_allclose(y.asnumpy(), [[[numpy.tanh(3.0)]]], rtol=1e-5)
    assert values(nd.power(base=x, exp=2)) == [[1, 4], [9, 16]]
    stack = mx.np.ones((1, 2, 2))
    assert values(mx.npx.batch_dot(a=stack, b=stack)) == [[[2, 2], [2, 2]]]
    assert values(mx.npx.relu(data=stack)) == [[[1, 1], [1, 1]]]


def test_gradients_flow(x):
    x.attach_grad()
    with autograd.record():
        y = nd.concat(x.reshape((-1,)), nd.split(x, 2, axis=0)[1].flatten().reshape((-1,)), dim=0)
        loss = (y * y).sum() + nd.sum(x, axis=0, exclude=True).sum() + (x > 2).sum() + x.norm()
    loss.backward()
    v = numpy.array([[1.0, 2], [3, 4]])
    expected = 2 * v + 2 * v * [[0], [1]] + 1 + v / 30 ** 0.5
    numpy.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-5)
    with autograd.record():
        z = nd.BlockGrad(x) * x + nd.round(x)
    z.backward()
    numpy.testing.assert_allclose(x.grad.asnumpy(), v)


def test_drop_grad_and_tostype(x):
    x.attach_grad()
    assert x.grad is not None
    x.drop_grad()
    assert x.grad is None and x.tostype("default") is x
    with pytest.raises(mx.MXNetError):
        x.tostype("csr")


# -- modes ---------------------------------------------------------------------------------------------------------


def test_zero_shapes_are_refused_in_legacy_mode():
    assert nd.zeros(()).shape == () and nd.ones((0, 2)).shape == (0, 2) and nd.arange(0).shape == (0,)
    mx.util.reset_np()
    try:
        for bad in (lambda: nd.zeros(()), lambda: nd.ones((2, 0)), lambda: nd.full((), 1), lambda: nd.arange(0),
                    lambda: nd.random.normal(shape=()), lambda: nd.random.uniform(shape=(0,))):
            with pytest.raises(mx.MXNetError):
                bad()
        assert nd.zeros((2,)).shape == (2,)
    finally:
        mx.util.set_np()


def test_methods_exist_for_the_surface():
    for name in ("abs exp log sqrt sin tanh sum mean max min prod argmax norm reshape transpose flatten expand_dims "
                 "squeeze slice slice_axis split take clip repeat tile broadcast_to broadcast_like astype copy copyto "
                 "as_in_context asnumpy asscalar wait_to_read attach_grad backward detach swapaxes flip diag").split():
        assert callable(getattr(nd.NDArray, name)), name
    assert nd.op.exp is nd.exp and nd.waitall() is None


def test_dlpack(x):
    assert values(nd.from_dlpack(x.to_dlpack_for_read())) == values(x)
    assert values(nd.from_dlpack(numpy.arange(3))) == [0, 1, 2]
    a = numpy.arange(4.0)
    assert values(nd.from_numpy(a)) == [0, 1, 2, 3] and not a.flags.writeable
    with pytest.raises(TypeError):
        nd.from_numpy([1])
    with pytest.raises(mx.MXNetError):
        nd.from_numpy(numpy.arange(6).reshape(2, 3).T)


def test_first_training_loop_of_the_tutorial():
    """A linear regression in nd operations alone."""
    mx.random.seed(3)
    x = nd.random.normal(shape=(200, 3))
    w_true = nd.array([[1.0], [-2.0], [0.5]])
    y = nd.dot(x, w_true) + 4
    w, b = nd.zeros((3, 1)), nd.zeros((1,))
    for p in (w, b):
        p.attach_grad()
    for _ in range(60):
        with autograd.record():
            loss = ((nd.dot(x, w) + b - y) ** 2).mean()
        loss.backward()
        for p in (w, b):
            p[:] = p - 0.3 * p.grad
    assert loss.asscalar() < 1e-6
    numpy.testing.assert_allclose(w.asnumpy(), w_true.asnumpy(), atol=1e-2)


def gradient(function, x, *args, **kwargs):
    """The gradient of a function of NDArrays at ``x`` for a head gradient of twos."""
    x = nd.array(x)
    x.attach_grad()
    with autograd.record():
        y = function(x, *args, **kwargs)
    y.backward(nd.ones_like(y) * 2)
    return x.grad.asnumpy()


def test_output_layers_have_the_gradient_of_their_loss():
    v = numpy.array([[1.0, 2, -1], [0.5, 0.2, 0.3]])
    e = numpy.exp(v)
    p = e / e.sum(1, keepdims=True)
    hot = numpy.eye(3)[[1, 0]]
    label, wide = nd.array([1, 0]), nd.array(hot)

    def check(actual, expected):
        numpy.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    check(gradient(nd.SoftmaxOutput, v, label), p - hot)
    check(gradient(nd.SoftmaxOutput, v, label, grad_scale=3, normalization="batch"), (p - hot) * 3 / 2)
    check(gradient(nd.SoftmaxOutput, v, wide), p - hot)
    check(gradient(nd.SoftmaxOutput, v, label, out_grad=True), (p - hot) * 2)
    check(gradient(nd.SoftmaxOutput, v, label, smooth_alpha=0.1), p - hot * 0.9 - (1 - hot) * 0.05)
    check(gradient(nd.SoftmaxOutput, v, nd.array([1, -1]), use_ignore=True, normalization="valid"),
          (p - hot) * [[1], [0]])
    check(gradient(nd.LinearRegressionOutput, v, wide), (v - hot) / 3)
    check(gradient(nd.LogisticRegressionOutput, v, wide), (1 / (1 + numpy.exp(-v)) - hot) / 3)
    check(gradient(nd.MAERegressionOutput, v, wide, grad_scale=3), numpy.sign(v - hot))
    check(gradient(nd.MakeLoss, v, grad_scale=3, normalization="valid", valid_thresh=0.4), numpy.ones((2, 3)))
    check(gradient(nd.SVMOutput, v, label), [[4, 0, 0], [-1, 2.4, 2.6]])
    check(gradient(nd.SVMOutput, v, label, use_linear=True), [[1, 0, 0], [-1, 1, 1]])
    check(gradient(nd.contrib.gradientmultiplier, v, scalar=-0.5), numpy.full((2, 3), -1.0))
    stacked = numpy.stack([v, v + 1], axis=2)
    check(gradient(nd.SoftmaxOutput, stacked, nd.array([[1, 1], [0, 0]]), multi_output=True),
          numpy.stack([p - hot, p - hot], axis=2) / 2)
    for normalization, count in (("null", 1), ("batch", 4)):           # a batch of softmaxes, whatever their places
        check(gradient(nd.SoftmaxOutput, numpy.stack([v, v]), nd.array([[1, 0], [1, 0]]), preserve_shape=True,
                       normalization=normalization), numpy.stack([p - hot, p - hot]) / count)
    for normalization in ("null", "batch", "valid"):
        assert gradient(nd.SoftmaxOutput, numpy.ones((0, 3)), nd.zeros((0,)), normalization=normalization).size == 0
        assert gradient(nd.SoftmaxOutput, numpy.ones((2, 3, 0)), nd.zeros((2, 0)), normalization=normalization,
                        multi_output=True).size == 0
        assert gradient(nd.SVMOutput, numpy.ones((0, 3)), nd.zeros((0,))).size == 0
        assert gradient(nd.MakeLoss, numpy.ones(0), normalization=normalization).size == 0
    with pytest.raises(ValueError):
        nd.SoftmaxOutput(nd.array(v), nd.ones((3,)))
    with pytest.raises(TypeError):
        nd.SoftmaxOutput(nd.array(v), label, normalization="none")


def test_contrib_and_amp(x):
    assert values(nd.contrib.quadratic(x, a=1, b=2, c=3)) == [[6, 11], [18, 27]]
    assert values(nd.contrib.allclose(x, x + 1e-9)) == [1] and values(nd.contrib.getnnz(x - 1)) == [3]
    assert nd.contrib.dynamic_reshape(x, nd.array([-1, 1])).shape == (4, 1)
    assert values(nd.contrib.isnan(nd.array([1, math.nan]))) == [0, 1]
    assert values(nd.contrib.boolean_mask(x, nd.array([0, 1]))) == [[3, 4]]
    a, b = nd.amp_multicast(x.astype("float16"), x, num_outputs=2)
    assert a.dtype is b.dtype is numpy.float32 and nd.amp_cast(x, "float16").dtype is numpy.float16
    assert nd.amp_cast(nd.array([1], dtype="int32"), "float16").dtype is numpy.int32


def test_several_results_are_a_list_in_mxnet_and_a_tuple_in_numpy():
    x = np.eye(4)
    assert type(nd.topk(x.as_nd_ndarray(), ret_typ="both")) is type(npx.topk(x, ret_typ="both")) is list
    assert type(x.as_nd_ndarray().topk(ret_typ="both")) is list
    assert type(np.linalg.svd(x)) is type(np.linalg.slogdet(x)) is tuple
    out = nd.zeros((4, 1)), nd.zeros((4, 1))
    assert nd.topk(x.as_nd_ndarray(), ret_typ="both", out=out) is out
