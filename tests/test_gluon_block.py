"""Blocks: the tree, names, files, hooks, hybridizing, and the idioms of MXNet 1."""
from __future__ import annotations

import warnings

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd, gluon
from raynd.gluon import Block, HybridBlock, Parameter, nn

TWO = [mx.cpu(0), mx.cpu(1)]


def small(**kwargs):
    net = nn.HybridSequential(**kwargs)
    net.add(nn.Dense(4, activation="relu", in_units=3), nn.Dense(2, in_units=4))
    return net


class Scale(HybridBlock):
    """Multiplies by a learned factor for each column, whose number the first input tells."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.factor = Parameter("factor", shape=(0,), init="ones", allow_deferred_init=True)

    def infer_shape(self, x):
        self.factor.shape = (x.shape[1],)

    def forward(self, x):
        return x * self.factor.data(x.device)


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_names():
    net = nn.Sequential()
    net.add(small(), nn.Dense(1))
    net.head = Scale()
    names = ["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias", "1.weight", "1.bias", "head.factor"]
    assert list(net.collect_params()) == names
    assert list(net.collect_params("0.*weight|head")) == ["0.0.weight", "0.1.weight", "head.factor"]
    assert list(net[0].params) == [] and list(net.head.params) == ["factor"]


def test_attributes():
    class Net(Block):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(2)

    net = Net()
    with pytest.raises(TypeError, match="Changing attribute type"):
        net.dense = 3
    net.dense = nn.Dense(5)
    assert [c()._units for c in net._children.values()] == [5]
    net.blocks = [nn.Dense(1)]
    with pytest.warns(UserWarning, match="unregistered container"):
        net.collect_params()
    hybrid = small()
    with pytest.raises(ValueError, match="HybridSequential"):
        hybrid.add(nn.Sequential())


def test_sequential():
    net = nn.HybridSequential()
    net.add(nn.Dense(1, in_units=1), nn.Dropout(0.5), nn.Flatten())
    assert len(net) == 3 and isinstance(net[1], nn.Dropout) and [type(b).__name__ for b in net[1:]] == ["Dropout",
                                                                                                        "Flatten"]
    assert "(0): Dense(1 -> 1, linear)" in repr(net) and "(2): Flatten" in repr(net)
    children = []
    net.apply(lambda block: children.append(type(block).__name__))
    assert children == ["Dense", "Dropout", "Flatten", "HybridSequential"]
    plain = nn.Sequential()
    plain.add(nn.Flatten())
    with pytest.warns(UserWarning, match="HybridSequential"):
        plain.hybridize()


def test_deferred_shapes():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), Scale(), nn.Dense(2, flatten=False))
    net.initialize(device=TWO)
    for device in TWO:
        assert net(mx.np.ones((5, 2, 3), device=device)).shape == (5, 2)
    assert net[0].weight.shape == (4, 6) and net[1].factor.data(mx.cpu(1)).shape == (4,)

    class Forgetful(HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = Parameter("weight", shape=(2, 0), allow_deferred_init=True)

        def forward(self, x):
            return x

    with pytest.raises(RuntimeError, match="infer_shape"):
        Forgetful()(mx.np.ones((1, 1)))


def test_not_initialized():
    with pytest.raises(RuntimeError, match="has not been initialized"):
        small()(mx.np.ones((1, 3)))
    net = small()
    net.initialize(device=mx.cpu(1))
    with pytest.raises(RuntimeError, match=r"not initialized on device cpu\(0\)"):
        net(mx.np.ones((1, 3)))
    with pytest.raises(ValueError, match="must be one NDArray"):
        net(3)
    with pytest.raises(NotImplementedError, match="forward"):
        HybridBlock()(mx.np.ones(1))
    with pytest.raises(NotImplementedError, match="forward"):
        Block()(1)


def test_cast_and_setattr():
    net = small()
    net.add(nn.BatchNorm(in_channels=2))
    net.initialize()
    net.cast("float64")
    assert net(mx.np.ones((2, 3), dtype="float64")).dtype == "float64"
    net.cast("float16")
    assert net[0].weight.dtype == "float16" and net[2].gamma.dtype == "float32"      # statistics keep their range
    net.setattr("lr_mult", 0.1)
    assert {p.lr_mult for p in net.collect_params().values()} == {0.1}
    net.reset_ctx(mx.cpu(1))
    assert net[0].weight.list_device() == [mx.cpu(1)]


def test_sharing():
    shared = nn.Dense(3, in_units=3)
    tied = nn.Dense(3, in_units=3, params=shared.params)
    assert tied.weight is shared.weight and tied.bias is shared.bias
    net, other = small(), small()
    other.share_parameters(net.collect_params("0.*"))
    assert other[0].weight is net[0].weight and other[1].weight is not net[1].weight
    with pytest.warns(UserWarning, match="nothing is not in"):
        other.share_parameters({"nothing": shared.weight})
    with pytest.raises(ValueError, match="Dict"):
        other.share_parameters([1])
    with pytest.raises(AssertionError, match="shape"):
        nn.Dense(4, in_units=3, params=shared.params)


# -- files -------------------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    file = str(tmp_path / "net.params")
    net = small()
    net.initialize(device=TWO)
    net.save_parameters(file)
    for load in (lambda n: n.load_parameters(file, ctx=TWO), lambda n: n.load_parameters(file, device=mx.cpu(1)),
                 lambda n: n.collect_params().load(file)):
        again = nn.HybridSequential()
        again.add(nn.Dense(4, activation="relu"), nn.Dense(2))       # shapes come from the file
        load(again)
        device = again[0].weight.list_device()[-1]
        assert (again[1].weight.data(device).asnumpy() == net[1].weight.data(device).asnumpy()).all()
        assert again(mx.np.ones((1, 3), device=device)).shape == (1, 2)
    net.collect_params().save(str(tmp_path / "dict"))
    again.load_parameters(str(tmp_path / "dict"))
    net.save(str(tmp_path / "whole"))
    again = small()
    again.load(str(tmp_path / "whole"))
    with pytest.raises(ValueError, match="another structure"):
        nn.Dense(1).load(str(tmp_path / "whole"))


def test_loading_what_does_not_fit(tmp_path):
    file = str(tmp_path / "net.params")
    net = small()
    net.initialize()
    net.save_parameters(file)
    wide = nn.HybridSequential()
    wide.add(nn.Dense(5, in_units=3), nn.Dense(2, in_units=4))
    with pytest.raises(AssertionError, match=r"0.weight.*shape"):
        wide.load_parameters(file)
    deep = small()
    deep.add(nn.Dense(1, in_units=2))
    with pytest.raises(AssertionError, match="2.weight.*missing"):
        deep.load_parameters(file)
    deep.load_parameters(file, allow_missing=True)
    shallow = nn.HybridSequential()
    shallow.add(nn.Dense(4, in_units=3))
    with pytest.raises(ValueError, match="1.weight"):
        shallow.load_parameters(file)
    shallow.load_parameters(file, ignore_extra=True)
    double = small()
    double.cast("float64")
    with pytest.raises(AssertionError, match="cast_dtype"):
        double.load_parameters(file)
    double.load_parameters(file, cast_dtype=True)
    assert double[0].weight.data().dtype == "float64"
    double = small()
    double.cast("float64")
    double.load_parameters(file, cast_dtype=True, dtype_source="saved")
    assert double[0].weight.data().dtype == "float32"
    with pytest.raises(AssertionError, match="previous initialized"):
        net.load_parameters(file, device=mx.cpu(2))


def test_deduplicated_file(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3))
    net.add(nn.Dense(3, in_units=3).share_parameters(net[0].params))
    net.initialize()
    net.save_parameters(str(tmp_path / "all"))
    net.save_parameters(str(tmp_path / "once"), deduplicate=True)
    assert len(mx.npx.load(str(tmp_path / "all"))) == 4 and len(mx.npx.load(str(tmp_path / "once"))) == 2
    net.load_parameters(str(tmp_path / "once"))


# -- hooks and summary -------------------------------------------------------------------------------------------------


def test_hooks():
    net, seen = small(), []
    net.initialize()
    before = net.register_forward_pre_hook(lambda block, inputs: seen.append(("before", len(inputs))))
    with net[1].register_forward_hook(lambda block, inputs, output: seen.append(("after", output.shape))):
        net(mx.np.ones((5, 3)))
    net(mx.np.ones((5, 3)))
    before.detach()
    net(mx.np.ones((5, 3)))
    assert seen == [("before", 1), ("after", (5, 2)), ("before", 1)]
    with pytest.raises(TypeError):
        net.register_forward_hook(3)
    with pytest.raises(mx.MXNetError, match="register_forward_hook"):
        net.register_op_hook(print)


def test_summary(capsys):
    net = small()
    net.initialize()
    net.summary(mx.np.ones((5, 3)))
    text = capsys.readouterr().out
    assert "Dense-2" in text and "(5, 2)" in text and "Total params: 26" in text
    assert not net[0]._forward_hooks
    net.hybridize()
    with pytest.raises(AssertionError, match="hybridized"):
        net.summary(mx.np.ones((5, 3)))


# -- hybridizing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("static", [False, True])
def test_hybrid_is_the_same(static):
    net = small()
    net.add(Scale(), nn.Dropout(0.3))
    net.initialize(device=TWO)
    results = []
    for hybrid in (False, True, True):
        if hybrid:
            net.hybridize(static_alloc=static, static_shape=static)
        mx.random.seed(1)
        x = mx.np.array(onp.linspace(-1, 1, 12).reshape(4, 3), device=mx.cpu(1))
        x.attach_grad()
        with autograd.record():
            y = net(x)
            z = net(x)                                       # two calls, then one backward through both
            total = y.sum() + z.sum()
        total.backward()
        results.append([y.asnumpy(), x.grad.asnumpy(), net[0].weight.grad(mx.cpu(1)).asnumpy(),
                        net(x).asnumpy()])
    for other in results[1:]:
        for a, b in zip(results[0], other):
            assert a == pytest.approx(b, abs=1e-6)


def test_programs_see_new_values_and_new_arrays():
    net = small()
    net.initialize()
    net.hybridize()
    x = mx.np.ones((1, 3))
    first = net(x).asnumpy()
    net[0].weight.set_data(net[0].weight.data() * 2)
    assert net(x).asnumpy() == pytest.approx(first * 2, abs=1e-6)
    net.initialize("zeros", force_reinit=True)               # the parameter has other arrays now
    assert not net(x).asnumpy().any()
    net.initialize("ones", force_reinit=True, device=mx.cpu(1))
    assert net(mx.np.ones((1, 3), device=mx.cpu(1))).asnumpy().all()
    net.setattr("grad_req", "null")
    with autograd.record():
        net(mx.np.ones((1, 3), device=mx.cpu(1)))
    net.setattr("grad_req", "write")
    with autograd.record():
        y = net(mx.np.ones((1, 3), device=mx.cpu(1)))
    y.backward()
    assert net[0].weight.grad(mx.cpu(1)).asnumpy().any()


def test_changes_end_hybridizing():
    net = small()
    net.initialize()
    net.hybridize()
    net(mx.np.ones((1, 3)))
    with pytest.warns(UserWarning, match="deactivate"):
        net.add(nn.Dense(1, in_units=2))
    net[2].initialize()
    assert net(mx.np.ones((1, 3))).shape == (1, 1) and not net._active
    net.hybridize()
    with pytest.warns(UserWarning, match="deactivate"):
        net.cast("float64")
    net.hybridize(False)
    with pytest.raises(mx.MXNetError, match="backend"):
        net.hybridize(backend="other")
    with pytest.raises(TypeError):
        net.hybridize(no_such_flag=True)


def test_structures_and_none():
    class Pair(HybridBlock):
        def forward(self, x, pair=None, scale=1):
            a, b = pair if pair is not None else (x, x)
            return x + a * scale, [a, (b, None)]

    eager, hybrid = Pair(), Pair()
    hybrid.hybridize()
    x, y = mx.np.ones(2), mx.np.full((2,), 2.0)
    for args in ((x,), (x, (y, x)), (x, [y, x], 3), (x, None)):
        for a, b in zip(eager(*args), hybrid(*args)):
            if isinstance(a, list):
                assert (a[0].asnumpy() == b[0].asnumpy()).all() and b[1][1] is None
            else:
                assert (a.asnumpy() == b.asnumpy()).all()


def test_a_block_that_reads_values_stays_eager():
    class Branch(HybridBlock):
        def forward(self, x):
            return x * 2 if x.sum().item() > 0 else x * 3

    net = Branch()
    net.hybridize()
    with pytest.warns(mx.errors.FallbackWarning, match="stays eager"):
        assert net(mx.np.ones(1)).item() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net(-mx.np.ones(1)).item() == -3


def test_symbols_are_refused_clearly():
    with pytest.raises(mx.MXNetError, match="mx.sym"):
        gluon.SymbolBlock.imports("a", ["data"])
    with pytest.raises(mx.MXNetError, match="save_parameters"):
        small().export("a")


# -- MXNet 1 -----------------------------------------------------------------------------------------------------------


def test_legacy_blocks():
    class Legacy(HybridBlock):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(units, 3), init="ones")
                self.scale = self.params.get_constant("scale", mx.nd.array([2.0]))
                self.dense = nn.Dense(2, in_units=units, prefix="inner_")

        def hybrid_forward(self, F, x, weight, scale):
            return self.dense(F.FullyConnected(x, weight, num_hidden=4, no_bias=True) * scale)

    net = Legacy(4, prefix="legacy_")
    assert net.prefix == "legacy_" and net.name == "legacy" and net.dense.prefix == "inner_"
    assert nn.Dense(1).prefix.startswith("dense")
    assert sorted(net.collect_params()) == ["dense.bias", "dense.weight", "scale", "weight"]
    net.collect_params().initialize(mx.init.One(), ctx=mx.cpu(0))
    for array in (mx.nd.ones((2, 3)), mx.np.ones((2, 3))):
        for hybrid in (False, True):
            net.hybridize(hybrid)
            y = net(array)
            assert type(y) is type(array) and (y.asnumpy() == 24).all()


def test_legacy_training_loop():
    net = nn.HybridSequential(prefix="model_")
    with net.name_scope():
        net.add(nn.Dense(10, activation="relu", prefix="dense_"), nn.Dense(1))
    net.collect_params().initialize(mx.init.Xavier(), ctx=mx.cpu())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    x, y = mx.nd.random.uniform(shape=(32, 4)), mx.nd.ones((32, 1))
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(x), y)
        loss.backward()
        trainer.step(32)
        losses.append(loss.mean().asscalar())
    assert losses[-1] < losses[0] / 2
    assert isinstance(loss, mx.nd.NDArray) and not isinstance(loss, mx.np.ndarray)
