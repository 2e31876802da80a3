"""Convolutions, their transposes, padding and pixel shuffling."""
from __future__ import annotations

from ... import numpy as np, numpy_extension as npx
from ..block import HybridBlock
from ..parameter import Parameter
from .activations import Activation


def as_tuple(value, length, name):
    """``value`` as a tuple of ``length`` ints: a number is repeated."""
    if isinstance(value, (list, tuple)):
        assert len(value) == length, f"{name} must be a number or a list of {length} ints"
        return tuple(value)
    return (value,) * length


class _Conv(HybridBlock):
    """What all convolutions share. ``layout`` gives the axes of data; weights have 'N' outputs and 'C' inputs in it."""
    _operator, _ndim, _layouts = "convolution", None, ()

    def __init__(self, channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias,
                 weight_initializer, bias_initializer, in_channels, prefix, params, output_padding=None):
        super().__init__(prefix, params)
        n = self._ndim
        assert layout in self._layouts, f"Only supports {' and '.join(map(repr, self._layouts))} layout for now"
        self._channels, self._in_channels, self._groups, self._layout = channels, in_channels, groups, layout
        self._kernel_size = as_tuple(kernel_size, n, "kernel_size")
        self._kwargs = {"kernel": self._kernel_size, "stride": as_tuple(strides, n, "strides"),
                        "dilate": as_tuple(dilation, n, "dilation"), "pad": as_tuple(padding, n, "padding"),
                        "num_filter": channels, "num_group": groups, "no_bias": not use_bias, "layout": layout}
        if output_padding is not None:
            self.outpad = as_tuple(output_padding, n, "output_padding")
            self._kwargs["adj"] = self.outpad
        self.weight = Parameter("weight", shape=self._weight_shape(in_channels), init=weight_initializer,
                                allow_deferred_init=True)
        self.bias = Parameter("bias", shape=(channels,), init=bias_initializer,
                              allow_deferred_init=True) if use_bias else None
        self.act = Activation(activation) if activation is not None else None

    def _alias(self):
        return "conv"

    def _weight_shape(self, in_channels):
        """The weight's shape; 0 for an unknown number of inputs."""
        outputs, inputs = ((self._channels, in_channels // self._groups) if self._operator == "convolution" else
                           (in_channels, self._channels // self._groups))
        sizes = iter(self._kernel_size)
        return tuple(outputs if axis == "N" else inputs if axis == "C" else next(sizes) for axis in self._layout)

    def infer_shape(self, x):
        self.weight.shape = self._weight_shape(x.shape[self._layout.find("C")])

    def forward(self, x):
        device = x.device
        arrays = [x, self.weight.data(device)]
        if self.bias is not None:
            arrays.append(self.bias.data(device))
        y = getattr(npx, self._operator)(*arrays, **self._kwargs)
        return y if self.act is None else self.act(y)

    def __repr__(self):
        k, n = self._kwargs, self._ndim
        shape = self.weight.shape
        ends = (shape[0], self._channels) if self._operator == "deconvolution" else (shape[1], shape[0])
        parts = [f"{ends[0] if ends[0] else None} -> {ends[1]}", f"kernel_size={k['kernel']}", f"stride={k['stride']}"]
        if k["pad"] != (0,) * n:
            parts.append(f"padding={k['pad']}")
        if k["dilate"] != (1,) * n:
            parts.append(f"dilation={k['dilate']}")
        if any(k.get("adj", ())):
            parts.append(f"output_padding={k['adj']}")
        if k["num_group"] != 1:
            parts.append(f"groups={k['num_group']}")
        if self.bias is None:
            parts.append("bias=False")
        if self.act:
            parts.append(str(self.act))
        return f"{type(self).__name__}({', '.join(parts)})"


class Conv1D(_Conv):
    """Convolution over one axis: (N, C, W) to (N, channels, W'), W' = floor((W + 2p - d(k - 1) - 1) / s) + 1."""
    _ndim, _layouts = 1, ("NCW",)

    def __init__(self, channels, kernel_size, strides=1, padding=0, dilation=1, groups=1, layout="NCW", activation=None,
                 use_bias=True, weight_initializer=None, bias_initializer="zeros", in_channels=0, prefix=None,
                 params=None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias,
                         weight_initializer, bias_initializer, in_channels, prefix, params)


class Conv2D(_Conv):
    """Convolution over two axes, 'NCHW' or 'NHWC'; sizes as in :class:`Conv1D`."""
    _ndim, _layouts = 2, ("NCHW", "NHWC")

    def __init__(self, channels, kernel_size, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, layout="NCHW",
                 activation=None, use_bias=True, weight_initializer=None, bias_initializer="zeros", in_channels=0,
                 prefix=None, params=None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias,
                         weight_initializer, bias_initializer, in_channels, prefix, params)


class Conv3D(_Conv):
    """Convolution over three axes, 'NCDHW' or 'NDHWC'; sizes as in :class:`Conv1D`."""
    _ndim, _layouts = 3, ("NCDHW", "NDHWC")

    def __init__(self, channels, kernel_size, strides=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), groups=1,
                 layout="NCDHW", activation=None, use_bias=True, weight_initializer=None, bias_initializer="zeros",
                 in_channels=0, prefix=None, params=None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias,
                         weight_initializer, bias_initializer, in_channels, prefix, params)


class Conv1DTranspose(_Conv):
    """The transpose of a convolution: W' = (W - 1) s - 2p + d(k - 1) + output_padding + 1."""
    _operator, _ndim, _layouts = "deconvolution", 1, ("NCW",)

    def __init__(self, channels, kernel_size, strides=1, padding=0, output_padding=0, dilation=1, groups=1,
                 layout="NCW", activation=None, use_bias=True, weight_initializer=None, bias_initializer="zeros",
                 in_channels=0, prefix=None, params=None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias,
                         weight_initializer, bias_initializer, in_channels, prefix, params, output_padding)


class Conv2DTranspose(_Conv):
    """The transpose of a convolution over two axes; sizes as in :class:`Conv1DTranspose`."""
    _operator, _ndim, _layouts = "deconvolution", 2, ("NCHW", "NHWC")

    def __init__(self, channels, kernel_size, strides=(1, 1), padding=(0, 0), output_padding=(0, 0), dilation=(1, 1),
                 groups=1, layout="NCHW", activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, prefix=None, params=None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias,
                         weight_initializer, bias_initializer, in_channels, prefix, params, output_padding)


class Conv3DTranspose(_Conv):
    """The transpose of a convolution over three axes; sizes as in :class:`Conv1DTranspose`."""
    _operator, _ndim, _layouts = "deconvolution", 3, ("NCDHW", "NDHWC")

    def __init__(self, channels, kernel_size, strides=(1, 1, 1), padding=(0, 0, 0), output_padding=(0, 0, 0),
                 dilation=(1, 1, 1), groups=1, layout="NCDHW", activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, prefix=None, params=None):
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias,
                         weight_initializer, bias_initializer, in_channels, prefix, params, output_padding)


class _Deformable(HybridBlock):
    """A convolution whose windows read where an ordinary convolution of the same data says."""
    _per_tap = None                          # channels of that convolution for each tap of the window

    def __init__(self, channels, kernel_size=(1, 1), strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1,
                 num_deformable_group=1, layout="NCHW", use_bias=True, in_channels=0, activation=None,
                 weight_initializer=None, bias_initializer="zeros", offset_weight_initializer="zeros",
                 offset_bias_initializer="zeros", offset_use_bias=True, op_name=None, adj=None, prefix=None,
                 params=None):
        super().__init__(prefix, params)
        if layout != "NCHW":
            raise ValueError(f"{type(self).__name__}: layout must be 'NCHW', not {layout!r}; transpose the data")
        if adj:
            raise ValueError(f"{type(self).__name__}: adj is for transposed convolutions only")
        self._channels, self._in_channels, self._groups = channels, in_channels, groups
        self._op_name = op_name or type(self).__name__
        self._kernel_size = kernel = as_tuple(kernel_size, 2, "kernel_size")
        self._taps = num_deformable_group * kernel[0] * kernel[1]
        self._offset_channels = self._per_tap * self._taps
        shared = {"kernel": kernel, "stride": as_tuple(strides, 2, "strides"), "layout": layout, "num_group": groups,
                  "dilate": as_tuple(dilation, 2, "dilation"), "pad": as_tuple(padding, 2, "padding")}
        self._kwargs_offset = {**shared, "num_filter": self._offset_channels, "no_bias": not offset_use_bias}
        self._kwargs_deformable_conv = {**shared, "num_filter": channels, "no_bias": not use_bias,
                                        "num_deformable_group": num_deformable_group}
        self.offset_weight = Parameter("offset_weight", shape=self.pre_infer_offset_weight(), allow_deferred_init=True,
                                       init=offset_weight_initializer)
        self.offset_bias = Parameter("offset_bias", shape=(self._offset_channels,), init=offset_bias_initializer,
                                     allow_deferred_init=True) if offset_use_bias else None
        self.deformable_conv_weight = Parameter("deformable_conv_weight", shape=self.pre_infer_weight(),
                                                init=weight_initializer, allow_deferred_init=True)
        self.deformable_conv_bias = Parameter("deformable_conv_bias", shape=(channels,), init=bias_initializer,
                                              allow_deferred_init=True) if use_bias else None
        self.act = Activation(activation) if activation else None

    def _inputs(self):
        """Inputs of each filter; 0 if unknown."""
        return self._in_channels // self._groups

    def pre_infer_offset_weight(self):
        """The shape of ``offset_weight``, 0 for an unknown number of inputs."""
        return (self._offset_channels, self._inputs(), *self._kernel_size)

    def pre_infer_weight(self):
        """The shape of ``deformable_conv_weight``, 0 for an unknown number of inputs."""
        return (self._channels, self._inputs(), *self._kernel_size)

    def infer_shape(self, x):
        self._in_channels = x.shape[1]
        self.offset_weight.shape = self.pre_infer_offset_weight()
        self.deformable_conv_weight.shape = self.pre_infer_weight()

    def _offset(self, x):
        bias = () if self.offset_bias is None else (self.offset_bias.data(x.device),)
        return npx.convolution(x, self.offset_weight.data(x.device), *bias, **self._kwargs_offset)

    def _convolve(self, function, x, *moved):
        bias = None if self.deformable_conv_bias is None else self.deformable_conv_bias.data(x.device)
        y = function(x, *moved, self.deformable_conv_weight.data(x.device), bias, **self._kwargs_deformable_conv)
        return y if self.act is None else self.act(y)


class DeformableConvolution(_Deformable):
    """Deformable convolution (Dai et al. 2017): (N, C, H, W) to (N, channels, H', W'), sizes as in :class:`Conv1D`.

    A convolution of the same geometry (``offset_weight``, ``offset_bias``; zero at first) gives by how many pixels each
    window moves each of its taps: one pair of offsets for each of ``num_deformable_group`` groups of channels.
    """
    _per_tap = 2

    def _alias(self):
        return "deformable_conv"

    def forward(self, x):
        return self._convolve(npx.deformable_convolution, x, self._offset(x))


class ModulatedDeformableConvolution(_Deformable):
    """Deformable convolution whose taps are weighted as well (Zhu et al. 2019): by twice the sigmoid of further
    channels of the offset's convolution. Arguments as for :class:`DeformableConvolution`."""
    _per_tap = 3

    def _alias(self):
        return "modulated_deformable_conv"

    def forward(self, x):
        offset = self._offset(x)
        mask = npx.sigmoid(npx.slice_axis(offset, axis=1, begin=2 * self._taps, end=None)) * 2
        return self._convolve(npx.modulated_deformable_convolution, x,
                              npx.slice_axis(offset, axis=1, begin=0, end=2 * self._taps), mask)


class ReflectionPad2D(HybridBlock):
    """Pads the last two axes of (N, C, H, W) by reflection. ``padding``: a number, or before and after for each of the
    four axes (8 numbers, those of N and C being 0)."""

    def __init__(self, padding=0, prefix=None, params=None):
        super().__init__(prefix, params)
        if isinstance(padding, int):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        assert len(padding) == 8, "padding must be a number or 8 numbers"
        self._padding = tuple(padding)

    def forward(self, x):
        p = self._padding
        return np.pad(x, tuple((p[i], p[i + 1]) for i in range(0, 8, 2)), mode="reflect")


class _PixelShuffle(HybridBlock):
    """Moves blocks of channels into the spatial axes."""
    _ndim = None

    def __init__(self, factor, prefix=None, params=None):
        super().__init__(prefix, params)
        self._factors = as_tuple(factor, self._ndim, "factor")

    def forward(self, x):
        n, c, *sizes = x.shape
        f = self._factors
        out = c
        for k in f:
            out //= k
        k = len(f)
        x = np.reshape(x, (n, out, *f, *sizes))
        order = [0, 1]
        for i in range(k):
            order += [2 + k + i, 2 + i]
        x = np.transpose(x, tuple(order))
        return np.reshape(x, (n, out, *[s * m for s, m in zip(sizes, f)]))

    def __repr__(self):
        return f"{type(self).__name__}({self._factors[0] if self._ndim == 1 else self._factors})"


class PixelShuffle1D(_PixelShuffle):
    """(N, f C, W) to (N, C, f W). Shi et al. 2016, for one axis."""
    _ndim = 1


class PixelShuffle2D(_PixelShuffle):
    """(N, f1 f2 C, H, W) to (N, C, f1 H, f2 W). Shi et al. 2016."""
    _ndim = 2


class PixelShuffle3D(_PixelShuffle):
    """(N, f1 f2 f3 C, D, H, W) to (N, C, f1 D, f2 H, f3 W)."""
    _ndim = 3
