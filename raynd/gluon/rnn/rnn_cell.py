"""Recurrent cells: Elman, LSTM, GRU and projected LSTM, stacks of cells, and two directions."""
from __future__ import annotations

from ... import numpy as np, numpy_extension as npx
from ..block import _indent
from ..parameter import Parameter
from .modifier_cell import DropoutCell, ModifierCell, ResidualCell, VariationalDropoutCell, ZoneoutCell
from .recurrent import (
    MODIFIED,
    HybridRecurrentCell,
    RecurrentCell,
    as_list,
    backwards,
    formatted,
    infer_chain,
    masked,
    merged,
    states_for,
    time_steps,
)

__all__ = ["RecurrentCell", "HybridRecurrentCell", "RNNCell", "LSTMCell", "GRUCell", "SequentialRNNCell",
           "HybridSequentialRNNCell", "DropoutCell", "ModifierCell", "ZoneoutCell", "ResidualCell", "BidirectionalCell",
           "VariationalDropoutCell", "LSTMPCell"]


class _GatedCell(HybridRecurrentCell):
    """What the basic cells share: ``i2h_weight`` (gates * hidden, input), ``h2h_weight`` (gates * hidden, recurrent),
    and their biases."""
    _gates = 1

    def __init__(self, hidden_size, recurrent_size, input_size, initializers, prefix, params):
        super().__init__(prefix, params)
        self._hidden_size, self._recurrent_size, self._input_size = hidden_size, recurrent_size, input_size
        size = self._gates * hidden_size
        shapes = {"i2h_weight": (size, input_size), "h2h_weight": (size, recurrent_size), "i2h_bias": (size,),
                  "h2h_bias": (size,)}
        for (name, shape), init in zip(shapes.items(), initializers):
            setattr(self, name, Parameter(name, shape=shape, init=init, allow_deferred_init=True))

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, self._recurrent_size), "__layout__": "NC"}]

    def _projections(self, inputs, states):
        """The products with the input and with the recurrent state, biases added."""
        device = inputs.device
        size = self._gates * self._hidden_size
        i2h = npx.fully_connected(inputs, self.i2h_weight.data(device), self.i2h_bias.data(device), num_hidden=size,
                                  no_bias=False)
        h2h = npx.fully_connected(states[0].as_in_context(device), self.h2h_weight.data(device),
                                  self.h2h_bias.data(device), num_hidden=size, no_bias=False)
        return i2h, h2h

    def infer_shape(self, i, x, is_bidirect):
        size = x.shape[-1] if i == 0 else self._recurrent_size * (2 if is_bidirect else 1)
        self.i2h_weight.shape = (self._gates * self._hidden_size, size)

    def __repr__(self):
        shape = self.i2h_weight.shape
        return f"{type(self).__name__}({shape[1] if shape[1] else None} -> {shape[0]})"


class RNNCell(_GatedCell):
    """Elman's cell: ``h' = activation(W x + b + R h + b')``, where W is ``i2h_weight`` and R ``h2h_weight``.

    ``inputs`` (batch, input_size), one state (batch, hidden_size), the output is the new state. ``activation``: a name
    ('tanh', 'relu', ...), a block or a function. input_size 0: taken from the first input.
    """

    def __init__(self, hidden_size, activation="tanh", i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, prefix=None, params=None):
        super().__init__(hidden_size, hidden_size, input_size, (i2h_weight_initializer, h2h_weight_initializer,
                                                                i2h_bias_initializer, h2h_bias_initializer),
                         prefix, params)
        self._activation = activation

    def _alias(self):
        return "rnn"

    def forward(self, inputs, states):
        i2h, h2h = self._projections(inputs, states)
        output = self._get_activation(i2h + h2h, self._activation)
        return output, [output]

    def __repr__(self):
        return f"{super().__repr__()[:-1]}, {self._activation})"


class LSTMCell(_GatedCell):
    """Long short-term memory, Hochreiter and Schmidhuber 1997, with forget gates (Gers et al. 2000).

    With the four rows of ``W x + b + R h + b'`` called i, f, g, o and s the ``recurrent_activation``:
    ``c' = s(f) * c + s(i) * activation(g)``, ``h' = s(o) * activation(c')``. ``inputs`` (batch, input_size), states h
    and c, each (batch, hidden_size); the output is h'. input_size 0: taken from the first input.
    """
    _gates = 4

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, activation="tanh",
                 recurrent_activation="sigmoid", prefix=None, params=None):
        super().__init__(hidden_size, hidden_size, input_size, (i2h_weight_initializer, h2h_weight_initializer,
                                                                i2h_bias_initializer, h2h_bias_initializer),
                         prefix, params)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in (self._recurrent_size, self._hidden_size)]

    def _alias(self):
        return "lstm"

    def _step(self, inputs, states):
        """(hidden output, cell state)."""
        i2h, h2h = self._projections(inputs, states)
        gates = npx.slice_channel(i2h + h2h, num_outputs=4)
        i, f, o = (self._get_activation(gates[k], self._recurrent_activation) for k in (0, 1, 3))
        c = f * states[1].as_in_context(inputs.device) + i * self._get_activation(gates[2], self._activation)
        return o * self._get_activation(c, self._activation), c

    def forward(self, inputs, states):
        h, c = self._step(inputs, states)
        return h, [h, c]


class LSTMPCell(LSTMCell):
    """LSTM whose recurrent state and output are projected, Sak et al. 2014 (arXiv:1402.1128): as :class:`LSTMCell` with
    output ``r = h2r_weight h'``, which is also the recurrent state. States (batch, projection_size) and (batch,
    hidden_size)."""

    def __init__(self, hidden_size, projection_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 h2r_weight_initializer=None, i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0,
                 prefix=None, params=None):
        _GatedCell.__init__(self, hidden_size, projection_size, input_size,
                            (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                             h2h_bias_initializer), prefix, params)
        self._projection_size = projection_size
        self._activation, self._recurrent_activation = "tanh", "sigmoid"
        self.h2r_weight = Parameter("h2r_weight", shape=(projection_size, hidden_size), init=h2r_weight_initializer,
                                    allow_deferred_init=True)

    def _alias(self):
        return "lstmp"

    def forward(self, inputs, states):
        h, c = self._step(inputs, states)
        r = npx.fully_connected(h, self.h2r_weight.data(inputs.device), num_hidden=self._projection_size, no_bias=True)
        return r, [r, c]

    def __repr__(self):
        return f"{super().__repr__()[:-1]} -> {self._projection_size})"


class GRUCell(_GatedCell):
    """Gated recurrent unit, Cho et al. 2014, in cuDNN's form: the reset gate acts after the product.

    With rows r, z, n and s the ``recurrent_activation``: ``r = s(W x + R h)``, ``z = s(W x + R h)``,
    ``n = activation(W x + r * (R h))``, ``h' = (1 - z) * n + z * h``, each product with its bias. ``inputs`` (batch,
    input_size), one state (batch, hidden_size), the output is the new state. input_size 0: taken from the first input.
    """
    _gates = 3

    def __init__(self, hidden_size, i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", input_size=0, activation="tanh",
                 recurrent_activation="sigmoid", prefix=None, params=None):
        super().__init__(hidden_size, hidden_size, input_size, (i2h_weight_initializer, h2h_weight_initializer,
                                                                i2h_bias_initializer, h2h_bias_initializer),
                         prefix, params)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def _alias(self):
        return "gru"

    def forward(self, inputs, states):
        i2h, h2h = self._projections(inputs, states)
        i_r, i_z, i_n = npx.slice_channel(i2h, num_outputs=3)
        h_r, h_z, h_n = npx.slice_channel(h2h, num_outputs=3)
        r = self._get_activation(i_r + h_r, self._recurrent_activation)
        z = self._get_activation(i_z + h_z, self._recurrent_activation)
        n = self._get_activation(i_n + r * h_n, self._activation)
        output = n + z * (states[0].as_in_context(inputs.device) - n)
        return output, [output]


class _Stack:
    """Cells one after the other; the states are all cells' states in one list."""

    def add(self, cell):
        """Append a cell."""
        self.register_child(cell)

    @property
    def _layers(self):
        return [child() for child in self._children.values()]

    @property
    def can_step(self):
        return all(cell.can_step for cell in self._layers)

    def state_info(self, batch_size=0):
        return [info for cell in self._layers for info in cell.state_info(batch_size)]

    def begin_state(self, batch_size=0, func=np.zeros, **kwargs):
        """The states of all cells in one list; see :meth:`RecurrentCell.begin_state`."""
        assert not self._modified, MODIFIED
        return [s for cell in self._layers for s in cell.begin_state(batch_size=batch_size, func=func, **kwargs)]

    def _with_states(self, states):
        """Each cell with its part of the states."""
        at, infos = 0, [(cell, len(cell.state_info())) for cell in self._layers]
        assert len(states) == sum(n for _, n in infos), (
            f"{len(states)} states for cells that have {sum(n for _, n in infos)}")
        for cell, n in infos:
            yield cell, states[at:at + n]
            at += n

    def forward(self, inputs, states):
        assert self.can_step, "A BidirectionalCell cannot be stepped. Please use unroll"
        new_states = []
        for cell, part in self._with_states(states):
            inputs, part = cell(inputs, part)
            new_states.extend(part)
        return inputs, new_states

    def _unroll(self, length, inputs, begin_state, layout, merge_outputs, valid_length):
        states = states_for(self, begin_state, inputs, layout)
        last, new_states = len(self) - 1, []
        for i, (cell, part) in enumerate(self._with_states(states)):
            inputs, part = cell.unroll(length, inputs, begin_state=part, layout=layout,
                                       merge_outputs=merge_outputs if i == last else None, valid_length=valid_length)
            new_states.extend(part)
        return inputs, new_states

    def _output_shape(self, input_shape):
        for cell in self._layers:
            input_shape = cell._output_shape(input_shape)
        return input_shape

    def infer_shape(self, i, x, is_bidirect):
        """Set the shapes of all parameters for an input of the shape of ``x``."""
        infer_chain(self._layers, x)

    def __getitem__(self, i):
        return self._layers[i]

    def __len__(self):
        return len(self._children)

    def __repr__(self):
        lines = [f"({name}): {_indent(repr(child()), 2)}" for name, child in self._children.items()]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class SequentialRNNCell(_Stack, RecurrentCell):
    """Recurrent cells one after the other."""


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Hybrid recurrent cells one after the other."""


class BidirectionalCell(HybridRecurrentCell):
    """``l_cell`` over the sequence and ``r_cell`` over the reversed sequence, their outputs joined along the channel
    axis. It can only be unrolled. Schuster and Paliwal 1997."""
    can_step = False

    def __init__(self, l_cell, r_cell, output_prefix=None):      # the last named symbols in the 1.x line
        super().__init__()
        self.l_cell, self.r_cell = l_cell, r_cell

    def __call__(self, inputs, states):
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self):
        return f"{type(self).__name__}(forward={self.l_cell}, backward={self.r_cell})"

    def state_info(self, batch_size=0):
        return self.l_cell.state_info(batch_size) + self.r_cell.state_info(batch_size)

    def begin_state(self, batch_size=0, func=np.zeros, **kwargs):
        """The states of both cells in one list; see :meth:`RecurrentCell.begin_state`."""
        assert not self._modified, MODIFIED
        return [s for cell in (self.l_cell, self.r_cell)
                for s in cell.begin_state(batch_size=batch_size, func=func, **kwargs)]

    def _unroll(self, length, inputs, begin_state, layout, merge_outputs, valid_length):
        states = states_for(self, begin_state, inputs, layout)
        steps, count = time_steps(length, inputs, layout), len(self.l_cell.state_info())
        left, left_states = self.l_cell.unroll(length, steps, begin_state=states[:count], layout=layout,
                                               merge_outputs=merge_outputs, valid_length=valid_length)
        right, right_states = self.r_cell.unroll(length, backwards(steps, valid_length), begin_state=states[count:],
                                                 layout=layout, merge_outputs=False, valid_length=valid_length)
        right = backwards(right, valid_length)
        channel = layout.find("C")
        if isinstance(left, list):
            channel -= layout.find("T") < channel
            outputs = [np.concatenate(pair, axis=channel) for pair in zip(left, right)]
        else:
            outputs = np.concatenate([left, merged(right, layout)], axis=channel)
        return outputs, [*left_states, *right_states]

    def _output_shape(self, input_shape):
        left, right = self.l_cell._output_shape(input_shape), self.r_cell._output_shape(input_shape)
        axis = next((k for k in range(1, len(left)) if left[k] != right[k]), 1)
        return tuple(n + right[k] if k == axis else n for k, n in enumerate(left))

    def infer_shape(self, i, x, is_bidirect):
        self.l_cell.infer_shape(i, x, True)
        self.r_cell.infer_shape(i, x, True)


def dynamic_unroll(cell, inputs, begin_state, drop_inputs=0, drop_outputs=0, layout="TNC", valid_length=None):
    """Run ``cell`` over the sequence ``inputs``, one array in ``layout``, by single time steps.

    ``drop_inputs``, ``drop_outputs``: dropout rates, with one mask for all time steps. ``valid_length``: array
    (batch,); after its length a sequence's states do not change and its outputs are 0. Returns the outputs in
    ``layout`` and the states.
    """
    axis = layout.find("T")
    if drop_inputs:
        inputs = npx.dropout(inputs, p=drop_inputs, axes=(axis,))
    states, outputs = as_list(begin_state), []
    for t, x in enumerate(time_steps(None, inputs, layout)):
        output, new_states = cell(x, states)
        outputs.append(output)
        states = new_states if valid_length is None else [
            np.where((valid_length > t).reshape((-1,) + (1,) * (new.ndim - 1)), new, old.as_in_context(new.device))
            for new, old in zip(new_states, states)]
    outputs = formatted(outputs, layout, True)
    if drop_outputs:
        outputs = npx.dropout(outputs, p=drop_outputs, axes=(axis,))
    if valid_length is not None:
        outputs = masked(outputs, layout, valid_length)
    return outputs, states


