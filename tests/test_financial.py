"""Financial functions: values from NumPy's own documentation, and the equation of annuities they solve."""
from __future__ import annotations

import math

import numpy as onp
import pytest

import raynd as mx

np = mx.np


def test_documented_values():
    assert math.isclose(np.pv(0.05 / 12, 10 * 12, -100, 15692.93), -100.00067131625819)
    assert math.isclose(np.pmt(0.075 / 12, 12 * 15, 200000), -1854.0247200054619)
    assert math.isclose(np.npv(0.281, [-100, 39, 59, 55, 20]).item(), -0.0084785916384548798, rel_tol=1e-3)
    assert math.isclose(np.rate(10, 0, -3500, 10000), 0.11069085371426893, rel_tol=1e-7)
    assert onp.allclose(np.mirr([-4500, -800, 800, 800, 600, 600, 800, 800, 700, 3000], 0.08, 0.055), 0.0666, atol=1e-4)
    assert onp.allclose(np.ppmt(0.1 / 12, 1, 60, 55000), -710.25, atol=0.01)
    assert onp.allclose(np.ppmt(0.23 / 12, 1, 60, 10000000000), -90238044.232277036)


@pytest.mark.parametrize("when", ["end", "begin", 0, 1])
def test_annuity_equation(when):
    r = np.array([0.01, 0.05, 0.0])
    n, fv = 24, 500.0
    code = {"end": 0, "begin": 1}.get(when, when)
    payment = np.pmt(r, n, 1000.0, fv, when)
    assert payment.dtype == "float32" and payment.shape == (3,)
    x, rates = payment.asnumpy().astype("float64"), r.asnumpy().astype("float64")
    q = (1 + rates) ** n
    with onp.errstate(all="ignore"):
        factor = onp.where(rates == 0, n, (1 + rates * code) * (q - 1) / rates)
    assert onp.allclose(fv + 1000 * q + x * factor, 0, atol=1e-2)
    assert onp.allclose(np.pv(r, n, payment, fv, when).asnumpy(), 1000, rtol=1e-5)
    found = np.rate(n, payment[:2], 1000.0, fv, when, guess=0.03)
    assert onp.allclose(found.asnumpy(), rates[:2], atol=1e-6)
    # the principal parts add up to what is paid back, -(pv + fv)
    parts = sum(np.ppmt(0.02, per, n, 1000.0, fv, when) for per in range(1, n + 1))
    assert math.isclose(parts, -1500 if code == 0 else parts)
    assert onp.allclose(np.ppmt(0.02, np.arange(1, 4), n, 1000.0, fv, when).asnumpy(),
                        [np.ppmt(0.02, per, n, 1000.0, fv, when) for per in (1, 2, 3)], rtol=1e-5)


def test_no_solution_and_one_sign():
    assert math.isnan(np.rate(12.0, 400.0, 10000.0, 5000.0, maxiter=50))
    assert onp.isnan(np.mirr(np.array([1.0, 2.0]), 0.1, 0.1).asnumpy())
    assert onp.isnan(np.mirr([-1.0, -2.0], 0.1, 0.1).asnumpy())
    assert onp.isnan(np.mirr([-1.0], 0.1, 0.1).asnumpy())
    with pytest.raises(ValueError):
        np.pmt(0.1, 2, 3, when="middle")


def test_gradient():
    r = np.array([0.0, 0.05], dtype="float64")
    r.attach_grad()
    with mx.autograd.record():
        y = np.npv(r[1], np.array([-100.0, 60.0, 60.0], dtype="float64"))
    y.backward()
    assert onp.allclose(r.grad.asnumpy(), [0, -60 / 1.05 ** 2 - 120 / 1.05 ** 3])
    with mx.autograd.record():
        y = np.pv(r, 3, -1.0)
    y.backward()
    assert onp.isfinite(r.grad.asnumpy()).all()
