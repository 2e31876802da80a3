"""Layers: shapes, values, deferred shapes, both layouts, and normalisation over devices."""
from __future__ import annotations

import copy

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd, gluon
from raynd.engine import engine
from raynd.gluon import nn

LAYERS = [
    (lambda: nn.Dense(5), (2, 3, 4), (2, 5)), (lambda: nn.Dense(5, flatten=False), (2, 3, 4), (2, 3, 5)),
    (lambda: nn.Dense(5, use_bias=False, activation="sigmoid"), (2, 3), (2, 5)),
    (lambda: nn.Conv1D(6, 3), (2, 4, 9), (2, 6, 7)),
    (lambda: nn.Conv1D(6, 3, strides=2, padding=1), (2, 4, 9), (2, 6, 5)),
    (lambda: nn.Conv2D(6, 3, groups=2), (2, 4, 9, 8), (2, 6, 7, 6)),
    (lambda: nn.Conv2D(6, (3, 1), dilation=2, activation="relu"), (2, 4, 9, 8), (2, 6, 5, 8)),
    (lambda: nn.Conv2D(6, 3, layout="NHWC", use_bias=False), (2, 9, 8, 4), (2, 7, 6, 6)),
    (lambda: nn.Conv3D(2, 2), (1, 3, 4, 5, 6), (1, 2, 3, 4, 5)),
    (lambda: nn.Conv1DTranspose(3, 3, strides=2, output_padding=1), (2, 4, 5), (2, 3, 12)),
    (lambda: nn.Conv2DTranspose(3, 3, strides=2, padding=1), (2, 4, 5, 5), (2, 3, 9, 9)),
    (lambda: nn.Conv3DTranspose(2, 2, groups=2), (1, 4, 3, 3, 3), (1, 2, 4, 4, 4)),
    (lambda: nn.MaxPool1D(), (2, 3, 7), (2, 3, 3)), (lambda: nn.MaxPool2D(3, 2, 1), (2, 3, 7, 7), (2, 3, 4, 4)),
    (lambda: nn.MaxPool2D(2, ceil_mode=True), (2, 3, 7, 7), (2, 3, 4, 4)),
    (lambda: nn.MaxPool3D(), (1, 2, 4, 4, 6), (1, 2, 2, 2, 3)), (lambda: nn.AvgPool1D(3, 1, 1), (2, 3, 7), (2, 3, 7)),
    (lambda: nn.AvgPool2D(2, layout="NHWC"), (2, 4, 6, 3), (2, 2, 3, 3)), (lambda: nn.AvgPool3D(), (1, 2, 4, 4, 4),
                                                                          (1, 2, 2, 2, 2)),
    (lambda: nn.GlobalAvgPool2D(), (2, 3, 5, 6), (2, 3, 1, 1)), (lambda: nn.GlobalMaxPool1D(), (2, 3, 5), (2, 3, 1)),
    (lambda: nn.GlobalMaxPool2D(layout="NHWC"), (2, 5, 6, 3), (2, 1, 1, 3)),
    (lambda: nn.GlobalAvgPool3D(), (2, 3, 2, 2, 2), (2, 3, 1, 1, 1)),
    (lambda: nn.BatchNorm(), (4, 3, 5), (4, 3, 5)), (lambda: nn.BatchNorm(axis=-1, scale=False), (4, 5, 3), (4, 5, 3)),
    (lambda: nn.BatchNormReLU(), (4, 3, 5), (4, 3, 5)), (lambda: nn.LayerNorm(), (4, 3), (4, 3)),
    (lambda: nn.GroupNorm(2), (3, 4, 5), (3, 4, 5)), (lambda: nn.InstanceNorm(), (3, 4, 5), (3, 4, 5)),
    (lambda: nn.InstanceNorm(axis=2, scale=True), (3, 5, 4), (3, 5, 4)),
    (lambda: nn.Dropout(0.0), (3, 4), (3, 4)), (lambda: nn.Flatten(), (3, 4, 5), (3, 20)),
    (lambda: nn.Activation("tanh"), (3, 4), (3, 4)), (lambda: nn.LeakyReLU(0.1), (3, 4), (3, 4)),
    (lambda: nn.PReLU(), (3, 4), (3, 4)), (lambda: nn.PReLU(in_channels=4), (3, 4, 2), (3, 4, 2)),
    (lambda: nn.ELU(0.5), (3, 4), (3, 4)), (lambda: nn.SELU(), (3, 4), (3, 4)), (lambda: nn.GELU(), (3, 4), (3, 4)),
    (lambda: nn.GELU("tanh"), (3, 4), (3, 4)), (lambda: nn.Swish(2.0), (3, 4), (3, 4)),
    (lambda: nn.SiLU(), (3, 4), (3, 4)),
    (lambda: nn.Identity(), (3, 4), (3, 4)), (lambda: nn.HybridLambda("tanh"), (3, 4), (3, 4)),
    (lambda: nn.HybridLambda(lambda F, x: F.sqrt(F.abs(x))), (3, 4), (3, 4)),
    (lambda: nn.ReflectionPad2D(1), (1, 2, 3, 4), (1, 2, 5, 6)), (lambda: nn.PixelShuffle1D(2), (1, 4, 3), (1, 2, 6)),
    (lambda: nn.PixelShuffle2D((2, 3)), (1, 12, 2, 2), (1, 2, 4, 6)),
    (lambda: nn.PixelShuffle3D(2), (1, 8, 2, 2, 2), (1, 1, 4, 4, 4)),
]


@pytest.mark.parametrize("make, shape, expected", LAYERS)
def test_layer(make, shape, expected):
    """Shape, gradients for every parameter that has one, and the same when hybridized, for a layer that learns its
    sizes from the first input."""
    layer = make()
    layer.initialize()
    host, results = onp.random.RandomState(3).rand(*shape) + 0.1, []
    repr(layer)
    state = {k: p.data().asnumpy() for k, p in layer.collect_params().items() if p._data is not None}
    for hybrid in (False, True):
        layer.hybridize(hybrid)
        for k, p in layer.collect_params().items():
            if k.startswith("running") and k in state:
                p.set_data(state[k])
        x = mx.np.array(host)
        x.attach_grad()
        with autograd.record():
            y = layer(x)
            (y * y).sum().backward()
        assert y.shape == expected and y.dtype == "float32"
        state = state or {k: mx.np.zeros(p.shape) if "mean" in k else mx.np.ones(p.shape)
                          for k, p in layer.collect_params().items()}
        results.append([y.asnumpy(), x.grad.asnumpy()] + [p.grad().asnumpy() for p in layer.collect_params().values()
                                                          if p.grad_req != "null"])
    for a, b in zip(*results):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5)
        assert onp.isfinite(a).all()


def test_values():
    x = onp.random.RandomState(0).randn(2, 3).astype("float32")
    dense = nn.Dense(4, in_units=3, activation="relu")
    dense.initialize()
    dense.bias.set_data(onp.ones(4))
    w = dense.weight.data().asnumpy()
    assert dense(mx.np.array(x)).asnumpy() == pytest.approx(onp.maximum(x @ w.T + 1, 0), abs=1e-6)
    assert nn.Swish(2.0)(mx.np.array(x)).asnumpy() == pytest.approx(x / (1 + onp.exp(-2 * x)), abs=1e-6)
    embedding = nn.Embedding(5, 2)
    embedding.initialize()
    table = embedding.weight.data().asnumpy()
    assert (embedding(mx.np.array([[1, 4]], dtype="int32")).asnumpy() == table[[[1, 4]]]).all()
    shuffled = nn.PixelShuffle2D(2)(mx.np.arange(4).reshape(1, 4, 1, 1)).asnumpy()
    assert shuffled.tolist() == [[[[0, 1], [2, 3]]]]
    padded = nn.ReflectionPad2D((0, 0, 0, 0, 0, 1, 1, 0))(mx.np.arange(4).reshape(1, 1, 2, 2)).asnumpy()
    assert padded[0, 0].tolist() == [[1, 0, 1], [3, 2, 3], [1, 0, 1]]
    both = nn.HybridConcatenate(axis=1)
    both.add(nn.Identity(), nn.Activation("relu"))
    assert both(mx.np.array(x)).asnumpy() == pytest.approx(onp.concatenate([x, onp.maximum(x, 0)], axis=1))
    plain = nn.Concatenate()
    plain.add(nn.Identity(), nn.Lambda(lambda a: a * 2))
    assert plain(mx.np.array(x)).shape == (2, 6)


def test_reprs():
    assert repr(nn.Dense(4, in_units=3)) == "Dense(3 -> 4, linear)"
    assert repr(nn.Conv2D(8, 3, in_channels=4, padding=1)) == \
        "Conv2D(4 -> 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    assert "size=(2, 2)" in repr(nn.MaxPool2D()) and repr(nn.Dropout(0.5)) == "Dropout(p = 0.5, axes=())"
    assert repr(nn.Embedding(5, 2)) == "Embedding(5 -> 2, float32)"
    assert "in_channels=7" in repr(nn.BatchNorm(in_channels=7)) and repr(nn.LeakyReLU(0.1)) == "LeakyReLU(0.1)"


def test_dropout_only_in_training():
    drop, x = nn.Dropout(0.5), mx.np.ones((100, 100))
    assert (drop(x).asnumpy() == 1).all()
    with autograd.record():
        y = drop(x).asnumpy()
    assert set(onp.unique(y)) == {0, 2} and abs(y.mean() - 1) < 0.1
    with autograd.train_mode():
        column = nn.Dropout(0.5, axes=(1,))(x).asnumpy()
    assert (column == column[:, :1]).all()


def test_batch_norm_statistics():
    x = onp.random.RandomState(0).rand(6, 2, 3).astype("float32") * 3
    net = nn.BatchNorm(momentum=0.75, epsilon=0)
    net.initialize()
    for _ in range(2):
        with autograd.record():
            y = net(mx.np.array(x))
        expected = (x - x.mean((0, 2), keepdims=True)) / x.std((0, 2), keepdims=True)
        assert y.asnumpy() == pytest.approx(expected, abs=1e-4)
    share = 1 - 0.75 ** 2
    assert net.running_mean.data().asnumpy() == pytest.approx(x.mean((0, 2)) * share, rel=1e-5)
    assert net.running_var.data().asnumpy() == pytest.approx(1 - share + x.var((0, 2)) * share, rel=1e-4)
    before = net.running_mean.data().asnumpy()
    net(mx.np.array(x))
    assert (net.running_mean.data().asnumpy() == before).all()
    fixed = nn.BatchNorm(use_global_stats=True, in_channels=2)
    fixed.initialize()
    with autograd.record():
        assert fixed(mx.np.array(x)).asnumpy() == pytest.approx(x, abs=1e-3)


def test_sync_batch_norm_is_batch_norm_of_everything(each_mode):
    """Outputs, gradients and statistics over three devices equal those of one device with the whole batch, for a
    network with two such layers and batches of different sizes."""
    devs = [mx.cpu(i) for i in range(3)]
    x = onp.random.RandomState(0).rand(7, 2, 3).astype("float32")

    def make(norm, devices):
        net = nn.Sequential()
        net.add(nn.Dense(4, in_units=3, flatten=False), nn.Lambda(lambda a: a.swapaxes(1, 2)), norm(in_channels=4),
                nn.Activation("tanh"), norm(in_channels=4))
        net.initialize(mx.init.Constant(0.3), device=devices)
        net[0].weight.set_data(onp.arange(12).reshape(4, 3) / 10)
        return net

    one, many = make(nn.BatchNorm, devs[:1]), make(nn.SyncBatchNorm, devs)
    with autograd.record():
        expected = one(mx.np.array(x))
        (expected ** 3).sum().backward()
    for _ in range(2):
        many[2].running_mean.set_data(onp.zeros(4))
        many[2].running_var.set_data(onp.ones(4))
        parts = gluon.utils.split_and_load(x, devs, even_split=False)
        with autograd.record():
            ys = [many(p) for p in parts]
            losses = [(y ** 3).sum() for y in ys]
        autograd.backward(losses)
        assert onp.concatenate([y.asnumpy() for y in ys]) == pytest.approx(expected.asnumpy(), abs=1e-4)
        total = sum(many[0].weight.grad(d).asnumpy() for d in devs)
        assert total == pytest.approx(one[0].weight.grad().asnumpy(), rel=1e-3, abs=1e-3)
        for d in devs:
            for name in ("running_mean", "running_var"):
                statistic = getattr(many[2], name).data(d).asnumpy()
                assert statistic == pytest.approx(getattr(one[2], name).data().asnumpy(), abs=1e-4)
    alone = gluon.utils.split_and_load(x, devs, even_split=False)[0]
    assert onp.isfinite(many(alone).asnumpy()).all()         # prediction needs no other device


def test_sync_batch_norm_says_what_it_waits_for(each_mode, monkeypatch):
    monkeypatch.setattr(engine, "stall_seconds", 1.0)
    net = nn.SyncBatchNorm(in_channels=2)
    net.initialize(device=[mx.cpu(0), mx.cpu(1)])
    with autograd.record():
        y = net(mx.np.ones((3, 2)))
    with pytest.raises(mx.MXNetError, match=r"cpu\(1\)"):
        y.asnumpy()
    with autograd.record():
        z = net(mx.np.zeros((1, 2), device=mx.cpu(1)))
    assert y.asnumpy()[0, 0] > 0 > z.asnumpy()[0, 0]


def test_bad_arguments():
    for bad in (lambda: nn.Conv2D(3, (3, 3, 3)), lambda: nn.Conv1D(3, 3, layout="NWC"),
                lambda: nn.MaxPool2D(layout="NCW"), lambda: nn.LeakyReLU(-1), lambda: nn.ReflectionPad2D((1, 1)),
                lambda: nn.Dense(3, no_such_argument=1), lambda: nn.GELU("none"), lambda: nn.Lambda("no_such_function"),
                lambda: nn.Lambda(3)):
        with pytest.raises((AssertionError, TypeError, ValueError)):
            bad()
    with pytest.raises(mx.MXNetError, match="sparse"):
        nn.Embedding(3, 2, sparse_grad=True)
    net = nn.Dense(3, in_units=4)
    net.initialize()
    with pytest.raises(mx.MXNetError, match="fully_connected|shape"):
        net(mx.np.ones((2, 5)))


def test_layers_copy():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3))
    net.initialize()
    other = copy.deepcopy(net)
    other[0].weight.set_data(onp.zeros((3, 2)))
    assert net[0].weight.data().asnumpy().any() and other[0].weight is not net[0].weight
    assert list(other.collect_params()) == list(net.collect_params())
