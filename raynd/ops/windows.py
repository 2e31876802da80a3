"""Sliding windows: sizes, padding and layouts that convolution and pooling share."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError

LAYOUTS = {"NCW": 1, "NWC": 1, "NCHW": 2, "NHWC": 2, "NCDHW": 3, "NDHWC": 3}
DEFAULT_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def per_axis(value, n, default, name, function):
    """``value`` as a tuple of ``n`` ints: a number is repeated, None and () are ``default`` for every axis."""
    if value is None or value == () or (default == 0 and type(value) is tuple and not any(value)):
        return (default,) * n            # also zeros for more axes than there are, as MXNet's own scripts pass them
    if isinstance(value, int):
        value = (value,) * n
    if len(value) != n or not all(isinstance(v, int) for v in value):
        raise ShapeError(f"{function}: {name} must have {n} integers, got {value!r}")
    low = 0 if default == 0 else 1
    if any(v < low for v in value):
        raise ShapeError(f"{function}: {name} must be at least {low}, got {value!r}")
    return tuple(value)


def channel_axis(layout, n, function):
    """The channel axis (1 or the last) of data with ``n`` window axes in ``layout`` (None: channels first)."""
    if layout is None:
        return 1
    if LAYOUTS.get(layout) != n:
        fitting = [name for name, k in LAYOUTS.items() if k == n]
        raise ArgumentError(f"{function}: layout must be one of {', '.join(fitting)} for {n}-D windows, not {layout!r}")
    return 1 if layout[1] == "C" else n + 1


def channels_first(xp, x, channels_last):
    """``x`` with axis 1 as its channel axis (a view)."""
    return xp.moveaxis(x, -1, 1) if channels_last else x


def channels_back(xp, x, channels_last):
    """The inverse of :func:`channels_first`, as an array of its own."""
    return xp.moveaxis(x, 1, -1).copy() if channels_last else x


def moved_shape(shape, channels_last):
    """The channels-first shape of channels-last data."""
    return (shape[0], shape[-1], *shape[1:-1]) if channels_last else shape


def moved_back(shape, channels_last):
    """The inverse of :func:`moved_shape`."""
    return (shape[0], *shape[2:], shape[1]) if channels_last else shape
