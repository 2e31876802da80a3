"""Recurrent cells and layers: each against the other, hybridized, with sequences of different lengths, on several
devices, and in the idioms of MXNet 1."""
from __future__ import annotations

import copy
import warnings

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd, gluon
from raynd.errors import FallbackWarning
from raynd.gluon import nn, rnn
from raynd.gluon.utils import split_rnn_params

TWO = [mx.cpu(0), mx.cpu(1)]
CELLS = {
    "rnn": lambda: rnn.RNNCell(4), "relu": lambda: rnn.RNNCell(4, activation="relu"), "lstm": lambda: rnn.LSTMCell(4),
    "gru": lambda: rnn.GRUCell(4), "lstmp": lambda: rnn.LSTMPCell(4, 2),
    "leaky": lambda: rnn.RNNCell(4, activation=nn.LeakyReLU(0.1)),
    "own": lambda: rnn.GRUCell(4, activation=mx.np.arctan, recurrent_activation="softsign"),
    "bidirectional": lambda: rnn.BidirectionalCell(rnn.GRUCell(4), rnn.LSTMCell(2)),
    "residual": lambda: rnn.ResidualCell(rnn.GRUCell(3)), "dropout": lambda: rnn.DropoutCell(0.0),
    "zoneout": lambda: rnn.ZoneoutCell(rnn.LSTMCell(4)),
    "variational": lambda: rnn.VariationalDropoutCell(rnn.GRUCell(4)),
    "stack": lambda: stack(rnn.HybridSequentialRNNCell),
}


def stack(cls):
    cells = cls()
    for cell in (rnn.GRUCell(5), rnn.ResidualCell(rnn.RNNCell(5)),
                 rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.RNNCell(3)), rnn.LSTMPCell(4, 3)):
        cells.add(cell)
    return cells


def uniform(*shape, dtype="float32"):
    return mx.np.array(onp.random.uniform(-1, 1, shape), dtype=dtype)


def randomise(block):
    """Set every parameter, biases too, to random values."""
    for p in block.collect_params().values():
        p.set_data(uniform(*p.shape, dtype=p.dtype))


def close(x, y, tolerance=1e-5):
    x, y = (v.asnumpy() if hasattr(v, "asnumpy") else v for v in (x, y))
    onp.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


# -- layers ------------------------------------------------------------------------------------------------------------


def make_pair(mode, layers, bidirectional, projection):
    """A fused layer, and the stack of cells that computes the same; ``copy_gradients`` gives the names of both."""
    directions = "lr" if bidirectional else "l"
    layer_kind, cell_kind = {"rnn_relu": (rnn.RNN, lambda: rnn.RNNCell(4, activation="relu")),
                             "rnn_tanh": (lambda *a, **k: rnn.RNN(*a, activation="tanh", **k), lambda: rnn.RNNCell(4)),
                             "gru": (rnn.GRU, lambda: rnn.GRUCell(4)),
                             "lstm": (rnn.LSTM, lambda: rnn.LSTMPCell(4, 3) if projection else rnn.LSTMCell(4))}[mode]
    kwargs = {"projection_size": 3} if projection else {}
    layer = layer_kind(4, num_layers=layers, bidirectional=bidirectional, use_sequence_length=True, input_size=5,
                       **kwargs)
    layer.initialize()
    randomise(layer)
    cells = rnn.HybridSequentialRNNCell()
    for _ in range(layers):
        cells.add(rnn.BidirectionalCell(cell_kind(), cell_kind()) if bidirectional else cell_kind())
    cells.infer_shape(0, uniform(2, 5), False)
    cells.initialize()

    def split(packed):
        parts = split_rnn_params(packed, mode, layers, 5, 4, bidirectional, 3 if projection else None)
        names = {}
        for name, value in parts.items():
            where, kind = name.split("_", 1)
            assert where[0] in directions
            names[f"{where[1:]}.{where[0]}_cell.{kind}" if bidirectional else f"{where[1:]}.{kind}"] = value
        return names

    for name, value in split(layer.rnn_param.data()).items():
        cells.collect_params()[name].set_data(value)
    return layer, cells, split


@pytest.mark.parametrize("mode, projection", [("rnn_relu", False), ("rnn_tanh", False), ("gru", False),
                                              ("lstm", False), ("lstm", True)])
@pytest.mark.parametrize("layers, bidirectional", [(1, False), (1, True), (3, True)])
def test_layer_as_cells(mode, projection, layers, bidirectional):
    """Outputs, states and all gradients of a layer are those of the unrolled cells, with sequences of any length from
    none to all."""
    layer, cells, split = make_pair(mode, layers, bidirectional, projection)
    directions = 2 if bidirectional else 1
    lengths = mx.np.array([6, 2, 0, 4], dtype="int32")
    x, gathered = uniform(6, 4, 5), []
    states = [uniform(*info["shape"]) for info in layer.state_info(4)]
    for block in (layer, cells):
        x.attach_grad()
        for s in states:
            s.attach_grad()
        with autograd.record():
            if block is layer:
                y, new = layer(x, states, lengths)
            else:
                begin = [s[k] for k in range(layers * directions) for s in states]
                y, each = cells.unroll(6, x, begin_state=begin, layout="TNC", merge_outputs=True, valid_length=lengths)
                new = [mx.np.stack(each[k::len(states)]) for k in range(len(states))]
            loss = (y * mx.np.sin(mx.np.arange(y.size).reshape(y.shape))).sum() + sum(
                (s * mx.np.cos(mx.np.arange(s.size).reshape(s.shape))).sum() for s in new)
        loss.backward()
        gradients = (split(layer.rnn_param.grad()) if block is layer else
                     {k: p.grad() for k, p in cells.collect_params().items()})
        gathered.append([y, *new, x.grad, *[s.grad for s in states], *[gradients[k] for k in sorted(gradients)]])
        gathered[-1] = [a.asnumpy() for a in gathered[-1]]
    assert len(gathered[0]) == len(gathered[1])
    for a, b in zip(*gathered):
        close(a, b, 2e-5)


@pytest.mark.parametrize("make", [lambda **k: rnn.RNN(3, 2, **k), lambda **k: rnn.LSTM(3, 2, bidirectional=True, **k),
                                  lambda **k: rnn.GRU(3, **k), lambda **k: rnn.LSTM(4, projection_size=2, **k)])
def test_layer_call(make):
    """Layouts, absent states, and hybridizing, for a layer that takes its input size from the first input."""
    layer, other = make(), make(layout="NTC")
    layer.initialize()
    assert "None -> " in repr(layer)
    x = uniform(5, 2, 7)
    assert layer.rnn_param.shape == (-1,)
    y = layer(x)
    assert "7 -> " in repr(layer) and layer._input_size == 7
    other.initialize()
    other.infer_shape(x.swapaxes(0, 1))
    other.rnn_param.set_data(layer.rnn_param.data())
    close(other(x.swapaxes(0, 1)).swapaxes(0, 1), y)
    zeros = layer.begin_state(2)
    y2, states = layer(x, zeros)
    close(y, y2)
    assert [s.shape for s in states] == [info["shape"] for info in layer.state_info(2)]
    if len(zeros) == 1:
        close(layer(x, zeros[0])[0], y)
    results = []
    for hybrid in (False, True, True):
        if hybrid:
            layer.hybridize(clear=False)
        with autograd.record():
            z, new = layer(x, [uniform(*s.shape) * 0 + 0.3 for s in zeros])
            loss = (z * z).sum() + sum((s * s).sum() for s in new) + layer(x).sum()
        loss.backward()
        results.append([z.asnumpy(), layer.rnn_param.grad().asnumpy()])
    for a, b, c in zip(*results):
        close(a, b)
        close(b, c)
    assert len(layer._cached_op.programs) == 2 and all(layer._cached_op.programs.values())


def test_packed_parameters():
    """Each part of the vector is drawn by its own initializer; known sizes are drawn at once."""
    layer = rnn.LSTM(3, 2, bidirectional=True, input_size=4, projection_size=2, i2h_weight_initializer=mx.init.One(),
                     h2h_weight_initializer=mx.init.Constant(2), h2r_weight_initializer=mx.init.Constant(3),
                     i2h_bias_initializer=mx.init.Constant(4), h2h_bias_initializer="zeros")
    layer.initialize()
    parts = split_rnn_params(layer.rnn_param.data(), "lstm", 2, 4, 3, True, 2)
    assert len(parts) == 2 * 2 * 5
    assert parts["l0_i2h_weight"].shape == (12, 4) and parts["r1_i2h_weight"].shape == (12, 4)
    assert parts["l1_h2h_weight"].shape == (12, 2) and parts["r0_h2r_weight"].shape == (2, 3)
    for name, value in parts.items():
        expected = {"i2h_weight": 1, "h2h_weight": 2, "h2r_weight": 3, "i2h_bias": 4, "h2h_bias": 0}[name[3:]]
        assert (value.asnumpy() == expected).all()
    with pytest.raises(ValueError, match="parameters is needed"):
        split_rnn_params(layer.rnn_param.data(), "lstm", 2, 5, 3, True, 2)
    plain = rnn.GRU(3, input_size=4)
    plain.initialize(mx.init.Constant(7))            # weights by the default, biases are zero
    assert sorted(onp.unique(plain.rnn_param.data().asnumpy())) == [0, 7]


def test_dropout_between_layers():
    """In training only, anew at each call, also of a program, and not after the last layer."""
    for hybrid in (False, True):
        layer = rnn.GRU(50, 2, dropout=0.5, input_size=4)
        layer.initialize()
        if hybrid:
            layer.hybridize()
        x = uniform(3, 2, 4)
        close(layer(x), layer(x))
        with autograd.record():
            a, b = layer(x), layer(x)
        assert abs(a.asnumpy() - b.asnumpy()).max() > 1e-3
        assert (a.asnumpy() != 0).all()
        a.backward()


def test_state_clipping():
    layer = rnn.LSTM(3, input_size=2, state_clip_min=-0.1, state_clip_max=0.05, state_clip_nan=True)
    layer.initialize()
    randomise(layer)
    _, (_, c) = layer(uniform(4, 5, 2) * 10, layer.begin_state(5))
    assert c.asnumpy().min() == onp.float32(-0.1) and c.asnumpy().max() == onp.float32(0.05)
    bad = [mx.np.zeros((1, 5, 3)), mx.np.full((1, 5, 3), onp.nan)]
    assert not onp.isnan(layer(uniform(4, 5, 2), bad)[0].asnumpy()).any()


def test_layer_errors():
    layer = rnn.LSTM(3)
    layer.initialize()
    x = uniform(4, 2, 5)
    with pytest.raises(ValueError, match="Invalid recurrent state shape"):
        layer(x, [mx.np.zeros((1, 2, 3)), mx.np.zeros((1, 3, 3))])
    with pytest.raises(ValueError, match="has 2 states, got 1"):
        layer(x, mx.np.zeros((1, 2, 3)))
    with pytest.raises(mx.base.MXNetError, match="use_sequence_length=True"):
        layer(x, None, mx.np.array([4, 4]))
    with pytest.raises(mx.base.MXNetError, match="needs sequence_length"):
        lengths = rnn.GRU(3, use_sequence_length=True)
        lengths.initialize()
        lengths(x)
    with pytest.raises(AssertionError, match="Invalid layout"):
        rnn.GRU(3, layout="NCT")
    with pytest.raises(mx.base.MXNetError, match="'relu' or 'tanh'"):
        rnn.RNN(3, activation="sigmoid")
    with pytest.raises(AssertionError, match="rank-3"):
        rnn_ = rnn.GRU(3)
        rnn_.initialize()
        rnn_(uniform(4, 2))


# -- cells -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_unroll(name, layout):
    """A list or an array, merged or not, eager or as one program: the same outputs, states and gradients. The sizes of
    the input are unknown before."""
    cell = CELLS[name]()
    cell.initialize()
    axis = layout.find("T")
    host = onp.random.uniform(-1, 1, (2, 3, 3)).astype("float32") if axis else onp.random.uniform(
        -1, 1, (3, 2, 3)).astype("float32")
    results = []
    for hybrid in (False, True, True):
        if hybrid:
            cell.hybridize(clear=False)
        for as_list in (False, True):
            for merge in (True, False, None):
                x = mx.np.array(host)
                x.attach_grad()
                with autograd.record(train_mode=False):
                    inputs = [mx.np.take(x, k, axis=axis) for k in range(3)] if as_list else x
                    outputs, states = cell.unroll(3, inputs, layout=layout, merge_outputs=merge)
                    assert isinstance(outputs, list) == (not merge) or merge is None
                    y = mx.np.stack(outputs, axis=axis) if isinstance(outputs, list) else outputs
                    loss = (y * y).sum() + sum((s * s * s).sum() for s in states)
                loss.backward()
                results.append([y, *states, x.grad, *[p.grad() for p in cell.collect_params().values()]])
                results[-1] = [a.asnumpy() for a in results[-1]]
    for other in results[1:]:
        for a, b in zip(results[0], other):
            close(a, b)
    assert all(cell._cached_op.programs.values()) and len(cell._cached_op.programs) == 6


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("hybrid", [False, True])
def test_valid_length(name, hybrid):
    """Each sequence of a batch gives what it gives alone, then zeros; a sequence of no steps keeps its states."""
    cell = CELLS[name]()
    cell.initialize()
    if hybrid:
        cell.hybridize()
    x, lengths = uniform(4, 5, 3), [3, 0, 5, 1]
    begin = [uniform(*info["shape"]) for info in cell.state_info(4)]
    y, states = cell.unroll(5, x, begin_state=begin, merge_outputs=True, valid_length=lengths)
    listed, _ = cell.unroll(5, x, begin_state=begin, merge_outputs=False,
                            valid_length=mx.np.array(lengths, dtype="int64"))
    close(mx.np.stack(listed, axis=1), y)
    for i, n in enumerate(lengths):
        assert (y[i, n:].asnumpy() == 0).all()
        alone = [s[i:i + 1] for s in begin]
        if n:
            alone_y, alone = cell.unroll(n, x[i:i + 1, :n], begin_state=alone, merge_outputs=True)
            close(alone_y[0], y[i, :n])
        for s, t in zip(alone, states):
            close(s[0], t[i])


@pytest.mark.parametrize("name", [n for n in CELLS if n not in ("bidirectional", "stack")])
def test_step(name):
    """Single steps give what unroll gives; so does dynamic_unroll."""
    cell = CELLS[name]()
    cell.initialize()
    x = uniform(3, 2, 3)
    y, last = cell.unroll(3, x, layout="TNC", merge_outputs=True)
    cell.reset()
    states = cell.begin_state(batch_size=2)
    for t in range(3):
        output, states = cell(x[t], states)
        close(output, y[t])
    for a, b in zip(states, last):
        close(a, b)
    if len(states) == 1:
        close(cell(x[0], states[0])[0], cell(x[0], states)[0])
    lengths = mx.np.array([3, 1], dtype="float32")
    for layout in ("TNC", "NTC"):
        data = x if layout == "TNC" else x.swapaxes(0, 1)
        cell.reset()
        dynamic, dynamic_states = rnn.rnn_cell.dynamic_unroll(cell, data, cell.begin_state(batch_size=2), layout=layout,
                                                              valid_length=lengths)
        expected, expected_states = cell.unroll(3, data, layout=layout, merge_outputs=True, valid_length=lengths)
        for a, b in zip([dynamic, *dynamic_states], [expected, *expected_states]):
            close(a, b)


@pytest.mark.parametrize("cls", [rnn.SequentialRNNCell, rnn.HybridSequentialRNNCell])
def test_stack(cls):
    cells = stack(cls)
    x = uniform(2, 4, 7)
    cells.infer_shape(0, x, False)                   # each cell's input is the output of the one before
    assert cells[1].base_cell.i2h_weight.shape == (5, 5) and cells[3].i2h_weight.shape == (16, 5)
    cells.initialize()
    assert len(cells) == 4 and "(1): ResidualCell(RNNCell(5 -> 5, tanh))" in repr(cells)
    assert [i["shape"] for i in cells.state_info(2)] == [(2, 5), (2, 5), (2, 2), (2, 2), (2, 3), (2, 3), (2, 4)]
    outputs, states = cells.unroll(4, x)
    assert [y.shape for y in outputs] == [(2, 3)] * 4
    assert [s.shape for s in states] == [i["shape"] for i in cells.state_info(2)]
    with pytest.raises(AssertionError, match="cannot be stepped"):
        cells(x[:, 0], cells.begin_state(batch_size=2))
    with pytest.raises(NotImplementedError, match="cannot be stepped"):
        cells[2](x[:, 0], [])
    names = list(cells.collect_params())
    assert {"0.i2h_weight", "1.base_cell.h2h_bias", "2.l_cell.i2h_weight", "2.r_cell.h2h_weight",
            "3.h2r_weight"} <= set(names)


CONV = {
    "Conv1DRNNCell": ((3, 8), (4, 6), {}), "Conv1DLSTMCell": ((3, 8), (4, 8), {"i2h_pad": 1, "h2h_dilate": 2}),
    "Conv1DGRUCell": ((8, 3), (6, 4), {"conv_layout": "NWC"}), "Conv2DRNNCell": ((3, 6, 5), (4, 4, 3), {}),
    "Conv2DLSTMCell": ((3, 6, 5), (4, 6, 5), {"i2h_pad": (1, 1), "activation": "relu"}),
    "Conv2DGRUCell": ((6, 7, 3), (4, 3, 4), {"conv_layout": "NHWC", "i2h_dilate": (1, 2)}),
    "Conv3DRNNCell": ((1, 4, 4, 4), (4, 2, 2, 2), {}), "Conv3DLSTMCell": ((1, 3, 4, 4), (4, 1, 2, 2), {}),
    "Conv3DGRUCell": ((1, 3, 3, 4), (4, 1, 1, 2), {}),
}


@pytest.mark.parametrize("name", CONV)
def test_convolutional(name):
    input_shape, output_shape, kwargs = CONV[name]
    layout = kwargs.get("conv_layout", {1: "NCW", 2: "NCHW", 3: "NCDHW"}[len(input_shape) - 1])
    axis = layout.find("C")
    unknown = tuple(0 if k == axis - 1 else n for k, n in enumerate(input_shape))
    cell = getattr(rnn, name)(unknown, 4, 3, 3, **kwargs)
    cell.initialize()
    x = uniform(2, 3, *input_shape)
    results = []
    for hybrid in (False, True):
        if hybrid:
            cell.hybridize()
        x.attach_grad()
        with autograd.record():
            y, states = cell.unroll(3, x, merge_outputs=True)
            loss = (y * y).sum()
        loss.backward()
        assert y.shape == (2, 3, *output_shape) and all(s.shape == (2, *output_shape) for s in states)
        results.append([y.asnumpy(), x.grad.asnumpy()])
    for a, b in zip(*results):
        close(a, b)
    assert cell.i2h_weight.shape[axis] == input_shape[axis - 1]
    with pytest.raises(AssertionError, match="odd"):
        getattr(rnn, name)(input_shape, 4, 3, 2, **kwargs)


def test_convolution_as_product():
    """With kernels of size 1 a convolutional cell is the basic cell at every position."""
    for conv, plain in ((rnn.Conv1DRNNCell, rnn.RNNCell), (rnn.Conv1DLSTMCell, rnn.LSTMCell),
                        (rnn.Conv1DGRUCell, rnn.GRUCell)):
        a, b = conv((3, 5), 4, 1, 1), plain(4)
        a.initialize()
        b.infer_shape(0, uniform(1, 3), False)
        b.initialize()
        randomise(a)
        for name, p in b.collect_params().items():
            p.set_data(a.collect_params()[name].data().reshape(p.shape))
        x = uniform(4, 2, 3, 5)
        y, _ = a.unroll(4, x, layout="TNC", merge_outputs=True)
        for k in range(5):
            close(b.unroll(4, x[..., k], layout="TNC", merge_outputs=True)[0], y[..., k])


def test_begin_state():
    cell, layer = rnn.LSTMPCell(4, 2), rnn.LSTM(4, 2, bidirectional=True, dtype="float64")
    states = cell.begin_state(batch_size=3)
    assert [(s.shape, s.dtype) for s in states] == [((3, 2), onp.float32), ((3, 4), onp.float32)]
    for kwargs in ({"ctx": mx.cpu(1)}, {"device": mx.cpu(1)}):
        states = cell.begin_state(3, dtype="float16", func=mx.np.ones, **kwargs)
        assert all(s.device == mx.cpu(1) and s.dtype == onp.float16 and (s.asnumpy() == 1).all() for s in states)
        assert cell.begin_state(3, func=mx.nd.zeros, **kwargs)[0].context == mx.cpu(1)
    with mx.cpu(1):
        assert cell.begin_state(3)[0].device == mx.cpu(1)
    assert type(cell.begin_state(3, func=mx.nd.ones)[0]) is mx.nd.NDArray
    assert [(s.shape, s.dtype) for s in layer.begin_state(3)] == [((4, 3, 4), onp.float64)] * 2
    made = cell.begin_state(3, func=lambda shape, dtype, low: mx.np.full(shape, low, dtype=dtype), low=5)
    assert (made[1].asnumpy() == 5).all()
    with pytest.raises(mx.base.MXNetError, match="not both"):
        cell.begin_state(3, ctx=mx.cpu(0), device=mx.cpu(0))


def test_states_follow_inputs():
    """Zero states have the dtype and the device of the inputs, and given states are brought there."""
    cell, layer = rnn.LSTMCell(3, input_size=2), rnn.LSTM(3, input_size=2)
    for block in (cell, layer):
        block.initialize(device=TWO)
    for device in TWO:
        x = mx.np.ones((4, 1, 2), device=device)
        for result in (cell.unroll(4, x, layout="TNC", merge_outputs=True), layer(x, layer.begin_state(1)),
                       cell(x[0], cell.begin_state(1))):
            assert result[0].device == device and all(s.device == device for s in result[1])
        assert layer(x).device == device
    for block in (cell, layer):
        block.cast("float64")
    x = uniform(4, 1, 2, dtype="float64")
    assert cell.unroll(4, x, layout="TNC")[1][1].dtype == layer(x).dtype == layer.begin_state(1)[0].dtype == onp.float64


def test_unroll_errors():
    cell = rnn.RNNCell(3)
    cell.initialize()
    for inputs in (None, [], uniform(2, 4, 3), [uniform(2, 3)], "inputs"):
        with pytest.raises(AssertionError):
            cell.unroll(3, inputs)
    with pytest.raises(AssertionError, match="layout"):
        cell.unroll(3, uniform(2, 3, 4), layout="NC")


# -- modifiers ---------------------------------------------------------------------------------------------------------


def test_modified_once():
    base = rnn.RNNCell(3)
    cell = rnn.ResidualCell(base)
    with pytest.raises(AssertionError, match="already modified"):
        rnn.ZoneoutCell(base)
    with pytest.raises(AssertionError, match="cannot be called directly"):
        base.begin_state(batch_size=2)
    assert cell.begin_state(batch_size=2)[0].shape == (2, 3) and base._modified
    assert cell.params is base.params and list(cell.collect_params()) == [f"base_cell.{k}" for k in base.params]
    for make in (rnn.ZoneoutCell, lambda c: rnn.VariationalDropoutCell(c, drop_states=0.1)):
        nested = rnn.SequentialRNNCell()
        nested.add(rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2)))
        with pytest.raises(AssertionError, match="BidirectionalCell"):
            make(nested)


@pytest.mark.parametrize("hybrid", [False, True])
def test_zoneout(hybrid):
    """In training a part of the elements is that of the step before; in prediction none is."""
    cell = rnn.ZoneoutCell(rnn.RNNCell(200, input_size=3), 0.3, 0.6)
    cell.initialize()
    if hybrid:
        cell.hybridize()
    x = uniform(20, 4, 3)
    plain, _ = cell.unroll(4, x, merge_outputs=True)
    close(plain, cell.unroll(4, x, merge_outputs=True)[0])
    seen = []
    for _ in range(2):
        with autograd.record():
            y, states = cell.unroll(4, x, merge_outputs=True)
        y.backward()
        seen.append(y.asnumpy())
        assert abs((seen[-1][:, 0] == 0).mean() - 0.3) < 0.05
        assert abs((seen[-1][:, 2] == seen[-1][:, 1]).mean() - 0.3) < 0.05
    assert abs((seen[0] == seen[1]).mean()) < 0.9


@pytest.mark.parametrize("states", [0.0, 0.5])
@pytest.mark.parametrize("hybrid", [False, True])
def test_variational_dropout(states, hybrid):
    """One mask for all time steps of a sequence, another for the next, in every form."""
    cell = rnn.VariationalDropoutCell(rnn.GRUCell(60, input_size=40), drop_inputs=0.5, drop_states=states,
                                      drop_outputs=0.3)
    cell.initialize()
    if hybrid:
        cell.hybridize()
    x, seen = mx.np.ones((20, 5, 40)), []
    for _ in range(2):
        with autograd.record():
            y, _ = cell.unroll(5, x, merge_outputs=True)
        y.backward()
        kept = y.asnumpy() != 0
        assert (kept == kept[:, :1]).all() and abs(kept.mean() - 0.7) < 0.06
        seen.append(kept)
    assert (seen[0] != seen[1]).any()
    cell.reset()
    with autograd.record():
        begin = cell.begin_state(batch_size=20)
        first = cell(x[:, 0], begin)[0].asnumpy() != 0
        again = cell(x[:, 1], begin)[0].asnumpy() != 0
        cell.reset()
        other = cell(x[:, 0], begin)[0].asnumpy() != 0
    assert (first == again).all() and (first != other).any()


def test_kept_arrays_in_programs():
    """A cell that keeps arrays is not baked into its parent's program: the parent stays eager, unless it resets."""

    class Steps(gluon.HybridBlock):
        def __init__(self, reset):
            super().__init__()
            self.reset = reset
            self.cell = rnn.ZoneoutCell(rnn.RNNCell(50, input_size=3), zoneout_outputs=0.5)

        def forward(self, x):
            if self.reset:
                self.cell.reset()
            state = self.cell.begin_state(batch_size=2)
            return mx.np.stack([self.cell(x, state)[0] for _ in range(2)])

    for reset in (True, False):
        net = Steps(reset)
        net.initialize()
        net.hybridize()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with autograd.record():
                for _ in range(3):
                    net(mx.np.ones((2, 3))).backward()
                    net.cell.reset()             # eagerly the last output would be part of the next graph
        messages = [str(w.message) for w in caught if issubclass(w.category, FallbackWarning)]
        assert len(messages) == (0 if reset else 1) and all("call reset()" in m for m in messages)
        net.cell.reset()
        close(net.cell(mx.np.ones((2, 3)), net.cell.begin_state(batch_size=2))[0],
              net.cell.base_cell(mx.np.ones((2, 3)), [mx.np.zeros((2, 50))])[0])
        copy.deepcopy(net)


def test_dropout_cell():
    cell = rnn.DropoutCell(0.5)
    x = mx.np.ones((30, 4, 20))
    with autograd.record():
        y, states = cell.unroll(4, x, merge_outputs=True, valid_length=mx.np.full((30,), 3))
        listed, _ = cell.unroll(4, [x[:, k] for k in range(4)])
    assert states == [] and set(onp.unique(y.asnumpy())) == {0, 2} and (y.asnumpy()[:, 3] == 0).all()
    assert abs((y.asnumpy()[:, :3] != 0).mean() - 0.5) < 0.05 and len(listed) == 4
    assert cell.unroll(4, x)[0].shape == x.shape
    with pytest.raises(AssertionError, match="number"):
        rnn.DropoutCell("0.5")


# -- training ----------------------------------------------------------------------------------------------------------


class Tagger(gluon.HybridBlock):
    """Embeds words, runs two recurrent layers, and scores each position."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.layer = rnn.LSTM(8, bidirectional=True, layout="NTC")
        self.cell = rnn.HybridSequentialRNNCell()
        self.cell.add(rnn.VariationalDropoutCell(rnn.GRUCell(8), drop_inputs=0.05))
        self.score = nn.Dense(3, flatten=False)

    def forward(self, x, lengths):
        return self.score(self.cell.unroll(x.shape[1], self.layer(self.words(x)), merge_outputs=True,
                                           valid_length=lengths)[0])


@pytest.mark.parametrize("hybrid", [False, True])
def test_training(hybrid):
    """Data parallel over two devices; the task is the class of the word before."""
    net = Tagger()
    net.initialize(mx.init.Xavier(), device=TWO)
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.03})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    rng, losses = onp.random.RandomState(5), []
    for _ in range(45):
        words = rng.randint(0, 12, (32, 6))
        target = onp.roll(words % 3, 1, axis=1)
        lengths = mx.np.full((32,), 6)
        parts = [gluon.utils.split_and_load(mx.np.array(a), TWO) for a in (words, lengths, target)]
        with autograd.record():
            part_losses = [loss_of(net(x, n), t) for x, n, t in zip(*parts)]
        autograd.backward(part_losses)
        trainer.step(32)
        losses.append(sum(part.mean().item() for part in part_losses) / 2)
    assert onp.mean(losses[-5:]) < 0.5 < losses[0]
    for p in net.collect_params().values():
        assert (p.data(TWO[0]).asnumpy() == p.data(TWO[1]).asnumpy()).all()


def test_files(tmp_path):
    x = uniform(4, 2, 5)
    for make, run in ((lambda: rnn.LSTM(3, 2), lambda net: net(x)), (
            lambda: stack(rnn.HybridSequentialRNNCell), lambda net: net.unroll(2, x, merge_outputs=True)[0])):
        a, b = make(), make()
        a.initialize()
        expected = run(a)
        a.save_parameters(str(tmp_path / "net.params"))
        b.load_parameters(str(tmp_path / "net.params"))
        close(run(b), expected)
        close(run(copy.deepcopy(a)), expected)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("unfused", [False, True])
def test_files_of_1x(tmp_path, bidirectional, unfused):
    """MXNet 1 saved each part of a layer's parameters by itself."""
    def make():
        net = nn.HybridSequential()
        net.add(rnn.LSTM(3, 2, bidirectional=bidirectional, projection_size=2), nn.Dense(1))
        return net

    net, other, x = make(), make(), uniform(4, 2, 5)
    net.initialize()
    expected = net(x)
    arrays = {k: p.data() for k, p in net.collect_params().items()}
    for name, value in split_rnn_params(arrays.pop("0.rnn_param"), "lstm", 2, 5, 3, bidirectional, 2).items():
        where, kind = name.split("_", 1)
        cell = f"{where[0]}_cell." if bidirectional else ""
        arrays[f"0._unfused.{where[1:]}.{cell}{kind}" if unfused else f"0.{name}"] = value
    mx.nd.save(str(tmp_path / "old.params"), {k: v.as_nd_ndarray() for k, v in arrays.items()})
    other.load_parameters(str(tmp_path / "old.params"))
    close(other(x), expected)
    del arrays["0._unfused.0." + cell + "i2h_bias" if unfused else "0.l0_i2h_bias"]
    with pytest.raises(AssertionError, match="rnn_param"):
        make().load_dict(arrays)


# -- MXNet 1 -----------------------------------------------------------------------------------------------------------


def test_idioms_of_1x():
    """Legacy arrays, ``ctx=``, prefixes, and cells that define ``hybrid_forward``."""
    layer = rnn.LSTM(4, 1, prefix="lm_")
    layer.initialize(ctx=mx.cpu())
    hidden = layer.begin_state(batch_size=2, func=mx.nd.zeros, ctx=mx.cpu())
    y, hidden = layer(mx.nd.ones((3, 2, 5)), hidden)
    assert type(y) is type(hidden[0]) is mx.nd.NDArray and layer.prefix == "lm_"
    cell = rnn.GRUCell(4, prefix="gru_")
    with cell.name_scope():
        cell.collect_params().initialize()
    outputs, states = cell.unroll(3, mx.nd.ones((2, 3, 5)), merge_outputs=True)
    assert type(outputs) is type(states[0]) is mx.nd.NDArray

    class Own(rnn.HybridRecurrentCell):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.weight = self.params.get("weight", shape=(4, 4))

        def state_info(self, batch_size=0):
            return [{"shape": (batch_size, 4), "__layout__": "NC"}]

        def hybrid_forward(self, F, inputs, states, weight):
            output = self._get_activation(F, inputs + F.dot(states[0], weight), "tanh")
            return output, [output]

    own = Own(prefix="own_")
    own.initialize()
    results = []
    for hybrid in (False, True):
        if hybrid:
            own.hybridize()
        y, _ = own.unroll(3, mx.nd.ones((2, 3, 4)), merge_outputs=True)
        results.append(y.asnumpy())
    close(*results)
    stacked = rnn.HybridSequentialRNNCell()
    stacked.add(Own())
    stacked.add(rnn.ResidualCell(rnn.RNNCell(4)))
    stacked.initialize()
    assert stacked.unroll(3, mx.nd.ones((2, 3, 4)))[0][2].shape == (2, 4)
