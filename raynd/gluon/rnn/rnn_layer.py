"""Recurrent layers over whole sequences: one operator for all layers, directions and time steps."""
from __future__ import annotations

import numpy

from ... import initializer, ndarray as nd, numpy as np, numpy_extension as npx
from ...errors import ArgumentError, ShapeError
from ...spec import is_float
from ..block import HybridBlock
from ..parameter import Parameter
from .recurrent import as_list, make_states

__all__ = ["RNN", "LSTM", "GRU"]

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


class _RNNLayer(HybridBlock):
    """What the layers share: the parameter ``rnn_param``, all weights and biases in one vector in the order of
    ``npx.rnn`` (``gluon.utils.split_rnn_params`` takes it apart), and the call.

    ``layer(inputs)`` gives the outputs; ``layer(inputs, states)`` the outputs and the new states. With
    ``use_sequence_length=True`` a third argument, array (batch,), gives the length of each sequence: outputs after it
    are 0, states are those at its end.
    """

    def __init__(self, hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                 h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, mode, projection_size,
                 h2r_weight_initializer, lstm_state_clip_min, lstm_state_clip_max, lstm_state_clip_nan, dtype,
                 use_sequence_length=False, prefix=None, params=None):
        super().__init__(prefix, params)
        assert layout in ("TNC", "NTC"), f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']"
        if mode not in _GATES:
            raise ArgumentError(f"activation must be 'relu' or 'tanh', not {mode.removeprefix('rnn_')!r}")
        self._hidden_size, self._projection_size = hidden_size, projection_size or None
        self._num_layers, self._mode, self._layout, self._dropout = num_layers, mode, layout, dropout
        self._dir, self._gates = 2 if bidirectional else 1, _GATES[mode]
        self._input_size, self._dtype, self._use_sequence_length = input_size, dtype, use_sequence_length
        self._clip = {"lstm_state_clip_min": lstm_state_clip_min, "lstm_state_clip_max": lstm_state_clip_max,
                      "lstm_state_clip_nan": lstm_state_clip_nan}
        init = initializer.RNNFused(
            mode, num_layers, hidden_size, bidirectional, projection_size,
            i2h_weight_initializer=i2h_weight_initializer, h2h_weight_initializer=h2h_weight_initializer,
            i2h_bias_initializer=i2h_bias_initializer, h2h_bias_initializer=h2h_bias_initializer,
            h2r_weight_initializer=h2r_weight_initializer)
        shape = (self._count(input_size) if input_size else -1,)
        self.rnn_param = Parameter("rnn_param", shape=shape, init=init, allow_deferred_init=True, dtype=dtype)

    def _count(self, input_size):
        """The number of parameters."""
        hidden, out = self._hidden_size, self._projection_size or self._hidden_size
        total = 0
        for layer in range(self._num_layers):
            size = self._dir * out if layer else input_size
            total += self._gates * hidden * (size + out + 2) + (out * hidden if self._projection_size else 0)
        return total * self._dir

    def infer_shape(self, inputs, *args):
        assert inputs.ndim == 3, (
            "Input data should be rank-3 tensor of dim [sequence length, batch size, input size]")
        self._input_size = inputs.shape[2]
        self.rnn_param.shape = (self._count(self._input_size),)

    def _adapt_loaded(self, arrays, prefix=""):
        """MXNet 1 saved the parts of ``rnn_param`` each by itself, as 'l0_i2h_weight' or '_unfused.0.i2h_weight' (with
        two directions '_unfused.0.l_cell.i2h_weight')."""
        names = []
        for what, kinds in (("weight", ("i2h", "h2h", "h2r") if self._projection_size else ("i2h", "h2h")),
                            ("bias", ("i2h", "h2h"))):
            for layer in range(self._num_layers):
                for d in "lr"[:self._dir]:
                    cell = f"{d}_cell." if self._dir == 2 else ""
                    names += [(f"{prefix}{d}{layer}_{kind}_{what}", f"{prefix}_unfused.{layer}.{cell}{kind}_{what}")
                              for kind in kinds]
        for form in zip(*names):
            if prefix + "rnn_param" not in arrays and all(name in arrays for name in form):
                parts = [arrays.pop(name) for name in form]
                arrays[prefix + "rnn_param"] = numpy.concatenate([numpy.asarray(p).reshape(-1) for p in parts])

    def cast(self, dtype):
        super().cast(dtype)
        self._dtype = dtype

    def state_info(self, batch_size=0):
        """For each state a dictionary: 'shape' (layers * directions, batch, size), '__layout__' and 'dtype'."""
        return [{"shape": (self._num_layers * self._dir, batch_size, self._projection_size or self._hidden_size),
                 "__layout__": "LNC", "dtype": self._dtype}]

    def begin_state(self, batch_size=0, func=np.zeros, **kwargs):
        """The states before the first time step: a list of ``func(shape=, dtype=, device=, **kwargs)``, by default
        zeros of the layer's dtype on the current device. ``device`` or ``ctx`` and ``dtype`` are given as keywords."""
        return make_states(self.state_info(batch_size), func, kwargs)

    def __call__(self, inputs, states=None, sequence_length=None):
        return super().__call__(inputs, None if states is None else as_list(states), sequence_length)

    def forward(self, inputs, states=None, sequence_length=None):
        device, batch = inputs.device, inputs.shape[self._layout.find("N")]
        bare = states is None
        if bare:
            dtype = inputs.dtype if is_float(inputs._spec.dtype) else self._dtype
            states = self.begin_state(batch, device=device, dtype=dtype,
                                      func=np.zeros if isinstance(inputs, np.ndarray) else nd.zeros)
        else:
            self._check_states(states, batch)
            states = [s.as_in_context(device) for s in states]
        if self._use_sequence_length:
            if sequence_length is None:
                raise ArgumentError(f"{type(self).__name__} with use_sequence_length=True needs sequence_length")
            sequence_length = sequence_length.as_in_context(device)
        elif sequence_length is not None:
            raise ArgumentError(f"{type(self).__name__} takes sequence_length only if made with "
                                "use_sequence_length=True")
        if self._layout == "NTC":
            inputs = np.swapaxes(inputs, 0, 1)
        outputs, *states = npx.rnn(
            inputs, self.rnn_param.data(device), states[0], states[1] if self._mode == "lstm" else None,
            sequence_length, use_sequence_length=self._use_sequence_length, state_size=self._hidden_size,
            projection_size=self._projection_size, num_layers=self._num_layers, bidirectional=self._dir == 2,
            p=self._dropout, state_outputs=True, mode=self._mode, **self._clip)
        if self._layout == "NTC":
            outputs = np.swapaxes(outputs, 0, 1)
        return outputs if bare else (outputs, states)

    def _check_states(self, states, batch):
        infos = self.state_info(batch)
        if len(states) != len(infos):
            raise ShapeError(f"{type(self).__name__} has {len(infos)} states, got {len(states)}")
        for state, info in zip(states, infos):
            if state.shape != info["shape"]:
                raise ShapeError(f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}.")

    def __repr__(self):
        parts = [f"{self._input_size or None} -> {self._hidden_size}", self._layout]
        if self._num_layers != 1:
            parts.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            parts.append(f"dropout={self._dropout}")
        if self._dir == 2:
            parts.append("bidirectional")
        return f"{type(self).__name__}({', '.join(parts)})"


class RNN(_RNNLayer):
    """Layers of Elman's network over a sequence: at each time step ``h' = activation(W x + b + R h + b')``.

    ``inputs``: (time, batch, input) in layout 'TNC', (batch, time, input) in 'NTC'. ``states``: one array (layers *
    directions, batch, hidden_size), zeros if absent. Outputs have hidden_size channels, twice that if
    ``bidirectional``. ``activation``: 'relu' or 'tanh'. ``dropout``: rate between layers in training. input_size 0:
    taken from the first input. Also: :class:`_RNNLayer`.
    """

    def __init__(self, hidden_size, num_layers=1, activation="relu", layout="TNC", dropout=0, bidirectional=False,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", input_size=0, dtype="float32", **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "rnn_" + activation, None,
                         None, None, None, False, dtype, **kwargs)


class LSTM(_RNNLayer):
    """Layers of long short-term memory over a sequence; the formulas of a time step are those of :class:`LSTMCell`.

    ``inputs``: (time, batch, input) in layout 'TNC', (batch, time, input) in 'NTC'. ``states``: h and c, each (layers *
    directions, batch, hidden_size), zeros if absent. With ``projection_size`` the output and h are projected to that
    size (:class:`LSTMPCell`). ``state_clip_min`` and ``state_clip_max`` bound c at each time step, and with
    ``state_clip_nan`` a NaN in it becomes the lower bound. ``dropout``: rate between layers in training. input_size 0:
    taken from the first input. Also: :class:`_RNNLayer`.
    """

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False, input_size=0,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", projection_size=None, h2r_weight_initializer=None, state_clip_min=None,
                 state_clip_max=None, state_clip_nan=False, dtype="float32", **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "lstm", projection_size,
                         h2r_weight_initializer, state_clip_min, state_clip_max, state_clip_nan, dtype, **kwargs)

    def state_info(self, batch_size=0):
        h = super().state_info(batch_size)[0]
        return [h, {**h, "shape": (*h["shape"][:2], self._hidden_size)}]


class GRU(_RNNLayer):
    """Layers of gated recurrent units over a sequence; the formulas of a time step are those of :class:`GRUCell`.

    ``inputs``: (time, batch, input) in layout 'TNC', (batch, time, input) in 'NTC'. ``states``: one array (layers *
    directions, batch, hidden_size), zeros if absent. Outputs have hidden_size channels, twice that if
    ``bidirectional``. ``dropout``: rate between layers in training. input_size 0: taken from the first input. Also:
    :class:`_RNNLayer`.
    """

    def __init__(self, hidden_size, num_layers=1, layout="TNC", dropout=0, bidirectional=False, input_size=0,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", dtype="float32", **kwargs):
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "gru", None, None, None,
                         None, False, dtype, **kwargs)
