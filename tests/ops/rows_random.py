"""Rows of the operators that draw random numbers: shapes, dtypes, ranges, and the transformations against formulas.
Distributions themselves are tested in ``tests/test_random.py``."""
import numpy as np
from scipy.special import gammainc, gammaincinv
from table import S, bools, ints, normal, positive, row, uniform


def within(low, high):
    """All finite outputs in [low, high]."""
    def check(inputs, outputs, attrs):
        assert np.isfinite(outputs[0].astype("float64")).all()
        assert (outputs[0] >= low).all() and (outputs[0] <= high).all()
    return check


REAL, POSITIVE, UNIT = within(-np.inf, np.inf), within(0, np.inf), within(0, 1)
SHAPES = ({"shape": (3, 4)}, {"shape": (), "dtype": "float64"}, {"shape": (0, 2), "dtype": "float16"},
          {"shape": (5,), "dtype": "bfloat16"}, {"dtype": "float32"})

row("random_noise", check=REAL, samples=[
    S(kind=kind, shape=shape, dtype=dtype)
    for kind in ("uniform", "normal", "exponential", "laplace", "logistic", "gumbel")
    for shape, dtype in (((3, 4), "float32"), ((), "float64"), ((0, 2), "float16"), ((7,), "bfloat16"))])

for _name in ("normal", "laplace", "logistic", "gumbel"):
    row(f"random_{_name}", check=REAL, samples=[S(1.0, 2, **s) for s in SHAPES])
    row(f"{_name}_transform", ref=lambda loc, scale, noise: loc + scale * noise,
        samples=[S(normal(3, 4), positive(4), normal(3, 4)), S(normal(4), 2.0, normal(3, 4)),
                 S(1, positive(), normal(3)),
                 S(normal(), positive(), normal()), S(normal(3), positive(3), normal(0, 3)), S(0.0, 1.0, normal(3))])
row("random_uniform", check=within(1, 3), samples=[S(1.0, 3, **s) for s in SHAPES])
row("uniform_transform", ref=lambda low, high, u: low + (high - low) * u,
    samples=[S(normal(3, 4), positive(4), uniform(3, 4)), S(normal(4), 2.0, uniform(3, 4)),
             S(1, positive(), uniform(3)),
             S(normal(), positive(), uniform()), S(normal(3), positive(3), uniform(0, 3)), S(0.0, 1.0, uniform(3))])
for _name, _formula in {
        "exponential": lambda scale, e: scale * e, "rayleigh": lambda scale, e: scale * np.sqrt(2 * e),
        "weibull": lambda a, e: e ** (1 / a), "pareto": lambda a, e: np.exp(e / a) - 1,
        "power": lambda a, e: np.exp(-e / a)}.items():
    row(f"random_{_name}", check=UNIT if _name == "power" else POSITIVE, samples=[S(2.0, **s) for s in SHAPES])
    row(f"{_name}_transform", ref=_formula, tol=4,
        samples=[S(positive(3, 4), positive(3, 4)), S(positive(4), positive(3, 4)), S(2, positive(3)),
                 S(positive(), positive()), S(positive(3), positive(0, 3))])


def parameters(first, *others):
    """A draw for numbers and for arrays that broadcast to the shape."""
    return [S(first(), *[o() for o in others], shape=(2, 3)), S(first(3), *[o(2, 1) for o in others]),
            S(first(3), *[1 for _ in others], shape=(2, 3)), S(2, *[1 for _ in others], shape=(0, 3)),
            S(2, *[1 for _ in others], shape=(), dtype="float64")]


row("random_gamma", check=POSITIVE, grad=(), second=False, samples=parameters(positive, positive))
row("random_beta", check=UNIT, samples=parameters(positive, positive))
row("random_chisquare", check=POSITIVE, samples=parameters(positive))
row("random_f", check=POSITIVE, samples=parameters(positive, positive))
row("random_poisson", check=POSITIVE, samples=parameters(positive))
row("random_binomial", check=within(0, 9), samples=[
    S(ints(2, 1), uniform(3, low=0.0, high=1.0), shape=(2, 3)), S(4, 0.5, shape=(2,)), S(4, 1, shape=(0,))])
row("random_negative_binomial", check=POSITIVE, samples=[
    S(positive(2, 1), uniform(3, low=0.1, high=1.0), shape=(2, 3)), S(4, 0.5, shape=(2,)), S(4, 1, shape=(0,))])
row("random_generalized_negative_binomial", check=POSITIVE, samples=parameters(positive, positive) + [
    S(2.0, 0.0, shape=(3,)), S(0.0, 1.0, shape=(3,))])
row("random_bernoulli", check=UNIT, samples=[
    S(uniform(3, low=0.0, high=1.0), shape=(2, 3)), S(0.5, shape=(0,)), S(1, shape=()),
    S(0.5, shape=(2,), dtype="bool")])
row("random_bernoulli_logit", check=UNIT, samples=[
    S(normal(3), shape=(2, 3)), S(0.5, shape=(0,)), S(1, shape=()), S(0.5, shape=(2,), dtype="int32")])


def _gamma_derivative(alpha, scale, sample):
    quantile, step = gammainc(alpha, sample / scale), 1e-5
    return scale * (gammaincinv(alpha + step, quantile) - gammaincinv(alpha - step, quantile)) / (2 * step)


row("gamma_sample_grad", ref=_gamma_derivative, dtypes="float64", tol=1e4, grad=(),
    samples=[S(positive(3, 4), positive(3, 4), positive(3, 4)), S(positive(), positive(), positive()),
             S(2.5, 1.0, positive(6)), S(positive(0), 1.0, positive(0))])

# -- integers, choices, orders -------------------------------------------------------------------------------------


def _distinct(inputs, outputs, attrs):
    if not attrs.get("replace", True):
        assert len(np.unique(outputs[0])) == outputs[0].size
    assert ((outputs[0] >= 0) & (outputs[0] < attrs["n"])).all()


def _reordered(inputs, outputs, attrs):
    x, y = inputs[0], outputs[0]
    if x.ndim and x.size:
        x, y = x.reshape(len(x), -1), y.reshape(len(x), -1)
        assert sorted(map(tuple, x.tolist())) == sorted(map(tuple, y.tolist()))
    else:
        np.testing.assert_array_equal(x, y)


def _counts(inputs, outputs, attrs):
    n = np.asarray(inputs[0])
    total = outputs[0].sum(axis=-1)
    if outputs[0].shape[-1]:
        np.testing.assert_array_equal(total, np.broadcast_to(
            n.reshape(n.shape + (1,) * (total.ndim - n.ndim)), total.shape))


row("random_randint", check=within(-2, 4), samples=[
    S(-2, 5, shape=(3, 4)), S(-2, 5, shape=(), dtype="int8"), S(-2, 5, shape=(0,), dtype="int32")])
row("random_permutation", check=_reordered,
    samples=[S(normal(5, 2)), S(ints(6)), S(bools(3)), S(normal()), S(normal(0, 2))])
_P = np.array([0.1, 0.2, 0.3, 0.4])
row("random_choice", check=_distinct, dtypes="float64", samples=[
    S(None, n=6, shape=(3,)), S(None, n=6, shape=(2, 3), replace=False), S(_P, n=4, shape=(5,)),
    S(_P, n=4, shape=(4,), replace=False), S(None, n=3, shape=()), S(None, n=3, shape=(0,))])
row("random_multinomial", check=_counts, dtypes="float64", samples=[
    S(10, _P), S(10, _P, shape=(2, 3)), S(10, _P, shape=(0, 2)), S(0, np.zeros(0)),
    S(np.array([3, 5]), np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), shape=(4,), dtype="float32")])
row("sample_categorical", dtypes="float64", grad=(), second=False,
    check=lambda inputs, outputs, attrs: within(0, inputs[0].shape[-1] - 1)(inputs, outputs, attrs),
    samples=[S(_P), S(_P, shape=(5,)), S(np.stack([_P, _P[::-1]]), shape=(2, 3), dtype="float32"),
             S(_P, shape=(5,), get_prob=True), S(_P, shape=(0,)), S(np.zeros((0, 4)), shape=(2,))])
row("sample_categorical_grad", dtypes="float64", grad=(),
    samples=[S(positive(2, 3), ints(2, 3, high=4), positive(2, 4))],
    ref=lambda dy, index, data: np.stack([np.bincount(i, g, data.shape[1]) for i, g in zip(index, dy)]) / data)


def _unique_rows(inputs, outputs, attrs):
    classes, tries = outputs
    assert all(len(np.unique(r)) == r.size for r in classes) and (tries >= classes.shape[1]).all()
    assert (classes >= 0).all() and (classes < attrs["range_max"]).all()


row("sample_unique_zipfian", check=_unique_rows, samples=[
    S(range_max=50, shape=(3, 20)), S(range_max=5, shape=(1, 5)), S(range_max=5, shape=(2, 0))])
