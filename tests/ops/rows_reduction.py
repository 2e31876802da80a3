"""Rows of the reductions and running sums."""
import numpy as np
from table import S, bools, distinct, normal, positive, row, uniform

AXES = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"axis": ()}]


def over(make, empty=True, zero_dim_axis=True):
    """Samples of a reduction: several axes, zero-dim, and zero-size where the operator has an identity."""
    samples = [S(make(2, 3, 4), **a) for a in AXES] + [S(make()), S(make(5))]
    if zero_dim_axis:                                  # NumPy's mean and var do not take it
        samples.append(S(make(), axis=0))
    samples.append(S(make(0, 3), axis=1) if not empty else S(make(0, 3), axis=0))
    return samples


def with_where(samples):
    return [S(*s.inputs, None, **s.attrs) for s in samples]


def total(a, where=None, axis=None, dtype=None, keepdims=None, initial=None):
    return np.sum(a, axis=axis, keepdims=bool(keepdims), initial=0 if initial is None else initial,
                  where=True if where is None else where)


row("sum", ref=total, ints_as="int32 int8", samples=with_where(over(normal)) + [
    S(normal(2, 3), bools(3)), S(normal(2, 3), bools(2, 1), axis=1), S(normal(2, 3), True, axis=0, initial=2.5)])
row("unreduce", ref=lambda x, axis, shape: np.broadcast_to(np.expand_dims(x, axis), shape),
    samples=[S(normal(3), axis=(0,), shape=(2, 3)), S(normal(2), axis=(1,), shape=(2, 3)),
             S(normal(), axis=(0, 1), shape=(2, 3)), S(normal(0), axis=(1,), shape=(0, 3))])
row("sum_to", samples=[S(normal(2, 3), shape=(3,)), S(normal(2, 3), shape=(2, 1)), S(normal(4, 2, 3), shape=(2, 1)),
                       S(normal(2, 3), shape=()), S(normal(3), shape=(3,)), S(normal(0, 3), shape=(3,))],
    ref=lambda x, shape: x.sum(axis=tuple(range(x.ndim - len(shape)))).sum(
        axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape))
row("mean", ref=lambda a, axis=None, dtype=None, keepdims=False: np.mean(a, axis=axis, keepdims=keepdims),
    ints_as="int32", samples=over(normal, False, False))
row("count_nonzero", samples=[S(bools(2, 3)), S(bools(2, 3), axis=1), S(normal(3), keepdims=True), S(normal(0, 3))],
    ref=lambda a, axis=None, keepdims=False: np.count_nonzero(a, axis=axis, keepdims=keepdims))
WITH_ZEROS = np.array([[1.5, 0.0, 2.0], [0.0, 3.0, 0.0], [1.0, 2.0, -1.5]])
row("prod", ref=lambda a, axis=None, dtype=None, keepdims=False: np.prod(a, axis=axis, keepdims=keepdims),
    ints_as="int64", tol=4, samples=over(positive) + [S(WITH_ZEROS, axis=1), S(WITH_ZEROS), S(WITH_ZEROS, axis=(0, 1))])
row("max", ref=lambda a, axis=None, keepdims=False: np.max(a, axis=axis, keepdims=keepdims), ints_as="int32 uint8",
    samples=over(distinct, empty=False))
row("min", ref=lambda a, axis=None, keepdims=False: np.min(a, axis=axis, keepdims=keepdims), ints_as="int32 int8",
    samples=over(distinct, empty=False))
ARGUMENTS = [S(distinct(2, 3, 4)), S(distinct(2, 3, 4), axis=0), S(distinct(2, 3), axis=-1, keepdims=True),
             S(distinct(2, 3), keepdims=True), S(distinct()), S(distinct(0, 3), axis=1)]
row("argmax", ref=lambda a, axis=None, keepdims=False: np.argmax(a, axis=axis, keepdims=keepdims), samples=ARGUMENTS)
row("argmin", ref=lambda a, axis=None, keepdims=False: np.argmin(a, axis=axis, keepdims=keepdims), samples=ARGUMENTS)
for _name, _f in (("all", np.all), ("any", np.any)):
    row(_name, ref=lambda a, axis=None, keepdims=False, _f=_f: _f(a, axis=axis, keepdims=keepdims),
        samples=over(bools) + [S(normal(2, 3)), S(np.array([[0.0, np.nan], [1.0, 0.0]]), axis=0)])
MOMENTS = over(normal, False, False) + [
    S(normal(3, 4), axis=0, correction=1), S(normal(3, 4), ddof=1), S(normal(3, 4), axis=1, correction=0.5)]
row("var", ref=lambda a, axis=None, dtype=None, correction=0, keepdims=False, ddof=None: np.var(
    a, axis=axis, ddof=correction or ddof or 0, keepdims=keepdims), ints_as="int32", tol=4, samples=MOMENTS)
row("std", ref=lambda a, axis=None, dtype=None, correction=0, keepdims=False, ddof=None: np.std(
    a, axis=axis, ddof=correction or ddof or 0, keepdims=keepdims), ints_as="int32", tol=4,
    samples=[s for s in MOMENTS if s.attrs.get("axis") != () and s.inputs[0](np.random.default_rng(0)).ndim])
row("nan_replaced", ref=lambda a, value: np.where(np.isnan(a), value, a),
    samples=[S(normal(2, 3), value=2), S(normal(0, 3), value=1)])
row("nansum", ref=lambda a, axis=None, dtype=None, keepdims=False: np.nansum(a, axis=axis, keepdims=keepdims),
    samples=over(normal), ints_as="int32")
row("nanprod", ref=lambda a, axis=None, dtype=None, keepdims=False: np.nanprod(a, axis=axis, keepdims=keepdims),
    samples=over(positive), tol=4)
RUNNING = [S(normal(2, 3)), S(normal(2, 3, 4), axis=1), S(normal(2, 3), axis=-1), S(normal()), S(normal(0, 3), axis=0),
           S(normal(5, 1), axis=0)]
row("cumsum", ref=lambda a, axis=None, dtype=None: np.cumsum(a, axis=axis), ints_as="int32 int8", samples=RUNNING)
row("cumprod", ref=lambda a, axis=None, dtype=None: np.cumprod(a, axis=axis), ints_as="int64", tol=4,
    samples=RUNNING + [S(WITH_ZEROS, axis=1), S(WITH_ZEROS)])


def scanned(a, b, reverse):
    y, last = np.zeros_like(b), np.zeros(b.shape[:-1])
    for i in reversed(range(b.shape[-1])) if reverse else range(b.shape[-1]):
        last = y[..., i] = a[..., i] * last + b[..., i]
    return y


row("linear_scan", ref=scanned, tol=8, samples=[S(uniform(*s), uniform(*s), reverse=r)
                                                for s in ((2, 7), (1,), (3, 0), (2, 8)) for r in (False, True)])
row("exclusive_cumprod", tol=4, samples=[S(positive(2, 5), reverse=False), S(WITH_ZEROS, reverse=True),
                                         S(positive(1), reverse=False)],
    ref=lambda x, reverse: np.stack([np.prod(x[..., i + 1:] if reverse else x[..., :i], axis=-1)
                                     for i in range(x.shape[-1])], axis=-1))
row("shift_last", samples=[S(normal(2, 4), by=1), S(normal(2, 4), by=-1), S(normal(3), by=5), S(normal(2, 0), by=1)],
    ref=lambda x, by: np.stack([x[..., i - by] if 0 <= i - by < x.shape[-1] else np.zeros(x.shape[:-1])
                                for i in range(x.shape[-1])], axis=-1) if x.size else x)
