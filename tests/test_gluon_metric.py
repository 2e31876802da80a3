"""Metrics against NumPy."""
from __future__ import annotations

import math

import numpy as onp
import pytest

import raynd as mx
from raynd.gluon import metric as M

RNG = onp.random.RandomState(0)
SCORES = RNG.rand(20, 4)
LABELS = RNG.randint(0, 4, 20)
X, Y = RNG.rand(20, 3), RNG.rand(20, 3)


def updated(metric, labels, preds, parts=3):
    """The metric after ``parts`` updates, on several devices."""
    for i, (label, pred) in enumerate(zip(onp.array_split(labels, parts), onp.array_split(preds, parts))):
        device = mx.cpu(i % 2)
        metric.update([mx.np.array(label, device=device, dtype=label.dtype)],
                      [mx.np.array(pred, device=device, dtype=pred.dtype)])
    return metric.get()[1]


def test_sums_over_samples():
    best = SCORES.argmax(1)
    assert updated(M.Accuracy(), LABELS, SCORES) == pytest.approx((best == LABELS).mean())
    assert updated(M.Accuracy(), LABELS, best) == pytest.approx((best == LABELS).mean())
    top = onp.argsort(SCORES, axis=1)[:, -2:]
    assert updated(M.TopKAccuracy(2), LABELS, SCORES) == pytest.approx((top == LABELS[:, None]).any(1).mean())
    assert updated(M.BinaryAccuracy(threshold=0.4), (X[:, 0] > 0.5).astype("int32"), Y[:, 0]) == pytest.approx(
        ((Y[:, 0] > 0.4) == (X[:, 0] > 0.5)).mean())
    assert updated(M.MAE(), X, Y) == pytest.approx(abs(X - Y).mean())
    assert updated(M.MSE(), X, Y) == pytest.approx(((X - Y) ** 2).mean())
    assert updated(M.RMSE(), X, Y) == pytest.approx(math.sqrt(((X - Y) ** 2).mean()))
    assert updated(M.MeanPairwiseDistance(p=3), X, Y) == pytest.approx(((abs(X - Y) ** 3).sum(1) ** (1 / 3)).mean())
    cosine = (X * Y).sum(1) / onp.linalg.norm(X, axis=1) / onp.linalg.norm(Y, axis=1)
    assert updated(M.MeanCosineSimilarity(), X, Y) == pytest.approx(cosine.mean())
    assert updated(M.Loss(), X, Y) == pytest.approx(Y.mean())


def test_cross_entropy():
    probabilities = SCORES / SCORES.sum(1, keepdims=True)
    losses = -onp.log(probabilities[range(20), LABELS])
    assert updated(M.CrossEntropy(), LABELS, probabilities) == pytest.approx(losses.mean())
    assert updated(M.CrossEntropy(from_logits=True), LABELS, onp.log(probabilities)) == pytest.approx(losses.mean())
    assert updated(M.Perplexity(), LABELS, probabilities) == pytest.approx(math.exp(losses.mean()))
    kept = LABELS != 2
    assert updated(M.Perplexity(ignore_label=2), LABELS, probabilities) == pytest.approx(
        math.exp(losses[kept].mean()))


def test_f_scores():
    truth, score = (X[:, 0] > 0.5).astype("int32"), Y[:, 0]
    guess = score > 0.5
    tp, fp, fn = (guess & (truth == 1)).sum(), (guess & (truth == 0)).sum(), (~guess & (truth == 1)).sum()
    assert updated(M.F1(), truth, score) == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert updated(M.Fbeta(beta=2), truth, score) == pytest.approx(5 * tp / (5 * tp + 4 * fn + fp))
    tn = 20 - tp - fp - fn
    assert updated(M.MCC(), truth, onp.stack([1 - score, score], 1)) == pytest.approx(
        (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    best, each = SCORES.argmax(1), []
    for k in range(4):
        t = ((best == k) & (LABELS == k)).sum()
        each.append(2 * t / max(1, (best == k).sum() + (LABELS == k).sum()))
    assert updated(M.F1(class_type="multiclass", average="macro"), LABELS, SCORES) == pytest.approx(onp.mean(each))
    assert updated(M.F1(class_type="multiclass", average="micro"), LABELS, SCORES) == pytest.approx(
        (best == LABELS).mean())
    assert updated(M.F1(class_type="multiclass", average=None), LABELS, SCORES) == pytest.approx(each)
    with pytest.raises(ValueError, match="binary"):
        updated(M.F1(), LABELS, SCORES[:, 0])


def test_correlations():
    assert updated(M.PearsonCorrelation(), X, Y) == pytest.approx(onp.corrcoef(X.ravel(), Y.ravel())[0, 1])
    truth, guess = (X[:, 0] > 0.5).astype("int32"), (Y[:, 0] > 0.5).astype("int32")
    assert updated(M.PCC(), truth, guess) == pytest.approx(onp.corrcoef(truth, guess)[0, 1])
    assert -1 <= updated(M.PCC(), LABELS, SCORES) <= 1


def test_names_and_reset():
    metric = M.create(["acc", "mse", M.MAE(name="other")])
    assert metric.get()[0] == ["accuracy", "mse", "other"] and all(math.isnan(v) for v in metric.get()[1])
    metric = M.create("acc")
    metric.update(mx.np.array([1, 0]), mx.np.array([[0.1, 0.9], [0.2, 0.8]]))
    assert metric.get_name_value() == [("accuracy", 0.5)] and "0.5" in str(metric)
    metric.reset()
    assert math.isnan(metric.get()[1])
    assert M.create("top_k_acc", top_k=3).name == "top_k_accuracy_3"
    assert metric.get_config()["metric"] == "Accuracy"
    with pytest.raises(ValueError, match="known are"):
        M.create("no such metric")
    with pytest.raises(ValueError, match="Shape of labels"):
        metric.update([mx.np.ones(2)], [mx.np.ones(2)] * 2)


def test_updates_do_not_wait():
    metric = mx.metric.Accuracy()
    label, pred = mx.np.zeros(3), mx.np.ones((3, 2))
    for x in (label, pred):
        x.wait_to_read()
    mx.engine.stats(reset=True)
    metric.update(label, pred)
    assert metric._on_devices and metric.get()[1] == 1.0


def test_own_metrics():
    metric = M.np(lambda label, pred: float((label == pred.argmax(1)).mean()), name="mine")
    assert updated(metric, LABELS, SCORES, parts=1) == pytest.approx((SCORES.argmax(1) == LABELS).mean())
    counted = M.CustomMetric(lambda label, pred: ((label - pred).sum(), label.size))
    assert updated(counted, X, Y) == pytest.approx((X - Y).mean())

    class Largest(M.EvalMetric):
        """The largest prediction so far."""

        def update(self, labels, preds):
            self.sum_metric = max(self.sum_metric, *[p.max().item() for p in preds])
            self.num_inst = 1

    assert updated(Largest("largest"), X, Y) == pytest.approx(Y.max())


def test_dictionaries():
    metric = M.MSE(output_names=["a"], label_names=["t"])
    metric.update_dict({"t": mx.np.ones((2, 1)), "u": None}, {"a": mx.np.zeros((2, 1)), "b": None})
    assert metric.get() == ("mse", 1.0)
