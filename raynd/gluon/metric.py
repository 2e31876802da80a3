"""Metrics of training (``mx.gluon.metric``, in 1.x ``mx.metric``).

``update(labels, preds)`` takes an array, or a list of arrays of one length (parts of a batch on several devices).
Metrics that are sums over samples add on the devices and wait for nothing; ``get()`` waits.
"""
from __future__ import annotations

import math

import numpy

from .. import autograd, numpy as mxnp, numpy_extension as npx
from ..base import numeric_types, string_types
from ..dispatch import F, Proxy
from ..errors import ShapeError
from ..ndarray.array import from_numpy
from ..registry import get_alias_func, get_create_func, get_register_func

__all__ = ["EvalMetric", "CompositeEvalMetric", "Accuracy", "TopKAccuracy", "F1", "Fbeta", "BinaryAccuracy", "MCC",
           "MAE", "MSE", "RMSE", "MeanPairwiseDistance", "MeanCosineSimilarity", "CrossEntropy", "Perplexity",
           "PearsonCorrelation", "PCC", "Loss", "Torch", "CustomMetric", "np", "create", "register", "alias",
           "check_label_shapes", "predict_with_threshold", "one_hot", "numeric_types", "string_types"]

def check_label_shapes(labels, preds, wrap=False, shape=False):
    """Raise ValueError unless labels and predictions have one length (``shape``: one shape). ``wrap``: single arrays
    are returned as lists. Returns both."""
    a, b = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if a != b:
        raise ShapeError(f"Shape of labels {a} does not match shape of predictions {b}")
    if wrap:
        labels = [labels] if isinstance(labels, (Proxy, numpy.ndarray)) else labels
        preds = [preds] if isinstance(preds, (Proxy, numpy.ndarray)) else preds
    return labels, preds


def _as_array(x, device=None):
    """``x`` as an mx.np array off the tape, on ``device`` if that is given."""
    if isinstance(x, Proxy):
        x = x.as_np_ndarray().detach()
    else:
        x = from_numpy(numpy.asarray(x), device)
    return x if device is None or x.device == device else autograd.copy_to(x, device)


def _pairs(labels, preds):
    """(label, prediction) arrays of the parts, each pair on the prediction's device."""
    labels, preds = check_label_shapes(labels, preds, True)
    for label, pred in zip(labels, preds):
        pred = _as_array(pred)
        yield _as_array(label, pred.device), pred


def _on_host(x):
    return x.asnumpy() if isinstance(x, Proxy) else numpy.asarray(x)


class EvalMetric:
    """Base of metrics. A subclass adds to ``sum_metric`` and ``num_inst`` in ``update``; ``get()`` gives their
    quotient.

    ``output_names`` and ``label_names`` choose among dictionaries in ``update_dict``.
    """

    def __init__(self, name, output_names=None, label_names=None, **kwargs):
        self.name = str(name)
        self.output_names, self.label_names, self._kwargs = output_names, label_names, kwargs
        self.reset()

    def __str__(self):
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self):
        """What :func:`create` needs to make it again."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name, "output_names": self.output_names,
                "label_names": self.label_names}

    def update_dict(self, label, pred):
        """Update by dictionaries of arrays."""
        preds = list(pred.values()) if self.output_names is None else [pred[n] for n in self.output_names]
        labels = list(label.values()) if self.label_names is None else [label[n] for n in self.label_names]
        self.update(labels, preds)

    def update(self, labels, preds):
        """Take in a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def reset(self):
        """Begin anew."""
        self.num_inst = 0
        self.sum_metric = 0.0

    @property
    def sum_metric(self):
        """The sum so far; reading it waits for the devices."""
        if self._on_devices:
            parts, self._on_devices = self._on_devices, {}
            for part in parts.values():
                self._sum = self._sum + float(part.item())
        return self._sum

    @sum_metric.setter
    def sum_metric(self, value):
        self._sum, self._on_devices = value, {}

    def _add(self, value, count):
        """Add an array of one element, where it is, and a number of samples."""
        value = F.cast(value, dtype="float64")
        device = value.device
        self._on_devices[device] = self._on_devices[device] + value if device in self._on_devices else value
        self.num_inst += count

    def get(self):
        """(name, value); nan before any update."""
        if self.num_inst == 0:
            return self.name, float("nan")
        value = self.sum_metric / self.num_inst
        return self.name, value.item() if getattr(value, "shape", None) == () else value

    def get_name_value(self):
        """[(name, value)]."""
        name, value = self.get()
        name = name if isinstance(name, list) else [name]
        value = value if isinstance(value, list) else [value]
        return list(zip(name, value))


register = get_register_func(EvalMetric, "metric")
alias = get_alias_func(EvalMetric, "metric")
_create = get_create_func(EvalMetric, "metric")


def create(metric, *args, **kwargs):
    """A metric from itself, its class, its name, a function ``f(label, pred)``, or a list of these."""
    if isinstance(metric, (list, tuple)):
        return CompositeEvalMetric([create(m, *args, **kwargs) for m in metric])
    if callable(metric) and not isinstance(metric, type):
        return CustomMetric(metric, *args, **kwargs)
    return _create(metric, *args, **kwargs)


@alias("composite")
@register
class CompositeEvalMetric(EvalMetric):
    """Several metrics at once."""

    def __init__(self, metrics=None, name="composite", output_names=None, label_names=None):
        self.metrics = [create(m) for m in metrics or []]
        super().__init__(name, output_names=output_names, label_names=label_names)

    def add(self, metric):
        """Add a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index):
        """The index-th metric."""
        try:
            return self.metrics[index]
        except IndexError:
            raise ShapeError(f"Metric index {index} is out of range 0 and {len(self.metrics)}") from None

    def update_dict(self, label, pred):
        if self.label_names is not None:
            label = {k: v for k, v in label.items() if k in self.label_names}
        if self.output_names is not None:
            pred = {k: v for k, v in pred.items() if k in self.output_names}
        for metric in self.metrics:
            metric.update_dict(label, pred)

    def update(self, labels, preds):
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self):
        for metric in self.metrics:
            metric.reset()

    def get(self):
        names, values = [], []
        for metric in self.metrics:
            for name, value in metric.get_name_value():
                names.append(name)
                values.append(value)
        return names, values

    def get_config(self):
        return {**EvalMetric.get_config(self), "metrics": [m.get_config() for m in self.metrics]}


# -- classification ------------------------------------------------------------------------------------------------


@alias("acc")
@register
class Accuracy(EvalMetric):
    """The part of right predictions. Predictions are class numbers, or scores whose largest along ``axis`` counts."""

    def __init__(self, axis=1, name="accuracy", output_names=None, label_names=None):
        super().__init__(name, axis=axis, output_names=output_names, label_names=label_names)
        self.axis = axis

    def update(self, labels, preds):
        for label, pred in _pairs(labels, preds):
            if pred.shape != label.shape:
                pred = mxnp.argmax(pred, axis=self.axis)
            label, pred = F.cast(label, dtype="int32").reshape(-1), F.cast(pred, dtype="int32").reshape(-1)
            check_label_shapes(label, pred)
            self._add((pred == label).sum(), pred.size)


@alias("top_k_accuracy", "top_k_acc")
@register
class TopKAccuracy(EvalMetric):
    """The part of samples whose label is among the ``top_k`` largest scores."""

    def __init__(self, top_k=1, name="top_k_accuracy", output_names=None, label_names=None):
        assert top_k > 1, "Please use Accuracy if top_k is no more than 1"
        super().__init__(f"{name}_{top_k}", top_k=top_k, output_names=output_names, label_names=label_names)
        self.top_k = top_k

    def update(self, labels, preds):
        for label, pred in _pairs(labels, preds):
            assert len(pred.shape) <= 2, "Predictions should be no more than 2 dims"
            scores, wanted = pred.asnumpy().astype("float32"), label.asnumpy().astype("int64").reshape(-1)
            check_label_shapes(wanted, scores)
            if scores.ndim == 2:
                k = min(self.top_k, scores.shape[1])
                best = numpy.argpartition(scores, -k, axis=1)[:, -k:] if k else scores[:, :0]
                right = (best == wanted[:, None]).any(axis=1).sum()
            else:
                right = (numpy.argsort(scores) == wanted).sum()
            self.sum_metric += float(right)
            self.num_inst += len(scores)


def predict_with_threshold(pred, threshold=0.5):
    """Whether each score is above ``threshold``, a number or one for each class."""
    if isinstance(threshold, (Proxy, numpy.ndarray)):
        assert threshold.shape[-1] == pred.shape[-1], f"shape mismatch: {pred.shape[-1]} vs. {threshold.shape[-1]}"
    elif not isinstance(threshold, (int, float)):
        raise ShapeError(f"{type(threshold)} is a wrong type for threshold!")
    return pred > threshold


def one_hot(idx, num):
    """int32 rows with a one at each of ``idx``."""
    if isinstance(idx, Proxy):
        return mxnp.array((numpy.arange(num) == idx.asnumpy()[:, None]).astype("int32"), dtype="int32",
                          device=idx.device)
    return (numpy.arange(num) == numpy.asarray(idx)[:, None]).astype("int32")


class _ClassificationMetrics:
    """Counts of true and false positives and negatives, for each class."""

    def __init__(self, class_type="binary", threshold=0.5, beta=1):
        if class_type not in ("binary", "multiclass", "multilabel"):
            raise ShapeError(f"Wrong class_type {class_type}! Only supports ['binary', 'multiclass', 'multilabel']")
        self.class_type, self.threshold, self.beta = class_type, threshold, beta
        self.reset_stats()

    def reset_stats(self):
        """Begin anew."""
        self.num_classes = None
        self.true_positives = self.false_negatives = self.false_positives = self.true_negatives = None

    def update_stats(self, label, pred):
        """Take in a batch."""
        label, pred = _on_host(label).astype("int32"), _on_host(pred)
        threshold = _on_host(self.threshold) if isinstance(self.threshold, Proxy) else self.threshold
        if self.class_type == "binary":
            num = 1
            if label.size and label.max() > 1:
                raise ShapeError("Wrong label for binary classification.")
            if pred.shape != label.shape:
                if pred.shape[-1] > 2:
                    raise ShapeError(f"The shape of prediction {pred.shape} is wrong for binary classification.")
                if pred.shape[-1] == 2:
                    pred = pred.reshape(-1, 2)[:, 1]
            pred, label = predict_with_threshold(pred, threshold).reshape(-1, 1), label.reshape(-1, 1)
        elif self.class_type == "multiclass":
            num = pred.shape[-1]
            assert not label.size or label.max() < num, "pred contains fewer classes than label!"
            pred, label = one_hot(pred.argmax(axis=-1).reshape(-1), num), one_hot(label.reshape(-1), num)
        else:
            num = pred.shape[-1]
            assert pred.shape == label.shape, (
                "The shape of label should be same as that of prediction for multilabel classification.")
            pred, label = predict_with_threshold(pred, threshold).reshape(-1, num), label.reshape(-1, num)
        check_label_shapes(label, pred)
        if self.num_classes is None:
            self.num_classes = num
            self.true_positives, self.false_negatives, self.false_positives, self.true_negatives = numpy.zeros((4, num))
        assert num == self.num_classes, f"Input number of classes has changed from {self.num_classes} to {num}"
        yes, no, right, wrong = pred == 1, pred == 0, label == 1, label == 0
        self.true_positives = self.true_positives + (yes & right).sum(0)
        self.false_positives = self.false_positives + (yes & wrong).sum(0)
        self.false_negatives = self.false_negatives + (no & right).sum(0)
        self.true_negatives = self.true_negatives + (no & wrong).sum(0)

    def _score(self, tp, fp, fn):
        """F-beta of counts."""
        precision, recall = tp / numpy.maximum(tp + fp, 1e-12), tp / numpy.maximum(tp + fn, 1e-12)
        b = self.beta ** 2
        return (1 + b) * precision * recall / numpy.maximum(b * precision + recall, 1e-12)

    @property
    def fscore(self):
        """F-beta of each class."""
        return self._score(self.true_positives, self.false_positives, self.false_negatives)

    @property
    def micro_fscore(self):
        """F-beta of all classes' counts together."""
        return self._score(self.true_positives.sum(), self.false_positives.sum(), self.false_negatives.sum())

    def binary_matthewscc(self):
        """Matthews's correlation coefficient of two classes."""
        if not self.total_examples:
            return 0.0
        tp, fp, fn, tn = (float(x[0]) for x in (self.true_positives, self.false_positives, self.false_negatives,
                                                self.true_negatives))
        product = math.prod(x for x in (tp + fp, tp + fn, tn + fp, tn + fn) if x)
        return (tp * tn - fp * fn) / math.sqrt(product)

    @property
    def total_examples(self):
        """Number of samples."""
        if self.num_classes is None:
            return 0
        return int(self.false_negatives[0] + self.false_positives[0] + self.true_negatives[0] + self.true_positives[0])


@register
class F1(EvalMetric):
    """The harmonic mean of precision and recall. ``class_type``: 'binary', 'multiclass' or 'multilabel'; ``average``:
    'micro' (over all counts), 'macro' (the mean over classes) or None (for each class)."""
    _beta = 1

    def __init__(self, name="f1", output_names=None, label_names=None, class_type="binary", threshold=0.5,
                 average="micro"):
        self.average = average
        self.metrics = _ClassificationMetrics(class_type, threshold, self._beta)
        super().__init__(name, output_names=output_names, label_names=label_names)

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self.metrics.update_stats(label, pred)
        stats = self.metrics
        score = (stats.micro_fscore if self.average == "micro" else
                 stats.fscore.mean() if self.average == "macro" else stats.fscore)
        self.num_inst = stats.total_examples
        self.sum_metric = score * self.num_inst

    def reset(self):
        super().reset()
        self.metrics.reset_stats()


@register
class Fbeta(F1):
    """As :class:`F1`, with recall counting ``beta`` times as much as precision."""

    def __init__(self, name="fbeta", output_names=None, label_names=None, class_type="binary", beta=1, threshold=0.5,
                 average="micro"):
        self._beta = beta
        super().__init__(name, output_names, label_names, class_type, threshold, average)


@register
class BinaryAccuracy(EvalMetric):
    """The part of scores that are on the right side of ``threshold``."""

    def __init__(self, name="binary_accuracy", output_names=None, label_names=None, threshold=0.5):
        self.threshold = threshold
        super().__init__(name, output_names=output_names, label_names=label_names)

    def update(self, labels, preds):
        for label, pred in _pairs(labels, preds):
            threshold = self.threshold
            if isinstance(threshold, (Proxy, numpy.ndarray)):
                threshold = _as_array(threshold, pred.device)
            pred = F.cast(predict_with_threshold(pred, threshold), dtype="int32").reshape(-1)
            label = F.cast(label, dtype="int32").reshape(-1)
            check_label_shapes(label, pred)
            self._add((pred == label).sum(), pred.size)


@register
class MCC(EvalMetric):
    """Matthews's correlation coefficient of a binary classification."""

    def __init__(self, name="mcc", output_names=None, label_names=None):
        self._metrics = _ClassificationMetrics()
        super().__init__(name, output_names=output_names, label_names=label_names)

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self._metrics.update_stats(label, pred)
        self.num_inst = self._metrics.total_examples
        self.sum_metric = self._metrics.binary_matthewscc() * self.num_inst

    def reset(self):
        super().reset()
        self._metrics.reset_stats()


# -- regression ----------------------------------------------------------------------------------------------------


class _Distance(EvalMetric):
    """Sums of one number a sample."""

    def _distances(self, label, pred):
        """An array with one value a sample, from arrays of shape (samples, values)."""
        raise NotImplementedError

    def update(self, labels, preds):
        for label, pred in _pairs(labels, preds):
            count = label.shape[0]
            if count:
                self._add(self._distances(label.reshape(count, -1), pred.reshape(count, -1)).sum(), count)


@register
class MAE(_Distance):
    """The mean absolute error."""

    def __init__(self, name="mae", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def _distances(self, label, pred):
        return mxnp.abs(label - pred).mean(axis=-1)


@register
class MSE(_Distance):
    """The mean squared error."""

    def __init__(self, name="mse", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def _distances(self, label, pred):
        return mxnp.square(label - pred).mean(axis=-1)


@register
class RMSE(MSE):
    """The root of the mean squared error over all samples."""

    def __init__(self, name="rmse", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def get(self):
        name, value = super().get()
        return name, math.sqrt(value)


@register
class MeanPairwiseDistance(_Distance):
    """The mean of the p-norm of the difference."""

    def __init__(self, name="mpd", output_names=None, label_names=None, p=2):
        super().__init__(name, output_names=output_names, label_names=label_names)
        self.p = p

    def _distances(self, label, pred):
        return (mxnp.abs(label - pred) ** self.p).sum(axis=-1) ** (1. / self.p)


@register
class MeanCosineSimilarity(EvalMetric):
    """The mean cosine of the angle along the last axis."""

    def __init__(self, name="cos_sim", output_names=None, label_names=None, eps=1e-8):
        super().__init__(name, output_names=output_names, label_names=label_names)
        self.eps = eps

    def update(self, labels, preds):
        for label, pred in _pairs(labels, preds):
            width = label.shape[-1]
            label, pred = label.reshape(-1, width), pred.reshape(-1, width)
            lengths = mxnp.sqrt(mxnp.square(label).sum(axis=-1)) * mxnp.sqrt(mxnp.square(pred).sum(axis=-1))
            self._add(((label * pred).sum(axis=-1) / mxnp.maximum(lengths, self.eps)).sum(), label.shape[0])


@alias("ce")
@register
class CrossEntropy(EvalMetric):
    """The mean of -log(probability of the label). Predictions are probabilities along ``axis``, or logits with
    ``from_logits``; samples with ``ignore_label`` do not count."""

    def __init__(self, eps=1e-12, ignore_label=None, axis=-1, from_logits=False, name="cross-entropy",
                 output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)
        self.eps, self.ignore_label, self.axis, self.from_logits = eps, ignore_label, axis, from_logits

    def update(self, labels, preds):
        for label, pred in _pairs(labels, preds):
            assert label.size == pred.size / pred.shape[self.axis], f"shape mismatch: {label.shape} vs. {pred.shape}"
            if self.from_logits:
                pred = npx.softmax(pred, axis=self.axis)
            if self.axis in (-1, pred.ndim - 1):
                pred = pred.reshape(-1, pred.shape[-1])
                label = label.reshape(-1)
            chosen = npx.pick(pred, F.cast(label, dtype="int32"), axis=self.axis if pred.ndim > 2 else -1).reshape(-1)
            losses, count = -mxnp.log(mxnp.maximum(chosen, self.eps)), label.size
            if self.ignore_label is not None:
                counts = label.reshape(-1) != self.ignore_label
                losses = mxnp.where(counts, losses, mxnp.zeros_like(losses))
                count = int(counts.sum().item())
            self._add(losses.sum(), count)


@register
class Perplexity(CrossEntropy):
    """The exponential of the cross entropy."""

    def __init__(self, eps=1e-12, ignore_label=None, axis=-1, from_logits=False, name="perplexity", output_names=None,
                 label_names=None):
        super().__init__(eps, ignore_label, axis, from_logits, name, output_names, label_names)

    def get(self):
        name, value = super().get()
        return name, math.exp(value)


@alias("pearsonr")
@register
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation of labels and predictions over all updates (the update formula of Welford 1962)."""

    def __init__(self, name="pearsonr", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def reset(self):
        super().reset()
        self._count, self._mean, self._moments = 0, numpy.zeros(2), numpy.zeros((2, 2))

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            check_label_shapes(label, pred, False, True)
            x = numpy.stack([_on_host(label).reshape(-1), _on_host(pred).reshape(-1)]).astype("float64")
            if not x.shape[1]:
                continue
            mean, n, m = x.mean(axis=1), x.shape[1], self._count
            gap, x = mean - self._mean, x - mean[:, None]
            self._moments = self._moments + x @ x.T + numpy.outer(gap, gap) * (m * n / (m + n))
            self._mean, self._count = self._mean + gap * n / (m + n), m + n
            self.num_inst += 1

    def get(self):
        if self.num_inst == 0:
            return self.name, float("nan")
        (a, both), (_, b) = self._moments
        with numpy.errstate(all="ignore"):
            return self.name, float(both / numpy.sqrt(a * b))


@register
class PCC(EvalMetric):
    """The correlation of labels and predicted classes for any number of classes, by the confusion matrix over all
    updates: Matthews's coefficient for more than two (Gorodkin 2004)."""

    def __init__(self, name="pcc", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def reset(self):
        self.num_inst, self.sum_metric = 0, 0.0
        self.lcm = numpy.zeros((2, 2))

    @property
    def k(self):
        """The number of classes seen."""
        return len(self.lcm)

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            label, pred = _on_host(label).astype("int64"), _on_host(pred)
            if pred.shape != label.shape:
                pred = pred.argmax(axis=1)
            pred = pred.astype("int64")
            size = int(max(pred.max(initial=0), label.max(initial=0))) + 1
            if size > self.k:
                self.lcm = numpy.pad(self.lcm, (0, size - self.k))
            numpy.add.at(self.lcm, (pred.reshape(-1), label.reshape(-1)), 1)
        self.num_inst += 1
        self.sum_metric = self._coefficient() * self.num_inst

    def _coefficient(self):
        n, rows, columns = self.lcm.sum(), self.lcm.sum(axis=1), self.lcm.sum(axis=0)
        xx, yy = (rows * (n - rows)).sum(), (columns * (n - columns)).sum()
        if xx == 0 or yy == 0:
            return float("nan")
        return float((numpy.diagonal(self.lcm) * n - rows * columns).sum() / math.sqrt(xx * yy))


@register
class Loss(EvalMetric):
    """The mean of the predictions, which are losses; labels are not looked at."""

    def __init__(self, name="loss", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)

    def update(self, _, preds):
        for pred in [preds] if isinstance(preds, (Proxy, numpy.ndarray)) else preds:
            pred = _as_array(pred)
            self._add(pred.sum(), pred.size)


@register
class Torch(Loss):
    """Another name of :class:`Loss`."""

    def __init__(self, name="torch", output_names=None, label_names=None):
        super().__init__(name, output_names=output_names, label_names=label_names)


@register
class CustomMetric(EvalMetric):
    """The mean of ``feval(label, pred)`` over arrays; a result (sum, number) counts as that many."""

    def __init__(self, feval, name=None, allow_extra_outputs=False, output_names=None, label_names=None):
        if name is None:
            name = feval.__name__
            if "<" in name:
                name = f"custom({name})"
        super().__init__(name, feval=feval, allow_extra_outputs=allow_extra_outputs, output_names=output_names,
                         label_names=label_names)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs

    def update(self, labels, preds):
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels):
            pred = _as_array(pred)
            value = self._feval(_as_array(label, pred.device), pred)
            value, count = value if isinstance(value, tuple) else (value, 1)
            if isinstance(value, Proxy):
                self._add(value.reshape(()), count)
            else:
                self.sum_metric += value
                self.num_inst += count

    def get_config(self):
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(numpy_feval, name=None, allow_extra_outputs=False):
    """A metric of a function of NumPy arrays ``numpy_feval(label, pred)``."""
    def feval(label, pred):
        return numpy_feval(_on_host(label), _on_host(pred))
    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
