"""``mx.nd.random``: the legacy random functions.

Parameters are all numbers, or all arrays of one shape: then ``shape`` numbers are drawn for each element, and the
result has the parameters' shape followed by ``shape``. ``dtype`` defaults to that of the array parameters, else to
float32; ``ctx`` to the current device. A parameter out of its range raises ValueError when the result is read.
"""
from __future__ import annotations

import math

import numpy as _onp

from ..dispatch import F as _F, Proxy as _Proxy
from ..errors import ArgumentError, ShapeError
from ..random import draw as _draw, per_parameter as _per_parameter, sample as _sample, seed
from ..spec import as_dtype as _as_dtype, as_shape as _as_shape, is_float as _is_float
from .array import NDArray
from .legacy import legacy_shape as _legacy_shape, nowhere as _nowhere

__all__ = ["seed", "uniform", "normal", "randn", "poisson", "exponential", "gamma", "binomial", "categorical",
           "multinomial", "negative_binomial", "generalized_negative_binomial", "shuffle", "randint",
           "uniform_like", "normal_like", "exponential_like", "gamma_like", "poisson_like", "negative_binomial_like",
           "generalized_negative_binomial_like"]


def _legacy(name, params, shape, dtype, ctx, out):
    """Draw as the legacy functions do; see the module's text."""
    arrays = [isinstance(p, _Proxy) for p in params]
    if dtype is not None and not _is_float(_as_dtype(dtype)):
        raise ArgumentError(f"random.{name}: dtype must be a float type, not {dtype!r}")
    shape = None if shape is None else _as_shape(shape)
    if any(arrays):
        if not all(arrays):
            raise ArgumentError(f"random.{name}: the parameters must be all arrays or all numbers")
        params, full = _per_parameter(params, shape or ())
        return _sample(name, params, full, dtype or params[0]._spec.dtype, None, NDArray, out)
    for p in params:
        if not isinstance(p, (int, float, _onp.integer, _onp.floating)):
            raise ShapeError(f"random.{name}: a parameter must be a number or an NDArray, not {p!r}")
    if shape is None and out is None:
        shape = (1,)
    if shape is not None:
        _legacy_shape(shape)
    return _sample(name, params, shape, dtype, ctx, NDArray, out)


def uniform(low=0, high=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Samples of the uniform distribution on [low, high)."""
    _nowhere("uniform", kwargs)
    return _legacy("uniform", (low, high), shape, dtype, ctx, out)


def normal(loc=0, scale=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Samples of the normal distribution with mean ``loc`` and standard deviation ``scale``."""
    _nowhere("normal", kwargs)
    return _legacy("normal", (loc, scale), shape, dtype, ctx, out)


def randn(*shape, **kwargs):
    """Samples of shape ``shape`` of the normal distribution (keywords ``loc, scale, dtype, ctx, out``)."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    dtype, ctx, out = kwargs.pop("dtype", None), kwargs.pop("ctx", None), kwargs.pop("out", None)
    _nowhere("randn", kwargs)
    return _legacy("normal", (loc, scale), shape, dtype, ctx, out)


def poisson(lam=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Samples of the Poisson distribution with mean ``lam``, as floats."""
    _nowhere("poisson", kwargs)
    return _legacy("poisson", (lam,), shape, dtype, ctx, out)


def exponential(scale=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Samples of the exponential distribution with mean ``scale``."""
    _nowhere("exponential", kwargs)
    return _legacy("exponential", (scale,), shape, dtype, ctx, out)


def gamma(alpha=1, beta=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Samples of the gamma distribution of shape ``alpha`` and scale ``beta`` (mean ``alpha * beta``)."""
    _nowhere("gamma", kwargs)
    return _legacy("gamma", (alpha, beta), shape, dtype, ctx, out)


def binomial(n=1, p=0.5, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Numbers of successes in ``n`` trials of probability ``p``, as floats."""
    _nowhere("binomial", kwargs)
    return _legacy("binomial", (n, p), shape, dtype, ctx, out)


def negative_binomial(k=1, p=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Numbers of failures before the ``k``-th success, each trial succeeding with probability ``p``, as floats."""
    _nowhere("negative_binomial", kwargs)
    return _legacy("negative_binomial", (k, p), shape, dtype, ctx, out)


def generalized_negative_binomial(mu=1, alpha=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Samples of the negative binomial distribution with mean ``mu`` and variance ``mu + alpha * mu**2``, as floats."""
    _nowhere("generalized_negative_binomial", kwargs)
    return _legacy("generalized_negative_binomial", (mu, alpha), shape, dtype, ctx, out)


def randint(low, high, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Integers in [low, high), of dtype int32 by default."""
    _nowhere("randint", kwargs)
    for bound in (low, high):
        if not hasattr(bound, "__index__") or isinstance(bound, _Proxy):
            raise ArgumentError(f"randint: low and high must be integers, not {bound!r}")
    if shape is None:
        shape = (1,) if out is None else out.shape
    if dtype is None:
        dtype = "int32" if out is None else out.dtype
    attrs = {"shape": _as_shape(shape), "dtype": dtype}
    return _draw("random_randint", (int(low), int(high)), attrs, ctx, NDArray, out)


def categorical(data, shape=None, get_prob=False, out=None, dtype="int32", **kwargs):
    """Indices drawn with the probabilities in the last axis of ``data``, ``shape`` for each distribution.

    With ``get_prob`` a list: the indices and the logarithms of their probabilities, whose gradient flows to ``data``.
    """
    _nowhere("categorical", kwargs)
    attrs = {"shape": () if shape is None else _as_shape(shape), "get_prob": bool(get_prob), "dtype": dtype}
    if out is not None and get_prob:
        raise ArgumentError("categorical: out= cannot be combined with get_prob")
    result = _draw("sample_categorical", (data,), attrs, out=out)
    return list(result) if get_prob else result


def multinomial(n, p, shape=None, dtype="float32", ctx=None, out=None, **kwargs):
    """How often each outcome came in ``n`` trials; ``n`` of shape (...), ``p`` of shape (..., k) with probabilities
    in its last axis. The result has the shape ``n.shape + shape + (k,)``."""
    _nowhere("multinomial", kwargs)
    for x, name in ((n, "n"), (p, "p")):
        if not isinstance(x, _Proxy):
            raise ArgumentError(f"multinomial: {name} must be an NDArray, not {type(x).__name__}")
    attrs = {"shape": () if shape is None else _as_shape(shape), "dtype": dtype}
    return _draw("random_multinomial", (n, p), attrs, ctx, NDArray, out)


def shuffle(data, out=None, **kwargs):
    """A copy of ``data`` with its first axis in random order."""
    _nowhere("shuffle", kwargs)
    return _draw("random_permutation", (data,), {}, out=out)


def _like(name, data, params, out):
    """A sample with the shape, dtype and device of an array."""
    return _legacy(name, params, data.shape, data._spec.dtype, data.device, out)


def uniform_like(data, low=0, high=1, out=None, name=None):
    """:func:`uniform` with the shape and dtype of ``data``."""
    return _like("uniform", data, (low, high), out)


def normal_like(data, loc=0, scale=1, out=None, name=None):
    """:func:`normal` with the shape and dtype of ``data``."""
    return _like("normal", data, (loc, scale), out)


def exponential_like(data, lam=1, out=None, name=None):
    """:func:`exponential` of rate ``lam`` with the shape and dtype of ``data``."""
    return _like("exponential", data, (_rate_to_scale(lam),), out)


def gamma_like(data, alpha=1, beta=1, out=None, name=None):
    """:func:`gamma` with the shape and dtype of ``data``."""
    return _like("gamma", data, (alpha, beta), out)


def poisson_like(data, lam=1, out=None, name=None):
    """:func:`poisson` with the shape and dtype of ``data``."""
    return _like("poisson", data, (lam,), out)


def negative_binomial_like(data, k=1, p=1, out=None, name=None):
    """:func:`negative_binomial` with the shape and dtype of ``data``."""
    return _like("negative_binomial", data, (k, p), out)


def generalized_negative_binomial_like(data, mu=1, alpha=1, out=None, name=None):
    """:func:`generalized_negative_binomial` with the shape and dtype of ``data``."""
    return _like("generalized_negative_binomial", data, (mu, alpha), out)


def _rate_to_scale(lam):
    if isinstance(lam, _Proxy):
        return 1.0 / lam
    return 1.0 / lam if lam else -1.0        # a rate of 0 is refused as a negative scale is, when the result is read


# -- the operators' names in mx.nd ---------------------------------------------------------------------------------


def random_exponential(lam=1, shape=None, ctx=None, dtype=None, out=None, name=None):
    """Exponential samples of rate ``lam``."""
    return exponential(_rate_to_scale(lam), shape, dtype, ctx, out)


def sample_exponential(lam, shape=None, dtype=None, out=None, name=None):
    """Exponential samples for each rate in ``lam``."""
    return exponential(_rate_to_scale(lam), shape, dtype, None, out)


def sample_multinomial(n, p, shape=None, ctx=None, dtype="int32", out=None, name=None):
    """:func:`multinomial` as int32."""
    return multinomial(n, p, shape, dtype, ctx, out)


def sample_categorical(data, shape=None, get_prob=False, dtype="int32", out=None, name=None):
    """:func:`categorical`."""
    return categorical(data, shape, get_prob, out, dtype)


def _named(function, parameters):
    """``random_<name>`` (numbers, ctx before dtype) and ``sample_<name>`` (arrays) of a legacy function."""
    first, second = parameters

    def random(shape, ctx, dtype, out, *params):
        return function(*params, shape=shape, dtype=dtype, ctx=ctx, out=out)
    names = [p.split("=")[0].strip() for p in first.split(",")]
    space = {"_call": random, "function": function}
    exec(f"def random_{function.__name__}({first}, shape=None, ctx=None, dtype=None, out=None, name=None):\n"
         f"    return _call(shape, ctx, dtype, out, {', '.join(names)})\n"
         f"def sample_{function.__name__}({second}, shape=None, dtype=None, out=None, name=None):\n"
         f"    return _call(shape, None, dtype, out, {second})\n", space)
    for prefix in ("random_", "sample_"):
        made = space[prefix + function.__name__]
        made.__doc__, made.__module__ = function.__doc__, __name__
        yield prefix + function.__name__, made


OPERATORS = {
    **{k: v for f, p in (
        (uniform, ("low=0, high=1", "low, high")), (normal, ("loc=0, scale=1", "mu, sigma")),
        (gamma, ("alpha=1, beta=1", "alpha, beta")), (poisson, ("lam=1", "lam")),
        (binomial, ("n=1, p=1", "n, p")), (negative_binomial, ("k=1, p=1", "k, p")),
        (generalized_negative_binomial, ("mu=1, alpha=1", "mu, alpha"))) for k, v in _named(f, p)},
    "random_exponential": random_exponential, "sample_exponential": sample_exponential,
    "sample_multinomial": sample_multinomial, "sample_categorical": sample_categorical, "shuffle": shuffle,
}
OPERATORS["uniform"], OPERATORS["normal"] = OPERATORS["random_uniform"], OPERATORS["random_normal"]


def random_randint(low, high, shape=None, ctx=None, dtype=None, out=None, name=None):
    """Integers in [low, high)."""
    return randint(low, high, shape, dtype, ctx, out)


OPERATORS["random_randint"] = random_randint

# -- densities -----------------------------------------------------------------------------------------------------


def _aligned(sample, params, name):
    """Parameters with axes of length 1 behind, so that they broadcast along the samples of each."""
    for p in params:
        if sample._spec.shape[:p._spec.ndim] != p._spec.shape:
            raise ShapeError(f"{name}: parameters of shape {p._spec.shape} do not match samples of shape "
                             f"{sample._spec.shape}")
    extra = (1,) * (sample._spec.ndim - params[0]._spec.ndim)
    return [_reshape(p, p._spec.shape + extra) for p in params]


def _reshape(x, shape):
    """``x`` reshaped, differentiably."""
    return x if x._spec.shape == shape else _F.reshape(x, newshape=shape)


def _density(log_density, is_log):
    return log_density if is_log else _F.exp(log_density)


def _inside(sample, condition, value):
    """``value`` where ``condition`` holds, else minus infinity."""
    return _F.where(condition, value, -math.inf)


def random_pdf_uniform(sample, low, high, is_log=False, out=None, name=None):
    """The density of uniform distributions at ``sample``."""
    low, high = _aligned(sample, (low, high), "random_pdf_uniform")
    inside = _F.cast(_F.multiply(_F.greater_equal(sample, low), _F.less_equal(sample, high)), dtype="bool")
    return _give(_density(_inside(sample, inside, 0.0 * sample - _F.log(high - low)), is_log), out)


def random_pdf_normal(sample, mu, sigma, is_log=False, out=None, name=None):
    """The density of normal distributions at ``sample``."""
    mu, sigma = _aligned(sample, (mu, sigma), "random_pdf_normal")
    z = (sample - mu) / sigma
    return _give(_density(-0.5 * z * z - _F.log(sigma) - 0.5 * math.log(2 * math.pi), is_log), out)


def random_pdf_exponential(sample, lam, is_log=False, out=None, name=None):
    """The density of exponential distributions of rate ``lam`` at ``sample``."""
    lam, = _aligned(sample, (lam,), "random_pdf_exponential")
    return _give(_density(_F.log(lam) - lam * sample, is_log), out)


def random_pdf_gamma(sample, alpha, beta, is_log=False, out=None, name=None):
    """The density of gamma distributions of shape ``alpha`` and rate ``beta`` at ``sample``."""
    alpha, beta = _aligned(sample, (alpha, beta), "random_pdf_gamma")
    return _give(_density(alpha * _F.log(beta) + (alpha - 1.0) * _F.log(sample) - beta * sample - _F.gammaln(alpha),
                          is_log), out)


def random_pdf_poisson(sample, lam, is_log=False, out=None, name=None):
    """The probability of ``sample`` under Poisson distributions of mean ``lam``."""
    lam, = _aligned(sample, (lam,), "random_pdf_poisson")
    return _give(_density(sample * _F.log(lam) - lam - _F.gammaln(sample + 1.0), is_log), out)


def _negative_binomial_pdf(sample, k, p, is_log, out):
    choose = _F.gammaln(sample + k) - _F.gammaln(sample + 1.0) - _F.gammaln(k)
    return _give(_density(choose + k * _F.log(p) + sample * _F.log(1.0 - p), is_log), out)


def random_pdf_negative_binomial(sample, k, p, is_log=False, out=None, name=None):
    """The probability of ``sample`` failures before the ``k``-th success of probability ``p``."""
    k, p = _aligned(sample, (k, p), "random_pdf_negative_binomial")
    return _negative_binomial_pdf(sample, k, p, is_log, out)


def random_pdf_generalized_negative_binomial(sample, mu, alpha, is_log=False, out=None, name=None):
    """The probability of ``sample`` under negative binomial distributions of mean ``mu`` and dispersion ``alpha``."""
    mu, alpha = _aligned(sample, (mu, alpha), "random_pdf_generalized_negative_binomial")
    return _negative_binomial_pdf(sample, 1.0 / alpha, 1.0 / (mu * alpha + 1.0), is_log, out)


def random_pdf_dirichlet(sample, alpha, is_log=False, out=None, name=None):
    """The density of Dirichlet distributions at ``sample``; distributions and samples lie in the last axis."""
    k = alpha._spec.shape[-1]
    lead = alpha._spec.shape[:-1]
    if sample._spec.shape[-1] != k or sample._spec.shape[:len(lead)] != lead:
        raise ShapeError(f"random_pdf_dirichlet: parameters of shape {alpha._spec.shape} do not match samples of shape "
                         f"{sample._spec.shape}")
    wide = _reshape(alpha, lead + (1,) * (sample._spec.ndim - alpha._spec.ndim) + (k,))
    power = _F.sum((wide - 1.0) * _F.log(sample), axis=-1)
    norm = _F.gammaln(_F.sum(wide, axis=-1)) - _F.sum(_F.gammaln(wide), axis=-1)
    return _give(_density(power + norm, is_log), out)


def _give(result, out):
    if out is None:
        return result
    out[:] = result
    return out


OPERATORS.update({f.__name__: f for f in (
    random_pdf_uniform, random_pdf_normal, random_pdf_exponential, random_pdf_gamma, random_pdf_poisson,
    random_pdf_negative_binomial, random_pdf_generalized_negative_binomial, random_pdf_dirichlet)})
