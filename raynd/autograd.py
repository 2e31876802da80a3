"""Automatic differentiation: the tape, backward, and user-defined functions (``mx.autograd``).

While recording, every operator on an array that stands on the tape makes a :class:`Node`. What a node keeps is not
declared anywhere: the operator's vjp rule is recorded once as a small program (for each operator, specs and
attributes), and the inputs and outputs which that program reads are what is kept. Backward then runs one program a
node, which also adds to gradients that other nodes have already sent to the same place.
"""
from __future__ import annotations

import heapq
import itertools

from . import protocol
from .dispatch import (
    Buffer,
    Content,
    F,
    HostQueue,
    PlaceholderScalar,
    Proxy,
    Scope,
    _record_hook,
    device_mismatch,
    emit,
    materialised,
    put,
    scope,
    scope_var,
    traced,
    where,
    writable_wire,
)
from .engine import engine, next_id, next_tag
from .errors import ArgumentError, MXNetError, ShapeError, TraceError
from .spec import ArraySpec
from .trace import Trace

next_seq = itertools.count(1).__next__


# -- modes ---------------------------------------------------------------------------------------------------------


class _Mode:
    """A context manager that changes the modes of this thread; usable more than once, and nested."""

    def __init__(self, recording, training):
        self._recording, self._training, self._tokens = recording, training, []

    def __enter__(self):
        now = scope()
        self._tokens.append(scope_var.set(Scope(now.recording if self._recording is None else self._recording,
                                                now.training if self._training is None else self._training,
                                                now.trace)))

    def __exit__(self, *exc):
        scope_var.reset(self._tokens.pop())


def record(train_mode=True):
    """Context manager: record operators for :func:`backward`, by default in training mode."""
    return _Mode(True, train_mode)


def pause(train_mode=False):
    """Context manager: stop recording, by default in prediction mode."""
    return _Mode(False, train_mode)


def train_mode():
    """Context manager: training mode (dropout drops, batch normalisation uses the batch), recording unchanged."""
    return _Mode(None, True)


def predict_mode():
    """Context manager: prediction mode, recording unchanged."""
    return _Mode(None, False)


def is_recording() -> bool:
    """Whether this thread is recording."""
    return scope().recording


def is_training() -> bool:
    """Whether this thread is in training mode."""
    return scope().training


def _set(**changes):
    now = scope()
    scope_var.set(Scope(changes.get("recording", now.recording), changes.get("training", now.training), now.trace))


def set_recording(is_recording) -> bool:
    """Switch recording on or off for this thread; returns the previous state."""
    previous = scope().recording
    _set(recording=bool(is_recording))
    return previous


def set_training(train_mode) -> bool:
    """Switch training mode on or off for this thread; returns the previous state."""
    previous = scope().training
    _set(training=bool(train_mode))
    return previous


# -- the tape ------------------------------------------------------------------------------------------------------


class Leaf:
    """A variable: where its gradient goes. ``grad`` is a proxy, ``req`` is 'write', 'add' or 'null'."""
    __slots__ = ("grad", "req", "fresh", "spec", "__weakref__")

    def __init__(self, grad, req, spec):
        self.grad, self.req, self.fresh, self.spec = grad, req, False, spec


class Node:
    """A recorded call. ``entries`` say where each input stands on the tape; ``saved`` is what its gradient reads:
    ``(content, offset, spec, output number or None)`` or a Python scalar, in the order of ``rule.reads``."""
    __slots__ = ("call", "rule", "entries", "saved", "seq", "queue", "cls", "hook")

    def __init__(self, call, rule, entries, saved, queue, cls):
        self.call, self.rule, self.entries, self.saved, self.queue, self.cls = call, rule, entries, saved, queue, cls
        self.seq = next_seq()

    @property
    def out_specs(self):
        return self.call.out_specs

    def gradients(self, grads, slots, create_graph):
        """Gradients for the inputs at ``slots``, each added to the one already there.

        ``grads``: the gradient of each output or None. ``slots``: a list of (input number, present gradient or None).
        Returns proxies in that order.
        """
        if self.saved is None:
            raise MXNetError("backward was already run through this part of the graph and its saved arrays are "
                             "released; use backward(retain_graph=True) the first time")
        if create_graph:
            return self.differentiable_gradients(grads, slots)
        present = tuple([g is not None for g in grads])
        into = tuple([(i, acc is not None) for i, acc in slots])
        program = self.rule.program(present, into)
        if program is None:
            return [acc for _, acc in slots]
        queue = self.queue
        queue.check()
        if program.code not in queue.known:
            program.define(queue)
        wires = [materialised(g)._wire() for g in grads if g is not None]
        for item in self.saved:
            if type(item) is tuple:
                wires.append(item[0].id if item[1] is None else (item[0].id, item[1], item[2].shape))
            else:
                wires.append((item,))
        wires += [materialised(acc)._wire() for _, acc in slots if acc is not None]
        outputs = emit(queue, program, tuple(wires), self.cls)
        results, at = [], 0
        for (_, acc), made in zip(slots, program.made):
            results.append(outputs[at] if made else acc)
            at += made
        return results

    def saved_proxies(self):
        """The inputs and outputs of the call as proxies on the tape; specs where nothing was kept."""
        call = self.call
        inputs = [None if s is type(None) else s for s in call.in_specs]
        outputs = list(call.out_specs)
        for (is_output, i), item in zip(self.rule.reads, self.saved):
            if type(item) is tuple:
                proxy = self.cls(Buffer(item[0], self.queue), item[2], item[1])
                if is_output:
                    proxy._entry = (self, i)
                    outputs[i] = proxy
                else:
                    proxy._entry = self.entries[i]
                    inputs[i] = proxy
            else:
                inputs[i] = item
        return tuple(inputs), tuple(outputs)

    def differentiable_gradients(self, grads, slots):
        """As :meth:`gradients`, by running the rule itself so that its operators are recorded."""
        op = self.call.op
        if op.vjp is None or all(g is None for g in grads):
            return [acc for _, acc in slots]
        if op.first_order_only:
            raise MXNetError(f"{op.name} has no second-order gradient; create_graph=True cannot go through it")
        inputs, outputs = self.saved_proxies()
        results = run_vjp(op, self.call, grads, inputs, outputs, [i for i, _ in slots])
        made = []
        for i, acc in slots:
            g = results[i]
            made.append(acc if g is None else g if acc is None else F.add(acc, g))
        return made

    def release(self):
        """Drop what was kept for the gradient."""
        self.saved = None


def run_vjp(op, call, grads, inputs, outputs, wanted):
    """Gradients of the ``wanted`` inputs, at least, by the operator's vjp rule, in each input's shape and dtype."""
    dy = grads[0] if len(grads) == 1 else tuple(grads)
    attrs = {**call.attrs, "wanted": frozenset(wanted)} if op.selective else call.attrs
    results = op.vjp(F, dy, inputs, outputs, **attrs)
    if not isinstance(results, (tuple, list)):
        results = (results,)
    if len(results) != len(inputs):
        raise MXNetError(f"the vjp of {op.name} gave {len(results)} gradients for {len(inputs)} inputs")
    fitted = []
    for g, x in zip(results, call.in_specs):
        if g is None or not isinstance(x, ArraySpec):
            fitted.append(None)
            continue
        if g._spec.shape != x.shape:
            if not op.broadcasts:
                raise MXNetError(f"the vjp of {op.name} gave a gradient of shape {g._spec.shape} for an input of "
                                 f"shape {x.shape}")
            g = F.sum_to(g, shape=x.shape)
        fitted.append(g if g._spec.dtype == x.dtype else F.cast(g, dtype=x.dtype.name))
    return fitted


class Rule:
    """The gradient of a Call towards some of its inputs (``mask``), as programs."""

    def __init__(self, call, mask):
        self.call, self.mask = call, mask
        self.programs = {}
        self.reads = ()
        if call.op.vjp is not None:
            everything = self.differentiable(tuple(True for _ in call.out_specs))
            if any(everything):
                self.reads = self.trace(everything, tuple((i, False) for i, m in enumerate(mask) if m), None)[1]

    def differentiable(self, present):
        """``present`` without the outputs that are bools. Integers have gradients, as in MXNet."""
        return tuple([p and s.dtype.kind != "b" for p, s in zip(present, self.call.out_specs)])

    def trace(self, present, into, reads):
        """(program, reads): the rule recorded for these present output gradients and wanted input gradients.

        ``reads``: the saved values that become the program's inputs; None: those that it turns out to need.
        """
        call, queue_device = self.call, Rule.device
        trace = Trace(queue_device)
        token = scope_var.set(Scope(False, False, trace))
        try:
            grads = [trace.array(s) if p else None for p, s in zip(present, call.out_specs)]
            inputs = [trace.array(s) if isinstance(s, ArraySpec) else None if s is type(None) else trace.scalar(s)
                      for s in call.in_specs]
            outputs = [trace.array(s) for s in call.out_specs]
            accs = [trace.array(call.in_specs[i]) for i, has in into if has]
            results = run_vjp(call.op, call, grads, tuple(inputs), tuple(outputs), [i for i, _ in into])
            made, waiting = [], iter(accs)
            for i, has in into:
                acc = next(waiting) if has else None
                g = results[i]
                made.append(None if g is None else g if acc is None else F.add(acc, g))
        finally:
            scope_var.reset(token)
        outs = [g for g in made if g is not None]
        if reads is None:
            reads = self.needed(trace, inputs, outputs, outs)
        saved = [outputs[i] if is_output else inputs[i] for is_output, i in reads]
        program = None
        if outs:
            program = trace.program(f"gradient of {call.describe()}",
                                    [g for g in grads if g is not None] + saved + accs, outs)
            program.made = tuple([g is not None for g in made])
        return program, reads

    @staticmethod
    def needed(trace, inputs, outputs, results):
        """Which inputs (False, i) and outputs (True, i) the recorded commands read."""
        used = set()
        for item in trace.pending:
            if type(item) is not int and type(item[0][0]) is int:
                for wire in item[0][1]:
                    if type(wire) is int:
                        used.add(wire)
                    elif len(wire) == 3:
                        used.add(wire[0])
                    elif isinstance(wire[0], PlaceholderScalar):
                        used.add(wire[0].id)
        used.update(g._buffer.content.id for g in results)
        reads = []
        for is_output, group in ((False, inputs), (True, outputs)):
            for i, x in enumerate(group):
                number = x.id if isinstance(x, PlaceholderScalar) else None if x is None else x._buffer.content.id
                if number in used:
                    reads.append((is_output, i))
        return tuple(reads)

    def program(self, present, into):
        """The program for these present output gradients and wanted, possibly accumulated, input gradients."""
        key = present, into
        if key not in self.programs:
            if self.call.op.vjp is None or not any(self.differentiable(present)):
                self.programs[key] = None
            else:
                self.programs[key] = self.trace(present, into, self.reads)[0]
        return self.programs[key]


class _RuleDevice:
    """Stands for the device of rules: they are recorded once for all devices."""

    def __repr__(self):
        return "any device"


Rule.device = _RuleDevice()


def record_call(call, inputs, outputs):
    """Put a call on the tape: its outputs get entries. Called by the dispatcher."""
    entries = [x._entry if isinstance(x, Proxy) else None for x in inputs]
    mask = tuple([e is not None for e in entries])
    rule = call.plans.get(mask)
    if rule is None:
        rule = call.plans[mask] = Rule(call, mask)
    saved = []
    for is_output, i in rule.reads:
        x = outputs[i] if is_output else inputs[i]
        saved.append((x._buffer.content, x._offset, x._spec) if isinstance(x, Proxy) else x)
    first = outputs[0]
    node = Node(call, rule, entries, saved, first._buffer.queue, type(first))
    for i, x in enumerate(outputs):
        x._entry = (node, i)


_record_hook.append(record_call)


class PythonNode:
    """A node whose gradient is a Python function: ``function(grads, create_graph)`` gives one proxy or None for each
    entry. Copies between devices, hybridized blocks and :class:`Function` use it."""
    __slots__ = ("function", "entries", "out_specs", "seq", "released", "name")

    def __init__(self, name, function, inputs, outputs):
        self.name, self.function = name, function
        self.entries = [x._entry if isinstance(x, Proxy) else None for x in inputs]
        self.out_specs = [y._spec for y in outputs]
        self.seq = next_seq()
        self.released = False
        for i, y in enumerate(outputs):
            y._entry = (self, i)

    def gradients(self, grads, slots, create_graph):
        """As :meth:`Node.gradients`."""
        if self.released:
            raise MXNetError(f"backward was already run through {self.name} and its saved arrays are released; use "
                             "backward(retain_graph=True) the first time")
        if all(g is None for g in grads):
            return [acc for _, acc in slots]
        results = self.function(grads, create_graph)
        return [acc if results[i] is None else results[i] if acc is None else F.add(acc, results[i])
                for i, acc in slots]

    def release(self):
        """Drop what was kept for the gradient."""
        self.function, self.released = None, True


# -- backward ------------------------------------------------------------------------------------------------------


def mark_variables(variables, gradients, grad_reqs="write"):
    """Attach ``gradients`` as the gradient buffers of ``variables`` (arrays or lists of arrays)."""
    if isinstance(variables, Proxy):
        variables, gradients = [variables], [gradients]
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(variables) == len(gradients) == len(reqs):
        raise ShapeError(f"{len(variables)} variables, {len(gradients)} gradients and {len(reqs)} grad_reqs given")
    for x, g, req in zip(variables, gradients, reqs):
        attach(x, g, req)


def attach(x, grad, req):
    """Make ``x`` a variable whose gradient goes to ``grad``; 'null' takes it off the tape."""
    if req not in ("write", "add", "null"):
        raise ArgumentError(f"grad_req must be 'write', 'add' or 'null', not {req!r}")
    x._entry = None if req == "null" else Leaf(grad, req, x._spec)


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _head_gradients(heads, head_grads):
    if head_grads is None:
        head_grads = [None] * len(heads)
    head_grads = _as_list(head_grads)
    if len(head_grads) != len(heads):
        raise ShapeError(f"{len(heads)} heads but {len(head_grads)} head gradients")
    result = []
    for head, g in zip(heads, head_grads):
        if head._entry is None:
            raise MXNetError("this array is not the result of a recorded computation: compute it inside "
                             "autograd.record(), from arrays with attach_grad()")
        if g is None:
            g = F.ones_like(head)
        elif g._spec.shape != head._spec.shape:
            raise ShapeError(f"head gradient of shape {g._spec.shape} for a head of shape {head._spec.shape}")
        elif g.device != head.device:
            raise device_mismatch("a head and its gradient", (head, g))
        elif g._spec.dtype != head._spec.dtype:
            g = F.cast(g, dtype=head._spec.dtype.name)
        result.append(g)
    return result


def _sweep(heads, head_grads, create_graph, wanted=()):
    """Run gradients through the tape. Returns ``{entry: gradient}`` of the leaves reached and the wanted entries."""
    found = {}                               # id(Leaf) or (id(node), output) -> [entry, gradient]
    nodes = {}                               # id(node) -> [node, gradient of each output]
    heap = []
    wanted_keys = {_key(e): e for e in wanted}

    def give(entry, gradient):
        """Store (not add) a gradient; gradients arrive here already added up."""
        if type(entry) is tuple:
            node, i = entry
            state = nodes.get(id(node))
            if state is None:
                state = nodes[id(node)] = [node, [None] * len(node.out_specs)]
                heapq.heappush(heap, (-node.seq, id(node)))
            if gradient is not None:
                state[1][i] = gradient
        else:
            found[id(entry)] = [entry, gradient]

    def present(entry):
        if type(entry) is tuple:
            state = nodes.get(id(entry[0]))
            return state[1][entry[1]] if state else None
        return found[id(entry)][1] if id(entry) in found else None

    for head, g in zip(heads, head_grads):
        acc = present(head._entry)
        give(head._entry, g if acc is None else F.add(acc, g))
    finished = []
    while heap:
        _, number = heapq.heappop(heap)
        node, grads = nodes.pop(number)
        finished.append(node)
        for i, g in enumerate(grads):
            key = (number, i)
            if key in wanted_keys:
                found[key] = [wanted_keys[key], g]
        slots, seen = [], {}
        for i, entry in enumerate(node.entries):
            if entry is not None:
                key = _key(entry)
                if key in seen:              # the same array twice: the second adds to what the first gives
                    seen[key].append(i)
                else:
                    seen[key] = [i]
                    slots.append((i, present(entry)))
        if not slots:
            continue
        if any(len(v) > 1 for v in seen.values()):
            results = _repeated(node, grads, slots, seen, create_graph)
        else:
            results = node.gradients(grads, slots, create_graph)
        for (i, _), g in zip(slots, results):
            give(node.entries[i], g)
    return found, finished


def _repeated(node, grads, slots, seen, create_graph):
    """Gradients of a node that has one array at several inputs: ask for each input and add."""
    every = [(i, None) for group in seen.values() for i in group]
    by_input = dict(zip([i for i, _ in every], node.gradients(grads, every, create_graph)))
    results = []
    for (_, acc), group in zip(slots, seen.values()):
        total = acc
        for j in group:
            g = by_input[j]
            total = g if total is None else total if g is None else F.add(total, g)
        results.append(total)
    return results


def _key(entry):
    return (id(entry[0]), entry[1]) if type(entry) is tuple else id(entry)


def backward(heads, head_grads=None, retain_graph=False, train_mode=True):
    """Compute the gradients of ``heads`` with regard to all variables they were computed from.

    ``head_grads``: gradient of each head (ones by default). A variable's ``grad`` is overwritten (grad_req 'write')
    or added to ('add'). Unless ``retain_graph``, what the tape keeps is released.
    """
    heads = _as_list(heads)
    now = scope()
    token = scope_var.set(Scope(False, train_mode, now.trace))
    try:
        found, finished = _sweep(heads, _head_gradients(heads, head_grads), False)
        for leaf, g in found.values():
            if isinstance(leaf, Leaf):
                _deliver(leaf, g)
        if not retain_graph:
            for node in finished:
                node.release()
    finally:
        scope_var.reset(token)


def _deliver(leaf, g):
    """Write a leaf's gradient to its buffer."""
    leaf.fresh = True
    target = materialised(leaf.grad)
    if g is None:
        g = F.zeros_like(target)
    if g._spec.dtype != target._spec.dtype:
        g = F.cast(g, dtype=target._spec.dtype.name)
    if leaf.req == "add":
        g = F.add(target, g)
    assign(target, g)


def assign(target, source):
    """Overwrite ``target`` by ``source`` (same shape and dtype, same device), poison included."""
    target, source = materialised(traced(target)), materialised(traced(source))
    queue = target._buffer.queue
    queue.check()
    if queue is not source._buffer.queue:
        source = copy_to(source, queue.device)
    code, instruction = where()
    queue.pending.append(((protocol.ASSIGN, source._wire(), writable_wire(target)), "assign", code,
                          instruction))
    queue.kick()


def grad(heads, variables, head_grads=None, retain_graph=None, create_graph=False, train_mode=True):
    """Gradients of ``heads`` with regard to ``variables`` (arrays with attach_grad, or results on the tape).

    With ``create_graph`` they are themselves recorded, for gradients of gradients. ``retain_graph`` defaults to
    ``create_graph``. Returns a list with an array for each variable, as MXNet does also for a single one.
    """
    heads = _as_list(heads)
    variables = _as_list(variables)
    if not variables:
        raise ArgumentError("variables cannot be an empty list")
    for v in variables:
        if v._entry is None:
            raise MXNetError("a variable passed to autograd.grad is not on the tape: call attach_grad() on it before "
                             "recording")
    now = scope()
    token = scope_var.set(Scope(create_graph, train_mode, now.trace))
    try:
        found, finished = _sweep(heads, _head_gradients(heads, head_grads), create_graph, [v._entry for v in variables])
        results = []
        for v in variables:
            g = found.get(_key(v._entry), [None, None])[1]
            g = F.zeros_like(v) if g is None else g
            if create_graph and g._entry is None:            # a constant: on the tape all the same, with no gradient
                g = type(g)(g._buffer, g._spec, g._offset)
                PythonNode("a constant gradient", lambda grads, create_graph: [None] * len(variables), variables, [g])
            results.append(g)
        if not (create_graph if retain_graph is None else retain_graph):
            for node in finished:
                node.release()
    finally:
        scope_var.reset(token)
    return results


def get_symbol(x):
    """MXNet returns the recorded graph as a Symbol; symbols are not part of this release, so this raises."""
    raise MXNetError("autograd.get_symbol needs mx.sym, which this release does not have")


# -- copies between devices ----------------------------------------------------------------------------------------


def copy_to(x, device):
    """``x`` on ``device``, always a new array; differentiable. The data goes from actor to actor."""
    from_queue = x._buffer.queue
    if from_queue.tracing:
        raise_if_other(from_queue, device)
        return F.copy(x)
    from_queue.check()
    queue = engine.queue(device)
    queue.check()
    if isinstance(from_queue, HostQueue):
        result = type(x)(Buffer(put(queue, from_queue.host, x._offset or 0, x._spec), queue), x._spec)
        queue.kick()
    elif from_queue is queue:
        return F.copy(x)
    else:
        result = transfer(x, from_queue, queue)
    if scope().recording and x._entry is not None:
        source = from_queue.device
        PythonNode("a copy between devices", lambda grads, create_graph: [copy_to(grads[0], source)], [x], [result])
    return result


def raise_if_other(trace, device):
    """A program runs on one device."""
    if device != trace.device:
        raise MXNetError(f"a hybridized block on {trace.device} cannot copy to {device}")


def transfer(x, source, queue):
    """Send ``x`` from device queue ``source`` to ``queue``."""
    source.check()
    tag = next_tag()
    content = Content(next_id(), queue.pending)
    source.push((protocol.SEND, x._wire(), str(queue.device), tag), "copy to " + str(queue.device))
    source.flush_fully()
    queue.push((protocol.RECEIVE, tag, content.id, str(source.device)), "copy from " + str(source.device))
    queue.copies += 1
    queue.big += x._spec.nbytes
    queue.flush()
    return type(x)(Buffer(content, queue), x._spec)


# -- user-defined functions ----------------------------------------------------------------------------------------


class Function:
    """A differentiable function given by its own ``forward`` and ``backward`` on arrays.

    Subclasses define ``forward(self, *inputs)`` and ``backward(self, *output_grads)``, which returns a gradient for
    each input; ``save_for_backward(...)`` keeps arrays in ``saved_tensors``. Call the instance once.
    """

    def __init__(self):
        self._used = False
        self.saved_tensors = ()

    def save_for_backward(self, *args):
        """Keep arrays for :meth:`backward`."""
        self.saved_tensors = args

    def forward(self, *inputs):
        """The function's value."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def backward(self, *output_grads):
        """The gradient of each input."""
        raise NotImplementedError(f"{type(self).__name__} does not define backward")

    def __call__(self, *inputs):
        if self._used:
            raise MXNetError("each Function instance can only be called once; create another for another call")
        self._used = True
        if scope().trace is not None:
            raise TraceError(f"{type(self).__name__} is a Function, which runs its own Python code at every call")
        recording = scope().recording
        with pause(train_mode=scope().training):
            outputs = self.forward(*inputs)
        if not recording:
            return outputs
        single = not isinstance(outputs, (tuple, list))
        # new proxies: forward may have returned an input itself, whose own place on the tape must stay
        results = [type(y)(y._buffer, y._spec, y._offset) for y in _as_list(outputs)]
        positions = [i for i, x in enumerate(inputs) if isinstance(x, Proxy)]

        def gradients(grads, create_graph):
            filled = [F.zeros_like(y) if g is None else g for g, y in zip(grads, results_kept)]
            with _Mode(create_graph, None):
                made = _as_list(self.backward(*filled))
            if len(made) != len(positions):
                raise MXNetError(f"{type(self).__name__}.backward gave {len(made)} gradients for {len(positions)} "
                                 "inputs")
            by_position = dict(zip(positions, made))
            return [by_position.get(i) for i in range(len(inputs))]

        results_kept = [type(y)(y._buffer, y._spec, y._offset) for y in results]
        if any(isinstance(x, Proxy) and x._entry is not None for x in inputs):
            PythonNode(type(self).__name__, gradients, inputs, results)
        return results[0] if single else type(outputs)(results)


