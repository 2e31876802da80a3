"""Convolutional recurrent cells: convolutions in place of the products of the basic cells. Shi et al. 2015
(arXiv:1506.04214)."""
from __future__ import annotations

from ... import numpy_extension as npx
from ..nn.convolution import as_tuple
from ..parameter import Parameter
from .recurrent import HybridRecurrentCell

__all__ = ["Conv1DRNNCell", "Conv2DRNNCell", "Conv3DRNNCell", "Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell",
           "Conv1DGRUCell", "Conv2DGRUCell", "Conv3DGRUCell"]


class _ConvCell(HybridRecurrentCell):
    """What the cells share.

    ``input_shape``: that of an input without the batch, in ``conv_layout`` without its 'N'; an unknown number of
    channels is 0 or -1. ``hidden_channels``: channels of output and states. ``i2h_kernel``, ``i2h_pad``, ``i2h_dilate``
    and ``h2h_kernel`` (odd), ``h2h_dilate``: numbers or tuples for the convolutions of input and state; the latter is
    padded so that it keeps the state's shape. ``activation``: a name, a block or a function.
    """
    _gates, _states = 1, 1

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate,
                 initializers, conv_layout, activation, prefix, params):
        super().__init__(prefix, params)
        dims = len(conv_layout) - 2
        self._input_shape, self._hidden_channels = tuple(input_shape), hidden_channels
        self._conv_layout, self._activation = conv_layout, activation
        assert len(self._input_shape) == dims + 1, (
            f"input_shape {input_shape} must have {dims + 1} sizes for layout {conv_layout}, without the batch")
        self._i2h_kernel, self._h2h_kernel = (as_tuple(i2h_kernel, dims, "i2h_kernel"),
                                              as_tuple(h2h_kernel, dims, "h2h_kernel"))
        assert all(k % 2 == 1 for k in self._h2h_kernel), f"Only support odd number, get h2h_kernel= {h2h_kernel}"
        self._i2h_pad = as_tuple(i2h_pad, dims, "i2h_pad")
        self._i2h_dilate = as_tuple(i2h_dilate, dims, "i2h_dilate")
        self._h2h_dilate = as_tuple(h2h_dilate, dims, "h2h_dilate")
        self._h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel))
        self._channel_axis = conv_layout.find("C")
        self._state_shape = self._of_layout(hidden_channels, self._sizes())
        total = hidden_channels * self._gates
        shapes = {"i2h_weight": (total, *self._of_layout(self._input_shape[self._channel_axis - 1], self._i2h_kernel)),
                  "h2h_weight": (total, *self._of_layout(hidden_channels, self._h2h_kernel)),
                  "i2h_bias": (total,), "h2h_bias": (total,)}
        for (name, shape), init in zip(shapes.items(), initializers):
            setattr(self, name, Parameter(name, shape=shape, init=init, allow_deferred_init=True))

    def _of_layout(self, channels, sizes):
        """``channels`` and ``sizes`` in the order of the layout."""
        return (channels, *sizes) if self._channel_axis == 1 else (*sizes, channels)

    def _sizes(self):
        """Sizes of the state along the convolved axes."""
        at = self._channel_axis - 1
        sizes = self._input_shape[:at] + self._input_shape[at + 1:]
        return tuple(n + 2 * p - d * (k - 1) if n else 0 for n, p, d, k in zip(
            sizes, self._i2h_pad, self._i2h_dilate, self._i2h_kernel))

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout}
                for _ in range(self._states)]

    def _convolutions(self, inputs, states):
        """Those of the input and of the state, biases added."""
        device = inputs.device
        common = {"num_filter": self._hidden_channels * self._gates, "layout": self._conv_layout,
                  "stride": (1,) * len(self._i2h_kernel)}
        i2h = npx.convolution(inputs, self.i2h_weight.data(device), self.i2h_bias.data(device),
                              kernel=self._i2h_kernel, pad=self._i2h_pad, dilate=self._i2h_dilate, **common)
        h2h = npx.convolution(states[0].as_in_context(device), self.h2h_weight.data(device),
                              self.h2h_bias.data(device), kernel=self._h2h_kernel, pad=self._h2h_pad,
                              dilate=self._h2h_dilate, **common)
        return i2h, h2h

    def _parts(self, x):
        """The gates of ``x``."""
        return npx.slice_channel(x, num_outputs=self._gates, axis=self._channel_axis)

    def infer_shape(self, i, x, is_bidirect):
        """Set the number of input channels for an input of the shape of ``x``."""
        channels = x.shape[-len(self._conv_layout) + self._channel_axis:][0]
        self.i2h_weight.shape = (self.i2h_weight.shape[0], *self._of_layout(channels, self._i2h_kernel))

    def __repr__(self):
        shape = self.i2h_weight.shape
        channels = shape[self._channel_axis]
        return (f"{type(self).__name__}({channels if channels else None} -> {shape[0]}, {self._activation}, "
                f"{self._conv_layout})")


class _ConvRNN(_ConvCell):
    """``h' = activation(W * x + b + R * h + b')``, where ``*`` is convolution; one state, which is the output."""

    def _alias(self):
        return "conv_rnn"

    def forward(self, inputs, states):
        i2h, h2h = self._convolutions(inputs, states)
        output = self._get_activation(i2h + h2h, self._activation)
        return output, [output]


class _ConvLSTM(_ConvCell):
    """As :class:`~raynd.gluon.rnn.LSTMCell` with convolutions in place of products; states h and c."""
    _gates, _states = 4, 2

    def _alias(self):
        return "conv_lstm"

    def forward(self, inputs, states):
        i2h, h2h = self._convolutions(inputs, states)
        i, f, g, o = self._parts(i2h + h2h)
        c = npx.sigmoid(f) * states[1].as_in_context(inputs.device) + npx.sigmoid(i) * self._get_activation(
            g, self._activation)
        h = npx.sigmoid(o) * self._get_activation(c, self._activation)
        return h, [h, c]


class _ConvGRU(_ConvCell):
    """As :class:`~raynd.gluon.rnn.GRUCell` with convolutions in place of products; one state, which is the output."""
    _gates = 3

    def _alias(self):
        return "conv_gru"

    def forward(self, inputs, states):
        i2h, h2h = self._convolutions(inputs, states)
        (i_r, i_z, i_n), (h_r, h_z, h_n) = self._parts(i2h), self._parts(h2h)
        z = npx.sigmoid(i_z + h_z)
        n = self._get_activation(i_n + npx.sigmoid(i_r + h_r) * h_n, self._activation)
        output = n + z * (states[0].as_in_context(inputs.device) - n)
        return output, [output]


class _Conv1D(_ConvCell):
    """One convolved axis, layouts 'NCW' and 'NWC'."""

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad=(0,), i2h_dilate=(1,),
                 h2h_dilate=(1,), i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", conv_layout="NCW", activation="tanh",
                 prefix=None, params=None):
        super().__init__(input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate,
                         (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer),
                         conv_layout, activation, prefix, params)


class _Conv2D(_ConvCell):
    """Two convolved axes, layouts 'NCHW' and 'NHWC'."""

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad=(0, 0), i2h_dilate=(1, 1),
                 h2h_dilate=(1, 1), i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", conv_layout="NCHW", activation="tanh",
                 prefix=None, params=None):
        super().__init__(input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate,
                         (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer),
                         conv_layout, activation, prefix, params)


class _Conv3D(_ConvCell):
    """Three convolved axes, layouts 'NCDHW' and 'NDHWC'."""

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad=(0, 0, 0), i2h_dilate=(1, 1, 1),
                 h2h_dilate=(1, 1, 1), i2h_weight_initializer=None, h2h_weight_initializer=None,
                 i2h_bias_initializer="zeros", h2h_bias_initializer="zeros", conv_layout="NCDHW", activation="tanh",
                 prefix=None, params=None):
        super().__init__(input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate,
                         (i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer),
                         conv_layout, activation, prefix, params)


class Conv1DRNNCell(_ConvRNN, _Conv1D):
    __doc__ = f"{_ConvRNN.__doc__}\n\n{_Conv1D.__doc__} {_ConvCell.__doc__}"


class Conv2DRNNCell(_ConvRNN, _Conv2D):
    __doc__ = f"{_ConvRNN.__doc__}\n\n{_Conv2D.__doc__} {_ConvCell.__doc__}"


class Conv3DRNNCell(_ConvRNN, _Conv3D):
    __doc__ = f"{_ConvRNN.__doc__}\n\n{_Conv3D.__doc__} {_ConvCell.__doc__}"


class Conv1DLSTMCell(_ConvLSTM, _Conv1D):
    __doc__ = f"{_ConvLSTM.__doc__}\n\n{_Conv1D.__doc__} {_ConvCell.__doc__}"


class Conv2DLSTMCell(_ConvLSTM, _Conv2D):
    __doc__ = f"{_ConvLSTM.__doc__}\n\n{_Conv2D.__doc__} {_ConvCell.__doc__}"


class Conv3DLSTMCell(_ConvLSTM, _Conv3D):
    __doc__ = f"{_ConvLSTM.__doc__}\n\n{_Conv3D.__doc__} {_ConvCell.__doc__}"


class Conv1DGRUCell(_ConvGRU, _Conv1D):
    __doc__ = f"{_ConvGRU.__doc__}\n\n{_Conv1D.__doc__} {_ConvCell.__doc__}"


class Conv2DGRUCell(_ConvGRU, _Conv2D):
    __doc__ = f"{_ConvGRU.__doc__}\n\n{_Conv2D.__doc__} {_ConvCell.__doc__}"


class Conv3DGRUCell(_ConvGRU, _Conv3D):
    __doc__ = f"{_ConvGRU.__doc__}\n\n{_Conv3D.__doc__} {_ConvCell.__doc__}"
