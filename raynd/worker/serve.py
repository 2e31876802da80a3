"""A device's server: the loop that feeds a :class:`~raynd.worker.worker.Worker` from the driver's stream.

The main thread reads the driver's stream and executes; while it waits for a value from a peer it goes on reading the
stream into a backlog, so that the driver can always send. A second thread reads the peers, so that a peer can always
send. Nothing therefore waits for a full socket whose reader waits in turn. One more thread for each listener admits
connections.
"""
from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque

import numpy

from .. import config, protocol
from ..errors import MXNetError
from ..protocol import Failure
from ..spec import as_dtype
from .copying import copy_large
from .regions import RegionPool
from .transport import Channel, Listener, connect, shared_memory_available
from .worker import Hooks, Worker, lost_failure

SPIN_US = 60                       # keep polling this long before sleeping: a wake-up costs about as much
REPORT_SPIN_US = 20                # ... and this long before reporting completions that nobody has asked for
REPORT_SECONDS = 0.002             # a worker that is kept busy still reports this often


class Server(Hooks):
    """Serves one driver. ``node`` tells which peers share this machine's memory."""

    def __init__(self, name, backend, key, node, host):
        self.name, self.key, self.node = name, key, node
        self.pool = RegionPool()
        self.worker = Worker(name, backend, self)
        self.listeners = [Listener("tcp", host=host, key=key)]
        if shared_memory_available():
            self.listeners.append(Listener("unix", key=key))
        self.peers = {}                     # name -> address
        self.links = {}                     # name -> outgoing Channel
        self.mailbox = {}                   # (tag, peer) -> value
        self.lost = {}                      # name -> cause
        self.driver = None
        self.backlog = deque()
        self.done = 0
        self.waiting = False
        self.closing = False
        self.lock = threading.Lock()
        self.wake = _Wake()
        self.rewatch = _Wake()
        self.incoming = {}                  # fd -> (Channel, peer name)
        self.started = threading.Event()
        self.admitted = deque()
        threading.Thread(target=self.attend, name="raynd-peers", daemon=True).start()
        for listener in self.listeners:
            threading.Thread(target=self.listen, args=(listener,), name="raynd-listen", daemon=True).start()

    def address(self):
        """Where a driver or a peer can connect."""
        return {"node": self.node, **{listener.address[0]: listener.address for listener in self.listeners}}

    # -- the other threads: connections and peers ------------------------------------------------------------------

    def listen(self, listener):
        """Admit authenticated connections; strangers are refused by the listener."""
        while not self.closing:
            accepted = listener.accept(timeout=5.0)
            if accepted is None:
                continue
            sock, hello = accepted
            role, _, peer = hello.decode().partition(" ")
            channel = Channel(sock, self.pool)
            with self.lock:
                if role == "driver" and self.driver is not None:
                    channel.close()         # one driver for the life of the actor
                    continue
                if role == "driver":
                    self.driver = channel
            self.admitted.append((channel, peer if role == "peer" else None))
            self.rewatch.set()
            if role == "driver":
                self.started.set()

    def attend(self):
        """Move what peers send to the mailbox; notice the end of the driver."""
        poller = select.poll()
        poller.register(self.rewatch.fileno(), select.POLLIN)
        while not self.closing:
            for fd, event in poller.poll(1000):
                if fd == self.rewatch.fileno():
                    self.rewatch.clear()
                    while self.admitted:
                        channel, peer = self.admitted.popleft()
                        if peer is not None:
                            self.incoming[channel.fileno()] = channel, peer
                        poller.register(channel.fileno(), select.POLLRDHUP if peer is None else select.POLLIN)
                elif fd in self.incoming:
                    self.read_peer(fd, poller)
                elif event & (select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL):
                    poller.unregister(fd)
                    self.driver_gone()

    def read_peer(self, fd, poller):
        """Take in what a peer has sent."""
        channel, peer = self.incoming[fd]
        try:
            for message in channel.receive():
                tag, payload, shape, dtype = protocol.decode(message)
                if isinstance(payload, Failure):
                    value = payload
                else:
                    value = channel.unpack(payload).view(as_dtype(dtype)).reshape(shape)
                self.deliver(tag, peer, value)
        except (ConnectionError, OSError) as error:
            poller.unregister(fd)
            del self.incoming[fd]
            channel.close()
            self.lose(peer, str(error) or "its connection closed")

    def deliver(self, tag, peer, value):
        """Put a peer's value into the mailbox."""
        with self.lock:
            self.mailbox[tag, peer] = value
            waiting = self.waiting
        if waiting:
            self.wake.set()

    def lose(self, peer, cause):
        """Note that a peer is gone: what it has not sent will never come."""
        with self.lock:
            self.lost[peer] = cause
        self.wake.set()

    def driver_gone(self):
        """The driver's end is closed. The main thread sees it when it next reads; a kernel that does not end by then
        must not keep the process."""
        def insist():
            time.sleep(10)
            os._exit(0)
        self.closing = True
        self.wake.set()
        threading.Thread(target=insist, daemon=True).start()

    # -- the main thread ------------------------------------------------------------------------------------------

    def run(self, start_timeout=60.0):
        """Serve until the driver closes its end. Returns the reason."""
        if not self.started.wait(start_timeout):
            return "no driver connected"
        driver = self.driver
        reported = time.monotonic()
        try:
            while True:
                messages = driver.receive()
                self.backlog.extend(messages)
                if not self.backlog:
                    if self.done:           # a driver that has just sent an operator often asks for its value next
                        if driver.wait(0.0, spin_us=REPORT_SPIN_US):
                            continue
                        self.report()
                    driver.wait(1.0, spin_us=SPIN_US)
                    continue
                while self.backlog:
                    self.worker.execute(protocol.decode(self.backlog.popleft()))
                    self.done += 1
                    if self.worker.replies or self.worker.failures:
                        self.report()
                        reported = time.monotonic()
                    elif time.monotonic() - reported > REPORT_SECONDS:
                        self.report()
                        reported = time.monotonic()
        except (ConnectionError, OSError) as error:
            return f"the driver closed its end ({error})"
        finally:
            self.close()

    def report(self):
        """Tell the driver what has completed."""
        for channel, _ in list(self.incoming.values()):
            channel.flush_releases()        # peers' regions whose arrays were freed here
        failures, replies = self.worker.report()
        done, self.done = self.done, 0
        self.driver.send(protocol.encode((done, failures, replies)))

    def close(self):
        """Close every connection."""
        self.closing = True
        for channel in (*self.links.values(), self.driver):
            if channel is not None:
                channel.close()
        for listener in self.listeners:
            listener.close()

    # -- hooks of the worker ---------------------------------------------------------------------------------------

    def pack(self, array):
        """A payload that belongs to the driver alone."""
        return self.driver.pack(array)

    def unpack(self, payload, shape, dtype):
        """The array of a PUT."""
        return self.driver.unpack(payload).view(as_dtype(dtype)).reshape(shape)

    def add_peer(self, name, address):
        """Learn where a peer listens."""
        self.peers[name] = address
        with self.lock:
            self.lost.pop(name, None)
        channel = self.links.pop(name, None)
        if channel is not None:
            channel.close()

    def link(self, peer):
        """The outgoing channel to a peer; connects on first use."""
        channel = self.links.get(peer)
        if channel is None or channel.closed:
            address = self.peers.get(peer)
            if address is None:
                raise MXNetError(f"{self.name} does not know {peer}")
            shared = address["node"] == self.node and "unix" in address and shared_memory_available()
            sock = connect(address["unix" if shared else "tcp"], self.key, timeout=10.0,
                           hello=f"peer {self.name}".encode())
            channel = self.links[peer] = Channel(sock, self.pool)
        return channel

    def post(self, peers, tag, value):
        """Send a value to peers; one region in shared memory serves all of them on this node.

        Returns that region's array (read-only, equal to ``value``) or None: a worker that keeps it in place of
        ``value`` can send it again without another copy.
        """
        region, own = self.region_of(value)
        kept = None
        try:
            for peer in peers:
                if peer in self.lost:
                    continue
                try:
                    channel = self.link(peer)
                    channel.receive()       # takes back regions that the peer has released
                    if isinstance(value, Failure):
                        channel.send(protocol.encode((tag, value, None, None)))
                        continue
                    if region is None and channel.shared and value.nbytes > config.INLINE_BYTES:
                        region = self.region_for(value.nbytes)
                        kept = None if region is None else OwnRegion.array(region, value)
                    if region is not None and channel.shared:
                        payload = channel.reference(region, 0, value.nbytes)
                    else:
                        payload = channel.pack(value)
                    channel.send(protocol.encode((tag, payload, value.shape, value.dtype.name)))
                except (ConnectionError, OSError) as error:
                    self.lose(peer, str(error) or "its connection closed")
        finally:
            if region is not None and not own:
                region.release()
        return kept

    def join(self, arrays):
        """One flat array in shared memory: what is sent to peers needs no other copy."""
        size = sum(a.nbytes for a in arrays)
        if size <= config.INLINE_BYTES or not shared_memory_available():
            return numpy.concatenate(arrays)
        region = self.region_for(size)
        if region is None:
            return numpy.concatenate(arrays)
        numpy.concatenate(arrays, out=region.array(size).view(arrays[0].dtype))
        result = numpy.asarray(OwnRegion(region, size)).view(arrays[0].dtype)
        region.release()
        return result

    def region_for(self, size):
        """A region for ``size`` bytes; None where descriptors or memory for sharing have run out."""
        region = self.pool.allocate_idle(size)
        if region is None:
            for channel in list(self.links.values()):
                with contextlib.suppress(OSError):
                    channel.receive()       # what peers have given back saves the first touch of fresh memory
            with contextlib.suppress(OSError):
                region = self.pool.allocate(size)
        return region

    @staticmethod
    def region_of(value):
        """(region, True) if ``value`` is the whole array of a region of ours, else (None, False)."""
        base = value
        while isinstance(base, numpy.ndarray):
            base = base.base
        if isinstance(base, OwnRegion) and base.matches(value):
            return base.region, True
        return None, False

    def take(self, tag, peer):
        """The value ``peer`` posted under ``tag``; meanwhile the driver's stream is read into the backlog."""
        key = tag, peer
        poller = None
        while True:
            with self.lock:
                if key in self.mailbox:
                    self.waiting = False
                    return self.mailbox.pop(key)
                if peer in self.lost:
                    self.waiting = False
                    return lost_failure(self.name, peer, self.lost[peer])
                self.waiting = True
            if self.closing:
                raise ConnectionResetError("the driver is gone")
            if poller is None:
                poller = select.poll()
                poller.register(self.driver.fileno(), select.POLLIN)
                poller.register(self.wake.fileno(), select.POLLIN)
            for fd, _ in poller.poll(1000):
                if fd == self.wake.fileno():
                    self.wake.clear()
                else:
                    self.backlog.extend(self.driver.receive())


class OwnRegion:
    """Keeps a region of this process while arrays of it are in use; NumPy holds it as the base of the array."""

    def __init__(self, region, nbytes):
        region.hold()
        self.region, self.nbytes = region, nbytes
        self.source = region.array(nbytes)
        self.__array_interface__ = {**self.source.__array_interface__, "data": (self.source.ctypes.data, True)}

    def __del__(self):
        self.region.release()

    def matches(self, array):
        """Whether ``array`` is the region's whole content."""
        return array.nbytes == self.nbytes and array.ctypes.data == self.source.ctypes.data

    @classmethod
    def array(cls, region, value):
        """``value`` copied into ``region``, as a read-only array that keeps the region."""
        copy_large(region.array(value.nbytes).view(value.dtype).reshape(value.shape), value)
        return numpy.asarray(cls(region, value.nbytes)).view(value.dtype).reshape(value.shape)


class _Wake:
    """A flag that a poll can wait for."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)

    def fileno(self):
        return self.reader

    def set(self):
        try:
            os.write(self.writer, b"!")
        except BlockingIOError:
            return                          # full: set already

    def clear(self):
        try:
            os.read(self.reader, 4096)
        except BlockingIOError:
            return
