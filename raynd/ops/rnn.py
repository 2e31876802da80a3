"""Recurrent layers: ``npx.rnn`` with the modes rnn_relu, rnn_tanh, lstm and gru.

The products with the inputs of all time steps are one matrix product a layer; only the recurrent product is done step
by step. A training pass also gives a flat array of what backward needs (gate activations, cell states, layer outputs,
dropout masks), so backward repeats nothing. Weights come packed in one vector, as cuDNN and MXNet order them: for each
layer and direction the input weights (gates * H, inputs), the recurrent weights (gates * H, H or projection) and, with
a projection, its weights (projection, H); then for each layer and direction the input biases and the recurrent biases.
Gate order: lstm i, f, g, o; gru r, z, n, where n = tanh(W x + b + r (R h + b')).
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, spec
from .activation import sigmoid
from .registry import operator
from .softmax import wide

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


class Layout:
    """Shapes of everything in a call."""

    def __init__(self, data, mode, state_size, num_layers, bidirectional, projection_size):
        self.time, self.batch, self.inputs = data
        self.mode, self.gates, self.h = mode, GATES[mode], state_size
        self.layers, self.dirs = num_layers, 2 if bidirectional else 1
        self.projection = projection_size
        self.r = projection_size or state_size           # the size of the recurrent state and of an output

    def layer_inputs(self, layer):
        """The size of a layer's input."""
        return self.inputs if layer == 0 else self.dirs * self.r

    def weight_shapes(self, layer):
        """Shapes of the weights of one direction of a layer."""
        shapes = [(self.gates * self.h, self.layer_inputs(layer)), (self.gates * self.h, self.r)]
        return shapes + [(self.projection, self.h)] if self.projection else shapes

    @property
    def parameters(self):
        """The length of the packed vector."""
        weights = sum(math.prod(s) for layer in range(self.layers) for s in self.weight_shapes(layer))
        return self.dirs * (weights + self.layers * 2 * self.gates * self.h)

    def unpack(self, flat):
        """For each (layer, direction): weights..., input bias, recurrent bias, as views."""
        result, at = {}, 0
        for layer in range(self.layers):
            for d in range(self.dirs):
                result[layer, d] = []
                for s in self.weight_shapes(layer):
                    result[layer, d].append(flat[at:at + math.prod(s)].reshape(s))
                    at += math.prod(s)
        for layer in range(self.layers):
            for d in range(self.dirs):
                for _ in range(2):
                    result[layer, d].append(flat[at:at + self.gates * self.h])
                    at += self.gates * self.h
        return result

    def reserve_shapes(self, dropout):
        """Shapes in the reserve: for each layer and direction the gates, then what the mode adds; for each layer its
        output, and the dropout mask of its input."""
        tn = (self.time, self.batch)
        shapes = {}
        for layer in range(self.layers):
            if layer and dropout:
                shapes["mask", layer] = (*tn, self.layer_inputs(layer))
            for d in range(self.dirs):
                shapes["gates", layer, d] = (*tn, self.gates * self.h)
                if self.mode == "lstm":
                    shapes["cell", layer, d] = (*tn, self.h)
                if self.mode == "gru":
                    shapes["candidate", layer, d] = (*tn, self.h)
                if self.projection:
                    shapes["hidden", layer, d] = (*tn, self.h)
            shapes["output", layer] = (*tn, self.dirs * self.r)
        return shapes

    def reserve(self, flat, dropout):
        """The reserve's parts as views."""
        result, at = {}, 0
        for key, s in self.reserve_shapes(dropout).items():
            result[key] = flat[at:at + math.prod(s)].reshape(s)
            at += math.prod(s)
        return result


def _layout(data, mode, state_size, num_layers, bidirectional, projection_size):
    return Layout(data, mode, state_size, num_layers, bidirectional, projection_size)


_ATTRS = "mode, state_size, num_layers, bidirectional, projection_size, p, clip_min, clip_max, clip_nan"


def _infer(data, parameters, state, state_cell, sequence_length, mode, state_size, num_layers, bidirectional,
           projection_size, p, clip_min, clip_max, clip_nan):
    if mode not in GATES:
        raise ArgumentError(f"rnn: mode must be one of {', '.join(GATES)}, not {mode!r}")
    if not isinstance(state_size, int) or not isinstance(num_layers, int) or state_size < 1 or num_layers < 1:
        raise ArgumentError(f"rnn: state_size and num_layers must be positive, got {state_size!r} and {num_layers!r}")
    if len(data.shape) != 3:
        raise ShapeError(f"rnn: data must have 3 axes (time, batch, inputs), not shape {data.shape}")
    if mode != "lstm" and (projection_size or clip_min is not None or clip_max is not None):
        raise ArgumentError("rnn: projections and state clipping are for mode='lstm'")
    if (mode == "lstm") != (state_cell is not None):
        raise ArgumentError("rnn: mode='lstm' needs state_cell" if mode == "lstm" else
                            f"rnn: mode={mode!r} has no state_cell")
    if not 0 <= p < 1:
        raise ShapeError(f"rnn: p must be at least 0 and below 1, got {p}")
    g = _layout(data.shape, mode, state_size, num_layers, bidirectional, projection_size)
    if parameters.shape != (g.parameters,):
        raise ShapeError(f"rnn: {g.parameters} parameters are needed for {data.shape[2]} inputs, got shape "
                         f"{parameters.shape}")
    for name, s, size in (("state", state, g.r), ("state_cell", state_cell, g.h)):
        if s is not None and s.shape != (g.layers * g.dirs, g.batch, size):
            raise ShapeError(f"rnn: {name} has shape {s.shape}, needed is {(g.layers * g.dirs, g.batch, size)}")
    if isinstance(sequence_length, ArraySpec) and sequence_length.shape != (g.batch,):
        raise ShapeError(f"rnn: sequence_length has shape {sequence_length.shape}, needed is {(g.batch,)}")
    y = spec((g.time, g.batch, g.dirs * g.r), data.dtype)
    h = spec(state.shape, data.dtype)
    return g, (y, h) if state_cell is None else (y, h, spec(state_cell.shape, data.dtype))


def _infer_predict(*arrays, **attrs):
    return _infer(*arrays, **attrs)[1]


def _infer_train(*arrays, p, **attrs):
    g, results = _infer(*arrays, p=p, **attrs)
    size = sum(math.prod(s) for s in g.reserve_shapes(p > 0).values())
    return (*results, spec((size,), arrays[0].dtype if arrays[0].dtype.itemsize >= 4 else "float32"))


# -- forward -------------------------------------------------------------------------------------------------------


def _steps(g, d):
    return range(g.time) if d == 0 else range(g.time - 1, -1, -1)


def _valid(xp, g, lengths):
    """For each time a column of which sequences are not over, or None."""
    if lengths is None:
        return None
    lengths = lengths.astype("int64")
    if lengths.size and (int(lengths.min()) < 0 or int(lengths.max()) > g.time):
        raise IndexError(f"rnn: a sequence length lies outside 0 to {g.time}")
    return (xp.arange(g.time)[:, None] < lengths)[:, :, None]


def _clip(xp, c, limits):
    low, high, no_nan = limits
    if low is None and high is None:
        return c
    if no_nan:
        c[xp.isnan(c)] = low if low is not None else high
    return xp.clip(c, low, high, out=c)


def _run_direction(xp, g, x, weights, h, c, valid, d, saved, y, limits):
    """One direction of a layer; fills ``saved`` and ``y`` (time, batch, r). Returns the final states."""
    n = g.h
    wi, wh, *wr, bi, bh = weights
    gates, extra = saved["gates"], saved.get("cell", saved.get("candidate"))
    xp.matmul(x.reshape(g.time * g.batch, x.shape[2]), wi.T, out=gates.reshape(g.time * g.batch, g.gates * n))
    gates += bi if g.mode == "gru" else bi + bh
    recurrent = xp.empty((g.batch, g.gates * n), gates.dtype)
    wh = xp.ascontiguousarray(wh.T)
    for t in _steps(g, d):
        a = gates[t]
        xp.matmul(h, wh, out=recurrent)
        if g.mode == "gru":
            recurrent += bh
            extra[t] = recurrent[:, 2 * n:]
            a[:, :2 * n] += recurrent[:, :2 * n]
            a[:, :2 * n] = sigmoid(xp, a[:, :2 * n])
            a[:, 2 * n:] += a[:, :n] * recurrent[:, 2 * n:]
            candidate = xp.tanh(a[:, 2 * n:], out=a[:, 2 * n:])
            new = candidate + a[:, n:2 * n] * (h - candidate)
        else:
            a += recurrent
            if g.mode == "lstm":
                a[:, :2 * n] = sigmoid(xp, a[:, :2 * n])
                xp.tanh(a[:, 2 * n:3 * n], out=a[:, 2 * n:3 * n])
                a[:, 3 * n:] = sigmoid(xp, a[:, 3 * n:])
                cell = _clip(xp, a[:, n:2 * n] * c + a[:, :n] * a[:, 2 * n:3 * n], limits)
                c = cell if valid is None else xp.where(valid[t], cell, c)
                extra[t] = cell
                new = a[:, 3 * n:] * xp.tanh(cell)
            else:
                new = xp.tanh(a, out=a) if g.mode == "rnn_tanh" else xp.maximum(a, 0, out=a)
            if wr:
                saved["hidden"][t] = new
                new = new @ wr[0].T
        if valid is None:
            h = y[t] = new
        else:
            y[t] = xp.where(valid[t], new, 0)
            h = xp.where(valid[t], new, h)
    return h, c


def _forward(xp, data, parameters, state, state_cell, sequence_length, rng=None, *, mode, state_size, num_layers,
             bidirectional, projection_size, p, clip_min, clip_max, clip_nan, keep):
    g = _layout(data.shape, mode, state_size, num_layers, bidirectional, projection_size)
    data, parameters, state = wide(xp, data), wide(xp, parameters), wide(xp, state)
    weights, valid = g.unpack(parameters), _valid(xp, g, sequence_length)
    dropout = p if keep else 0.0
    size = sum(math.prod(s) for s in g.reserve_shapes(dropout > 0).values())
    flat = xp.empty(size, data.dtype)
    reserve = g.reserve(flat, dropout > 0)
    hs = xp.empty(state.shape, data.dtype)
    cs = None if state_cell is None else xp.empty(state_cell.shape, data.dtype)
    x = data
    for layer in range(g.layers):
        if layer and dropout:
            mask = reserve["mask", layer]
            mask[...] = rng.random(mask.shape, dtype="float32") >= dropout
            mask *= 1 / (1 - dropout)
            x = x * mask
        output = reserve["output", layer]
        for d in range(g.dirs):
            k = layer * g.dirs + d
            saved = {key[0]: v for key, v in reserve.items() if key[1:] == (layer, d)}
            c = None if cs is None else wide(xp, state_cell[k])
            hs[k], c = _run_direction(xp, g, x, weights[layer, d], state[k], c, valid, d, saved,
                                      output[:, :, d * g.r:(d + 1) * g.r], (clip_min, clip_max, clip_nan))
            if cs is not None:
                cs[k] = c
        x = output
    results = (x.copy(), hs) if cs is None else (x.copy(), hs, cs)
    return (*results, flat) if keep else results


def _predict(xp, *arrays, **attrs):
    """Several layers of a recurrent network over (time, batch, inputs); see the module's text."""
    return _forward(xp, *arrays, **attrs, keep=False)


def _train(xp, *arrays, rng=None, **attrs):
    """As ``rnn_predict``, with dropout between layers, and what backward needs as a last output."""
    return _forward(xp, *arrays, rng, **attrs, keep=True)


# -- backward ------------------------------------------------------------------------------------------------------


def _backward_direction(xp, g, weights, grads, saved, h0, c0, y, x, dy, dh, dc, valid, d, limits):
    """Gradients of one direction: accumulates into ``grads`` (as ``weights``); returns (dx, dh0, dc0)."""
    n, tn = g.h, g.time * g.batch
    wi, wh, *wr, _, _ = weights
    gates, extra = saved["gates"], saved.get("cell", saved.get("candidate"))
    da = xp.empty(gates.shape, gates.dtype)                      # gradients before the activations
    dr = xp.empty(gates.shape, gates.dtype) if g.mode == "gru" else da
    dnew = xp.empty((g.time, g.batch, g.r), gates.dtype) if wr else None
    before = -1 if d == 0 else 1
    steps = list(_steps(g, d))
    for t in reversed(steps):
        first = t == steps[0]
        a = gates[t]
        total = dy[t] + dh if valid is None else xp.where(valid[t], dy[t] + dh, 0)
        kept = 0 if valid is None else xp.where(valid[t], 0, dh)         # passed by a sequence that is over
        if wr:
            dnew[t] = total
            total = total @ wr[0]
        row = da[t]
        if g.mode == "lstm":
            i, f, c_in, o = (a[:, k * n:(k + 1) * n] for k in range(4))
            cell = extra[t]
            previous = c0 if first else _previous_cell(xp, extra, t + before, valid, c0, before)
            tanh_c = xp.tanh(cell)
            dcell = dc + total * o * (1 - tanh_c * tanh_c)
            if valid is not None:
                dcell = xp.where(valid[t], dcell, 0)
            low, high, _ = limits
            if low is not None or high is not None:
                low, high = -xp.inf if low is None else low, xp.inf if high is None else high
                inside = (cell > low) & (cell < high)
                dcell = dcell * inside
            row[:, :n] = dcell * c_in * i * (1 - i)
            row[:, n:2 * n] = dcell * previous * f * (1 - f)
            row[:, 2 * n:3 * n] = dcell * i * (1 - c_in * c_in)
            row[:, 3 * n:] = total * tanh_c * o * (1 - o)
            passed = dcell * f
            dc = passed if valid is None else xp.where(valid[t], passed, dc)
            dh = row @ wh
        elif g.mode == "gru":
            r, z, candidate = (a[:, k * n:(k + 1) * n] for k in range(3))
            previous = h0 if first else _previous_state(xp, y, t + before, valid, h0)
            dcandidate = total * (1 - z) * (1 - candidate * candidate)
            row[:, :n] = dcandidate * extra[t] * r * (1 - r)
            row[:, n:2 * n] = total * (previous - candidate) * z * (1 - z)
            row[:, 2 * n:] = dcandidate
            dr[t, :, :2 * n] = row[:, :2 * n]
            dr[t, :, 2 * n:] = dcandidate * r
            dh = dr[t] @ wh + total * z
        else:
            row[...] = total * ((1 - a * a) if g.mode == "rnn_tanh" else (a > 0))
            dh = row @ wh
        dh = dh + kept
    flat = da.reshape(tn, g.gates * n)
    recurrent = dr.reshape(tn, g.gates * n)
    states = xp.empty((g.time, g.batch, g.r), gates.dtype)              # the state that entered each step
    if g.time:
        states[steps[0]] = h0
    if g.time > 1:
        if d == 0:
            states[1:] = y[:-1]
        else:
            states[:-1] = y[1:]
            if valid is not None:       # where the sequence begins, at its end, the state was the initial one
                states[:-1] = xp.where(valid[1:], states[:-1], h0)
    gi, gh, *gr, gbi, gbh = grads
    gi += flat.T @ x.reshape(tn, x.shape[2])
    gh += recurrent.T @ states.reshape(tn, g.r)
    if gr:
        gr[0] += dnew.reshape(tn, g.r).T @ saved["hidden"].reshape(tn, n)
    gbi += flat.sum(axis=0)
    gbh += recurrent.sum(axis=0)
    dx = xp.empty(x.shape, gates.dtype)
    xp.matmul(flat, wi, out=dx.reshape(tn, x.shape[2]))
    return dx, dh, dc


def _previous_cell(xp, cells, t, valid, c0, before):
    if valid is None or before < 0:
        return cells[t]
    return xp.where(valid[t], cells[t], c0)


def _previous_state(xp, y, t, valid, h0):
    return y[t] if valid is None else xp.where(valid[t], y[t], h0)


def _grad(xp, dy, dh, dc, data, parameters, state, state_cell, sequence_length, reserve, *, mode, state_size,
          num_layers, bidirectional, projection_size, p, clip_min, clip_max, clip_nan):
    """Gradients of data, parameters, state and state_cell."""
    g = _layout(data.shape, mode, state_size, num_layers, bidirectional, projection_size)
    parts = g.reserve(reserve, p > 0)
    data, parameters, state = wide(xp, data), wide(xp, parameters), wide(xp, state)
    weights, valid = g.unpack(parameters), _valid(xp, g, sequence_length)
    flat = xp.zeros(parameters.shape, data.dtype)
    grads = g.unpack(flat)
    dstate = xp.empty(state.shape, data.dtype)
    dcell = None if state_cell is None else xp.empty(state_cell.shape, data.dtype)
    dout = xp.zeros(parts["output", 0].shape, data.dtype) if dy is None else wide(xp, dy)
    zero = data.dtype.type(0)
    for layer in reversed(range(g.layers)):
        x = data if layer == 0 else parts["output", layer - 1]
        mask = parts.get(("mask", layer))
        if mask is not None:
            x = x * mask
        dx = None
        for d in range(g.dirs):
            k = layer * g.dirs + d
            saved = {key[0]: v for key, v in parts.items() if key[1:] == (layer, d)}
            side = slice(d * g.r, (d + 1) * g.r)
            part, dstate[k], c = _backward_direction(
                xp, g, weights[layer, d], grads[layer, d], saved, state[k],
                None if dcell is None else wide(xp, state_cell[k]), parts["output", layer][:, :, side], x,
                dout[:, :, side], zero if dh is None else wide(xp, dh[k]),
                zero if dc is None else wide(xp, dc[k]), valid, d, (clip_min, clip_max, clip_nan))
            if dcell is not None:
                dcell[k] = c
            dx = part if dx is None else dx + part
        dout = dx if mask is None else dx * mask
    return (dout, flat, dstate) if dcell is None else (dout, flat, dstate, dcell)


def _vjp(F, dy, x, y, **attrs):
    has_cell = x[3] is not None
    grads = list(dy[:3]) if has_cell else [dy[0], dy[1], None]
    if all(a is None for a in grads):
        return (None,) * 5
    results = F.rnn_grad(*grads, *x, y[-1], **attrs)
    return (*results, None) if has_cell else (*results, None, None)


def _infer_grad(dy, dh, dc, data, parameters, state, state_cell, sequence_length, reserve, **_):
    results = (data, parameters, state)
    return results if state_cell is None else (*results, state_cell)


_INPUTS = "data, parameters, state, state_cell, sequence_length"
_OPTIONAL = ("state_cell", "sequence_length")


# three ways to run: without a tape; with one; and with dropout, which alone draws random numbers
operator("rnn_predict", f"{_INPUTS}, {_ATTRS}", inputs=_INPUTS, optional=_OPTIONAL, infer=_infer_predict,
         kernel=_predict)
for _name, _draws in (("rnn_keep", 0), ("rnn_train", 1)):
    operator(_name, f"{_INPUTS}, {_ATTRS}", inputs=_INPUTS, optional=_OPTIONAL, infer=_infer_train, kernel=_train,
             draws=_draws, vjp=_vjp, first_order_only=True, workspace=True)
_GRAD_INPUTS = f"dy, dh, dc, {_INPUTS}, reserve"
operator("rnn_grad", f"{_GRAD_INPUTS}, {_ATTRS}", inputs=_GRAD_INPUTS, optional=("dy", "dh", "dc", *_OPTIONAL),
         infer=_infer_grad, kernel=_grad, first_order_only=True)
