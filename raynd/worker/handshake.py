"""Who is let in: listening, connecting, and the mutual proof of a run's key.

Nothing a stranger sends is unpickled, and no stranger learns the key:
    listener -> client   MAGIC, nonce L
    client -> listener   MAGIC, nonce C, length of hello, hello, HMAC(key; "client", L, C, hello)
    listener -> client   HMAC(key; "listener", L, C, hello)
Each side proves the key on the other's fresh nonce, so a recording is worthless; each proof names its role, so one
sent back to its maker is worthless too. The stream after it is not encrypted: the network is the cluster's own.
"""
from __future__ import annotations

import hmac
import logging
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import deque

from ..errors import ArgumentError, AuthenticationError
from .regions import shared_memory_available

log = logging.getLogger("raynd.transport")

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
        stranger = _Stranger(sock, describe_peer(sock))
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


def describe_peer(sock):
    try:
        name = sock.getpeername()
        if isinstance(name, tuple):
            return f"tcp {name[0]}:{name[1]}"
        return f"unix pid {_peer_credentials(sock)[0]}"
    except (OSError, AttributeError):
        return "a peer"
