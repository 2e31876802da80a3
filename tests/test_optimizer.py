"""Optimizers against plain NumPy formulas in float64, and the bookkeeping around them."""
from __future__ import annotations

import math
import pickle

import numpy as onp
import pytest

import raynd as mx
from raynd import optimizer as opt

LR, WD, RESCALE, CLIP = 0.05, 0.01, 0.5, 0.4


def _sgd(w, g, s, t, momentum=0.0):
    m = s.setdefault("m", 0 * w)
    s["m"] = momentum * m - LR * g
    return w + s["m"]


def _nag(w, g, s, t, momentum=0.9):
    m = s["m"] = momentum * s.get("m", 0 * w) - LR * g
    return w + momentum * m - LR * g


def _moments(s, g, b1, b2):
    s["m"] = b1 * s.get("m", 0 * g) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0 * g) + (1 - b2) * g * g
    return s["m"], s["v"]


def _adam(w, g, s, t, b1=0.9, b2=0.999, eps=1e-8):
    m, v = _moments(s, g, b1, b2)
    return w - LR * math.sqrt(1 - b2 ** t) / (1 - b1 ** t) * m / (onp.sqrt(v) + eps)


def _adamax(w, g, s, t, b1=0.9, b2=0.999, eps=1e-8):
    s["m"] = b1 * s.get("m", 0 * g) + (1 - b1) * g
    s["u"] = onp.maximum(b2 * s.get("u", 0 * g), abs(g))
    return w - LR / (1 - b1 ** t) * s["m"] / (s["u"] + eps)


def _adagrad(w, g, s, t, eps=1e-6):
    s["h"] = s.get("h", 0 * g) + g * g
    return w - LR * g / (onp.sqrt(s["h"]) + eps)


def _adadelta(w, g, s, t, rho=0.9, eps=1e-6):
    s["g"] = rho * s.get("g", 0 * g) + (1 - rho) * g * g
    step = onp.sqrt(s.get("d", 0 * g) + eps) / onp.sqrt(s["g"] + eps) * g
    s["d"] = rho * s.get("d", 0 * g) + (1 - rho) * step * step
    return w - LR * step


def _rmsprop(w, g, s, t, rho=0.9, eps=1e-8):
    s["v"] = rho * s.get("v", 0 * g) + (1 - rho) * g * g
    return w - LR * g / (onp.sqrt(s["v"]) + eps)


def _rmsprop_centered(w, g, s, t, rho=0.9, momentum=0.9, eps=1e-8):
    s["m"] = rho * s.get("m", 0 * g) + (1 - rho) * g
    s["v"] = rho * s.get("v", 0 * g) + (1 - rho) * g * g
    s["d"] = momentum * s.get("d", 0 * g) - LR * g / onp.sqrt(s["v"] - s["m"] ** 2 + eps)
    return w + s["d"]


def _signum(w, g, s, t, momentum=0.9):
    s["m"] = momentum * s.get("m", 0 * g) - (1 - momentum) * g
    return w + LR * onp.sign(s["m"])


REFERENCES = [("sgd", {}, _sgd), ("sgd", {"momentum": 0.9}, lambda *a: _sgd(*a, momentum=0.9)), ("nag", {}, _nag),
              ("adam", {}, _adam), ("adamax", {}, _adamax), ("adagrad", {}, _adagrad), ("adadelta", {}, _adadelta),
              ("rmsprop", {}, _rmsprop), ("rmsprop", {"centered": True}, _rmsprop_centered), ("signum", {}, _signum)]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name, settings, formula", REFERENCES)
def test_formulas(name, settings, formula, fused):
    optimizer = opt.create(name, learning_rate=LR, wd=WD, rescale_grad=RESCALE, clip_gradient=CLIP,
                           use_fused_step=fused, **settings)
    updater = opt.get_updater(optimizer)
    expected = [onp.random.uniform(-1, 1, (3, 4)), onp.random.uniform(-1, 1, (5,))]
    weights = [mx.np.array(w) for w in expected]
    states = [{}, {}]
    for t in range(1, 5):
        grads = [onp.random.uniform(-2, 2, w.shape) for w in expected]
        updater([0, 1], [mx.np.array(g) for g in grads], weights)
        for i, g in enumerate(grads):
            g = onp.clip(g * RESCALE, -CLIP, CLIP) + WD * expected[i]
            expected[i] = formula(expected[i], g, states[i], t)
    for w, e in zip(weights, expected):
        onp.testing.assert_allclose(w.asnumpy(), e, rtol=2e-5, atol=2e-6)


EVERY = sorted(n for n, c in opt.Optimizer.opt_registry.items() if c.__module__.startswith("raynd") and n != "sgld")


@pytest.mark.parametrize("name", EVERY)
def test_fused_is_the_same(name):
    """The update by one command and the eager one agree, also for other numbers than those it was first made with."""
    start, results = onp.random.uniform(-1, 1, (4, 3)).astype("float32"), []
    grads = [onp.random.uniform(-1, 1, (4, 3)).astype("float32") for _ in range(3)]
    for fused in (False, True):
        optimizer = opt.create(name, use_fused_step=fused)
        weight, updater = mx.np.array(start), opt.get_updater(optimizer)
        for k, g in enumerate(grads):
            optimizer.set_learning_rate(0.01 * (k + 1))
            optimizer.rescale_grad = 1 / (k + 1)
            updater(0, mx.np.array(g), weight)
        results.append(weight.asnumpy())
    assert results[0] == pytest.approx(results[1], rel=1e-5, abs=1e-6)
    assert (results[0] != start).any()


def test_update_is_one_command():
    weights = [mx.np.ones((3,)) for _ in range(20)]
    updater = opt.get_updater(opt.create("adam"))
    for _ in range(2):
        updater(list(range(20)), [mx.np.ones((3,)) for _ in range(20)], weights)
    grads = [mx.np.ones((3,)) for _ in range(20)]
    for x in grads:
        x.wait_to_read()
    mx.engine.stats(reset=True)
    updater(list(range(20)), grads, weights)
    mx.waitall()
    assert mx.engine.stats()["cpu(0)"]["commands"] <= 2 + len(weights) * 3      # the update, the wait, and frees
    assert mx.engine.stats()["cpu(0)"]["messages"] <= 3


def test_gradient_is_not_changed():
    grad = mx.np.full((3,), 2.0)
    opt.get_updater(opt.create("sgd", rescale_grad=0.5))(0, grad, mx.np.ones((3,)))
    assert grad.asnumpy().tolist() == [2, 2, 2]


def test_multi_precision():
    for fused in (False, True):
        optimizer = opt.create("sgd", learning_rate=1e-4, momentum=0.5, multi_precision=True, use_fused_step=fused)
        updater = opt.get_updater(optimizer)
        weight = mx.np.ones((2,), dtype="float16")
        for _ in range(20):
            updater(0, mx.np.ones((2,), dtype="float16"), weight)
        master, momentum = updater.states[0]
        assert master.dtype == "float32" and momentum.dtype == "float32" and weight.dtype == "float16"
        assert abs(master.asnumpy() - (1 - 1e-4 * (2 * 20 - 2 * (1 - 0.5 ** 20)))).max() < 1e-5
        assert (weight.asnumpy() == master.asnumpy().astype("float16")).all()
    with pytest.warns(UserWarning, match="multi_precision"):
        opt.create("sgd").create_state_multi_precision(0, weight)


def test_learning_rates():
    optimizer = opt.SGD(learning_rate=0.5, wd=0.1, param_idx2name={0: "a", 1: "b"})
    optimizer.set_lr_mult({"a": 2.0, 1: 3.0})
    optimizer.set_wd_mult({"b": 0.0})
    assert optimizer._get_lrs([0, 1, 2]) == [1.0, 1.5, 0.5]
    assert optimizer._get_wds([0, 1, 2]) == [0.1, 0.0, 0.1]
    optimizer.set_learning_rate(0.2)
    assert optimizer.learning_rate == 0.2


def test_scheduler():
    scheduler = mx.lr_scheduler.FactorScheduler(2, factor=0.1, base_lr=3.0)
    optimizer = opt.create("sgd", lr_scheduler=scheduler)
    assert optimizer.learning_rate == 3.0                # the scheduler's base_lr is kept
    weight, updater = mx.np.zeros((1,)), opt.get_updater(optimizer)
    for _ in range(4):
        updater(0, mx.np.ones((1,)), weight)
    assert abs(weight.item() + 3 + 3 + 0.3 + 0.3) < 1e-5
    with pytest.raises(UserWarning, match="LRScheduler"):
        optimizer.set_learning_rate(1)
    with pytest.warns(UserWarning, match="overwritten"):
        opt.create("sgd", learning_rate=0.7, lr_scheduler=mx.lr_scheduler.PolyScheduler(10, base_lr=0.1))


def test_schedules():
    poly = mx.lr_scheduler.PolyScheduler(100, base_lr=1.0, pwr=2, final_lr=0.1, warmup_steps=10, warmup_begin_lr=0.5)
    assert [poly(0), poly(5), poly(10), poly(100), poly(200)] == pytest.approx([0.5, 0.75, 1.0, 0.1, 0.1])
    assert poly(55) == pytest.approx(0.1 + 0.9 * 0.25)
    cosine = mx.lr_scheduler.CosineScheduler(100, base_lr=2.0, final_lr=1.0)
    assert [cosine(0), cosine(50), cosine(100)] == pytest.approx([2.0, 1.5, 1.0])
    multi = mx.lr_scheduler.MultiFactorScheduler([5, 10], factor=0.5, base_lr=1.0)
    assert [multi(5), multi(6), multi(10), multi(11), multi(50)] == [1.0, 0.5, 0.5, 0.25, 0.25]
    constant = mx.lr_scheduler.FactorScheduler(1, factor=0.5, stop_factor_lr=0.3, base_lr=1.0, warmup_steps=2,
                                               warmup_begin_lr=0.1, warmup_mode="constant")
    assert [constant(1), constant(2), constant(9)] == [0.1, 0.5, 0.3]
    for bad in (lambda: mx.lr_scheduler.FactorScheduler(0), lambda: mx.lr_scheduler.FactorScheduler(1, factor=2),
                lambda: mx.lr_scheduler.MultiFactorScheduler([3, 2]), lambda: mx.lr_scheduler.PolyScheduler(0),
                lambda: mx.lr_scheduler.LRScheduler(0.1, warmup_begin_lr=0.2)):
        with pytest.raises(ValueError):
            bad()


def test_one_count_a_step_over_devices():
    optimizer = opt.create("adam")
    updaters = [opt.get_updater(optimizer) for _ in range(2)]
    weights = [mx.np.ones((2,), device=mx.cpu(i)) for i in range(2)]
    for step in range(3):
        for i, updater in enumerate(updaters):
            updater([0], [mx.np.full((2,), 0.5, device=mx.cpu(i))], [weights[i]])
        assert optimizer.num_update == step + 1
    assert (weights[0].asnumpy() == weights[1].asnumpy()).all()


def test_states_travel():
    optimizer = opt.create("adam", learning_rate=0.1)
    updater, weight = opt.get_updater(optimizer), mx.np.ones((2,))
    updater(0, mx.np.ones((2,)), weight)
    text = updater.get_states(dump_optimizer=True)
    other = opt.get_updater(opt.create("sgd"))
    other.set_states(text)
    assert isinstance(other.optimizer, opt.Adam) and other.optimizer.num_update == 1
    elsewhere = mx.np.array(weight.asnumpy(), device=mx.cpu(1))
    other(0, mx.np.ones((2,), device=mx.cpu(1)), elsewhere)      # the state follows the weight
    updater(0, mx.np.ones((2,)), weight)
    assert other.states[0][0].device == mx.cpu(1)
    assert (elsewhere.asnumpy() == weight.asnumpy()).all()
    assert pickle.loads(pickle.dumps(optimizer)).lr == 0.1


def test_own_optimizers():
    """Both forms of a user's optimizer: lists (MXNet 2) and one parameter at a time (MXNet 1)."""
    class Listed(opt.Optimizer):
        def step(self, indices, weights, grads, states):
            self._update_count(indices)
            for w, g, lr in zip(weights, grads, self._get_lrs(indices)):
                w[:] = w - lr * g

    class Single(opt.Optimizer):
        def create_state(self, index, weight):
            return mx.np.zeros(weight.shape)

        def update(self, index, weight, grad, state):
            self._update_count(index)
            state[:] = state + grad
            weight[:] = weight - self._get_lr(index) * state

    for cls, expected in ((Listed, -0.2), (Single, -0.3)):
        updater, weights = opt.get_updater(cls(learning_rate=0.1)), [mx.np.zeros((2,)), mx.np.zeros((3,))]
        for _ in range(2):
            updater([0, 1], [mx.np.ones((2,)), mx.np.ones((3,))], weights)
        assert abs(weights[1].asnumpy() - expected).max() < 1e-6


def test_registry():
    assert isinstance(opt.create("SGD", learning_rate=1), opt.SGD)
    with pytest.raises(ValueError, match="known are"):
        opt.create("no such optimizer")
    with pytest.raises(TypeError, match="epsilon"):
        opt.create("adagrad", eps=1)
    with pytest.raises(TypeError, match="lazy_update"):
        opt.create("sgd", lazy_update=True)
    with pytest.raises(TypeError):
        opt.create("sgd", no_such_argument=1)


def test_sgld_draws_noise():
    weight = mx.np.zeros((2000,))
    opt.get_updater(opt.create("sgld", learning_rate=0.04))(0, mx.np.zeros((2000,)), weight)
    assert abs(weight.asnumpy().std() - 0.2) < 0.02


def test_positions_of_arguments_are_those_of_mxnet():
    """Numbers without a default come after some with one."""
    def direction(*args, **kwargs):
        w, g, mean, var = (mx.nd.full((2,), v) for v in (1.0, 0.5, 0.0, 0.0))
        return mx.nd.lamb_update_phase1(w, g, mean, var, *args, **kwargs).asnumpy()
    onp.testing.assert_array_equal(direction(0.8, 0.99, 1e-5, 2, True, 0.1),
                                   direction(beta1=0.8, beta2=0.99, epsilon=1e-5, t=2, wd=0.1))
    with pytest.raises(mx.MXNetError, match="t and wd must be given"):
        direction(0.8)
    w, *states = (mx.nd.full((2,), v) for v in (1.0, 0.5, 0.0, 0.0, 0.0))
    with pytest.raises(mx.MXNetError, match="t must be given"):
        mx.nd.ftml_update(w, *states, 0.1)
    first = mx.nd.ftml_update(w, *states, 0.1, 0.6, 0.99, 1e-6, 1).asnumpy()
    states = [states[0], *(mx.nd.zeros((2,)) for _ in range(3))]
    named = mx.nd.ftml_update(w, *states, lr=0.1, beta2=0.99, epsilon=1e-6, t=1)
    onp.testing.assert_array_equal(first, named.asnumpy())
