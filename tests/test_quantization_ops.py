"""Quantized operators as users meet them: chains that come back to floats, calls that leave arrays out, errors."""
from __future__ import annotations

import numpy
import pytest

import raynd as mx
from raynd import autograd, npx
from raynd.errors import ArgumentError, MXNetError, ShapeError

contrib = mx.nd.contrib
CONTRIB = ("quantize quantize_v2 dequantize requantize calibrate_entropy quantized_act quantized_batch_norm "
           "quantized_concat quantized_conv quantized_elemwise_add quantized_elemwise_mul quantized_embedding "
           "quantized_flatten quantized_fully_connected quantized_pooling quantized_reshape quantized_transpose "
           "intgemm_maxabsolute intgemm_prepare_data intgemm_prepare_weight intgemm_take_weight "
           "intgemm_fully_connected").split()
NPX = ("contrib_quantize contrib_quantize_v2 contrib_calibrate_entropy requantize quantized_act quantized_conv "
       "quantized_elemwise_add quantized_elemwise_mul quantized_embedding quantized_flatten quantized_fully_connected "
       "quantized_pooling quantized_reshape quantized_transpose intgemm_maxabsolute intgemm_prepare_data "
       "intgemm_prepare_weight intgemm_take_weight intgemm_fully_connected").split()


@pytest.fixture(autouse=True)
def local(monkeypatch):
    """Local mode, where it makes no difference."""
    monkeypatch.setenv("RAYND_MODE", "local")


def array(values, dtype="float32"):
    return mx.np.array(numpy.asarray(values), dtype=dtype)


def random(*shape, seed=0, low=-1.0, high=1.0):
    return array(numpy.random.default_rng(seed).uniform(low, high, shape))


def span(low=-1.0, high=1.0):
    """A range's two arrays."""
    return array([low]), array([high])


def integers(*shape, dtype="int8", seed=0):
    ends = numpy.iinfo(dtype)
    return array(numpy.random.default_rng(seed).integers(ends.min, ends.max + 1, shape), dtype)


def dequantized(q, low, high):
    return contrib.dequantize(*(x.as_nd_ndarray() for x in (q, low, high))).asnumpy()


def relative(actual, expected):
    """The largest error as a fraction of the largest value."""
    return abs(actual - expected).max() / abs(expected).max()


def test_the_names_exist():
    assert not [n for n in CONTRIB if not hasattr(contrib, n)]
    assert not [n for n in NPX if not hasattr(npx, n)]
    assert hasattr(mx.nd, "quantized_reshape") and hasattr(mx.nd, "quantized_transpose")


# -- to integers and back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out_type, low", [("int8", -3.0), ("uint8", 0.0), ("auto", -3.0), ("auto", 0.0)])
def test_numbers_come_back_within_half_a_level(out_type, low):
    x = random(50, 7, low=low, high=2.0)
    q, *ends = npx.contrib_quantize_v2(x, out_type=out_type, min_calib_range=low, max_calib_range=2.0)
    unsigned = out_type == "uint8" or (out_type == "auto" and low >= 0)
    assert q.dtype == ("uint8" if unsigned else "int8") and ends[0].shape == ends[1].shape == (1,)
    level = max(-low, 2.0) / (255.5 if unsigned else 127.5)
    assert abs(dequantized(q, *ends) - x.asnumpy()).max() <= level / 2 + 1e-6


def test_an_uncalibrated_range_is_that_of_the_data():
    x = array([-3.0, 0.5, 7.0])
    q, low, high = npx.contrib_quantize_v2(x)
    assert q.asnumpy().tolist() == [-55, 9, 127] and (low.item(), high.item()) == (-7, 7)
    q, low, high = npx.contrib_quantize_v2(x, out_type="uint8")
    assert q.asnumpy().tolist() == [0, 18, 255] and (low.item(), high.item()) == (-3, 7)
    legacy = contrib.quantize_v2(x.as_nd_ndarray(), out_type="uint8")
    assert type(legacy[0]) is mx.nd.NDArray and (legacy[0].asnumpy() == q.asnumpy()).all()


def test_values_beyond_the_range_stop_at_its_ends():
    q, _, _ = npx.contrib_quantize(array([-9, 9, numpy.inf, -numpy.inf]), *span(), out_type="int8")
    assert q.asnumpy().tolist() == [-128, 127, 127, -128]
    q, _, _ = npx.contrib_quantize(array([-9, 9]), *span(), out_type="uint8")
    assert q.asnumpy().tolist() == [0, 255]


def test_zeros_stay_zeros():
    zero = array([0.0, 0.0])
    assert (npx.contrib_quantize_v2(zero)[0].asnumpy() == 0).all()
    assert (npx.contrib_quantize(zero, *span(0, 0))[0].asnumpy() == 0).all()
    assert (npx.requantize(zero.astype("int32"), *span())[0].asnumpy() == 0).all()
    assert (npx.intgemm_prepare_data(zero, array([0.0])).asnumpy() == 0).all()


def test_what_quantize_refuses():
    x = random(3)
    with pytest.raises(ArgumentError, match="out_type must be one of"):
        npx.contrib_quantize_v2(x, out_type="int32")
    with pytest.raises(ArgumentError, match="go together"):
        npx.contrib_quantize_v2(x, min_calib_range=-1.0)
    with pytest.raises(ArgumentError, match="cannot become int8"):
        npx.contrib_quantize_v2(integers(3, dtype="uint8"))
    with pytest.raises(ArgumentError, match="float32 or int8 or uint8, not float64"):
        npx.contrib_quantize_v2(x.astype("float64"))
    with pytest.raises(ShapeError, match="max_range must have shape"):
        npx.contrib_quantize(x, array([0.0]), array([0.0, 1.0]))
    with pytest.raises(ArgumentError, match="min_range must be an array, not a Python float"):
        npx.contrib_quantize(x, 0.0, array([1.0]))
    with pytest.raises(ArgumentError, match="int32, not int8"):
        npx.requantize(integers(3), *span())
    with pytest.raises(ArgumentError, match="int8 or uint8, not float32"):
        contrib.dequantize(x, *span())


def test_quantized_operators_pass_no_gradient_on():
    x = random(3)
    x.attach_grad()
    with autograd.record():
        y = npx.contrib_quantize_v2(x)[2] * 2
    y.backward()
    assert (x.grad.asnumpy() == 0).all()


# -- whole layers against their floats -----------------------------------------------------------------------------


@pytest.mark.parametrize("out_type", ["int8", "uint8"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer", ["dense", "conv"])
def test_a_quantized_layer_computes_what_the_layer_does(layer, out_type, bias):
    x = random(4, 6, 9, 8, seed=1, low=0.0 if out_type == "uint8" else -2.0, high=2.0)
    w = random(5, *((6 * 9 * 8,) if layer == "dense" else (6, 3, 3)), seed=2)
    b = random(5, seed=3, low=-3.0, high=3.0)
    attrs = {"num_hidden": 5} if layer == "dense" else {"kernel": (3, 3), "num_filter": 5, "pad": (1, 1)}
    plain, quantized = (npx.fully_connected, npx.quantized_fully_connected) if layer == "dense" else \
        (npx.convolution, npx.quantized_conv)
    expected = plain(x, w, b, no_bias=False, **attrs) if bias else plain(x, w, no_bias=True, **attrs)
    (qx, *xs), (qw, *ws), (qb, *bs) = (npx.contrib_quantize_v2(x, out_type=out_type), npx.contrib_quantize_v2(w),
                                       npx.contrib_quantize_v2(b))
    sums = quantized(qx, qw, qb, *xs, *ws, *bs, **attrs) if bias else quantized(qx, qw, *xs, *ws, no_bias=True, **attrs)
    assert sums[0].dtype == "int32"
    assert relative(dequantized(*npx.requantize(*sums)), expected.asnumpy()) < 0.03


def test_sums_are_exact_however_long_they_are():
    for dtype, extreme in (("int8", -128), ("uint8", 255)):
        for k in (514, 515, 1024, 1025, 5000):
            x = array(numpy.full((1, k), extreme), dtype)
            w = array(numpy.full((1, k), -128), "int8")
            y = npx.quantized_fully_connected(x, w, *span(), *span(), num_hidden=1, no_bias=True)[0]
            assert y.item() == extreme * -128 * k
    x, w = integers(1, 700, 3, 3), integers(2, 700, 3, 3, seed=1)
    y = npx.quantized_conv(x, w, *span(), *span(), kernel=(3, 3), num_filter=2, no_bias=True)[0]
    whole = (x.asnumpy().astype("int64") * w.asnumpy()).sum(axis=(1, 2, 3))
    assert (y.asnumpy().reshape(2) == whole).all()


def test_a_bias_that_does_not_fit_stops_at_the_ends_of_int32():
    y = npx.quantized_fully_connected(array([[1]], "int8"), array([[1], [-1]], "int8"), array([100, -100], "int8"),
                                      *span(-1e-6, 1e-6), *span(), *span(-1e6, 1e6), num_hidden=2)[0]
    assert y.asnumpy().tolist() == [[2 ** 31 - 1, -2 ** 31]]


def test_arrays_that_a_layer_does_not_have_may_be_left_out():
    x, w, ranges = integers(2, 6), integers(3, 6, seed=1), (*span(), *span(-2, 2))
    attrs = {"num_hidden": 3, "no_bias": True}
    first = npx.quantized_fully_connected(x, w, *ranges, **attrs)
    second = npx.quantized_fully_connected(x, w, None, *ranges, None, None, **attrs)
    third = npx.quantized_fully_connected(data=x, weight=w, min_data=ranges[0], max_data=ranges[1],
                                          min_weight=ranges[2], max_weight=ranges[3], **attrs)
    for other in (second, third):
        for a, b in zip(first, other):
            assert (a.asnumpy() == b.asnumpy()).all()
    with pytest.raises(ArgumentError, match="no_bias=False it takes data, weight, bias, .*got 6 arrays"):
        npx.quantized_fully_connected(x, w, *ranges, num_hidden=3)


def test_what_layers_refuse():
    x, w, ranges = integers(2, 6), integers(3, 6, seed=1), (*span(), *span())
    with pytest.raises(ShapeError, match=r"weight must have shape \(num_hidden, inputs\) = \(4, 6\)"):
        npx.quantized_fully_connected(x, w, *ranges, num_hidden=4, no_bias=True)
    with pytest.raises(ArgumentError, match="weight must be of dtype int8, not uint8"):
        npx.quantized_fully_connected(x, w.astype("uint8"), *ranges, num_hidden=3, no_bias=True)
    with pytest.raises(ArgumentError, match="kernel and num_filter are needed"):
        npx.quantized_conv(integers(1, 2, 4, 4), integers(3, 2, 3, 3), *ranges, no_bias=True)
    with pytest.raises(ShapeError, match="larger than the padded input"):
        npx.quantized_conv(integers(1, 2, 2, 2), integers(3, 2, 3, 3), *ranges, no_bias=True, kernel=(3, 3),
                           num_filter=3)
    with pytest.raises(ArgumentError, match="pool_type must be 'max' or 'avg'"):
        npx.quantized_pooling(integers(1, 2, 4, 4), *span(), kernel=(2, 2), pool_type="sum")
    with pytest.raises(ArgumentError, match="output_size is not supported"):
        npx.quantized_pooling(integers(1, 2, 4, 4), *span(), kernel=(2, 2), output_size=(1, 1))
    with pytest.raises(ArgumentError, match="act_type must be one of 'relu'"):
        npx.quantized_act(x, *span(), act_type="tanh")


def test_batch_norm_of_integers():
    x = random(6, 3, 4, 4, seed=1, low=-2, high=2)
    gamma, beta, mean, var = (random(3, seed=s, low=low) for s, low in ((2, 0.5), (3, -1.0), (4, -1.0), (5, 0.5)))
    statistics = mean.asnumpy(), var.asnumpy()
    expected = npx.batch_norm(x, gamma, beta, mean, var, fix_gamma=False).asnumpy()
    top = float(abs(expected).max())
    q = npx.contrib_quantize_v2(x)
    arrays = [a.as_nd_ndarray() for a in (q[0], gamma, beta, mean, var, *q[1:])]
    result = contrib.quantized_batch_norm(*arrays, fix_gamma=False, min_calib_range=-top, max_calib_range=top)
    assert relative(contrib.dequantize(*result).asnumpy(), expected) < 0.02
    assert all((a.asnumpy() == b).all() for a, b in zip((mean, var), statistics))
    with pytest.raises(ArgumentError, match="the range of the result, are needed"):
        contrib.quantized_batch_norm(*arrays)
    with pytest.raises(ArgumentError, match="output_mean_var"):
        contrib.quantized_batch_norm(*arrays, output_mean_var=True, min_calib_range=-top, max_calib_range=top)


# -- joining, adding, shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")])
def test_sums_and_joins_of_quantized_arrays(types):
    floats = [random(4, 5, seed=i, low=0.0 if t == "uint8" else -1.0, high=1.0 + i) for i, t in enumerate(types)]
    (qa, *a), (qb, *b) = (npx.contrib_quantize_v2(x, out_type=t) for x, t in zip(floats, types))
    x, y = (f.asnumpy() for f in floats)
    total = npx.quantized_elemwise_add(qa, qb, *a, *b)
    assert total[0].dtype == "int32"
    assert relative(total[0].asnumpy() * (total[2].item() / 2 ** 31), x + y) < 0.01
    calibrated = npx.quantized_elemwise_add(qa, qb, *a, *b, min_calib_range=-3.0, max_calib_range=3.0)
    assert calibrated[0].dtype == ("uint8" if types == ("uint8", "uint8") else "int8")
    assert relative(dequantized(*calibrated), x + y) < 0.02
    joined = contrib.quantized_concat(*(v.as_nd_ndarray() for v in (qa, qb, *a, *b)), dim=0)
    assert relative(contrib.dequantize(*joined).asnumpy(), numpy.concatenate([x, y])) < 0.02


def test_products_of_quantized_arrays():
    x, y = random(4, 5, seed=1), random(4, 5, seed=2, high=2.0)
    (qa, *a), (qb, *b) = npx.contrib_quantize_v2(x), npx.contrib_quantize_v2(y)
    expected = x.asnumpy() * y.asnumpy()
    whole = npx.quantized_elemwise_mul(qa, qb, *a, *b)
    assert (whole[0].asnumpy() == qa.asnumpy().astype("int32") * qb.asnumpy()).all()
    assert relative(npx.quantized_elemwise_mul(qa, qb, *a, *b, enable_float_output=True).asnumpy(), expected) < 0.01
    narrow = npx.quantized_elemwise_mul(qa, qb, *a, *b, min_calib_range=-0.1, max_calib_range=0.1)
    assert abs(dequantized(*narrow) - expected.clip(-0.1, 0.1)).max() < 0.01
    with pytest.raises(ArgumentError, match="lhs must be of dtype int8"):
        npx.quantized_elemwise_mul(qa.astype("uint8"), qb, *a, *b)
    with pytest.raises(ShapeError, match="not broadcast"):
        npx.quantized_elemwise_add(qa, qb[:1], *a, *b)


def test_what_concat_refuses():
    q, (low, high) = integers(2, 3), span()
    with pytest.raises(ArgumentError, match="then a low and a high for each; got 5"):
        contrib.quantized_concat(q, q, low, high, low)
    with pytest.raises(ArgumentError, match="3 with num_args=1"):
        contrib.quantized_concat(q, q, low, high, low, high, num_args=1)
    with pytest.raises(ShapeError, match="must match"):
        contrib.quantized_concat(q, integers(4, 4), low, high, low, high)
    with pytest.raises(ArgumentError, match="array 2 must be of dtype int8 or uint8"):
        contrib.quantized_concat(q, q.astype("int32"), low, high, low, high)


def test_reshape_follows_the_codes_of_its_namespace():
    q, (low, high) = integers(2, 3, 4), span()
    assert npx.quantized_reshape(q, low, high, newshape=(-2, -1))[0].shape == (2, 12)
    arrays = [x.as_nd_ndarray() for x in (q, low, high)]
    for reshape in (contrib.quantized_reshape, mx.nd.quantized_reshape):
        result = reshape(*arrays, shape=(0, -3))
        assert result[0].shape == (2, 12) and [x.item() for x in result[1:]] == [-1, 1]
    assert contrib.quantized_reshape(*arrays, shape=(-1, 0), reverse=True)[0].shape == (6, 4)
    assert contrib.quantized_reshape(*arrays, target_shape=(6, 0))[0].shape == (6, 4)
    with pytest.raises(ArgumentError, match="newshape is needed"):
        npx.quantized_reshape(q, low, high)
    with pytest.raises(ShapeError, match="not an order of the 3 axes"):
        npx.quantized_transpose(q, low, high, axes=(0, 1))


# -- calibration ---------------------------------------------------------------------------------------------------


def test_calibration_clips_what_is_rare_and_keeps_what_is_not():
    rng = numpy.random.default_rng(0)
    x = numpy.concatenate([rng.standard_normal(100000), [40.0]])
    for data, expected in ((x, (2, 10)), (rng.uniform(-1, 1, 100000), (0.95, 1))):
        top = abs(data).max()
        counts, edges = numpy.histogram(data, bins=2001, range=(-top, top))
        threshold, divergence = npx.contrib_calibrate_entropy(array(counts), array(edges))
        assert expected[0] < threshold.item() <= expected[1] * 1.01 and 0 <= divergence.item() < 0.1


def test_what_calibration_refuses():
    with pytest.raises(ShapeError, match="odd number of bins"):
        npx.contrib_calibrate_entropy(array(numpy.ones(10)), array(numpy.arange(11)), num_quantized_bins=3)
    with pytest.raises(ShapeError, match="has 10 edges, not 9"):
        npx.contrib_calibrate_entropy(array(numpy.ones(9)), array(numpy.arange(9)), num_quantized_bins=3)
    with pytest.raises(ArgumentError, match="from 2 to the number of bins"):
        npx.contrib_calibrate_entropy(array(numpy.ones(9)), array(numpy.arange(10)))
    fractions = npx.contrib_calibrate_entropy(array(-numpy.ones(9)), array(numpy.arange(10)), num_quantized_bins=3)
    with pytest.raises(MXNetError, match="must hold counts"):
        fractions[0].asnumpy()


# -- intgemm -------------------------------------------------------------------------------------------------------


def test_products_by_way_of_int8():
    x, w, b = random(5, 30, seed=1), random(7, 30, seed=2), random(7, seed=3)
    top = npx.intgemm_maxabsolute(w)
    assert top.shape == (1,) and top.item() == abs(w.asnumpy()).max()
    weight = npx.intgemm_prepare_weight(w, top)
    again = npx.intgemm_prepare_weight(npx.intgemm_prepare_data(w, top), already_quantized=True)
    assert (weight.asnumpy() == again.asnumpy()).all()
    result = npx.intgemm_fully_connected(x, weight, top / 127, b, num_hidden=7)
    expected = x.asnumpy() @ w.asnumpy().T + b.asnumpy()
    assert relative(result.asnumpy(), expected) < 0.02
    largest = npx.intgemm_maxabsolute(x)
    cooked = npx.intgemm_fully_connected(npx.intgemm_prepare_data(x, largest), weight, top * largest / 127 / 127, b,
                                         num_hidden=7)
    numpy.testing.assert_allclose(cooked.asnumpy(), result.asnumpy(), rtol=1e-4, atol=1e-5)
    some = npx.intgemm_take_weight(weight, array([6, 0, 6], "int32"))
    part = npx.intgemm_fully_connected(x, some, top / 127, num_hidden=3, no_bias=True)
    numpy.testing.assert_allclose(part.asnumpy(), (result - b).asnumpy()[:, [6, 0, 6]], rtol=1e-4, atol=1e-5)


def test_a_bias_takes_the_place_of_an_absent_scaling():
    x, w, b = integers(2, 9), integers(4, 9, seed=1), array([1, -2, 3, 50000], "int32")
    attrs = {"num_hidden": 4, "out_type": "int32"}
    whole = x.asnumpy().astype("int32") @ w.asnumpy().T.astype("int32") + b.asnumpy()
    for result in (npx.intgemm_fully_connected(x, w, b, **attrs), npx.intgemm_fully_connected(x, w, bias=b, **attrs),
                   npx.intgemm_fully_connected(x, w, None, b.reshape(4, 1), **attrs)):
        assert result.dtype == "int32" and (result.asnumpy() == whole).all()


def test_what_intgemm_refuses():
    x, w, one = integers(2, 9), integers(4, 9, seed=1), array([1.0])
    with pytest.raises(ArgumentError, match="it takes data, weight, scaling, bias; got 3 arrays"):
        npx.intgemm_fully_connected(x, w, one, num_hidden=4)
    with pytest.raises(ArgumentError, match="it takes data, weight; got 3 arrays"):
        npx.intgemm_fully_connected(x, w, one, num_hidden=4, out_type="int32", no_bias=True)
    with pytest.raises(ArgumentError, match="out_type must be one of"):
        npx.intgemm_fully_connected(x, w, one, num_hidden=4, out_type="int8", no_bias=True)
    with pytest.raises(ArgumentError, match="bias must be of dtype int32, not float32"):
        npx.intgemm_fully_connected(x, w, random(4), num_hidden=4, out_type="int32")
    with pytest.raises(ArgumentError, match="maxabs must be an array, but is missing"):
        npx.intgemm_prepare_weight(random(4, 9))
    with pytest.raises(ArgumentError, match="leave it out"):
        npx.intgemm_prepare_weight(w, one, already_quantized=True)
    with pytest.raises(MXNetError, match="out of bounds for 4 rows"):
        npx.intgemm_take_weight(w, array([0, 4], "int32")).asnumpy()


# -- in programs ---------------------------------------------------------------------------------------------------


class QuantizedDense(mx.gluon.HybridBlock):
    def forward(self, x, weight, low, high):
        q = npx.contrib_quantize_v2(x, min_calib_range=-2.0, max_calib_range=2.0)
        sums = npx.quantized_fully_connected(q[0], weight, q[1], q[2], low, high, num_hidden=3, no_bias=True)
        return npx.requantize(*sums)


def test_a_hybridized_block_gives_the_same():
    block, arguments = QuantizedDense(), (random(4, 6, low=-2, high=2), integers(3, 6), *span())
    plain = block(*arguments)
    block.hybridize()
    for _ in range(2):
        for a, b in zip(plain, block(*arguments)):
            assert (a.asnumpy() == b.asnumpy()).all()
