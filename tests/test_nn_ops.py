"""What the operator table cannot say: modes, choices among operators, errors, and the providers of kernels."""
from __future__ import annotations

import numpy
import pytest

import raynd as mx
from raynd import autograd, nd, npx
from raynd.errors import ArgumentError, MXNetError, ShapeError


@pytest.fixture(autouse=True)
def local(monkeypatch):
    """Local mode, where it makes no difference."""
    monkeypatch.setenv("RAYND_MODE", "local")


def array(*shape, seed=0):
    return mx.np.array(numpy.random.default_rng(seed).standard_normal(shape))


# -- modes ---------------------------------------------------------------------------------------------------------


def test_batch_norm_moves_its_statistics_in_recorded_training_passes_alone():
    x, gamma, beta, mean, var = array(4, 3, 2), mx.np.ones(3), mx.np.zeros(3), mx.np.zeros(3), mx.np.ones(3)
    npx.batch_norm(x, gamma, beta, mean, var)
    with autograd.train_mode():
        trained = npx.batch_norm(x, gamma, beta, mean, var)
    with autograd.record():
        npx.batch_norm(x, gamma, beta, mean, var, use_global_stats=True)
    assert (mean.asnumpy() == 0).all() and (var.asnumpy() == 1).all()
    with autograd.record():
        y, batch_mean, inv = npx.batch_norm(x, gamma, beta, mean, var, momentum=0.5, output_mean_var=True)
    host = x.asnumpy()
    numpy.testing.assert_allclose(mean.asnumpy(), 0.5 * host.mean((0, 2)), rtol=1e-5)
    numpy.testing.assert_allclose(var.asnumpy(), 0.5 + 0.5 * host.var((0, 2)), rtol=1e-5)
    numpy.testing.assert_allclose(batch_mean.asnumpy(), host.mean((0, 2)), rtol=1e-5)
    numpy.testing.assert_allclose(inv.asnumpy(), (host.var((0, 2)) + 1e-3) ** -0.5, rtol=1e-5)
    numpy.testing.assert_allclose(y.asnumpy(), trained.asnumpy(), rtol=1e-5)


def test_fix_gamma_counts_gamma_as_one_and_gives_it_no_gradient():
    x, gamma, beta = array(4, 3), mx.np.full(3, 7.0), mx.np.zeros(3)
    gamma.attach_grad()
    with autograd.record():
        y = npx.batch_norm(x, gamma, beta, mx.np.zeros(3), mx.np.ones(3), fix_gamma=True)
    y.backward()
    assert abs(y.asnumpy()).max() < 2 and (gamma.grad.asnumpy() == 0).all()


def test_dropout_draws_only_where_it_drops():
    x = mx.np.ones((30, 30))

    def masks(predictions):
        mx.np.random.seed(3)
        for _ in range(predictions):
            assert (npx.dropout(x, p=0.5).asnumpy() == 1).all()
        with autograd.train_mode():
            assert (npx.dropout(x, p=0.0).asnumpy() == 1).all()
            return npx.dropout(x, p=0.5).asnumpy()
    numpy.testing.assert_array_equal(masks(0), masks(4))
    assert set(numpy.unique(npx.dropout(x, p=0.75, mode="always").asnumpy())) == {0, 4}


def test_rrelu_is_random_in_training_and_its_mean_in_prediction():
    x = -mx.np.ones((50, 20))
    assert numpy.allclose(npx.leaky_relu(x, act_type="rrelu", lower_bound=0.2, upper_bound=0.4).asnumpy(), -0.3)
    with autograd.train_mode():
        y = -npx.leaky_relu(x, act_type="rrelu", lower_bound=0.2, upper_bound=0.4).asnumpy()
    assert 0.2 <= y.min() < 0.22 and 0.38 < y.max() <= 0.4


def test_hybridized_and_eager_batch_norm_and_dropout_agree():
    def net():
        mx.np.random.seed(1)
        block = mx.gluon.nn.HybridSequential()
        block.add(mx.gluon.nn.Conv2D(4, 3, in_channels=2), mx.gluon.nn.BatchNorm(in_channels=4),
                  mx.gluon.nn.Dropout(0.5))
        block.initialize(mx.init.Xavier())
        return block
    results = []
    for hybrid in (False, True):
        block = net()
        if hybrid:
            block.hybridize()
        mx.np.random.seed(2)
        for _ in range(3):
            with autograd.record():
                y = block(array(2, 2, 6, 6))
            y.backward()
        results.append((y.asnumpy(), block[1].running_mean.data().asnumpy(), block[0].weight.grad().asnumpy()))
    for a, b in zip(*results):
        numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# -- errors --------------------------------------------------------------------------------------------------------

BAD = {
    "a kernel larger than the padded input":
        lambda: npx.convolution(array(1, 2, 3, 3), array(2, 2, 5, 5), no_bias=True),
    "channels that do not match": lambda: npx.convolution(array(1, 3, 5, 5), array(2, 2, 3, 3), no_bias=True),
    "groups that do not divide": lambda: npx.convolution(array(1, 3, 5, 5), array(3, 1, 3, 3), no_bias=True,
                                                         num_group=2),
    "a bias of another length": lambda: npx.convolution(array(1, 2, 5, 5), array(2, 2, 3, 3), array(3)),
    "a pooling window larger than the input": lambda: npx.pooling(array(1, 2, 3, 3), kernel=(4, 4)),
    "too large an adjustment":
        lambda: npx.deconvolution(array(1, 2, 3, 3), array(2, 2, 3, 3), no_bias=True, adj=(1, 1)),
    "a target that no padding gives":
        lambda: npx.deconvolution(array(1, 2, 3, 3), array(2, 2, 3, 3), no_bias=True, target_shape=(4, 5)),
    "a window of size 0": lambda: npx.pooling(array(1, 2, 3, 3), kernel=0),
    "a kernel that is not the weight's":
        lambda: npx.deformable_convolution(array(1, 2, 4, 4), array(1, 18, 2, 2), array(2, 2, 2, 2), kernel=(3, 3),
                                           no_bias=True),
    "another number of filters":
        lambda: npx.deformable_convolution(array(1, 2, 4, 4), array(1, 8, 3, 3), array(2, 2, 2, 2), kernel=(2, 2),
                                           no_bias=True, num_filter=3),
    "a mask of another shape":
        lambda: npx.modulated_deformable_convolution(array(1, 2, 4, 4), array(1, 8, 3, 3), array(1, 3, 3, 3),
                                                     array(2, 2, 2, 2), kernel=(2, 2), no_bias=True),
    "an image without channels to resize": lambda: nd.contrib.BilinearResize2D(nd.ones((4, 4)), height=2, width=2),
    "an image without pixels to resize": lambda: nd.contrib.BilinearResize2D(nd.zeros((1, 1, 0, 4)), height=2, width=2),
    "an image without channels to enlarge": lambda: nd.UpSampling(nd.ones((4, 4)), scale=2),
    "inputs that do not fit the weight": lambda: npx.fully_connected(array(2, 3), array(4, 5)),
    "k above the axis": lambda: npx.topk(array(2, 3), k=4),
    "a dropout rate above 1": lambda: npx.dropout(array(3), p=1.5),
    "a length of another shape": lambda: npx.softmax(array(2, 3), array(3), use_length=True),
    "too few parameters": lambda: npx.rnn(array(2, 3, 4), array(9), array(1, 3, 5), mode="gru", state_size=5,
                                          num_layers=1),
    "more labels than time steps": lambda: npx.ctc_loss(array(2, 1, 4), mx.np.ones((1, 3))),
}


@pytest.mark.parametrize("case", BAD)
def test_shapes_that_do_not_fit_raise_at_the_call(case):
    with pytest.raises(ShapeError):
        BAD[case]()


WRONG = {
    "an unknown activation": lambda: npx.activation(array(3), act_type="step"),
    "a missing bias": lambda: npx.convolution(array(1, 2, 5, 5), array(2, 2, 3, 3)),
    "an unknown layout": lambda: npx.convolution(array(1, 2, 5, 5), array(2, 2, 3, 3), no_bias=True, layout="CHWN"),
    "sparse gradients": lambda: npx.embedding(array(2), array(3, 2), sparse_grad=True),
    "an unknown argument": lambda: npx.dropout(array(3), probability=0.5),
    "a gru with a cell state": lambda: npx.rnn(array(2, 3, 4), array(9), array(1, 3, 5), mode="gru", state_size=5,
                                               num_layers=1, lstm_state_clip_min=-1.0),
}


WRONG |= {f"{name}: an array that has no effect": call for name, call in {
    "convolution": lambda: npx.convolution(array(1, 2, 5, 5), array(2, 2, 3, 3), array(2), no_bias=True),
    "deconvolution": lambda: nd.Deconvolution(nd.ones((1, 2, 5, 5)), nd.ones((2, 2, 3, 3)), nd.ones((2,))),
    "deformable": lambda: npx.deformable_convolution(array(1, 2, 4, 4), array(1, 8, 3, 3), array(2, 2, 2, 2),
                                                     array(2), kernel=(2, 2), no_bias=True),
    "dense": lambda: nd.FullyConnected(nd.ones((2, 3)), nd.ones((4, 3)), nd.ones((4,)), num_hidden=4, no_bias=True),
    "softmax": lambda: npx.softmax(array(2, 3), array(2)),
    "sequence_mask": lambda: npx.sequence_mask(array(2, 3), array(3)),
    "sequence_last": lambda: npx.sequence_last(array(2, 3), array(3)),
    "sequence_reverse": lambda: npx.sequence_reverse(array(2, 3), array(3)),
    "leaky_relu": lambda: nd.LeakyReLU(nd.ones((2, 3)), nd.ones((3,))),
    "rnn": lambda: nd.RNN(nd.ones((2, 1, 1)), nd.ones((4,)), nd.ones((1, 1, 1)), nd.ones((1, 1, 1)), mode="rnn_relu",
                          state_size=1, num_layers=1),
    "ctc_loss": lambda: npx.ctc_loss(array(3, 1, 4), mx.np.ones((1, 2)), array(1)),
    "up_sampling": lambda: nd.UpSampling(nd.ones((1, 1, 2, 2)), nd.ones((1, 1, 2, 2)), scale=2, num_args=1)}.items()}


WHOLE = {"dtype": "int32"}
WRONG |= {f"{name}: integers where results are fractions": call for name, call in {
    "l2_normalization": lambda: npx.l2_normalization(mx.np.ones((2, 3), **WHOLE)),
    "lrn": lambda: npx.lrn(mx.np.ones((2, 3, 4, 4), **WHOLE)),
    "adaptive_avg_pooling2d": lambda: npx.adaptive_avg_pooling2d(mx.np.ones((2, 3, 4, 4), **WHOLE)),
    "resize": lambda: nd.contrib.BilinearResize2D(nd.ones((2, 3, 4, 4), **WHOLE), height=2, width=2),
    "softmax_output": lambda: nd.SoftmaxOutput(nd.ones((2, 3), **WHOLE), nd.ones((2,))),
    "logistic": lambda: nd.LogisticRegressionOutput(nd.ones((2, 3), **WHOLE), nd.ones((2, 3))),
    "softmax_activation": lambda: nd.SoftmaxActivation(nd.ones((2, 3), **WHOLE)),
    "attention": lambda: npx.interleaved_matmul_selfatt_qk(mx.np.ones((2, 3, 6), **WHOLE), heads=1)}.items()}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_are_not_supported_raise_at_the_call(case):
    with pytest.raises(ArgumentError):
        WRONG[case]()


def test_values_out_of_range_are_error_values():
    good = npx.ctc_loss(array(3, 1, 4), mx.np.ones((1, 2)))
    bad = npx.ctc_loss(array(3, 1, 4), mx.np.full((1, 2), 9.0))
    assert numpy.isfinite(good.asnumpy()).all()
    with pytest.raises(MXNetError, match="label"):
        bad.asnumpy()
    for blank, place in (("first", 0), ("last", 3)):        # the blank is no label
        with pytest.raises(IndexError, match="blank"):
            npx.ctc_loss(array(3, 1, 4), mx.np.full((1, 2), place), label_lengths=mx.np.full(1, 2),
                         use_label_lengths=True, blank_label=blank).asnumpy()
    with pytest.raises(IndexError):
        npx.sequence_last(array(3, 2), mx.np.array([1.0, 7.0]), use_sequence_length=True).asnumpy()


def test_labels_outside_an_embedding_are_clipped_as_in_mxnet():
    weight = array(3, 2)
    y = npx.embedding(mx.np.array([-1.0, 5.0]), weight, input_dim=3, output_dim=2)
    numpy.testing.assert_array_equal(y.asnumpy(), weight.asnumpy()[[0, 2]])


@pytest.mark.parametrize("shape, channels", [((1, 0, 1), 1), ((2, 3, 0), 3), ((0, 3, 4), 3), ((2, 0, 3), 5)])
def test_instance_norm_of_nothing(shape, channels):
    arrays = [mx.np.zeros(shape), mx.np.ones(channels), mx.np.ones(channels)]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = npx.instance_norm(*arrays)
    y.backward()
    assert y.shape == shape and all((a.grad.asnumpy() == 0).all() and a.grad.shape == a.shape for a in arrays)


def test_ctc_ignores_what_stands_after_the_end():
    data = numpy.random.default_rng(5).standard_normal((6, 2, 4)).astype("float32")
    data[4:, 1] = numpy.nan
    x, lengths = mx.np.array(data), mx.np.array([6, 4])
    x.attach_grad()
    with autograd.record():
        loss = npx.ctc_loss(x, mx.np.array([[1, 2], [3, 0]]), lengths, use_data_lengths=True)
    loss.backward()
    grad = x.grad.asnumpy()
    assert numpy.isfinite(loss.asnumpy()).all() and numpy.isfinite(grad).all() and (grad[4:, 1] == 0).all()
    assert (abs(grad[:4, 1]) > 0).any()


def test_a_batch_of_no_samples_gives_zero_gradients():
    w, b = array(4, 2, 3, 3), mx.np.zeros(4)
    for p in (w, b):
        p.attach_grad()
    with autograd.record():
        y = npx.pooling(npx.relu(npx.convolution(mx.np.zeros((0, 2, 8, 8)), w, b)), kernel=(2, 2), stride=(2, 2))
    y.backward()
    assert y.shape == (0, 4, 3, 3) and (w.grad.asnumpy() == 0).all() and (b.grad.asnumpy() == 0).all()


# -- kernels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel, out, groups", [((3, 3), (5, 4), 1), ((3, 3), (5, 4), 2), ((7, 6), (3, 3), 2),
                                                 ((3, 3), (5, 4), 4)])
def test_convolution_in_chunks_and_on_threads_is_the_same(monkeypatch, kernel, out, groups):
    from raynd.ops import convolution_kernels as kernels, convolution_windows as windows, parallel
    x, w = (numpy.random.default_rng(1).standard_normal(s) for s in ((7, 4, 9, 8), (4, 4 // groups, *kernel)))
    dy = numpy.random.default_rng(2).standard_normal((7, 4, *out))
    geometry = (2, 2), (1, 1), (1, 1), groups
    assert windows.fewer_positions(out, kernel) == (kernel == (7, 6))

    def run():
        return (kernels.conv(numpy, x, w, *geometry), kernels.conv_data_grad(numpy, dy, w, (9, 8), *geometry),
                kernels.conv_weight_grad(numpy, dy, x, kernel, *geometry))
    whole = run()
    monkeypatch.setattr(windows, "BLOCK_BYTES", 1)
    for count in (1, 3):
        for channels in (0, 24):
            monkeypatch.setitem(parallel._state, "threads", count)
            monkeypatch.setattr(kernels, "CHUNK_BYTES", 1)
            monkeypatch.setattr(kernels, "SMALL_CHANNELS", channels)
            for a, b in zip(run(), whole):
                numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_parameters_have_the_names_and_order_of_mxnet():
    x, four = array(2, 3), [array(3)] * 4
    legacy = nd.ones((2, 3)), *[nd.ones((3,))] * 4
    names = "data", "gamma", "beta", "moving_mean", "moving_var"
    assert nd.BatchNorm(**dict(zip(names, legacy)), name="bn").shape == (2, 3)
    assert npx.batch_norm_with_relu(**dict(zip(names, (x, *four)))).shape == (2, 3)
    for name in ("relu", "sigmoid", "softsign", "erf", "erfinv", "gamma", "gammaln", "digamma", "mish", "silu"):
        assert getattr(npx, name)(data=x).shape == (2, 3)
    assert npx.batch_dot(a=array(1, 2, 3), b=array(1, 3, 2)).shape == (1, 2, 2)
    expected = x.asnumpy() - numpy.log(numpy.exp(x.asnumpy()).sum(0))
    for y in (npx.log_softmax(x, 0), nd.log_softmax(x.as_nd_ndarray(), 0), x.as_nd_ndarray().log_softmax(0, 1.0)):
        numpy.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert nd.RNN(nd.ones((2, 1, 1)), nd.ones((4,)), nd.ones((1, 1, 1)), None, None, 1, 1, False, "rnn_tanh"
                  ).shape == (2, 1, 1)


def test_statistics_of_half_precision_data_are_half_precision():
    x, one = mx.np.ones((2, 4, 3), dtype="float16"), mx.np.ones(4, dtype="float16")
    for results in (npx.layer_norm(x, one, one, axis=1, output_mean_var=True),
                    npx.group_norm(x, one, one, num_groups=2, output_mean_var=True)):
        assert [y.dtype for y in results] == ["float16"] * 3


def test_sync_batch_norm_returns_the_variance():
    x, one, zero = nd.array(numpy.arange(6.0).reshape(3, 2) ** 2), nd.ones((2,)), nd.zeros((2,))
    for training, expected in ((True, x.asnumpy().var(0)), (False, numpy.ones(2))):
        with autograd.train_mode() if training else autograd.predict_mode():
            y = nd.contrib.SyncBatchNorm(x, one, zero, zero, one, output_mean_var=True, key="bn")
        numpy.testing.assert_allclose(y[2].asnumpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("function", [npx.l2_normalization, lambda x: npx.lrn(x, knorm=0.0, alpha=1e-6)])
def test_gradients_of_half_precision_are_as_precise_as_their_values(function):
    results = []
    for dtype in ("float16", "float32"):
        x = mx.np.array(numpy.array([[0, 0], [0.001, 2]])[:, :, None] + numpy.zeros(3), dtype=dtype)
        x[0] = 0.0 if function is npx.l2_normalization else 0.5
        x.attach_grad()
        with autograd.record():
            y = function(x)
        y.backward(mx.np.array(numpy.full(y.shape, 1e-3), dtype=dtype))
        results.append(x.grad.asnumpy().astype("float32"))
    assert numpy.isfinite(results[0]).all()
    numpy.testing.assert_allclose(results[0], results[1], rtol=5e-3, atol=1e-6)


NOTHING = {
    "no channels to sample": (lambda x, grid: nd.BilinearSampler(x, grid), (2, 0, 4, 4), (2, 2, 3, 3)),
    "no images to sample": (lambda x, grid: nd.BilinearSampler(x, grid), (0, 1, 4, 4), (0, 2, 3, 3)),
    "no channels to convolve": (lambda x, offset, w: npx.deformable_convolution(x, offset, w, no_bias=True),
                                (2, 0, 4, 4), (2, 8, 3, 3), (3, 0, 2, 2)),
    "heads of size 0": (lambda x: npx.interleaved_matmul_selfatt_qk(x, heads=2), (3, 2, 0)),
    "no time": (lambda x, p, h: npx.rnn(x, p, h, mode="gru", state_size=2, num_layers=1, state_outputs=True)[1],
                (0, 2, 3), (42,), (1, 2, 2)),
}


@pytest.mark.parametrize("case", NOTHING)
def test_gradients_of_empty_arrays(case):
    function, *shapes = NOTHING[case]
    arrays = [mx.np.ones(shape) for shape in shapes]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = function(*arrays)
    y.backward()
    grads = [a.grad.asnumpy() for a in arrays]
    assert all(g.shape == s and numpy.isfinite(g).all() for g, s in zip(grads, shapes))
    if case == "no time":
        numpy.testing.assert_array_equal(y.asnumpy(), 1)
        numpy.testing.assert_array_equal(grads[2], 1)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_gradients_of_some_inputs_of_a_convolution_are_those_of_all(layout):
    rng = numpy.random.default_rng(5)
    shapes = ((2, 9, 6, 5), (4, 9, 3, 3), (4,)) if layout == "NCHW" else ((2, 6, 5, 9), (4, 3, 3, 9), (4,))
    values = [rng.standard_normal(s).astype("float32") for s in shapes]

    def gradients(wanted):
        arrays = [mx.np.array(v) for v in values]
        for i in wanted:
            arrays[i].attach_grad()
        with mx.autograd.record():
            y = npx.convolution(*arrays, kernel=(3, 3), pad=(1, 1), layout=layout) ** 2
        y.backward()
        return [arrays[i].grad.asnumpy() for i in wanted]
    every = gradients((0, 1, 2))
    assert all(abs(g).max() > 1 for g in every)
    for wanted in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
        for i, g in zip(wanted, gradients(wanted)):
            numpy.testing.assert_allclose(g, every[i], rtol=1e-4, atol=1e-4)


def test_writing_to_the_results_of_a_recurrent_layer_leaves_its_gradients_alone():
    rng = numpy.random.default_rng(6)
    values = [rng.standard_normal(s).astype("float32") * 0.3 for s in ((5, 3, 4), (4 * 6 * 12,), (1, 3, 6), (1, 3, 6))]

    def gradients(write):
        arrays = [mx.np.array(v) for v in values]
        for a in arrays:
            a.attach_grad()
        with mx.autograd.record():
            results = npx.rnn(*arrays, mode="lstm", state_size=6, num_layers=1, state_outputs=True)
            loss = (results[0] * 2).sum()
        if write:
            for y in results:
                y[:] = 7
            assert all((y.asnumpy() == 7).all() for y in results)
        loss.backward()
        return [a.grad.asnumpy() for a in arrays]
    for g, h in zip(gradients(False), gradients(True)):
        assert abs(g).max() > 0
        numpy.testing.assert_array_equal(g, h)
