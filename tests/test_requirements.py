"""What documents on devices, data movement, NDArray and a first training loop promise users, one test an item, in local
mode and on Ray actors. GPUs are simulated, so that scripts for several of them run anywhere."""
from __future__ import annotations

import contextvars
import os
import threading
import traceback
import warnings

import numpy
import pytest

import raynd as mx
from raynd import autograd, gluon, nd, np

RUNTIME_OPTIONS = {"cpu_devices": 4, "simulate_gpus": 3}
pytestmark = pytest.mark.usefixtures("each_mode")

SHAPE = (2, 3)


def both_kinds(values, device=None):
    """The values as an array of mx.nd and as one of mx.np."""
    return [nd.array(values, ctx=device), np.array(values, device=device)]


# -- the runtime -------------------------------------------------------------------------------------------------------

def test_every_device_is_an_actor_of_its_own(each_mode):
    used = [mx.cpu(0), mx.cpu(1), mx.gpu(0), mx.gpu(1)]
    for device in used:
        np.ones(SHAPE, device=device).asnumpy()
    pids = {info.pid for info in mx.devices() if info.device in used}
    assert pids == {os.getpid()} if each_mode == "local" else len(pids) == 4 and os.getpid() not in pids


def test_an_array_lives_and_is_computed_on_its_device():
    before = mx.engine.stats()
    x = np.ones(SHAPE, device=mx.gpu(1)) * 3
    assert (x.asnumpy() == 3).all()
    after = mx.engine.stats()
    assert {d for d in after if after[d]["commands"] != before.get(d, {"commands": 0})["commands"]} == {"gpu(1)"}


# -- devices -----------------------------------------------------------------------------------------------------------

def test_device_names_itself():
    device = mx.Device("gpu", 2)
    assert (device.device_type, device.device_id, str(device), repr(device)) == ("gpu", 2, "gpu(2)", "gpu(2)")
    assert device == mx.gpu(2) and hash(device) == hash(mx.gpu(2)) and {device: 1}[mx.gpu(2)] == 1
    assert device != mx.gpu(1) and device != mx.cpu(2) and not device == "gpu(2)"
    assert mx.Device(device) == device
    assert mx.cpu() == mx.cpu(0) and mx.gpu() == mx.gpu(0)
    assert mx.cpu_pinned().device_type == "cpu_pinned" and mx.cpu_shared().device_type == "cpu_shared"
    assert mx.Device.devtype2str == {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    assert mx.Device.devstr2type["gpu"] == 2 and mx.gpu(0).device_typeid == 2


def test_the_former_name_of_device_is_deprecated():
    with pytest.warns(DeprecationWarning, match="Device"):
        assert mx.Context("gpu", 1) == mx.gpu(1)
    with pytest.warns(DeprecationWarning, match="Device"):
        assert mx.context.Context("cpu", 0) == mx.cpu(0)
    assert mx.context.num_gpus() == mx.num_gpus() == 3


CREATORS = {
    "nd.ones": lambda d: nd.ones(SHAPE, ctx=d), "nd.ones positional": lambda d: nd.ones(SHAPE, d),
    "nd.zeros": lambda d: nd.zeros(SHAPE, ctx=d), "nd.empty": lambda d: nd.empty(SHAPE, d),
    "nd.full": lambda d: nd.full(SHAPE, 3, d), "nd.array": lambda d: nd.array([[1, 2]], d),
    "nd.arange": lambda d: nd.arange(6, ctx=d), "nd.eye": lambda d: nd.eye(3, ctx=d),
    "nd.linspace": lambda d: nd.linspace(0, 1, 5, ctx=d),
    "nd.random.uniform": lambda d: nd.random.uniform(0, 1, SHAPE, ctx=d),
    "nd.random.normal": lambda d: nd.random.normal(0, 1, SHAPE, ctx=d),
    "nd.random.randint": lambda d: nd.random.randint(0, 9, SHAPE, ctx=d),
    "nd.random.poisson": lambda d: nd.random.poisson(2, SHAPE, ctx=d),
    "nd.random.exponential": lambda d: nd.random.exponential(2, SHAPE, ctx=d),
    "nd.random.gamma": lambda d: nd.random.gamma(2, 1, SHAPE, ctx=d),
    "np.ones": lambda d: np.ones(SHAPE, device=d), "np.ones ctx": lambda d: np.ones(SHAPE, ctx=d),
    "np.zeros": lambda d: np.zeros(SHAPE, device=d), "np.empty": lambda d: np.empty(SHAPE, device=d),
    "np.full": lambda d: np.full(SHAPE, 3, device=d), "np.array": lambda d: np.array([[1, 2]], device=d),
    "np.arange": lambda d: np.arange(6, device=d), "np.eye": lambda d: np.eye(3, device=d),
    "np.identity": lambda d: np.identity(3, device=d), "np.linspace": lambda d: np.linspace(0, 1, 5, device=d),
    "np.logspace": lambda d: np.logspace(0, 1, 5, device=d), "np.tri": lambda d: np.tri(3, device=d),
    "np.indices": lambda d: np.indices(SHAPE, device=d),
    "np.random.uniform": lambda d: np.random.uniform(0, 1, SHAPE, device=d),
    "np.random.normal": lambda d: np.random.normal(0, 1, SHAPE, device=d),
    "np.random.randint": lambda d: np.random.randint(0, 9, SHAPE, device=d),
    "np.random.rand": lambda d: np.random.rand(2, 3, device=d),
    "np.random.gamma": lambda d: np.random.gamma(2, 1, SHAPE, device=d),
    "np.random.choice": lambda d: np.random.choice(5, SHAPE, device=d),
}


@pytest.mark.parametrize("name", CREATORS)
def test_every_creator_takes_a_device(name):
    for device in (mx.gpu(1), mx.cpu(1)):
        x = CREATORS[name](device)
        assert x.device == x.ctx == x.context == device
        x.wait_to_read()
    with mx.gpu(2):
        assert CREATORS[name](None).device == mx.gpu(2)


def test_the_current_device_switches_and_returns():
    assert mx.current_device() == mx.cpu(0) == mx.default_context()
    with mx.Device(mx.gpu(2)):
        assert nd.ones(SHAPE).ctx == np.ones(SHAPE).device == mx.gpu(2)
        with mx.gpu(1), mx.cpu(1):
            assert mx.current_device() == mx.cpu(1)
        assert mx.current_device() == mx.gpu(2) == mx.npx.current_device()
        with pytest.raises(KeyError), mx.cpu(1):
            raise KeyError
        assert mx.current_device() == mx.gpu(2)
    assert mx.current_device() == mx.cpu(0)


def test_the_current_device_belongs_to_a_thread_and_a_task():
    seen = []
    with mx.gpu(1):
        thread = threading.Thread(target=lambda: seen.append(mx.current_device()))
        thread.start()
        thread.join()
        task = contextvars.copy_context()
    assert seen == [mx.cpu(0)]
    assert task.run(mx.current_device) == mx.gpu(1)


def test_gpus_are_counted_and_measured():
    assert mx.num_gpus() == mx.npx.num_gpus() == 3
    free, total = mx.gpu_memory_info(1)
    assert 0 <= free <= total and isinstance(free, int) and isinstance(total, int)
    assert len(mx.npx.gpu_memory_info(0)) == 2


def test_a_device_that_is_not_there():
    with pytest.raises(mx.MXNetError, match=r"gpu\(7\).*3 gpu devices"):
        nd.ones(SHAPE, ctx=mx.gpu(7))
    with pytest.raises(mx.MXNetError):
        mx.gpu_memory_info(7)


# -- data movement -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", [0, 1], ids=["nd", "np"])
@pytest.mark.parametrize("target", ["cpu(0)", "cpu(1)", "gpu(0)", "gpu(1)"])
def test_copyto_a_device_is_always_a_new_array(kind, target):
    device = mx.Device(target[:3], int(target[4]))
    x = both_kinds([[1.0, 2.0]], mx.gpu(0))[kind]
    y = x.copyto(device)
    assert y is not x and y.device == device and type(y) is type(x)
    x[:] = 7
    assert y.asnumpy().tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("kind", [0, 1], ids=["nd", "np"])
def test_copyto_an_array_writes_into_it(kind):
    x = both_kinds([[1.0, 2.0]], mx.gpu(0))[kind]
    for target in (both_kinds([[0, 0]], mx.gpu(1))[kind], both_kinds([[0, 0]], mx.gpu(0))[kind]):
        device = target.device
        assert x.copyto(target) is target
        assert target.device == device and (target.asnumpy() == x.asnumpy()).all()
    with pytest.raises(mx.MXNetError, match="shape"):
        x.copyto(both_kinds([[0, 0, 0]], mx.gpu(1))[kind])
    with pytest.warns(RuntimeWarning, match="itself"):
        assert x.copyto(x) is False
    for wrong in ("gpu(0)", 1, None, numpy.zeros((1, 2))):
        with pytest.raises(TypeError):
            x.copyto(wrong)


@pytest.mark.parametrize("kind", [0, 1], ids=["nd", "np"])
def test_copy_stays_on_the_device(kind):
    x = both_kinds([[1.0, 2.0]], mx.gpu(1))[kind]
    y = x.copy()
    assert y is not x and y.device == x.device
    y[:] = 0
    assert x.asnumpy().tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("method", ["as_in_context", "as_in_ctx", "to_device"])
def test_moving_where_it_already_is_returns_the_array(method):
    for x in both_kinds([1.0, 2.0], mx.gpu(0)):
        if method == "to_device" and type(x) is nd.NDArray:
            continue
        move = getattr(x, method)
        assert move(mx.gpu(0)) is x and id(move(mx.Device("gpu", 0))) == id(x)
        for device in (mx.gpu(1), mx.cpu(0)):
            y = move(device)
            assert y is not x and y.device == device and y.asnumpy().tolist() == [1.0, 2.0]


def test_a_result_is_where_its_inputs_are():
    for x in both_kinds([[1.0, 2.0], [3.0, 4.0]], mx.gpu(1)):
        with mx.cpu(1):                                   # whatever the current device is
            for y in (x + 1, 2 * x, x @ x, x.sum(), x[0], -x, x > 1, mx.npx.relu(x), x.T, x.astype("int32")):
                assert y.device == mx.gpu(1), y
            assert nd.zeros_like(x).device == mx.gpu(1) and np.ones_like(x).device == mx.gpu(1)


def test_arrays_of_different_devices_do_not_meet():
    for there in (mx.gpu(0), mx.cpu(1)):
        for x, z in zip(both_kinds([1.0], mx.cpu(0)), both_kinds([1.0], there)):
            with pytest.raises(mx.MXNetError, match=rf"cpu\(0\) and {there.device_type}\(\d\)"):
                x + z
            with pytest.raises(mx.MXNetError, match=r"cpu\(0\)"):
                x += z
    with pytest.raises(mx.MXNetError, match=r"gpu\(1\)"):
        nd.dot(nd.ones((3, 3), ctx=mx.gpu(0)), nd.ones((3, 3), ctx=mx.gpu(1)))


# -- data-parallel training --------------------------------------------------------------------------------------------

def test_data_parallel_by_hand():
    """Parameters on every GPU, slices moved with as_in_context, gradients combined: as on one device."""
    devices = [mx.gpu(i) for i in range(mx.num_gpus())]
    x, y = numpy.random.rand(12, 4).astype("f"), numpy.random.rand(12, 1).astype("f")
    weight = nd.array(numpy.random.rand(1, 4))

    def gradient(data, label, w):
        w.attach_grad()
        with autograd.record():
            loss = ((nd.dot(data, w.T) - label) ** 2).sum()
        loss.backward()
        return w.grad

    whole = gradient(nd.array(x), nd.array(y), weight.copy()).asnumpy()
    parts = []
    for i, device in enumerate(devices):
        rows = slice(4 * i, 4 * i + 4)
        data, label = nd.array(x)[rows].as_in_context(device), nd.array(y)[rows].as_in_context(device)
        assert data.ctx == device
        parts.append(gradient(data, label, weight.copyto(device)))
        assert parts[-1].ctx == device
    total = sum(part.as_in_context(mx.cpu()) for part in parts)
    numpy.testing.assert_allclose(total.asnumpy(), whole, rtol=1e-5)


def test_parameters_move_between_nets():
    host, there = gluon.nn.Dense(2, in_units=3), gluon.nn.Dense(2, in_units=3)
    host.initialize(mx.init.Xavier(), device=mx.cpu())
    there.initialize(device=mx.gpu(1))
    for source, target in zip(host.collect_params().values(), there.collect_params().values()):
        target.set_data(source.data().as_in_context(mx.gpu(1)))
        assert target.data().device == mx.gpu(1) and (target.data().asnumpy() == source.data().asnumpy()).all()


def test_a_trainer_shards_batches_over_gpus():
    devices = [mx.gpu(i) for i in range(3)]
    x, y = numpy.random.rand(12, 4).astype("f"), numpy.random.randint(0, 2, 12)
    start = numpy.random.rand(2, 4).astype("f")

    def train(devices):
        net = gluon.nn.Dense(2, in_units=4, use_bias=False)
        net.initialize(device=devices)
        net.weight.set_data(np.array(start))
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9})
        loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
        for _ in range(4):
            xs, ys = (gluon.utils.split_and_load(np.array(a), devices) for a in (x, y))
            assert [a.device for a in xs] == devices
            with autograd.record():
                losses = [loss_fn(net(a), b) for a, b in zip(xs, ys)]
            autograd.backward(losses)
            trainer.step(len(x))
        return [w.asnumpy() for w in net.weight.list_data()]

    one, several = train([mx.cpu(0)]), train(devices)
    assert all((replica == several[0]).all() for replica in several)
    numpy.testing.assert_allclose(several[0], one[0], rtol=1e-5, atol=1e-6)


# -- NDArray -----------------------------------------------------------------------------------------------------------

def test_nd_array_of_anything():
    for source in ([1, 2, 3], (1, 2, 3), numpy.array([1, 2, 3], dtype="float32"), nd.array([1, 2, 3])):
        x = nd.array(source)
        assert x.dtype is numpy.float32 and x.asnumpy().tolist() == [1, 2, 3] and type(x) is nd.NDArray
    assert nd.array([[1, 2], [3, 4]]).shape == (2, 2)
    assert nd.array(numpy.array([1, 2])).dtype is numpy.float32
    assert nd.array(numpy.array([1, 2]), ctx=mx.gpu(1), dtype="int32").dtype is numpy.int32
    assert nd.array(nd.array([1], ctx=mx.gpu(1)), ctx=mx.gpu(2)).ctx == mx.gpu(2)


def test_printing(capsys):
    for device in (mx.cpu(), mx.gpu(1)):
        print(nd.zeros((3, 4), ctx=device))
        row = "[0. 0. 0. 0.]"
        assert capsys.readouterr().out.strip() == f"[{row}\n {row}\n {row}]\n<ndarray shape=(3, 4) {device}>"
    x = nd.random.normal(loc=0, scale=1, shape=(3, 4), ctx=mx.cpu())
    print(x.shape, x.size, x.dtype, x.context)
    assert capsys.readouterr().out == "(3, 4) 12 <class 'numpy.float32'> cpu(0)\n"


def test_creators():
    assert nd.empty((2, 3)).shape == (2, 3)
    assert nd.full((2, 3), 8.0).asnumpy().tolist() == [[8.0] * 3] * 2
    assert nd.arange(2, 8, 2).asnumpy().tolist() == [2, 4, 6] and nd.arange(3).dtype is numpy.float32
    x = nd.arange(6).reshape((2, 3))
    assert nd.zeros_like(x).asnumpy().sum() == 0 and nd.ones_like(x).asnumpy().sum() == 6
    x = nd.full(x.shape, 10, ctx=x.context, dtype="int32")
    assert x.dtype is numpy.int32 and nd.ones_like(x).dtype is numpy.int32


RANDOM = ("uniform", "normal", "randn", "poisson", "exponential", "gamma", "negative_binomial",
          "generalized_negative_binomial", "multinomial", "shuffle", "randint")


def test_random_has_all_distributions():
    assert [name for name in RANDOM if not hasattr(nd.random, name)] == []
    mx.random.seed(3)
    x = nd.random.uniform(2, 5, (2000,), ctx=mx.gpu(1)).asnumpy()
    y = nd.random.normal(loc=1, scale=0.5, shape=(2000,)).asnumpy()
    assert 2 <= x.min() < 2.1 and 4.9 < x.max() < 5 and abs(y.mean() - 1) < 0.1 and abs(y.std() - 0.5) < 0.1
    mx.random.seed(3)
    assert (nd.random.uniform(2, 5, (2000,), ctx=mx.gpu(1)).asnumpy() == x).all()


def test_arithmetic():
    x, y = nd.ones((2, 3)), nd.arange(6).reshape((2, 3))
    assert (x + y).asnumpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert (nd.array([1, 2, 3, 4]) * nd.array([2, 2, 2, 1])).asnumpy().tolist() == [2, 4, 6, 4]
    numpy.testing.assert_allclose(nd.exp(nd.array([1, 2, 3])).asnumpy(), numpy.exp([1, 2, 3]), rtol=1e-6)
    assert (y > 2).asnumpy().tolist() == [[0, 0, 0], [1, 1, 1]] and (y == y).dtype is numpy.float32
    column = nd.arange(3).reshape((3, 1))
    for product in (nd.dot(y, column), y @ column):
        assert product.asnumpy().tolist() == [[5], [14]]
    assert nd.broadcast_add(y, nd.array([[1], [2]])).asnumpy().tolist() == [[1, 2, 3], [5, 6, 7]]


def test_in_place_keeps_identity_and_memory():
    x, y, z = nd.arange(4), nd.ones(4), nd.zeros(4)
    view, before = z[0:4], id(z)
    z[:] = y + x
    assert id(z) == before and view.asnumpy().tolist() == [1, 2, 3, 4]
    z += x
    z *= 2
    assert id(z) == before and view.asnumpy().tolist() == [2, 6, 10, 14]
    assert nd.add(x, y, out=z) is z and view.asnumpy().tolist() == [1, 2, 3, 4]
    nd.multiply(x, x, out=z)
    nd.exp(x, out=x)
    assert z.asnumpy().tolist() == [0, 1, 4, 9] and x.asnumpy()[0] == 1


def test_calls_return_before_they_ran_and_waits_wait():
    x = nd.ones((8, 8)) * 2
    x.wait_to_read()
    y = nd.dot(x, x)
    mx.waitall()
    nd.waitall()
    assert y.asnumpy()[0, 0] == 32 and y.sum().asscalar() == 32 * 64


def test_errors_surface_at_the_wait():
    bad = nd.random.normal(loc=0, scale=-1, shape=(1,)) + 1              # the call itself does not raise
    for wait in (bad.wait_to_read, bad.asnumpy, bad.asscalar, lambda: str(bad)):
        with pytest.raises(mx.MXNetError):
            wait()
    with pytest.raises(mx.MXNetError):
        np.random.normal(0, -1, (2,))
        mx.waitall()


def test_autograd():
    x = nd.array([1.0, 2.0, 3.0], ctx=mx.gpu(1))
    x.attach_grad()
    with autograd.record():
        y = x * x * 2
    y.backward()
    assert x.grad.ctx == mx.gpu(1) and x.grad.asnumpy().tolist() == [4, 8, 12]


def test_numpy_in_and_out():
    host = numpy.arange(4, dtype="float32")
    x = nd.array(host, ctx=mx.gpu(0))
    host[:] = 0                                                         # it has its own copy
    back = x.asnumpy()
    assert type(back) is numpy.ndarray and back.tolist() == [0, 1, 2, 3]
    back[:] = 9                                                         # and gives one
    assert x.asnumpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_a_whole_training_script(device):
    """The loop of MXNet 1.x: legacy arrays, prefix=, a data loader over arrays on a device, a late look at the loss."""
    ctx = mx.gpu() if device == "gpu" and mx.context.num_gpus() > 0 else mx.cpu()
    net = gluon.nn.Dense(10, prefix="dense_")
    net.initialize(ctx=ctx)
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    data = nd.random.uniform(shape=(128, 20), ctx=ctx)
    label = nd.array(numpy.random.randint(0, 10, (128,)), ctx=ctx, dtype="int32")
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(data, label), batch_size=16, shuffle=True, num_workers=0)
    trainer = gluon.Trainer(net.collect_params(), optimizer="sgd", optimizer_params={"learning_rate": 0.5})
    averages = []
    for _ in range(5):
        previous, cumulative, count = None, 0, 0
        for batch, target in loader:
            batch, target = batch.as_in_context(ctx), target.as_in_context(ctx)
            with autograd.record():
                loss = loss_fn(net(batch), target)
            if previous is not None:
                assert previous.asnumpy().shape == (16,)
            previous = loss
            loss.backward()
            trainer.step(batch.shape[0])
            cumulative += loss.sum()
            count += batch.shape[0]
        averages.append(cumulative.asscalar() / count)
    assert count == 128 and averages[-1] < averages[0] and net.weight.data().ctx == ctx


def test_no_deprecation_warnings_on_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nd.ones((1,), ctx=mx.cpu()).context == mx.cpu() and mx.current_context() == mx.cpu()


# -- a newcomer's mistakes ---------------------------------------------------------------------------------------------

def test_mistakes_are_told_apart_by_name():
    a, b = np.ones((2, 3)), np.ones((4, 5))
    for call, function in ((np.dot, "dot"), (np.matmul, "matmul"), (np.inner, "inner"), (np.tensordot, "tensordot")):
        with pytest.raises(ValueError, match=rf"^{function}: shapes \(2, 3\) and \(4, 5\)"):
            call(a, b)
    with pytest.raises(TypeError, match="contxt"):
        np.ones(SHAPE, contxt=mx.cpu())
    with pytest.raises(TypeError, match=r"^init\(\) .*gpus"):
        mx.init(gpus=2)
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize()
    with pytest.raises(AssertionError, match=r"\(2, 2\) is incompatible with shape \(3, 4\) of Parameter 'weight'"):
        net.weight.set_data(np.ones((2, 2)))
    with pytest.raises(AttributeError, match="zeroes"):
        nd.zeroes(SHAPE)
    with pytest.raises(mx.MXNetError, match="tpu.*the types are cpu, gpu"):
        mx.Device("tpu", 0)
    for absent in (lambda: mx.sym.Variable("x"), lambda: mx.symbol, lambda: nd.sparse):
        with pytest.raises((AttributeError, NotImplementedError), match="release"):
            absent()


def test_tracebacks_show_the_source_of_generated_functions():
    with pytest.raises(mx.MXNetError) as raised:
        np.dot(np.ones((2, 3)), np.ones((4, 5)))
    frame = next(entry for entry in traceback.extract_tb(raised.value.__traceback__) if entry.name == "dot")
    assert "raynd.numpy.dot" in frame.filename and frame.line.startswith("return _call(")
