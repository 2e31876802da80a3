"""foreach, while_loop and cond: values, structures, padding, gradients, and what they do in hybridized blocks."""
from __future__ import annotations

import warnings

import numpy as onp
import pytest

import raynd as mx
from raynd.errors import FallbackWarning

np, npx, gluon = mx.np, mx.npx, mx.gluon


def close(x, y):
    assert onp.allclose(x.asnumpy() if hasattr(x, "asnumpy") else x, y, rtol=1e-5)


# -- foreach -----------------------------------------------------------------------------------------------------------

def test_foreach_values_and_structures():
    data, state = np.arange(6).reshape(3, 2), np.zeros(2)
    out, last = npx.foreach(lambda x, s: (x + s, s + x), data, state)
    close(out, [[0, 1], [2, 4], [6, 9]])
    close(last, [6, 9])
    out, last = npx.foreach(lambda x, s: ([x[0] + s[0][0], (x[1],)], [[s[0][0] + x[1]]]), [data, data * 2], [[state]])
    close(out[0], [[0, 1], [2, 5], [8, 13]])
    assert isinstance(out[1], list)
    close(out[1][0], data.asnumpy() * 2)
    close(last[0][0], [12, 18])
    assert npx.foreach(lambda x, s: ([], s), data, [state])[0] == []
    out, _ = npx.foreach(lambda x, s: (x * 2, s), data[:1], [])
    close(out, [[0, 2]])
    out, _ = npx.foreach(lambda x, s: (x * 2, s), np.arange(3), [])
    close(out, [0, 2, 4])


def test_foreach_refuses():
    data, state = np.zeros((3, 2)), np.zeros(2)
    for given in (([data, data[:2]], state), (1.0, state), (data, 1.0), ([], state), (np.array(1.0), state)):
        with pytest.raises(ValueError):
            npx.foreach(lambda x, s: (x, s), *given)
    with pytest.raises(IndexError):
        npx.foreach(lambda x, s: (x, s), data[:0], state)
    with pytest.raises(ValueError):
        npx.foreach(lambda x, s: x + s, np.zeros((3, 5)), state)


def test_foreach_gradient():
    data, state, weight = np.array([[1.0], [2.0], [3.0]]), np.array([1.0]), np.array([2.0])
    for x in (data, state, weight):
        x.attach_grad()
    with mx.autograd.record():
        out, last = npx.foreach(lambda x, s: (x * s, s * weight), data, state)
        total = out.sum() + last
    total.backward()                         # 1 s + 2 s w + 3 s w^2 + s w^3
    close(data.grad, [[1], [2], [4]])
    close(state.grad, [1 + 4 + 12 + 8])
    close(weight.grad, [2 + 12 + 12])


class Cumulative(gluon.HybridBlock):
    """Running sums of a dense layer's results."""

    def __init__(self):
        super().__init__()
        self.dense = gluon.nn.Dense(2, in_units=3)

    def forward(self, data, state):
        return npx.foreach(lambda x, s: (s[0] + self.dense(x), [s[0] + self.dense(x)]), data, [state])


def test_foreach_in_a_hybridized_block():
    net = Cumulative()
    net.initialize()
    data, state = np.random.normal(size=(4, 2, 3)), np.zeros((2, 2))
    data.attach_grad()
    results = []
    for hybridize in (False, True):
        if hybridize:
            net.hybridize()
        with warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            for _ in range(2):
                with mx.autograd.record():
                    out, (last,) = net(data, state)
                    loss = (out * out).sum() + last.sum()
                loss.backward()
        results.append([x.asnumpy() for x in (out, last, data.grad, net.dense.weight.data().grad)])
    for eager, program in zip(*results):
        close(eager, program)


# -- while_loop --------------------------------------------------------------------------------------------------------

def test_while_loop_values_and_padding():
    i, s = np.array([1], dtype="int64"), np.array([0], dtype="int64")
    out, (last, total) = npx.while_loop(lambda i, s: i <= 3, lambda i, s: (i, (i + 1, s + i)), (i, s), 5)
    close(out, [[1], [2], [3], [0], [0]])
    assert out.dtype == "int64" and last.item() == 4 and total.item() == 6
    out, last = npx.while_loop(lambda i, s: i <= 3, lambda i, s: ((i, [s, s + 1]), [i + 1, s + i]), [i, s],
                               max_iterations=3)
    close(out[1][0], [[0], [1], [3]])
    close(out[1][1], [[1], [2], [4]])
    out, last = npx.while_loop(lambda i: i < 100, lambda i: (None, i + 1), i, max_iterations=7)
    assert out == [] and last.item() == 8


def test_while_loop_without_a_step():
    x = np.array([1.0, 2.0])
    out, last = npx.while_loop(lambda x: np.array(0), lambda x: ((x, x.sum()), x + 1), x, max_iterations=3)
    assert out[0].shape == (3, 2) and out[1].shape == (3,) and not out[0].asnumpy().any()
    close(last, [1, 2])
    out, _ = npx.while_loop(lambda x: True, lambda x: (x, x), x, max_iterations=0)
    assert out.shape == (0, 2)
    variables = [mx.nd.array([1])]
    assert mx.nd.contrib.while_loop(lambda x: x - 1, lambda x: (x, [x]), variables, 3) == ([], variables)


def test_while_loop_refuses():
    x = np.array([1.0])
    for given in (([x],), ([], 3), (2.0, 3), ([x], "many")):
        with pytest.raises(ValueError):
            npx.while_loop(lambda x: x < 3, lambda x: (x, x + 1), *given)
    with pytest.raises(ValueError, match="consistent"):
        npx.while_loop(lambda x, y: x < 3, lambda x, y: (x, [x + 1]), [x, x], 3)
    with pytest.raises(ValueError, match="one element"):
        npx.while_loop(lambda x: np.zeros(2), lambda x: (x, x + 1), x, 3)
    with pytest.raises(TypeError):
        npx.while_loop(x < 3, lambda x: (x, x + 1), x, 3)


def test_while_loop_gradient():
    x, w = np.array([2.0]), np.array([3.0])
    x.attach_grad()
    w.attach_grad()
    with mx.autograd.record():
        out, last = npx.while_loop(lambda v: v < 50, lambda v: (v, v * w), x, max_iterations=6)
        total = out.sum() + last.sum()
    total.backward()                         # steps 2, 6, 18; last 54: x (1 + w + w^2 + w^3)
    close(x.grad, [40])
    close(w.grad, [2 * (1 + 6 + 27)])


class Loop(gluon.HybridBlock):
    """Doubles until a limit, then branches."""

    def forward(self, x):
        _, last = npx.while_loop(lambda v: v.sum() < 10, lambda v: (v, v * 2), x, max_iterations=8)
        return npx.cond(lambda v: v.sum() > 15, lambda v: v - 1, lambda v: v + 1, last)


def test_value_dependent_loops_keep_a_block_eager():
    net = Loop()
    net.hybridize()
    with pytest.warns(FallbackWarning) as caught:
        results = [net(np.array([v])).item() for v in (1.0, 3.0, 1.0)]
    assert results == [15, 13, 15] and len(caught) == 1
    x = np.array([3.0])
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    close(x.grad, [4])


# -- cond --------------------------------------------------------------------------------------------------------------

def test_cond():
    a, b = np.array([1.0]), np.array([2.0])
    a.attach_grad()
    with mx.autograd.record():
        y = npx.cond(lambda a, b: a * b < 5, lambda a, b: (a + 5) * (b + 5), lambda a, b: (a - 5) * (b - 5), [a, b])
    y.backward()
    assert y.item() == 42 and a.grad.item() == 7
    assert npx.cond(lambda a: a > 5, lambda a: a + 5, lambda a: a - 5, a).item() == -4
    out = npx.cond(lambda a: a < 5, lambda a: (a, [a + 1]), lambda a: (a, [a]), a)
    assert isinstance(out, list) and isinstance(out[1], list) and out[1][0].item() == 2
    with pytest.raises(ValueError):
        npx.cond(lambda a: np.ones(2), lambda a: a, lambda a: a, a)
    with pytest.raises(ValueError):
        npx.cond(lambda: True, lambda: a, lambda: a, [])


def test_legacy_forms():
    nd = mx.nd
    i, s = nd.array([1]), nd.array([0])
    out, (last, total) = nd.contrib.while_loop(lambda i, s: i <= 3, lambda i, s: ([i], (i + 1, s + i)), (i, s), 5)
    assert type(out[0]) is nd.NDArray
    close(out[0], [[1], [2], [3], [0], [0]])
    assert last.asscalar() == 4 and total.asscalar() == 6
    out, last = nd.contrib.foreach(lambda x, st: (x + st, st + x), nd.ones((2, 3)), nd.zeros(3))
    assert type(out) is nd.NDArray
    close(out, [[1] * 3, [2] * 3])
    assert nd.contrib.cond(i < 5, lambda: i + 1, lambda: i - 1).asscalar() == 2
    assert nd.contrib.cond(lambda: 0, lambda: i + 1, lambda: [i - 1])[0].asscalar() == 0
