"""Recurrent layers by PyTorch: oneDNN's LSTM on the CPU, all modes by cuDNN on a GPU.

The workspace that a training pass hands to backward is PyTorch's own tape: what went in, as leaves, and what came out.
"""
from __future__ import annotations

import torch

from ..ops.rnn import GATES, Layout
from .torch_bridge import kernel, supported

_FUNCTIONS = {"rnn_relu": torch.rnn_relu, "rnn_tanh": torch.rnn_tanh, "lstm": torch.lstm, "gru": torch.gru}


def _fits(xp, data, parameters, state, state_cell, sequence_length, attrs):
    """The layout of a call that PyTorch computes alike and faster, else None. Forward and backward must agree on it,
    since they share a workspace, so it looks at nothing but what both are given."""
    arrays = (data, parameters, state, state_cell)
    if sequence_length is not type(None) or not supported(*arrays) or attrs["mode"] not in GATES:
        return None
    if attrs["clip_min"] is not None or attrs["clip_max"] is not None:
        return None
    if xp.__name__ == "numpy":
        slow = attrs["mode"] != "lstm" or attrs["projection_size"] or data.dtype.name != "float32"
        if slow or not torch.backends.mkldnn.is_available():
            return None
    return Layout(data.shape, attrs["mode"], attrs["state_size"], attrs["num_layers"], attrs["bidirectional"],
                  attrs["projection_size"])


def _leaves(g, parameters):
    """For each layer its weights as PyTorch orders them, in each direction: input, recurrent, biases, projection."""
    parts = g.unpack(parameters.detach())
    layers = []
    for layer in range(g.layers):
        weights = []
        for d in range(g.dirs):
            wi, wh, *projection, bi, bh = parts[layer, d]
            weights += [wi, wh, bi, bh, *projection]
        layers.append(weights)
    return layers


def _packed(g, layers):
    """The inverse of ``_leaves``: one flat tensor."""
    each = 5 if g.projection else 4
    weights, biases = [], []
    for tensors in layers:
        for d in range(g.dirs):
            wi, wh, bi, bh, *projection = tensors[d * each:(d + 1) * each]
            weights += [wi, wh, *projection]
            biases += [bi, bh]
    return torch.cat([t.reshape(-1) for t in weights + biases])


def _run(g, x, layers, states, mask_of):
    """(output, final states): all layers in one call, or one by one with a dropout mask before each but the first."""
    function = _FUNCTIONS[g.mode]

    def call(x, weights, states, count):
        hidden = tuple(states) if g.mode == "lstm" else states[0]
        return function(x, hidden, weights, True, count, 0.0, torch.is_grad_enabled(), g.dirs == 2, False)
    if mask_of is None:
        y, *final = call(x, [w for weights in layers for w in weights], states, g.layers)
        return y, final
    finals = []
    for layer, weights in enumerate(layers):
        if layer:
            x = x * mask_of(x)
        x, *final = call(x, weights, [s[layer * g.dirs:(layer + 1) * g.dirs] for s in states], 1)
        finals.append(final)
    return x, [torch.cat(parts) for parts in zip(*finals)]


def _states(state, state_cell):
    return [state] if state_cell is None else [state, state_cell]


@kernel("rnn_predict")
def _predict(xp, in_specs, out_specs, attrs):
    g = _fits(xp, *in_specs, attrs)
    if g is None:
        return None

    def run(data, parameters, state, state_cell, sequence_length):
        with torch.no_grad():
            y, final = _run(g, data, _leaves(g, parameters), _states(state, state_cell), None)
        return (y, *final)
    return run


@kernel("rnn_keep", "rnn_train")
def _train(xp, in_specs, out_specs, attrs):
    g, p = _fits(xp, *in_specs, attrs), attrs["p"]
    if g is None:
        return None

    def run(data, parameters, state, state_cell, sequence_length, rng=None):
        def mask_of(x):
            keep = torch.as_tensor(rng.random(tuple(x.shape), dtype="float32") >= p, device=x.device)
            return keep.to(x.dtype) / (1 - p)
        with torch.enable_grad():
            x = data.detach().requires_grad_()
            layers = [[w.requires_grad_() for w in weights] for weights in _leaves(g, parameters)]
            states = [s.detach().requires_grad_() for s in _states(state, state_cell)]
            y, final = _run(g, x, layers, states, mask_of if p else None)
        return (*[_kept(t) for t in (y, *final)], (x, layers, states, y, final))
    return run


def _kept(tensor):
    """The values of a tensor that the tape keeps too: read-only, so that who writes to them copies them first."""
    if tensor.is_cuda:
        return tensor.detach().clone()
    result = tensor.detach().numpy()
    result.flags.writeable = False
    return result


@kernel("rnn_grad")
def _grad(xp, in_specs, out_specs, attrs):
    g = _fits(xp, *in_specs[3:8], attrs)
    if g is None:
        return None

    def run(dy, dh, dc, data, parameters, state, state_cell, sequence_length, workspace):
        x, layers, states, y, final = workspace
        heads = [(out, grad) for out, grad in zip((y, *final), (dy, dh, dc)) if grad is not None]
        leaves = [x, *[w for weights in layers for w in weights], *states]
        grads = torch.autograd.grad([h for h, _ in heads], leaves, [d for _, d in heads], retain_graph=True,
                                    allow_unused=True)
        grads = [torch.zeros_like(leaf) if d is None else d for leaf, d in zip(leaves, grads)]
        count = len(layers[0])
        weights = [grads[1 + i * count:1 + (i + 1) * count] for i in range(g.layers)]
        return (grads[0], _packed(g, weights), *grads[1 + g.layers * count:])
    return run
