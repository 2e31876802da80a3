"""Killing what can be killed: actors, drivers; and strangers at the door."""
from __future__ import annotations

import os
import signal
import socket
import time

import pytest

import raynd as mx
from raynd.errors import DeviceLostError

pytestmark = [pytest.mark.ray, pytest.mark.kill]


@pytest.fixture
def runtime():
    from conftest import restart
    restart("ray", cpu_devices=4)
    yield
    mx.shutdown()


def pid_of(device):
    return next(d.pid for d in mx.devices() if d.device == device)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(alive(p) for p in pids):
            return True
        time.sleep(0.1)
    return False


def test_a_killed_actor_is_reported_at_every_wait_and_the_others_live_on(runtime):
    a, b = mx.np.ones(4, device=mx.cpu(0)), mx.np.ones(4, device=mx.cpu(1))
    (a + 1).wait_to_read(), (b + 1).wait_to_read()
    pid = pid_of(mx.cpu(1))
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    for wait in (lambda: (b + 1).asnumpy(), b.wait_to_read, lambda: b.copyto(mx.cpu(0)).asnumpy(),
                 lambda: a.copyto(mx.cpu(1)), b.asnumpy):
        with pytest.raises(DeviceLostError, match=r"cpu\(1\)") as caught:
            wait()
        assert caught.value.pid == pid and str(caught.value.device) == "cpu(1)"
    assert time.monotonic() - started < 5
    assert (a + 1).asnumpy().tolist() == [2] * 4
    assert (a.copyto(mx.cpu(2)) * 3).asnumpy().tolist() == [3] * 4


def test_a_wait_that_is_under_way_ends_when_the_actor_dies(runtime):
    x = mx.np.ones((1500, 1500), device=mx.cpu(1))
    x.wait_to_read()
    pid = pid_of(mx.cpu(1))
    y = x
    for _ in range(60):
        y = mx.np.matmul(y, x) * 1e-3
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(DeviceLostError):
        y.asnumpy()
    assert time.monotonic() - started < 5


def test_a_peer_that_waits_for_a_killed_actor_gets_the_error_and_lives_on(runtime):
    a = mx.np.ones((1500, 1500), device=mx.cpu(0))
    b = mx.np.ones(3, device=mx.cpu(1))
    a.wait_to_read(), b.wait_to_read()
    pid = pid_of(mx.cpu(0))
    c = a
    for _ in range(60):
        c = mx.np.matmul(c, a) * 1e-3
    received = c.copyto(mx.cpu(1)) + 1                       # cpu(1) now waits for cpu(0)
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(DeviceLostError, match=r"cpu\(0\)"):
        received.asnumpy()
    assert time.monotonic() - started < 5
    assert (b + 1).asnumpy().tolist() == [2, 2, 2]


def test_each_of_two_killed_actors_is_named_where_its_value_is_missed_and_once_by_waitall(runtime):
    mx.np.ones(1, device=mx.cpu(0)).wait_to_read()
    work, pids = [], []
    for i in (1, 2):
        a = mx.np.ones((1500, 1500), device=mx.cpu(i))
        (a[0] + 1).copyto(mx.cpu(0)).wait_to_read()
        pids.append(pid_of(mx.cpu(i)))
        work.append(a)
    for i, a in enumerate(list(work)):
        for _ in range(40):
            work[i] = mx.np.matmul(work[i], a) * 1e-3
        work[i] = work[i].copyto(mx.cpu(0))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for i, x in enumerate(work):
        with pytest.raises(DeviceLostError, match=rf"cpu\({i + 1}\)") as caught:
            x.asnumpy()
        assert caught.value.pid == pids[i]
    for _ in pids:
        with pytest.raises(DeviceLostError):
            mx.waitall()
    mx.waitall()


def test_a_stranger_is_refused_before_anything_is_unpickled(runtime):
    from raynd.engine import engine
    from raynd.worker.transport import connect
    (mx.np.ones(2) + 1).wait_to_read()
    address = engine.executor.links[mx.cpu(0)].address
    with pytest.raises(ConnectionError):
        connect(address["tcp"], b"x" * 32, timeout=3, hello=b"driver")
    with pytest.raises(ConnectionError):
        connect(address["unix"], b"x" * 32, timeout=3, hello=b"peer cpu(9)")
    raw = socket.create_connection(tuple(address["tcp"][1:3]), timeout=5)
    with raw:
        raw.sendall(b"\x80\x05cposix\nsystem\n" + b"A" * 200)       # a pickle, not a handshake
        raw.settimeout(5)
        try:
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass
    assert (mx.np.ones(2) + 1).asnumpy().tolist() == [2, 2]


SCRIPT = """
import os, sys, time
import raynd as mx
x = mx.np.ones((512, 512), device=mx.cpu(0)); y = x.copyto(mx.cpu(1)) + x.copyto(mx.cpu(1))
y.asnumpy()
print(*[d.pid for d in mx.devices() if d.pid], flush=True)
"""


def shared_memory_files():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def ended_cleanly(process, out, before, spam_allowed=()):
    pids = [int(p) for p in out.split("\n")[0].split()]
    assert len(pids) >= 2
    assert gone(pids), "an actor outlived its driver"
    return pids


@pytest.mark.parametrize("ending, code, stderr", [
    ("", 0, None),
    ("raise KeyError('the script failed')", 1, "the script failed"),
    ("sys.exit(3)", 3, None),
    ("mx.shutdown()", 0, None),
])
def test_a_script_ends_cleanly(run_script, ending, code, stderr):
    before = shared_memory_files()
    done = run_script(SCRIPT + ending, mode="ray", timeout=60)
    assert done.returncode == code, done.stderr
    ended_cleanly(done, done.stdout, before)
    if stderr is None:
        assert done.stderr == ""
    else:
        assert stderr in done.stderr and done.stderr.count("Traceback") == 1
    assert not {n for n in shared_memory_files() - before if not n.startswith("sem.")}


def test_control_c_interrupts_the_wait_and_the_script_ends(start_script):
    process = start_script(SCRIPT + """
z = mx.np.ones((2000, 2000), device=mx.cpu(1))
try:
    for _ in range(2000):
        z = mx.np.matmul(z, z) * 1e-4
    z.asnumpy()
except KeyboardInterrupt:
    print("interrupted", (x + 1).asnumpy()[0, 0], flush=True)
    raise
""", mode="ray")
    first = process.stdout.readline()
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)                    # as a terminal does
    out, err = process.communicate(timeout=40)
    assert "interrupted 2.0" in out, err
    assert process.returncode in (-signal.SIGINT, 130, 1)
    assert gone([int(p) for p in first.split()])


def test_interrupts_at_any_moment_lose_no_array(start_script):
    """Ctrl-C again and again while commands stream: every array made so far stays usable."""
    process = start_script("""
import raynd as mx
x = mx.np.zeros((4,)); one = mx.np.ones((4,)); x.wait_to_read()
print("ready", flush=True)
done = interrupts = 0
while interrupts < 20:
    try:
        for _ in range(100000):
            y = x + one
            x, done = y, done + 1
            if done % 50 == 0:
                x.wait_to_read()
    except KeyboardInterrupt:
        interrupts += 1
        assert x.asnumpy().tolist() == [done] * 4, (x, done)
print("fine", flush=True)
""", mode="ray")
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.05)
    out, err = process.communicate(timeout=20)
    assert "fine" in out or "assert" not in err and "KeyboardInterrupt" in err, err[-2000:]


def test_a_forked_child_can_neither_use_nor_end_what_is_its_parents(run_script):
    done = run_script("""
import multiprocessing, os, sys
import raynd as mx
from raynd.errors import MXNetError

x, host = mx.np.ones(2), mx.np.array([1, 2])
(x + 1).wait_to_read()

def child(queue):
    said = []
    for use in (lambda: x + 1, lambda: x.asnumpy(), lambda: host + 1, lambda: mx.np.ones(2)):
        try:
            use()
        except MXNetError as error:
            said.append(str(error))
    mx.init(mode="local")
    queue.put((said, (mx.np.ones(2) + 1).tolist()))
    mx.shutdown()

context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
said, local = queue.get(timeout=20)
process.join(20)
assert process.exitcode == 0 and len(said) == 4 and "forked" in said[0] + said[1] and "spawn" in said[3], said
print(local, (x + 1).tolist(), (host + mx.np.ones(2)).tolist())
""", mode="ray")
    assert done.returncode == 0 and done.stdout.split("\n")[0] == "[2.0, 2.0] [2.0, 2.0] [2.0, 3.0]", done.stderr


def test_nothing_is_left_of_a_killed_driver(start_script):
    before = shared_memory_files()
    process = start_script(SCRIPT + "time.sleep(60)", mode="ray")
    pids = [int(p) for p in process.stdout.readline().split()]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert gone(pids), "an actor outlived its killed driver"
    assert not {n for n in shared_memory_files() - before if not n.startswith(("sem.", "plasma"))}


def test_errors_that_nobody_saw_are_reported_at_the_end(run_script):
    done = run_script("import raynd as mx\n"
                      "bad = mx.np.random.normal(0, mx.np.array([-1.0]), size=(1,))\n", mode="ray")
    assert done.returncode == 0
    assert "no wait has raised" in done.stderr and "script0.py:2" in done.stderr


@pytest.mark.parametrize("address, words", [("127.0.0.1:1", "no Ray cluster answers"),
                                            ("ray://127.0.0.1:10001", "job submit")])
def test_an_address_without_a_cluster_is_an_error_at_once(run_script, address, words):
    done = run_script("import raynd as mx; mx.np.ones(1)", mode="ray", env={"RAYND_ADDRESS": address}, timeout=30)
    assert done.returncode == 1 and words in done.stderr
