"""Rows of arithmetic, comparison and mathematical operators."""
import numpy as np
import scipy.special
from table import S, binary_row, bools, distinct, exempt, ints, normal, positive, row, unary_row, uniform

# -- arithmetic ----------------------------------------------------------------------------------------------------

unary_row("negative", np.negative, ints_as="int32 int8")
unary_row("positive", np.positive, ints_as="int32")
unary_row("absolute", np.absolute, ints_as="int32 int8")
unary_row("fabs", np.absolute, ints_as="int32")
unary_row("sign", np.sign, ints_as="int32 int8")
unary_row("square", np.square, ints_as="int32")
unary_row("reciprocal", np.reciprocal, low=0.5, high=2)

binary_row("add", np.add, ints_as="int32 int8")
binary_row("subtract", np.subtract, ints_as="int32 int8")
binary_row("multiply", np.multiply, ints_as="int32 int8")
binary_row("true_divide", np.true_divide, low2=0.5, high2=2.0, ints_as="int32")
binary_row("floor_divide", np.floor_divide, low2=0.5, high2=2.0, dtypes="float32 float64", scalar=1.51)
binary_row("mod", np.mod, low2=0.5, high2=2.0, dtypes="float32 float64", scalar=1.51)
binary_row("fmod", np.fmod, low2=0.5, high2=2.0, dtypes="float32 float64", scalar=1.51)
binary_row("maximum", np.maximum, ints_as="int32")
binary_row("minimum", np.minimum, ints_as="int32")
binary_row("fmax", np.fmax)
binary_row("fmin", np.fmin)
binary_row("hypot", np.hypot, low=0.5)
binary_row("arctan2", np.arctan2, low=0.5)
binary_row("logaddexp", np.logaddexp)
binary_row("copysign", np.copysign)
binary_row("ldexp", lambda a, b: a * 2.0 ** b)
row("heaviside", ref=np.heaviside, samples=[S(distinct(3, 4), normal(4)), S(np.array([-1.0, 0, 2]), 0.5, grad=False),
                                            S(normal(0), normal(0)), S(0, normal(3))])
row("lcm", ref=np.lcm, samples=[S(ints(3, 4, low=1), ints(4, low=1)), S(ints(3), 4), S(6, ints(3)), S(ints(0), 2)])
row("gcd", ref=np.gcd, samples=[S(ints(3, 4, low=1), ints(4, low=1)), S(ints(3), 4), S(6, ints(3)), S(ints(0), 2)])

_power = binary_row("power", np.power, low=0.5, high=2, low2=-2, high2=2, tol=2)
_power.samples += [S(uniform(2, 3, low=0.5, high=2), b) for b in (2, 3, 1, 0, 0.5, -1, -2, 2.0)]
_power.samples += [S(np.array([-1.5, 0.0, 2.0]), b) for b in (2, 3, 1)]
_power.samples += [S(2, normal(3)), S(ints(4), 2), S(ints(4), 3.0)]
exempt("power_partial", "power", "float_power")
binary_row("float_power", np.power, low=0.5, high=2, low2=-2, high2=2, dtypes="float64")
row("cast", ref=lambda x, dtype: x.astype(dtype), dtypes="float64",
    samples=[S(normal(3, 4), dtype="float64"), S(normal(), dtype="int32"), S(normal(0, 2), dtype="float16"),
             S(ints(3), dtype="bool"), S(ints(3), dtype="float32"), S(bools(2, 2), dtype="float64")])

# -- comparison and choice -----------------------------------------------------------------------------------------

for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    row(_name, ref=getattr(np, _name),
        samples=[S(normal(3, 4), normal(4)), S(ints(5, high=3), ints(5, high=3)), S(ints(5, high=3), 1),
                 S(1.0, ints(5, high=3)), S(normal(), normal()), S(normal(0, 3), normal(3)), S(bools(4), bools(4)),
                 S(ints(4, dtype="uint8"), -1), S(ints(4, dtype="int8"), 300)])
for _name in ("logical_and", "logical_or", "logical_xor"):
    row(_name, ref=getattr(np, _name),
        samples=[S(ints(3, 4, high=2), ints(4, high=2)), S(bools(3), True), S(0, normal(3)), S(bools(), bools()),
                 S(normal(0, 3), normal(3))])
row("logical_not", ref=np.logical_not, samples=[S(ints(3, 4, high=2)), S(bools()), S(normal(3)), S(normal(0, 2))])
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    row(_name, ref=getattr(np, _name),
        samples=[S(ints(3, 4), ints(4)), S(bools(3), bools(3)), S(ints(3, dtype="int8"), 5), S(6, ints(3)),
                 S(ints(), ints()), S(ints(0, 3), ints(3)), S(ints(3, dtype="int8"), -1)]
        if _name == "bitwise_and" else
        [S(ints(3, 4), ints(4)), S(bools(3), bools(3)), S(ints(3, dtype="int8"), 5), S(6, ints(3)), S(ints(0), 1)])
for _name in ("left_shift", "right_shift"):
    row(_name, ref=getattr(np, _name),
        samples=[S(ints(3, 4), ints(4, high=5)), S(ints(3, dtype="int32"), 2), S(64, ints(3, high=5)),
                 S(ints(), ints(high=3)), S(ints(0), 1)])
row("invert", ref=np.invert, samples=[S(ints(3, 4)), S(bools(3)), S(ints(3, dtype="uint8")), S(ints()), S(ints(0))])

_specials = np.array([1.0, -2.0, np.nan, np.inf, -np.inf, 0.0, -0.0])
for _name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit"):
    row(_name, ref=getattr(np, _name), samples=[S(_specials), S(normal(2, 3)), S(normal()), S(normal(0, 3))])
_close = np.array([1.0, 1.0 + 1e-6, 1.1, np.nan, np.inf])
for _name, _ref in (("isclose", np.isclose), ("allclose", np.allclose)):
    row(_name, ref=_ref, dtypes="float32 float64",
        samples=[S(_close, np.ones(5)), S(_close, np.ones(5), rtol=0.2, atol=0.1), S(_close, _close, equal_nan=True),
                 S(normal(0, 3), normal(3)), S(normal(2, 3), 0.5), S(ints(3), ints(3))])
row("all_equal", ref=lambda a, b, equal_nan=False: np.array(np.array_equal(a, b, equal_nan)),
    samples=[S(_close, _close), S(_close, _close, equal_nan=True), S(ints(3), ints(3)), S(normal(), normal())])
row("where", ref=lambda c, x, y: np.where(c, x, y), ints_as="int32",
    samples=[S(bools(3, 4), normal(3, 4), normal(3, 4)), S(bools(4), normal(3, 4), normal(3, 1)),
             S(bools(3), normal(3), 0.5),
             S(ints(3, high=2), 2.0, normal(3)), S(bools(), normal(), normal()), S(bools(0), normal(0), normal(0)),
             S(True, normal(3), normal(3))])
row("clip", ref=lambda x, lo, hi: np.clip(x, lo, hi),
    samples=[S(normal(3, 4), -0.5, 0.5), S(normal(5), None, 0.3), S(normal(5), 0.2, None), S(normal(), -1.0, 1.0),
             S(normal(0, 2), 0.0, 1.0), S(ints(5), 2, 5)])
row("nan_to_num", ref=np.nan_to_num, dtypes="float64",
    samples=[S(_specials, grad=False), S(_specials, grad=False, nan=3.0, posinf=1.0, neginf=2.0),
             S(normal(3)), S(normal()), S(normal(0)),
             S(ints(3))])
row("interp", ref=lambda x, p, v, **options: np.interp(x, p, v, **options),
    samples=[S(uniform(3, 4, high=5), np.arange(4.0), normal(4)), S(normal(3), np.arange(4.0), normal(4), left=9.0),
             S(uniform(3, high=9), np.arange(4.0), normal(4), period=4.0), S(normal(0), np.arange(2.0), normal(2))],
    dtypes="float64")

# -- mathematics ---------------------------------------------------------------------------------------------------

for _name in ("exp", "expm1", "exp2", "sin", "cos", "tanh", "sinh", "cosh", "arctan", "arcsinh", "degrees", "radians"):
    unary_row(_name, getattr(np, _name), ints_as="int32 int8", tol=2)
unary_row("tan", np.tan, low=-1, high=1)
for _name in ("log", "log2", "log10", "sqrt", "cbrt"):
    unary_row(_name, getattr(np, _name), low=0.3, high=3, tol=2)
unary_row("log1p", np.log1p, low=-0.5, high=2)
unary_row("rsqrt", lambda x: x ** -0.5, low=0.3, high=3, tol=2)
unary_row("rcbrt", lambda x: 1 / np.cbrt(x), low=0.3, high=3, tol=2)
for _name in ("arcsin", "arccos", "arctanh"):
    unary_row(_name, getattr(np, _name), low=-0.8, high=0.8, tol=3)
unary_row("arccosh", np.arccosh, low=1.2, high=3, tol=5)
exempt("tanh_grad", "tanh")
for _name in ("floor", "ceil", "trunc", "rint", "fix"):
    unary_row(_name, getattr(np, _name), ints_as="int32")
row("round", ref=lambda x, decimals=0: np.round(x, decimals), dtypes="float32 float64",
    samples=[S(normal(3, 4)), S(normal(5, scale=20), decimals=-1), S(normal(5), decimals=2), S(normal()),
             S(normal(0, 2)), S(ints(5, high=99), decimals=-1)])
unary_row("erf", scipy.special.erf, ints_as="int32")
unary_row("erfinv", scipy.special.erfinv, low=-0.9, high=0.9, tol=4)
unary_row("gamma", scipy.special.gamma, low=0.5, high=3, tol=4)
unary_row("gammaln", scipy.special.gammaln, low=0.5, high=4, tol=4)
unary_row("digamma", scipy.special.digamma, low=0.5, high=4, tol=4)
row("polygamma", ref=lambda x, order: scipy.special.polygamma(order, x) if order else scipy.special.digamma(x), tol=10,
    samples=[S(positive(3, 4), order=1), S(positive(3), order=2), S(positive(), order=0), S(positive(0), order=1)])
unary_row("i0", scipy.special.i0, tol=2)
unary_row("i1", scipy.special.i1, tol=2)
