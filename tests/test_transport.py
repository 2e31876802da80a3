"""The transport: framing, shared memory, its release, the end of a peer, and who is let in."""
import gc
import os
import pickle
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from raynd.errors import AuthenticationError, MXNetError
from raynd.worker import handshake, transport
from raynd.worker.regions import SMALLEST, RegionPool, shared_memory_available, size_class
from raynd.worker.transport import Channel, Listener, connect

KEY = b"k" * 32
needs_sharing = pytest.mark.skipif(not shared_memory_available(), reason="this system has no memfd")


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    left, right = Channel(left, RegionPool()), Channel(right, RegionPool())
    yield left, right
    left.close()
    right.close()


def collect(channel, count):
    messages = []
    while len(messages) < count:
        assert channel.wait(20), f"only {len(messages)} of {count} messages came"
        messages += channel.receive()
    return messages


def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def carry(sender, receiver, array, **options):
    """Send an array; the receiver's uint8 view of it."""
    sender.send(pickle.dumps(sender.pack(array)))
    return receiver.unpack(pickle.loads(collect(receiver, 1)[0]), **options)


# Framing -------------------------------------------------------------------------------------------------------------

def test_messages_arrive_whole_and_in_order_at_any_chunk_size():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    sizes = [0, 1, 7, 8, 9, transport.LARGE_BYTES - 8, transport.LARGE_BYTES, transport.BUFFER_BYTES - 8,
             transport.BUFFER_BYTES, transport.BUFFER_BYTES + 1] + [rng.randrange(200) for _ in range(300)]
    rng.shuffle(sizes)
    messages = [rng.randbytes(size) for size in sizes]
    stream = b"".join(struct.pack("<Q", len(message)) + message for message in messages)
    raw, end = socket.socketpair()
    with raw:
        channel = Channel(end, None)
        got, position = [], 0
        while position < len(stream):
            size = rng.choice((1, 3, 8, 9, 100, 5000, 100000))
            position += raw.send(stream[position:position + size])
            got += channel.receive()
        while len(got) < len(messages):
            got += channel.receive()
        assert [bytes(message) for message in got] == messages
        channel.close()


def test_buffers_of_one_message_are_joined(pair):
    left, right = pair
    left.send([b"ab", np.arange(3, dtype=np.int16), memoryview(b"")])
    left.send([])
    left.send(np.ones((2, 2), np.float32))
    left.send(bytearray(b"z"))
    assert collect(right, 4) == [b"ab" + np.arange(3, dtype=np.int16).tobytes(), b"", np.ones(4, "f4").tobytes(), b"z"]


def test_more_buffers_than_one_system_call_takes(pair):
    left, right = pair
    parts = [bytes([i % 256]) * 1000 for i in range(3000)]
    thread = in_thread(left.send, parts)
    message, = collect(right, 1)
    thread.join()
    assert bytes(message) == b"".join(parts)


def test_two_sides_that_send_at_once_do_not_block_each_other(pair):
    big, got = os.urandom(8 << 20), []

    def send_then_receive(channel):
        channel.send(big)
        got.extend(bytes(message) for message in collect(channel, 1))

    threads = [in_thread(send_then_receive, channel) for channel in pair]
    for thread in threads:
        thread.join()
    assert got == [big, big]


def test_wait_ends_without_input_and_sees_what_a_send_has_read(pair):
    left, right = pair
    assert not left.wait(0) and not left.wait(0.001, spin_us=100) and left.receive() == []
    right.send(b"early")
    thread = in_thread(left.send, os.urandom(4 << 20))                 # stalls, so it reads
    while not left.pending:
        time.sleep(0.001)
    assert left.wait(0) and left.receive() == [b"early"]
    collect(right, 1)
    thread.join()


def test_threads_share_a_channel(pair):
    left, right = pair
    threads = [in_thread(lambda n=n: [left.send(struct.pack("ii", n, i) * 50) for i in range(300)]) for n in range(4)]
    got = [struct.unpack_from("ii", message) for message in collect(right, 1200)]
    for thread in threads:
        thread.join()
    for n in range(4):
        assert [i for sender, i in got if sender == n] == list(range(300))


def test_a_garbage_frame_ends_the_channel_after_what_came_before():
    raw, end = socket.socketpair()
    with raw:
        channel = Channel(end, None)
        raw.send(struct.pack("<Q", 2) + b"ok")
        assert collect(channel, 1) == [b"ok"]
        raw.send(b"\xff" * 16)
        with pytest.raises(ConnectionError, match="unknown kind"):
            channel.receive()
        assert channel.closed


class Interrupt(Exception):
    pass


@pytest.fixture
def interrupts():
    """A list whose first item says whether the signal, which comes about every 100 us, raises Interrupt."""
    armed = [False]

    def handler(*_):
        if armed[0]:
            armed[0] = False
            raise Interrupt

    previous = signal.signal(signal.SIGUSR1, handler)
    program = "import os, sys, time\nwhile True:\n  time.sleep(1e-5)\n  os.kill(int(sys.argv[1]), 10)"
    # Another process, since pytest-timeout owns the timer and a thread would share the interpreter's lock.
    child = subprocess.Popen([sys.executable, "-S", "-c", program, str(os.getpid())])
    gc.collect()                         # an exception in a callback of the collector goes nowhere
    gc.disable()
    yield armed
    gc.enable()
    child.kill()
    child.wait()
    signal.signal(signal.SIGUSR1, previous)


def numbered(count):
    return [struct.pack("<I", n) * (1 + n * 7919 % 30000) for n in range(count)]


def test_an_interrupted_receive_loses_nothing(pair, interrupts):
    left, right = pair
    messages, got, count = numbered(2000), [], 0
    thread = in_thread(lambda: [left.send(message) for message in messages])
    while len(got) < len(messages):
        try:
            interrupts[0] = True
            got.extend(right.receive())
            interrupts[0] = False
        except Interrupt:
            count += 1
    interrupts[0] = False
    thread.join()
    assert [bytes(message) for message in got] == messages
    assert count


def test_an_interrupted_send_tears_no_frame(pair, interrupts):
    left, right = pair
    messages, got, interrupted = numbered(2000), [], set()

    def read():
        while not got or got[-1] != b"end":
            got.extend(bytes(message) for message in collect(right, 1))

    thread = in_thread(read)
    for n, message in enumerate(messages):
        try:
            interrupts[0] = True
            left.send(message)
            interrupts[0] = False
        except Interrupt:
            interrupted.add(n)
    interrupts[0] = False
    left.send(b"end")
    thread.join()
    seen = [struct.unpack_from("<I", message)[0] for message in got[:-1]]
    assert seen == sorted(set(seen)), "a frame came twice or out of order"
    assert all(message == messages[n] for n, message in zip(seen, got))
    assert set(range(len(messages))) - set(seen) <= interrupted
    assert interrupted


def test_tcp_carries_arrays_as_bytes():
    with socket.create_server(("127.0.0.1", 0)) as server:
        raw = socket.create_connection(server.getsockname())
        left, right = Channel(raw, RegionPool()), Channel(server.accept()[0], RegionPool())
    array = np.arange(50000, dtype=np.float32)
    assert not left.shared
    np.testing.assert_array_equal(carry(left, right, array).view(np.float32), array)
    with pytest.raises(MXNetError, match="shared memory"):
        left.reference(None, 0, 1)
    left.close()
    with pytest.raises(ConnectionError):
        while True:
            right.wait(5)
            right.receive()


def test_a_closed_channel_says_so(pair):
    left, right = pair
    left.send(b"last words")
    left.close()
    left.close()
    assert left.closed and left.wait(0)
    for use in (left.receive, lambda: left.send(b"")):
        with pytest.raises(ConnectionError, match="closed"):
            use()
    assert right.receive() == [b"last words"]
    with pytest.raises(ConnectionResetError):
        right.receive()
    assert right.closed
    with pytest.raises(ConnectionError):
        right.send(b"x")


def test_sending_to_a_peer_that_is_gone_raises_even_when_the_socket_is_full(pair):
    left, right = pair
    errors = []

    def send():
        try:
            left.send(bytes(64 << 20))
        except ConnectionError as error:
            errors.append(error)

    thread = in_thread(send)
    while not right.wait(0):
        pass
    right.close()
    thread.join(20)
    assert not thread.is_alive() and len(errors) == 1


# Regions -------------------------------------------------------------------------------------------------------------

def test_size_classes_waste_at_most_a_quarter():
    for nbytes in [0, 1, SMALLEST - 1, SMALLEST, SMALLEST + 1, *(random.randrange(1, 1 << 34) for _ in range(500))]:
        capacity = size_class(nbytes)
        assert capacity >= max(nbytes, SMALLEST) and capacity % 4096 == 0
        assert nbytes <= SMALLEST or capacity <= nbytes * 1.25 + 4096
        assert size_class(capacity) == capacity


@needs_sharing
def test_regions_are_reused_and_counted():
    pool = RegionPool()
    region = pool.allocate(100_000)
    array = region.array(100_000)
    array[:] = 7
    region.hold()
    assert region.refs == 2
    region.release()
    other = pool.allocate(100_000)
    assert other.id != region.id
    region.release()
    assert region.refs == 0 and pool.stats()["idle"] == region.capacity
    assert pool.allocate(80_000) is region, "within the accepted waste"
    region.release()
    assert pool.allocate(20_000) is not region, "far too large"
    with pytest.raises(MXNetError, match="more often"):
        region.release()


@needs_sharing
def test_idle_memory_is_bounded_and_closed():
    pool = RegionPool(limit_idle=1 << 20)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    regions = [pool.allocate(300_000) for _ in range(8)]
    view = regions[0].array(10)
    view[:] = 5
    for region in regions:
        region.release()
    assert pool.stats()["idle"] <= 1 << 20
    pool.close_idle()
    assert pool.stats() == {"regions": 0, "bytes": 0, "idle": 0}
    del regions[1:], region
    assert len(os.listdir("/proc/self/fd")) <= before + 1, "only the map under the view is left"
    assert view.sum() == 50
    with pytest.raises(MXNetError, match="closed"):
        regions[0].array()


@needs_sharing
def test_releases_may_come_from_any_thread_at_any_time():
    pool = RegionPool(limit_idle=1 << 20)

    def work():
        for _ in range(2000):
            region = pool.allocate(random.randrange(1 << 18))
            region.hold()
            assert region.refs >= 1
            region.release()
            region.release()

    threads = [in_thread(work) for _ in range(4)]
    for thread in threads:
        thread.join()
    stats = pool.stats()
    assert stats["bytes"] == stats["idle"] <= 1 << 20


@needs_sharing
def test_a_pool_without_room_makes_the_sender_copy(pair):
    left, right = pair
    left._pool = RegionPool(limit_regions=1)
    kept = left._pool.allocate(100_000)
    payload = left.pack(np.ones(100_000, np.uint8))
    assert payload[0] == "b" and right.unpack(payload).sum() == 100_000
    kept.release()
    assert left.pack(np.ones(1 << 20, np.uint8))[0] == "r", "the idle one makes room"


# Arrays --------------------------------------------------------------------------------------------------------------

@needs_sharing
@pytest.mark.parametrize("array", [
    np.arange(100_000, dtype=np.float64).reshape(100, 1000), np.arange(100_000, dtype=np.int16)[::-1][::3],
    np.asfortranarray(np.arange(90_000.0).reshape(300, 300)), np.zeros((0, 3)), np.float32(2.5), np.ones(5, bool),
], ids=["contiguous", "stepped", "fortran", "empty", "scalar", "small"])
def test_arrays_arrive_in_c_order(pair, array):
    got = carry(*pair, array)
    assert got.dtype == np.uint8 and got.ndim == 1 and not got.flags.writeable
    np.testing.assert_array_equal(got.view(array.dtype).reshape(array.shape), array)


@needs_sharing
def test_an_adopted_array_is_the_senders_memory_and_writable_on_request(pair):
    left, right = pair
    region = left._pool.allocate(1 << 20)
    region.array()[:] = 1
    payload = left.reference(region, 4096, 1 << 19)
    left.send(pickle.dumps(payload))
    view = right.unpack(pickle.loads(collect(right, 1)[0]), writable=True)
    assert view.nbytes == 1 << 19
    view[:] = 9
    assert region.array(4096).max() == 1 and region.array(1 << 19, 4096).min() == 9
    region.release()
    read_only = carry(left, right, np.zeros(1 << 18, np.uint8))
    with pytest.raises(ValueError):
        read_only[0] = 1
    with pytest.raises(ValueError):
        read_only.flags.writeable = True


@needs_sharing
def test_adopting_and_releasing_does_not_grow(pair):
    left, right = pair
    array = np.arange(1 << 18, dtype=np.float32)
    for n in range(300):
        array[0] = n
        got = carry(left, right, array)
        assert got.view(np.float32)[0] == n
        del got
        right.flush_releases()
        left.receive()
    assert left._pool.stats()["regions"] == 1
    assert len(right._mappings) == 1


@needs_sharing
def test_a_region_is_held_until_the_last_view_is_gone(pair):
    left, right = pair
    got = carry(left, right, np.arange(100_000.0))
    last = got.view(np.float64).reshape(100, 1000)[3:5].T[::2]
    wrapped = memoryview(last[0])
    expected = last.copy()

    def held():
        gc.collect()
        right.flush_releases()
        left.receive()
        return left._pool.stats()["idle"] == 0

    assert held()
    del got
    assert held()
    np.testing.assert_array_equal(last, expected)
    del last
    assert held(), "a buffer over a view counts too"
    del wrapped
    assert not held()


@needs_sharing
def test_several_references_to_one_region(pair):
    left, right = pair
    region = left._pool.allocate(1 << 20)
    payloads = [left.reference(region, i << 16, 1 << 16) for i in range(4)]
    region.release()
    left.send(b"now")
    collect(right, 1)
    views = [right.unpack(payload) for payload in payloads[:3]]
    right.discard(payloads[3])
    while views:
        assert region.refs > 0
        views.pop()
        right.send(b"done")                        # a release goes with any message
        collect(left, 1)
    assert region.refs == 0


@needs_sharing
def test_a_region_that_its_owner_closed_is_unmapped(pair):
    left, right = pair
    got = carry(left, right, np.ones(1 << 20, np.uint8))
    del got
    right.flush_releases()
    left.receive()
    left._pool.close_idle()
    left.send(b"x")
    assert collect(right, 1) == [b"x"]
    assert not right._mappings and not left._known


@needs_sharing
def test_closing_releases_what_the_peer_held_and_keeps_its_arrays(pair):
    left, right = pair
    got = carry(left, right, np.full(1 << 20, 3, np.uint8))
    assert left._pool.stats()["idle"] == 0
    right.close()
    with pytest.raises(ConnectionError):
        left.receive()
    assert left._pool.stats()["idle"] == 1 << 20
    left._pool.close_idle()
    assert got.min() == got.max() == 3
    with pytest.raises(ConnectionError):
        left.pack(np.ones(1 << 20, np.uint8))
    assert left._pool.stats()["bytes"] == left._pool.stats()["idle"]


@needs_sharing
def test_bad_payloads_are_refused(pair):
    left, right = pair
    payload = carry(left, right, np.ones(1 << 16, np.uint8)) is not None and next(iter(right._mappings))
    for bad in (("r", payload, 0, (1 << 16) + 1), ("r", payload, -1, 4), ("r", 999, 0, 1)):
        with pytest.raises(MXNetError):
            right.unpack(bad)
    with pytest.raises(MXNetError, match="objects"):
        left.pack(np.array([None]))


@needs_sharing
def test_descriptors_survive_partial_frames_and_leak_nowhere():
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    raw, end = socket.socketpair()
    pool = RegionPool()
    region = pool.allocate(1 << 16)
    region.array()[:] = 4
    channel = Channel(end, None)
    frame = struct.pack("<QQQ", transport.REGION << 56 | 16, region.id, region.capacity)
    for cut in (1, 8, 15, 24):
        channel._mappings.clear()
        socket.send_fds(raw, [frame[:cut]], [region.fd])
        assert channel.receive() == []
        raw.send(frame[cut:] + struct.pack("<Q", 1) + b"m")
        assert channel.receive() == [b"m"]
        assert channel.unpack(("r", region.id, 0, 10)).sum() == 40
    socket.send_fds(raw, [frame[:5]], [region.fd])     # the rest never comes
    raw.close()
    with pytest.raises(ConnectionError):
        channel.receive()
    del channel
    region.release()
    pool.close_idle()
    del region, pool
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


# Other processes -----------------------------------------------------------------------------------------------------

PEER = """
import pickle, sys, time
import numpy as np
from raynd.worker.regions import RegionPool
from raynd.worker.transport import Channel, connect
address, key, role = pickle.loads(bytes.fromhex(sys.argv[1]))
channel = Channel(connect(address, key, 20, role.encode()), RegionPool())
kept = []
while True:
    channel.wait()
    for message in channel.receive():
        kept.append(channel.unpack(pickle.loads(message)))
        channel.send(pickle.dumps((int(kept[-1][:10].sum()), channel.pack(np.full(1 << 20, 6, np.uint8)))))
"""


@pytest.fixture(params=["unix", "tcp"])
def process(request):
    with_host = {"host": "127.0.0.1"} if request.param == "tcp" else {}
    listener = Listener(request.param, key=KEY, **with_host)
    argument = pickle.dumps((listener.address, KEY, "peer 1")).hex()
    child = subprocess.Popen([sys.executable, "-c", PEER, argument], stderr=subprocess.DEVNULL)
    sock, hello = listener.accept(30)
    assert hello == b"peer 1"
    channel = Channel(sock, RegionPool())
    yield child, channel
    channel.close()
    listener.close()
    child.kill()
    child.wait()


@pytest.mark.kill
def test_a_killed_peer_is_seen_its_holds_released_and_its_arrays_stay(process):
    child, channel = process
    channel.send(pickle.dumps(channel.pack(np.ones(1 << 20, np.uint8))))
    total, payload = pickle.loads(collect(channel, 1)[0])
    assert total == 10
    array = channel.unpack(payload)
    if channel.shared:
        assert channel._pool.stats()["idle"] == 0
    child.kill()
    with pytest.raises(ConnectionError):
        while True:
            assert channel.wait(20)
            channel.receive()
    assert channel.closed
    assert channel._pool.stats()["bytes"] == channel._pool.stats()["idle"]
    assert array.nbytes == 1 << 20 and array.min() == array.max() == 6


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_hide_the_parents_end(pair):
    left, right = pair
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, b"y" if left.closed and right.closed else b"n")
            time.sleep(30)
        finally:
            os._exit(0)
    assert os.read(read, 1) == b"y"
    left.send(b"the parent's channel lives")
    assert collect(right, 1) == [b"the parent's channel lives"]
    left.close()
    assert right.wait(5)
    with pytest.raises(ConnectionError):
        right.receive()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    os.close(write)


# Who is let in -------------------------------------------------------------------------------------------------------

@pytest.fixture(params=["unix", "tcp"])
def listener(request):
    listener = Listener(request.param, host="127.0.0.1", key=KEY)
    yield listener
    listener.close()


def stranger(listener):
    address = listener.address
    sock = socket.socket(socket.AF_UNIX if address[0] == "unix" else socket.AF_INET)
    sock.settimeout(20)
    sock.connect(address[1] if address[0] == "unix" else address[1:])
    return sock


def admit(listener, hello=b""):
    """One honest client; the listener's and the client's socket and the hello."""
    clients = []
    thread = in_thread(lambda: clients.append(connect(listener.address, KEY, 20, hello)))
    accepted = listener.accept(20)
    thread.join()
    return accepted[0], clients[0], accepted[1]


def works(listener):
    server, client, hello = admit(listener, b"driver")
    with server, client:
        client.send(b"ping")
        return server.recv(4) == b"ping" and hello == b"driver"


def test_an_honest_client_is_let_in(listener):
    assert pickle.loads(pickle.dumps(listener.address)) == listener.address
    assert works(listener)
    server, client, hello = admit(listener, b"h" * 4096)
    with server, client:
        assert hello == b"h" * 4096
        if listener.address[0] == "tcp":
            for sock in (server, client):
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    with pytest.raises(MXNetError, match="4096"):
        connect(listener.address, KEY, hello=b"h" * 4097)
    assert listener.accept(0) is None and listener.accept(0.01) is None and not listener.refused


def test_a_wrong_key_is_refused_on_both_sides(listener):
    errors = []

    def wrong():
        try:
            connect(listener.address, b"x" * 32, 20)
        except AuthenticationError as error:
            errors.append(error)

    thread = in_thread(wrong)
    while not listener.refused:
        assert listener.accept(0.1) is None
    thread.join()
    assert len(errors) == 1 and "key" in str(listener.refused[0])
    assert works(listener)


def test_keys_must_not_be_short():
    with pytest.raises(MXNetError, match="16"):
        Listener("unix", key=b"short")
    with pytest.raises(MXNetError, match="16"):
        connect(("unix", "x"), b"")


def test_a_listener_that_does_not_know_the_key_is_refused(listener):
    impostor = Listener(listener.address[0], host="127.0.0.1", key=b"i" * 32)
    thread = in_thread(impostor.accept, 5)
    with pytest.raises(AuthenticationError):
        connect(impostor.address, KEY, 20)
    impostor.close()
    thread.join()


@needs_sharing
def test_another_user_is_refused(monkeypatch):
    listener = Listener("unix", key=KEY)
    with stranger(listener) as sock:
        monkeypatch.setattr(handshake, "_peer_credentials", lambda sock: (77, os.geteuid() + 1, 0))
        assert listener.accept(0.1) is None
        assert "belongs to user" in str(listener.refused[0])
        assert sock.recv(100) == b"", "not even a greeting"
        with pytest.raises(AuthenticationError, match="belongs to user"):
            connect(listener.address, KEY)
    monkeypatch.undo()
    assert works(listener)
    listener.close()


def test_silent_strangers_are_dropped_and_delay_nobody(listener, monkeypatch):
    monkeypatch.setattr(handshake, "HANDSHAKE_SECONDS", 0.3)
    silent = [stranger(listener) for _ in range(5)]
    slow = stranger(listener)
    slow.send(handshake.MAGIC[:3])
    assert works(listener)
    while len(listener.refused) < 6:
        assert listener.accept(0.1) is None
    for sock in (*silent, slow):
        sock.settimeout(20)
        try:
            while sock.recv(100):
                pass
        except ConnectionResetError:
            pass
        sock.close()
    assert works(listener)


def test_nonsense_is_refused(listener):
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", handshake.MAGIC + bytes(32) + b"\xff\xff", pickle.dumps(os.system),
                     handshake.MAGIC + bytes(32) + b"\0\0" + bytes(32), b""):
        seen = len(listener.refused)
        sock = stranger(listener)
        sock.send(nonsense)
        sock.shutdown(socket.SHUT_WR)
        while len(listener.refused) == seen:
            assert listener.accept(0.1) is None
        sock.close()
    assert works(listener)


def test_a_proof_sent_back_to_its_maker_is_worthless():
    """A false listener that does not know the key answers with the client's own nonce and proof."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def reflect():
            sock, _ = server.accept()
            with sock:
                sock.send(handshake.MAGIC + bytes(32))
                data = b""
                while len(data) < 40 + 2 + 32:
                    data += sock.recv(1000)
                sock.send(data[-32:])

        thread = in_thread(reflect)
        with pytest.raises(AuthenticationError, match="does not know"):
            connect(("tcp", "127.0.0.1", server.getsockname()[1]), KEY, 20)
        thread.join()


def test_a_recorded_handshake_is_worthless(listener):
    """An eavesdropper replays the bytes of an honest client; the listener's nonce is another one now."""
    with stranger(listener) as sock:
        while not listener._strangers:
            listener.accept(0)
        nonce_l = sock.recv(40)[8:]
        proof = handshake._proof(KEY, b"client", nonce_l, bytes(32), b"")
        recording = handshake.MAGIC + bytes(32) + b"\0\0" + proof
        sock.send(recording)
        listener.accept(20)[0].close()
    with stranger(listener) as sock:
        sock.send(recording)
        while not listener.refused:
            assert listener.accept(0.1) is None
    # The listener's own nonce and a listener's proof instead of a client's
    with stranger(listener) as sock:
        listener.accept(0.05)
        nonce_l = sock.recv(40)[8:]
        sock.send(handshake.MAGIC + nonce_l + b"\0\0" + handshake._proof(KEY, b"listener", nonce_l, nonce_l, b""))
        while len(listener.refused) < 2:
            assert listener.accept(0.1) is None


def test_the_hello_is_part_of_the_proof(listener):
    with stranger(listener) as sock:
        listener.accept(0.05)
        nonce_l = sock.recv(40)[8:]
        proof = handshake._proof(KEY, b"client", nonce_l, bytes(32), b"peer 1")
        sock.send(handshake.MAGIC + bytes(32) + b"\x06\0driver" + proof)
        while not listener.refused:
            assert listener.accept(0.1) is None


def test_a_listener_that_never_answers_times_out():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(AuthenticationError, match="did not finish"):
            connect(("tcp", "127.0.0.1", server.getsockname()[1]), KEY, 0.1)


def test_closing_a_listener_ends_a_waiting_accept(listener):
    results = []
    thread = in_thread(lambda: results.append(listener.accept()))
    while not listener._accepting.locked():
        time.sleep(0.001)
    listener.close()
    thread.join(20)
    assert results == [None] and listener.accept(1) is None
    with pytest.raises(OSError):
        connect(listener.address, KEY)
    listener.close()
