"""Sockets between the driver and the devices: authentication, framing, and arrays in shared memory.

A :class:`Channel` carries messages (opaque bytes) in order over a connected socket. On a unix socket, arrays travel as
regions of shared memory instead (see :mod:`.regions`): the producer copies an array in once, passes the region's
descriptor the first time only, and names it in a message; the consumer maps it and *adopts* it, that is, computes on
that very memory. When the last NumPy array over an adopted piece is gone, its release goes back with the next frame.

A frame is eight bytes, the kind in the top one and the payload's length in the others, and the payload:

========  =============================================================================
MESSAGE   bytes for the layer above
REGION    ids are (region, capacity); the frame's first byte carries the descriptor
RELEASE   region ids, one for each reference that the consumer has dropped
FORGET    ids of regions that their owner has closed: unmap them
========  =============================================================================

**Interrupts.** Ctrl-C may raise KeyboardInterrupt on the main thread between any two bytecodes, and a frame that is
half sent or half parsed would lose every array of the device. CPython looks for signals after a call and at a loop's
jump back, not between plain loads and stores. So a system call's result is stored by the same C call that makes it
(``results.extend(map(send, ...))``), what was received is parsed without side effects, and is then committed by
stores alone. An interrupted ``send`` is continued by the next one.
"""
from __future__ import annotations

import hmac
import logging
import os
import secrets
import select
import selectors
import socket
import struct
import threading
import time
import weakref
from collections import deque

import numpy as np

from .. import config
from ..errors import ArgumentError, AuthenticationError
from .regions import Holds, Lease, Mapping, shared_memory_available

__all__ = ["Channel", "Listener", "connect", "shared_memory_available"]

log = logging.getLogger("raynd.transport")

MESSAGE, REGION, RELEASE, FORGET = range(4)
HEADER = struct.Struct("<Q")
REGION_PAYLOAD = struct.Struct("<QQ")
LENGTH_BITS = 56
LENGTH_MASK = (1 << LENGTH_BITS) - 1
BUFFER_BYTES = 1 << 18
LARGE_BYTES = 1 << 16                      # an incomplete frame above this gets a buffer of its own
JOIN_BYTES = 1 << 14                       # up to here, joining header and payload is cheaper than scatter-gather
READS_PER_CALL = 64                        # so that a fast sender cannot keep receive() from returning
MAX_BUFFERS = 512                          # below the system's IOV_MAX

_SEND_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0)
_RECEIVE_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_TRUNCATED = getattr(socket, "MSG_CTRUNC", 0)
_yield_core = getattr(os, "sched_yield", lambda: time.sleep(0))


class Channel:
    """An ordered stream of messages over a connected, authenticated socket.

    ``pool``: the :class:`~raynd.worker.regions.RegionPool` of this process (may be None where nothing is shared).
    ``shared``: whether descriptors can pass; default: on unix sockets, where the system has memfds.

    Any thread may send. Receiving is for one thread at a time (a second one gets nothing, it does not block). While a
    send waits for room, it reads what arrives, so two sides that send to each other do not block for ever; therefore
    look at :attr:`pending` before polling :meth:`fileno` yourself.
    """

    def __init__(self, sock, pool, shared=None):
        sock.setblocking(False)
        unix = sock.family == getattr(socket, "AF_UNIX", None)
        self.shared = unix and shared_memory_available() if shared is None else bool(shared)
        self.peer = _describe_peer(sock)
        self._sock, self._pool, self._fileno = sock, pool, sock.fileno()
        self.closed = False
        self._failure = None               # why nothing more can be received
        # Sending
        self._lock = threading.RLock()
        self._draining = False
        self._outbox = deque()             # (buffers, total bytes, descriptor or None, [bytes written by each call])
        self._releases = deque()           # ids of peer regions whose arrays are gone here
        self._forgets = deque()            # ids of own regions that the pool has closed
        self._known = {}                   # id -> own region whose descriptor the peer has
        self._held = Holds()               # what the peer holds
        # Receiving
        self._receive_lock = threading.RLock()
        self._pumping = False
        self._poll = select.poll()
        self._poll.register(self._fileno, select.POLLIN)
        self._results = []                 # what recvmsg returned and is not parsed yet
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._fill = 0
        self._large = None                 # (kind, memoryview of the whole payload, bytes present)
        self._descriptors = []             # received, their REGION frame not complete yet
        self._ready = []
        self._control = []                 # (kind, payload, descriptor or None) parsed and not applied yet
        self._ancillary = socket.CMSG_SPACE(16 * 4) if self.shared else 0
        self._mappings = {}
        _CHANNELS.add(self)

    def __repr__(self):
        return f"<Channel to {self.peer}{', closed' if self.closed else ''}>"

    def fileno(self) -> int:
        return self._fileno

    @property
    def pending(self) -> bool:
        """Whether receive() has something to return or to raise without a look at the socket."""
        return bool(self._ready) or self._failure is not None or self.closed

    # Sending ---------------------------------------------------------------------------------------------------------

    def send(self, payload):
        """Send one message: bytes-like, or a list of bytes-like objects that are sent one after the other.

        Returns when the system has taken all of it. ConnectionError where the peer is gone; messages that it sent
        before can still be received. After any other exception (an interrupt) the frame is either not begun or goes
        on with the next send: the layer above numbers its messages where that matters.
        """
        if type(payload) is bytes and len(payload) <= JOIN_BYTES:
            total = len(payload)
            buffers = [HEADER.pack(total) + payload]
        else:
            buffers = [_as_bytes(part) for part in (payload if isinstance(payload, (list, tuple)) else (payload,))]
            total = sum(map(len, buffers))
            buffers.insert(0, HEADER.pack(total))
            if total <= JOIN_BYTES:
                buffers = [b"".join(buffers)]
        self._transmit(buffers, total + 8, None)

    def flush_releases(self):
        """Tell the peer at once which of its regions are free, as every send does; an idle consumer must call it."""
        if self._releases or self._forgets or self._outbox:
            self._transmit((), 0, None)

    def _transmit(self, buffers, total, fd):
        if self.closed:                   # before the lock too: a forked child may have inherited it locked
            raise ConnectionResetError(f"the connection to {self.peer} is closed")
        with self._lock:
            if self._releases or self._forgets:
                forgotten = _take_all(self._forgets)
                for number in forgotten:
                    self._known.pop(number, None)
                    self._held.forget(number)
                news = _id_frame(RELEASE, _take_all(self._releases)) + _id_frame(FORGET, forgotten)
                buffers, total = [news, *buffers], total + len(news)
            if total:
                self._outbox.append((buffers, total, fd, []))
            # A __del__ that the garbage collector runs inside the loop below may send too: its frame then goes after
            # the one in progress.
            if not self._draining:
                self._draining = True
                try:
                    self._drain()
                finally:
                    self._draining = False

    def _drain(self):
        outbox, sock = self._outbox, self._sock
        while outbox:
            buffers, total, fd, written = outbox[0]
            done = sum(written) if written else 0
            if done == total:
                outbox.popleft()
                continue
            try:
                if fd is not None and not done:
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]
                    written.extend(map(sock.sendmsg, (buffers,), (rights,), (_SEND_FLAGS,)))
                elif len(buffers) == 1 and not done:
                    written.extend(map(sock.send, buffers, (_SEND_FLAGS,)))
                else:
                    written.extend(map(sock.sendmsg, (_remaining(buffers, done),), ((),), (_SEND_FLAGS,)))
            except BlockingIOError:
                self._wait_for_room()
            except OSError as error:
                raise ConnectionResetError(f"cannot send to {self.peer}: {error}") from error

    def _wait_for_room(self):
        poll = select.poll()
        poll.register(self._fileno, select.POLLIN | select.POLLOUT)
        for _, event in poll.poll():
            if event & select.POLLIN and not self._pump() and not event & select.POLLOUT:
                poll.modify(self._fileno, select.POLLOUT)  # the input is another thread's
                poll.poll(1)
        if self._failure is not None:
            raise ConnectionResetError(f"cannot send to {self.peer}: {self._failure}")

    # Receiving -------------------------------------------------------------------------------------------------------

    def receive(self) -> list:
        """The messages that have arrived (bytes, or a memoryview for large ones); [] where there are none.

        Never blocks. ConnectionResetError once the peer is gone and every message of its was returned; the channel is
        then closed.
        """
        if self._failure is None and not self.closed:
            self._pump()
        ready, self._ready = self._ready, []
        if not ready and (self._failure is not None or self.closed):
            self.close()
            raise ConnectionResetError(self._failure or f"the connection to {self.peer} is closed")
        return ready

    def wait(self, timeout=None, spin_us=0) -> bool:
        """Wait until receive() has something to do, at most ``timeout`` seconds (None: for ever).

        ``spin_us``: poll without sleeping for so many microseconds first, since a sleep and wake-up costs about 40.
        """
        if self.pending:
            return True
        milliseconds = None if timeout is None else timeout * 1e3
        try:
            end = time.perf_counter() + spin_us * 1e-6 if spin_us else 0
            while end and time.perf_counter() < end:
                if self._poll.poll(0):
                    return True
                _yield_core()              # the peer may share this core
            return bool(self._poll.poll(milliseconds))
        except RuntimeError:               # a poll object serves one thread at a time
            other = select.poll()
            other.register(self._fileno, select.POLLIN)
            return bool(other.poll(milliseconds))

    def _pump(self) -> bool:
        """Read and parse what the socket holds. False where another thread (or a caller of this one) is at it."""
        try:                               # acquire inside: an interrupt right after it must not leave the lock held
            if not self._receive_lock.acquire(blocking=False) or self._pumping:
                return False
            self._pumping = True
            try:
                for _ in range(READS_PER_CALL):
                    if not self._results:
                        if self._large is not None:
                            target = self._large[1][self._large[2]:]
                        else:
                            target = self._view[self._fill:] if self._fill else self._buffer
                        self._results.extend(map(self._sock.recvmsg_into, ([target],), (self._ancillary,),
                                                 (_RECEIVE_FLAGS,)))
                    if not self._parse():
                        break
            except BlockingIOError:
                pass
            finally:
                self._pumping = False
            self._apply_control()
        except (OSError, ValueError) as error:
            self._failure = f"the connection to {self.peer} broke: {error}"
        finally:
            try:
                self._receive_lock.release()
            except RuntimeError:           # it is another thread's
                pass
        return True

    def _parse(self) -> bool:
        """Commit the result of one read; True where the socket may hold more. May be interrupted and repeated."""
        count, ancillary, flags, more = self._results[0]
        if ancillary:
            # Ownership first, and once: the plain numbers are committed together with a result that lacks them.
            taken = [fd for level, kind, data in ancillary
                     if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
                     for (fd,) in struct.iter_unpack("i", data[:len(data) & ~3])]
            more, results = True, [(count, [], flags, True)]
            self._descriptors += taken
            self._results = results
        if flags & _TRUNCATED:
            self._failure = f"a descriptor from {self.peer} was lost: too many open files in this process"
        elif count == 0:
            self._failure = f"{self.peer} closed the connection"
        if self._failure is not None:
            self._results = []
            return False
        if self._large is not None:
            kind, payload, present = self._large
            complete = present + count == len(payload)
            if not complete:
                self._large, self._results = (kind, payload, present + count), []
            elif kind == MESSAGE:
                self._ready += [payload]
                self._large, self._results = None, []
            else:
                self._control += [(kind, payload, None)]
                self._large, self._results = None, []
            return True
        buffer, view, fill, start = self._buffer, self._view, self._fill + count, 0
        full = fill == BUFFER_BYTES
        messages, control, large, used = [], [], None, 0
        while fill - start >= 8:
            word = HEADER.unpack_from(buffer, start)[0]
            kind, end = word >> LENGTH_BITS, start + 8 + (word & LENGTH_MASK)
            if kind > FORGET or kind == REGION and end - start != 24:
                self._failure = f"{self.peer} sent a frame of unknown kind {kind}, {end - start} bytes"
                return False
            if end > fill:
                if end - start > LARGE_BYTES:
                    # numpy leaves the pages untouched, where bytearray would fill them with zeros first
                    whole = memoryview(np.empty(end - start - 8, np.uint8))
                    whole[:fill - start - 8] = view[start + 8:fill]
                    large = (kind, whole, fill - start - 8)
                    start = fill
                break
            if kind == MESSAGE:
                messages.append(bytes(view[start + 8:end]))
            elif kind == REGION:
                if used >= len(self._descriptors):
                    self._failure = f"{self.peer} announced a region without its descriptor"
                    return False
                control.append((kind, bytes(view[start + 8:end]), self._descriptors[used]))
                used += 1
            else:
                control.append((kind, bytes(view[start + 8:end]), None))
            start = end
        rest, left, descriptors = buffer[start:fill], fill - start, self._descriptors[used:]
        # The commit: no call from here on, so that no signal handler runs in between.
        if left:
            buffer[:left] = rest
        self._fill, self._large, self._descriptors, self._results = left, large, descriptors, []
        self._control += control
        self._ready += messages
        return full or large is not None or more is True       # a read stops early at a descriptor

    def _apply_control(self):
        # An interrupt may make this run again for the same entry. Mapping a region twice is harmless and losing one is
        # not, so it goes before the pop; releasing twice would free memory in use and losing one is cured at the end.
        control = self._control
        while control:
            kind, payload, fd = control[0]
            if kind == REGION:
                number, capacity = REGION_PAYLOAD.unpack(payload)
                if number not in self._mappings:
                    self._mappings[number] = Mapping(fd, capacity)
                control.pop(0)
                os.close(fd)
                continue
            control.pop(0)
            for (number,) in struct.iter_unpack("<Q", payload):
                if kind == FORGET:
                    self._mappings.pop(number, None)       # the memory stays mapped while arrays remain over it
                else:
                    self._held.drop(number)

    # Arrays ----------------------------------------------------------------------------------------------------------

    def reference(self, region, offset, nbytes) -> tuple:
        """Hold a piece of an own region for the peer; returns what to put into a message for the peer's ``unpack``.

        The region is held until the peer's array is gone or the channel closes. Every reference must be unpacked (or
        discarded) exactly once by the peer. The caller keeps its own reference until this returns.
        """
        if not self.shared:
            raise ArgumentError(f"the connection to {self.peer} cannot carry shared memory")
        self._held.add(region)
        if region.id not in self._known:
            with self._lock:
                if region.id not in self._known and not self.closed:
                    frame = HEADER.pack(REGION << LENGTH_BITS | 16) + REGION_PAYLOAD.pack(region.id, region.capacity)
                    region._watchers[id(self)] = self._forgets
                    self._transmit([frame], len(frame), region.fd)
                    self._known[region.id] = region
        if self.closed:
            self._held.drop_all()
            raise ConnectionResetError(f"the connection to {self.peer} is closed")
        return "r", region.id, offset, nbytes

    def pack(self, array) -> tuple:
        """A picklable payload with the bytes of ``array`` in C order: in shared memory where that is possible and pays.

        The array may be changed as soon as this returns.
        """
        array = np.asarray(array)
        if array.dtype.hasobject:
            raise ArgumentError("arrays of Python objects cannot travel between devices")
        nbytes = array.nbytes
        if nbytes <= config.INLINE_BYTES or not self.shared:
            return "b", array.tobytes()
        region = self._pool.allocate_idle(nbytes)
        if region is None:
            self._pump()                   # a release that has arrived saves the first touch of fresh memory
            try:
                region = self._pool.allocate(nbytes)
            except OSError as error:
                log.warning("no shared memory (%s); %d bytes go through the socket", error, nbytes)
                return "b", array.tobytes()
        try:
            np.copyto(region.array(nbytes).view(array.dtype).reshape(array.shape), array)
            return self.reference(region, 0, nbytes)
        finally:
            region.release()

    def unpack(self, payload, writable=False):
        """The 1-D uint8 array of a payload that the peer packed.

        Inline bytes give a read-only array. Shared memory is adopted without a copy, and stays the peer's loan until
        the array and all its views are gone. ``writable=True`` is for a consumer that knows it is the only one.
        """
        if payload[0] == "b":
            return np.frombuffer(payload[1], np.uint8)
        _, number, offset, nbytes = payload
        mapping = self._mapping(number)
        if offset < 0 or nbytes < 0 or offset + nbytes > mapping.capacity:
            raise ArgumentError(f"bytes {offset} to {offset + nbytes} lie outside region {number}, "
                                f"which has {mapping.capacity}")
        return np.asarray(Lease(mapping, number, offset, nbytes, writable, self._releases))

    def discard(self, payload):
        """Give up a payload that will not be unpacked."""
        if payload[0] == "r":
            self._releases.append(payload[1])

    def _mapping(self, number):
        mapping = self._mappings.get(number)
        if mapping is None:
            # The thread that received the message may not have applied the REGION frame before it yet.
            with self._receive_lock:
                self._apply_control()
            mapping = self._mappings.get(number)
            if mapping is None:
                raise ArgumentError(f"{self.peer} has not sent region {number}")
        return mapping

    # The end ---------------------------------------------------------------------------------------------------------

    def close(self):
        """Close the socket and release what was held for the peer. Arrays adopted from the peer stay valid."""
        if self.closed:
            return
        self.closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)          # wakes a thread that waits in poll
        except OSError:
            pass
        self._sock.close()
        for region in list(self._known.values()):
            region._watchers.pop(id(self), None)
        self._known.clear()
        with self._receive_lock:           # held for a moment only: nobody waits under it
            for fd in self._descriptors + [fd for _, _, fd in self._control if fd is not None]:
                os.close(fd)
            self._descriptors, self._control = [], []
        self._held.drop_all()

    def __del__(self):
        if not getattr(self, "closed", True):
            self.close()

    def _abandon(self):
        # A forked child: without this its copy of the socket would hide the parent's death from the peer. No shutdown,
        # which would end the parent's connection, and no release: the holds are the parent's.
        self.closed = True
        self._sock.close()
        self._held, self._known = Holds(), {}


def _as_bytes(part):
    if type(part) is bytes:
        return part
    view = memoryview(part)
    return view.cast("B") if view.nbytes else b""          # cast() refuses empty views


def _take_all(ids):
    numbers = []
    while ids:
        numbers.append(ids.popleft())
    return numbers


def _id_frame(kind, numbers):
    if not numbers:
        return b""
    return HEADER.pack(kind << LENGTH_BITS | 8 * len(numbers)) + struct.pack(f"<{len(numbers)}Q", *numbers)


def _remaining(buffers, done):
    """What is left of ``buffers`` after ``done`` bytes, as much as one system call takes."""
    rest = []
    for buffer in buffers:
        size = len(buffer)
        if done >= size:
            done -= size
        else:
            rest.append(memoryview(buffer)[done:] if done else buffer)
            done = 0
            if len(rest) == MAX_BUFFERS:
                break
    return rest


def _describe_peer(sock):
    try:
        name = sock.getpeername()
        if isinstance(name, tuple):
            return f"tcp {name[0]}:{name[1]}"
        return f"unix pid {_peer_credentials(sock)[0]}"
    except (OSError, AttributeError):
        return "a peer"


_CHANNELS = weakref.WeakSet()


def _after_fork():
    for channel in list(_CHANNELS):
        channel._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# Authentication ------------------------------------------------------------------------------------------------------
#
# Nothing a stranger sends is unpickled, and no stranger learns the key:
#   listener -> client   MAGIC, nonce L
#   client -> listener   MAGIC, nonce C, length of hello, hello, HMAC(key; "client", L, C, hello)
#   listener -> client   HMAC(key; "listener", L, C, hello)
# Each side proves the key on the other's fresh nonce, so a recording is worthless; each proof names its role, so one
# sent back to its maker is worthless too. The stream after it is not encrypted: the network is the cluster's own.

MAGIC = b"RAYND\x00\x00\x01"
NONCE_BYTES = MAC_BYTES = 32
GREETING_BYTES = len(MAGIC) + NONCE_BYTES
MAX_HELLO = 4096
HANDSHAKE_SECONDS = 2.0
MAX_STRANGERS = 256                        # connections that have not proved themselves yet
KEEPALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 4))
# Also counts while a live peer does not read because it executes a long operator, so it must be longer than any of
# those: it is the last resort where a machine vanished with data in flight. Ray reports that within seconds.
USER_TIMEOUT_MS = 15 * 60 * 1000


def _proof(key, role, nonce_l, nonce_c, hello):
    return hmac.digest(key, role + nonce_l + nonce_c + hello, "sha256")


def _peer_credentials(sock):
    """(pid, uid, gid) of the process at the other end of a unix socket."""
    return struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


def _check_user(sock):
    if sock.family != getattr(socket, "AF_UNIX", None):
        return
    pid, uid, _ = _peer_credentials(sock)
    if uid != os.geteuid():
        raise AuthenticationError(f"process {pid} belongs to user {uid}, not to user {os.geteuid()}")


def _tune(sock):
    if sock.family == getattr(socket, "AF_UNIX", None):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*KEEPALIVE, ("TCP_USER_TIMEOUT", USER_TIMEOUT_MS)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _check_key(key):
    if not isinstance(key, bytes) or len(key) < 16:
        raise ArgumentError("the key must be at least 16 random bytes")


class _Stranger:
    """A connection that has not proved itself yet."""
    __slots__ = ("sock", "nonce", "data", "deadline", "name")

    def __init__(self, sock, name):
        self.sock, self.name, self.data = sock, name, b""
        self.nonce = secrets.token_bytes(NONCE_BYTES)
        self.deadline = time.monotonic() + HANDSHAKE_SECONDS

    def advance(self, key):
        """Read on; the client's hello when it has proved itself, None while it has not. OSError where it never will."""
        head = GREETING_BYTES + 2
        wanted = head
        if len(self.data) >= head:
            wanted += int.from_bytes(self.data[head - 2:head], "little") + MAC_BYTES
        try:
            # Never a byte too many: what follows the handshake belongs to the channel.
            part = self.sock.recv(wanted - len(self.data))
        except (BlockingIOError, InterruptedError):
            return None
        if not part:
            raise AuthenticationError(f"{self.name} left during the handshake")
        self.data += part
        data = self.data
        if not (data.startswith(MAGIC) or MAGIC.startswith(data)):
            raise AuthenticationError(f"{self.name} does not speak raynd's protocol")
        if len(data) < head:
            return None
        size = int.from_bytes(data[head - 2:head], "little")
        if size > MAX_HELLO:
            raise AuthenticationError(f"{self.name} sent a greeting of {size} bytes")
        if len(data) < head + size + MAC_BYTES:
            return None if len(data) > head else self.advance(key)
        nonce, hello, mac = data[len(MAGIC):GREETING_BYTES], data[head:head + size], data[head + size:]
        if not hmac.compare_digest(mac, _proof(key, b"client", self.nonce, nonce, hello)):
            raise AuthenticationError(f"{self.name} does not know this run's key")
        self.sock.sendall(_proof(key, b"listener", self.nonce, nonce, hello))          # 32 bytes: there is room
        return hello


class Listener:
    """Accepts connections from processes that know the run's key.

    ``kind``: "unix" (this machine, this user; becomes TCP on 127.0.0.1 where abstract unix names do not exist) or
    "tcp" (``host`` is the address to bind). ``address`` is picklable and goes to :func:`connect`. ``refused`` holds
    the latest AuthenticationErrors; each is logged too. Threads may share one listener; they take turns.
    """

    def __init__(self, kind, host=None, key=b""):
        _check_key(key)
        if kind not in ("unix", "tcp"):
            raise ArgumentError(f"kind must be 'unix' or 'tcp', not {kind!r}")
        if kind == "unix" and not shared_memory_available():
            kind, host = "tcp", "127.0.0.1"
        if kind == "unix":
            name = "\0raynd-" + secrets.token_hex(16)
            self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._sock.bind(name)
            self._sock.listen(128)
            self.address = ("unix", name)
        elif not host:
            raise ArgumentError("a TCP listener needs the address to bind")
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._sock = socket.create_server((host, 0), family=family, backlog=128)
            self.address = ("tcp", host, self._sock.getsockname()[1])
        self._sock.setblocking(False)
        self._key, self.kind = key, kind
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._sock, selectors.EVENT_READ)
        self._strangers, self._accepted, self._accepting = {}, deque(), threading.Lock()
        self.refused = deque(maxlen=32)
        self.closed = False

    def fileno(self) -> int:
        """For poll and select: readable when accept(0) has something to do."""
        return self._selector.fileno()

    def accept(self, timeout=None):
        """``(socket, hello)`` of the next client that proved itself; None after ``timeout`` seconds or close().

        Handshakes go on side by side, so a silent stranger delays nobody; it is dropped after HANDSHAKE_SECONDS.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._accepting:
            while not self._accepted and not self.closed:
                limits = [stranger.deadline for stranger in self._strangers.values()]
                limits += [] if end is None else [end]
                events = self._selector.select(max(0.0, min(limits) - time.monotonic()) if limits else None)
                if self.closed:
                    break
                for key, _ in events:
                    if key.fileobj is self._sock:
                        self._welcome()
                    elif key.fd in self._strangers:
                        self._advance(key.fd)
                now = time.monotonic()
                for fd, stranger in list(self._strangers.items()):
                    if now >= stranger.deadline:
                        self._refuse(fd, AuthenticationError(f"{stranger.name} did not finish the handshake in time"))
                if end is not None and now >= end:
                    break
            return self._accepted.popleft() if self._accepted else None

    def _welcome(self):
        try:
            sock, _ = self._sock.accept()
        except BlockingIOError:            # the client has left already
            return
        except OSError as error:           # most likely this process has too many files open
            log.warning("cannot accept a connection: %s", error)
            time.sleep(0.01)
            return
        sock.setblocking(False)
        stranger = _Stranger(sock, _describe_peer(sock))
        if len(self._strangers) >= MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            self._refuse(oldest, AuthenticationError("too many connections that do not prove themselves"))
        fd = sock.fileno()
        self._strangers[fd] = stranger
        self._selector.register(fd, selectors.EVENT_READ)
        try:
            _check_user(sock)
            sock.sendall(MAGIC + stranger.nonce)           # a fresh socket has room for 40 bytes
        except OSError as error:           # AuthenticationError is one
            self._refuse(fd, error)

    def _advance(self, fd):
        stranger = self._strangers[fd]
        try:
            hello = stranger.advance(self._key)
            if hello is not None:
                _tune(stranger.sock)
        except OSError as error:           # AuthenticationError is one
            self._refuse(fd, error)
            return
        if hello is not None:
            self._selector.unregister(fd)
            del self._strangers[fd]
            stranger.sock.setblocking(True)
            self._accepted.append((stranger.sock, hello))

    def _refuse(self, fd, error):
        stranger = self._strangers.pop(fd)
        self._selector.unregister(fd)
        stranger.sock.close()
        if not isinstance(error, AuthenticationError):
            error = AuthenticationError(f"{stranger.name} left during the handshake: {error}")
        self.refused.append(error)
        log.warning("refused a connection to %s: %s", self.address[0], error)

    def close(self):
        """Stop listening; connections already returned live on."""
        self.closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)          # wakes a thread that waits in accept
        except OSError:
            pass
        with self._accepting:
            for sock in (*(stranger.sock for stranger in self._strangers.values()),
                         *(sock for sock, _ in self._accepted), self._sock):
                sock.close()
            self._strangers.clear()
            self._accepted.clear()
            self._selector.close()


def connect(address, key, timeout=10.0, hello=b""):
    """A socket to the Listener at ``address``, both sides having proved that they know ``key``.

    ``hello``: up to 4096 bytes that tell the listener who this is; they are part of the proof.
    AuthenticationError (a ConnectionError) where the other side is not this run's; OSError where it is not there.
    """
    _check_key(key)
    if len(hello) > MAX_HELLO:
        raise ArgumentError(f"hello may have {MAX_HELLO} bytes, not {len(hello)}")
    end = time.monotonic() + timeout
    if address[0] == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    else:
        sock = socket.socket(socket.AF_INET6 if ":" in address[1] else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        while True:
            try:
                sock.connect(address[1] if address[0] == "unix" else (address[1], address[2]))
                break
            except BlockingIOError:        # a unix listener's backlog is full
                if time.monotonic() >= end:
                    raise
                time.sleep(0.01)
        _check_user(sock)
        try:
            greeting = _read_exactly(sock, GREETING_BYTES, end)
            if not greeting.startswith(MAGIC):
                raise AuthenticationError(f"{address[0]} {address[1:]!r} does not speak raynd's protocol")
            nonce_l, nonce_c = greeting[len(MAGIC):], secrets.token_bytes(NONCE_BYTES)
            sock.sendall(MAGIC + nonce_c + len(hello).to_bytes(2, "little") + hello
                         + _proof(key, b"client", nonce_l, nonce_c, hello))
            answer = _read_exactly(sock, MAC_BYTES, end)
        except TimeoutError:
            raise AuthenticationError(f"{address[1:]!r} did not finish the handshake in {timeout} s") from None
        except (BrokenPipeError, ConnectionResetError, EOFError) as error:
            raise AuthenticationError(f"{address[1:]!r} refused this run's key ({error})") from None
        if not hmac.compare_digest(answer, _proof(key, b"listener", nonce_l, nonce_c, hello)):
            raise AuthenticationError(f"{address[1:]!r} does not know this run's key")
        _tune(sock)
        sock.settimeout(None)
        return sock
    except BaseException:
        sock.close()
        raise


def _read_exactly(sock, count, end):
    data = b""
    while len(data) < count:
        sock.settimeout(max(0.001, end - time.monotonic()))
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError("it closed the connection")
        data += part
    return data
