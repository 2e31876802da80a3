"""The driver's side of the command streams: a queue per device, flushing, waiting, errors.

Enqueuing a command is an append to a deque; so is freeing an array, which happens in finalizers. A queue is flushed
at once when its device is idle (a few small element-wise operators wait for company or for a wait), at
``config.BATCH_COMMANDS`` items or many bytes, when its device completes its last batch, and before any wait. Every
command's place in the user's program is remembered until the command completes, so that a failure that arrives later is
raised with that place.

A wait first flushes every queue. Each device executes its stream in order, so the oldest unfinished command is always
at the head of every stream it takes part in, and no wait can deadlock.
"""
from __future__ import annotations

import atexit
import contextlib
import itertools
import linecache
import os
import signal
import sys
import threading
import time
from collections import OrderedDict, deque
from typing import Any

from . import config, executors, protocol
from .device import Device, as_device
from .errors import DeviceError, DeviceLostError, MXNetError, ShutdownError, dual, inside_itself

BIG = 1 << 20                      # outputs from this size on count towards flushing by bytes
FLUSH_BYTES = 64 << 20

next_id = itertools.count(1).__next__
next_tag = itertools.count(1).__next__


class Waiter:
    """The reply to one FETCH or WAIT."""
    __slots__ = ("done", "ok", "value", "queue", "label")

    def __init__(self, queue, label):
        self.done, self.ok, self.value, self.queue, self.label = False, None, None, queue, label


class DeviceQueue:
    """The stream of one device as the driver sees it.

    ``pending`` holds ``(command, call, code, instruction)`` items, and bare ids to be freed. ``calls`` maps dispatch
    keys to prepared calls that this device knows; it is emptied when the device is lost or shut down, so that the
    next operator takes the slow path, which raises.
    """
    __slots__ = ("engine", "device", "link", "pending", "calls", "known", "sent", "batch", "commands_outstanding",
                 "bytes_outstanding", "lock", "lost", "limit", "batch_limit", "hold_back", "big", "messages",
                 "commands", "bytes", "copies", "waiters", "closed", "flushing", "progress")

    tracing = False

    def __init__(self, engine, device, link, limit):
        self.engine, self.device, self.link = engine, device, link
        self.limit = self.batch_limit = limit
        self.hold_back = min(4, limit)
        self.pending: deque = deque()
        self.calls = {}
        self.known = set()                   # codes of what the worker has prepared
        self.sent = OrderedDict()            # batch number -> (items, bytes), not yet completed
        self.batch = 0
        self.commands_outstanding = self.bytes_outstanding = 0
        self.big = 0
        self.lock = threading.RLock()
        self.lost = None
        self.closed = ""                     # why it can no longer be used
        self.waiters = {}
        self.messages = self.commands = self.bytes = self.copies = 0
        self.flushing = None                 # the thread that is sending
        self.progress = time.monotonic()

    # -- sending -----------------------------------------------------------------------------------------------

    def push(self, command, name, frame=None):
        """Enqueue a command that is not an operator call (a copy, a wait, a definition)."""
        self.check()
        code, instruction = site(frame)
        self.pending.append((command, name, code, instruction))

    def check(self):
        """Raise if this device can no longer be used."""
        if self.lost is not None:
            self.lost.seen = True
            raise self.lost
        if self.closed:
            raise ShutdownError(f"{self.device} {self.closed}")

    def kick(self):
        """After an append: flush if the device is idle or the queue is long, and hold back a run-ahead too far."""
        if self.engine.synchronous:
            self.flush()
            self.engine.pump(self, lambda: not self.commands_outstanding or self.lost is not None, "each command")
            self.engine.raise_unseen()
        elif not self.commands_outstanding or len(self.pending) >= self.batch_limit or self.big > FLUSH_BYTES:
            if len(self.pending) < self.hold_back and self.ends_light():
                return                       # too little to wake an idle device for: more, or a wait, comes soon
            self.flush()
            self.limit = 1                   # the next command that has to wait comes here again, to have the I/O
            if (self.commands_outstanding > config.MAX_OUTSTANDING_COMMANDS
                    or self.bytes_outstanding > config.MAX_OUTSTANDING_BYTES):
                self.engine.throttle(self)
        elif self.limit != self.batch_limit:
            self.limit = self.batch_limit    # thread watch for the completion that will flush it
            self.link.watch()

    def ends_light(self):
        """Whether the last item is an operator of a few microseconds, less than its message costs."""
        try:
            item = self.pending[-1]
        except IndexError:                   # another thread has sent it
            return True
        return type(item) is tuple and type(item[1]) is not str and item[1].light

    def flush(self):
        """Send everything pending as one batch."""
        pending = self.pending
        if not pending or self.lost is not None or self.closed:
            return
        with self.lock:
            if self.flushing is not None or self.lost is not None:
                return                       # a finalizer or signal handler amid the sending below: its turn comes
            self.flushing = threading.get_ident()
            try:
                self.send_pending()
            finally:
                self.flushing = None
        if self.engine.interrupted:
            self.engine.raise_interrupt()

    def send_pending(self):
        """Take what is pending off the queue and send it (the caller holds the lock)."""
        pending = self.pending
        count = len(pending)
        if not count:
            return
        pop = pending.popleft
        size = 0
        if count == 1:
            item = pop()
            items, commands = [item], [item if type(item) is int else item[0]]
        else:
            items = [pop() for _ in range(count)]
            commands = [item if type(item) is int else item[0] for item in items]
        if self.big:
            self.big = 0
            for item in items:
                if type(item) is not int and type(item[1]) is not str:
                    size += item[1].nbytes
        number = self.batch
        self.batch = number + 1
        self.sent[number] = (items, size)
        self.commands_outstanding += count
        self.bytes_outstanding += size
        self.messages += 1
        self.commands += count
        try:
            self.link.submit(commands)
        except ConnectionError as error:
            self.engine.device_lost(self, f"sending to it failed: {error}")

    def flush_fully(self):
        """As :meth:`flush`, and wait for another thread that has taken commands off the queue and not yet sent them."""
        self.flush()
        with self.lock:
            return

    # -- receiving (the link calls this, in whichever thread reads) ----------------------------------------------

    def on_report(self, batches_done, failures, replies):
        """Account for a worker's message (see the protocol)."""
        with self.lock:
            for failure in failures:
                self.engine.note_failure(failure, self)
            for _ in range(batches_done):
                _, (items, size) = self.sent.popitem(last=False)
                self.commands_outstanding -= len(items)
                self.bytes_outstanding -= size
            self.progress = time.monotonic()
            for token, ok, value in replies:
                waiter = self.waiters.pop(token, None)
                if waiter is not None:
                    waiter.ok, waiter.value = ok, value
                    waiter.done = True

    def refill(self):
        """After completions: keep an idle device busy."""
        if self.pending and not self.commands_outstanding:
            self.flush()

    def learn(self, call):
        """Remember that the device knows a call or program from now on."""
        self.known.add(call.code)

    # -- waiting -----------------------------------------------------------------------------------------------

    def ask(self, command, source, label):
        """Enqueue a FETCH or WAIT of a wire argument; returns its :class:`Waiter`."""
        self.check()
        token = next_tag()
        waiter = self.waiters[token] = Waiter(self, label)
        self.pending.append(((command, token, source), label, None, 0))      # the wait itself raises at its place
        return waiter


def _describe_call(name):
    return name if isinstance(name, str) else name.describe()


class _Internal(dict):
    """Whether a code object belongs to raynd; filled as frames are met."""

    def __missing__(self, code):
        if len(self) > 20000:                # code objects made at run time must not pile up
            self.clear()
        value = self[code] = code.co_filename.startswith(_HERE)
        return value


_HERE = __file__.rsplit("engine.py", 1)[0]
INTERNAL = _Internal()


def site(frame=None):
    """(code object, instruction offset) of the innermost frame outside raynd. The line is worked out when needed."""
    frame = frame or sys._getframe(1)
    while frame is not None and INTERNAL[frame.f_code]:
        frame = frame.f_back
    return (frame.f_code, frame.f_lasti) if frame is not None else (None, 0)


def format_site(code, instruction) -> str:
    """'file:line in function: source text' of a site."""
    if code is None:
        return "unknown place"
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line} in {code.co_name}" + (f": {text}" if text else "")


class PendingError:
    """A failure as the driver keeps it: with the user's place, and whether anybody has seen it."""
    __slots__ = ("failure", "device", "name", "where", "seen")

    def __init__(self, failure, device, name, where):
        self.failure, self.device, self.name, self.where, self.seen = failure, device, name, where, False

    def exception(self):
        """A fresh exception: MXNetError and the kernel's own type in one, naming operator, device and place."""
        f = self.failure
        if issubclass(f.cause, DeviceLostError):
            error = self.lost_peer(f.key[2], f.message)
        else:
            error = dual(f.cause)(f"{f.message}\n  in operator {self.name} on {self.device}"
                                  f"\n  called at {self.where}")
        error.operator, error.device, error.where, error.remote_traceback = f.name, self.device, self.where, f.trace
        return error

    @staticmethod
    def lost_peer(name, message):
        """The error of a value that a lost device never sent to another."""
        queue = next((q for q in engine.queues.values() if str(q.device) == name), None)
        if queue is None:
            return MXNetError(message)
        if queue.lost is not None:
            return DeviceLostError(*queue.lost.__reduce__()[1])
        info = engine.executor.describe(queue.device) if engine.executor else {}
        return DeviceLostError(queue.device, info.get("node"), info.get("pid"), None,
                               "its connection to another device closed")


class Engine:
    """All queues of a run, and the errors nobody has seen yet."""

    def __init__(self):
        self.queues: dict[tuple, DeviceQueue] = {}
        self.executor: Any = None
        self.lock = threading.RLock()
        self.errors: OrderedDict = OrderedDict()
        self.next_code = itertools.count(1).__next__
        self.synchronous = config.synchronous()
        self.stall_seconds = config.stall_seconds()
        self.starting = False
        self.interrupted = False             # Ctrl-C came at a moment when it had to be put off
        self.on_close = []                   # caches of other modules that hold arrays or codes
        self.on_stall = []                   # called with the queue of a long wait; may raise why it cannot end

    # -- devices -----------------------------------------------------------------------------------------------

    def start(self, **options):
        """Start the executor that ``options`` of :func:`executors.choose` ask for. Only one starts at a time: other
        threads wait for it (the data loader's, for example, may use an array at any moment)."""
        with self.lock:
            if self.executor is not None:
                raise MXNetError("raynd is already running; call mx.shutdown() before mx.init(...)")
            with self.begin():
                if options:
                    executors.choose(**options)
                self.executor = executors.default()
            put_off_interrupts()
            atexit.unregister(_at_exit)      # exit functions run last registered first: this must come before Ray's,
            atexit.register(_at_exit)        # which registers its own when the executor imports it

    @contextlib.contextmanager
    def begin(self):
        """Inside (with the lock held), the runtime or a device of it starts or ends."""
        if self.starting:                    # by this very thread, further out
            raise MXNetError("raynd is being started or shut down, and a finalizer (__del__) or signal handler that "
                             "ran in the middle of it uses arrays; do that outside of these")
        self.starting = True
        try:
            yield
        finally:
            self.starting = False

    def ensure(self):
        """Start the runtime if it does not run; returns its executor."""
        with self.lock:
            if self.executor is None:
                self.start()
            return self.executor

    def queue(self, device) -> DeviceQueue:
        """The queue of ``device``; starts its worker on first use."""
        kind = "gpu" if device.device_typeid == 2 else "cpu"
        try:
            return self.queues[kind, device.device_id]
        except KeyError:
            pass
        with self.lock:
            if (kind, device.device_id) in self.queues:
                return self.queues[kind, device.device_id]
            count = self.ensure().count(kind)
            if device.device_id >= count:
                raise DeviceError(self.executor.missing(kind, device.device_id, count))
            with self.begin():
                value = Device(kind, device.device_id)
                queue = DeviceQueue(self, value, None, self.executor.batch_limit)
                queue.link = self.executor.open(value, queue)
            self.queues[kind, device.device_id] = queue
            self.executor.introduce(queue)
            return queue

    def shutdown(self):
        """Stop every worker. Arrays made so far are gone; the next use starts afresh."""
        self.report_unseen()
        with self.lock, self.begin():
            for queue in self.queues.values():
                with queue.lock:
                    queue.closed = "was shut down by mx.shutdown(); arrays made before it are gone"
                    queue.calls.clear()
                    queue.pending.clear()
            self.queues = {}
            for callback in self.on_close:
                callback()
            executor, self.executor = self.executor, None
            if executor is not None:
                executor.close()

    def device_lost(self, queue, cause):
        """Mark a device as lost: every wait on it raises, other devices live on."""
        with queue.lock:
            if queue.lost is not None or queue.closed:
                return
            last = None
            for items, _ in reversed(queue.sent.values()):
                last = next((_describe_call(i[1]) for i in reversed(items) if type(i) is not int), last)
                if last:
                    break
            info = self.executor.describe(queue.device) if self.executor else {}
            queue.lost = DeviceLostError(queue.device, info.get("node"), info.get("pid"), last, cause)
            queue.calls.clear()
            queue.pending.clear()
            queue.sent.clear()
            queue.commands_outstanding = queue.bytes_outstanding = 0
            waiters, queue.waiters = list(queue.waiters.values()), {}
            for waiter in waiters:
                waiter.ok, waiter.value = False, queue.lost
                waiter.done = True
        if self.executor is not None:
            self.executor.peer_lost(queue.device)

    # -- flushing and waiting ----------------------------------------------------------------------------------

    def flush_all(self):
        """Send what every queue holds."""
        for queue in list(self.queues.values()):
            if queue.pending:
                queue.flush()

    def throttle(self, queue):
        """Wait until a device has caught up with half of the allowed run-ahead."""
        self.flush_all()
        self.pump(queue, lambda: (queue.commands_outstanding <= config.MAX_OUTSTANDING_COMMANDS // 2
                                  and queue.bytes_outstanding <= config.MAX_OUTSTANDING_BYTES // 2)
                  or queue.lost is not None or queue.closed, "room in its stream")

    def pump(self, queue, finished, label, timeout=None):
        """Read a device's messages until ``finished()``. At each stall interval what knows that the wait cannot end
        raises (``on_stall``); else a report is printed."""
        if finished():
            return
        if queue.flushing == threading.get_ident():
            raise inside_itself(queue.device)
        start = time.monotonic()
        interval = self.stall_seconds
        next_report = start + interval
        now = start
        while not finished():
            if self.interrupted:
                self.raise_interrupt()
            if timeout is not None and now - start > timeout:
                raise TimeoutError(f"waited {timeout} s for {label} on {queue.device}")
            if now >= next_report:
                next_report = now + interval
                for explain in self.on_stall:
                    explain(queue)
                print(self.stall_report(queue, label, now - start), file=sys.stderr)
            queue.link.poll(min(1.0, max(0.01, next_report - now)))
            now = time.monotonic()

    def raise_interrupt(self):
        """Raise the Ctrl-C that was put off, in the thread it is meant for."""
        if threading.current_thread() is threading.main_thread():
            self.interrupted = False
            raise KeyboardInterrupt

    def stall_report(self, queue, label, seconds) -> str:
        """A paragraph on what a wait is waiting for."""
        lines = [f"raynd: still waiting for {label} on {queue.device} after {seconds:.0f} s:"]
        for other in list(self.queues.values()):
            head = None
            for items, _ in list(other.sent.values())[:1]:
                head = next((_describe_call(i[1]) for i in items if type(i) is not int), None)
            lines.append(f"  {other.device}: {other.commands_outstanding} commands outstanding, {len(other.pending)} "
                         f"queued, oldest {head}, last progress {time.monotonic() - other.progress:.0f} s ago"
                         + (", LOST" if other.lost else ""))
        return "\n".join(lines)

    def finish(self, waiter, timeout=None):
        """Wait for a reply and return its value, or raise its error."""
        queue = waiter.queue
        if not waiter.done:
            queue.flush()
            if len(self.queues) > 1:
                self.flush_all()
            if not waiter.done and queue.lost is None and not queue.closed:
                queue.link.poll(1.0 if timeout is None else min(1.0, timeout))       # most waits end with this
            if not waiter.done:
                self.pump(queue, lambda: waiter.done or queue.closed, waiter.label, timeout)
        if not waiter.done:
            queue.check()
        if waiter.ok:
            return waiter.value
        if isinstance(waiter.value, DeviceLostError):
            waiter.value.seen = True
            raise waiter.value
        error = self.pending_error(waiter.value)
        error.seen = True
        raise error.exception()

    def wait_all(self, raise_errors=True, timeout=None):
        """Wait for all devices (TimeoutError after ``timeout`` seconds each); raises an error that nobody has seen, one
        a call, the oldest first."""
        waiters = []
        for queue in list(self.queues.values()):
            if queue.lost is None and not queue.closed:
                waiters.append(queue.ask(protocol.WAIT, None, "everything queued"))
        for waiter in waiters:
            try:
                self.finish(waiter, timeout)
            except DeviceLostError:
                if raise_errors:
                    raise
        if raise_errors:
            self.raise_unseen()
            for queue in list(self.queues.values()):
                if queue.lost is not None and not queue.lost.seen:
                    queue.check()

    # -- errors ------------------------------------------------------------------------------------------------

    def note_failure(self, failure, queue):
        """Keep a worker's failure with the user's place it comes from."""
        if failure.key in self.errors:
            return
        _, batch, index = failure.key
        name, where, device = failure.name, "unknown place", queue.device
        items = queue.sent.get(batch)
        if items is not None and index < len(items[0]) and type(items[0][index]) is not int:
            _, call, code, instruction = items[0][index]
            name, where = _describe_call(call), format_site(code, instruction)
        self.errors[failure.key] = PendingError(failure, device, name, where)
        while len(self.errors) > 1000:
            self.errors.popitem(last=False)

    def pending_error(self, failure) -> PendingError:
        """The record of a failure that came with a reply, whichever device it began on."""
        found = self.errors.get(failure.key)
        if found is None:
            origin = next((q for q in self.queues.values() if str(q.device) == failure.key[0]), None)
            if origin is not None:           # its own device may not have reported it yet
                with origin.lock:
                    self.note_failure(failure, origin)
                found = self.errors.get(failure.key)
        return found or PendingError(failure, failure.key[0], failure.name, "unknown place")

    def raise_unseen(self):
        """Raise the oldest error that no wait has raised yet."""
        for error in list(self.errors.values()):
            if not error.seen:
                error.seen = True
                raise error.exception()

    def report_unseen(self):
        """Print the errors that nobody has seen."""
        for error in list(self.errors.values()):
            if not error.seen:
                error.seen = True
                print(f"raynd: an error that no wait has raised: {error.exception()}", file=sys.stderr)
        self.errors.clear()


engine = Engine()


class Known:
    """Base of what devices are told once and then know by its ``code``: prepared calls and programs. When the driver
    drops the last reference, the devices are told to forget it (by an append, as for arrays)."""
    __slots__ = ("code", "__weakref__")
    code: int

    def __del__(self, engine=engine):        # bound here: at interpreter exit the module's names are None
        for queue in list(engine.queues.values()):
            if self.code in queue.known:
                queue.known.discard(self.code)
                queue.pending.append(((protocol.DROP, (self.code,)), "drop", None, 0))


def put_off_interrupts():
    """Let Ctrl-C not fall between taking commands off a queue and sending them: they would be lost, and with them the
    arrays they make. Where it would, it is raised right after. A handler of the user's own is left alone."""
    if (threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler):
        return
    critical = {DeviceQueue.flush.__code__, DeviceQueue.on_report.__code__}

    def handler(number, frame):
        inner = frame
        while inner is not None:
            if inner.f_code in critical:
                engine.interrupted = True
                return
            inner = inner.f_back
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handler)


EXIT_SECONDS = 5.0                 # at exit, time for what is queued to end, so that its errors can be reported


def _at_exit():
    interrupted = isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
    try:
        if engine.executor is not None and engine.queues and not interrupted:
            with contextlib.suppress(MXNetError, TimeoutError, KeyboardInterrupt):
                engine.wait_all(raise_errors=False, timeout=EXIT_SECONDS)
    finally:
        engine.shutdown()


def _after_fork():
    """In a forked child the actors and their streams stay the parent's. Local mode, all in this process, goes on."""
    engine.lock, engine.starting = threading.RLock(), False          # another thread may have held it
    executor = engine.executor
    if executor is None or executor.in_process:
        return
    queues, engine.queues, engine.executor = list(engine.queues.values()), {}, None
    for queue in queues:
        queue.lock = threading.RLock()
        queue.closed = "belongs to the process that this one was forked from, and so do its arrays"
        queue.calls.clear()
        queue.pending.clear()
    engine.errors.clear()
    for callback in engine.on_close:
        callback()
    atexit.unregister(_at_exit)
    executor.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- the public part: mx.engine --------------------------------------------------------------------------------


def stats(reset=False) -> dict:
    """Counters of each device in use: ``messages`` (batches sent), ``commands``, ``bytes`` (array payload sent from
    the driver), ``copies`` (between devices), ``outstanding`` and ``queued`` commands."""
    result = {}
    for queue in list(engine.queues.values()):
        result[str(queue.device)] = {"messages": queue.messages, "commands": queue.commands, "bytes": queue.bytes,
                                     "copies": queue.copies, "outstanding": queue.commands_outstanding,
                                     "queued": len(queue.pending)}
        if reset:
            queue.messages = queue.commands = queue.bytes = queue.copies = 0
    return result


def set_bulk_size(size) -> int:
    """MXNet's setting of how many operators are sent together; returns the previous one. At least 1."""
    size = int(size)
    previous = engine.executor.batch_limit if engine.executor else config.BATCH_COMMANDS
    if engine.executor is not None:
        engine.executor.batch_limit = max(1, size)
        for queue in engine.queues.values():
            queue.limit = queue.batch_limit = max(1, size)
    return previous


class bulk:
    """Context manager of :func:`set_bulk_size`."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.previous = set_bulk_size(self.size)

    def __exit__(self, *exc):
        set_bulk_size(self.previous)


def waitall():
    """Wait until everything queued has run; raises the oldest error that no wait has raised yet."""
    engine.wait_all()


def queue_of(device) -> DeviceQueue:
    """The queue of a device (None: the current one)."""
    return engine.queue(as_device(device))
