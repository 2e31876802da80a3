"""Hybridized blocks: recorded once, forward and backward; the same results as eagerly, in fewer messages."""
from __future__ import annotations

import gc
import warnings

import numpy as onp
import pytest

import raynd as mx
from raynd.errors import FallbackWarning, MXNetError

pytestmark = pytest.mark.usefixtures("each_mode")


class Affine(mx.gluon.HybridBlock):
    """tanh(x * w) + b, with more than one output on request."""

    def __init__(self, outputs=1):
        super().__init__()
        self.outputs = outputs
        self.w = mx.gluon.Parameter("w", shape=(3,), init=mx.init.Constant(0.5))
        self.b = mx.gluon.Parameter("b", shape=(3,), init=mx.init.Constant(0.25))

    def forward(self, x):
        h = mx.np.tanh(x * self.w.data(x.device))
        y = h + self.b.data(x.device)
        return y if self.outputs == 1 else [y, (h, h * 2)]


def ready(block, device=None):
    block.initialize(device=device)
    return block


X = onp.random.default_rng(3).standard_normal((4, 3)).astype("float32")


def gradients(block, x):
    x = mx.np.array(x)
    x.attach_grad()
    with mx.autograd.record():
        y = block(x)
        loss = ((y[0] * y[1][0] + y[1][1]) if isinstance(y, list) else y * y).sum()
    loss.backward()
    return [loss.asnumpy(), x.grad.asnumpy(), block.w.grad().asnumpy(), block.b.grad().asnumpy()]


@pytest.mark.parametrize("outputs", [1, 2])
def test_values_and_gradients_are_the_eager_ones(outputs):
    block = ready(Affine(outputs))
    eager = gradients(block, X)
    block.hybridize()
    for _ in range(3):
        for a, b in zip(eager, gradients(block, X)):
            assert onp.allclose(a, b, rtol=1e-6)
    assert onp.allclose(block(mx.np.array(X))[0].asnumpy() if outputs == 2 else block(mx.np.array(X)).asnumpy(),
                        onp.tanh(X * 0.5) + 0.25, rtol=1e-5)


def test_a_call_is_one_command():
    block = ready(Affine())
    block.hybridize()
    x = mx.np.array(X)
    block(x).wait_to_read()
    mx.engine.stats(reset=True)
    y = block(x)
    commands = mx.engine.stats()["cpu(0)"]["commands"] + mx.engine.stats()["cpu(0)"]["queued"]
    assert commands <= 3                                     # the program, and arrays that were freed
    del y


def test_set_data_is_seen():
    block = ready(Affine())
    block.hybridize()
    x = mx.np.array(X)
    block(x)
    block.b.set_data(mx.np.array([1.0, 2.0, 3.0]))
    assert onp.allclose(block(x).asnumpy(), onp.tanh(X * 0.5) + [1, 2, 3], rtol=1e-5)


def test_two_calls_then_both_backwards():
    block = ready(Affine())
    block.hybridize(static_alloc=True, static_shape=True)
    a, b = mx.np.array(X), mx.np.array(X * 2)
    for v in (a, b):
        v.attach_grad()
    with mx.autograd.record():
        first, second = block(a), block(b)
    second.backward()
    first.backward()
    for v, host in ((a, X), (b, X * 2)):
        assert onp.allclose(v.grad.asnumpy(), 0.5 * (1 - onp.tanh(host * 0.5) ** 2), rtol=1e-4)


def test_new_shapes_types_and_modes_make_new_programs():
    block = ready(Affine())
    block.hybridize()
    for shape in ((3,), (2, 3), (0, 3), (5, 1, 3)):
        assert block(mx.np.ones(shape)).shape == shape
    with mx.autograd.record():
        assert block(mx.np.ones((2, 3))).shape == (2, 3)


def test_the_same_array_twice():
    class Product(mx.gluon.HybridBlock):
        def forward(self, x, y):
            return x * y

    block = Product()
    block.hybridize()
    x, y = mx.np.array([2.0]), mx.np.array([5.0])
    x.attach_grad()
    y.attach_grad()
    for _ in range(2):
        with mx.autograd.record():
            z = block(x, x)
        z.backward()
        assert float(x.grad[0]) == 4
        with mx.autograd.record():
            z = block(x, y)
        z.backward()
        assert float(x.grad[0]) == 5 and float(y.grad[0]) == 2


def test_a_block_that_needs_a_value_stays_eager_with_one_warning_that_names_the_line():
    class Branch(mx.gluon.HybridBlock):
        def forward(self, x):
            if x.sum() > 0:
                return x * 2
            return -x

    block = Branch()
    block.hybridize()
    with pytest.warns(FallbackWarning, match=r"test_programs.py:\d+: if x.sum\(\) > 0"):
        assert block(mx.np.ones(2)).asnumpy().tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert block(mx.np.full((2,), -1.0)).asnumpy().tolist() == [1, 1]


def test_random_numbers_are_new_at_each_call_and_the_eager_ones():
    class Noise(mx.gluon.HybridBlock):
        def forward(self, x):
            return x + mx.np.random.uniform(size=(3,)) + mx.np.random.normal(size=(3,))

    block, x = Noise(), mx.np.zeros(3)
    mx.random.seed(7)
    eager = [block(x).asnumpy() for _ in range(3)]
    block.hybridize()
    mx.random.seed(7)
    recorded = [block(x).asnumpy() for _ in range(3)]
    assert all((a == b).all() for a, b in zip(eager, recorded))
    assert not (recorded[0] == recorded[1]).all()


def test_second_order_through_a_hybridized_block():
    block = ready(Affine())

    def second(x):
        x = mx.np.array(x)
        x.attach_grad()
        with mx.autograd.record():
            y = (block(x) ** 2).sum()
            g = mx.autograd.grad(y, x, create_graph=True)[0]
            loss = (g * g).sum()
        loss.backward()
        return x.grad.asnumpy()

    eager = second(X)
    block.hybridize()
    assert onp.allclose(second(X), eager, rtol=1e-4)


def test_replicas_on_several_devices():
    devices = [mx.cpu(0), mx.cpu(1)]
    block = ready(Affine(), devices)
    block.hybridize()
    for d in devices:
        y = block(mx.np.array(X, device=d))
        assert y.device == d and onp.allclose(y.asnumpy(), onp.tanh(X * 0.5) + 0.25, rtol=1e-5)


def test_a_failure_inside_a_program_is_an_error_value():
    class Bad(mx.gluon.HybridBlock):
        def forward(self, x, scale):
            return x + mx.np.random.normal(0, scale, size=(2,))

    block = Bad()
    block.hybridize()
    x = mx.np.zeros(2)
    bad = block(x, mx.np.array([-1.0]))
    with pytest.raises(MXNetError, match="scale"):
        bad.asnumpy()
    assert block(x, mx.np.array([1.0])).shape == (2,)


def test_programs_are_bounded_and_dropped():
    from raynd.engine import engine
    block = ready(Affine())
    block.hybridize()
    for n in range(100):
        block(mx.np.ones((n + 1, 3)))
    mx.waitall()
    gc.collect()
    assert len(block._cached_op.programs) <= 64
    before = len(engine.queue(mx.cpu(0)).known)
    del block
    gc.collect()
    mx.waitall()
    assert before - len(engine.queue(mx.cpu(0)).known) >= 64  # and the devices have forgotten them


def test_a_write_inside_a_block_is_private_to_the_call():
    class Writes(mx.gluon.HybridBlock):
        def forward(self, x):
            y = x * 1
            y[0] = 9
            y[1:] += 1
            return y + x

    block, x = Writes(), mx.np.array([1.0, 2.0, 3.0])
    eager = block(x).asnumpy()
    block.hybridize()
    for _ in range(2):
        assert block(x).asnumpy().tolist() == eager.tolist() == [10, 5, 7]
    assert x.asnumpy().tolist() == [1, 2, 3]
