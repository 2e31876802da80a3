"""Hybridized blocks: record a block's forward once, then run it as one command a call.

The recording runs the block's own Python code on abstract arrays (no kernel runs, no random number is drawn, no
statistic moves). Parameters, and other arrays met on the way, become inputs by id, so their later values are seen.
While autograd records, the backward pass is recorded in the same go, from the same vjp rules; the values that it
needs of the forward pass are outputs of the forward program, private to each call.
"""
from __future__ import annotations

import contextlib
import linecache
import traceback
import warnings
from collections import OrderedDict

from . import autograd
from .dispatch import (
    Buffer,
    F,
    Proxy,
    Scope,
    device_mismatch,
    draws,
    emit,
    freeze,
    invoke,
    materialised,
    scope,
    scope_var,
    typed,
    writable_wire,
)
from .engine import INTERNAL, engine
from .errors import ArgumentError, FallbackWarning, MXNetError, TraceError
from .trace import Trace, _Draw

MAX_PROGRAMS = 64                  # kept for a block; the least recently used one is dropped


def flatten(value, arrays):
    """Append the arrays of nested lists, tuples and dicts to ``arrays``; returns the structure, hashable."""
    if isinstance(value, Proxy):
        arrays.append(value)
        return Proxy
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *[flatten(v, arrays) for v in value])
    if type(value) is dict:
        return ("dict", *[(Same(k), flatten(v, arrays)) for k, v in value.items()])
    try:
        return ("value", typed(freeze(value)))
    except ArgumentError:
        return Same(value)


class Same:
    """Stands for an object in a key: equal only for the very same object, which it keeps, so that no other gets its
    address."""
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Same and other.value is self.value

    def __hash__(self):
        return id(self.value)


def unflatten(value, arrays):
    """``value`` (a template) with its arrays replaced, in order, by those of the iterator ``arrays``."""
    if isinstance(value, Proxy):
        return next(arrays)
    if isinstance(value, (list, tuple)):
        made = [unflatten(v, arrays) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if type(value) is dict:
        return {k: unflatten(v, arrays) for k, v in value.items()}
    return value


class _Recorded:
    """The programs of one key: forward, backward, and how to call them."""

    def __init__(self, trace, forward, captured, template, count, residuals):
        self.trace, self.forward, self.captured, self.template, self.count = (trace, forward, captured, template,
                                                                              count)
        self.residuals = residuals           # for each value backward reads: ('out', n) or ('in', n) of forward
        self.backward = None
        self.sources = ()                    # for each gradient of the backward program: number of the input
        self.dy_specs = ()
        self.items = ()
        self.verified = False


class ProgramCache:
    """The programs of one block."""

    def __init__(self):
        self.programs: OrderedDict = OrderedDict()
        self.warned = False

    def clear(self):
        """Forget all programs (the block was cast, changed, or hybridized anew)."""
        self.programs.clear()

    def __call__(self, block, function, args, extra_key=()):
        """Call ``function(*args)``, the forward of ``block``, as a program; eagerly where it cannot be recorded."""
        arrays = []
        structure = flatten(args, arrays)
        if not arrays:
            return function(*args)
        for x in arrays:
            materialised(x)
        modes = scope()
        queue = arrays[0]._buffer.queue
        queue.check()
        if any(x._buffer.queue is not queue for x in arrays):
            return function(*args)           # raises, or computes, as eagerly
        first_seen = {}
        aliases = tuple([first_seen.setdefault((id(x._buffer), x._offset, x._entry), i) for i, x in enumerate(arrays)])
        key = (queue.device, structure, tuple([x._spec for x in arrays]), tuple([type(x) for x in arrays]), aliases,
               modes.recording, modes.training,
               tuple([x._entry is not None for x in arrays]) if modes.recording else None, extra_key)
        recorded = self.programs.get(key, False)
        if recorded is False:
            recorded = self.record(block, function, args, arrays, queue, modes)
            self.programs[key] = recorded
            if len(self.programs) > MAX_PROGRAMS:
                self.programs.popitem(last=False)
        else:
            with contextlib.suppress(KeyError):      # another thread has dropped it
                self.programs.move_to_end(key)
            if engine.synchronous and recorded is not None and not recorded.verified:
                recorded = self.verify(key, recorded, block, function, args, arrays, queue, modes)
        if recorded is None:
            return function(*args)
        return run(recorded, block, arrays, queue, modes)

    def record(self, block, function, args, arrays, queue, modes):
        """Record the block for these arguments; None (with one warning) if it needs a value."""
        try:
            return _record(block, function, args, arrays, queue, modes)
        except TraceError as error:
            if not self.warned:
                self.warned = True
                warnings.warn(f"{type(block).__name__} stays eager: {error}{_user_line(error)}", FallbackWarning,
                              stacklevel=4)
            return None

    def verify(self, key, recorded, block, function, args, arrays, queue, modes):
        """In synchronous mode the first reuse is checked against a fresh recording."""
        again = self.record(block, function, args, arrays, queue, modes)
        recorded.verified = True
        if again is not None and again.forward.shape_of_steps() == recorded.forward.shape_of_steps():
            return recorded
        warnings.warn(f"{type(block).__name__} records a different program at its second call; it stays eager",
                      FallbackWarning, stacklevel=4)
        self.programs[key] = None
        return None


def _user_line(error):
    """' (file:line: source)' of the innermost frame of an error that is not raynd's own; '' if there is none."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not INTERNAL[frame.f_code]:
            text = linecache.getline(frame.f_code.co_filename, line).strip()
            return f" ({frame.f_code.co_filename}:{line}: {text})"
    return ""


def _record(block, function, args, arrays, queue, modes):
    trace = Trace(queue.device)
    inner = []
    for x in arrays:
        known = next((y for y, z in zip(inner, arrays) if z._buffer is x._buffer and z._offset == x._offset
                      and z._spec is x._spec and z._entry == x._entry), None)
        if known is None:
            entry = autograd.Leaf(None, "write", x._spec) if modes.recording and x._entry is not None else None
            known = trace.array(x._spec, type(x), entry)
        inner.append(known)
    token = scope_var.set(Scope(modes.recording, modes.training, trace))
    try:
        result = function(*unflatten(args, iter(inner)))
        outputs = []
        flatten(result, outputs)
        outputs = [y if y._buffer.queue is trace else trace.capture(y) for y in outputs]
        mark = len(trace.pending)
        differentiable = [y for y in outputs if y._entry is not None and y._spec.dtype.kind != "b"]
        found, heads = {}, []
        if modes.recording and differentiable:
            heads = [trace.array(y._spec, type(y)) for y in differentiable]
            scope_var.reset(token)
            token = scope_var.set(Scope(False, True, trace))
            found, _ = autograd._sweep(differentiable, heads, False)
    finally:
        scope_var.reset(token)
    captured = list(trace.captured.values())
    inputs = list({id(x): x for x in inner}.values()) + [inside for _, inside in captured]
    items = list(trace.pending)
    forward_items, backward_items = items[:mark], items[mark:]
    input_ids = [trace.first_id(x) for x in inputs]
    name = f"{type(block).__name__}.forward"
    wires, specs = [y._wire() for y in outputs], [y._spec for y in outputs]
    gradients = []                           # (input number, gradient)
    for number, x in enumerate(inputs):
        if x._entry is not None:
            g = found.get(id(x._entry), (None, None))[1]
            if g is not None:
                gradients.append((number, g))
    residuals, read = [], []
    if gradients:
        made = {n for item in backward_items if type(item) is not int for n in _produced(item)}
        made.update(trace.first_id(h) for h in heads)
        position = {number: i for i, number in enumerate(input_ids)}
        produced = {}
        for wire in _read_ids(backward_items, [g._wire() for _, g in gradients]):
            if wire in made or wire in read:
                continue
            read.append(wire)
            if wire in position:
                residuals.append(("in", position[wire]))
            else:
                produced[wire] = len(wires)
                residuals.append(("out", len(wires)))
                wires.append(wire)
                specs.append(_spec_of(trace, forward_items, wire))
    forward = trace.part(name, forward_items, input_ids, wires, specs, inputs)
    outside = list({id(y): x for y, x in zip(inner, arrays)}.values()) + [x for x, _ in captured]
    if any(x._entry is not trace.originals[id(x._buffer)][2] for x in inputs):
        raise TraceError("it stores a recorded value in an array from outside")
    for i in forward.mutates:
        if sum(x._buffer is outside[i]._buffer for x in outside) > 1:
            raise TraceError("it writes to an array that it also uses through a view")
    template = _template(result)
    recorded = _Recorded(trace, forward, [outside for outside, _ in captured], template, len(outputs), residuals)
    recorded.read_before_write = [i for i in forward.mutates if ("in", i) in residuals]
    first_at = {}
    for i, x in enumerate(inner):
        first_at.setdefault(id(x), i)
    recorded.order = list(first_at.values())
    recorded.items, recorded.input_ids = forward_items, input_ids
    recorded.output_wires = [y._wire() for y in outputs]
    if gradients:
        recorded.backward = trace.part(f"{type(block).__name__}.backward", backward_items,
                                       [trace.first_id(h) for h in heads] + read, [g._wire() for _, g in gradients],
                                       [g._spec for _, g in gradients])
        recorded.sources = [number for number, _ in gradients]
        recorded.dy_specs = [y._spec if any(y is d for d in differentiable) else None for y in outputs]
    recorded.differentiable = [any(y is d for d in differentiable) for y in outputs]
    recorded.on_tape = [y._entry is not None for y in outputs]       # also those whose gradient is zero
    _sever(outputs)
    return recorded


def _sever(outputs):
    """Break the recording's tape, which would otherwise keep itself alive through the outputs' entries."""
    for y in outputs:
        y._entry = None


def _template(result):
    """The structure of a block's result, without its arrays."""
    if isinstance(result, Proxy):
        return Proxy
    if isinstance(result, (list, tuple)):
        made = [_template(v) for v in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    if type(result) is dict:
        return {k: _template(v) for k, v in result.items()}
    return ("constant", result)


def _filled(template, arrays):
    if template is Proxy:
        return next(arrays)
    if isinstance(template, tuple) and len(template) == 2 and template[0] == "constant":
        return template[1]
    if type(template) is dict:
        return {k: _filled(v, arrays) for k, v in template.items()}
    made = [_filled(v, arrays) for v in template]
    return type(template)(*made) if hasattr(template, "_fields") else type(template)(made)


def _produced(item):
    command = item[0]
    if type(command[0]) is int:
        outs = command[2]
        return [outs] if type(outs) is int else [w for w in outs if type(w) is int]
    return [command[2]] if type(command[2]) is int else []


def _read_ids(items, results):
    """Ids that commands or final results read, in order of first use."""
    seen = []
    for item in items:
        if type(item) is not int:
            command = item[0]
            wires = command[1] if type(command[0]) is int else [command[1]]
            for wire in wires:
                if type(wire) is int:
                    seen.append(wire)
                elif len(wire) == 3:
                    seen.append(wire[0])
    seen += [w if type(w) is int else w[0] for w in results]
    return list(dict.fromkeys(seen))


def _spec_of(trace, items, number):
    """The spec of an id that recorded commands produce."""
    for item in items:
        if type(item) is not int and number in _produced(item) and type(item[0][0]) is int:
            outs = item[0][2]
            return item[1].out_specs[0 if type(outs) is int else list(outs).index(number)]
        if type(item) is not int and type(item[0][0]) is str and item[0][2] == number:
            source = item[0][1]
            return _spec_of(trace, items, source if type(source) is int else source[0])
    raise MXNetError(f"value {number} of a recorded program has no known origin")


def run(recorded, block, arrays, queue, modes):
    """Run the forward program on actual arrays; on the tape it is one node."""
    program = recorded.forward
    if program.code not in queue.known:
        program.define(queue)
    inputs = [arrays[i] for i in recorded.order] + recorded.captured
    wires = []
    for x in inputs:
        if materialised(x)._buffer.queue is not queue:
            raise device_mismatch(program.name, inputs)
    # what backward reads of an input is what it was before the program wrote to it: holding it makes the write copy
    before = {n: inputs[n]._buffer.content for n in recorded.read_before_write} if modes.recording else {}
    for i, x in enumerate(inputs):
        wires.append(writable_wire(x) if i in program.mutates else x._wire())
    state = None
    if program.needs_generator:
        state = draws.take(queue.device, program.draws)
        wires.append((state,))
    contents = [(before.get(i) or x._buffer.content, x._offset, x._spec)
                for i, x in enumerate(inputs)] if modes.recording else ()
    made = emit(queue, program, tuple(wires), type(arrays[0]))
    outputs = made[:recorded.count]
    if modes.recording and any(recorded.on_tape):
        kept = []
        for kind, n in recorded.residuals:
            kept.append((made[n]._buffer.content, None, made[n]._spec) if kind == "out" else contents[n])

        def gradients(grads, create_graph):
            if recorded.backward is None:
                return [None] * len(inputs)
            grads = [g for g, d in zip(grads, flowing) if d]
            if create_graph:
                return _differentiable(recorded, block, inputs, contents, queue, grads, state)
            return _gradients(recorded, queue, grads, kept, len(inputs), type(arrays[0]))
        flowing = [d for d, t in zip(recorded.differentiable, recorded.on_tape) if t]
        taped = [y for y, t in zip(outputs, recorded.on_tape) if t]
        autograd.PythonNode(f"the hybridized {type(block).__name__}", gradients, inputs, taped)
    return _filled(recorded.template, iter(outputs))


def _gradients(recorded, queue, grads, kept, count, cls):
    """Run the backward program."""
    program = recorded.backward
    queue.check()
    if program.code not in queue.known:
        program.define(queue)
    specs = [s for s in recorded.dy_specs if s is not None]
    grads = [_zeros(queue, s) if g is None else g for g, s in zip(grads, specs)]
    wires = [materialised(g)._wire() for g in grads]         # a head gradient may be on the host yet
    for content, offset, spec in kept:
        wires.append(content.id if offset is None else (content.id, offset, spec.shape))
    made = emit(queue, program, tuple(wires), cls)
    results = [None] * count
    for number, g in zip(recorded.sources, made):
        results[number] = g
    return results


def _zeros(queue, spec):
    """Zeros of ``spec`` on a queue's device."""
    with queue.device:
        return F.zeros(shape=spec.shape, dtype=spec.dtype.name)


def _differentiable(recorded, block, inputs, contents, queue, grads, state):
    """Gradients that are themselves on the tape: the recorded operators run one by one."""
    values = {}
    leaves = []
    for x, number, (content, offset, spec) in zip(inputs, recorded.input_ids, contents):
        proxy = type(x)(Buffer(content, queue), spec, offset)
        proxy._entry = x._entry
        values[number] = proxy
        leaves.append(proxy)
    with autograd.record(train_mode=True):
        replay(recorded, values, state)
        outputs = [_value(values, w) for w in recorded.output_wires]
    heads = [y for y, d in zip(outputs, recorded.differentiable) if d]
    wanted = [(i, x) for i, x in enumerate(leaves) if x._entry is not None]
    pairs = [(h, g) for h, g in zip(heads, grads) if g is not None and h._entry is not None]
    found, _ = autograd._sweep([h for h, _ in pairs], [g for _, g in pairs], True, [x._entry for _, x in wanted])
    results = [None] * len(inputs)
    for i, x in wanted:
        results[i] = found.get(autograd._key(x._entry), (None, None))[1]
    return results


def _value(values, wire):
    if type(wire) is int:
        return values[wire]
    if len(wire) == 3:
        whole = values[wire[0]]
        size = 1
        for n in wire[2]:
            size *= n
        flat = F.reshape(whole, newshape=(whole._spec.size,))
        part = F.basic_index(flat, items=((wire[1], wire[1] + size, 1),), shape=(size,))
        return F.reshape(part, newshape=wire[2])
    return wire[0]


def replay(recorded, values, state):
    """Run recorded forward commands through the dispatcher, as if the block ran eagerly; auxiliary states, which the
    program has already moved, stay."""
    for item in recorded.items:
        if type(item) is int:
            continue
        command, call, _, _ = item
        if type(command[0]) is str:
            values[command[2]] = _value(values, command[1])
            continue
        _, ins, outs = command
        op = call.op
        args, draw = [], None
        for w in ins:
            if type(w) is tuple and len(w) == 1 and isinstance(w[0], _Draw):
                draw = (state[0], state[1] + w[0].offset)
            else:
                args.append(_value(values, w))
        if op.inplace or call.into is not None:
            raise MXNetError(f"create_graph=True through a hybridized block that writes in place ({op.name}) is not "
                             "supported; call the block without hybridize()")
        for i in call.mutates:
            args[i] = F.copy(args[i].detach())
        attrs = {k: v for k, v in call.attrs.items() if k in op.attrs}
        with draws.forced(draw):
            made = invoke(op, args, attrs)
        for number, y in zip((outs,) if type(outs) is int else outs, made if type(made) is tuple else (made,)):
            values[number] = y


