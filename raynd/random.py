"""Seeding, and :func:`sample`, through which every namespace draws. ``mx.random.uniform`` and the rest are those of
``mx.nd.random``; they are found here on first use."""
from __future__ import annotations

import functools
import importlib

import numpy

from .device import Device
from .dispatch import F, PlaceholderScalar, Proxy, create, draws, freeze, invoke, invoke_into, stage
from .errors import ArgumentError
from .ops import registry
from .ops.elementwise import default_float
from .ops.random import FAMILIES, sample_shape
from .spec import as_dtype, as_shape


def seed(seed_state, device="all", ctx=None):
    """Seed the generators of all devices, or of one. Equal seeds give equal numbers in every mode."""
    device = ctx if ctx is not None else device
    try:
        value = int(seed_state.__index__())
    except AttributeError:
        raise ArgumentError(f"the seed must be an integer, not {seed_state!r}") from None
    if device == "all":
        draws.reset(value)
    elif isinstance(device, Device):
        draws.reset(value, device)
    else:
        raise ArgumentError(f"device must be 'all' or a Device, not {device!r}")


def accepts_ctx(function):
    """Let a function with ``device=`` be called with MXNet 1's ``ctx=`` too."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        if "ctx" in kwargs:
            ctx = kwargs.pop("ctx")
            if kwargs.get("device") is not None and ctx is not None:
                raise ArgumentError(f"{function.__name__}: give device= or ctx=, not both")
            if ctx is not None:
                kwargs["device"] = ctx
        return function(*args, **kwargs)
    return call


def as_parameter(value, name, like=None):
    """A distribution's parameter: a number, or an array (lists and NumPy arrays become one)."""
    if isinstance(value, (Proxy, PlaceholderScalar)) or type(value) in (int, float, bool):
        return value
    if isinstance(value, (numpy.bool_, numpy.integer, numpy.floating)):
        return value.item()
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, (list, tuple, numpy.ndarray)):
        values = numpy.asarray(value)
        if values.dtype.kind in "biuf":
            return stage(values.astype(default_float()), None if like is None else like._buffer.queue.device,
                         None if like is None else type(like))
    raise ArgumentError(f"{name}: a parameter must be a number or an array, not {value!r}")


def sample(name, params, shape=None, dtype=None, device=None, cls=None, out=None):
    """Draw from the distribution ``name`` (a record ``random_<name>``).

    ``params`` are numbers or arrays, broadcast to ``shape`` (default: their common shape). The result has ``dtype``
    (default: the default float), or goes to ``out``, whose shape and dtype are then the defaults.
    """
    like = next((p for p in params if isinstance(p, Proxy)), None)
    params = [as_parameter(p, name, like) for p in params]
    like = next((p for p in params if isinstance(p, Proxy)), None)
    if out is not None:
        if not isinstance(out, Proxy):
            raise ArgumentError(f"{name}: out= must be an array, not {type(out).__name__}")
        shape = out._spec.shape if shape is None and like is None else shape
        dtype = out._spec.dtype if dtype is None else dtype
        if device is not None and device != out._buffer.queue.device:
            raise ArgumentError(f"{name}: device={device} was given with out= on {out._buffer.queue.device}")
    shape = None if shape is None else as_shape(shape)
    dtype = (default_float() if dtype is None else as_dtype(dtype)).name
    attrs = {"shape": shape, "dtype": dtype}
    if like is None:
        op = registry.get("random_" + name)
        if out is None:
            return create(op, attrs, device, cls, params)
    elif name in FAMILIES:
        shape = sample_shape(shape, *[p._spec if isinstance(p, Proxy) else type(p) for p in params])
        where = like._buffer.queue.device if device is None else device
        noise = create(registry.get("random_noise"), {"kind": FAMILIES[name].noise, "shape": shape, "dtype": dtype},
                       where, type(like))
        op, attrs, params = registry.get(name + "_transform"), (), (*params, noise)
    else:
        op = registry.get("random_" + name)
        if device is not None and device != like._buffer.queue.device:
            raise ArgumentError(f"{name}: device={device} was given with a parameter on {like._buffer.queue.device}")
    if out is None:
        return invoke(op, params, attrs)
    invoke_into(op, params, attrs, (out,))
    return out


def draw(name, arrays, attrs, device=None, cls=None, out=None):
    """Call another random record by its name, with numbers or arrays as inputs."""
    op = registry.get(name)
    attrs = {**op.defaults, **{k: freeze(v) for k, v in attrs.items()}}
    if out is not None:
        invoke_into(op, arrays, attrs, (out,))
        return out
    if any(isinstance(x, Proxy) for x in arrays):
        return invoke(op, arrays, attrs)
    return create(op, attrs, device, cls, arrays)


def per_parameter(params, shape):
    """Parameters of one shape with an axis of length 1 for each axis of ``shape`` behind, and the sample's shape:
    the legacy samplers draw ``shape`` numbers for every element of their parameters."""
    first = params[0]._spec.shape
    for p in params[1:]:
        if p._spec.shape != first:
            raise ArgumentError(f"the parameters have different shapes: {first} and {p._spec.shape}")
    if not shape:
        return params, first
    wide = first + (1,) * len(shape)
    return [F.reshape(p, newshape=wide) for p in params], first + shape


_LEGACY = frozenset(("uniform", "normal", "randn", "poisson", "exponential", "gamma", "binomial", "categorical",
                     "multinomial", "negative_binomial", "generalized_negative_binomial", "shuffle", "randint"))


def __getattr__(name):
    if name in _LEGACY:
        return getattr(importlib.import_module(f"{__package__}.ndarray.random"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LEGACY})
