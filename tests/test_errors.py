"""Errors: at the call where shapes decide, as values where data does, in local mode and on Ray actors alike."""
from __future__ import annotations

import warnings

import numpy as onp
import pytest

import raynd as mx
from raynd.errors import DeviceError, MXNetError, ShutdownError

pytestmark = pytest.mark.usefixtures("each_mode")


def failing(device=None):
    """An array whose kernel fails on the device: the scale is only looked at there."""
    return mx.np.random.normal(0, mx.np.array([-1.0], device=device), size=(1,), device=device)


def clear_errors():
    while True:
        try:
            mx.waitall()
            return
        except MXNetError:
            continue


@pytest.fixture(autouse=True)
def no_error_left(each_mode):
    yield
    clear_errors()


@pytest.mark.parametrize("bad", [
    lambda: mx.np.ones((2, 3)) + mx.np.ones((4,)),
    lambda: mx.np.ones((2, 3)).reshape(7),
    lambda: mx.np.ones((2, -1)),
    lambda: mx.np.matmul(mx.np.ones((2, 3)), mx.np.ones((2, 3))),
    lambda: mx.np.zeros((2 ** 40, 2 ** 40)),
])
def test_bad_shapes_raise_at_the_call(bad):
    with pytest.raises(ValueError) as caught:
        bad()
    assert isinstance(caught.value, MXNetError)


def test_bad_dtype_device_and_arguments_raise_at_the_call():
    with pytest.raises(TypeError):
        mx.np.zeros(3, dtype="foo")
    with pytest.raises(TypeError):
        mx.np.zeros(3, device=3)
    with pytest.raises(TypeError):
        mx.np.sum(mx.np.ones(3), axes=0)
    with pytest.raises(DeviceError, match=r"cpu\(99\) does not exist: .* 4 cpu"):
        mx.np.zeros(3, device=mx.cpu(99))
    with pytest.raises(DeviceError, match=r"gpu\(0\) does not exist"):
        mx.np.zeros(3, device=mx.gpu(0))


def test_mixed_devices_name_both_and_the_remedy():
    a, b = mx.np.ones(3, device=mx.cpu(0)), mx.np.ones(3, device=mx.cpu(1))
    with pytest.raises(DeviceError, match=r"cpu\(0\) and cpu\(1\).*to_device"):
        a + b
    assert (a + b.to_device(mx.cpu(0))).asnumpy().tolist() == [2, 2, 2]


def test_a_failed_kernel_raises_at_every_wait_on_its_result_with_the_users_line():
    bad = failing()                                           # the line that the error must name
    also = bad * 2 + 1
    for _ in range(2):
        with pytest.raises(MXNetError) as caught:
            also.asnumpy()
        text = str(caught.value)
        assert isinstance(caught.value, ValueError)
        assert "test_errors.py" in text and "random" in text and "cpu(0)" in text
    with pytest.raises(MXNetError):
        bad.wait_to_read()
    assert (mx.np.ones(3) + 1).asnumpy().tolist() == [2, 2, 2]     # the device lives on


def test_waitall_raises_each_root_error_once_and_a_seen_one_not_at_all():
    first, second = failing(), failing()
    with pytest.raises(MXNetError):
        mx.waitall()
    with pytest.raises(MXNetError):
        mx.waitall()
    mx.waitall()
    third = failing()
    with pytest.raises(MXNetError):
        third.asnumpy()
    mx.waitall()                                              # seen already
    del first, second


def test_an_error_travels_with_copies_between_devices():
    bad = failing(mx.cpu(1))
    copy = bad.copyto(mx.cpu(2)) + 1
    with pytest.raises(MXNetError, match=r"cpu\(1\)"):
        copy.asnumpy()


def test_what_a_failed_input_would_have_changed_keeps_its_last_good_value():
    x = mx.np.ones(1)
    x += failing()
    assert x.asnumpy().tolist() == [1]
    x[:] = failing()
    assert x.asnumpy().tolist() == [1]
    y = mx.np.zeros((2, 2))
    y[1:, 1] = failing()
    assert y.asnumpy().sum() == 0
    with pytest.raises(MXNetError):
        mx.waitall()                                          # but the errors are pending


def test_a_full_overwrite_clears_an_error():
    bad = failing()
    bad[:] = 3
    assert bad.asnumpy().tolist() == [3]


def test_gradients_of_a_bad_batch_are_errors_and_the_next_batch_trains():
    w = mx.np.ones(1)
    w.attach_grad()
    with mx.autograd.record():
        loss = (w * failing()).sum()
    loss.backward()
    with pytest.raises(MXNetError):
        w.grad.asnumpy()
    with mx.autograd.record():
        loss = (w * 3).sum()
    loss.backward()
    assert w.grad.asnumpy().tolist() == [3] and w.asnumpy().tolist() == [1]


def test_backward_twice_needs_retain_graph():
    x = mx.np.ones(2)
    x.attach_grad()
    with mx.autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(MXNetError, match="retain_graph"):
        y.backward()


def test_backward_and_grad_outside_a_recorded_graph():
    x = mx.np.ones(2)
    assert x.grad is None
    with pytest.raises(MXNetError, match="record"):
        x.backward()
    with pytest.raises(MXNetError, match="attach_grad"):
        mx.autograd.grad(x, x)


def test_in_place_writes_while_recording_raise():
    x = mx.np.ones(3)
    x.attach_grad()
    with mx.autograd.record():
        y = x * 2
        with pytest.raises(MXNetError):
            x += 1
        with pytest.raises(MXNetError):
            y[0] = 1
        with pytest.raises(MXNetError):
            mx.np.add(x, y, out=y)
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2, 2]


def test_copying_to_itself_warns_and_a_wrong_type_raises():
    x = mx.np.ones(2)
    with pytest.warns(RuntimeWarning):
        assert x.copyto(x) is False
    with pytest.raises(TypeError):
        x.copyto("cpu(1)")
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        x.copyto(mx.np.ones(3))


def test_use_after_shutdown_raises(each_mode):
    x = mx.np.ones(2)
    mx.shutdown()
    try:
        for use in (x.asnumpy, lambda: x + 1, lambda: x.copyto(mx.cpu(1)), x.wait_to_read):
            with pytest.raises(ShutdownError, match="shutdown"):
                use()
    finally:
        mx.init(mode=each_mode, cpu_devices=4)
    with pytest.raises(ShutdownError):
        x + mx.np.ones(2)
    assert (mx.np.ones(2) + 1).asnumpy().tolist() == [2, 2]


def test_starting_twice_and_bad_settings():
    with pytest.raises(MXNetError, match="already running"):
        mx.init(mode="local")
    with pytest.raises(TypeError):
        mx.init(mode="cloud")


def test_sum_of_many_small_failures_does_not_grow_without_bound():
    from raynd.engine import engine
    for _ in range(1500):
        failing()
    with pytest.raises(MXNetError):
        mx.waitall()
    assert len(engine.errors) <= 1000
    engine.errors.clear()


def test_a_warning_free_life():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = mx.np.array(onp.arange(6.0).reshape(2, 3))
        assert float((a @ a.T).sum()) == float((onp.arange(6.).reshape(2, 3) @ onp.arange(6.).reshape(2, 3).T).sum())
