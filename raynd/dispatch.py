"""From a call on proxies to a command on a device: buffers, the dispatch cache, operator calls, the tape's nodes.

A proxy is ``(Buffer, offset, spec)``. A :class:`Buffer` is a cell holding the :class:`Content` that is its present
value; a Content owns one id of the device's table and frees it when it dies. Views share the Buffer, so a write
through one is seen by all; what a tape has saved is the Content. A write to a Content that a tape holds first gives
the Buffer a new one (an ALIAS, copied only if need be), so gradients are always those of the recorded values.

:func:`invoke` is the hot path. Its key is the operator, attributes and input specs; a hit costs a dictionary lookup,
an id, an append and a proxy. All exceptional states (another device, a host array not yet sent, recording of a
program, a lost device) are arranged to miss in that lookup.
"""
from __future__ import annotations

import contextlib
import contextvars
import marshal
import secrets
import sys
import threading
from functools import cache
from typing import Any

import numpy

from . import protocol
from .device import as_device
from .engine import BIG, INTERNAL, Known, engine, next_id
from .errors import ArgumentError, DeviceError, MXNetError, ShapeError, ShutdownError, TraceError
from .ops import registry
from .spec import ArraySpec, as_dtype, dtype_name, encode_spec, same_kind_cast, spec

_getframe = sys._getframe
_getrefcount = sys.getrefcount
LIGHT = 4096                       # elements up to which an element-wise operator is not worth a message of its own


class Content:
    """One id of a device's table. Freed by appending the id to the queue's deque: no lock, no send."""
    __slots__ = ("id", "pending")

    def __init__(self, number, pending):
        self.id, self.pending = number, pending

    def __del__(self):
        self.pending.append(self.id)


class Buffer:
    """The cell that views share: the present :class:`Content`, and the queue of the device that holds it."""
    __slots__ = ("content", "queue")

    def __init__(self, content, queue):
        self.content, self.queue = content, queue


class Scope:
    """Modes of the running thread: recording a tape, training, and the program being traced. Immutable by custom:
    a context manager installs a changed copy."""
    __slots__ = ("recording", "training", "trace")

    def __init__(self, recording=False, training=False, trace=None):
        self.recording, self.training, self.trace = recording, training, trace


scope_var: contextvars.ContextVar = contextvars.ContextVar("raynd_scope")
_DEFAULT_SCOPE = Scope()


def scope() -> Scope:
    """The modes of this thread."""
    return scope_var.get(_DEFAULT_SCOPE)


@contextlib.contextmanager
def outside_trace():
    """Inside, nothing is recorded, neither on a tape nor as a program: for making parameters while a block is
    recorded."""
    token = scope_var.set(Scope(False, False, None))
    try:
        yield
    finally:
        scope_var.reset(token)


def traced(x):
    """``x``, or its stand-in where a program is being recorded on this thread: how a block's own arrays (parameters)
    become inputs of its program, and what it writes to them a part of it."""
    trace = scope().trace
    return x if trace is None or not isinstance(x, Proxy) or x._buffer.queue is trace else trace.capture(x)


class Proxy:
    """Base of both array classes. ``_offset`` is None for a whole buffer, else the first element of a view.
    ``_entry`` is where the value stands on the tape: None, ``(node, output)``, or a ``Leaf`` of autograd."""
    __slots__ = ("_buffer", "_offset", "_spec", "_entry", "__weakref__")

    def __init__(self, buffer, array_spec, offset=None):
        self._buffer = buffer
        self._offset = offset
        self._spec = array_spec
        self._entry = None

    def _wire(self):
        """The wire argument of this proxy."""
        number = self._buffer.content.id
        return number if self._offset is None else (number, self._offset, self._spec.shape)


class PlaceholderScalar:
    """A Python scalar while a program is recorded: it may be an operand, its value is not known."""
    __slots__ = ("id", "type", "trace")

    def __init__(self, number, scalar_type, trace):
        self.id, self.type, self.trace = number, scalar_type, trace

    def _refuse(self, *_):
        raise TraceError("the value of a Python scalar is not known while a program is recorded")

    __bool__ = __float__ = __int__ = __index__ = _refuse


class Call(Known):
    """A prepared call on the driver: operator, specs, attributes, and what its gradient needs (filled on demand)."""
    __slots__ = ("op", "in_specs", "out_specs", "attrs", "into", "nbytes", "big", "light", "single", "plans",
                 "mutates")

    def __init__(self, op, in_specs, out_specs, attrs, into, code):
        self.op, self.in_specs, self.out_specs = op, in_specs, out_specs
        self.attrs, self.into, self.code = attrs, into, code
        self.nbytes = sum(s.nbytes for s in out_specs)
        self.big = self.nbytes >= BIG
        self.light = op.bind is not None and all(s.size <= LIGHT for s in (*in_specs, *out_specs)
                                                 if isinstance(s, ArraySpec))
        self.single = len(out_specs) == 1
        self.plans = {}
        self.mutates = op.mutated(attrs)     # indices of the inputs this call updates

    def describe(self):
        """'multiply(float32[2, 3], float)' for messages."""
        args = [s.__name__ if isinstance(s, type) else repr(s) for s in self.in_specs]
        args += [f"{k}={v!r}" for k, v in self.attrs.items() if v is not None and k != "train"]
        return f"{self.op.name}({', '.join(args)})"

    def define(self, queue):
        """Make the device know this call (FIFO order makes it known before its first use)."""
        if self.code in queue.known:
            return
        if not queue.tracing:
            queue.push((protocol.PREPARE, self.code, self.op.name, tuple(encode_spec(s) for s in self.in_specs),
                        tuple(encode_spec(s) for s in self.out_specs), self.attrs,
                        None if self.into is None else tuple(d.name for d in self.into)), "prepare")
        queue.learn(self)


_CALLS: dict = {}                    # key -> Call, for all queues
_MAX_CALLS = 50000


def forget_calls():
    """Drop every cached call: a setting that ``infer`` rules read has changed."""
    _CALLS.clear()
    for queue in list(engine.queues.values()):
        queue.calls.clear()


# -- normalising ---------------------------------------------------------------------------------------------------

_PLAIN = (int, float, bool, str, type(None), complex)


def freeze(value):
    """An attribute value in canonical, hashable, picklable form: lists become tuples, dtypes their names, NumPy
    numbers Python ones."""
    t = type(value)
    if t in _PLAIN:
        return value
    if t is tuple or t is list:
        return tuple([freeze(v) for v in value])
    if isinstance(value, numpy.dtype):
        return dtype_name(value)
    if isinstance(value, type):
        return dtype_name(as_dtype(value))
    if isinstance(value, (numpy.bool_, numpy.integer, numpy.floating)):
        return value.item()
    if t is slice:
        return ("slice", freeze(value.start), freeze(value.stop), freeze(value.step))
    if isinstance(value, bytes):
        return value
    if isinstance(value, Proxy):
        raise ArgumentError("an array was given where the function takes a plain value")
    if hasattr(value, "dtype") and not hasattr(value, "__array__"):
        return as_dtype(value.dtype).name
    raise ArgumentError(f"{value!r} of type {t.__name__} is not accepted as an attribute")


def typed(value):
    """A hashable stand-in for ``value`` that tells types apart, since 1, 1.0 and True hash alike.

    For canonical attributes it is their serialised form, which also keeps 0.0 from -0.0 and equals itself for nan.
    Format version 2 is the last one that does not depend on reference counts.
    """
    try:
        return marshal.dumps(value, 2)
    except ValueError:                       # something that is no plain value
        return tuple([typed(v) for v in value]) if type(value) is tuple else value


_class_hook: list = []               # [np.ndarray], set by raynd.ndarray when it is imported


def array_class():
    """The class of arrays that operators without array inputs make: ``np.ndarray``."""
    return _class_hook[0]


_record_hook: list = []              # [function(call, inputs, outputs)], set by raynd.autograd


# -- the hot path --------------------------------------------------------------------------------------------------

_NO_ATTRS = ()
_get_scope = scope_var.get


def invoke(op, inputs, attrs=_NO_ATTRS):
    """Run operator ``op`` on ``inputs`` (proxies, Python scalars, or None for an absent optional one).

    ``attrs``: an empty tuple, or a dict of attributes in canonical form (see :func:`freeze`) with all of the
    operator's names. Returns a proxy, or a tuple of proxies, of the class of the first array.
    """
    key: Any = [op]
    wires = []
    queue: Any = None
    for x in inputs:
        if isinstance(x, Proxy):
            buffer = x._buffer
            if queue is None:
                queue = buffer.queue
                first = x
            elif buffer.queue is not queue:
                return invoke(op, align(op, inputs), attrs)
            key.append(x._spec)
            number = buffer.content.id
            wires.append(number if x._offset is None else (number, x._offset, x._spec.shape))
        else:
            key.append(type(x))
            wires.append((x,))
    if attrs:
        key.append(typed(tuple(attrs.values())))
    modes = _get_scope(_DEFAULT_SCOPE)
    if op.train:
        key.append(modes.training)
    key = tuple(key)
    if queue is None:
        raise ArgumentError(f"{op.name} needs at least one array among its arguments, got {inputs!r}")
    if modes.trace is not None and queue is not modes.trace:
        return invoke(op, [traced(x) for x in inputs], attrs)
    call = queue.calls.get(key)
    if call is None:
        ready = settle(op, inputs, queue)
        if ready is not None:
            return invoke(op, ready, attrs)
        call = prepare_call(op, inputs, attrs, queue, key, modes)
    if op.draws:
        wires.append(draw_wire(queue))
    if op.mutates:
        wires = mutable_wires(call, inputs, wires)
    frame: Any = _getframe(1)
    while INTERNAL[frame.f_code]:
        frame = frame.f_back
    pending = queue.pending
    cls = type(first)
    result: Any
    outputs: tuple
    if call.single:
        number = next_id()
        pending.append(((call.code, tuple(wires), number), call, frame.f_code, frame.f_lasti))
        result = cls(Buffer(Content(number, pending), queue), call.out_specs[0])
        outputs = (result,)
    else:
        numbers = tuple([next_id() for _ in call.out_specs])
        pending.append(((call.code, tuple(wires), numbers), call, frame.f_code, frame.f_lasti))
        result = outputs = tuple([cls(Buffer(Content(n, pending), queue), s)
                                  for n, s in zip(numbers, call.out_specs)])
    if modes.recording:
        for x in inputs:
            if isinstance(x, Proxy) and x._entry is not None:
                _record_hook[0](call, inputs, outputs)
                break
    if call.big:
        queue.big += call.nbytes
    if not queue.commands_outstanding or len(pending) >= queue.limit or queue.big:
        queue.kick()
    return result


def create(op, attrs, device=None, cls=None, inputs=()):
    """Run an operator without array inputs on ``device`` (None: the current one). ``inputs`` are Python scalars."""
    modes = scope()
    if modes.trace is not None and (device is None or as_device(device) == modes.trace.device):
        queue = modes.trace
    else:
        queue = engine.queue(as_device(device))
    queue.check()
    key = (op, *map(type, inputs), typed(tuple(attrs.values())), *([modes.training] if op.train else ()))
    call = queue.calls.get(key) or prepare_call(op, inputs, attrs, queue, key, modes)
    wires = [(x,) for x in inputs]
    if op.draws:
        wires.append(draw_wire(queue))
    return emit(queue, call, tuple(wires), cls or array_class())


def emit(queue, call, wires, cls):
    """Append a call whose outputs are new arrays; returns one proxy or a tuple."""
    frame: Any = _getframe(1)
    while INTERNAL[frame.f_code]:
        frame = frame.f_back
    pending = queue.pending
    numbers = [next_id() for _ in call.out_specs]
    pending.append(((call.code, wires, numbers[0] if call.single else tuple(numbers)), call, frame.f_code,
                    frame.f_lasti))
    outputs = tuple([cls(Buffer(Content(n, pending), queue), s) for n, s in zip(numbers, call.out_specs)])
    if call.big:
        queue.big += call.nbytes
    queue.kick()
    return outputs[0] if call.single else outputs


def invoke_into(op, inputs, attrs, targets, same_kind=False):
    """Run ``op`` and write its outputs to existing arrays (``out=``, ``+=``). Returns the targets.

    The result's shape must be the target's; its dtype is cast to the target's. ``same_kind`` refuses casts that lose
    the kind of number, such as float to int.
    """
    modes = scope()
    if modes.recording and any(isinstance(x, Proxy) and x._entry is not None for x in (*inputs, *targets)):
        raise MXNetError("Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd")
    given = targets
    if modes.trace is not None:
        inputs, targets = [traced(x) for x in inputs], [traced(t) for t in targets]
    array = next((x for x in inputs if isinstance(x, Proxy)), None)
    queue = (targets[0] if array is None else array)._buffer.queue
    inputs = settle(op, inputs, queue) or inputs
    targets = tuple(materialised(t) for t in targets)
    array = next((x for x in inputs if isinstance(x, Proxy)), None)
    queue = (targets[0] if array is None else array)._buffer.queue
    for x in (*inputs, *targets):
        if isinstance(x, Proxy) and x._buffer.queue is not queue:
            raise device_mismatch(op, [x for x in (*inputs, *targets) if isinstance(x, Proxy)])
    into = tuple([t._spec.dtype for t in targets])
    key = (op, "into", into, tuple([x._spec if isinstance(x, Proxy) else type(x) for x in inputs]),
           typed(tuple(attrs.values())) if attrs else (), modes.training if op.train else None)
    call = queue.calls.get(key) or prepare_call(op, inputs, attrs, queue, key, modes, into)
    for target, out in zip(targets, call.out_specs):
        if target._spec.shape != out.shape:
            raise ShapeError(f"out= of {op.name} has shape {target._spec.shape}, the result has shape {out.shape}")
        if same_kind and out.dtype != target._spec.dtype and not same_kind_cast(out.dtype, target._spec.dtype):
            raise ArgumentError(f"the result of {op.name} has dtype {out.dtype}, which cannot be written into an array "
                                f"of {target._spec.dtype} without losing its kind; use astype")
    wires = [wire_of(x) for x in inputs]
    if op.draws:
        wires.append(draw_wire(queue))
    code, instruction = where()
    outs = tuple([writable_wire(t) for t in targets])
    queue.pending.append(((call.code, tuple(wires), outs), call, code, instruction))
    if call.big:
        queue.big += call.nbytes
    queue.kick()
    return given


def where():
    """(code, instruction) of the user's frame."""
    frame: Any = _getframe(1)
    while frame is not None and INTERNAL[frame.f_code]:
        frame = frame.f_back
    return (frame.f_code, frame.f_lasti) if frame is not None else (None, 0)


def wire_of(x):
    """The wire argument of an input."""
    return x._wire() if isinstance(x, Proxy) else (x,)


# -- the slow path -------------------------------------------------------------------------------------------------


def prepare_call(op, inputs, attrs, queue, key, modes, into=None) -> Call:
    """Find or make the Call of ``key``, tell the device, and cache it in the queue."""
    queue.check()
    call = _CALLS.get(key)
    if call is None:
        in_specs = []
        for i, x in enumerate(inputs):
            if isinstance(x, Proxy):
                in_specs.append(x._spec)
            elif isinstance(x, PlaceholderScalar):
                in_specs.append(x.type)
            elif x is None and (op.variadic or op.inputs[i] in op.optional):
                in_specs.append(type(None))
            elif type(x) in (int, float, bool):
                in_specs.append(type(x))
            else:
                raise ArgumentError(f"{op.name}: argument {i + 1} must be an array or a number, "
                                    f"not {type(x).__name__}")
        try:
            out = op.infer(*[None if s is type(None) else s for s in in_specs], **dict(attrs or {}))
        except (MXNetError, TraceError):
            raise
        except AttributeError:
            if all(isinstance(s, ArraySpec) for s in in_specs):
                raise
            given = ", ".join(getattr(s, "__name__", repr(s)) for s in in_specs)
            raise ArgumentError(f"{op.name} needs arrays, got {given}") from None
        except (ValueError, TypeError, IndexError) as error:
            from .errors import dual
            raise dual(type(error))(f"{op.name}: {error}") from None
        if op.train:
            attrs = {**(attrs or {}), "train": modes.training}
        outs = () if out is None else (out,) if isinstance(out, ArraySpec) else tuple(out)
        call = Call(op, tuple(in_specs), outs, dict(attrs or {}), into, engine.next_code())
        if not any(isinstance(x, PlaceholderScalar) for x in inputs):
            if len(_CALLS) > _MAX_CALLS:
                _CALLS.clear()
            _CALLS[key] = call
    call.define(queue)
    if not any(isinstance(x, PlaceholderScalar) for x in inputs):
        if len(queue.calls) > _MAX_CALLS:
            queue.calls.clear()
        queue.calls[key] = call
    return call


def device_mismatch(op, arrays):
    """The error of arrays on different devices in one operator."""
    names = []
    for a in arrays:
        a._buffer.queue.check()              # an array of a run that was shut down is on no device
        name = str(a._buffer.queue.device)
        if name not in names:
            names.append(name)
    return DeviceError(f"{getattr(op, 'name', op)}: arrays on different devices: {' and '.join(names)}; bring them to "
                       f"one, for example x.to_device(mx.{names[0]})")


def align(op, inputs):
    """Inputs of more than one queue, brought to one if that is no copy between devices: host arrays not yet sent go
    to their device, arrays met while a program is recorded become inputs of it."""
    inputs = [materialised(x) if isinstance(x, Proxy) and not x._buffer.queue.tracing else x for x in inputs]
    arrays = [x for x in inputs if isinstance(x, Proxy)]
    trace = next((x._buffer.queue for x in arrays if x._buffer.queue.tracing), None)
    if trace is not None:
        inputs = [trace.capture(x) if isinstance(x, Proxy) and x._buffer.queue is not trace else x for x in inputs]
    arrays = [x for x in inputs if isinstance(x, Proxy)]
    if any(a._buffer.queue is not arrays[0]._buffer.queue for a in arrays):
        raise device_mismatch(op, arrays)
    return inputs


def settle(op, inputs, queue):
    """On a cache miss: inputs in a form that can be dispatched if they are not yet, else None."""
    changed = False
    result = []
    for x in inputs:
        if isinstance(x, Proxy):
            changed = changed or isinstance(x._buffer.queue, HostQueue)
            new = materialised(x)
        elif isinstance(x, (numpy.bool_, numpy.integer, numpy.floating)):
            new = x.item()
            changed = True
        elif isinstance(x, PlaceholderScalar) or x is None or type(x) in (int, float, bool):
            new = x
        elif isinstance(x, (int, float)):        # subclasses (enum members, numpy.float64) are plain numbers
            new = int(x) if isinstance(x, int) else float(x)
            changed = True
        else:
            new = x
        result.append(new)
    return result if changed else None


def materialised(x):
    """``x`` with its contents on their device: a staged host array is sent now."""
    buffer = x._buffer
    if isinstance(buffer.queue, HostQueue):
        buffer.queue.materialise(buffer)
    return x


class Draws:
    """The random state: one seed, and how many draws each device has made."""

    def __init__(self):
        self.seed, self.seeds, self.counters, self.lock = secrets.randbits(32), {}, {}, threading.Lock()
        self.fixed: contextvars.ContextVar = contextvars.ContextVar("raynd_fixed_draw", default=None)

    def take(self, device, count=1) -> tuple:
        """The operand of the next draw (or ``count`` draws) on ``device``: (seed, number of the first)."""
        fixed = self.fixed.get()
        if fixed is not None:
            return fixed
        with self.lock:
            number = self.counters.get(device, 0)
            self.counters[device] = number + count
            return self.seeds.get(device, self.seed), number

    @contextlib.contextmanager
    def forced(self, draw):
        """Inside, draws give ``draw`` (if not None): an operator that runs again gets the numbers it got before."""
        token = self.fixed.set(draw)
        try:
            yield
        finally:
            self.fixed.reset(token)

    def reset(self, seed, device=None):
        """Start counting draws anew from ``seed``, on all devices or on one."""
        with self.lock:
            if device is None:
                self.seed, self.seeds, self.counters = seed, {}, {}
            else:
                self.seeds[device] = seed
                self.counters.pop(device, None)


draws = Draws()


def draw_wire(queue):
    """The (seed, draw number) operand of a random operator."""
    return queue.draw() if queue.tracing else (draws.take(queue.device),)


def _references_unpinned():
    buffer = Buffer(Content(0, []), None)
    content = buffer.content
    return _getrefcount(content)


_UNPINNED = _references_unpinned()   # to a content that only its buffer and a local name hold; varies with the Python


def writable_wire(target):
    """The wire argument of an array about to be written. If a tape holds its contents they are left to the tape and
    the buffer gets new ones."""
    materialised(target)
    buffer = target._buffer
    content = buffer.content
    if _getrefcount(content) > _UNPINNED:
        queue = buffer.queue
        fresh = Content(next_id(), queue.pending)
        queue.push((protocol.ALIAS, content.id, fresh.id), "copy on write")
        buffer.content = fresh
    return target._wire()


def mutable_wires(call, inputs, wires):
    """Wires of a call that mutates some inputs."""
    wires = list(wires)
    for i in call.mutates:
        if isinstance(inputs[i], Proxy):
            wires[i] = writable_wire(inputs[i])
    return wires


# -- host arrays ---------------------------------------------------------------------------------------------------


class HostQueue:
    """Stands where a queue stands for a host array that is not on its device yet. Its cache is always empty, so the
    dispatcher takes the slow path, which sends the array first."""
    __slots__ = ("device", "host", "calls", "array_spec", "executor")

    tracing = False
    lost = None

    def __init__(self, device, host, array_spec):
        self.device, self.host, self.array_spec = device, host, array_spec
        self.calls, self.executor = {}, engine.executor

    def check(self):
        """Raise if the run that the array was made in has ended."""
        if engine.executor is not self.executor:
            raise ShutdownError("this array was made before mx.shutdown(); arrays made before it are gone")

    def materialise(self, buffer):
        """Send the array to its device; the buffer is an ordinary one from now on."""
        self.check()
        queue = engine.queue(self.device)
        with queue.lock:
            if buffer.queue is self:         # no other thread has done so
                buffer.content = put(queue, self.host, 0, self.array_spec)
                buffer.queue = queue


class _NoContent:
    """The content of a buffer whose array is still on the host."""
    id = None


NO_CONTENT = _NoContent()


def put(queue, host, offset, array_spec) -> Content:
    """Send ``array_spec.size`` elements of the staged bytes ``host`` from element ``offset`` on."""
    start = offset * array_spec.dtype.itemsize
    content = Content(next_id(), queue.pending)
    payload = queue.link.reference(host, start, array_spec.nbytes)
    queue.push((protocol.PUT, content.id, payload, array_spec.shape, array_spec.dtype.name), "put")
    queue.bytes += array_spec.nbytes
    queue.big += array_spec.nbytes
    return content


def stage(value, device, cls=None):
    """A proxy of a NumPy array: its bytes are copied now, and go to ``device`` when an operator first needs them."""
    value = numpy.asarray(value)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    array_spec = spec(value.shape, value.dtype)
    engine.queue(device).check()
    host = engine.executor.stage(value)
    return (cls or array_class())(Buffer(NO_CONTENT, HostQueue(device, host, array_spec)), array_spec)


# -- F: operators as functions, for vjp rules ----------------------------------------------------------------------


class _Functions:
    """``F.name(*arrays, **attrs)`` calls the operator ``name``. What vjp rules are written in."""

    def __getattr__(self, name):
        function = function_of(registry.get(name))
        setattr(self, name, function)
        return function


@cache
def function_of(op):
    """A plain function of an operator: arrays positionally, attributes positionally after them or by name."""
    count, names, defaults = len(op.inputs), op.attrs, op.defaults

    def function(*args, **kwargs):
        arrays: Any
        if op.variadic:
            arrays, rest = args, ()
        else:
            arrays, rest = list(args[:count]), args[count:]
            for name in op.inputs[len(arrays):]:
                arrays.append(kwargs.pop(name, None))
        attrs = dict(defaults)
        attrs.update(zip(names, rest))
        for name, value in kwargs.items():
            if name not in attrs:
                raise ArgumentError(f"{op.name}() got an unexpected argument {name!r}")
            attrs[name] = value
        for name, value in attrs.items():
            attrs[name] = freeze(value)
        if not arrays or (op.draws and not any(isinstance(x, Proxy) for x in arrays)):
            return create(op, attrs, inputs=arrays)
        return invoke(op, arrays, attrs)
    function.__name__ = op.name
    return function


F = _Functions()
