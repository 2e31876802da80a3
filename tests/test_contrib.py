"""Attention in windows against dense attention, Hawkes processes by pieces, proposals and parts of images as users call
them, and the errors of all these."""
import numpy
import pytest

import raynd as mx
from raynd import autograd, nd, npx

RNG = numpy.random.default_rng(5)


def recorded(arrays, function):
    """The value of a function of arrays and the gradients of its sum."""
    arrays = [mx.np.array(a) for a in arrays]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = function(*arrays)
    y.backward()
    return [y.asnumpy()] + [a.grad.asnumpy() for a in arrays]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("length, heads, w, dilation", [(32, 2, 5, [1, 3]), (7, 1, 2, [2]), (9, 3, 4, [2, 2, 2])])
def test_window_attention_is_masked_attention(length, heads, w, dilation, symmetric):
    query, key, value = RNG.normal(size=(3, 2, length, heads, 4)).astype("float32")
    steps, valid = mx.np.array(dilation, dtype="int32"), mx.np.array([length, length - 2], dtype="int32")
    distance = (numpy.arange(length) - numpy.arange(length)[:, None])[None] / numpy.array(dilation)[:, None, None]
    allowed = (distance == numpy.round(distance)) & (distance >= -w) & (distance <= (w if symmetric else 0))
    inside = numpy.arange(length) < valid.asnumpy()[:, None]
    allowed = mx.np.array((allowed & inside[:, None, :, None] & inside[:, None, None]).astype("float32"))

    def windows(q, k, v):
        score = npx.sldwin_atten_score(q, k, steps, w=w, symmetric=symmetric)
        mask = npx.sldwin_atten_mask_like(score, steps, valid, w=w, symmetric=symmetric)
        return npx.sldwin_atten_context(score * mask, v, steps, w=w, symmetric=symmetric)

    def dense(q, k, v):
        q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
        return mx.np.matmul(mx.np.matmul(q, k.swapaxes(2, 3)) * allowed, v).transpose(0, 2, 1, 3)

    for a, b in zip(recorded((query, key, value), windows), recorded((query, key, value), dense)):
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_window_attention_of_a_long_sequence_goes_in_pieces():
    query, key = RNG.normal(size=(2, 1, 3000, 1, 2))
    steps = mx.np.array([7], dtype="int32")
    score = npx.sldwin_atten_score(mx.np.array(query, dtype="float64"), mx.np.array(key, dtype="float64"), steps, w=90,
                                   symmetric=True).asnumpy()
    for t, j in [(0, 90), (1500, 0), (2999, 90), (2500, 150), (1000, 180)]:
        assert score[0, t, 0, j] == pytest.approx(query[0, t, 0] @ key[0, t + 7 * (j - 90), 0])
    assert score[0, 0, 0, 89] == score[0, 2999, 0, 91] == 0


def test_window_attention_refuses_what_does_not_fit():
    x, steps = mx.np.ones((2, 5, 3, 4)), mx.np.ones((3,), dtype="int32")
    for bad in (lambda: npx.sldwin_atten_score(x, x[..., :2], steps, w=1, symmetric=True),
                lambda: npx.sldwin_atten_score(x, x, steps[:2], w=1, symmetric=True),
                lambda: npx.sldwin_atten_score(x, x, steps, w=-1, symmetric=True),
                lambda: npx.sldwin_atten_score(x, x, steps.astype("float32"), w=1, symmetric=True),
                lambda: npx.sldwin_atten_context(x, x, steps, w=1, symmetric=True),
                lambda: npx.sldwin_atten_mask_like(x, steps, steps, w=1, symmetric=True)):
        with pytest.raises((ValueError, TypeError), match="sldwin_atten"):
            bad()
    with pytest.raises(ValueError, match="at least 1"):
        npx.sldwin_atten_score(x, x, steps * 0, w=1, symmetric=True).asnumpy()


def test_hawkes_likelihood_can_be_cut_in_two():
    """The state at the end of one stretch of time carries on to the next."""
    lda, alpha, beta = nd.array([[1.5, 0.7]]), nd.array([0.4, 0.2]), nd.array([1.0, 2.5])
    lags, marks = RNG.uniform(0.1, 1, (1, 8)), nd.array([[0, 1, 1, 0, 0, 1, 0, 1]], dtype="int32")
    start, half = nd.zeros((1, 2)), lags[0, :4].sum()

    def run(state, part, end):
        part_marks = nd.array(marks.asnumpy()[:, part], dtype="int32")
        return nd.contrib.hawkesll(lda, alpha, beta, state, nd.array(lags[:, part]), part_marks,
                                   nd.array([lags[:, part].size]), nd.array([end]))
    whole, last = run(start, slice(None), lags.sum() + 1)
    one, middle = run(start, slice(4), half)
    two, end = run(middle, slice(4, None), lags.sum() - half + 1)
    assert whole.asscalar() == pytest.approx(one.asscalar() + two.asscalar(), rel=1e-5)
    numpy.testing.assert_allclose(last.asnumpy(), end.asnumpy(), rtol=1e-5)
    lda.attach_grad()
    with autograd.record():                             # each output alone carries gradients
        value, state = run(start, slice(None), lags.sum() + 1)
    value.backward(retain_graph=True)
    assert (lda.grad.asnumpy() < 4 / lda.asnumpy() - lags.sum() - 1 + 1e-4).all()     # 4 points each, lda at the least
    state.backward()
    assert not lda.grad.asnumpy().any()
    with pytest.raises(ValueError, match="valid_length"):
        nd.contrib.hawkesll(lda, alpha, beta, start, nd.array(lags), marks, nd.array([9]),
                            nd.array([9]))[0].asnumpy()
    with pytest.raises(ValueError, match="mark"):
        nd.contrib.hawkesll(lda, alpha, beta, start, nd.array(lags), marks + 1, nd.array([8]),
                            nd.array([9]))[0].asnumpy()


def test_proposals_are_of_one_or_several_images():
    scores, offsets = nd.array(RNG.uniform(size=(2, 2, 3, 3))), nd.zeros((2, 4, 3, 3))
    sizes, options = nd.array([[48, 48, 1], [48, 32, 1]]), {"scales": (1,), "ratios": (1,), "rpn_post_nms_top_n": 4}
    boxes, best = nd.contrib.MultiProposal(scores, offsets, sizes, output_score=True, **options)
    assert boxes.shape == (8, 5) and best.shape == (8, 1)
    assert boxes[:, 0].asnumpy().tolist() == [0] * 4 + [1] * 4
    wanted = numpy.sort(scores.asnumpy()[0, 1].ravel())[:-5:-1]
    numpy.testing.assert_allclose(best[:4, 0].asnumpy(), wanted)
    assert nd.contrib.Proposal(scores[:1], offsets[:1], sizes[:1], **options).asnumpy().tolist() == \
        boxes[:4].asnumpy().tolist()
    with pytest.raises(ValueError, match="one image"):
        nd.contrib.Proposal(scores, offsets, sizes, **options)
    with pytest.raises(ValueError, match="places"):
        nd.contrib.MultiProposal(scores, offsets, sizes * 2, **options).asnumpy()
    with pytest.raises(ValueError, match="channels"):
        nd.contrib.MultiProposal(scores, offsets, sizes)


def test_count_sketch_refuses_places_outside():
    data, sign = nd.ones((2, 3)), nd.array([[1, -1, 1]])
    result = nd.contrib.count_sketch(data, nd.array([[0, 0, 4]]), sign, out_dim=5)
    assert result.asnumpy()[0].tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(IndexError, match="outside"):
        nd.contrib.count_sketch(data, nd.array([[0, 0, 5]]), sign, out_dim=5).asnumpy()


def test_crop():
    x = nd.arange(48).reshape((1, 2, 4, 6))
    assert nd.Crop(x, h_w=(2, 3), offset=(1, 2)).asnumpy().tolist() == x.asnumpy()[..., 1:3, 2:5].tolist()
    assert nd.Crop(x, nd.ones((1, 1, 2, 4)), center_crop=True, num_args=2).asnumpy().tolist() == \
        x.asnumpy()[..., 1:3, 1:5].tolist()
    x.attach_grad()
    with autograd.record():
        y = nd.Crop(x, h_w=(1, 2))
    y.backward()
    assert x.grad.asnumpy().sum() == 4 and x.grad.asnumpy()[..., 0, :2].all()
    for bad in ({}, {"h_w": (5, 1)}, {"h_w": (1, 1), "offset": (0, 6)}, {"h_w": (1, 1), "offset": (-1, 0)}):
        with pytest.raises(ValueError, match="Crop"):
            nd.Crop(x, **bad)


def test_sparseness_moves_the_mean_once_a_recorded_call():
    x, average = nd.array([[0.1, 0.5], [0.3, 0.7]]), nd.zeros((2,))
    options = {"sparseness_target": 0.2, "penalty": 0.5, "momentum": 0.5}
    x.attach_grad()
    assert nd.IdentityAttachKLSparseReg(x, average, **options).asnumpy().tolist() == x.asnumpy().tolist()
    assert average.asnumpy().tolist() == [0, 0]
    with autograd.record():
        y = nd.IdentityAttachKLSparseReg(x, average, **options) * 2
    y.backward()
    numpy.testing.assert_allclose(average.asnumpy(), [0.1, 0.3], rtol=1e-6)
    push = [0.5 * (0.8 / (1 - a) - 0.2 / a) for a in (0.1, 0.3)]
    numpy.testing.assert_allclose(x.grad.asnumpy(), [[2 + p for p in push]] * 2, rtol=1e-6)
