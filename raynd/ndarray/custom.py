"""Operators written in Python by users: CustomOp, CustomOpProp, register (``mx.operator``) and ``mx.nd.Custom``.

Their code runs on the driver at every call, over arrays on devices: its operators are sent like any others, and it
waits for nothing unless it reads values. A hybridized block with such an operator stays eager.
"""
from __future__ import annotations

import numpy

from ..autograd import PythonNode, pause
from ..dispatch import Buffer, F, Proxy, create, materialised, scope
from ..errors import ArgumentError, MXNetError, ShapeError, TraceError, dual
from ..ops import registry
from ..spec import as_dtype, as_shape
from .array import NDArray, ndarray
from .indexing import outputs_being_made
from .legacy import give

REGISTERED: dict[str, type] = {}


class CustomOp:
    """The computation of a custom operator; subclasses define :meth:`forward` and :meth:`backward`."""

    def forward(self, is_train, req, in_data, out_data, aux):
        """Compute ``out_data`` (lists of arrays), each by ``self.assign(out_data[i], req[i], value)``; ``aux`` may be
        written to."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        """Compute ``in_grad``; ``req[i]`` is 'null' for an input whose gradient nobody asked for. By default all are
        zero."""

    def assign(self, dst, req, src):
        """Write ``src`` to ``dst`` as ``req`` says: 'null' not at all, 'write' or 'inplace', 'add'."""
        if req not in ("null", "write", "inplace", "add"):
            raise ShapeError(f"req must be 'null', 'write', 'inplace' or 'add', not {req!r}")
        if req != "null":
            value = dst + src if req == "add" else src
            dst[... if isinstance(dst, ndarray) else slice(None)] = value


class CustomOpProp:
    """What there is to know of a custom operator before it runs: its arguments, its outputs' shapes and dtypes.

    The keyword arguments of the call reach the constructor as strings, as in MXNet. ``need_top_grad``: whether the
    gradient depends on that of the outputs (a loss says False); here it makes no difference, out_grad is always given.
    """

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def list_arguments(self):
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self):
        """Names of the auxiliary states: further inputs, after the arguments, that the operator may write to."""
        return []

    def infer_shape(self, in_shape):
        """Shapes of the inputs, outputs and (optional) auxiliary states, three lists, from those of the inputs. By
        default all outputs are as the first input."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type):
        """As :meth:`infer_shape` for dtypes."""
        return (in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states()))

    def infer_storage_type(self, in_stype):
        """As :meth:`infer_shape` for storage types, which are all 'default'."""
        _only_default(in_stype)
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())

    def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
        """The storage types of the gradient's arrays, which are all 'default'."""
        groups = ograd_stype, in_stype, out_stype, igrad_stype, aux_stype
        for group in groups:
            _only_default(group)
        return groups

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """The ids of the arrays that backward reads. MXNet frees the others early; here backward is given all."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        """The :class:`CustomOp` for inputs of these shapes and dtypes on the device ``ctx``."""
        raise NotImplementedError(f"{type(self).__name__} does not define create_operator")


def _only_default(stypes):
    for stype in stypes:
        if stype != "default":
            raise MXNetError(f"storage type {stype!r} is not available here; arrays are dense")


def register(reg_name):
    """Decorator of a :class:`CustomOpProp` class: ``mx.nd.Custom(..., op_type=reg_name)`` then uses it."""
    def do_register(prop_cls):
        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise ArgumentError(f"register({reg_name!r}) needs a subclass of CustomOpProp, not {prop_cls!r}")
        REGISTERED[reg_name] = prop_cls
        return prop_cls
    return do_register


# -- the call ------------------------------------------------------------------------------------------------------


def _arrays(op_type, names, data, options):
    """The input arrays in the order of ``names``: positional ones first, others by their names among ``options``, from
    which they are taken."""
    if len(data) > len(names):
        raise ArgumentError(f"{op_type} takes {len(names)} arrays ({', '.join(names)}), {len(data)} were given")
    found = dict(zip(names, data))
    for name in names[len(data):]:
        if isinstance(options.get(name), Proxy):
            found[name] = options.pop(name)
    missing = [name for name in names if name not in found]
    if missing:
        raise ArgumentError(f"{op_type} takes {len(names)} arrays ({', '.join(names)}); missing: {', '.join(missing)}")
    for name, x in found.items():
        if not isinstance(x, Proxy):
            raise ArgumentError(f"{op_type}: {name} must be an array, not {type(x).__name__}")
    return [found[name] for name in names]


def _three(result, what, counts):
    """An ``infer`` result as three lists, of which the last is optional."""
    result = [list(part) for part in result]
    result += [[]] if len(result) == 2 else []
    if len(result) != 3:
        raise ShapeError(f"{what} must return 2 or 3 lists, not {len(result)}")
    for part, count, kind in zip(result, counts, ("inputs", "outputs", "auxiliary states")):
        if len(part) != count:
            raise ShapeError(f"{what} returned {len(part)} {kind}, there are {count}")
    return result


def _plain(x):
    """``x`` off the tape; writes to it are writes to ``x``."""
    return type(x)(x._buffer, x._spec, x._offset)


def _kept(x):
    """What ``x`` is now: holding its content makes later writes leave it alone."""
    return type(x)(Buffer(materialised(x)._buffer.content, x._buffer.queue), x._spec, x._offset)


def _run(where, results, function, *args):
    """User code that makes ``results``; its errors become MXNetErrors too."""
    token = outputs_being_made.set(frozenset(id(y._buffer) for y in results))
    try:
        function(*args)
    except MXNetError:
        raise
    except Exception as error:
        raise dual(type(error))(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        outputs_being_made.reset(token)


def Custom(*data, op_type=None, out=None, name=None, **kwargs):
    """Call the custom operator registered as ``op_type``.

    ``data``: its inputs and auxiliary states, which may also be given by their names. Other keywords go to its
    CustomOpProp, as strings. Returns an array, or a list of them if there are several outputs. Differentiable once.
    """
    if not op_type:
        raise ArgumentError("Custom: op_type, the name of a registered operator, must be given")
    if op_type not in REGISTERED:
        raise MXNetError(f"Cannot find custom operator {op_type!r}; registered: "
                         + (", ".join(sorted(REGISTERED)) or "none"))
    if scope().trace is not None:
        raise TraceError(f"{op_type} is a custom operator, which runs its own Python code at every call")
    arrays = {k: v for k, v in kwargs.items() if isinstance(v, Proxy)}
    prop = REGISTERED[op_type](**{k: str(v) for k, v in kwargs.items() if k not in arrays})
    arguments, states = list(prop.list_arguments()), list(prop.list_auxiliary_states())
    inputs = _arrays(op_type, arguments + states, data, arrays)
    if arrays:
        raise ArgumentError(f"{op_type} has no argument {next(iter(arrays))!r}; it has {', '.join(arguments + states)}")
    counts = len(arguments), len(prop.list_outputs()), len(states)
    inputs, aux = inputs[:counts[0]], inputs[counts[0]:]
    shapes = _three(prop.infer_shape([list(x.shape) for x in inputs]), f"{op_type}.infer_shape", counts)
    types = _three(prop.infer_type([numpy.dtype(x.dtype).type for x in inputs]), f"{op_type}.infer_type", counts)
    for x, argument, shape in zip(inputs + aux, arguments + states, shapes[0] + shapes[2]):
        if x.shape != as_shape(shape):
            raise ShapeError(f"{op_type}: {argument} has shape {x.shape}, infer_shape says {tuple(shape)}")
    device = inputs[0].device if inputs else None
    cls = ndarray if any(isinstance(x, ndarray) for x in inputs) else NDArray
    outputs = [create(registry.get("zeros"), {"shape": as_shape(shape), "dtype": as_dtype(dtype).name}, device, cls)
               for shape, dtype in zip(shapes[1], types[1])]
    operator = prop.create_operator(device or outputs[0].device, shapes[0], types[0])
    plain, aux = [_plain(x) for x in inputs], [_plain(x) for x in aux]
    modes = scope()
    with pause(train_mode=modes.training):
        _run(f"{op_type}.forward", outputs, operator.forward, modes.training, ["write"] * len(outputs), plain, outputs,
             aux)
    results = [_plain(y) for y in outputs]
    if modes.recording and any(x._entry is not None for x in inputs):
        _record(op_type, operator, inputs, results, aux)
    if out is not None:
        targets = list(out) if isinstance(out, (list, tuple)) else [out]
        return [give(y, o) for y, o in zip(results, targets, strict=True)] if len(results) > 1 else give(results[0],
                                                                                                        targets[0])
    return results[0] if len(results) == 1 else results


def _record(op_type, operator, inputs, results, aux):
    """Put a call on the tape."""
    kept_in, kept_out = [_kept(x) for x in inputs], [_kept(y) for y in results]
    req = ["null" if x._entry is None else "write" for x in inputs]

    def gradients(grads, create_graph):
        if create_graph:
            raise MXNetError(f"{op_type} has no second-order gradient; create_graph=True cannot go through it")
        out_grad = [F.zeros_like(y) if g is None else g for g, y in zip(grads, kept_out)]
        in_grad = [F.zeros_like(x) for x in kept_in]
        with pause(train_mode=scope().training):
            _run(f"{op_type}.backward", in_grad, operator.backward, req, out_grad, [_plain(x) for x in kept_in],
                 [_plain(y) for y in kept_out], in_grad, aux)
        return [None if r == "null" else g for g, r in zip(in_grad, req)]

    PythonNode(op_type, gradients, inputs, results)
