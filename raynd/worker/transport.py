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

import logging
import os
import select
import socket
import struct
import threading
import time
import weakref
from collections import deque

import numpy as np

from .. import config
from ..errors import ArgumentError
from .copying import copy_large
from .handshake import Listener, connect, describe_peer
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

_SEND_FLAGS = int(getattr(socket, "MSG_NOSIGNAL", 0))     # plain ints: enum members are slow to combine
_RECEIVE_FLAGS = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_TRUNCATED = int(getattr(socket, "MSG_CTRUNC", 0))
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
        self.peer = describe_peer(sock)
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
            copy_large(region.array(nbytes).view(array.dtype).reshape(array.shape), array)
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


_CHANNELS = weakref.WeakSet()


def _after_fork():
    for channel in list(_CHANNELS):
        channel._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
