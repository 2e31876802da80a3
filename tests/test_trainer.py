"""Training steps over several devices, in local mode and on Ray actors."""
from __future__ import annotations

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd, gluon
from raynd.gluon import nn
from raynd.kvstore.collective import all_reduce, buckets

X = onp.random.RandomState(0).rand(12, 3).astype("float32")
Y = onp.random.RandomState(1).rand(12, 1).astype("float32")


def devices(count):
    return [mx.cpu(i) for i in range(count)]


def network(devs, hybrid=False):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="tanh", in_units=3), nn.Dense(1, in_units=4))
    net.initialize(mx.init.Constant(0.1), device=devs)
    if hybrid:
        net.hybridize()
    return net


def forward_backward(net, devs, x=X, y=Y):
    xs = gluon.utils.split_and_load(x, devs, even_split=False)
    ys = gluon.utils.split_and_load(y, devs, even_split=False)
    with autograd.record():
        losses = [gluon.loss.L2Loss()(net(a), b) for a, b in zip(xs, ys)]
    autograd.backward(losses)
    return losses


def weights(net, devs):
    """One vector of all parameters for each device."""
    return [onp.concatenate([p.data(d).asnumpy().reshape(-1) for p in net.collect_params().values()]) for d in devs]


def assert_replicas_equal(net, devs):
    first, *others = weights(net, devs)
    assert all((first == w).all() for w in others)
    return first


@pytest.mark.parametrize("name, settings", [("sgd", {"learning_rate": 0.1, "momentum": 0.9}), ("adam", {})])
@pytest.mark.parametrize("hybrid", [False, True])
def test_devices_do_not_change_the_result(each_mode, name, settings, hybrid):
    results = []
    for count in (1, 2, 3):
        devs = devices(count)
        net = network(devs, hybrid)
        trainer = gluon.Trainer(net.collect_params(), name, dict(settings))
        for _ in range(4):
            forward_backward(net, devs)
            trainer.step(len(X))
        results.append(assert_replicas_equal(net, devs))
    assert abs(results[1] - results[0]).max() < 1e-5
    assert abs(results[2] - results[0]).max() < 1e-5


def test_fewer_samples_than_devices(each_mode):
    one, four = network(devices(1)), network(devices(4))
    for net in (one, four):
        devs = net[0].weight.list_device()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        forward_backward(net, devs, X[:2], Y[:2])
        trainer.step(2)
    assert abs(assert_replicas_equal(four, devices(4)) - weights(one, devices(1))[0]).max() < 1e-6


def test_bad_batch_destroys_nothing(each_mode):
    """A kernel fails in the middle of a step: the model keeps its values on every device, the error is raised once at
    the latest by the next step, and training goes on."""
    devs = devices(2)
    net = network(devs)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    forward_backward(net, devs)
    trainer.step(len(X))
    before = assert_replicas_equal(net, devs)
    xs = gluon.utils.split_and_load(X, devs)
    ys = gluon.utils.split_and_load(Y, devs)
    with autograd.record():
        noise = [mx.np.zeros((1,), device=devs[0]), mx.np.random.normal(0, -1, size=(1,), device=devs[1])]
        losses = [gluon.loss.L2Loss()(net(x) + n, y) for x, n, y in zip(xs, noise, ys)]
    autograd.backward(losses)
    with pytest.raises((mx.MXNetError, ValueError), match="normal|scale"):
        trainer.step(len(X))
        mx.waitall()
    assert (assert_replicas_equal(net, devs) == before).all()
    forward_backward(net, devs)
    trainer.step(len(X))
    after = assert_replicas_equal(net, devs)
    assert onp.isfinite(after).all() and (after != before).any()


def test_a_step_is_few_messages(each_mode):
    devs = devices(2)
    net = network(devs, hybrid=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for _ in range(3):
        forward_backward(net, devs)
        trainer.step(len(X))
    mx.waitall()
    mx.engine.stats(reset=True)
    steps = 10
    if each_mode == "ray":
        for _ in range(steps):
            forward_backward(net, devs)
            trainer.step(len(X))
        counts = mx.engine.stats()
        assert all(counts[str(d)]["messages"] <= 3 * steps for d in devs), counts


def test_clipping_between_reduce_and_update(each_mode):
    devs = devices(2)
    net = network(devs)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
    forward_backward(net, devs)
    trainer.allreduce_grads()
    before = weights(net, devs)[0]
    for d in devs:
        gluon.utils.clip_global_norm([p.grad(d) for p in net.collect_params().values()], 1e-3)
    trainer.update(1)
    assert onp.linalg.norm(assert_replicas_equal(net, devs) - before) == pytest.approx(1e-3, rel=1e-2)


def test_gradients_stay_as_they_are_by_default():
    """With updates on the store (the default on several devices) a step leaves each device's own gradient."""
    devs = devices(2)
    net = network(devs)
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    forward_backward(net, devs)
    own = [net[1].weight.grad(d).asnumpy() for d in devs]
    trainer.step(len(X))
    assert all((net[1].weight.grad(d).asnumpy() == g).all() for d, g in zip(devs, own))
    for call in (trainer.allreduce_grads, lambda: trainer.update(1)):
        with pytest.raises(AssertionError, match="update_on_kvstore"):
            call()


def test_stale_gradients_are_all_named():
    devs = devices(2)
    net = nn.Sequential()
    net.add(nn.Dense(1, in_units=1), nn.Dense(1, in_units=1))
    net.initialize(device=devs)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = net[0](mx.np.ones((1, 1)))
    loss.backward()
    before = weights(net, devs)[0]
    with pytest.raises(UserWarning, match="has not been updated by backward") as raised:
        trainer.step(1)
    assert all(name in str(raised.value) for name in ("1.weight", "1.bias", "0.weight", "cpu(1)"))
    assert (weights(net, devs)[0] == before).all()           # nothing was changed
    trainer.step(1, ignore_stale_grad=True)
    after = assert_replicas_equal(net, devs)
    assert (after != before).tolist() == [True, True, False, False]


def test_grad_add_accumulates_over_devices():
    devs = devices(2)
    net = network(devs)
    net.setattr("grad_req", "add")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for half in (slice(0, 6), slice(6, 12)):
        forward_backward(net, devs, X[half], Y[half])
    trainer.step(len(X))
    one = network(devices(1))
    reference = gluon.Trainer(one.collect_params(), "sgd", {"learning_rate": 0.1})
    forward_backward(one, devices(1))
    reference.step(len(X))
    assert abs(assert_replicas_equal(net, devs) - weights(one, devices(1))[0]).max() < 1e-6
    net.zero_grad()
    assert net[0].weight.grad(devs[1]).asnumpy().any() == False     # noqa: E712


def test_states_round_trip(tmp_path):
    devs = devices(2)
    file = str(tmp_path / "states")
    net = network(devs)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    for _ in range(2):
        forward_backward(net, devs)
        trainer.step(len(X))
    trainer.save_states(file)
    net.save_parameters(str(tmp_path / "params"))
    forward_backward(net, devs)
    trainer.step(len(X))
    expected = assert_replicas_equal(net, devs)
    for count in (2, 3):                                     # on as many devices, and on more
        again = network(devices(count))
        again.load_parameters(str(tmp_path / "params"))
        other = gluon.Trainer(again.collect_params(), "adam", {"learning_rate": 0.9})
        other.load_states(file)
        assert other.learning_rate == 0.05 and other.optimizer.num_update == 2
        forward_backward(again, devices(count))
        other.step(len(X))
        assert abs(assert_replicas_equal(again, devices(count)) - expected).max() < 1e-5


def test_own_store():
    calls = []

    class Doubling(mx.kv.KVStoreBase):
        """Gives twice the sum."""
        type = "doubling"

        def broadcast(self, key, value, out, priority=0):
            calls.append(("broadcast", key))

        def pushpull(self, key, value, out=None, priority=0):
            calls.append(("pushpull", key))
            total = sum(v.asnumpy() for v in value) * 2
            for target in out or value:
                target[:] = mx.np.array(total, device=target.device)

        @staticmethod
        def is_capable(capability):
            return False

    devs = devices(2)
    parameter = gluon.Parameter("w", shape=(2,))
    parameter.initialize(mx.init.Zero(), device=devs)
    trainer = gluon.Trainer([parameter], "sgd", {"learning_rate": 1.0}, kvstore=Doubling())
    with autograd.record():
        losses = [w * 1 for w in parameter.list_data()]
    autograd.backward(losses)
    trainer.step(1)
    assert calls == [("broadcast", 0), ("pushpull", 0)]
    assert all(parameter.data(d).asnumpy().tolist() == [-4, -4] for d in devs)


def test_arguments():
    parameter = gluon.Parameter("w", shape=(2,))
    parameter.initialize()
    other = gluon.Parameter("v", shape=(2,))
    with pytest.raises(RuntimeError, match="has not been initialized"):
        gluon.Trainer([other], "sgd")
    other.initialize(device=mx.cpu(1))
    with pytest.raises(AssertionError, match="same set of devices"):
        gluon.Trainer([parameter, other], "sgd")
    for bad in ("w", [1]):
        with pytest.raises(ValueError, match="First argument"):
            gluon.Trainer(bad, "sgd")
    with pytest.raises(mx.MXNetError, match="compression"):
        gluon.Trainer([parameter], "sgd", compression_params={"type": "2bit"})
    with pytest.raises(AssertionError):
        gluon.Trainer([parameter], mx.optimizer.SGD(), {"learning_rate": 1})
    trainer = gluon.Trainer([parameter], "sgd", kvstore=7)
    with pytest.raises(TypeError, match="kvstore"):
        trainer.step(1)
    trainer = gluon.Trainer([parameter], "sgd", kvstore="dist_sync")
    with pytest.raises(mx.MXNetError, match="one driver"):
        trainer.step(1)


def test_all_reduce_buckets(each_mode):
    devs = devices(3)
    host = [onp.asarray(onp.random.rand(*shape), dtype) for shape, dtype in
            (((3, 2), "float32"), ((4,), "float64"), ((), "float32"), ((0, 2), "float32"))]
    arrays = [[mx.np.array(x * (i + 1), dtype=x.dtype, device=d) for i, d in enumerate(devs)] for x in host]
    assert buckets(arrays, limit=1 << 20) == [[0, 2, 3], [1]]
    assert buckets(arrays, limit=24) == [[0], [1], [2, 3]] or buckets(arrays, limit=24)[0] == [0]
    fresh = all_reduce(arrays, in_place=False)
    assert arrays[0][1].asnumpy() == pytest.approx(host[0] * 2)
    all_reduce(arrays)
    for x, copies, others in zip(host, arrays, fresh):
        assert all((copies[0].asnumpy() == c.asnumpy()).all() for c in (*copies, *others))
        assert copies[0].asnumpy() == pytest.approx(x * 6, rel=1e-6)
    with pytest.raises(ValueError, match="shapes"):
        all_reduce([[mx.np.ones((2,)), mx.np.ones((3,), device=mx.cpu(1))]])
    with pytest.raises(ValueError, match="twice"):
        all_reduce([[mx.np.ones((2,)), mx.np.ones((2,))]])


def test_stores():
    kv = mx.kv.create("device")
    values = [mx.np.full((2,), i + 1.0, device=d) for i, d in enumerate(devices(3))]
    outs = [mx.np.zeros((2,), device=d) for d in devices(3)]
    kv.broadcast("a", mx.np.ones((2,)), out=outs)
    assert outs[2].asnumpy().tolist() == [1, 1]
    kv.pushpull("a", values, out=outs)
    assert all(o.asnumpy().tolist() == [6, 6] for o in outs) and values[1].asnumpy().tolist() == [2, 2]
    kv.pushpull("a", values)
    assert all(v.asnumpy().tolist() == [6, 6] for v in values)
    kv.push("a", [values[0], values[0]])                     # both on one device
    kv.pull("a", out=outs[1])
    assert outs[1].asnumpy().tolist() == [12, 12]
    kv.set_updater(lambda key, total, stored: stored.__iadd__(total))
    kv.pushpull("a", values[0], out=outs)
    assert outs[0].asnumpy().tolist() == [18, 18]
    for bad, error in ((lambda: kv.pull("b", out=outs), "initialised"), (lambda: kv.init("a", values[0]), "already"),
                       (lambda: kv.init(1, values[0]), "all strings"), (lambda: mx.kv.create("dist_sync"), "driver"),
                       (lambda: kv.set_gradient_compression({"type": "2bit"}), "compression"),
                       (lambda: mx.kv.create("none such"), "no kvstore")):
        with pytest.raises(mx.MXNetError, match=error):
            bad()
