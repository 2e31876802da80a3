"""Losses against NumPy formulas, their gradients, weights and both kinds of arrays."""
from __future__ import annotations

import math

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd, gluon
from raynd.gluon import loss as L


def _rows(x):
    return x.reshape(len(x), -1).mean(axis=1)


def _softmax(x, axis=-1):
    e = onp.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _sigmoid(x):
    return 1 / (1 + onp.exp(-x))


P = onp.random.RandomState(0).randn(4, 3)
T = onp.random.RandomState(1).randn(4, 3)
B = (T > 0).astype("float64")                    # 0 and 1
S = 2 * B - 1                                    # -1 and 1
D = _softmax(T)
C = onp.array([0, 2, 1, 1])

CASES = [
    ("L2", L.L2Loss(), (P, T), _rows((P - T) ** 2 / 2)),
    ("L1", L.L1Loss(), (P, T), _rows(abs(P - T))),
    ("BCE", L.SigmoidBCELoss(), (P, B), _rows(-B * onp.log(_sigmoid(P)) - (1 - B) * onp.log(1 - _sigmoid(P)))),
    ("BCE of probabilities", L.SigmoidBCELoss(from_sigmoid=True), (_sigmoid(P), B),
     _rows(-B * onp.log(_sigmoid(P)) - (1 - B) * onp.log(1 - _sigmoid(P)))),
    ("BCE pos_weight", L.SigmoidBCELoss(), (P, B, None, onp.full((1, 3), 2.0)),
     _rows(-2 * B * onp.log(_sigmoid(P)) - (1 - B) * onp.log(1 - _sigmoid(P)))),
    ("CE", L.SoftmaxCELoss(), (P, C), -onp.log(_softmax(P))[range(4), C]),
    ("CE column", L.SoftmaxCELoss(), (P, C[:, None]), -onp.log(_softmax(P))[range(4), C]),
    ("CE dense", L.SoftmaxCELoss(sparse_label=False), (P, D), -(D * onp.log(_softmax(P))).sum(axis=1)),
    ("CE axis", L.SoftmaxCELoss(axis=0, batch_axis=1), (P, onp.array([1, 0, 3])),
     -onp.log(_softmax(P, 0))[[1, 0, 3], range(3)]),
    ("CE logits", L.SoftmaxCELoss(from_logits=True), (onp.log(_softmax(P)), C), -onp.log(_softmax(P))[range(4), C]),
    ("KL", L.KLDivLoss(), (onp.log(_softmax(P)), D), _rows(D * (onp.log(D) - onp.log(_softmax(P))))),
    ("KL of logits", L.KLDivLoss(from_logits=False), (P, D), _rows(D * (onp.log(D) - onp.log(_softmax(P))))),
    ("Huber", L.HuberLoss(rho=0.7), (P, T),
     _rows(onp.where(abs(P - T) > 0.7, abs(P - T) - 0.35, (P - T) ** 2 / 1.4))),
    ("Hinge", L.HingeLoss(), (P, S), _rows(onp.maximum(0, 1 - P * S))),
    ("SquaredHinge", L.SquaredHingeLoss(margin=2), (P, S), _rows(onp.maximum(0, 2 - P * S) ** 2)),
    ("Logistic", L.LogisticLoss(), (P, S), _rows(onp.log(1 + onp.exp(-P * S)))),
    ("Logistic binary", L.LogisticLoss(label_format="binary"), (P, B), _rows(onp.log(1 + onp.exp(-P * S)))),
    ("Triplet", L.TripletLoss(margin=3), (P, T, D),
     onp.maximum(0, ((T - P) ** 2 - (D - P) ** 2).sum(axis=1) + 3)),
    ("Poisson", L.PoissonNLLLoss(), (P, 4 * B), _rows(onp.exp(P) - 4 * B * P)),
    ("Poisson full", L.PoissonNLLLoss(from_logits=False, compute_full=True), (onp.exp(P), 4 * B),
     _rows(onp.exp(P) - 4 * B * P + B * (4 * math.log(4) - 4 + 0.5 * math.log(8 * math.pi)))),
    ("Cosine", L.CosineEmbeddingLoss(margin=0.1), (P, T, S[:, 0]),
     onp.where(S[:, 0] == 1, 1 - (P * T).sum(1) / onp.linalg.norm(P, axis=1) / onp.linalg.norm(T, axis=1),
               onp.maximum(0, (P * T).sum(1) / onp.linalg.norm(P, axis=1) / onp.linalg.norm(T, axis=1) - 0.1))),
]


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("name, function, args, expected", CASES, ids=[c[0] for c in CASES])
def test_values(name, function, args, expected, hybrid):
    function.hybridize(hybrid)
    arrays = [None if a is None else mx.np.array(a, dtype="float64" if a.dtype.kind == "f" else "int32") for a in args]
    assert function(*arrays).asnumpy() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name, function, args, expected", CASES, ids=[c[0] for c in CASES])
def test_gradients(name, function, args, expected):
    """Along a random direction, by differences in float64."""
    direction = onp.random.randn(*args[0].shape)

    def value(pred):
        rest = [None if a is None else mx.np.array(a, dtype="float64" if a.dtype.kind == "f" else "int32")
                for a in args[1:]]
        return function(pred, *rest).sum()

    x = mx.np.array(args[0], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = value(x)
    y.backward()
    step = 1e-6
    difference = (value(mx.np.array(args[0] + step * direction, dtype="float64")).item()
                  - value(mx.np.array(args[0] - step * direction, dtype="float64")).item()) / (2 * step)
    assert (x.grad.asnumpy() * direction).sum() == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_weights():
    pred, label = mx.np.array(P), mx.np.array(T)
    plain = L.L1Loss()(pred, label).asnumpy()
    assert L.L1Loss(weight=0.5)(pred, label).asnumpy() == pytest.approx(plain / 2)
    samples = mx.np.array([[1.], [0.], [2.], [1.]])
    assert L.L1Loss()(pred, label, samples).asnumpy() == pytest.approx(plain * [1, 0, 2, 1])
    assert L.L2Loss(batch_axis=1)(pred, label).shape == (3,)
    assert "batch_axis=0" in repr(L.L2Loss())


def test_both_kinds_of_arrays():
    label = mx.nd.array(C)
    result = gluon.loss.SoftmaxCrossEntropyLoss()(mx.nd.array(P), label)
    assert not isinstance(result, mx.np.ndarray) and result.asnumpy() == pytest.approx(CASES[5][3], rel=1e-5)


def test_sdml_prefers_pairs():
    x = mx.np.array(onp.eye(4) * 3)
    same, swapped = L.SDMLLoss()(x, x), L.SDMLLoss()(x, x[::-1].copy())
    assert same.shape == (4,) and (same.asnumpy() < swapped.asnumpy()).all()


def test_bad_input():
    with pytest.raises(ValueError, match="label_format"):
        L.LogisticLoss(label_format="other")
    with pytest.raises(AssertionError, match="layouts"):
        L.CTCLoss(layout="NCT")
    with pytest.raises(AssertionError, match="number"):
        L.L2Loss(weight="a")(mx.np.ones((1, 1)), mx.np.ones((1, 1)))
    with pytest.raises(mx.MXNetError):
        L.L2Loss()(mx.np.ones((2, 3)), mx.np.ones((2, 4)))
