"""Operators that draw random numbers. Each gets one generator (``rng``), keyed by (seed, device, draw number).

Two kinds of distribution:

* Those with a transformation ``sample = T(parameters, noise)`` of noise that does not depend on the parameters. With
  numbers as parameters one record draws and transforms (``random_normal``); with arrays, ``random_noise`` draws and
  ``normal_transform`` transforms, so that gradients (of any order) flow to the parameters.
* Those sampled by a generator method (gamma, poisson, ...); of these only gamma has a gradient (implicit
  reparametrisation, Figurnov, Mohamed and Mnih 2018).

What depends on values (a negative scale) is checked in the kernels: an error value, in every mode alike. Kernels use
only what the generators of NumPy and of CuPy share.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, as_dtype, as_shape, broadcast, is_float, spec
from .elementwise import default_float, operand_shape
from .registry import operator


def sample_shape(shape, *params):
    """The shape of a sample: ``shape``, to which the parameters must broadcast, or else that of the parameters."""
    common = broadcast((), *[operand_shape(p) for p in params])
    if shape is None:
        return common
    shape = as_shape(shape)
    if broadcast(shape, common) != shape:
        raise ShapeError(f"parameters of shape {common} do not broadcast to the size {shape}")
    return shape


def float_dtype(dtype):
    """The dtype of a sample of reals: ``dtype``, by default the default float."""
    return default_float() if dtype is None else as_dtype(dtype)


def _compute(xp, dtype):
    """The type in which samples of ``dtype`` are computed: double only where it is asked for."""
    return xp.float64 if dtype == "float64" or dtype is not None and as_dtype(dtype).kind in "iu" else xp.float32


def _any(condition):
    return bool(condition.any()) if hasattr(condition, "any") else bool(condition)


def require(condition, message):
    """Raise ValueError unless ``condition`` (a bool or an array) holds everywhere."""
    if not (bool(condition.all()) if hasattr(condition, "all") else condition):
        raise ValueError(message)


# -- noise ---------------------------------------------------------------------------------------------------------


def _open_uniform(xp, rng, shape):
    """Doubles in the open interval (0, 1)."""
    return xp.maximum(rng.random(shape), 2.0 ** -54)


def _uniform(xp, rng, shape, dtype):
    """In [0, 1). Half precision gets 11 random bits (bfloat16 8), so that 1.0 never comes out by rounding."""
    values = rng.random(shape, dtype=_compute(xp, dtype))
    bits = {"float16": 2048.0, "bfloat16": 256.0}.get(dtype)
    return values if bits is None else xp.floor(values * bits) / bits


def _laplace(xp, rng, shape, dtype):
    compute = _compute(xp, dtype)
    return rng.standard_exponential(shape, dtype=compute) - rng.standard_exponential(shape, dtype=compute)


def _logistic(xp, rng, shape, dtype):
    u = _open_uniform(xp, rng, shape)
    return xp.log(u) - xp.log1p(-u)


NOISE = {
    "uniform": _uniform,
    "normal": lambda xp, rng, shape, dtype: rng.standard_normal(shape, dtype=_compute(xp, dtype)),
    "exponential": lambda xp, rng, shape, dtype: rng.standard_exponential(shape, dtype=_compute(xp, dtype)),
    "laplace": _laplace,
    "logistic": _logistic,
    "gumbel": lambda xp, rng, shape, dtype: -xp.log(-xp.log(_open_uniform(xp, rng, shape))),
}


operator("random_noise", "kind, shape, dtype", inputs="", draws=1,
         infer=lambda kind, shape, dtype: spec(as_shape(shape), as_dtype(dtype)),
         kernel=lambda xp, kind, shape, dtype, rng: NOISE[kind](xp, rng, shape, dtype),
         doc="Noise of a standard distribution: uniform, normal, exponential, laplace, logistic or gumbel.")

# -- distributions by transformation -------------------------------------------------------------------------------


def _non_negative(value, name):
    require(value >= 0, f"expect {name} >= 0")


def _positive(value, name):
    require(value > 0, f"expect {name} > 0")


def _affine(xp, loc, scale, noise):
    if type(scale) is float and scale == 1.0 and type(loc) is float and loc == 0.0:
        return noise
    return noise * scale + loc


def _affine_vjp(F, dy, x, y):
    return dy, dy * x[2], dy * x[1]


def _scale_vjp(F, dy, x, y):
    return dy * x[1], dy * x[0]


class Family:
    """A distribution given by a transformation. ``check(*parameters)`` raises for bad values; ``transform(xp,
    *parameters, noise)`` and its ``vjp`` are those of an element-wise operator."""

    def __init__(self, name, parameters, noise, check, transform, vjp):
        self.name, self.parameters, self.noise, self.check, self.transform = name, parameters, noise, check, transform
        names = ", ".join(parameters)
        operator(f"random_{name}", f"{names}, shape=None, dtype=None", inputs=names, draws=1, infer=self.infer,
                 kernel=self.draw, doc=f"A {name} sample; the parameters are numbers.")
        operator(f"{name}_transform", f"{names}, noise", broadcasts=True, infer=self.infer_transform,
                 kernel=self.apply, vjp=vjp, doc=f"A {name} sample from noise and array parameters.")

    def infer(self, *params, shape=None, dtype=None):
        """Spec of a draw."""
        if any(isinstance(p, ArraySpec) for p in params):
            raise ArgumentError(f"random_{self.name} takes numbers; for arrays draw random_noise and apply "
                                f"{self.name}_transform")
        return spec(sample_shape(shape), float_dtype(dtype))

    def infer_transform(self, *specs):
        """The noise already has the result's spec."""
        *params, noise = specs
        return spec(sample_shape(noise.shape, *params), noise.dtype)

    def draw(self, xp, *params, shape, dtype, rng):
        """Kernel of a draw."""
        self.check(*params)
        dtype = dtype or default_float().name
        noise = NOISE[self.noise](xp, rng, shape or (), dtype)
        return self.transform(xp, *[float(p) for p in params], noise)

    def apply(self, xp, *arrays):
        """Kernel of the transformation; it computes in the noise's dtype, in single precision for halves."""
        *params, noise = arrays
        self.check(*params)
        compute = _compute(xp, noise.dtype.name)
        params = [p.astype(compute) if hasattr(p, "dtype") else float(p) for p in params]
        return self.transform(xp, *params, noise.astype(compute))


FAMILIES = {f.name: f for f in (
    Family("uniform", ("low", "high"), "uniform", lambda low, high: None,
           lambda xp, low, high, u: u if type(low) is float and type(high) is float and (low, high) == (0.0, 1.0)
           else u * (high - low) + low,
           lambda F, dy, x, y: (dy * (1 - x[2]), dy * x[2], dy * x[1] - dy * x[0])),
    Family("normal", ("loc", "scale"), "normal", lambda loc, scale: _non_negative(scale, "scale"), _affine,
           _affine_vjp),
    Family("laplace", ("loc", "scale"), "laplace", lambda loc, scale: _non_negative(scale, "scale"), _affine,
           _affine_vjp),
    Family("logistic", ("loc", "scale"), "logistic", lambda loc, scale: _non_negative(scale, "scale"), _affine,
           _affine_vjp),
    Family("gumbel", ("loc", "scale"), "gumbel", lambda loc, scale: _non_negative(scale, "scale"), _affine,
           _affine_vjp),
    Family("exponential", ("scale",), "exponential", lambda scale: _non_negative(scale, "scale"),
           lambda xp, scale, e: e * scale, _scale_vjp),
    Family("rayleigh", ("scale",), "exponential", lambda scale: _non_negative(scale, "scale"),
           lambda xp, scale, e: xp.sqrt(e * 2) * scale,
           lambda F, dy, x, y: (dy * F.sqrt(x[1] * 2), dy * x[0] / F.sqrt(x[1] * 2))),
    # with E standard exponential: E**(1/a); exp(E/a) - 1; exp(-E/a), whose gradients need no logarithm of the sample
    Family("weibull", ("a",), "exponential", lambda a: _positive(a, "a"),
           lambda xp, a, e: e ** (1 / a),
           lambda F, dy, x, y: (-dy * y[0] * F.log(x[1]) / x[0] / x[0], dy * y[0] / x[0] / x[1])),
    Family("pareto", ("a",), "exponential", lambda a: _positive(a, "a"),
           lambda xp, a, e: xp.expm1(e / a),
           lambda F, dy, x, y: (-dy * (y[0] + 1) * x[1] / x[0] / x[0], dy * (y[0] + 1) / x[0])),
    Family("power", ("a",), "exponential", lambda a: _positive(a, "a"),
           lambda xp, a, e: xp.exp(-e / a),
           lambda F, dy, x, y: (dy * y[0] * x[1] / x[0] / x[0], -dy * y[0] / x[0])),
)}

# -- distributions by generator methods ----------------------------------------------------------------------------


def _sampled(name, parameters, kernel, vjp=None, infer_dtype=float_dtype, doc=None):
    """A record whose parameters are numbers or arrays that broadcast to the sample's shape."""
    names = ", ".join(parameters)

    def infer(*params, shape=None, dtype=None):
        return spec(sample_shape(shape, *params), infer_dtype(dtype))

    def run(xp, *params, shape, dtype, rng):
        if shape is None:
            shape = broadcast((), *[getattr(p, "shape", ()) for p in params])
        return kernel(xp, rng, shape, dtype or infer_dtype(None).name, *params)

    operator(f"random_{name}", f"{names}, shape=None, dtype=None", inputs=names, draws=1, infer=infer, kernel=run,
             vjp=vjp, broadcasts=vjp is not None, doc=doc or f"A {name} sample.")


def _double(value):
    """A parameter as a float or a double array."""
    return value.astype("float64") if hasattr(value, "dtype") else float(value)


def _standard_gamma(xp, rng, alpha, shape, dtype):
    """Gamma(alpha, 1). Small shapes use Gamma(alpha + 1) * U**(1/alpha), which single precision survives."""
    if hasattr(alpha, "dtype"):
        return rng.standard_gamma(xp.broadcast_to(_double(alpha), shape), shape)
    return rng.standard_gamma(alpha, shape, dtype=_compute(xp, dtype))


def _gamma(xp, rng, shape, dtype, alpha, scale):
    require(alpha > 0, "expect shape > 0")
    require(scale > 0, "expect scale > 0")
    return _standard_gamma(xp, rng, alpha, shape, dtype) * _double(scale)


_sampled("gamma", ("alpha", "scale"), _gamma,
         vjp=lambda F, dy, x, y, shape, dtype: (dy * F.gamma_sample_grad(x[0], x[1], y[0]), dy * y[0] / x[1]),
         doc="A gamma sample of shape parameter alpha and of scale; differentiable with regard to both.")


def _beta(xp, rng, shape, dtype, a, b):
    require(a > 0, "expect a > 0")
    require(b > 0, "expect b > 0")
    return rng.beta(_double(a), _double(b), shape)


def _chisquare(xp, rng, shape, dtype, df):
    require(df > 0, "expect df > 0")
    return _standard_gamma(xp, rng, df * 0.5, shape, dtype) * 2


def _f(xp, rng, shape, dtype, dfnum, dfden):
    require(dfnum > 0, "expect dfnum > 0")
    require(dfden > 0, "expect dfden > 0")
    top = _standard_gamma(xp, rng, dfnum * 0.5, shape, "float64") / _double(dfnum)
    return top / (_standard_gamma(xp, rng, dfden * 0.5, shape, "float64") / _double(dfden))


def _poisson(xp, rng, shape, dtype, lam):
    require(lam >= 0, "expect lam >= 0")
    return rng.poisson(_double(lam), shape)


def _binomial(xp, rng, shape, dtype, n, p):
    require(n >= 0, "expect n >= 0")
    require((p >= 0) & (p <= 1), "expect 0 <= p <= 1")
    n = n.astype("int64") if hasattr(n, "dtype") else int(n)
    return rng.binomial(n, _double(p), shape)


def _negative_binomial(xp, rng, shape, dtype, k, p):
    """Failures before the k-th success: Poisson with a gamma-distributed mean."""
    require(k > 0, "expect k > 0")
    require((p > 0) & (p <= 1), "expect 0 < p <= 1")
    rate = _standard_gamma(xp, rng, _double(k), shape, "float64") * ((1 - _double(p)) / _double(p))
    return rng.poisson(rate, shape)


def _generalized_negative_binomial(xp, rng, shape, dtype, mu, alpha):
    """Mean mu, variance mu + alpha * mu**2; alpha = 0 is Poisson."""
    require(mu >= 0, "expect mu >= 0")
    require(alpha >= 0, "expect alpha >= 0")
    mu, alpha = xp.broadcast_to(xp.asarray(_double(mu)), shape), xp.broadcast_to(xp.asarray(_double(alpha)), shape)
    safe = xp.where(alpha > 0, alpha, 1.0)
    mixed = rng.standard_gamma(1 / safe, shape) * (mu * safe)
    return rng.poisson(xp.where(alpha > 0, mixed, mu), shape)


def _bernoulli(xp, rng, shape, dtype, prob):
    require((prob >= 0) & (prob <= 1), "expect 0 <= prob <= 1")
    return rng.random(shape) < prob


def _bernoulli_logit(xp, rng, shape, dtype, logit):
    u = _open_uniform(xp, rng, shape)
    return xp.log(u) - xp.log1p(-u) < logit


_sampled("beta", ("a", "b"), _beta)
_sampled("chisquare", ("df",), _chisquare)
_sampled("f", ("dfnum", "dfden"), _f)
_sampled("poisson", ("lam",), _poisson)
_sampled("binomial", ("n", "p"), _binomial)
_sampled("negative_binomial", ("k", "p"), _negative_binomial)
_sampled("generalized_negative_binomial", ("mu", "alpha"), _generalized_negative_binomial)
_sampled("bernoulli", ("prob",), _bernoulli)
_sampled("bernoulli_logit", ("logit",), _bernoulli_logit)


def _digamma(xp, x):
    """Digamma of positive doubles: recurrence up to 6, then the asymptotic series."""
    shift = xp.zeros_like(x)
    for _ in range(6):
        small = x < 6
        shift = shift - xp.where(small, 1 / x, 0.0)
        x = xp.where(small, x + 1, x)
    r = 1 / (x * x)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132))))
    return shift + xp.log(x) - 0.5 / x - series


def standard_gamma_derivative(xp, alpha, x):
    """d x / d alpha of a Gamma(alpha, 1) sample ``x`` at a fixed quantile: ``-(dP/d alpha) / (dP/dx)``.

    With ``P = x**alpha exp(-x) / Gamma(alpha + 1) * S``, ``S = sum_n x**n / ((alpha + 1) ... (alpha + n))`` this is
    ``-x / alpha * (S * (log x - digamma(alpha + 1)) + dS/d alpha)``, summed in double precision. For alpha over 1000
    it is the derivative of the Cornish-Fisher expansion of x in the normal quantile z, good to 1e-4.
    """
    alpha, x = xp.broadcast_arrays(alpha, x)
    large = alpha > 1000
    a, v = xp.where(large, 1.0, alpha), xp.where(large, 1.0, xp.maximum(x, 1e-300))
    term, total, slope, harmonic = xp.ones_like(v), xp.ones_like(v), xp.zeros_like(v), xp.zeros_like(v)
    n = 0
    while v.size:
        n += 1
        term = term * (v / (a + n))
        harmonic = harmonic + 1 / (a + n)
        total = total + term
        slope = slope - term * harmonic
        if n % 16 == 0 and bool((term * harmonic <= 1e-17 * total).all()) or n > 20000:
            break
    exact = -v / a * (total * (xp.log(v) - _digamma(xp, a + 1)) + slope)
    if not _any(large):
        return exact
    root = xp.sqrt(alpha)
    z = (x - alpha) / root
    z = z - (z * z - 1) / (3 * root)
    return xp.where(large, 1 + z / (2 * root) - (z ** 3 - 7 * z) / (72 * root ** 3), exact)


def _gamma_sample_grad(xp, alpha, scale, sample):
    alpha, scale, sample = (xp.asarray(v, dtype="float64") for v in (alpha, scale, sample))
    return standard_gamma_derivative(xp, alpha, sample / scale) * scale


operator("gamma_sample_grad", "alpha, scale, sample", first_order_only=True, infer=lambda alpha, scale, sample: sample,
         kernel=_gamma_sample_grad, doc="d sample / d alpha of a gamma sample.")

# -- integers, choices, orders -------------------------------------------------------------------------------------


def _integer_dtype(dtype):
    dtype = as_dtype("int64" if dtype is None else dtype)
    if dtype.kind not in "iu":
        raise ArgumentError(f"randint: dtype must be an integer type, not {dtype.name}")
    return dtype


def _infer_randint(low, high, shape=None, dtype=None):
    for bound in (low, high):
        if isinstance(bound, ArraySpec) or bound is float:
            raise ArgumentError("randint: low and high must be integers")
    return spec(sample_shape(shape), _integer_dtype(dtype))


def _randint(xp, low, high, shape, dtype, rng):
    if low >= high:
        raise ValueError(f"randint: low ({low}) must be below high ({high})")
    dtype = _integer_dtype(dtype)
    return rng.integers(int(low), int(high), size=shape or (), dtype=dtype.type)


operator("random_randint", "low, high, shape=None, dtype=None", inputs="low, high", draws=1, infer=_infer_randint,
         kernel=_randint, doc="Integers in [low, high).")


def _ranks(xp, rng, n, k):
    """``k`` of ``n`` numbers in random order."""
    return xp.argsort(rng.random(n))[:k]


def _infer_permutation(x):
    return x


operator("random_permutation", "x", draws=1, infer=_infer_permutation, vjp=None,
         kernel=lambda xp, x, rng: x[_ranks(xp, rng, x.shape[0], x.shape[0])] if x.ndim and x.size else x.copy(),
         doc="The array with its first axis in random order.")


def _infer_choice(p=None, n=0, shape=(), replace=True):
    shape = as_shape(shape)
    if p is not None and p.shape != (n,):
        raise ShapeError(f"choice: p has shape {p.shape} for {n} possibilities")
    count = math.prod(shape)
    if n <= 0 and count:
        raise ShapeError("choice: there is nothing to choose from")
    if not replace and count > n:
        raise ShapeError(f"choice: cannot take a sample of {count} from {n} without replacement")
    return spec(shape, "int64")


def _choice(xp, p, n, shape, replace, rng):
    count = math.prod(shape)
    if p is None:
        picked = rng.integers(0, n, size=count) if replace else _ranks(xp, rng, n, count)
        return picked.reshape(shape)
    p = p.astype("float64")
    require((p >= 0) & (p <= 1), "choice: probabilities must lie in [0, 1]")
    require(abs(float(p.sum()) - 1) < 1e-3, "choice: probabilities do not sum to 1")
    if replace:
        return pick(xp, p, rng.random(count)).reshape(shape)
    require(int((p > 0).sum()) >= count, "choice: fewer possibilities of non-zero probability than the sample takes")
    # the smallest of exponential clocks with rates p (Efraimidis and Spirakis 2006)
    clocks = xp.where(p > 0, rng.standard_exponential(n) / xp.where(p > 0, p, 1.0), xp.inf)
    return xp.argsort(clocks)[:count].reshape(shape)


def pick(xp, p, u):
    """Indices drawn with the weights ``p`` (1-D) by uniform numbers ``u``."""
    cdf = xp.cumsum(p)
    last = xp.nonzero(p)[0][-1]
    return xp.minimum(xp.searchsorted(cdf, u * cdf[-1], side="right"), last)


operator("random_choice", "p=None, n=0, shape=(), replace=True", inputs="p", optional=("p",), draws=1,
         infer=_infer_choice, kernel=_choice, doc="Indices below n, drawn with or without replacement.")


def _infer_multinomial(n, pvals, shape=None, dtype="int64"):
    """np: n is a number, pvals a vector. nd: n of shape (...,), pvals of shape (..., k)."""
    if isinstance(n, ArraySpec) and n.shape != pvals.shape[:-1]:
        raise ShapeError(f"multinomial: n has shape {n.shape}, p has shape {pvals.shape}")
    if not pvals.shape:
        raise ShapeError("multinomial: the probabilities must be at least a vector")
    return spec(pvals.shape[:-1] + (() if shape is None else as_shape(shape)) + pvals.shape[-1:], as_dtype(dtype))


def _multinomial(xp, n, pvals, shape, dtype, rng):
    """Counts by conditional binomials, one category after the other."""
    shape = tuple(shape or ())
    k = pvals.shape[-1]
    size = pvals.shape[:-1] + shape
    p = pvals.astype("float64").reshape(pvals.shape[:-1] + (1,) * len(shape) + (k,))
    require((p >= 0).all() & (p.sum(axis=-1) <= 1 + 1e-6).all(), "multinomial: p must be >= 0 and sum to at most 1")
    rest = n.astype("int64").reshape(n.shape + (1,) * len(shape)) if hasattr(n, "dtype") else int(n)
    require(rest >= 0, "multinomial: n must be >= 0")
    rest = xp.broadcast_to(xp.asarray(rest), size)
    result = xp.zeros(size + (k,), "int64")
    mass = xp.maximum(p[..., ::-1].cumsum(axis=-1)[..., ::-1], 1e-300)
    for i in range(k - 1):
        share = xp.broadcast_to(xp.clip(p[..., i] / mass[..., i], 0.0, 1.0), size)
        count = rng.binomial(rest, share, size) if result.size else result[..., i]
        result[..., i] = count
        rest = rest - count
    if k:
        result[..., k - 1] = rest
    return result


operator("random_multinomial", "n, pvals, shape=None, dtype='int64'", inputs="n, pvals", draws=1,
         infer=_infer_multinomial, kernel=_multinomial,
         doc="How often each category came in n trials; the categories are the last axis.")


def _infer_categorical(data, shape=(), get_prob=False, dtype="int32"):
    if not data.shape:
        raise ShapeError("categorical: the probabilities must be at least a vector")
    shape = as_shape(shape)
    out = data.shape[:-1] + shape if shape else data.shape[:-1] or (1,)
    first = spec(out, as_dtype(dtype))
    return (first, spec(out, data.dtype)) if get_prob else first


def _categorical(xp, data, shape, get_prob, dtype, rng):
    rows = data.reshape(-1, data.shape[-1]).astype("float64")
    require(rows >= 0, "categorical: probabilities must be >= 0")
    require(rows.sum(axis=1) > 0, "categorical: a row of probabilities sums to 0")
    count = math.prod(shape)
    u = rng.random((rows.shape[0], count))
    index = xp.stack([pick(xp, row, v) for row, v in zip(rows, u)]) if rows.shape[0] else xp.zeros((0, count), "int64")
    out = data.shape[:-1] + tuple(shape) if shape else data.shape[:-1] or (1,)
    if not get_prob:
        return index.reshape(out)
    log_prob = xp.log(xp.take_along_axis(rows, index, axis=1))
    return index.reshape(out), log_prob.reshape(out)


def _categorical_vjp(F, dy, x, y, shape, get_prob, dtype):
    if not get_prob or dy[1] is None:
        return None
    return F.sample_categorical_grad(dy[1], y[0], x[0])


def _categorical_grad(xp, dy, index, data):
    k = data.shape[-1]
    rows = data.size // k
    flat = index.reshape(rows, -1).astype("int64") + xp.arange(rows).reshape(-1, 1) * k
    counts = xp.bincount(flat.reshape(-1), weights=dy.reshape(-1).astype("float64"), minlength=rows * k)
    value = data.reshape(-1).astype("float64")
    return xp.where(value > 0, counts / xp.where(value > 0, value, 1.0), 0.0).reshape(data.shape)


operator("sample_categorical", "data, shape=(), get_prob=False, dtype='int32'", draws=1, infer=_infer_categorical,
         kernel=_categorical, vjp=_categorical_vjp,
         doc="Indices drawn with the probabilities of the last axis (and, with get_prob, their log-probabilities, "
             "whose gradient flows to the probabilities).")
operator("sample_categorical_grad", "dy, index, data", infer=lambda dy, index, data: data, kernel=_categorical_grad,
         first_order_only=True, doc="Gradient of the log-probabilities of sample_categorical.")


def _infer_zipfian(range_max, shape):
    return spec(shape, "int64"), spec(shape[:1], "int64")


def _unique_zipfian(xp, range_max, shape, rng):
    """Each row: distinct classes, log-uniform on [0, range_max), and how many tries that took."""
    batch, count = shape
    require(count <= range_max, "the sample is larger than the range")
    classes, tries = xp.zeros((batch, count), "int64"), xp.zeros(batch, "int64")
    for row in range(batch):
        order, seen, tried = [], set(), 0
        while len(order) < count:
            u = rng.random(2 * count)
            for c in (xp.exp(u * math.log(range_max + 1)).astype("int64") - 1).tolist():
                tried += 1
                if 0 <= c < range_max and c not in seen:
                    seen.add(c)
                    order.append(c)
                    if len(order) == count:
                        break
        classes[row], tries[row] = xp.asarray(order), tried
    return classes, tries


operator("sample_unique_zipfian", "range_max, shape", inputs="", draws=1, infer=_infer_zipfian,
         kernel=_unique_zipfian, doc="Distinct log-uniform classes and the number of tries for each row.")


def is_float_dtype(name):
    """Whether a dtype name is of a float."""
    return is_float(as_dtype(name))
