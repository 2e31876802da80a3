"""The base of recurrent cells, and sequences as they come: one array with a time axis, or a list of arrays."""
from __future__ import annotations

import inspect
from contextlib import nullcontext

from ... import ndarray as nd, numpy as np, numpy_extension as npx
from ...device import as_device
from ...dispatch import Proxy, scope
from ...errors import ArgumentError
from ...spec import is_float
from ..block import Block, HybridBlock
from ..nn import LeakyReLU
from ..utils import shape_is_known

MODIFIED = ("After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called directly. Call the "
            "modifier cell instead.")


# -- sequences -----------------------------------------------------------------------------------------------------


def time_steps(length, inputs, layout):
    """A sequence as a list of arrays, each without the time axis."""
    check_sequence(length, inputs, layout)
    if isinstance(inputs, Proxy):
        axis = layout.find("T")
        return as_list(npx.slice_channel(inputs, num_outputs=inputs.shape[axis], axis=axis, squeeze_axis=True))
    return list(inputs)


def check_sequence(length, inputs, layout):
    """Refuse what is not a sequence of ``length`` steps."""
    assert inputs is not None, "unroll(inputs=None) is not possible: give an array or a list of arrays."
    assert "T" in layout and "N" in layout, f"layout {layout!r} must have a time axis T and a batch axis N"
    if isinstance(inputs, Proxy):
        assert inputs.ndim > layout.find("T") and length in (None, inputs.shape[layout.find("T")]), (
            f"unroll of {length} steps: inputs of shape {inputs.shape} have other sizes in layout {layout}")
        return
    assert isinstance(inputs, (list, tuple)) and inputs and all(isinstance(x, Proxy) for x in inputs), (
        "inputs must be an array or a list of arrays")
    assert length in (None, len(inputs)), f"unroll of {length} steps: inputs has {len(inputs)}"


def merged(sequence, layout):
    """A sequence as one array."""
    return sequence if isinstance(sequence, Proxy) else np.stack(sequence, axis=layout.find("T"))


def formatted(sequence, layout, merge):
    """``sequence`` as one array (``merge`` True), as a list of arrays (False), or as it is (None)."""
    if merge is None:
        return sequence
    return merged(sequence, layout) if merge else time_steps(None, sequence, layout)


def masked(sequence, layout, valid_length):
    """``sequence``, as one array, with zeros after the end of each."""
    return npx.sequence_mask(merged(sequence, layout), sequence_length=valid_length, use_sequence_length=True,
                             axis=layout.find("T"))


def backwards(steps, valid_length=None):
    """A list of time steps in reverse order; with ``valid_length`` each sequence is turned round within its length."""
    if valid_length is None:
        return list(reversed(steps))
    turned = npx.sequence_reverse(np.stack(steps, axis=0), sequence_length=valid_length, use_sequence_length=True)
    return as_list(npx.slice_channel(turned, axis=0, num_outputs=len(steps), squeeze_axis=True))


def as_list(value):
    """A list from a list, a tuple or a single array."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def first_array(inputs):
    """The array, or the first of the list."""
    return inputs if isinstance(inputs, Proxy) else inputs[0]


def batch_size(inputs, layout):
    """The number of sequences."""
    return inputs.shape[layout.find("N")] if isinstance(inputs, Proxy) else inputs[0].shape[0]


# -- states --------------------------------------------------------------------------------------------------------


def make_states(infos, func, kwargs):
    """States by their descriptions: ``func(shape=, dtype=, device=, **kwargs)`` for each. ``kwargs`` take precedence
    over what the descriptions say; ``ctx`` is another name of ``device``, by default the current one."""
    kwargs = dict(kwargs)
    ctx, device = kwargs.pop("ctx", None), kwargs.pop("device", None)
    if ctx is not None and device is not None:
        raise ArgumentError("begin_state: give device= or ctx=, not both")
    device = device if ctx is None else ctx
    names = ("ctx",) if func is nd.zeros else ("device",) if func is np.zeros else _parameters(func)
    if device is not None:
        kwargs.update({name: device for name in ("device", "ctx") if name in names[:1]})
    states = []
    with as_device(device) if device is not None else nullcontext():
        for info in infos:
            states.append(func(**{"shape": info.get("shape", ()), "dtype": info.get("dtype", "float32"), **kwargs}))
    return states


def _parameters(func):
    """Which of the names for a device ``func`` takes, the preferred one first."""
    try:
        parameters = inspect.signature(func).parameters
    except (TypeError, ValueError):          # a function without a readable signature
        return ()
    return tuple(name for name in ("device", "ctx") if name in parameters)


def states_for(cell, begin_state, inputs, layout):
    """``begin_state``, on the inputs' device; None: the cell's zero states, of the inputs' class, float dtype and
    device."""
    x = first_array(inputs)
    if begin_state is not None:
        return [s.as_in_context(x.device) for s in begin_state]
    kwargs = {"dtype": x.dtype} if is_float(x._spec.dtype) else {}
    return cell.begin_state(batch_size=batch_size(inputs, layout), device=x.device,
                            func=np.zeros if isinstance(x, np.ndarray) else nd.zeros, **kwargs)


class Shape:
    """Stands for the output of a cell in ``infer_shape``."""

    def __init__(self, shape):
        self.shape, self.ndim = tuple(shape), len(shape)


def infer_chain(cells, x):
    """``infer_shape`` of cells that follow each other, from the input of the first."""
    for cell in cells:
        if hasattr(cell, "infer_shape"):
            cell.infer_shape(0, x, False)
        x = Shape(cell._output_shape(x.shape))


# -- the base ------------------------------------------------------------------------------------------------------


class RecurrentCell(Block):
    """Base of recurrent cells: ``output, new_states = cell(input, states)`` is one time step.

    ``input``: (batch, ...). ``states``: a list of arrays as :meth:`state_info` says. A subclass defines ``state_info``
    and ``forward(self, inputs, states)``. ``prefix`` and ``params`` are those of :class:`~raynd.gluon.Block`.
    """
    can_step = True            # whether a single time step is possible

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix, params)
        self._modified = False
        self.reset()

    def reset(self):
        """Forget what the cell keeps between time steps, before a new sequence."""
        for child in self._children.values():
            if isinstance(child(), RecurrentCell):
                child().reset()

    def state_info(self, batch_size=0):
        """For each state a dictionary with its 'shape' and '__layout__'."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    def begin_state(self, batch_size=0, func=np.zeros, **kwargs):
        """The states before the first time step: a list.

        ``func(shape=, dtype=, device=, **kwargs)`` makes each; by default they are float32 zeros on the current
        device. ``dtype``, ``device`` (or ``ctx``) and whatever else ``func`` takes are given as keywords.
        """
        assert not self._modified, MODIFIED
        return make_states(self.state_info(batch_size), func, kwargs)

    def _output_shape(self, input_shape):
        """The shape of the output of a time step, from that of the input: as the first state's."""
        infos = self.state_info(input_shape[0])
        return tuple(infos[0]["shape"]) if infos else tuple(input_shape)

    def __call__(self, inputs, states, *args):
        return super().__call__(inputs, as_list(states), *args)

    def unroll(self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None, valid_length=None):
        """Run the cell over a sequence of ``length`` time steps.

        ``inputs``: one array in ``layout`` ('NTC': batch, time, ...; 'TNC': time, batch, ...), or a list of arrays
        (batch, ...). ``begin_state``: the states before, by default zeros. ``valid_length``: array (batch,), the length
        of each sequence, at most ``length``; after it outputs are 0, and the states returned are those at its end.
        Returns the outputs, as one array (``merge_outputs`` True) or a list (False; None: whichever is at hand), and
        the states, a list. A hybridized cell does all of it as one program.
        """
        check_sequence(length, inputs, layout)
        if valid_length is not None:
            device = first_array(inputs).device
            valid_length = (valid_length.as_in_context(device) if isinstance(valid_length, Proxy) else
                            np.array(valid_length, device=device))
        begin_state = None if begin_state is None else as_list(begin_state)

        def run(inputs, begin_state, valid_length):
            self.reset()
            result = self._unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
            if scope().trace is not None:    # nothing of a recording may be met after it
                self.reset()
            return result

        if getattr(self, "_active", False) and scope().trace is None:
            return self._run_program(run, (inputs, begin_state, valid_length),
                                     ("unroll", length, layout, merge_outputs))
        return run(inputs, begin_state, valid_length)

    def _unroll(self, length, inputs, begin_state, layout, merge_outputs, valid_length):
        """:meth:`unroll` of checked arguments."""
        states = begin = states_for(self, begin_state, inputs, layout)
        outputs, history = [], [begin]
        for x in time_steps(length, inputs, layout):
            output, states = self(x, states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:         # the states after n steps, n from 0, are the n-th of the history
            states = [npx.sequence_last(np.stack(each, axis=0), sequence_length=valid_length + 1,
                                        use_sequence_length=True, axis=0) for each in zip(*history)]
            outputs = masked(outputs, layout, valid_length)
        return formatted(outputs, layout, merge_outputs), states

    def _get_activation(self, *args, **kwargs):
        """``_get_activation(inputs, activation)``: apply an activation given by name, as a block or as a function. (A
        namespace before these, as in the 1.x line, is not needed.)"""
        inputs, activation = args[-2:]
        if isinstance(activation, str):
            return npx.activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return npx.leaky_relu(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """Base of recurrent cells that can be hybridized. In the way of the 1.x line a subclass may define
    ``hybrid_forward(self, F, inputs, states, **params)``."""

    def infer_shape(self, i, x, is_bidirect):
        """Set the shapes of the parameters for an input of the shape of ``x``.

        ``i``: the number of the layer. 0: ``x`` is its input; else its input is the output of a layer like it, in
        both directions if ``is_bidirect``.
        """
        HybridBlock.infer_shape(self, x)

    def _settle(self, args):
        if not all(shape_is_known(p._shape) for p in self._reg_params.values()):
            self.infer_shape(0, args[0], False)
        super()._settle(args)
