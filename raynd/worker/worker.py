"""The command interpreter of a device: a table from ids to arrays (or failures), and the loop over a batch.

It knows nothing of Ray, sockets or the driver. An executor gives it batches and four hooks: how to pack an array for
the driver and unpack one from it, and how to post a value to a peer and take one from a peer.
"""
from __future__ import annotations

import contextlib
import contextvars

import numpy

from .. import protocol
from ..errors import DeviceLostError
from ..protocol import Failure
from .prepare import Prepared, ProgramRunner, own, prepare, unprepared


class Hooks:
    """What an executor provides to its worker."""

    def pack(self, array):
        """A private payload of ``array`` for the driver."""
        raise NotImplementedError

    def unpack(self, payload, shape, dtype):
        """The array of a PUT payload; may be read-only."""
        raise NotImplementedError

    def post(self, peers, tag, value):
        """Hand ``value`` (an array or a Failure) to each worker of ``peers``. Must copy or finish before returning.
        May return an equal, read-only array that it would rather be given the next time."""
        raise NotImplementedError

    def add_peer(self, name, address):
        """Learn where a peer listens."""

    def join(self, arrays):
        """One flat NumPy array of flat ones, preferably where peers can see it."""
        return numpy.concatenate(arrays)

    def take(self, tag, peer):
        """The value that ``peer`` posted under ``tag``; waits for it. A lost peer gives a Failure."""
        raise NotImplementedError


class Worker:
    """Executes batches in order. ``name`` is the device's name, such as 'cpu(0)'."""

    def __init__(self, name, backend, hooks):
        self.name, self.backend, self.hooks = name, backend, hooks
        self.xp = backend.xp
        self.table = {}
        self.calls = {}
        self.poisoned = 0                   # how many ids hold a Failure: while 0, no command needs to look
        self.batch = 0
        self.replies, self.failures = [], []
        self.context = contextvars.copy_context()
        self.context.run(numpy.seterr, all="ignore")
        self.own_parts = {}                 # what this worker contributed to collectives under way
        self.handlers = {
            protocol.PREPARE: self.do_prepare, protocol.PROGRAM: self.do_program, protocol.DROP: self.do_drop,
            protocol.PUT: self.do_put, protocol.ALIAS: self.do_alias, protocol.ASSIGN: self.do_assign,
            protocol.SEND: self.do_send, protocol.RECEIVE: self.do_receive,
            protocol.CONTRIBUTE: self.do_contribute, protocol.COLLECT: self.do_collect,
            protocol.FETCH: self.do_fetch, protocol.WAIT: self.do_wait,
            protocol.PEER: hooks.add_peer, protocol.THREADS: backend.set_threads,
            protocol.EMPTY_CACHE: backend.empty_cache,
        }

    # -- the loop ----------------------------------------------------------------------------------------------

    def execute(self, batch):
        """Run a batch. Failures and replies collect until :meth:`report`."""
        self.context.run(self.run_batch, batch)

    def run_batch(self, batch):
        """The loop, in the worker's own context: floating-point warnings are off (inf and nan are values), and local
        mode leaves the settings of the user's thread alone."""
        table, calls = self.table, self.calls
        index = 0
        for command in batch:
            if type(command) is int:
                if type(table.pop(command, None)) is Failure:
                    self.poisoned -= 1
                index += 1
                continue
            code = command[0]
            try:
                if type(code) is not int:
                    self.handlers[code](*command[1:])
                else:
                    call = calls[code]
                    _, ins, outs = command
                    if self.poisoned and self.skip_if_poisoned(call, ins, outs):
                        pass
                    elif call.simple:
                        table[outs] = call.run(*[table[w] if type(w) is int else w[0] if len(w) == 1 else
                                                 self.view(w) for w in ins])
                    else:
                        self.run(call, ins, outs)
            except Exception as error:
                self.fail(command, index, error)
            index += 1
        self.batch += 1

    def report(self):
        """(failures, replies) since the last report."""
        result = self.failures, self.replies
        self.failures, self.replies = [], []
        return result

    def view(self, wire):
        """The contiguous range ``(id, offset, shape)`` of an array, as a view."""
        number, offset, shape = wire
        array = self.table[number]
        if type(array) is Failure:
            return array
        size = 1
        for n in shape:
            size *= n
        return array.reshape(-1)[offset:offset + size].reshape(shape)

    def value(self, wire):
        """What a wire argument stands for: an array, a Failure, or a scalar."""
        if type(wire) is int:
            return self.table[wire]
        return wire[0] if len(wire) == 1 else self.view(wire)

    def store(self, number, value):
        """Bind ``number`` to a value, keeping count of the poisoned ids."""
        self.poisoned += (type(value) is Failure) - (type(self.table.get(number)) is Failure)
        self.table[number] = value

    def writable(self, number):
        """The array ``number``, private and writable (a copy replaces one that is shared)."""
        array = self.table[number]
        if not getattr(array.flags, "writeable", True) or not array.flags.c_contiguous:
            array = self.table[number] = array.copy(order="C")
        return array

    def target(self, wire):
        """The writable memory of a target: a whole array or a range of one."""
        self.writable(wire if type(wire) is int else wire[0])
        return self.table[wire] if type(wire) is int else self.view(wire)

    def run(self, call: Prepared, ins, outs):
        """A call that writes to existing arrays or has several outputs."""
        if call.inplace:
            for i in call.mutates:
                if isinstance(ins[i], tuple) and len(ins[i]) == 1:
                    continue
                self.target(ins[i])
        args = [self.value(w) for w in ins]
        results = call.run(*args)
        if type(results) is not tuple:
            results = (results,)
        if call.into is not None:
            for wire, value, dtype in zip(outs, results, call.into):
                self.overwrite(wire, value if value.dtype == dtype else value.astype(dtype))
        elif call.outputs == 1 and type(outs) is int:
            self.store(outs, results[0])
        else:
            for number, value in zip(outs, results):
                self.store(number, value)
        if call.mutates and not call.inplace:
            for i, value in zip(call.mutates, results[call.outputs:]):
                if type(ins[i]) is int or len(ins[i]) == 3:
                    self.overwrite(ins[i], value)

    def overwrite(self, wire, value):
        """Give ``wire`` new contents. A whole array is rebound, a range is written."""
        if type(wire) is int:
            self.store(wire, value)
        else:
            self.target(wire)[...] = value

    # -- errors as values --------------------------------------------------------------------------------------

    def skip_if_poisoned(self, call, ins, outs):
        """Skip a call with a poisoned input: its outputs are poisoned by the root failure, what it would have
        written keeps its value. True if skipped."""
        table = self.table
        root = None
        for wire in ins:
            number = wire if type(wire) is int else wire[0] if len(wire) == 3 else None
            if number is not None and type(table[number]) is Failure:
                root = table[number]
                break
        if root is None and call.into is not None:
            wire = next((w for w in outs if type(w) is tuple and type(table[w[0]]) is Failure), None)
            root = None if wire is None else table[wire[0]]        # a part of a poisoned array stays poisoned
        if root is None:
            return False
        if call.into is None:
            for number in (outs,) if type(outs) is int else outs:
                self.store(number, root)
        return True

    def fail(self, command, index, error):
        """Record the failure of a command and poison what it should have produced."""
        failure = Failure.of((self.name, self.batch, index), self.command_name(command), error)
        self.failures.append(failure)
        code = command[0]
        if type(code) is int:
            call = self.calls.get(code)
            _, ins, outs = command
            if call is None or call.into is None:
                for number in (outs,) if type(outs) is int else outs:
                    self.store(number, failure)
            if call is not None and call.inplace:
                for i in call.mutates:
                    wire = ins[i]
                    self.store(wire if type(wire) is int else wire[0], failure)
        elif code == protocol.PUT:
            self.store(command[1], failure)
        elif code in (protocol.ALIAS, protocol.RECEIVE):
            self.store(command[2], failure)
        elif code == protocol.CONTRIBUTE:
            self.own_parts[command[1]] = failure
            self.post_failure(command[3], command[1], failure)
        elif code == protocol.SEND:
            self.post_failure([command[2]], command[3], failure)
        elif code == protocol.ASSIGN:
            self.store(command[2] if type(command[2]) is int else command[2][0], failure)
        elif code == protocol.COLLECT:
            for wire in command[2]:
                self.store(wire if type(wire) is int else wire[0], failure)
        elif code in (protocol.FETCH, protocol.WAIT):
            self.replies.append((command[1], False, failure))

    def post_failure(self, peers, tag, failure):
        """Hand peers the failure of what they wait for, as far as they can be reached."""
        for peer in peers:
            with contextlib.suppress(Exception):
                self.hooks.post([peer], tag, failure)

    def command_name(self, command):
        """The operator's or command's name, for messages."""
        if type(command[0]) is int:
            call = self.calls.get(command[0])
            return call.name if call else "unknown call"
        return command[0]

    # -- commands ----------------------------------------------------------------------------------------------

    def do_prepare(self, code, name, in_specs, out_specs, attrs, into):
        try:
            self.calls[code] = prepare(self.backend, name, in_specs, out_specs, attrs, into)
        except Exception as error:
            self.calls[code] = unprepared(name, out_specs, into, error)

    def do_program(self, code, description):
        name, slots, constants, steps, outputs, count, mutates = description
        linked = []
        for step_code, ins, outs, dead in steps:
            if type(step_code) is int:
                run = self.calls[step_code].run
            else:
                run = _STRUCTURAL[step_code[0]](self, *step_code[1:])
            linked.append((run, ins, outs, dead))
        runner = ProgramRunner(slots, constants, linked, outputs)
        self.calls[code] = Prepared(name, runner, count, mutates)
        self.calls[code].simple = False

    def do_drop(self, codes):
        for code in codes:
            self.calls.pop(code, None)

    def do_put(self, number, payload, shape, dtype):
        self.store(number, self.backend.from_host(self.hooks.unpack(payload, shape, dtype)))

    def do_alias(self, source, number):
        value = self.value(source)
        if type(value) is not Failure:
            if type(source) is not int:
                value = value.copy()
            else:                           # shared by two ids from now on: whoever writes copies first
                value = self.shared(source)
        self.store(number, value)

    def shared(self, number):
        """The array ``number`` marked as shared."""
        array = self.table[number]
        if not self.backend.can_share:
            return array.copy()
        if array.flags.writeable:
            array = self.table[number] = array.view()
            array.flags.writeable = False
        return array

    def do_assign(self, source, target):
        value = self.value(source)
        if type(value) is Failure:
            self.store(target if type(target) is int else target[0], value)
        elif type(target) is int:
            self.store(target, self.shared(source) if type(source) is int else value.copy())
        else:
            self.target(target)[...] = value

    def post(self, peers, tag, value):
        """Hand a value of the table to peers."""
        return self.hooks.post(peers, tag, value if type(value) is Failure else self.backend.to_host(value))

    def take(self, tag, peer):
        """A value that a peer has handed over."""
        value = self.hooks.take(tag, peer)
        return value if type(value) is Failure else self.backend.from_host(value)

    def do_send(self, source, peer, tag):
        kept = self.post([peer], tag, self.value(source))
        if kept is not None and type(source) is int and self.backend.can_share:
            self.table[source] = kept       # equal, read-only, and already where peers can see it

    def do_receive(self, tag, number, peer):
        self.store(number, self.take(tag, peer))

    def do_contribute(self, tag, sources, peers):
        values = [self.value(w) for w in sources]
        part = next((v for v in values if type(v) is Failure), None)
        if part is None:
            part = self.hooks.join([self.backend.to_host(v).reshape(-1) for v in values])
        self.own_parts[tag] = part
        self.hooks.post(peers, tag, part)

    def do_collect(self, tag, targets, shapes, members):
        """Sum the parts of all members, in their order, so that every replica gets the very same bits."""
        parts = []
        for member in members:              # every part is taken even if one is poisoned: nothing may stay behind
            parts.append(self.own_parts.pop(tag) if member == self.name else self.hooks.take(tag, member))
        root = next((p for p in parts if type(p) is Failure), None)
        if root is not None:
            for wire in targets:
                self.store(wire if type(wire) is int else wire[0], root)
            return
        total = parts[0] + parts[1] if len(parts) > 1 else parts[0].copy()
        for part in parts[2:]:
            total += part
        total = self.backend.from_host(total)
        offset = 0
        for wire, shape in zip(targets, shapes):
            size = 1
            for n in shape:
                size *= n
            piece = total[offset:offset + size].reshape(shape)
            offset += size
            self.overwrite(wire, piece)

    def do_fetch(self, token, source):
        value = self.value(source)
        if type(value) is Failure:
            self.replies.append((token, False, value))
        else:
            self.replies.append((token, True, self.hooks.pack(self.backend.to_host(value))))

    def do_wait(self, token, source):
        value = None if source is None else self.value(source)
        if type(value) is Failure:
            self.replies.append((token, False, value))
        else:
            self.backend.synchronize()
            self.replies.append((token, True, None))


def lost_failure(name, peer, cause):
    """The Failure that stands for the values a lost peer will never send: one for each peer, which its key names."""
    return Failure.of((name, -1, peer), "receive", DeviceLostError(peer, cause=cause))


def _copy_step(worker):
    return lambda array: array.copy()


def _view_step(worker, offset, shape):
    size = 1
    for n in shape:
        size *= n
    return lambda array: array.reshape(-1)[offset:offset + size].reshape(shape)


def _overwrite_view_step(worker, offset, shape):
    size = 1
    for n in shape:
        size *= n

    def run(array, value):
        result = array.copy()
        result.reshape(-1)[offset:offset + size] = value.reshape(-1)
        return result
    return run


def _cast_step(worker, dtype):
    return lambda array: own(worker.xp, array, worker.xp.dtype(dtype))


def _share_step(worker):
    def run(array):
        """``array`` so that no write through another id is seen in it: read-only for all, or a copy."""
        if not worker.backend.can_share:
            return array.copy()
        if array.flags.writeable:
            if array.base is not None:           # a range of an array that may be written as a whole
                return array.copy()
            array.flags.writeable = False        # of the one array object that all its ids are bound to
        return array
    return run


def _draw_step(worker, offset):
    return lambda state: (state[0], state[1] + offset)


_STRUCTURAL = {"copy": _copy_step, "view": _view_step, "overwrite_view": _overwrite_view_step, "cast": _cast_step,
               "share": _share_step, "draw": _draw_step}
