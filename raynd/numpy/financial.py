"""Financial functions, with the signatures and rules that NumPy had until 1.19 and numpy-financial has now.

All but npv and mirr solve one equation of annuities for one of its unknowns: with q = (1 + rate) ** nper,
``fv + pv * q + pmt * (1 + rate * when) * (q - 1) / rate = 0``, where ``when`` is 1 for payments at the beginning of a
period and 0 at its end. Money received is positive, money paid out negative.

Arguments are numbers, sequences or arrays, which broadcast. Numbers alone give a float; otherwise the computation is
done in double precision on the device of the arrays, differentiably, and has the dtype of their promotion.
"""
from __future__ import annotations

import numpy

from ..dispatch import F, PlaceholderScalar, Proxy
from ..errors import ShapeError
from ..ops.elementwise import default_float
from ..spec import is_float
from .logic import where
from .manipulation import as_array

__all__ = ["mirr", "npv", "pmt", "ppmt", "pv", "rate"]

_WHEN = {"end": 0, "e": 0, "finish": 0, "begin": 1, "b": 1, "beginning": 1, "start": 1}


class _Host:
    """The functions needed, for numbers."""
    where = staticmethod(numpy.where)
    sum = staticmethod(numpy.sum)
    arange = staticmethod(lambda like: numpy.arange(len(like), dtype="float64"))


class _Device:
    """The same for arrays on a device."""
    where = staticmethod(where)
    sum = staticmethod(F.sum)
    arange = staticmethod(lambda like: as_array(numpy.arange(like.shape[0], dtype="float64"), like))


def _operands(*values):
    """(namespace, operands in double precision, function that finishes a result)."""
    arrays = [x for x in values if isinstance(x, Proxy)]
    if not arrays and not any(isinstance(x, (list, tuple, numpy.ndarray, PlaceholderScalar)) for x in values):
        return _Host, [numpy.float64(x) for x in values], float
    like = arrays[0] if arrays else None
    values = [as_array(numpy.asarray(x, "float64"), like) if isinstance(x, (list, tuple, numpy.ndarray)) else x
              for x in values]
    values = [x.item() if isinstance(x, numpy.generic) else x for x in values]
    kinds = [x.dtype for x in arrays if is_float(x._spec.dtype)]
    name = numpy.result_type(*kinds).name if kinds else default_float().name
    doubles = [F.cast(x, dtype="float64") if isinstance(x, Proxy) else float(x) for x in values]
    return _Device, doubles, lambda result: F.cast(result, dtype=name)


def _when(when):
    """``when`` as a number, or the array that it is."""
    if isinstance(when, str):
        if when not in _WHEN:
            raise ShapeError(f"when must be one of {sorted(_WHEN)}, 0 or 1, not {when!r}")
        return _WHEN[when]
    if isinstance(when, (list, tuple)):
        return [_when(w) for w in when]
    return when


def _annuity(xp, rate, nper, when):
    """(q, the factor of pmt); without interest the latter is the number of payments."""
    q = (1 + rate) ** nper
    safe = xp.where(rate == 0, 1.0, rate) if isinstance(rate, Proxy) or xp is _Host else rate or 1.0
    factor = (1 + rate * when) * (q - 1) / safe
    if isinstance(rate, Proxy) or xp is _Host:
        return q, xp.where(rate == 0, nper + 0 * q, factor)
    return q, factor if rate else nper


def _payment(xp, rate, nper, pv, fv, when):
    q, factor = _annuity(xp, rate, nper, when)
    return -(fv + pv * q) / factor


def pmt(rate, nper, pv, fv=0, when="end"):
    """The payment of each of ``nper`` periods that turns ``pv`` into ``fv`` at the interest ``rate`` a period."""
    xp, (rate, nper, pv, fv, when), finish = _operands(rate, nper, pv, fv, _when(when))
    return finish(_payment(xp, rate, nper, pv, fv, when))


def ppmt(rate, per, nper, pv, fv=0, when="end"):
    """The part of the payment of period ``per`` (1 to ``nper``) that goes against the principal."""
    xp, (rate, per, nper, pv, fv, when), finish = _operands(rate, per, nper, pv, fv, _when(when))
    total = _payment(xp, rate, nper, pv, fv, when)
    q, factor = _annuity(xp, rate, per - 1, when)
    interest = -(pv * q + total * factor) * rate         # on the balance after the periods before
    first = (when == 1) * (per == 1)
    return finish(total - interest * (1 - first) / (1 + rate * (when == 1)))


def pv(rate, nper, pmt, fv=0, when="end"):
    """The present value of ``nper`` payments ``pmt`` and a final ``fv`` at the interest ``rate`` a period."""
    xp, (rate, nper, pmt, fv, when), finish = _operands(rate, nper, pmt, fv, _when(when))
    q, factor = _annuity(xp, rate, nper, when)
    return finish(-(fv + pmt * factor) / q)


def rate(nper, pmt, pv, fv, when="end", guess=None, tol=None, maxiter=100):
    """The interest rate a period, by Newton's method from ``guess`` (0.1) until every step is smaller than ``tol``
    (1e-6); nan everywhere if ``maxiter`` steps do not suffice. Waits for each step's size."""
    guess, tol = 0.1 if guess is None else guess, 1e-6 if tol is None else float(tol)
    xp, (nper, pmt, pv, fv, when, now), finish = _operands(nper, pmt, pv, fv, _when(when), guess)
    for _ in range(maxiter):
        q, factor = _annuity(xp, now, nper, when)
        residual = fv + pv * q + pmt * factor
        slope_of_q = nper * (1 + now) ** (nper - 1)
        slope = pv * slope_of_q + pmt * ((slope_of_q * (1 + now * when) + (q - 1) * when) / now
                                         - (1 + now * when) * (q - 1) / now ** 2)
        following = now - residual / slope
        step = abs(following - now)
        now = following
        if float(step.max() if isinstance(step, Proxy) else step) < tol:
            return finish(now)
    return finish(now * float("nan"))


def npv(rate, values):
    """The net present value of cash flows, the first of them now: ``sum(values[t] / (1 + rate) ** t)``."""
    xp, (rate, values), finish = _operands(rate, [values] if numpy.isscalar(values) else values)
    return finish(_npv(xp, rate, values))


def _npv(xp, rate, values):
    return xp.sum(values / (1 + rate) ** xp.arange(values), axis=0)


def mirr(values, finance_rate, reinvest_rate):
    """The modified internal rate of return of the cash flows ``values``: what is paid out costs ``finance_rate``, what
    comes in earns ``reinvest_rate``. nan unless there are flows of both signs."""
    xp, (values, finance, reinvest), finish = _operands(values, finance_rate, reinvest_rate)
    n = len(values)
    if n < 2:
        return finish(xp.sum(values) * float("nan"))
    earned = abs(_npv(xp, reinvest, xp.where(values > 0, values, 0.0)))
    spent = abs(_npv(xp, finance, xp.where(values < 0, values, 0.0)))
    both = (earned > 0) * (spent > 0)
    ratio = xp.where(both, earned, 1.0) / xp.where(both, spent, 1.0)
    return finish(xp.where(both, ratio ** (1 / (n - 1)) * (1 + reinvest) - 1, float("nan")))
