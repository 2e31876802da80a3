"""Sums over devices: the two halves of an all-reduce as commands in the streams of its members.

Arrays of one dtype are packed into buckets. For each bucket every member gets CONTRIBUTE (post my part to the others)
and COLLECT (add up all parts, in the members' order, and write the result); the driver waits for nothing. Because every
member adds the same parts in the same order, the results are the same bits everywhere. If a part is poisoned, the
result is poisoned on all members, so replicas never part.

A :class:`Meeting` is an all-reduce whose members come one after the other, in the middle of their own work
(synchronised batch normalisation). Local mode, where a stream runs in the calling thread, holds the members' commands
back until all are there and then runs the streams side by side.
"""
from __future__ import annotations

import threading
import time
from collections import OrderedDict

from .. import protocol
from ..dispatch import Buffer, Content, materialised, writable_wire
from ..engine import engine, next_id, next_tag
from ..errors import MXNetError, ShapeError

BUCKET_BYTES = 32 << 20


def buckets(arrays, limit=BUCKET_BYTES):
    """Indices of ``arrays`` grouped by dtype and devices into buckets of about ``limit`` bytes, in order."""
    groups, result = OrderedDict(), []
    for i, copies in enumerate(arrays):
        first = copies[0]._spec
        key = first.dtype, tuple([x._buffer.queue.device for x in copies])
        bucket, size = groups.get(key, ([], 0))
        if bucket and size + first.nbytes > limit:
            result.append(bucket)
            bucket, size = [], 0
        bucket.append(i)
        groups[key] = bucket, size + first.nbytes
    return result + [bucket for bucket, _ in groups.values()]


def all_reduce(arrays, in_place=True):
    """Sum each of ``arrays`` (a list, for each array, of its copies on the devices) over the devices.

    The copies of an array have one shape and dtype, on different devices. In place the copies get the sum; else new
    arrays with it are returned, in the same arrangement. Nothing is waited for.
    """
    for copies in arrays:
        if any(x._spec is not copies[0]._spec for x in copies):
            raise ShapeError("all_reduce: copies of an array have different shapes or dtypes: "
                             + ", ".join(repr(x._spec) for x in copies))
        for x in copies:
            materialised(x)
            x._buffer.queue.check()          # before anybody contributes: what is not collected would stay behind
        devices = [x._buffer.queue.device for x in copies]
        if len(set(devices)) != len(devices):
            raise ShapeError(f"all_reduce: a device is named twice in {devices}")
    results = arrays if in_place else [[None] * len(copies) for copies in arrays]
    work = []
    for bucket in buckets(arrays):
        queues = [x._buffer.queue for x in arrays[bucket[0]]]
        if len(queues) == 1:
            if not in_place:
                for i in bucket:
                    results[i] = list(arrays[i])
            continue
        members, tag = [str(q.device) for q in queues], next_tag()
        for position, queue in enumerate(queues):
            peers = [m for m in members if m != members[position]]
            queue.push((protocol.CONTRIBUTE, tag, [arrays[i][position]._wire() for i in bucket], peers), "all-reduce")
        work.append((bucket, queues, members, tag))
    if not work:
        return results
    involved = list(dict.fromkeys(q for _, queues, _, _ in work for q in queues))
    if engine.executor.in_process:           # there a COLLECT cannot wait for what has not run
        for queue in involved:
            queue.flush_fully()
    for bucket, queues, members, tag in work:
        for position, queue in enumerate(queues):
            targets, shapes = [], []
            for i in bucket:
                source = arrays[i][position]
                if in_place:
                    targets.append(writable_wire(source))
                else:
                    content = Content(next_id(), queue.pending)
                    targets.append(content.id)
                    results[i][position] = type(source)(Buffer(content, queue), source._spec)
                shapes.append(source._spec.shape)
            queue.push((protocol.COLLECT, tag, targets, shapes, members), "all-reduce")
            queue.copies += len(members) - 1
    for queue in involved:
        queue.kick()
    return results


# -- members that come one after the other -------------------------------------------------------------------------


class _Held:
    """Stands for the link of a queue in local mode while its commands wait for other members."""

    def __init__(self, queue):
        self.queue, self.link, self.batches = queue, queue.link, []
        self.meetings = 0
        self.started = time.monotonic()

    def submit(self, batch):
        self.batches.append(batch)

    def watch(self):
        """Nothing runs yet."""

    def poll(self, seconds):
        """A wait on commands that cannot run: another thread may bring the missing members, else nobody will."""
        if threading.active_count() > 1 and time.monotonic() - self.started < 30:
            time.sleep(0.001)
            return
        raise _incomplete(self.queue)

    def __getattr__(self, name):
        return getattr(self.link, name)


_open: OrderedDict = OrderedDict()           # meetings that still miss members
_lock = threading.RLock()


def _incomplete(queue):
    waiting = sorted({str(d) for m in list(_open.values()) for d in m.missing()})
    return MXNetError(f"a value on {queue.device} depends on a synchronised layer whose other devices have not been "
                      f"called yet ({', '.join(waiting)}): run the forward (and the backward) of all devices before "
                      "reading a value")


def _explain_stall(queue):
    """On actors a stream that has joined a meeting waits in COLLECT; a wait on it that has lasted will not end."""
    if any(queue.device in m.joined for m in list(_open.values())):
        raise _incomplete(queue)


class Meeting:
    """An all-reduce of one array a device, whose members call :meth:`join` one after the other."""

    def __init__(self, key, devices):
        self.key, self.devices = key, list(devices)
        self.names = [str(d) for d in self.devices]
        self.tag, self.joined, self.spec = next_tag(), [], None

    def missing(self):
        """The devices that have not joined."""
        return [d for d in self.devices if d not in self.joined]

    def join(self, x):
        """Contribute ``x``; returns the array of the sum, on the same device."""
        queue = materialised(x)._buffer.queue
        with _lock:
            if queue.device in self.joined or queue.device not in self.devices:
                raise MXNetError(f"{queue.device} takes part in a sum over {', '.join(self.names)} "
                                 f"{'twice' if queue.device in self.joined else 'that it does not belong to'}")
            if self.spec is not None and self.spec is not x._spec:
                raise ShapeError(f"arrays of a sum over devices have specs {self.spec!r} and {x._spec!r}")
            self.spec = x._spec
            if not self.joined:
                _open[self.key] = self
                if engine.executor.in_process:
                    _hold(self.devices)
            self.joined.append(queue.device)
            name = str(queue.device)
            queue.push((protocol.CONTRIBUTE, self.tag, [x._wire()], [n for n in self.names if n != name]), "sum")
            content = Content(next_id(), queue.pending)
            queue.push((protocol.COLLECT, self.tag, [content.id], [x._spec.shape], self.names), "sum")
            queue.copies += len(self.names) - 1
            result = type(x)(Buffer(content, queue), x._spec)
            queue.kick()
            if not self.missing():
                _open.pop(self.key, None)
                if engine.executor.in_process:
                    _release(self.devices)
        return result


def _hold(devices):
    for device in devices:
        queue = engine.queue(device)
        if not isinstance(queue.link, _Held):
            queue.flush()
            queue.link = _Held(queue)
        queue.link.meetings += 1


def _release(devices):
    """Run what was held, unless a member waits for another meeting still."""
    for device in devices:
        engine.queue(device).link.meetings -= 1
    held = [q for q in engine.queues.values() if isinstance(q.link, _Held)]
    if any(q.link.meetings for q in held):
        return
    for queue in held:
        queue.flush()
    work = [(q.link.link, q.link.batches) for q in held]
    for queue in held:
        queue.link = queue.link.link
    engine.executor.run_together(work)


def _forget():
    with _lock:
        _open.clear()


engine.on_close.append(_forget)
engine.on_stall.append(_explain_stall)
