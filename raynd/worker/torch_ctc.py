"""Connectionist temporal classification by PyTorch's kernels."""
from __future__ import annotations

import torch

from ..ops.ctc import Labels
from .torch_bridge import exchange, kernel, supported

_aten = torch.ops.aten
MANY_CLASSES = 1024         # PyTorch's CPU kernel for the gradient is the slower one from about here on


def _problem(xp, shape, attrs):
    """A function that gives (log probabilities, labels, times, counts) of a call, all checked, and where it is 0."""
    to_tensor, to_array, _ = exchange(xp)

    def of(data, label, data_lengths, label_lengths):
        given = [None if a is None else to_array(a) for a in (label, data_lengths, label_lengths)]
        p = Labels(xp, shape, *given, **attrs)
        labels, times, counts, possible = map(to_tensor, (p.labels, p.times, p.counts, p.possible))
        return (torch.log_softmax(data, 2), labels, times, counts), p.blank, possible
    return of


def _fits(xp, specs):
    return supported(specs[0]) and (xp.__name__ != "numpy" or specs[0].shape[2] <= MANY_CLASSES)


@kernel("ctc_loss")
def _loss(xp, in_specs, out_specs, attrs):
    if not _fits(xp, in_specs):
        return None
    problem = _problem(xp, in_specs[0].shape, attrs)

    def run(*arrays):
        inputs, blank, possible = problem(*arrays)
        return torch.where(possible, _aten._ctc_loss(*inputs, blank)[0], 0)
    return run


@kernel("ctc_grad")
def _grad(xp, in_specs, out_specs, attrs):
    if not _fits(xp, in_specs[1:]):
        return None
    problem = _problem(xp, in_specs[1].shape, attrs)

    def run(dy, *arrays):
        inputs, blank, possible = problem(*arrays)
        losses, alphas = _aten._ctc_loss(*inputs, blank)
        grad = _aten._ctc_loss_backward(torch.where(possible, dy, 0), *inputs, losses, alphas, blank, True)
        grad = _aten._log_softmax_backward_data(grad, inputs[0], 2, dy.dtype)
        used = torch.arange(grad.shape[0], device=grad.device)[:, None] < inputs[2]      # nothing else may be a number
        return torch.where((used & possible)[:, :, None], grad, 0)
    return run
