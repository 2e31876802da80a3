"""``mx.np.random``: NumPy's legacy random functions on devices.

``size`` is the shape of the result; parameters may be numbers or arrays that broadcast to it. ``dtype`` defaults to
the default float (float32, or float64 under ``set_np(dtype=True)``), ``device`` to the current device or that of
the array parameters. A parameter out of its range raises ValueError when the result is read. Gradients flow to array
parameters of all distributions by transformation (uniform, normal, lognormal, logistic, gumbel, laplace, exponential,
rayleigh, weibull, pareto, power) and of gamma.
"""
from __future__ import annotations

import numpy as _onp

from .. import random as _random
from ..device import as_device as _as_device
from ..dispatch import F as _F, Proxy as _Proxy, stage as _stage
from ..errors import ArgumentError, ShapeError
from ..ndarray import indexing as _indexing
from ..random import accepts_ctx as _accepts_ctx, sample as _sample, seed
from ..spec import as_shape as _as_shape

__all__ = ["seed", "uniform", "normal", "lognormal", "logistic", "gumbel", "laplace", "exponential", "rayleigh",
           "weibull", "pareto", "power", "gamma", "beta", "chisquare", "f", "randint", "rand", "randn", "random",
           "choice", "shuffle", "permutation", "multinomial", "multivariate_normal"]


@_accepts_ctx
def uniform(low=0.0, high=1.0, size=None, dtype=None, device=None, out=None):
    """Samples of the uniform distribution on [low, high)."""
    return _sample("uniform", (low, high), size, dtype, device, None, out)


@_accepts_ctx
def normal(loc=0.0, scale=1.0, size=None, dtype=None, device=None, out=None):
    """Samples of the normal distribution with mean ``loc`` and standard deviation ``scale`` (>= 0)."""
    return _sample("normal", (loc, scale), size, dtype, device, None, out)


@_accepts_ctx
def lognormal(mean=0.0, sigma=1.0, size=None, dtype=None, device=None, out=None):
    """Exponentials of normal samples with mean ``mean`` and standard deviation ``sigma`` (>= 0)."""
    result = _F.exp(_sample("normal", (mean, sigma), size, dtype, device, None, None))
    if out is None:
        return result
    _indexing.setitem(out, Ellipsis, result)
    return out


@_accepts_ctx
def logistic(loc=0.0, scale=1.0, size=None, device=None, out=None):
    """Samples of the logistic distribution with mean ``loc`` and ``scale`` (>= 0)."""
    return _sample("logistic", (loc, scale), size, None, device, None, out)


@_accepts_ctx
def gumbel(loc=0.0, scale=1.0, size=None, device=None, out=None):
    """Samples of the Gumbel distribution with mode ``loc`` and ``scale`` (>= 0)."""
    return _sample("gumbel", (loc, scale), size, None, device, None, out)


@_accepts_ctx
def laplace(loc=0.0, scale=1.0, size=None, dtype=None, device=None, out=None):
    """Samples of the Laplace distribution with mean ``loc`` and ``scale`` (>= 0)."""
    return _sample("laplace", (loc, scale), size, dtype, device, None, out)


@_accepts_ctx
def exponential(scale=1.0, size=None, device=None, out=None):
    """Samples of the exponential distribution with mean ``scale`` (>= 0)."""
    return _sample("exponential", (scale,), size, None, device, None, out)


@_accepts_ctx
def rayleigh(scale=1.0, size=None, device=None, out=None):
    """Samples of the Rayleigh distribution with mode ``scale`` (>= 0)."""
    return _sample("rayleigh", (scale,), size, None, device, None, out)


@_accepts_ctx
def weibull(a, size=None, device=None, out=None):
    """Samples of the one-parameter Weibull distribution of shape ``a`` (> 0)."""
    return _sample("weibull", (a,), size, None, device, None, out)


@_accepts_ctx
def pareto(a, size=None, device=None, out=None):
    """Samples of the Pareto II (Lomax) distribution of shape ``a`` (> 0)."""
    return _sample("pareto", (a,), size, None, device, None, out)


@_accepts_ctx
def power(a, size=None, device=None, out=None):
    """Samples in [0, 1] of the power distribution with exponent ``a - 1`` (``a`` > 0)."""
    return _sample("power", (a,), size, None, device, None, out)


@_accepts_ctx
def gamma(shape, scale=1.0, size=None, dtype=None, device=None, out=None):
    """Samples of the gamma distribution of ``shape`` and ``scale`` (both > 0)."""
    return _sample("gamma", (shape, scale), size, dtype, device, None, out)


@_accepts_ctx
def beta(a, b, size=None, dtype=None, device=None):
    """Samples in [0, 1] of the beta distribution (``a`` and ``b`` > 0)."""
    return _sample("beta", (a, b), size, dtype, device)


@_accepts_ctx
def chisquare(df, size=None, dtype=None, device=None):
    """Samples of the chi-square distribution with ``df`` (> 0) degrees of freedom."""
    return _sample("chisquare", (df,), size, dtype, device)


@_accepts_ctx
def f(dfnum, dfden, size=None, device=None):
    """Samples of the F distribution with ``dfnum`` and ``dfden`` (> 0) degrees of freedom."""
    return _sample("f", (dfnum, dfden), size, None, device)


@_accepts_ctx
def randint(low, high=None, size=None, dtype=None, device=None, out=None):
    """Integers in [low, high), or in [0, low) if ``high`` is None; of dtype int64 by default."""
    if high is None:
        low, high = 0, low
    bounds = []
    for bound in (low, high):
        if isinstance(bound, _Proxy) or not hasattr(bound, "__index__"):
            raise ArgumentError(f"randint: low and high must be integers, not {bound!r}")
        bounds.append(int(bound))
    if out is not None and dtype is None:
        dtype = out.dtype
    size = () if size is None and out is None else out.shape if size is None else size
    return _random.draw("random_randint", bounds, {"shape": _as_shape(size), "dtype": dtype}, device, None, out)


def rand(*size, **kwargs):
    """Uniform samples on [0, 1) of shape ``size``; keywords as of :func:`uniform`."""
    return uniform(0.0, 1.0, size=size, **kwargs)


def randn(*size, **kwargs):
    """Standard normal samples of shape ``size``; keywords as of :func:`normal`."""
    return normal(0.0, 1.0, size=size, **kwargs)


@_accepts_ctx
def random(size=None, dtype=None, device=None, out=None):
    """Uniform samples on [0, 1)."""
    return uniform(0.0, 1.0, size, dtype, device, out)


@_accepts_ctx
def choice(a, size=None, replace=True, p=None, device=None, out=None):
    """Elements of the first axis of ``a`` (an array), or integers below ``a``, drawn with or without replacement.

    ``p``: their probabilities (default: equal), which must sum to 1. Integers are int64.
    """
    if isinstance(a, (list, tuple, _onp.ndarray)):
        a = _stage(_onp.asarray(a), _as_device(device))
    if isinstance(a, _Proxy) and a.ndim == 0:
        a = int(a)
    if isinstance(a, _Proxy):
        n, where = a.shape[0], a.device
        if device is not None and device != where:
            raise ArgumentError(f"choice: device={device} was given with an array on {where}")
    elif hasattr(a, "__index__"):
        n, where = int(a), device
    else:
        raise ArgumentError(f"choice: a must be an array or an integer, not {a!r}")
    if p is not None and not isinstance(p, _Proxy):
        p = _stage(_onp.asarray(p, "float64"), _as_device(where))
    attrs = {"n": n, "shape": () if size is None else _as_shape(size), "replace": bool(replace)}
    if not isinstance(a, _Proxy):
        return _random.draw("random_choice", (p,), attrs, where, None, out)
    picked = a[_random.draw("random_choice", (p,), attrs, where)]
    if out is None:
        return picked
    _indexing.setitem(out, Ellipsis, picked)
    return out


def shuffle(x):
    """Reorder the first axis of the array ``x`` in place."""
    if not isinstance(x, _Proxy):
        raise ArgumentError(f"shuffle: x must be an array, not {type(x).__name__}")
    _indexing.overwrite(x, _F.random_permutation(x.detach()))


def permutation(x):
    """A copy of the array ``x`` with its first axis in random order, or the integers below ``x`` in random order."""
    if isinstance(x, _Proxy):
        return _F.random_permutation(x)
    if hasattr(x, "__index__"):
        return choice(int(x), int(x), replace=False)
    return _F.random_permutation(_stage(_onp.asarray(x), _as_device(None)))


def multinomial(n, pvals, size=None):
    """How often each of ``len(pvals)`` outcomes came in ``n`` trials; int64 of shape ``size + (len(pvals),)``.

    ``pvals``: a list, tuple or array of probabilities, of which the last is taken as what the others leave.
    """
    if isinstance(pvals, _onp.ndarray):
        raise ShapeError("multinomial: a NumPy array is not supported for pvals; give a list or an mx.np array")
    if not isinstance(pvals, _Proxy):
        if any(isinstance(v, (list, tuple)) for v in pvals):
            raise ShapeError("multinomial: pvals must be one-dimensional")
        pvals = _stage(_onp.asarray(pvals, "float64"), _as_device(None))
    if pvals.ndim != 1:
        raise ShapeError("multinomial: pvals must be one-dimensional")
    return _random.draw("random_multinomial", (int(n), pvals), {"shape": () if size is None else _as_shape(size)})


def multivariate_normal(mean, cov, size=None, check_valid=None, tol=None):
    """Samples of shape ``size + broadcast(mean.shape, cov.shape[:-1])`` of the multivariate normal distribution.

    ``mean``: (..., n); ``cov``: (..., n, n), symmetric and positive definite (else MXNetError when read). Gradients
    flow to both. ``check_valid`` and ``tol`` are not supported.
    """
    if check_valid is not None or tol is not None:
        raise ArgumentError("multivariate_normal: check_valid and tol are not supported")
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-1] != cov.shape[-2] or cov.shape[-1] != mean.shape[-1]:
        raise ShapeError(f"multivariate_normal: a mean of shape {mean.shape} and a covariance of shape {cov.shape} do "
                         "not fit together")
    batch = _onp.broadcast_shapes(mean.shape, cov.shape[:-1])
    shape = (() if size is None else _as_shape(size)) + batch
    noise = _random.draw("random_noise", (), {"kind": "normal", "shape": (*shape, 1), "dtype": mean._spec.dtype},
                         mean.device, type(mean))
    factor = _F.cholesky(cov)
    return mean + _F.squeeze(_F.matmul(factor, noise), axis=-1)
