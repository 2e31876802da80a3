"""The tape: modes, leaves, requests, heads, second order, functions, and what is kept."""
from __future__ import annotations

import gc
import threading

import numpy as onp
import pytest

import raynd as mx
from raynd.errors import MXNetError

pytestmark = pytest.mark.usefixtures("each_mode")
autograd = mx.autograd


def variable(values, **kwargs):
    x = mx.np.array(values, **kwargs)
    x.attach_grad()
    return x


def values(x):
    return x.asnumpy().tolist()


def test_modes_nest():
    assert not autograd.is_recording() and not autograd.is_training()
    with autograd.record():
        assert autograd.is_recording() and autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording() and not autograd.is_training()
        with autograd.predict_mode():
            assert autograd.is_recording() and not autograd.is_training()
    with autograd.train_mode():
        assert autograd.is_training() and not autograd.is_recording()
    assert autograd.set_recording(True) is False and autograd.set_recording(False) is True


def test_an_array_used_many_times_gets_the_sum():
    x = variable([2.0])
    with autograd.record():
        y = x * x * x + x * 5 + x
    y.backward()
    assert values(x.grad) == [3 * 4 + 6]


@pytest.mark.parametrize("req, expected", [("write", [4.0]), ("add", [12.0]), ("null", None)])
def test_grad_requests(req, expected):
    x = mx.np.array([2.0])
    x.attach_grad(grad_req=req)
    w = variable([1.0])
    for _ in range(3):
        with autograd.record():
            y = x * x * w
        y.backward()
    assert (None if x.grad is None else values(x.grad)) == expected
    assert values(w.grad) == [4]


def test_grad_buffer_keeps_its_identity_and_a_write_through_it_is_seen():
    x = variable([1.0, 2.0])
    grad = x.grad
    with autograd.record():
        y = x * 2
    y.backward()
    assert values(grad) == [2, 2] and x.grad is grad
    grad[:] = 0
    assert values(x.grad) == [0, 0]


def test_head_gradients_and_several_heads():
    x = variable([1.0, 2.0])
    with autograd.record():
        y, z = x * 2, x * x
    autograd.backward([y, z], [mx.np.array([1.0, 10.0]), None])
    assert values(x.grad) == [2 + 2, 20 + 4]
    with pytest.raises(ValueError, match="shape"):
        with autograd.record():
            y = x * 2
        y.backward(mx.np.ones(3))


class LogSoftmax(mx.gluon.HybridBlock):
    def forward(self, x):
        return mx.npx.log_softmax(x)


@pytest.mark.parametrize("hybrid", [False, True])
def test_head_gradients_from_the_host_of_another_dtype_and_on_another_device(hybrid):
    block = LogSoftmax()
    block.hybridize(hybrid)
    ones = onp.ones((1, 2))
    results = []
    for head in (None, mx.np.array(ones), mx.np.ones((1, 2), dtype="float64"), mx.nd.array(ones)):
        x = variable([[1, 2]])
        with autograd.record():
            y = block(x)
        y.backward(head)
        results.append(values(x.grad))
        assert x.grad.dtype == "float32"
    assert all(r == results[0] for r in results)
    with autograd.record():
        y = block(x)
    for head in (mx.np.array(ones, device=mx.cpu(1)), mx.np.ones((1, 2), device=mx.cpu(1))):
        with pytest.raises(mx.errors.DeviceError, match="gradient"):
            y.backward(head, retain_graph=True)


def test_broadcast_gradients_are_summed_to_the_operand():
    a, b = variable(onp.ones((2, 3))), variable(onp.ones((3,)))
    c = variable([[2.0], [3.0]])
    with autograd.record():
        y = (a * b + c * b).sum()
    y.backward()
    assert values(b.grad) == [7, 7, 7] and values(c.grad) == [[3], [3]] and values(a.grad) == [[1] * 3] * 2


def test_gradient_of_a_gradient():
    x = variable([0.3, -0.7])
    with autograd.record():
        y = mx.np.exp(x) * x
        g = autograd.grad(y, x, create_graph=True)[0]
        loss = (g * g).sum()
    loss.backward()
    v = onp.array([0.3, -0.7])
    first, second = onp.exp(v) * (v + 1), onp.exp(v) * (v + 2)
    assert onp.allclose(g.asnumpy(), first, rtol=1e-5)
    assert onp.allclose(x.grad.asnumpy(), 2 * first * second, rtol=1e-5)


def test_third_derivative():
    x = variable([1.5])
    with autograd.record():
        y = x * x * x * x
        g1 = autograd.grad(y, x, create_graph=True)[0]
        g2 = autograd.grad(g1, x, create_graph=True)[0]
    g2.backward()
    assert onp.allclose(x.grad.asnumpy(), [24 * 1.5])


def test_grad_of_intermediate_results():
    x = variable([3.0])
    with autograd.record():
        h = x * x
        y = h * h
        gh, gx = autograd.grad(y, [h, x], retain_graph=True)
    assert values(gh) == [18] and values(gx) == [108]
    assert values(x.grad) == [0]                              # grad() does not touch .grad


def test_integer_results_and_constants_stop_gradients():
    x = variable([1.5, -2.5])
    with autograd.record():
        y = (x * x.detach()).sum() + (x > 0).astype("float32").sum() * 3
    y.backward()
    assert values(x.grad) == [1.5, -2.5]


def test_a_function_with_its_own_backward():
    class Scale(autograd.Function):
        def forward(self, x, y):
            self.save_for_backward(x, y)
            return x * y, x + y

        def backward(self, dz, ds):
            x, y = self.saved_tensors
            return dz * y * 10 + ds, dz * x + ds

    a, b = variable([2.0]), variable([3.0])
    with autograd.record():
        z, s = Scale()(a * 1, b)
        loss = z + s * 2
    loss.backward()
    assert values(z) == [6] and values(a.grad) == [32] and values(b.grad) == [4]
    once = Scale()
    once(a, b)
    with pytest.raises(MXNetError, match="once"):
        once(a, b)


def test_the_tape_over_devices():
    x = variable([1.0, 2.0], device=mx.cpu(0))
    w = variable([3.0, 4.0], device=mx.cpu(1))
    with autograd.record():
        y = (x * 2).copyto(mx.cpu(1)) * w
        loss = y.copyto(mx.cpu(2)).sum()
    loss.backward()
    assert values(x.grad) == [6, 8] and values(w.grad) == [2, 4]
    assert x.grad.device == mx.cpu(0) and w.grad.device == mx.cpu(1)


def test_recording_is_per_thread():
    results = {}

    def work(i):
        results[i] = [autograd.is_recording()]
        x = variable([float(i)])
        with autograd.record():
            y = x
            for _ in range(20):
                y = y * x
        y.backward()
        results[i].append(float(x.grad[0]))

    with autograd.record():
        threads = [threading.Thread(target=work, args=(i,)) for i in (1, 2)]
        [t.start() for t in threads], [t.join() for t in threads]
    assert results == {1: [False, 21.0], 2: [False, 21.0 * 2 ** 20]}


def test_what_the_gradient_does_not_read_is_not_kept(each_mode):
    """d(x + c) needs neither operand; d(exp(x)) needs its output only."""
    from raynd.engine import engine
    x = variable(onp.ones((4, 4)))
    with autograd.record():
        y = x * 1.0
        for _ in range(10):
            y = y + 1.0
        z = mx.np.exp(y)
    del y
    gc.collect()
    mx.waitall()
    if each_mode == "local":
        (x + 1).wait_to_read()
        kept = [n for n, v in engine.queue(mx.cpu(0)).link.worker.table.items() if getattr(v, "shape", None) == (4, 4)]
        assert len(kept) <= 5                                 # x, its gradient, z, and temporaries not yet freed
    z.backward()
    assert onp.allclose(x.grad.asnumpy(), onp.exp(11.0))


def test_memory_of_a_released_graph_is_freed():
    x = variable(onp.ones((8, 8)))
    import weakref
    with autograd.record():
        y = mx.np.tanh(x * 2)
        z = y.sum()
    node = weakref.ref(y)
    z.backward()
    del y, z
    assert node() is None


def test_scalars_in_gradients_are_operands_not_constants():
    """One prepared gradient serves all values of a Python scalar."""
    x = variable([2.0])
    for k in (1.0, 2.0, 5.0, True, 3):
        with autograd.record():
            y = x * k + k
        y.backward()
        assert values(x.grad) == [float(k)]


def test_types_of_scalars_are_told_apart():
    a = mx.np.array([1, 2], dtype="int32")
    assert (a + 1).dtype == "int32" and (a + 1.0).dtype == "float64" and (a + True).dtype == "int32"
    b = mx.np.array([True, False], dtype="bool")
    assert (b + 1).dtype == "int64" and (b + 1.0).dtype == "float64"
