"""Recording commands as a program: the queue that records, and its translation to steps over slots.

A :class:`Trace` stands where a device's queue stands. Operators on arrays that belong to it run through the very same
dispatcher; their commands stay here. :meth:`Trace.program` then renames ids to slots (each write makes a new slot,
so the steps are in static single assignment form), finds the last use of each slot, and gives a :class:`Program`,
which is called like an operator: one command, whatever its length.
"""
from __future__ import annotations

from collections import deque

from . import protocol
from .dispatch import Buffer, Content, PlaceholderScalar, Proxy, array_class
from .engine import BIG, Known, engine, next_id
from .errors import TraceError
from .spec import ArraySpec


class Trace:
    """A recording for ``device``. Arrays outside it that operators meet are captured as further inputs."""
    tracing = True
    limit = float("inf")
    commands_outstanding = 1
    lost = None

    def __init__(self, device):
        self.device = device
        self.pending = deque()
        self.calls, self.known = {}, {}
        self.big = 0
        self.captured = {}               # which memory, seen how -> (proxy outside, proxy inside)
        self.draws = 0
        self.generator = None            # the placeholder of the random state, once something draws
        self.originals = {}              # id(Buffer) -> (Buffer, its first Content, its tape entry), of the inputs

    def learn(self, call):
        """Remember a call that the program is made of."""
        self.known[call.code] = call

    def kick(self):
        """Nothing is ever sent from here."""

    flush = kick
    check = kick

    def push(self, command, name, frame=None):
        """Record a command that is not an operator call."""
        if command[0] not in (protocol.ALIAS, protocol.ASSIGN):
            raise TraceError(f"{name} cannot be part of a recorded program")
        self.pending.append((command, name, None, 0))

    def ask(self, command, source, label):
        """A value was asked for."""
        raise TraceError(f"{label} needs a value")

    def array(self, spec, cls=None, entry=None):
        """A new input of the program. Its content is held here, so a write to it makes a new one."""
        buffer = Buffer(Content(next_id(), self.pending), self)
        self.originals[id(buffer)] = buffer, buffer.content, entry
        proxy = (cls or array_class())(buffer, spec)
        proxy._entry = entry
        return proxy

    def scalar(self, scalar_type):
        """A new input that is a Python scalar."""
        return PlaceholderScalar(next_id(), scalar_type, self)

    def capture(self, proxy):
        """The program's input for an array made outside of it."""
        buffer, entry = proxy._buffer, proxy._entry
        key = id(buffer), proxy._offset, proxy._spec, type(proxy), entry
        if key not in self.captured:
            if buffer.queue.tracing or buffer.queue.device != self.device:
                raise TraceError(f"it uses an array on {buffer.queue.device} and runs on {self.device}")
            if type(entry) is tuple:         # the next call would mean another array
                raise TraceError("it uses a value on the tape that is no argument of it")
            self.captured[key] = proxy, self.array(proxy._spec, type(proxy), entry)
        return self.captured[key][1]

    def draw(self):
        """The operand of a random operator: an offset from the state that the program is called with."""
        if self.generator is None:
            self.generator = self.scalar(tuple)
        self.draws += 1
        return (_Draw(self.draws - 1),)

    def first_id(self, x):
        """The id under which an input entered the trace."""
        return x.id if isinstance(x, PlaceholderScalar) else self.originals[id(x._buffer)][1].id

    def program(self, name, inputs, outputs):
        """The :class:`Program` from ``inputs`` (proxies and placeholder scalars of this trace) to ``outputs``."""
        return self.part(name, self.pending, [self.first_id(x) for x in inputs], [x._wire() for x in outputs],
                         [x._spec for x in outputs], inputs)

    def part(self, name, items, input_ids, results, specs, inputs=()):
        """The program of some of the recorded commands, from ids to wire arguments. Where ``inputs`` (proxies, in the
        order of the ids) have got new contents, these are written back to them."""
        translation = _Translation(self, items, input_ids)
        written = [(i, x._buffer.content.id) for i, x in enumerate(inputs) if isinstance(x, Proxy)]
        return translation.program(name, results, specs, written)


class _Draw:
    """The number of a draw within a program."""
    __slots__ = ("offset",)

    def __init__(self, offset):
        self.offset = offset


def _operands(items):
    """All wire arguments of recorded operator calls."""
    for item in items:
        if type(item) is not int and type(item[0][0]) is int:
            yield from item[0][1]


class _Translation:
    """From recorded commands to steps over slots."""

    def __init__(self, trace, items, input_ids):
        self.trace, self.steps, self.sites, self.draws = trace, [], [], 0
        self.slot_of = {number: slot for slot, number in enumerate(input_ids)}
        self.generator = None
        if any(type(w) is tuple and len(w) == 1 and isinstance(w[0], _Draw) for w in _operands(items)):
            self.generator = len(self.slot_of)
            self.slot_of[trace.generator.id] = self.generator
        self.constants, self.constant_slots = [], {}
        self.first_constant = len(self.slot_of)
        for wire in _operands(items):        # constants get the slots right after the inputs
            if type(wire) is tuple and len(wire) == 1 and not isinstance(wire[0], (PlaceholderScalar, _Draw)):
                self.constant(wire[0])
        self.next_slot = self.first_constant + len(self.constants)
        for item in items:
            if type(item) is not int:
                self.translate(item)

    def program(self, name, results, specs, written):
        """The finished program. ``written``: (input position, id of its present contents)."""
        taken = set(range(self.first_constant))
        outputs = [self.result(w, taken) for w in results]
        mutates, values = [], []
        for position, number in written:
            if self.slot_of[number] != position:
                mutates.append(position)
                values.append(self.result(number, taken))
        steps = self.with_last_uses(self.steps, outputs + values)
        description = (name, self.next_slot, tuple(self.constants), tuple(steps), tuple(outputs + values),
                       len(outputs), tuple(mutates))
        used = [self.trace.known[s[0]] for s in steps if type(s[0]) is int]
        return Program(name, description, specs, used, self.draws, self.generator is not None, tuple(self.sites))

    def constant(self, value):
        """The slot of a Python scalar, one for each (type, value)."""
        key = (type(value), repr(value))
        if key not in self.constant_slots:
            self.constant_slots[key] = self.first_constant + len(self.constants)
            self.constants.append(value)
        return self.constant_slots[key]

    def fresh(self):
        """A new slot."""
        self.next_slot += 1
        return self.next_slot - 1

    def read(self, wire):
        """The slot of a wire argument."""
        if type(wire) is int:
            return self.slot_of[wire]
        if len(wire) == 3:
            slot = self.fresh()
            self.steps.append((("view", wire[1], wire[2]), (self.slot_of[wire[0]],), slot))
            return slot
        value = wire[0]
        if isinstance(value, PlaceholderScalar):
            return self.slot_of[value.id]
        if isinstance(value, _Draw):
            self.draws = max(self.draws, value.offset + 1)
            slot = self.fresh()
            self.steps.append((("draw", value.offset), (self.slot_of[self.trace.generator.id],), slot))
            return slot
        return self.constant(value)

    def result(self, wire, taken):
        """The slot of a wire argument that the program gives back. An input, a view, or what is given back before
        (slots in ``taken``) would be one memory under two ids, so it is marked as shared: whoever writes copies."""
        slot = self.read(wire)
        if type(wire) is not int or slot in taken:
            shared = self.fresh()
            self.steps.append((("share",), (slot,), shared))
            slot = shared
        taken.add(slot)
        return slot

    def write(self, wire, slot):
        """Make ``slot`` the new contents of a wire argument."""
        if type(wire) is int:
            self.slot_of[wire] = slot
        else:
            new = self.fresh()
            self.steps.append((("overwrite_view", wire[1], wire[2]), (self.slot_of[wire[0]], slot), new))
            self.slot_of[wire[0]] = new

    def translate(self, item):
        """Append the steps of one recorded command."""
        command, call, code, instruction = item
        if command[0] == protocol.ALIAS:
            self.slot_of[command[2]] = self.read(command[1])
            return
        if command[0] == protocol.ASSIGN:
            self.write(command[2], self.read(command[1]))
            return
        number, ins, outs = command
        op = call.op
        slots = [self.read(w) for w in ins]
        if op is not None and op.inplace:
            for i in call.mutates:               # a private copy is written, so no other reader sees the change
                new = self.fresh()
                self.steps.append((("copy",), (slots[i],), new))
                slots[i] = new
        self.sites.append((len(self.steps), call.describe(), code, instruction))
        if call.into is not None:
            results = tuple(self.fresh() for _ in call.out_specs)
            self.steps.append((number, tuple(slots), results[0] if call.single else results))
            for wire, slot, out, dtype in zip(outs, results, call.out_specs, call.into):
                if out.dtype != dtype:
                    cast = self.fresh()
                    self.steps.append((("cast", dtype.name), (slot,), cast))
                    slot = cast
                self.write(wire, slot)
            return
        numbers = (outs,) if type(outs) is int else outs
        results = [self.fresh() for _ in numbers]
        for n, slot in zip(numbers, results):
            self.slot_of[n] = slot
        mutated = []
        if call.mutates and not (op is not None and op.inplace):
            mutated = [self.fresh() for _ in call.mutates]
        every = results + mutated
        self.steps.append((number, tuple(slots), every[0] if len(every) == 1 and type(outs) is int else tuple(every)))
        for i, slot in zip(call.mutates, mutated):
            self.write(ins[i], slot)
        if op is not None and op.inplace:
            for i in call.mutates:
                self.write(ins[i], slots[i])

    @staticmethod
    def with_last_uses(steps, kept):
        """Each step with the slots that nothing reads after it; steps whose results nothing reads are dropped."""
        seen = set(kept)
        result = []
        for code, ins, outs in reversed(steps):
            written = (outs,) if type(outs) is int else outs
            if written and not any(slot in seen for slot in written):
                continue
            dead = tuple(dict.fromkeys([s for s in (*ins, *written) if s not in seen]))
            seen.update(ins)
            seen.update(written)
            result.append((code, ins, outs, dead))
        result.reverse()
        return result


class Program(Known):
    """A recorded program as the driver knows it; stands where a :class:`~raynd.dispatch.Call` stands."""
    op = None
    light = False
    into = None
    single = False

    def __init__(self, name, description, out_specs, used, draws, needs_generator, sites):
        self.name, self.description, self.out_specs, self.used = name, description, out_specs, used
        self.draws, self.needs_generator, self.sites = draws, needs_generator, sites
        self.mutates = description[6]
        self.code = engine.next_code()
        self.nbytes = sum(s.nbytes for s in out_specs if isinstance(s, ArraySpec))
        self.big = self.nbytes >= BIG

    def describe(self):
        """The program's name, for messages."""
        return self.name

    def define(self, queue):
        """Make the device know this program, and first the calls it is made of."""
        if self.code in queue.known:
            return
        for call in self.used:
            call.define(queue)
        if not queue.tracing:
            queue.push((protocol.PROGRAM, self.code, self.description), "program")
        queue.learn(self)

    def shape_of_steps(self):
        """The program up to the numbering of calls: what two recordings of the same computation have in common."""
        return [(c if type(c) is not int else None, ins, outs) for c, ins, outs, _ in self.description[3]], \
            self.description[1:3], [call.describe() for call in self.used]
