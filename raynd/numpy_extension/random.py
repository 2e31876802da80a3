"""``mx.npx.random``: random functions beyond NumPy's."""
from __future__ import annotations

from ..dispatch import Proxy as _Proxy
from ..errors import ArgumentError, ShapeError
from ..random import accepts_ctx as _accepts_ctx, draw as _draw, sample as _sample, seed as _seed
from ..spec import as_shape as _as_shape, broadcast as _broadcast

__all__ = ["seed", "bernoulli", "uniform_n", "normal_n", "categorical", "multinomial"]


@_accepts_ctx
def seed(seed, device="all"):
    """Seed the generators of all devices, or of one (see ``mx.random.seed``)."""
    _seed(seed, device)


@_accepts_ctx
def bernoulli(prob=None, logit=None, size=None, dtype=None, device=None, out=None):
    """0 and 1, where 1 has the probability ``prob``, or the log-odds ``logit`` (exactly one must be given)."""
    if (prob is None) == (logit is None):
        raise ShapeError("Either `prob` or `logit` must be specified, but not both. "
                         f"Received prob={prob}, logit={logit}")
    if logit is None:
        return _sample("bernoulli", (prob,), size, dtype, device, None, out)
    return _sample("bernoulli_logit", (logit,), size, dtype, device, None, out)


def _batch(params, batch_shape):
    """The shape ``batch_shape`` followed by the parameters' common shape."""
    common = _broadcast((), *[p._spec.shape for p in params if isinstance(p, _Proxy)])
    return (() if batch_shape is None else _as_shape(batch_shape)) + common


@_accepts_ctx
def uniform_n(low=0.0, high=1.0, batch_shape=None, dtype=None, device=None):
    """``batch_shape`` uniform samples for every element of the broadcast parameters: the result has the shape
    ``batch_shape`` followed by that of the parameters."""
    return _sample("uniform", (low, high), _batch((low, high), batch_shape), dtype, device)


@_accepts_ctx
def normal_n(loc=0.0, scale=1.0, batch_shape=None, dtype=None, device=None):
    """As :func:`uniform_n` for the normal distribution."""
    return _sample("normal", (loc, scale), _batch((loc, scale), batch_shape), dtype, device)


def categorical(data, shape=None, get_prob=False, dtype="int32", out=None, name=None):
    """Indices drawn with the probabilities in the last axis of ``data``, ``shape`` for each distribution; with
    ``get_prob`` a list that has the logarithms of their probabilities too."""
    attrs = {"shape": () if shape is None else _as_shape(shape), "get_prob": bool(get_prob), "dtype": dtype}
    result = _draw("sample_categorical", (data,), attrs, out=out)
    return list(result) if get_prob else result


def multinomial(n, p, shape=None, ctx=None, dtype="float32", out=None, name=None):
    """How often each of ``k`` outcomes came in ``n`` trials: ``n.shape + shape + (k,)`` numbers.

    ``n``: an array of numbers of trials; ``p``: their probabilities, of shape ``n.shape + (k,)``.
    """
    for x, what in ((n, "n"), (p, "p")):
        if not isinstance(x, _Proxy):
            raise ArgumentError(f"multinomial: {what} must be an array, not {type(x).__name__}")
    if ctx is not None and ctx != n.device:
        raise ArgumentError(f"multinomial: ctx={ctx} was given with parameters on {n.device}")
    attrs = {"shape": () if shape is None else _as_shape(shape), "dtype": dtype}
    return _draw("random_multinomial", (n, p), attrs, out=out)
