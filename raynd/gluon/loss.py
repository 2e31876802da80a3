"""Losses (``mx.gluon.loss``). A loss of a batch has one value a sample: the mean over all axes but ``batch_axis``."""
from __future__ import annotations

import math

from .. import numpy as np, numpy_extension as npx
from ..dispatch import Proxy
from ..errors import ShapeError
from .block import HybridBlock

__all__ = ["Loss", "L2Loss", "L1Loss", "SigmoidBinaryCrossEntropyLoss", "SigmoidBCELoss", "SoftmaxCrossEntropyLoss",
           "SoftmaxCELoss", "KLDivLoss", "CTCLoss", "HuberLoss", "HingeLoss", "SquaredHingeLoss", "LogisticLoss",
           "TripletLoss", "PoissonNLLLoss", "CosineEmbeddingLoss", "SDMLLoss"]


class Loss(HybridBlock):
    """Base of losses. ``weight``: a factor of the loss; ``batch_axis``: the axis of samples."""

    def __init__(self, weight, batch_axis, prefix=None, params=None):
        super().__init__(prefix, params)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self):
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _weighted(self, loss, sample_weight, factor=1.0):
        """``loss`` times ``sample_weight`` (an array that broadcasts to it) and the weight."""
        if sample_weight is not None:
            loss = loss * sample_weight
        if self._weight is not None:
            assert isinstance(self._weight, (int, float)), "weight must be a number"
            factor = factor * self._weight
        return loss if factor == 1 else loss * factor

    def _mean(self, loss):
        """The mean over all axes but the batch's."""
        axis = self._batch_axis % max(1, loss.ndim)
        axes = tuple(i for i in range(loss.ndim) if i != axis)
        return np.mean(loss, axis=axes) if axes else loss

    def _finish(self, loss, sample_weight, factor=1.0):
        return self._mean(self._weighted(loss, sample_weight, factor))


def _like(x, y):
    """``x`` in the shape of ``y``."""
    if x.shape == y.shape:
        return x
    return npx.reshape_like(x, y)


class L2Loss(Loss):
    """``weight / 2 * (label - pred) ** 2``, averaged over each sample."""

    def __init__(self, weight=1., batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)

    def forward(self, pred, label, sample_weight=None):
        return self._finish(np.square(_like(label, pred) - pred), sample_weight, 0.5)


class L1Loss(Loss):
    """``|label - pred|``, averaged over each sample."""

    def __init__(self, weight=None, batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)

    def forward(self, pred, label, sample_weight=None):
        return self._finish(np.abs(_like(label, pred) - pred), sample_weight)


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Cross entropy of independent yes-no labels. ``pred`` are logits, or probabilities with ``from_sigmoid``.

    ``pos_weight`` (of the call) multiplies the loss of positive labels.
    """

    def __init__(self, from_sigmoid=False, weight=None, batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._from_sigmoid = from_sigmoid

    def forward(self, pred, label, sample_weight=None, pos_weight=None):
        label = _like(label, pred)
        if not self._from_sigmoid:
            soft = npx.activation(-np.abs(pred), act_type="softrelu")      # log(1 + exp(-|pred|))
            if pos_weight is None:
                loss = npx.relu(pred) - pred * label + soft
            else:
                factor = 1 + (pos_weight - 1) * label
                loss = pred - pred * label + factor * (soft + npx.relu(-pred))
        else:
            tiny = 1e-12
            positive = np.log(pred + tiny) * label
            if pos_weight is not None:
                positive = positive * pos_weight
            loss = -(positive + np.log(1. - pred + tiny) * (1. - label))
        return self._finish(loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """Cross entropy of one label out of many. ``pred`` along ``axis`` are logits, or log-probabilities with
    ``from_logits``; labels are class numbers (``sparse_label``) or distributions."""

    def __init__(self, axis=-1, sparse_label=True, from_logits=False, weight=None, batch_axis=0, prefix=None,
                 params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def forward(self, pred, label, sample_weight=None):
        if not self._from_logits:
            pred = npx.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -npx.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -(pred * _like(label, pred)).sum(axis=self._axis, keepdims=True)
        return self._finish(loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """``label * (log(label) - pred)``, where ``pred`` are log-probabilities (``from_logits``) or logits."""

    def __init__(self, from_logits=True, axis=-1, weight=None, batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._from_logits, self._axis = from_logits, axis

    def forward(self, pred, label, sample_weight=None):
        if not self._from_logits:
            pred = npx.log_softmax(pred, axis=self._axis)
        return self._finish(label * (np.log(label + 1e-12) - pred), sample_weight)


class CTCLoss(Loss):
    """Connectionist temporal classification (Graves et al. 2006): the last class is the blank.

    ``pred``: (batch, time, classes) in layout 'NTC', or 'TNC'; ``label``: (batch, length) in 'NT', or 'TN', padded with
    -1 where ``label_lengths`` is not given.
    """

    def __init__(self, layout="NTC", label_layout="NT", weight=None, prefix=None, params=None):
        assert layout in ("NTC", "TNC"), f"Only 'NTC' and 'TNC' layouts for pred are supported. Got: {layout}"
        assert label_layout in ("NT", "TN"), f"Only 'NT' and 'TN' layouts for label are supported. Got: {label_layout}"
        super().__init__(weight, label_layout.find("N"), prefix, params)
        self._layout, self._label_layout = layout, label_layout

    def forward(self, pred, label, pred_lengths=None, label_lengths=None, sample_weight=None):
        if self._layout == "NTC":
            pred = np.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = np.swapaxes(label, 0, 1)
        loss = npx.ctc_loss(pred, label, pred_lengths, label_lengths, use_data_lengths=pred_lengths is not None,
                            use_label_lengths=label_lengths is not None, blank_label="last")
        return self._weighted(loss, sample_weight)


class HuberLoss(Loss):
    """Quadratic up to the distance ``rho``, linear beyond."""

    def __init__(self, rho=1, weight=None, batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._rho = rho

    def forward(self, pred, label, sample_weight=None):
        distance = np.abs(_like(label, pred) - pred)
        loss = np.where(distance > self._rho, distance - 0.5 * self._rho, (0.5 / self._rho) * np.square(distance))
        return self._finish(loss, sample_weight)


class HingeLoss(Loss):
    """``max(0, margin - pred * label)`` for labels -1 and 1."""

    def __init__(self, margin=1, weight=None, batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._margin = margin

    def forward(self, pred, label, sample_weight=None):
        return self._finish(npx.relu(self._margin - pred * _like(label, pred)), sample_weight)


class SquaredHingeLoss(HingeLoss):
    """``max(0, margin - pred * label) ** 2`` for labels -1 and 1."""

    def forward(self, pred, label, sample_weight=None):
        return self._finish(np.square(npx.relu(self._margin - pred * _like(label, pred))), sample_weight)


class LogisticLoss(Loss):
    """``log(1 + exp(-pred * label))`` for labels -1 and 1 ('signed') or 0 and 1 ('binary')."""

    def __init__(self, weight=None, batch_axis=0, label_format="signed", prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        if label_format not in ("signed", "binary"):
            raise ShapeError(f"label_format can only be signed or binary, recieved {label_format}.")
        self._label_format = label_format

    def forward(self, pred, label, sample_weight=None):
        label = _like(label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = npx.relu(pred) - pred * label + npx.activation(-np.abs(pred), act_type="softrelu")
        return self._finish(loss, sample_weight)


class TripletLoss(Loss):
    """``max(0, |pred - positive|^2 - |pred - negative|^2 + margin)``, one value a sample."""

    def __init__(self, margin=1, weight=None, batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._margin = margin

    def forward(self, pred, positive, negative, sample_weight=None):
        difference = np.square(_like(positive, pred) - pred) - np.square(_like(negative, pred) - pred)
        axis = self._batch_axis % pred.ndim
        total = difference.sum(axis=tuple(i for i in range(pred.ndim) if i != axis))
        return self._weighted(npx.relu(total + self._margin), sample_weight)


class PoissonNLLLoss(Loss):
    """Negative log-likelihood of counts. ``pred`` is the log of the rate (``from_logits``) or the rate;
    ``compute_full`` adds Stirling's approximation of log(target!)."""

    def __init__(self, weight=None, from_logits=True, batch_axis=0, compute_full=False, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._from_logits, self._compute_full = from_logits, compute_full

    def forward(self, pred, target, sample_weight=None, epsilon=1e-08):
        target = _like(target, pred)
        loss = np.exp(pred) - target * pred if self._from_logits else pred - target * np.log(pred + epsilon)
        if self._compute_full:
            stirling = target * np.log(target + epsilon) - target + 0.5 * np.log(2 * target * math.pi + epsilon)
            loss = loss + stirling * (target > 1)
        return self._finish(loss, sample_weight)


class CosineEmbeddingLoss(Loss):
    """``1 - cos(a, b)`` where the label is 1, ``max(0, cos(a, b) - margin)`` where it is -1."""

    def __init__(self, weight=None, batch_axis=0, margin=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self._margin = margin

    def forward(self, input1, input2, label, sample_weight=None):
        input1 = _like(input1, input2)
        cosine = _cosine(input1, input2)
        label = np.reshape(label, cosine.shape)
        loss = np.where(label == 1, 1.0 - cosine, npx.relu(cosine - self._margin))
        return self._finish(loss, sample_weight)


def _cosine(x, y, axis=-1):
    """The cosine of the angle along an axis, which is kept with size 1."""
    product = (x * y).sum(axis=axis, keepdims=True)
    lengths = np.sqrt(np.square(x).sum(axis=axis, keepdims=True)) * np.sqrt(np.square(y).sum(axis=axis, keepdims=True))
    return product / np.maximum(lengths, 1e-12)


class SDMLLoss(Loss):
    """Smoothed deep metric learning (Bonadiman, Kumar and Mittal 2019): each row of ``x1`` belongs to the same row of
    ``x2``; the other rows of the batch are the negatives."""

    def __init__(self, smoothing_parameter=0.3, weight=1., batch_axis=0, prefix=None, params=None):
        super().__init__(weight, batch_axis, prefix, params)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def forward(self, x1, x2):
        assert isinstance(x1, Proxy) and x1.shape == x2.shape, "x1 and x2 must be arrays of one shape"
        size, width = x1.shape
        distances = np.square(np.broadcast_to(np.expand_dims(x1, 1), (size, size, width))
                              - np.broadcast_to(np.expand_dims(x2, 0), (size, size, width))).sum(axis=2)
        gold = np.eye(size, device=x1.device)
        labels = gold * (1 - self.smoothing_parameter) + (1 - gold) * (self.smoothing_parameter / max(1, size - 1))
        # KLDivLoss averages over a row, the loss sums over it
        return self.kl_loss(npx.log_softmax(-distances, axis=1), labels) * size
