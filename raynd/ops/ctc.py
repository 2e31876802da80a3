"""Connectionist temporal classification (Graves et al. 2006), by the forward-backward algorithm in log space.

A loop runs over time steps only; all sequences and all states of the extended label (blanks between and around the
labels) are computed at once.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .registry import check_float, check_optional, operator
from .softmax import softmax, wide


def _infer(data, label, data_lengths, label_lengths, use_data_lengths, use_label_lengths, blank_label):
    if blank_label not in ("first", "last"):
        raise ArgumentError(f"ctc_loss: blank_label must be 'first' or 'last', not {blank_label!r}")
    if len(data.shape) != 3 or len(label.shape) != 2:
        raise ShapeError(f"ctc_loss: data must have shape (time, batch, classes) and label (batch, length), got "
                         f"{data.shape} and {label.shape}")
    check_float("ctc_loss", data)
    if data.shape[1] != label.shape[0]:
        raise ShapeError(f"ctc_loss: data holds {data.shape[1]} sequences, label {label.shape[0]}")
    if data.shape[0] < label.shape[1]:
        raise ShapeError(f"ctc_loss: the number of labels ({label.shape[1]}) exceeds that of time steps "
                         f"({data.shape[0]})")
    for name, given, use in (("data_lengths", data_lengths, use_data_lengths),
                             ("label_lengths", label_lengths, use_label_lengths)):
        check_optional("ctc_loss", name, given, bool(use), **{f"use_{name}": use})
        if use and given.shape != data.shape[1:2]:
            raise ShapeError(f"ctc_loss: {name} has shape {given.shape}, needed is {data.shape[1:2]}")
    return spec(data.shape[1:2], data.dtype)


class Labels:
    """The labels of a batch and how many count: ``labels`` (batch, length) with the blank after the end, ``counts`` of
    labels and of ``times`` of each sequence, and whether so many steps are enough (``possible``)."""

    def __init__(self, xp, shape, label, data_lengths, label_lengths, use_data_lengths, use_label_lengths, blank_label):
        time, batch, classes = shape
        label = label.astype("int64")
        self.blank = 0 if blank_label == "first" else classes - 1
        padding = 0 if blank_label == "first" else -1
        if use_label_lengths:
            self.counts = label_lengths.astype("int64")
        else:
            ended = xp.cumsum(label == padding, axis=1) > 0
            self.counts = label.shape[1] - ended.sum(axis=1)
        self.times = data_lengths.astype("int64") if use_data_lengths else xp.full(batch, time)
        used = xp.arange(label.shape[1]) < self.counts[:, None]
        _bounds(self.counts, 0, label.shape[1], "label length")
        _bounds(self.times, 0, time, "data length")
        low = int(self.blank == 0)
        _bounds(label[used], low, low + classes - 2, f"label (class {self.blank} is the blank)")
        self.labels = xp.where(used, label, self.blank)
        repeats = ((self.labels[:, 1:] == self.labels[:, :-1]) & used[:, 1:]).sum(axis=1)
        self.possible = (self.counts + repeats <= self.times) & (self.times > 0)


class _Problem(Labels):
    """Log probabilities of the extended labels and which transitions there are."""

    def __init__(self, xp, data, *arrays, **attrs):
        super().__init__(xp, data.shape, *arrays, **attrs)
        self.xp = xp
        time, batch, _ = data.shape
        self.log_probs = softmax(xp, data, 2, log=True)
        states = 2 * self.labels.shape[1] + 1
        self.extended = xp.full((batch, states), self.blank)
        self.extended[:, 1::2] = self.labels
        self.skip = xp.zeros((batch, states), bool)          # whether a state is reached from two before it
        self.skip[:, 3::2] = self.extended[:, 3::2] != self.extended[:, 1:-2:2]
        self.ends = 2 * self.counts
        self.low = self.log_probs.dtype.type("-inf")
        self.emitted = xp.take_along_axis(self.log_probs, xp.broadcast_to(self.extended, (time, batch, states)), 2)

    def alphas(self):
        """The log probability of all prefixes that end in a state at a time: (time, batch, states)."""
        xp, e = self.xp, self.emitted
        alpha = xp.full(e.shape, self.low)
        alpha[0, :, :2] = e[0, :, :2]
        for t in range(1, e.shape[0]):
            total = alpha[t - 1].copy()
            total[:, 1:] = xp.logaddexp(total[:, 1:], alpha[t - 1, :, :-1])
            total[:, 2:] = xp.where(self.skip[:, 2:], xp.logaddexp(total[:, 2:], alpha[t - 1, :, :-2]), total[:, 2:])
            alpha[t] = total + e[t]
        return alpha

    def betas(self):
        """The log probability of all rests after a state at a time, what is emitted at that time left out."""
        xp, e = self.xp, self.emitted
        beta = xp.full(e.shape, self.low)
        rows = xp.arange(e.shape[1])
        for t in range(e.shape[0] - 1, -1, -1):
            if t + 1 < e.shape[0]:
                follow = beta[t + 1] + e[t + 1]
                total = follow.copy()
                total[:, :-1] = xp.logaddexp(total[:, :-1], follow[:, 1:])
                total[:, :-2] = xp.where(self.skip[:, 2:], xp.logaddexp(total[:, :-2], follow[:, 2:]), total[:, :-2])
                beta[t] = total
            last = rows[self.times == t + 1]
            beta[t, last] = self.low
            beta[t, last, self.ends[last]] = 0
            beta[t, last, xp.maximum(self.ends[last] - 1, 0)] = 0
        return beta

    def likelihood(self, alpha):
        """The log probability of each label; 0 where there are too few steps for it."""
        xp = self.xp
        rows, last = xp.arange(alpha.shape[1]), xp.maximum(self.times - 1, 0)
        blank = alpha[last, rows, self.ends]
        label = alpha[last, rows, xp.maximum(self.ends - 1, 0)]
        return xp.where(self.possible, xp.where(self.counts > 0, xp.logaddexp(blank, label), blank), 0)


def _bounds(values, low, high, name):
    if values.size and (int(values.min()) < low or int(values.max()) > high):
        raise IndexError(f"ctc_loss: a {name} lies outside {low} to {high}")


def _ctc_loss(xp, data, *arrays, **attrs):
    """Minus the log probability of each label sequence, given (time, batch, classes) activations before softmax.

    ``label`` (batch, length): with blank_label 'first' class 0 is the blank and pads short labels, with 'last' the last
    class is the blank and -1 pads, unless ``use_label_lengths``. ``data_lengths``: the number of time steps of each
    sequence. A label that needs more steps than there are (one a label, and a blank between equal ones) has loss and
    gradient 0, as in MXNet.
    """
    if not data.size:
        return xp.zeros(data.shape[1], data.dtype)
    problem = _Problem(xp, wide(xp, data), *arrays, **attrs)
    return -problem.likelihood(problem.alphas())


def _ctc_grad(xp, dy, data, *arrays, **attrs):
    """softmax minus the expected occupation of the classes, times dy; zero after a sequence's end."""
    if not data.size:
        return xp.zeros(data.shape, data.dtype)
    problem = _Problem(xp, wide(xp, data), *arrays, **attrs)
    alpha = problem.alphas()
    total = problem.likelihood(alpha)
    alpha += problem.betas()
    posterior = xp.exp(alpha - total[None, :, None])
    time, batch, classes = data.shape
    places = xp.arange(time * batch)[:, None] * classes + xp.broadcast_to(
        problem.extended, posterior.shape).reshape(time * batch, -1)
    occupied = xp.bincount(places.reshape(-1), weights=posterior.reshape(-1), minlength=data.size).reshape(data.shape)
    result = xp.exp(problem.log_probs)
    result -= occupied.astype(result.dtype)
    valid = (xp.arange(time)[:, None] < problem.times) & problem.possible
    return xp.where(valid[:, :, None], result * wide(xp, dy)[:, None], 0)


_INPUTS = "data, label, data_lengths, label_lengths"
_ATTRS = "use_data_lengths=False, use_label_lengths=False, blank_label='first'"
operator("ctc_loss", f"data, label, data_lengths=None, label_lengths=None, {_ATTRS}, out=None", inputs=_INPUTS,
         optional=("data_lengths", "label_lengths"), infer=_infer, kernel=_ctc_loss, npx="ctc_loss",
         nd="ctc_loss, CTCLoss, _contrib_ctc_loss, _contrib_CTCLoss", first_order_only=True,
         vjp=lambda F, dy, x, y, **attrs: (F.ctc_grad(dy, *x, **attrs), None, None, None))
operator("ctc_grad", f"dy, {_INPUTS}, {_ATTRS}", inputs=f"dy, {_INPUTS}", optional=("data_lengths", "label_lengths"),
         infer=lambda dy, data, *_, **__: data, kernel=_ctc_grad, first_order_only=True)
