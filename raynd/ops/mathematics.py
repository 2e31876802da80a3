"""Element-wise mathematical functions: exponentials, trigonometry, rounding, special functions."""
from __future__ import annotations

import math

from .elementwise import gradient, unary
from .special import special, special_kernel

# -- exponentials, logarithms, roots -------------------------------------------------------------------------------

unary("exp", vjp=lambda F, dy, x, y: dy * y, method="exp")
unary("expm1", vjp=lambda F, dy, x, y: dy * (y + 1), method="expm1")
unary("exp2", vjp=lambda F, dy, x, y: dy * y * math.log(2), nd=())
unary("log", vjp=lambda F, dy, x, y: dy / x, method="log")
unary("log1p", vjp=lambda F, dy, x, y: dy / (x + 1), method="log1p")
unary("log2", vjp=lambda F, dy, x, y: dy / (x * math.log(2)), method="log2")
unary("log10", vjp=lambda F, dy, x, y: dy / (x * math.log(10)), method="log10")
unary("sqrt", vjp=lambda F, dy, x, y: dy * 0.5 / y, method="sqrt")
unary("cbrt", vjp=lambda F, dy, x, y: dy / (F.square(y) * 3), method="cbrt")
unary("rsqrt", lambda xp, x: xp.reciprocal(xp.sqrt(x)), vjp=lambda F, dy, x, y: dy * y * y * y * -0.5, np=(),
      npx="rsqrt", method="rsqrt", doc="One over the square root.")
unary("rcbrt", lambda xp, x: xp.reciprocal(xp.cbrt(x)), vjp=lambda F, dy, x, y: dy * y / x * (-1 / 3), np=(),
      npx="rcbrt", method="rcbrt", doc="One over the cube root.")

# -- trigonometry --------------------------------------------------------------------------------------------------

unary("sin", vjp=lambda F, dy, x, y: dy * F.cos(x), method="sin")
unary("cos", vjp=lambda F, dy, x, y: -dy * F.sin(x), method="cos")
unary("tan", vjp=lambda F, dy, x, y: dy * (F.square(y) + 1), method="tan")
unary("arcsin", vjp=lambda F, dy, x, y: dy * F.rsqrt(1 - F.square(x)), np="arcsin, asin", method="arcsin")
unary("arccos", vjp=lambda F, dy, x, y: -dy * F.rsqrt(1 - F.square(x)), np="arccos, acos", method="arccos")
unary("arctan", vjp=lambda F, dy, x, y: dy / (F.square(x) + 1), np="arctan, atan", method="arctan")
unary("sinh", vjp=lambda F, dy, x, y: dy * F.cosh(x), method="sinh")
unary("cosh", vjp=lambda F, dy, x, y: dy * F.sinh(x), method="cosh")
unary("tanh", vjp=lambda F, dy, x, y: F.tanh_grad(dy, y), method="tanh")
unary("arcsinh", vjp=lambda F, dy, x, y: dy * F.rsqrt(F.square(x) + 1), np="arcsinh, asinh", method="arcsinh")
unary("arccosh", vjp=lambda F, dy, x, y: dy * F.rsqrt(F.square(x) - 1), np="arccosh, acosh", method="arccosh")
unary("arctanh", vjp=lambda F, dy, x, y: dy / (1 - F.square(x)), np="arctanh, atanh", method="arctanh")
unary("degrees", vjp=lambda F, dy, x, y: dy * (180 / math.pi), np="degrees, rad2deg", method="degrees")
unary("radians", vjp=lambda F, dy, x, y: dy * (math.pi / 180), np="radians, deg2rad", method="radians")


gradient("tanh", lambda xp, dy, y: dy * (1 - y * y), "dy, y",
         lambda F, g, x, out: (F.tanh_grad(g, x[1]), g * x[0] * x[1] * -2))

# -- rounding ------------------------------------------------------------------------------------------------------

unary("floor", result="whole", method="floor")
unary("ceil", result="whole", method="ceil")
unary("trunc", result="whole", method="trunc")
unary("rint", method="rint")
unary("fix", "trunc", method="fix", doc="Element-wise rounding towards zero.")
unary("round", lambda xp, x, decimals: xp.round(x, decimals), result="whole", np="round, around, round_", nd=(),
      signature="x, decimals=0, out=None, **kwargs",
      doc="Rounded to ``decimals`` places, halves to even; negative ``decimals`` round left of the point.")

# -- special functions ---------------------------------------------------------------------------------------------

unary("erf", special_kernel("erf"), vjp=lambda F, dy, x, y: dy * F.exp(-F.square(x)) * (2 / math.sqrt(math.pi)),
      np=(), npx="erf", doc="The error function.")
unary("erfinv", special_kernel("erfinv"), np=(), npx="erfinv",
      vjp=lambda F, dy, x, y: dy * F.exp(F.square(y)) * (math.sqrt(math.pi) / 2), doc="The inverse error function.")
unary("gamma", special_kernel("gamma"), vjp=lambda F, dy, x, y: dy * y * F.digamma(x), np=(), npx="gamma",
      doc="The gamma function.")
unary("gammaln", special_kernel("gammaln"), vjp=lambda F, dy, x, y: dy * F.digamma(x), np=(), npx="gammaln",
      doc="The logarithm of the absolute value of the gamma function.")
unary("digamma", special_kernel("digamma"), vjp=lambda F, dy, x, y: dy * F.polygamma(x, order=1), np=(), npx="digamma",
      doc="The derivative of gammaln.")


def _polygamma(xp, x, order):
    wide = x.astype("float32") if x.dtype.itemsize <= 2 else x
    if order == 0:
        return special(xp, "digamma")(wide)
    return special(xp, "polygamma")(order, wide)


unary("polygamma", _polygamma, vjp=lambda F, dy, x, y, order: dy * F.polygamma(x, order=order + 1), np=(), nd=(),
      signature="x, order", doc="The derivative of ``order`` of digamma.")
unary("i0", special_kernel("i0"), vjp=lambda F, dy, x, y: dy * F.i1(x), np="i0", nd=(),
      doc="The modified Bessel function of the first kind, order 0.")
unary("i1", special_kernel("i1"), vjp=lambda F, dy, x, y: dy * F.where(F.equal(x, 0), 0.5, F.i0(x) - y / x), np=(),
      nd=(),
      doc="The modified Bessel function of the first kind, order 1.")
