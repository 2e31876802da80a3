"""Bad input of the neural-network operators: a clear error where shapes decide it, an error value where values do, and
MXNet's outcome where it has one. Every kernel provider must give the same."""
import numpy
import pytest

import raynd as mx
from raynd import nd, np, npx
from raynd.errors import ArgumentError, ShapeError


def z(*shape, dtype="float32"):
    return np.zeros(shape, dtype=dtype)


def convolve(data, weight, *bias, num_filter=1, **attrs):
    attrs.setdefault("no_bias", not bias)
    return npx.convolution(data, weight, *bias, num_filter=num_filter, **{"kernel": (3, 3), **attrs})


def rnn(parameters=10, mode="lstm"):
    return npx.rnn(z(3, 2, 4), z(parameters), z(1, 2, 5), z(1, 2, 5), mode=mode, state_size=5, num_layers=1)


IMAGE, FILTER = (1, 1, 5, 5), (1, 1, 3, 3)

# What the shapes and attributes decide: raised by the call itself. (name, call, class, what the message says)
AT_THE_CALL = [
    ("kernel beyond the padded input", lambda: convolve(z(1, 1, 3, 3), z(1, 1, 5, 5), kernel=(5, 5)), ShapeError,
     r"kernel \(size 5.*larger than the padded input \(3"),
    ("dilated kernel beyond the input", lambda: convolve(z(*IMAGE), z(*FILTER), dilate=(3, 3)), ShapeError,
     "dilation 3"),
    ("channels", lambda: convolve(z(1, 3, 5, 5), z(*FILTER)), ShapeError, "has 3 channels"),
    ("groups that do not divide", lambda: convolve(z(1, 3, 5, 5), z(2, 1, 3, 3), num_filter=2, num_group=2), ShapeError,
     "do not divide into 2 groups"),
    ("no groups", lambda: convolve(z(*IMAGE), z(*FILTER), num_group=0), ShapeError, "num_group must be a positive"),
    ("stride 0", lambda: convolve(z(*IMAGE), z(*FILTER), stride=(0, 0)), ShapeError, "stride must be at least 1"),
    ("dilate 0", lambda: convolve(z(*IMAGE), z(*FILTER), dilate=(0, 0)), ShapeError, "dilate must be at least 1"),
    ("negative pad", lambda: convolve(z(*IMAGE), z(*FILTER), pad=(-1, 0)), ShapeError, "pad must be at least 0"),
    ("integers", lambda: convolve(z(*IMAGE, dtype="int32"), z(*FILTER, dtype="int32")), ArgumentError, "floating"),
    ("bias missing", lambda: convolve(z(*IMAGE), z(*FILTER), no_bias=False), ArgumentError, "bias is needed"),
    ("bias of another length", lambda: convolve(z(*IMAGE), z(*FILTER), z(2)), ShapeError, r"bias of shape \(2,\)"),
    ("kernel of one axis", lambda: convolve(z(*IMAGE), z(*FILTER), kernel=(3,)), ShapeError, "kernel must have 2"),
    ("layout", lambda: convolve(z(*IMAGE), z(*FILTER), layout="NCWH"), ArgumentError, "layout must be one of NCHW"),
    ("adj", lambda: npx.deconvolution(z(*IMAGE), z(*FILTER), kernel=(3, 3), stride=(2, 2), adj=(2, 2), num_filter=1,
                                      no_bias=True), ShapeError, r"adj=\(2, 2\) must be smaller than stride"),
    ("pooling window", lambda: npx.pooling(z(1, 1, 3, 3), kernel=(5, 5)), ShapeError, "exceeds input"),
    ("pooling stride", lambda: npx.pooling(z(1, 1, 3, 3), kernel=(2, 2), stride=(0, 0)), ShapeError, "stride"),
    ("pooling type", lambda: npx.pooling(z(1, 1, 3, 3), kernel=(2, 2), pool_type="min"), ArgumentError, "pool_type"),
    ("pooling without a kernel", lambda: npx.pooling(z(1, 1, 3, 3)), ArgumentError, "kernel is needed"),
    ("global pooling of nothing", lambda: npx.pooling(z(1, 1, 0, 3), global_pool=True), ShapeError, "at least one"),
    ("inputs of a layer", lambda: npx.fully_connected(z(2, 3), z(4, 5), num_hidden=4, no_bias=True), ShapeError,
     "has 3 inputs"),
    ("num_hidden", lambda: npx.fully_connected(z(2, 3), z(4, 3), num_hidden=5, no_bias=True), ShapeError,
     "num_hidden=5"),
    ("input_dim", lambda: npx.embedding(np.array([0]), z(3, 2), input_dim=4, output_dim=2), ShapeError, "input_dim=4"),
    ("pick: index shape", lambda: npx.pick(z(2, 3), np.array([0, 0, 0])), ShapeError, "without axis 1"),
    ("pick: nothing", lambda: npx.pick(z(2, 0), z(2)), ShapeError, "nothing to pick from"),
    ("pick: mode", lambda: npx.pick(z(2, 3), np.array([0, 0]), mode="bad"), ArgumentError, "'clip' or 'wrap'"),
    ("softmax: a number for the length", lambda: npx.softmax(z(2, 3), 0), ArgumentError, "length is given"),
    ("softmax: length without effect", lambda: npx.log_softmax(z(2, 3), length=z(2)), ArgumentError, "no effect"),
    ("softmax: length of another type", lambda: npx.softmax(z(2, 3), 1, use_length=True), ArgumentError, "an array"),
    ("box_nms: score among the coordinates", lambda: npx.box_nms(z(2, 6), score_index=3), ArgumentError, "different"),
    ("box_nms: no such id_index", lambda: npx.box_nms(z(2, 6), id_index=6), ArgumentError, "id_index=6"),
    ("multibox_prior: one step", lambda: npx.multibox_prior(z(1, 1, 2, 2), steps=(1,)), ShapeError, "2 numbers"),
    ("multibox_prior: half of the steps", lambda: npx.multibox_prior(z(1, 1, 2, 2), steps=(1, -1)), ArgumentError,
     "both steps or none"),
    ("multibox_prior: no places", lambda: npx.multibox_prior(z(1, 1, 0, 2)), ShapeError, "no places"),
    ("topk: k of another type", lambda: npx.topk(z(2, 3), k=1.5), ArgumentError, "k must be an integer"),
    ("one_hot: depth", lambda: npx.one_hot(z(2), 2.5), ArgumentError, "depth must be"),
    ("sequence_mask: lengths without effect", lambda: npx.sequence_mask(z(2, 3), z(3)), ArgumentError, "no effect"),
    ("gather_nd: no indexed axis", lambda: npx.gather_nd(z(2, 3), z(0, 2)), ShapeError, "first axis of the indices"),
    ("index_add: no indexed axis", lambda: npx.index_add(z(2, 3), z(0, 2, dtype="int32"), z(1)), ShapeError,
     "first axis of the indices"),
    ("slice_like: no such axis", lambda: npx.slice_like(z(2, 3), z(1), axes=1), ShapeError, "has no axis 1"),
    ("reshape_like: range", lambda: npx.reshape_like(z(2, 3), z(6), lhs_end=3), ShapeError, "lhs_end=3"),
    ("broadcast_axis: sizes", lambda: nd.broadcast_axis(nd.ones((1, 1)), axis=(0, 1), size=2), ShapeError,
     "equally many"),
    ("concat: nothing", lambda: nd.concat(), ArgumentError, "at least one array"),
    ("topk: k", lambda: npx.topk(z(2, 3), k=7), ShapeError, "at most 3"),
    ("topk: axis", lambda: npx.topk(z(2, 3), axis=4), IndexError, "axis 4"),
    ("topk: ret_typ", lambda: npx.topk(z(2, 3), ret_typ="x"), ArgumentError, "ret_typ"),
    ("lengths for another batch", lambda: npx.sequence_mask(z(3, 2), z(3), use_sequence_length=True), ShapeError,
     "batch of 2"),
    ("lengths missing", lambda: npx.sequence_mask(z(3, 2), use_sequence_length=True), ArgumentError, "is needed"),
    ("softmax: axis", lambda: npx.softmax(z(2, 3), axis=3), IndexError, "axis 3"),
    ("softmax: temperature", lambda: npx.softmax(z(2, 3), temperature=0.0), ShapeError, "temperature must be positive"),
    ("softmax: mask", lambda: npx.masked_softmax(z(2, 3), z(4, dtype="bool")), ShapeError, r"\(2, 3\)"),
    ("more labels than steps", lambda: npx.ctc_loss(z(2, 1, 3), np.array([[1, 2, 1]])), ShapeError, "number of labels"),
    ("labels for another batch", lambda: npx.ctc_loss(z(4, 2, 3), np.array([[1]])), ShapeError, "holds 2 sequences"),
    ("gather_nd: axes", lambda: npx.gather_nd(z(2, 2), z(3, 1)), ShapeError, "counts the axes"),
    ("batch_dot: sums", lambda: npx.batch_dot(z(2, 3, 4), z(2, 3, 4)), ShapeError, "differ in size"),
    ("batch_dot: batches", lambda: npx.batch_dot(z(2, 3, 4), z(3, 4, 4)), ShapeError, "batch axes"),
    ("batch_norm: axis", lambda: npx.batch_norm(z(2, 3), z(3), z(3), z(3), z(3), axis=4), IndexError, "axis 4"),
    ("batch_norm: gamma", lambda: npx.batch_norm(z(2, 3), z(4), z(3), z(3), z(3)), ShapeError, "gamma has shape"),
    ("layer_norm: gamma", lambda: npx.layer_norm(z(2, 3), z(4), z(3)), ShapeError, "gamma has shape"),
    ("group_norm: groups", lambda: npx.group_norm(z(2, 3, 4), z(3), z(3), num_groups=2), ShapeError, "do not divide"),
    ("dropout: p", lambda: npx.dropout(z(3), p=1.5), ShapeError, "between 0 and 1"),
    ("dropout: axes", lambda: npx.dropout(z(3), axes=(4,), mode="always"), IndexError, "axis 4"),
    ("leaky_relu: act_type", lambda: npx.leaky_relu(z(3), act_type="x"), ArgumentError, "act_type"),
    ("activation: act_type", lambda: npx.activation(z(3), act_type="x"), ArgumentError, "act_type"),
    ("rnn: parameters", rnn, ShapeError, "220 parameters are needed"),
    ("rnn: mode", lambda: rnn(220, "x"), ArgumentError, "mode must be one of"),
    ("multibox_detection", lambda: npx.multibox_detection(z(1, 2, 3), z(1, 8), z(1, 3, 4)), ShapeError, "do not fit"),
    ("an argument that does not exist", lambda: npx.softmax(z(2, 3), axes=1), TypeError, "axes"),
]


@pytest.mark.parametrize("call, error, message", [c[1:] for c in AT_THE_CALL], ids=[c[0] for c in AT_THE_CALL])
def test_raises_at_the_call(call, error, message):
    with pytest.raises(error, match=message):
        call()


def count():
    return np.arange(6).reshape(3, 2).astype("float32")


# What values decide: raised when the result is read.
AS_VALUES = [
    ("sequence_last: length", lambda: npx.sequence_last(count(), np.array([0.0, 9.0]), use_sequence_length=True),
     IndexError, "outside 1 to 3"),
    ("sequence_reverse: length", lambda: npx.sequence_reverse(count(), np.array([9.0, -1.0]), use_sequence_length=True),
     IndexError, "outside 0 to 3"),
    ("ctc: label", lambda: npx.ctc_loss(z(4, 1, 3), np.array([[5, 1]])), IndexError, "label lies outside 0 to 2"),
    ("ctc: lengths", lambda: npx.ctc_loss(z(4, 1, 3), np.array([[1]]), np.array([9]), np.array([9]),
                                          use_data_lengths=True, use_label_lengths=True), IndexError, "length lies"),
    ("gather_nd", lambda: npx.gather_nd(z(2, 2), np.array([[5], [0]])), IndexError, "index 5 is out of bounds"),
    ("scatter_nd", lambda: nd.scatter_nd(nd.ones((1,)), nd.array([[5]]), shape=(3,)), IndexError, "index 5"),
    ("index_update", lambda: npx.index_update(z(3), np.array([[5]]), np.array([1.0])), IndexError, "index 5"),
    ("roi_align: image", lambda: nd.contrib.ROIAlign(nd.zeros((1, 1, 4, 4)), nd.array([[2, 0, 0, 3, 3]]),
                                                     pooled_size=(2, 2), spatial_scale=1.0), ValueError, "image 2"),
]


@pytest.mark.parametrize("call, error, message", [c[1:] for c in AS_VALUES], ids=[c[0] for c in AS_VALUES])
def test_raises_when_the_value_is_read(call, error, message):
    with pytest.raises(error, match=message):
        call().asnumpy()


# Input that is odd but has a result, which MXNet gives too.
WITH_RESULTS = [
    ("convolution, no images", lambda: convolve(z(0, 1, 5, 5), z(*FILTER)), numpy.zeros((0, 1, 3, 3))),
    ("convolution, no channels", lambda: convolve(z(1, 0, 5, 5), z(1, 0, 3, 3)), numpy.zeros((1, 1, 3, 3))),
    ("pooling, no images", lambda: npx.pooling(z(0, 1, 3, 3), kernel=(2, 2)), numpy.zeros((0, 1, 2, 2))),
    ("fully_connected, no rows", lambda: npx.fully_connected(z(0, 3), z(4, 3), z(4), num_hidden=4),
     numpy.zeros((0, 4))),
    ("batch_norm, no rows", lambda: npx.batch_norm(z(0, 3), z(3), z(3), z(3), z(3)), numpy.zeros((0, 3))),
    ("softmax, no rows", lambda: npx.softmax(z(0, 3)), numpy.zeros((0, 3))),
    ("softmax, no columns", lambda: npx.softmax(z(3, 0)), numpy.zeros((3, 0))),
    ("embedding clips", lambda: npx.embedding(np.array([0, 7, -3]), count(), input_dim=3, output_dim=2),
     [[0, 1], [4, 5], [0, 1]]),
    ("one_hot of nothing known", lambda: npx.one_hot(np.array([0, 7, -1]), 3), [[1, 0, 0], [0, 0, 0], [0, 0, 0]]),
    ("pick clips", lambda: npx.pick(np.arange(6).reshape(2, 3).astype("float32"), np.array([5, -7])), [2, 3]),
    ("sequence_mask beyond", lambda: npx.sequence_mask(np.ones((3, 2)), np.array([5.0, 2.0]), use_sequence_length=True),
     [[1, 1], [1, 1], [1, 0]]),
    ("dropout of all", lambda: npx.dropout(np.ones(3), p=1.0, mode="always"), [0, 0, 0]),
    ("roi_pooling, no such image", lambda: npx.roi_pooling(np.ones((1, 1, 4, 4)), np.array([[3, 0, 0, 2, 2.0]]),
                                                           pooled_size=(1, 1), spatial_scale=1.0), [[[[0]]]]),
    ("multibox_target, no images", lambda: npx.multibox_target(z(1, 3, 4), z(0, 2, 5), z(0, 2, 3))[0],
     numpy.zeros((0, 12))),
    ("multibox_detection, no images", lambda: npx.multibox_detection(z(0, 2, 3), z(0, 12), z(1, 3, 4)),
     numpy.zeros((0, 3, 6))),
    ("box_nms, no boxes", lambda: npx.box_nms(z(2, 0, 6)), numpy.zeros((2, 0, 6))),
    ("bipartite_matching, no rows", lambda: npx.bipartite_matching(z(2, 0, 4), threshold=0.1)[1],
     -numpy.ones((2, 4))),
    ("roi_align, no regions", lambda: nd.contrib.ROIAlign(nd.zeros((1, 1, 4, 4)), nd.zeros((0, 5)), pooled_size=(2, 2),
                                                          spatial_scale=1.0), numpy.zeros((0, 1, 2, 2))),
]


@pytest.mark.parametrize("call, expected", [c[1:] for c in WITH_RESULTS], ids=[c[0] for c in WITH_RESULTS])
def test_has_a_result(call, expected):
    result, expected = call().asnumpy(), numpy.asarray(expected)
    assert result.shape == expected.shape
    numpy.testing.assert_array_equal(result, expected)


def test_an_empty_batch_does_not_move_running_statistics():
    mean, variance = np.ones(3), np.full(3, 2)
    with mx.autograd.train_mode():
        npx.batch_norm(z(0, 3, 4), np.ones(3), z(3), mean, variance)
    assert mean.asnumpy().tolist() == [1, 1, 1] and variance.asnumpy().tolist() == [2, 2, 2]


def test_gradients_of_empty_batches():
    """Zero-size batches go backward too, and leave zeros at the parameters."""
    weight = np.ones((2, 1, 3, 3))
    data = z(0, 1, 5, 5)
    weight.attach_grad()
    with mx.autograd.record():
        loss = npx.pooling(npx.relu(convolve(data, weight, num_filter=2)), kernel=(2, 2)).sum()
    loss.backward()
    assert (weight.grad.asnumpy() == 0).all() and weight.grad.shape == (2, 1, 3, 3)


# -- files of parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [nd.save, lambda path, arrays: npx.savez(path, **arrays)], ids=["binary", "npz"])
def test_damaged_files_are_errors(tmp_path, seed, save):
    """Truncated anywhere, or with bytes replaced, a file is either read or refused with MXNetError; its counts do not
    decide how much memory is asked for."""
    make = nd.array if save is nd.save else np.array
    path = tmp_path / "whole"
    save(str(path), {"weight": make(numpy.arange(6, dtype="float32").reshape(2, 3)), "bias": make([1, 2])})
    whole = next(p for p in tmp_path.iterdir()).read_bytes()
    rng = numpy.random.default_rng(seed)
    damaged = [whole[:n] for n in range(len(whole))]
    for _ in range(300):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] = rng.integers(0, 256)
        damaged.append(bytes(data))
    refused = 0
    for data in damaged:
        (tmp_path / "damaged").write_bytes(data)
        try:
            loaded = nd.load(str(tmp_path / "damaged"))
        except mx.base.MXNetError as error:
            assert str(error)
            refused += 1
        else:
            assert isinstance(loaded, (dict, list))
    assert refused >= len(whole)                                # every truncation at least
