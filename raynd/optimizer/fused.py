"""An optimizer's update of all parameters of a device as one command.

Where the operator ``multi_update`` has the optimizer's rule, that is called. Else the rule is recorded once for each
kind of update (class, fixed settings, specs of weights, gradients and states) as a program whose inputs are the arrays
and the numbers that change from step to step, so a new learning rate makes no new program. Weights and states are
inputs that the program gives new contents.
"""
from __future__ import annotations

from collections import OrderedDict

from .. import autograd
from ..dispatch import F, Scope, emit, invoke, materialised, scope_var, typed, writable_wire
from ..engine import engine
from ..errors import DeviceError
from ..ops import registry
from ..program import flatten, unflatten
from ..trace import Trace

MAX_PROGRAMS = 256
_programs: OrderedDict = OrderedDict()
_VARYING = ("lr", "wd", "rescale_grad", "num_update", "begin_num_update")


def _settings(optimizer):
    """The optimizer's plain attributes that are constants of its rule."""
    return tuple(sorted((k, typed(v)) for k, v in vars(optimizer).items()
                        if k not in _VARYING and type(v) in (int, float, bool, str, type(None))))


def run(optimizer, indices, weights, grads, states, numbers, masters):
    """Update ``weights`` by one command. ``numbers``: for each the tuple of changing numbers. ``masters``: whether its
    state is (float32 copy, state) and the copy is what the rule updates."""
    record_of = optimizer.record()
    if record_of is None:
        run_program(optimizer, indices, weights, grads, states, numbers, masters)
        return
    for master in sorted(set(masters)):
        chosen = [i for i, m in enumerate(masters) if m == master]
        run_record(optimizer, record_of, [weights[i] for i in chosen], [grads[i] for i in chosen],
                   [states[i] for i in chosen], [numbers[i] for i in chosen], master)


def run_record(optimizer, record_of, weights, grads, states, numbers, master):
    """Update by the operator ``multi_update``."""
    inputs = []
    for w, s in zip(weights, states):
        copy, s = s if master else (None, s)
        inputs += [w, *optimizer.record_states(s)]
        if master:
            inputs.append(copy)
    inputs += grads
    for n in numbers:
        inputs += optimizer.record_numbers(*n)
    clip = optimizer.clip_gradient
    invoke(registry.get("multi_update"), inputs,
           {"rule": record_of[0], "tensors": len(weights), "master": master,
            "settings": tuple(map(float, record_of[1])),
            "clip": float(clip) if clip is not None and clip > 0 else -1.0})


def run_program(optimizer, indices, weights, grads, states, numbers, masters):
    """Update by the recorded rule."""
    arrays, layout = [], []
    for i, w, g, s, n, m in zip(indices, weights, grads, states, numbers, masters):
        own = [w, g]
        structure = flatten(s, own)
        layout.append((structure, len(own), len(n), m, optimizer.special(i)))
        arrays += own
    queue = materialised(arrays[0])._buffer.queue
    for x in arrays:
        if materialised(x)._buffer.queue is not queue:
            raise DeviceError(f"the update of a parameter on {queue.device} met an array on {x._buffer.queue.device}")
    queue.check()
    key = (type(optimizer), _settings(optimizer), tuple(layout), tuple([x._spec for x in arrays]))
    program = _programs.get(key)
    if program is None:
        program = _programs[key] = record(optimizer, indices, states, arrays, numbers, layout)
        if len(_programs) > MAX_PROGRAMS:
            _programs.popitem(last=False)
    else:
        _programs.move_to_end(key)
    if program.code not in queue.known:
        program.define(queue)
    changed = set(program.mutates)
    wires = [writable_wire(x) if i in changed else x._wire() for i, x in enumerate(arrays)]
    wires += [(value,) for n in numbers for value in n]
    emit(queue, program, tuple(wires), type(arrays[0]))


def record(optimizer, indices, states, arrays, numbers, layout):
    """The program of an update."""
    trace = Trace(_AnyDevice())
    inner = [trace.array(x._spec, type(x)) for x in arrays]
    scalars = [trace.scalar(float) for n in numbers for _ in n]
    token = scope_var.set(Scope(False, False, trace))
    try:
        at, number_at = 0, 0
        for s, (_, count, number_count, master, special) in zip(states, layout):
            weight, grad = inner[at:at + 2]
            state = unflatten(s, iter(inner[at + 2:at + count]))
            given = scalars[number_at:number_at + number_count]
            if master:
                copy, state = state
                optimizer.rule(copy, F.cast(grad, dtype="float32"), state, special, *given)
                autograd.assign(weight, F.cast(copy, dtype=weight._spec.dtype.name))
            else:
                optimizer.rule(weight, grad, state, special, *given)
            at, number_at = at + count, number_at + number_count
    finally:
        scope_var.reset(token)
    return trace.program(f"{type(optimizer).__name__}.step", inner + scalars, [])


class _AnyDevice:
    """Stands for the device of a recording that is used on all devices."""

    def __repr__(self):
        return "any device"


engine.on_close.append(_programs.clear)
