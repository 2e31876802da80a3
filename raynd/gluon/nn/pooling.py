"""Pooling layers."""
from __future__ import annotations

from ... import numpy_extension as npx
from ..block import HybridBlock
from .convolution import as_tuple


class _Pooling(HybridBlock):
    """What all pooling layers share. ``strides`` None: those of the window."""
    _ndim, _kind, _layouts = None, None, ()

    def _set(self, pool_size, strides, padding, ceil_mode, layout, global_pool=False, count_include_pad=None):
        n = self._ndim
        assert layout in self._layouts, (f"Only {' and '.join(self._layouts)} layouts are valid for {n}D Pooling")
        pool_size = as_tuple(pool_size, n, "pool_size")
        strides = pool_size if strides is None else as_tuple(strides, n, "strides")
        self._kwargs = {"kernel": pool_size, "stride": strides,
                        "pad": as_tuple(padding, n, "padding"), "global_pool": global_pool, "pool_type": self._kind,
                        "layout": layout, "pooling_convention": "full" if ceil_mode else "valid"}
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self):
        return "pool"

    def forward(self, x):
        return npx.pooling(x, **self._kwargs)

    def __repr__(self):
        k = self._kwargs
        return (f"{type(self).__name__}(size={k['kernel']}, stride={k['stride']}, padding={k['pad']}, "
                f"ceil_mode={k['pooling_convention'] == 'full'}, global_pool={k['global_pool']}, "
                f"pool_type={k['pool_type']}, layout={k['layout']})")


_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class MaxPool1D(_Pooling):
    """The largest value of each window. ``ceil_mode``: windows may hang over the end."""
    _ndim, _kind, _layouts = 1, "max", _LAYOUTS[1]

    def __init__(self, pool_size=2, strides=None, padding=0, layout="NCW", ceil_mode=False, prefix=None, params=None):
        super().__init__(prefix, params)
        self._set(pool_size, strides, padding, ceil_mode, layout)


class MaxPool2D(_Pooling):
    """As :class:`MaxPool1D` over two axes."""
    _ndim, _kind, _layouts = 2, "max", _LAYOUTS[2]

    def __init__(self, pool_size=(2, 2), strides=None, padding=0, layout="NCHW", ceil_mode=False, prefix=None,
                 params=None):
        super().__init__(prefix, params)
        self._set(pool_size, strides, padding, ceil_mode, layout)


class MaxPool3D(_Pooling):
    """As :class:`MaxPool1D` over three axes."""
    _ndim, _kind, _layouts = 3, "max", _LAYOUTS[3]

    def __init__(self, pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, layout="NCDHW", prefix=None,
                 params=None):
        super().__init__(prefix, params)
        self._set(pool_size, strides, padding, ceil_mode, layout)


class AvgPool1D(_Pooling):
    """The mean of each window. ``count_include_pad``: padding counts as zeros."""
    _ndim, _kind, _layouts = 1, "avg", _LAYOUTS[1]

    def __init__(self, pool_size=2, strides=None, padding=0, layout="NCW", ceil_mode=False, count_include_pad=True,
                 prefix=None, params=None):
        super().__init__(prefix, params)
        self._set(pool_size, strides, padding, ceil_mode, layout, count_include_pad=count_include_pad)


class AvgPool2D(_Pooling):
    """As :class:`AvgPool1D` over two axes."""
    _ndim, _kind, _layouts = 2, "avg", _LAYOUTS[2]

    def __init__(self, pool_size=(2, 2), strides=None, padding=0, ceil_mode=False, layout="NCHW",
                 count_include_pad=True, prefix=None, params=None):
        super().__init__(prefix, params)
        self._set(pool_size, strides, padding, ceil_mode, layout, count_include_pad=count_include_pad)


class AvgPool3D(_Pooling):
    """As :class:`AvgPool1D` over three axes."""
    _ndim, _kind, _layouts = 3, "avg", _LAYOUTS[3]

    def __init__(self, pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, layout="NCDHW",
                 count_include_pad=True, prefix=None, params=None):
        super().__init__(prefix, params)
        self._set(pool_size, strides, padding, ceil_mode, layout, count_include_pad=count_include_pad)


class _GlobalPooling(_Pooling):
    """One window over all spatial axes, which are kept with size 1."""

    def __init__(self, layout=None, prefix=None, params=None):
        super().__init__(prefix, params)
        self._set(1, None, 0, True, layout or self._layouts[0], global_pool=True)


class GlobalMaxPool1D(_GlobalPooling):
    """The largest value over the spatial axis."""
    _ndim, _kind, _layouts = 1, "max", _LAYOUTS[1]


class GlobalMaxPool2D(_GlobalPooling):
    """The largest value over both spatial axes."""
    _ndim, _kind, _layouts = 2, "max", _LAYOUTS[2]


class GlobalMaxPool3D(_GlobalPooling):
    """The largest value over the three spatial axes."""
    _ndim, _kind, _layouts = 3, "max", _LAYOUTS[3]


class GlobalAvgPool1D(_GlobalPooling):
    """The mean over the spatial axis."""
    _ndim, _kind, _layouts = 1, "avg", _LAYOUTS[1]


class GlobalAvgPool2D(_GlobalPooling):
    """The mean over both spatial axes."""
    _ndim, _kind, _layouts = 2, "avg", _LAYOUTS[2]


class GlobalAvgPool3D(_GlobalPooling):
    """The mean over the three spatial axes."""
    _ndim, _kind, _layouts = 3, "avg", _LAYOUTS[3]
