"""Random numbers: distributions (chi-square and Kolmogorov-Smirnov with fixed seeds), shapes, seeding, errors and
gradients, the same numbers in every mode and batch size."""
from __future__ import annotations

import numpy
import pytest
import scipy.stats as stats

import raynd as mx
from raynd import autograd, np
from raynd.dispatch import F
from raynd.numpy_extension import random as npx_random

N = 20000
P_MIN = 1e-4            # fixed seeds: a failure is a change of the generator, not chance


def continuous(samples, distribution, *args):
    """Kolmogorov-Smirnov test of samples."""
    assert stats.kstest(samples.astype("float64").ravel(), distribution, args=args).pvalue > P_MIN


def discrete(samples, distribution):
    """Chi-square test of samples of a frozen discrete distribution, tails pooled."""
    values = samples.astype("int64").ravel()
    low, high = int(distribution.ppf(0.002)), int(distribution.ppf(0.998))
    edges = numpy.arange(low, high + 1)
    observed = [(values <= low).sum(), *[(values == k).sum() for k in edges[1:-1]], (values >= high).sum()]
    expected = [distribution.cdf(low), *distribution.pmf(edges[1:-1]), distribution.sf(high - 1)]
    observed, expected = numpy.array(observed, float), numpy.array(expected) * values.size
    keep = expected > 5
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > P_MIN


@pytest.fixture(autouse=True)
def seeded():
    mx.random.seed(20)


CONTINUOUS = [
    ("uniform", (-1.0, 3.0), "uniform", (-1, 4)), ("normal", (1.0, 2.0), "norm", (1, 2)),
    ("laplace", (1.0, 2.0), "laplace", (1, 2)), ("logistic", (1.0, 2.0), "logistic", (1, 2)),
    ("gumbel", (1.0, 2.0), "gumbel_r", (1, 2)), ("exponential", (2.0,), "expon", (0, 2)),
    ("rayleigh", (2.0,), "rayleigh", (0, 2)), ("weibull", (1.5,), "weibull_min", (1.5,)),
    ("pareto", (2.5,), "lomax", (2.5,)), ("power", (2.5,), "powerlaw", (2.5,)),
    ("lognormal", (0.5, 0.7), "lognorm", (0.7, 0, numpy.exp(0.5))), ("gamma", (0.4, 2.0), "gamma", (0.4, 0, 2)),
    ("gamma", (3.0, 2.0), "gamma", (3, 0, 2)), ("beta", (0.5, 2.0), "beta", (0.5, 2)),
    ("chisquare", (3.0,), "chi2", (3,)),
    ("f", (5.0, 7.0), "f", (5, 7)),
]


@pytest.mark.parametrize("name, params, reference, args", CONTINUOUS)
@pytest.mark.parametrize("arrays", [False, True])
def test_continuous_distributions(name, params, reference, args, arrays):
    if arrays:
        params = [np.full((N,), p) for p in params]
    samples = getattr(np.random, name)(*params, **({} if arrays else {"size": N}))
    assert samples.shape == (N,) and samples.dtype == "float32"
    continuous(samples.asnumpy(), reference, *args)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_of_samples(dtype):
    for name in ("uniform", "normal", "laplace"):
        samples = getattr(np.random, name)(size=(N,), dtype=dtype)
        assert samples.dtype == dtype
        if dtype != "float16":
            continuous(samples.asnumpy(), {"uniform": "uniform", "normal": "norm", "laplace": "laplace"}[name])
    assert np.random.gamma(2.0, size=3, dtype=dtype).dtype == dtype
    half = np.random.uniform(size=(N,), dtype="float16").asnumpy()
    assert half.max() < 1 and half.min() >= 0


@pytest.mark.parametrize("arrays", [False, True])
def test_discrete_distributions(arrays):
    def call(function, *params):
        if arrays:
            return function(*[mx.nd.array([p]) for p in params], shape=(N,)).asnumpy()
        return function(*params, shape=(N,)).asnumpy()
    discrete(call(mx.nd.random.poisson, 4.0), stats.poisson(4))
    discrete(call(mx.nd.random.binomial, 20, 0.3), stats.binom(20, 0.3))
    discrete(call(mx.nd.random.negative_binomial, 3, 0.4), stats.nbinom(3, 0.4))
    discrete(call(mx.nd.random.generalized_negative_binomial, 2.0, 0.3), stats.nbinom(1 / 0.3, 1 / (2 * 0.3 + 1)))


def test_integers():
    values = np.random.randint(-3, 4, size=(N,)).asnumpy()
    assert values.dtype == "int64" and values.min() == -3 and values.max() == 3
    discrete(values, stats.randint(-3, 4))
    assert np.random.randint(5).shape == () and np.random.randint(5, size=2, dtype="uint8").dtype == "uint8"
    big = np.random.randint(2 ** 40, 2 ** 40 + 10, size=(5,)).asnumpy()
    assert (big >= 2 ** 40).all()
    assert mx.nd.random.randint(0, 5).dtype is numpy.int32


def test_bernoulli():
    assert abs(npx_bernoulli(prob=0.3) - 0.3) < 0.02
    assert abs(npx_bernoulli(logit=0.5) - 1 / (1 + numpy.exp(-0.5))) < 0.02


def npx_bernoulli(**kwargs):
    return npx_random.bernoulli(size=(N,), **kwargs).asnumpy().mean()


def test_choice():
    p = numpy.array([0.1, 0.2, 0.3, 0.4])
    drawn = np.random.choice(4, (N,), p=p.tolist()).asnumpy()
    assert stats.chisquare(numpy.bincount(drawn), p * N).pvalue > P_MIN
    firsts = [int(np.random.choice(4, 1, replace=False, p=np.array(p))) for _ in range(2000)]
    assert stats.chisquare(numpy.bincount(firsts), p * 2000).pvalue > P_MIN
    all_of = np.random.choice(10, 10, replace=False).asnumpy()
    assert sorted(all_of.tolist()) == list(range(10))
    a = np.array([[1.0, 2], [3, 4], [5, 6]])
    rows = np.random.choice(a, 2, replace=False)
    assert rows.shape == (2, 2) and all(r in a.asnumpy().tolist() for r in rows.asnumpy().tolist())
    with pytest.raises(ValueError):
        np.random.choice(3, 4, replace=False)
    with pytest.raises(ValueError):
        np.random.choice(3, 2, p=np.array([0.5, 0.5, 0.5])).asnumpy()


def test_permutations_are_uniform():
    x = np.array([0, 1, 2])
    counts = {}
    for _ in range(3000):
        order = tuple(np.random.permutation(x).asnumpy().astype(int).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert stats.chisquare(list(counts.values())).pvalue > P_MIN and len(counts) == 6
    y = np.arange(12).reshape(4, 3)
    np.random.shuffle(y)
    assert sorted(y.asnumpy().tolist()) == np.arange(12).reshape(4, 3).asnumpy().tolist()
    assert sorted(np.random.permutation(5).asnumpy().tolist()) == list(range(5))
    z = mx.nd.arange(4)
    shuffled = mx.nd.random.shuffle(z)
    assert z.asnumpy().tolist() == [0, 1, 2, 3] and sorted(shuffled.asnumpy().tolist()) == [0, 1, 2, 3]


def test_multinomial():
    counts = np.random.multinomial(1000, [0.2, 0.3, 0.5], size=(200,)).asnumpy()
    assert counts.shape == (200, 3) and (counts.sum(axis=1) == 1000).all()
    assert stats.chisquare(counts.sum(axis=0), numpy.array([0.2, 0.3, 0.5]) * 200000).pvalue > P_MIN
    nd = mx.nd.random.multinomial(mx.nd.array([3, 4]), mx.nd.array([[0.1, 0.9], [0.5, 0.5]]), shape=3)
    assert nd.shape == (2, 3, 2) and nd.asnumpy().sum(axis=-1).tolist() == [[3] * 3, [4] * 3]
    assert np.random.multinomial(5, []).shape == (0,)
    with pytest.raises(ValueError):
        np.random.multinomial(5, [[0.5, 0.5]])
    with pytest.raises(ValueError):
        np.random.multinomial(5, [0.7, 0.7]).asnumpy()


def test_categorical_and_its_gradient():
    p = mx.nd.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    p.attach_grad()
    with autograd.record():
        index, logp = mx.nd.random.categorical(p, shape=N, get_prob=True, dtype="int32")
        loss = (logp * 5).sum()
    loss.backward()
    index = index.asnumpy()
    assert index.dtype == "int32" and index.shape == (2, N)
    for row, q, g in zip(index, p.asnumpy(), p.grad.asnumpy()):
        counts = numpy.bincount(row, minlength=3)
        assert stats.chisquare(counts, q / q.sum() * N).pvalue > P_MIN
        numpy.testing.assert_allclose(g, 5 * counts / q, rtol=1e-4)
    assert isinstance(mx.nd.random.categorical(p, shape=3), mx.nd.NDArray)
    assert mx.nd.random.categorical(mx.nd.array([0.5, 0.5])).shape == (1,)


def test_multivariate_normal():
    cov = numpy.array([[2.0, 0.6], [0.6, 1.0]])
    x = np.random.multivariate_normal(np.array([1.0, -1.0]), np.array(cov), size=(N,)).asnumpy()
    assert x.shape == (N, 2)
    numpy.testing.assert_allclose(x.mean(axis=0), [1, -1], atol=0.05)
    numpy.testing.assert_allclose(numpy.cov(x.T), cov, atol=0.08)
    assert np.random.multivariate_normal(np.zeros((3, 2)), np.array(cov), size=4).shape == (4, 3, 2)
    with pytest.raises(mx.MXNetError):
        np.random.multivariate_normal(np.zeros(2), np.array([[1.0, 0], [0, -1]])).asnumpy()


def test_zipfian():
    classes, tries = mx.nd._internal._sample_unique_zipfian(1000, shape=(3, 200))
    assert all(len(numpy.unique(row)) == 200 for row in classes.asnumpy()) and (tries.asnumpy() >= 200).all()
    true = mx.nd.array([0, 1, 5]).astype("int32")
    sampled, expected_true, expected_sampled = mx.nd.contrib.rand_zipfian(true, 1000, 20)
    assert sampled.shape == (1000,) and int(sampled.max().asscalar()) < 20
    share = numpy.log((numpy.array([0, 1, 5]) + 2) / (numpy.array([0, 1, 5]) + 1)) / numpy.log(21)
    numpy.testing.assert_allclose(expected_true.asnumpy(), share * 1000, rtol=1e-6)


# -- shapes, devices, arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size, shape", [(None, ()), ((), ()), (3, (3,)), ((2, 3), (2, 3)), (0, (0,)),
                                         ((4, 0), (4, 0))])
def test_sizes(size, shape):
    for name, params, _, _ in CONTINUOUS:
        assert getattr(np.random, name)(*params, size=size).shape == shape
    assert np.random.randint(3, size=size).shape == shape
    assert np.random.choice(3, size).shape == shape


def test_parameters_broadcast():
    a, b = np.ones((3, 1)), np.ones(4)
    assert np.random.normal(a, b).shape == (3, 4)
    assert np.random.normal(a, 2.0, size=(2, 3, 5)).shape == (2, 3, 5)
    with pytest.raises(ValueError):
        np.random.normal(a, b, size=(3, 5))
    with pytest.raises(ValueError):
        np.random.gamma(a, b, size=(4,))
    assert npx_random.normal_n(a, b, batch_shape=(2,)).shape == (2, 3, 4)
    assert npx_random.uniform_n(0.0, 1.0, batch_shape=(2, 3)).shape == (2, 3)


def test_legacy_shapes():
    assert mx.nd.random.normal().shape == (1,) and mx.nd.random.normal(shape=4).shape == (4,)
    mu = mx.nd.zeros((2, 3), dtype="float64")
    drawn = mx.nd.random.normal(mu, mu + 1, shape=(5, 4))
    assert drawn.shape == (2, 3, 5, 4) and drawn.dtype is numpy.float64 and type(drawn) is mx.nd.NDArray
    assert mx.nd.sample_uniform(mx.nd.zeros(2), mx.nd.ones(2), shape=3).shape == (2, 3)
    assert mx.nd.random_uniform(0, 1, shape=(2,)).shape == mx.nd.uniform(shape=(2,)).shape == (2,)
    assert mx.random.normal(shape=(2, 2)).shape == (2, 2)
    with pytest.raises(TypeError):
        mx.nd.random.normal(mu, 1.0)
    with pytest.raises(TypeError):
        mx.nd.random.normal(0, 1, dtype="int32")
    like = mx.nd.random.uniform_like(mu, 2, 3)
    assert like.shape == mu.shape and like.dtype is numpy.float64 and (like.asnumpy() >= 2).all()


def test_out_and_devices():
    out = np.zeros((3,), device=mx.cpu(1))
    assert np.random.normal(out=out) is out and out.asnumpy().any()
    assert np.random.uniform(5, 6, size=(3,), out=out) is out and (out.asnumpy() >= 5).all()
    assert np.random.normal(size=2, device=mx.cpu(1)).device == mx.cpu(1)
    assert np.random.normal(size=2, ctx=mx.cpu(1)).device == mx.cpu(1)
    with mx.cpu(1):
        assert np.random.rand(2).device == mx.cpu(1)
    assert np.random.exponential(np.ones(3, device=mx.cpu(1))).device == mx.cpu(1)
    with pytest.raises(ValueError):
        np.random.normal(size=(2,), out=out)
    with pytest.raises(TypeError):
        np.random.uniform(low=0, hihg=1)


BAD = [
    lambda: np.random.normal(0, -1), lambda: np.random.normal(np.zeros(2), np.array([1.0, -1])),
    lambda: np.random.gamma(0.0, 1), lambda: np.random.gamma(np.array([1.0, 0]), 1),
    lambda: np.random.exponential(-1.0),
    lambda: np.random.beta(-1, 1), lambda: np.random.pareto(0), lambda: np.random.weibull(np.array([0.0])),
    lambda: np.random.laplace(0, -1), lambda: np.random.randint(5, 2), lambda: mx.nd.random.poisson(-1),
    lambda: mx.nd.random.binomial(3, 1.5), lambda: npx_random.bernoulli(1.5), lambda: mx.nd.random_exponential(0),
]


@pytest.mark.parametrize("bad", BAD)
def test_bad_values_raise_when_read(bad):
    x = bad()
    assert x.shape is not None
    with pytest.raises(ValueError) as caught:
        (x + 1).asnumpy()
    assert isinstance(caught.value, mx.MXNetError)
    with pytest.raises(ValueError):
        x.asnumpy()


# -- seeds ---------------------------------------------------------------------------------------------------------


def drawn(device=None):
    return [np.random.normal(size=(3,), device=device).asnumpy(), np.random.gamma(2.0, size=3, device=device).asnumpy(),
            np.random.choice(9, 5, device=device).asnumpy()]


def equal(a, b):
    return all(numpy.array_equal(x, y) for x, y in zip(a, b))


def test_seeds():
    mx.random.seed(5)
    first = drawn()
    assert not equal(first, drawn())
    np.random.seed(5)
    assert equal(first, drawn())
    mx.random.seed(6)
    assert not equal(first, drawn())
    mx.random.seed(-3)
    negative = drawn()
    mx.random.seed(-3)
    assert equal(negative, drawn())
    mx.random.seed(5, device=mx.cpu(1))
    on_one = drawn(mx.cpu(1))
    mx.random.seed(5, ctx=mx.cpu(1))
    assert equal(on_one, drawn(mx.cpu(1))) and not equal(on_one, first)
    with pytest.raises(TypeError):
        mx.random.seed("a")


SCRIPT = """
import raynd as mx
mx.random.seed(7)
a = [mx.np.random.normal(size=(2, 3)) for _ in range(4)]
b = mx.np.random.gamma(2.0, 3.0, size=3) + mx.nd.random.poisson(4, shape=(3,)).as_np_ndarray()
c = mx.np.random.choice(100, 5, replace=False, device=mx.cpu(1))
print([x.asnumpy().tolist() for x in a], b.asnumpy().tolist(), c.asnumpy().tolist())
"""


def test_same_numbers_however_batched(run_script):
    outputs = {run_script(SCRIPT, env={"RAYND_LOCAL_BATCH": batch}).stdout for batch in ("1", "50", "random:3")}
    assert len(outputs) == 1 and "[" in outputs.pop()


@pytest.mark.ray
def test_same_numbers_on_actors(run_script):
    assert run_script(SCRIPT).stdout == run_script(SCRIPT, mode="ray").stdout


# -- gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["normal", "logistic", "gumbel", "laplace", "uniform"])
def test_gradients_of_two_parameters(name):
    loc, scale = np.zeros((3, 4, 5)), np.ones((4, 1))
    loc.attach_grad()
    scale.attach_grad()
    with autograd.record():
        x = getattr(np.random, name)(loc, scale, size=(2, 3, 4, 5))
    x.backward()
    noise = x.asnumpy()                        # loc is 0 and scale 1
    if name == "uniform":
        numpy.testing.assert_allclose(loc.grad.asnumpy(), (1 - noise).sum(0), rtol=1e-4)
    else:
        numpy.testing.assert_allclose(loc.grad.asnumpy(), numpy.full((3, 4, 5), 2.0), rtol=1e-5)
    numpy.testing.assert_allclose(scale.grad.asnumpy(), noise.sum((0, 1, 3)).reshape(4, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["exponential", "rayleigh"])
def test_gradients_of_scales(name):
    scale = np.full((50,), 2.0)
    scale.attach_grad()
    with autograd.record():
        x = getattr(np.random, name)(scale)
    x.backward()
    numpy.testing.assert_allclose(scale.grad.asnumpy(), x.asnumpy() / 2, rtol=1e-5)


def test_gradient_of_gamma_is_implicit():
    from scipy.special import gammainc, gammaincinv
    alpha = np.array(numpy.repeat([0.2, 1.0, 4.5, 60.0], 20), dtype="float64")
    scale = np.full((80,), 1.5, dtype="float64")
    alpha.attach_grad()
    scale.attach_grad()
    with autograd.record():
        x = np.random.gamma(alpha, scale, dtype="float64")
    x.backward()
    a, v = alpha.asnumpy(), x.asnumpy()
    q = gammainc(a, v / 1.5)
    expected = 1.5 * (gammaincinv(a + 1e-4, q) - gammaincinv(a - 1e-4, q)) / 2e-4
    numpy.testing.assert_allclose(alpha.grad.asnumpy(), expected, rtol=1e-4)
    numpy.testing.assert_allclose(scale.grad.asnumpy(), v / 1.5, rtol=1e-10)


def test_second_order():
    scale = np.array([2.0])
    scale.attach_grad()
    with autograd.record():
        x = np.random.exponential(scale)
        g = autograd.grad(x * x, scale, create_graph=True)[0]
    g.backward()
    numpy.testing.assert_allclose(scale.grad.asnumpy(), 2 * (x.asnumpy() / 2) ** 2, rtol=1e-5)


# -- densities and speed -------------------------------------------------------------------------------------------


def test_densities():
    s = numpy.array([[0.5, 1.5], [0.2, 2.5]])
    nd, x = mx.nd, mx.nd.array(s, dtype="float64")

    def array(*values):
        return nd.array(values, dtype="float64")

    def check(result, expected):
        numpy.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-6)
    col = numpy.array([[1.0], [2.0]])
    check(nd.random_pdf_normal(x, array(1, 2), array(1, 2)), stats.norm.pdf(s, col, col))
    check(nd.random_pdf_normal(x, array(1, 2), array(1, 2), is_log=True), stats.norm.logpdf(s, col, col))
    check(nd.random_pdf_uniform(x, array(0, 1), array(1, 3)), stats.uniform.pdf(s, [[0], [1]], [[1], [2]]))
    check(nd.random_pdf_exponential(x, array(1, 2)), stats.expon.pdf(s, 0, 1 / col))
    check(nd.random_pdf_gamma(x, array(1, 2), array(1, 2)), stats.gamma.pdf(s, col, 0, 1 / col))
    k = numpy.array([[0.0, 3], [1, 2]])
    kx = nd.array(k, dtype="float64")
    check(nd.random_pdf_poisson(kx, array(1, 2)), stats.poisson.pmf(k, col))
    check(nd.random_pdf_negative_binomial(kx, array(1, 2), array(0.5, 0.3)), stats.nbinom.pmf(k, col, [[0.5], [0.3]]))
    check(nd.random_pdf_generalized_negative_binomial(kx, array(1, 2), array(1, 2)),
          stats.nbinom.pmf(k, 1 / col, 1 / (col * col + 1)))
    d = numpy.array([[0.2, 0.8], [0.5, 0.5]])
    check(nd.random_pdf_dirichlet(nd.array(d, dtype="float64"), array(1, 2)),
          [stats.dirichlet.pdf(row, [1, 2]) for row in d])
    with pytest.raises(ValueError):
        nd.random_pdf_poisson(kx, nd.array([1.0, 2, 3], dtype="float64"))


def test_draws_inside_programs_are_counted():
    """A recorded operator draws new numbers at every call, from the same counter as eager calls."""
    net_draws = [np.random.uniform(size=(2,)).asnumpy() for _ in range(2)]
    assert not numpy.array_equal(*net_draws)
    assert F.random_uniform(0.0, 1.0, shape=(2,)).shape == (2,)


def test_default_dtype_follows_the_mode():
    try:
        mx.util.set_np(dtype=True)
        assert np.random.normal(size=2).dtype == "float64"
    finally:
        mx.util.set_np(dtype=False)
    assert np.random.normal(size=2).dtype == "float32"


def test_single_precision_is_drawn_in_single_precision():
    """float32 samples are not made from doubles: they differ from the rounded double sequence."""
    mx.random.seed(1)
    single = np.random.normal(size=(100,)).asnumpy()
    mx.random.seed(1)
    double = np.random.normal(size=(100,), dtype="float64").asnumpy()
    assert not numpy.allclose(single, double)


