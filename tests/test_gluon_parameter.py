"""Parameters, initializers and dictionaries of parameters."""
from __future__ import annotations

import copy
import pickle
import warnings

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd, gluon
from raynd.gluon import Constant, DeferredInitializationError, Parameter, ParameterDict

TWO = [mx.cpu(0), mx.cpu(1)]


def made(shape=(2, 3), device=None, **fields):
    parameter = Parameter("weight", shape=shape, **fields)
    parameter.initialize(device=device or mx.cpu(0))
    return parameter


def test_replicas_are_drawn_once():
    parameter = made(device=TWO)
    a, b = parameter.list_data()
    assert (a.device, b.device) == tuple(TWO) == tuple(parameter.list_device())
    assert (a.asnumpy() == b.asnumpy()).all() and abs(a.asnumpy()).max() <= 0.07
    assert parameter.data(mx.cpu(1)) is b and parameter.grad(ctx=mx.cpu(1)).asnumpy().any() == False  # noqa: E712
    with mx.cpu(1):
        assert parameter.data() is b
    with pytest.raises(RuntimeError, match=r"not initialized on device cpu\(3\)"):
        parameter.data(mx.cpu(3))
    with pytest.raises(ValueError, match="twice"):
        made(device=[mx.cpu(0), mx.cpu(0)])


def test_a_seed_fixes_the_values():
    values = []
    for device in (mx.cpu(0), [mx.cpu(0), mx.cpu(2)]):
        mx.random.seed(11)
        values.append(made(device=device).data(mx.cpu(0)).asnumpy())
    assert (values[0] == values[1]).all()


def test_initialize_again():
    parameter = made()
    before = parameter.data().asnumpy()
    with pytest.warns(UserWarning, match="already initialized"):
        parameter.initialize("ones")
    assert (parameter.data().asnumpy() == before).all()
    parameter.initialize("ones", force_reinit=True, device=TWO)
    assert parameter.data(mx.cpu(1)).asnumpy().all() and len(parameter.list_grad()) == 2


def test_errors_before_initialization():
    parameter = Parameter("w", shape=(2, 0), allow_deferred_init=True)
    for call in (parameter.data, parameter.list_data, parameter.grad, parameter.list_device):
        with pytest.raises(RuntimeError, match="has not been initialized"):
            call()
    parameter.initialize(device=TWO)
    with pytest.raises(DeferredInitializationError, match="deferred"):
        parameter.data()
    assert parameter.list_device() == TWO and parameter.shape == (2, -1)
    parameter.shape = (2, 5)
    parameter._finish_deferred_init()
    assert parameter.data(mx.cpu(1)).shape == (2, 5)
    with pytest.raises(AssertionError, match="incompatible"):
        parameter.shape = (3, 5)
    with pytest.raises(ValueError, match="invalid shape"):
        Parameter("w", shape=(2, 0)).initialize()
    with pytest.raises(AssertionError):
        Parameter("w", grad_req="sometimes")
    with pytest.raises(AssertionError):
        Parameter("w", stype="round")


def test_set_data():
    parameter = made(device=TWO)
    parameter.set_data(mx.np.ones((2, 3), device=mx.cpu(1)))
    assert all((x.asnumpy() == 1).all() for x in parameter.list_data())
    parameter.set_data(onp.full((2, 3), 2.0))                # NumPy, and another dtype
    assert all((x.asnumpy() == 2).all() and x.dtype == "float32" for x in parameter.list_data())
    with pytest.raises(AssertionError):
        parameter.set_data(mx.np.ones((3, 3)))
    deferred = Parameter("w", shape=(2, -1), allow_deferred_init=True)
    with pytest.raises(AssertionError, match="not been initialized"):
        deferred.set_data(mx.np.ones((2, 4)))
    deferred = Parameter("w", shape=(2, -1), allow_deferred_init=True)
    deferred.initialize(device=TWO)
    deferred.set_data(mx.np.full((2, 4), 3.0))
    assert all((x.asnumpy() == 3).all() for x in deferred.list_data())


def test_grad_req():
    parameter = made((2,))
    for req, expected in (("write", 2.0), ("add", 4.0)):
        parameter.grad_req = req
        for _ in range(2):
            with autograd.record():
                y = parameter.data() * 2
            y.backward()
        assert parameter.grad().asnumpy().tolist() == [expected] * 2
        assert parameter.data()._fresh_grad
    parameter.zero_grad()
    assert parameter.grad().asnumpy().tolist() == [0, 0]
    parameter.grad_req = "null"
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        parameter.grad()
    parameter.grad_req = "write"
    assert parameter.grad().shape == (2,)
    assert Parameter("running_mean", differentiable=False).grad_req == "null"


def test_cast_and_devices():
    parameter = made(device=TWO)
    parameter.cast("float64")
    assert parameter.data(mx.cpu(1)).dtype == parameter.grad(mx.cpu(1)).dtype == "float64"
    with autograd.record():
        y = parameter.data(mx.cpu(1)) * 3
    y.backward()
    assert (parameter.grad(mx.cpu(1)).asnumpy() == 3).all()
    before = parameter.data(mx.cpu(0)).asnumpy()
    parameter.reset_device([mx.cpu(2), mx.cpu(3)])
    assert parameter.list_device() == [mx.cpu(2), mx.cpu(3)] and (parameter.data(mx.cpu(3)).asnumpy() == before).all()
    statistics = Parameter("running_mean", shape=(1,), differentiable=False)
    statistics.initialize("zeros", device=TWO)
    statistics.data(mx.cpu(1))[:] = 2
    assert statistics._reduce().asnumpy().tolist() == [1]    # a statistic is saved as the mean
    with pytest.raises(ValueError, match="not been initialized"):
        Parameter("w", shape=(2,)).reset_ctx(mx.cpu(0))


def test_sparse_is_refused_clearly():
    parameter = Parameter("w", shape=(4, 2), stype="row_sparse")
    parameter.initialize(device=TWO)
    for call in (parameter.data, parameter.list_data):
        with pytest.raises(RuntimeError, match="sparse parameters are not supported"):
            call()
    with pytest.raises(mx.MXNetError, match="sparse gradients"):
        made(grad_stype="row_sparse")
    with pytest.raises(RuntimeError, match="storage type"):
        made().row_sparse_data(mx.np.arange(2))
    with pytest.raises(mx.MXNetError, match="mx.sym"):
        made().var()


def test_constant():
    constant = Constant([[1, 2], [3, 4]])
    constant.initialize(device=TWO)
    assert constant.data(mx.cpu(1)).asnumpy().tolist() == [[1, 2], [3, 4]]
    with pytest.warns(UserWarning, match="grad_req"):
        constant.grad_req = "write"
    assert constant.grad_req == "null"
    constant.set_data(mx.np.zeros((2, 2)))
    assert not constant.data(mx.cpu(0)).asnumpy().any()
    assert Constant("c", onp.ones(3)).name == "c"


def test_copies_are_apart():
    parameter = made()
    for other in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert (other.data().asnumpy() == parameter.data().asnumpy()).all()
        other.set_data(onp.zeros((2, 3)))
        assert parameter.data().asnumpy().all()
        with autograd.record():
            y = other.data() * 1
        y.backward()
        assert other.grad().asnumpy().all() and not parameter.grad().asnumpy().any()


def test_dictionary():
    params = ParameterDict()
    weight = params.get("weight", shape=(2, 0), allow_deferred_init=True)
    assert params.get("weight", shape=(0, 3)) is weight and weight.shape == (2, 3)
    with pytest.raises(AssertionError, match="shape"):
        params.get("weight", shape=(4, 4))
    params.get("bias", shape=(2,), init="zeros", lr_mult=2.0)
    params.get_constant("c", onp.ones(2))
    params.initialize(mx.init.One(), ctx=TWO)
    assert weight.data(mx.cpu(1)).asnumpy().all() and not params["bias"].data(mx.cpu(0)).asnumpy().any()
    params.setattr("lr_mult", 0.5)
    assert weight.lr_mult == 0.5 and params.list_ctx() == TWO
    params.reset_ctx(mx.cpu(2))
    assert params.list_device() == [mx.cpu(2)]
    with pytest.raises(AssertionError, match="different"):
        params.update({"weight": Parameter("weight")})
    assert "weight" in str(params) and "(2, 3)" in str(params) and "float32" in str(params)


@pytest.mark.parametrize("init, check", [
    (mx.init.Zero(), lambda x: (x == 0).all()), (mx.init.One(), lambda x: (x == 1).all()),
    (mx.init.Constant(3), lambda x: (x == 3).all()),
    (mx.init.Uniform(2), lambda x: abs(x).max() <= 2 and abs(x.std() - 2 / 3 ** 0.5) < 0.1),
    (mx.init.Normal(0.5), lambda x: abs(x.std() - 0.5) < 0.05 and abs(x.mean()) < 0.05),
    (mx.init.Xavier(), lambda x: abs(x).max() <= (3 / 50) ** 0.5 and abs(x.std() - (1 / 50) ** 0.5) < 0.01),
    (mx.init.Xavier("gaussian", "in", 2), lambda x: abs(x.std() - (2 / 40) ** 0.5) < 0.02),
    (mx.init.MSRAPrelu(slope=0), lambda x: abs(x.std() - (2 / 50) ** 0.5) < 0.02),
    (mx.init.Orthogonal(scale=2.0), lambda x: abs(x.T @ x - 4 * onp.eye(40)).max() < 1e-4),
    ("xavier", lambda x: abs(x).max() <= (3 / 50) ** 0.5)], ids=str)
def test_initializers(init, check):
    parameter = Parameter("weight", shape=(60, 40))
    parameter.initialize(init)
    assert check(parameter.data().asnumpy())


def test_initializer_rules():
    for name, expected in (("a.bias", 0), ("a.gamma", 1), ("a.beta", 0), ("a.running_var", 1), ("a.running_mean", 0)):
        array = mx.np.full((3,), 7.0)
        mx.init.Uniform()(mx.init.InitDesc(name), array)
        assert (array.asnumpy() == expected).all()
    with pytest.raises(ValueError, match="Unknown initialization pattern"):
        mx.init.Uniform()(mx.init.InitDesc("strange"), mx.np.zeros((3,)))
    with pytest.raises(ValueError, match="2D"):
        Parameter("weight", shape=(3,)).initialize(mx.init.Xavier())
    with pytest.raises(ValueError, match="no initializer"):
        Parameter("weight", shape=(3,)).initialize("nothing")
    for init in (mx.init.Normal(0.3), mx.init.Xavier("gaussian", "out", 1.5), mx.init.MSRAPrelu("in", 0.1)):
        assert mx.init.create(init.dumps()) == init
    bias = Parameter("h2h_bias", shape=(8,), init=mx.init.LSTMBias(2.0))
    bias.initialize()
    assert bias.data().asnumpy().tolist() == [0, 0, 2, 2, 0, 0, 0, 0]
    kernel = Parameter("weight", shape=(1, 1, 4, 4), init=mx.init.Bilinear())
    kernel.initialize()
    assert kernel.data().asnumpy()[0, 0, 1].tolist() == pytest.approx([0.1875, 0.5625, 0.5625, 0.1875])


def test_mixed_and_load():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(2, in_units=2), gluon.nn.Dense(2, in_units=2, bias_initializer=None))
    net.initialize(mx.init.Mixed(["0.*", ".*bias", ".*"], [mx.init.One(), mx.init.Constant(5), mx.init.Constant(2)]))
    assert net[0].weight.data().asnumpy().all() and (net[1].weight.data().asnumpy() == 2).all()
    assert not net[1].bias.data().asnumpy().any()            # a global initializer leaves biases at zero
    net.initialize(mx.init.Load({"arg:0.weight": mx.np.full((2, 2), 9.0)}, default_init=mx.init.Zero()),
                   force_reinit=True)
    assert (net[0].weight.data().asnumpy() == 9).all() and not net[1].weight.data().asnumpy().any()
    with pytest.raises(ValueError, match="did not match"):
        net.initialize(mx.init.Mixed(["0.*"], [mx.init.One()]), force_reinit=True)


def test_own_initializer():
    @mx.init.register
    class Counting(mx.init.Initializer):
        """0, 1, 2 ..."""

        def _init_weight(self, name, arr):
            arr[:] = mx.np.arange(arr.size).reshape(arr.shape)

    parameter = Parameter("weight", shape=(2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parameter.initialize("counting")
    assert parameter.data().asnumpy().tolist() == [[0, 1], [2, 3]]
