"""Traps that once caught the runtime: memory under two ids, what a recording must not bake in, threads, forks."""
from __future__ import annotations

import gc
import signal
import threading
import time

import pytest

import raynd as mx
from raynd import protocol

pytestmark = pytest.mark.usefixtures("each_mode")


def test_a_gradient_shares_no_memory_with_the_head_gradient_nor_with_another():
    x, z = mx.np.ones(3), mx.np.ones(3)
    x.attach_grad(), z.attach_grad()
    with mx.autograd.record():
        y = x + z
    head = mx.np.ones(3)
    y.backward(head, retain_graph=True)
    head[0] = 5
    assert x.grad.tolist() == z.grad.tolist() == [1, 1, 1]
    a, b = mx.autograd.grad(y, [x, z], head)
    a[1], head[2] = 7, 9
    assert [a.tolist(), b.tolist(), head.tolist()] == [[5, 7, 1], [5, 1, 1], [5, 1, 9]]


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)])
def test_results_of_a_program_share_no_memory(part):
    class Block(mx.gluon.HybridBlock):
        def forward(self, x):
            y = x * 2
            return x, y, y, mx.npx.reshape(y, (-1, 1)), x.detach()

    block, whole = Block(), mx.np.ones(4)
    block.hybridize()
    for _ in range(2):
        x = whole[part]
        results = block(x)
        results[0][0], results[1][0], results[3][0] = 5, 6, 7
        x[1] = 8
        assert [r.reshape(-1)[:2].tolist() for r in results] == [[5, 1], [6, 2], [2, 2], [7, 2], [1, 1]]
        assert x[:2].tolist() == [1, 8]
        x[1] = 1


class Scaled(mx.gluon.HybridBlock):
    """x times a state and a parameter that the forward first computes with alone; the state moves at each call."""

    def __init__(self):
        super().__init__()
        self.w = mx.gluon.Parameter("w", shape=(3,), init="ones")
        self.state = mx.np.full(3, 3.0)

    def forward(self, x):
        y = x * self.state * (self.w.data(x.device) * 2)
        self.state[:] = self.state * 2
        self.state += 1
        return y


def steps(block, *further):
    out = []
    for i in range(3):
        x = mx.np.ones(3)
        x.attach_grad()
        with mx.autograd.record():
            y = block(x, *further)
        y.backward()
        out.append([v.tolist() for v in (y, x.grad, block.w.grad(), block.state)])
        block.w.set_data(mx.np.full(3, i + 2.0))
    return out


def test_a_blocks_own_arrays_are_inputs_of_its_program_also_where_they_are_used_alone():
    blocks = [Scaled(), Scaled()]
    for b in blocks:
        b.initialize()
    blocks[1].hybridize()
    assert steps(blocks[1]) == steps(blocks[0])
    assert len(next(iter(blocks[1]._cached_op.programs.values())).forward.description[3]) > 4


def test_an_array_written_and_read_through_a_view_keeps_a_block_eager():
    class Block(Scaled):
        def forward(self, x):
            self.part[:] = self.part + 1
            return x * self.state * self.w.data()

    results = []
    for hybrid in (False, True):
        block = Block()
        block.part = block.state[1:]
        block.initialize()
        if hybrid:
            block.hybridize()
            with pytest.warns(mx.errors.FallbackWarning, match="view"):
                results.append(steps(block))
        else:
            results.append(steps(block))
    assert results[0] == results[1]


def test_a_value_on_the_tape_from_outside_keeps_a_block_eager():
    class Block(mx.gluon.HybridBlock):
        def forward(self, x):
            return x * self.gate

    block, q = Block(), mx.np.ones(2)
    q.attach_grad()
    block.hybridize()
    with pytest.warns(mx.errors.FallbackWarning, match="on the tape"):
        for i in range(3):
            with mx.autograd.record():
                block.gate = q * i
                y = block(mx.np.ones(2))
            y.backward()
            assert q.grad.tolist() == [i, i]


def test_an_argument_and_its_detached_self_are_two_arguments():
    class Block(mx.gluon.HybridBlock):
        def forward(self, x, z):
            return x * 2 + z * 3

    block = Block()
    block.hybridize()
    x = mx.np.ones(2)
    x.attach_grad()
    for args, gradient in (((x, x.detach()), 2), ((x.detach(), x), 3), ((x, x), 5)):
        with mx.autograd.record():
            y = block(*args)
        y.backward()
        assert x.grad.tolist() == [gradient] * 2


def test_dicts_and_objects_as_arguments_are_those_of_the_call():
    class Choice:
        def __init__(self, factor):
            self.factor = factor

    class Block(mx.gluon.HybridBlock):
        def forward(self, x, extra, choice):
            return {"y": x * extra["m"] * choice.factor, "z": [x]}

    block = Block()
    block.hybridize()
    for i in range(5):                       # each new object may get the address of the one before
        made = block(mx.np.ones(2), {"m": mx.np.full(2, i)}, Choice(i))
        assert made["y"].tolist() == [i * i] * 2 and made["z"][0].tolist() == [1, 1]
    assert len(block._cached_op.programs) == 5


def together(function, count=4):
    """Run ``function(i)`` in threads; raises the first of their errors."""
    errors = []

    def guarded(i):
        try:
            function(i)
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_may_be_the_first_to_call_a_block():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(5), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(2))
    net.initialize(device=[mx.cpu(0), mx.cpu(1)])
    net.hybridize()
    ready = threading.Barrier(4)

    def calls(i):
        ready.wait()
        for n in range(3):
            x = mx.np.ones((2 + n, 4), device=mx.cpu(i % 2))
            x.attach_grad()
            with mx.autograd.record():
                y = net(x)
            y.backward()
            assert y.shape == (2 + n, 2) and x.grad.asnumpy().shape == (2 + n, 4)
    together(calls)


def test_threads_may_be_the_first_to_use_host_arrays_and_to_copy_between_devices():
    shared = [mx.np.array([i, i]) for i in range(50)]

    def uses(i):
        for n, x in enumerate(shared):
            there = (x + 1).copyto(mx.cpu(1 + (i + n) % 3))
            assert (there * 2).copyto(mx.cpu(0)).tolist() == [2 * n + 2] * 2
    together(uses)


def test_what_is_sent_before_a_wait_is_sent_also_if_another_thread_took_it_off_the_queue():
    """In local mode a value must have been posted when the other device is to take it."""
    from raynd.engine import engine
    queue = engine.queue(mx.cpu(0))
    mx.np.ones(3).wait_to_read()
    entered, link = threading.Event(), queue.link

    class Slow:
        sent = False

        def __getattr__(self, name):
            return getattr(link, name)

        def submit(self, batch):
            entered.set()
            time.sleep(0.2)
            link.submit(batch)
            self.sent = True

    queue.link = Slow()
    try:
        queue.pending.append(((protocol.WAIT, -1, None), "wait", None, 0))
        thread = threading.Thread(target=queue.flush)
        thread.start()
        entered.wait()
        queue.flush_fully()
        assert queue.link.sent
        thread.join()
    finally:
        queue.link = link


def test_a_put_off_interrupt_is_raised_in_the_main_thread_only():
    from raynd.engine import engine
    x = mx.np.ones(3)
    (x + 1).wait_to_read()
    engine.interrupted = True
    together(lambda i: [(x + 1).tolist() for _ in range(3)], 2)
    assert engine.interrupted
    with pytest.raises(KeyboardInterrupt):
        (x + 1).tolist()
    assert not engine.interrupted and (x + 1).tolist() == [2] * 3


def test_the_bulk_size_holds_until_it_is_changed():
    from raynd.engine import engine
    queue = engine.queue(mx.cpu(0))
    with mx.engine.bulk(9):
        assert queue.batch_limit == 9
        (mx.np.ones(3) + 1).tolist()
        assert queue.batch_limit == 9


def test_views_inside_a_program_are_views():
    class Block(mx.gluon.HybridBlock):
        def forward(self, x):
            y = x * 1
            part, first = y[1:], y[0]
            part += 1
            first[:] = 9
            deep = part[0]
            deep *= 2
            flat = y.reshape_view((-1,))
            flat[5] = 7
            return y, part, first, deep, flat, x[0]

    block, results = Block(), []
    for hybrid in (False, True):
        block.hybridize(hybrid)
        for _ in range(2):
            results.append([r.tolist() for r in block(mx.np.ones((3, 2)))])
    assert all(r == results[0] for r in results) and results[0][0] == [[9, 9], [4, 4], [2, 7]]


def test_finalizers_that_use_arrays_lose_nothing():
    class Holder:
        def __init__(self):
            self.itself = self

        def __del__(self):
            made.append(x + 1)

    x, made = mx.np.ones(3), []
    for i in range(300):
        Holder()
        assert (mx.np.ones(2) + i).tolist() == [i + 1] * 2
        if i % 50 == 0:
            gc.collect()
    gc.collect()
    assert len(made) == 300 and all(y.tolist() == [2] * 3 for y in made)


def test_a_wait_in_the_middle_of_sending_is_refused_and_nothing_is_lost():
    from raynd.engine import engine
    x, y = mx.np.ones(3), mx.np.ones(3)
    mx.waitall()
    queue, errors = engine.queue(mx.cpu(0)), []
    link = queue.link

    class Interrupting:
        def __getattr__(self, name):
            return getattr(link, name)

        def submit(self, batch):
            queue.link = link
            try:
                (x + 1).tolist()
            except mx.MXNetError as error:
                errors.append(str(error))
            link.submit(batch)

    queue.link = Interrupting()
    assert (y + 2).tolist() == [3] * 3 and "finalizer" in errors[0]
    assert (x + 1).tolist() == [2] * 3


def test_a_hybridized_block_from_before_a_restart_says_so_and_can_be_initialized_again(each_mode):
    net = mx.gluon.nn.Dense(2)
    net.initialize()
    net.hybridize()
    net(mx.np.ones((1, 3))).wait_to_read()
    mx.shutdown()
    mx.init(mode=each_mode, cpu_devices=4)
    x = mx.np.ones((1, 3))
    for use in (lambda: net(x), lambda: net.weight.set_data(mx.np.ones((2, 3))), lambda: net.weight.data() + x):
        with pytest.raises(mx.errors.ShutdownError):
            use()
    net.initialize(force_reinit=True)
    assert net(x).shape == (1, 2)


def test_a_signal_handler_may_read_a_value_in_the_middle_of_a_wait(each_mode):
    if each_mode == "local":                 # where a wait is the work itself
        pytest.skip("local mode refuses it, see above")
    x, got = mx.np.ones((900, 900)), []
    x.wait_to_read()
    small = mx.np.ones(2, device=mx.cpu(1))

    def handler(number, frame):
        got.append((small + 1).tolist())

    before = signal.signal(signal.SIGALRM, handler)
    try:
        y = x
        for _ in range(15):
            y = mx.np.matmul(y, x) * 1e-3
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        y.wait_to_read()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert got == [[2, 2]]


def test_while_the_runtime_starts_other_threads_wait_and_a_finalizer_is_told(each_mode):
    from raynd import executors
    from raynd.engine import engine
    mx.shutdown()
    made, ready, default = [], threading.Barrier(3), executors.default

    def slow():
        engine.starting and made.append(default())
        with pytest.raises(mx.MXNetError, match="being started"):        # as a finalizer's use would be
            mx.np.ones(2)
        time.sleep(0.2)
        return made[-1]

    executors.default = slow
    try:
        def uses(i):
            ready.wait()
            if i == 0:
                mx.init(mode=each_mode, cpu_devices=4)
            else:
                time.sleep(0.05)
                assert (mx.np.ones(2) + i).tolist() == [1 + i] * 2
        together(uses, 3)
    finally:
        executors.default = default
    assert len(made) == 1 and engine.executor is made[0]
