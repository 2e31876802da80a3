"""Rows of the recurrent layers, against one that runs sequence by sequence, step by step."""
import numpy as np
import scipy.special
from table import S, exempt, ints, normal, row

sigmoid = scipy.special.expit
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def shapes(inputs, mode, size, layers, dirs, projection):
    """(layer, direction, shape) of every packed array, in order."""
    r, g = projection or size, GATES[mode] * size
    weights = [(k, d, s) for k in range(layers) for d in range(dirs)
               for s in ((g, inputs if k == 0 else dirs * r), (g, r), *([(r, size)] if projection else []))]
    return weights + [(k, d, (g,)) for k in range(layers) for d in range(dirs) for _ in range(2)]


def step(mode, x, h, c, w, limits):
    """One step of one sequence: (output, state, cell)."""
    wi, wh, *wr, bi, bh = w
    n = wh.shape[0] // GATES[mode]
    a, b = wi @ x + bi, wh @ h + bh
    if mode == "gru":
        r, z = sigmoid(a[:n] + b[:n]), sigmoid(a[n:2 * n] + b[n:2 * n])
        return (1 - z) * np.tanh(a[2 * n:] + r * b[2 * n:]) + z * h, c
    if mode == "lstm":
        i, f, o = (sigmoid((a + b)[k * n:(k + 1) * n]) for k in (0, 1, 3))
        c = f * c + i * np.tanh((a + b)[2 * n:3 * n])
        if limits[0] is not None:
            c = np.clip(c, *limits)
        h = o * np.tanh(c)
        return (wr[0] @ h if wr else h), c
    return (np.tanh(a + b) if mode == "rnn_tanh" else np.maximum(a + b, 0)), c


def reference(x, parameters, state, cell, lengths, mode, state_size, num_layers, bidirectional, projection_size, p,
              clip_min, clip_max, clip_nan):
    dirs, at, packed = 2 if bidirectional else 1, 0, {}
    for k, d, s in shapes(x.shape[2], mode, state_size, num_layers, dirs, projection_size):
        packed.setdefault((k, d), []).append(parameters[at:at + np.prod(s)].reshape(s))
        at += np.prod(s)
    hs, cs = state.copy(), None if cell is None else cell.copy()
    for k in range(num_layers):
        y = np.zeros((*x.shape[:2], dirs * state.shape[2]))
        for d in range(dirs):
            for b in range(x.shape[1]):
                n = x.shape[0] if lengths is None else int(lengths[b])
                i = k * dirs + d
                h, c = state[i, b], None if cell is None else cell[i, b]
                for t in range(n) if d == 0 else reversed(range(n)):
                    h, c = step(mode, x[t, b], h, c, packed[k, d], (clip_min, clip_max))
                    y[t, b, d * h.size:(d + 1) * h.size] = h
                hs[i, b] = h
                if cs is not None:
                    cs[i, b] = c
        x = y
    return (x, hs) if cs is None else (x, hs, cs)


def sample(mode, layers=1, bidirectional=False, projection=None, lengths=False, p=0.0, clip=None, shape=(4, 3, 2)):
    size, dirs = 5, 2 if bidirectional else 1
    r = projection or size
    count = sum(int(np.prod(s)) for _, _, s in shapes(shape[2], mode, size, layers, dirs, projection))
    return S(normal(*shape), normal(count, scale=0.5), normal(layers * dirs, shape[1], r),
             normal(layers * dirs, shape[1], size) if mode == "lstm" else None,
             ints(shape[1], low=1, high=shape[0] + 1) if lengths else None, mode=mode, state_size=size,
             num_layers=layers, bidirectional=bidirectional, projection_size=projection, p=p,
             clip_min=None if clip is None else -clip, clip_max=clip, clip_nan=False)


SAMPLES = [sample(mode, 2, True) for mode in GATES] + [
    sample("lstm", lengths=True), sample("gru", 2, True, lengths=True), sample("rnn_tanh", 1, True, lengths=True),
    sample("lstm", 2, True, projection=3), sample("lstm", 2, True, lengths=True), sample("lstm", clip=0.3),
    sample("lstm", 1, True, projection=2, lengths=True), sample("lstm", shape=(1, 2, 3))]


def same(inputs, outputs, attrs):
    if attrs["p"] == 0:
        expected = reference(*[v if v is None else np.asarray(v, "float64") for v in inputs], **attrs)
        for y, e in zip(outputs, expected):
            np.testing.assert_allclose(y, e, rtol={"float16": 2e-2, "float32": 1e-4}.get(y.dtype.name, 1e-9), atol=1e-2
                                       if y.dtype == "float16" else 1e-5)
    assert all(np.isfinite(y).all() for y in outputs[:2])


row("rnn_predict", ref=reference, samples=SAMPLES, tol=10, grad=())
row("rnn_keep", check=same, samples=SAMPLES, grad=(0, 1, 2, 3), outputs=(0, 1))
row("rnn_train", check=same, grad=(0, 1, 2, 3), outputs=(0, 1, 2),
    samples=[sample("lstm", 2, True, p=0.4), sample("lstm", 3, p=0.5)])
exempt("rnn_grad", "rnn_keep")

# -- ctc -----------------------------------------------------------------------------------------------------------


def _ctc(x, label, times=None, counts=None, use_data_lengths=False, use_label_lengths=False, blank_label="first"):
    """The sum over all paths, one by one."""
    import itertools
    x = scipy.special.log_softmax(x, 2)
    blank, padding = (0, 0) if blank_label == "first" else (x.shape[2] - 1, -1)
    losses = []
    for b in range(x.shape[1]):
        target = list(label[b].astype(int))
        target = target[:int(counts[b])] if use_label_lengths else \
            target[:target.index(padding)] if padding in target else target
        total = -np.inf
        n = int(times[b]) if use_data_lengths else x.shape[0]
        for path in itertools.product(range(x.shape[2]), repeat=n):
            if [c for c, _ in itertools.groupby(path) if c != blank] == target:
                total = np.logaddexp(total, sum(x[t, b, c] for t, c in enumerate(path)))
        losses.append(-total if n and np.isfinite(total) else 0)       # 0 for a label that no path gives
    return np.array(losses)


row("ctc_loss", ref=_ctc, tol=20, grad=(0,), samples=[
    S(normal(4, 3, 4), np.array([[1, 2], [1, 1], [3, 0]]), None, None),
    S(normal(4, 3, 3), np.array([[0, 1], [1, 1], [-1, -1]]), None, None, blank_label="last"),
    S(normal(4, 3, 4), np.array([[1, 2, 3], [1, 3, 0], [2, 2, 2]], "float32"), np.array([4, 2, 3]), np.array([3, 2, 1]),
      use_data_lengths=True, use_label_lengths=True),
    S(normal(4, 4, 4), np.array([[1, 1, 1], [2, 2, 3], [1, 0, 0], [0, 0, 0]], "int32"), np.array([4, 3, 0, 0]), None,
      use_data_lengths=True)])
exempt("ctc_grad", "ctc_loss")
