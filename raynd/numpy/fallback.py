"""NumPy functions that run on the host: seldom used, or with results whose shape or type only their values tell.

They copy their arrays to the host, call NumPy, and bring arrays back to the device, as MXNet does for most of these
names. No gradient flows through them. A name that has an operator of its own is not taken from here.
"""
from __future__ import annotations

import functools

import numpy

from .interop import on_host

_NAMES = (
    "apply_along_axis", "apply_over_axes", "argpartition", "choose", "compress", "corrcoef", "correlate", "cov",
    "digitize", "extract", "frexp", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "intersect1d",
    "isin", "ix_", "lexsort", "min_scalar_type", "modf", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax",
    "nanmedian", "nanmin", "nanpercentile", "nanquantile", "nanstd", "nanvar", "packbits", "partition", "piecewise",
    "poly", "polyadd", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "ptp", "roots", "searchsorted",
    "select", "setdiff1d", "setxor1d", "spacing", "take_along_axis", "trim_zeros", "union1d", "unpackbits", "unwrap",
    "vander",
)


def in1d(ar1, ar2, assume_unique=False, invert=False):
    """Whether each element of ``ar1``, flattened, is in ``ar2``."""
    return numpy.isin(numpy.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


def msort(a):
    """A copy sorted along the first axis."""
    return numpy.sort(a, axis=0)


def trapz(y, x=None, dx=1.0, axis=-1):
    """The integral of samples ``y`` by the trapezoidal rule."""
    return numpy.trapezoid(y, x, dx, axis)


def genfromtxt(*args, **kwargs):
    """An array read from a text file, with the arguments of ``numpy.genfromtxt``."""
    from .creation import array
    values = numpy.genfromtxt(*args, **kwargs)
    return array(values, dtype=values.dtype)


def _host(function):
    @functools.wraps(function, assigned=("__name__", "__qualname__", "__doc__"))
    def call(*args, **kwargs):
        return on_host(function, args, kwargs)
    call.__module__ = __package__
    return call


FUNCTIONS = {name: _host(getattr(numpy, name)) for name in _NAMES if hasattr(numpy, name)}
FUNCTIONS.update({f.__name__: _host(f) for f in (in1d, msort, trapz)}, genfromtxt=genfromtxt)
