"""Two Ray nodes (two raylets on this machine): devices on both, streams over TCP, copies, a training step."""
from __future__ import annotations

import numpy as onp
import pytest

import raynd as mx

pytestmark = [pytest.mark.ray, pytest.mark.cluster]


@pytest.fixture(scope="module")
def two_nodes():
    from ray.cluster_utils import Cluster
    mx.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    mx.init(mode="ray", address=cluster.address, cpu_devices=2)
    yield cluster
    import ray
    mx.shutdown()
    ray.shutdown()
    cluster.shutdown()


def test_devices_are_counted_node_by_node_the_drivers_first(two_nodes):
    for i in range(4):
        mx.np.ones(1, device=mx.cpu(i)).wait_to_read()
    devices = [d for d in mx.devices() if d.device.device_type == "cpu"]
    nodes = [d.node for d in devices]
    assert len(devices) == 4 and nodes[0] == nodes[1] != nodes[2] == nodes[3]
    assert len({d.pid for d in devices}) == 4
    from raynd.engine import engine
    shared = [engine.executor.links[d.device].channel.shared for d in devices]
    assert shared == [True, True, False, False]             # a unix socket here, TCP to the other node


@pytest.mark.parametrize("source, target", [(0, 2), (2, 0), (2, 3), (1, 3)])
@pytest.mark.parametrize("size", [5, 1_000_000])
def test_copies_go_both_ways(two_nodes, source, target, size):
    values = onp.arange(size, dtype="float32")
    x = mx.np.array(values, device=mx.cpu(source)) * 2
    y = x.copyto(mx.cpu(target)) + 1
    assert y.device == mx.cpu(target)
    assert (y.asnumpy() == values * 2 + 1).all()
    x[:] = 0                                                  # a copy, whatever happens to its source
    assert (y.asnumpy() == values * 2 + 1).all()


def test_a_training_step_over_both_nodes_keeps_replicas_equal(two_nodes):
    devices = [mx.cpu(0), mx.cpu(2)]
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize(mx.init.Xavier(), device=devices)
    single = net.weight.data(devices[0]).asnumpy().copy()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    loss_fn = mx.gluon.loss.L2Loss()
    rng = onp.random.default_rng(0)
    x, y = rng.standard_normal((8, 4)).astype("float32"), rng.standard_normal((8, 3)).astype("float32")
    for _ in range(3):
        xs = mx.gluon.utils.split_and_load(mx.np.array(x), devices)
        ys = mx.gluon.utils.split_and_load(mx.np.array(y), devices)
        with mx.autograd.record():
            losses = [loss_fn(net(a), b) for a, b in zip(xs, ys)]
        mx.autograd.backward(losses)
        trainer.step(8)
    first, second = (net.weight.data(d).asnumpy() for d in devices)
    assert (first == second).all() and not (first == single).all()


def test_a_lost_node_is_reported_and_the_other_lives_on(two_nodes):
    from raynd.errors import DeviceLostError
    x = mx.np.ones(3, device=mx.cpu(0))
    y = mx.np.ones(3, device=mx.cpu(3))
    (x + 1).wait_to_read(), (y + 1).wait_to_read()
    two_nodes.remove_node(two_nodes.worker_nodes and next(iter(two_nodes.worker_nodes)))
    with pytest.raises(DeviceLostError, match=r"cpu\(3\)"):
        for _ in range(50):
            (y + 1).asnumpy()
    assert (x + 1).asnumpy().tolist() == [2, 2, 2]
