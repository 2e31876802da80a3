"""Rows of the neural-network operators."""
import itertools

import numpy as np
import scipy.special
from numpy.lib.stride_tricks import sliding_window_view
from table import S, bools, distinct, exempt, ints, normal, positive, row, unary_row


def sigmoid(x):
    return scipy.special.expit(x)


def softplus(x):
    return np.logaddexp(0, x)


def mish(x):
    return x * np.tanh(softplus(x))


# -- activations ---------------------------------------------------------------------------------------------------

ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid, "softrelu": softplus, "mish": mish,
               "log_sigmoid": lambda x: -softplus(-x), "softsign": lambda x: x / (1 + abs(x)), "tanh": np.tanh}
for _name, _ref in ACTIVATIONS.items():
    if _name != "tanh":
        unary_row(_name, _ref, tol=2, low=-3, high=3)
unary_row("silu", lambda x: x * sigmoid(x), tol=2)
unary_row("gelu", lambda x: x * scipy.special.ndtr(x), tol=4)
unary_row("gelu_tanh", lambda x: x * scipy.special.ndtr(x) if x.size == 0 else
          0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))), tol=4)
unary_row("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), tol=2)
row("activation", ref=lambda x, act_type="relu": ACTIVATIONS[act_type](x), tol=2, ints_as="int32",
    samples=[S(normal(3, 4), act_type=name) for name in ACTIVATIONS] + [S(normal()), S(normal(0, 2))])
row("leaky", ref=lambda x, slope: np.where(x > 0, x, slope * x),
    samples=[S(normal(3, 4), slope=0.25), S(normal(3), slope=1.5), S(normal(), slope=-0.5), S(normal(0), slope=0.1)])
row("elu", ref=lambda x, slope: np.where(x > 0, x, slope * np.expm1(x)), tol=2,
    samples=[S(normal(3, 4), slope=0.7), S(normal(), slope=1.0), S(normal(0, 2), slope=1.0)])
row("prelu", ref=lambda x, g: np.where(x > 0, x, x * (g[:, None] if g.size > 1 and x.ndim > 2 else g)),
    samples=[S(normal(2, 3, 4), positive(3)), S(normal(2, 3), positive(3)), S(normal(2, 3), positive(1)),
             S(normal(0, 3), positive(3))])
row("hard_sigmoid", ref=lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    samples=[S(normal(3, 4, scale=3)), S(normal(5), alpha=0.4, beta=0.1), S(normal()), S(normal(0))])


def _rrelu(inputs, outputs, attrs):
    x, (y, mask) = inputs[0], outputs
    np.testing.assert_allclose(y, x * mask, rtol=5e-3)
    negative = mask[x <= 0]
    assert (mask[x > 0] == 1).all() and (negative >= attrs["lower"] - 1e-3).all() \
        and (negative <= attrs["upper"] + 1e-3).all()


row("rrelu", check=_rrelu, outputs=(0,),
    samples=[S(normal(20, 5), lower=0.1, upper=0.3), S(normal(), lower=0.1, upper=0.2),
             S(normal(0, 2), lower=0.1, upper=0.3)])


def _dropout(inputs, outputs, attrs):
    x, (y, keep) = inputs[0], outputs
    scale = 0 if attrs["p"] == 1 else 1 / (1 - attrs["p"])
    np.testing.assert_allclose(y, np.where(keep, x * scale, 0), rtol=5e-3)
    if keep.size > 500:
        assert abs(keep.mean() - (1 - attrs["p"])) < 0.1
    for a in attrs["axes"]:
        assert keep.shape[a] == 1


row("dropout", check=_dropout, outputs=(0,),
    samples=[S(normal(40, 30), p=0.3, axes=()), S(normal(6, 5, 4), p=0.5, axes=(0, 2)), S(normal(3), p=1.0, axes=()),
             S(normal(0, 3), p=0.5, axes=())])
exempt("dropout_apply", "dropout")
for _name in ("relu", "sigmoid", "softrelu", "log_sigmoid", "softsign", "mish", "leaky", "elu", "gelu", "gelu_tanh"):
    exempt(f"{_name}_grad", _name)

# -- dense ---------------------------------------------------------------------------------------------------------


def _dense(x, w, b=None, num_hidden=None, no_bias=True, flatten=True):
    y = (x.reshape(len(x), w.shape[1]) if flatten else x) @ w.T
    return y if b is None or no_bias else y + b


row("fully_connected", ref=_dense, tol=4,
    samples=[S(normal(3, 4), normal(5, 4), None), S(normal(3, 2, 4), normal(5, 8), normal(5), no_bias=False),
             S(normal(3, 2, 4), normal(5, 4), normal(5), no_bias=False, flatten=False),
             S(normal(4), normal(5, 4), normal(5), no_bias=False, flatten=False),
             S(normal(0, 4), normal(5, 4), None), S(normal(2, 0), normal(3, 0), normal(3), no_bias=False)])
exempt("dense_data_grad", "fully_connected")
exempt("dense_weight_grad", "fully_connected")

row("embedding", ref=lambda i, w, **_: w[np.clip(i.astype(int), 0, len(w) - 1)],
    samples=[S(ints(3, 4, high=6), normal(6, 2)), S(np.array([0, 7, -1, 2]), normal(3, 2)),
             S(ints(high=3), normal(3, 2)),
             S(ints(0, high=3), normal(3, 2)), S(np.array([[0, 2], [2, 2]], "float32"), normal(3, 5))], grad=(1,))
exempt("embedding_grad", "embedding")


def _one_hot(i, depth, on_value=1.0, off_value=0.0, dtype="float32"):
    return np.where(np.asarray(i).astype(int)[..., None] == np.arange(depth), on_value, off_value)


for _name in ("one_hot", "nd_one_hot"):
    row(_name, ref=_one_hot, dtypes="float32",
        samples=[S(ints(3, 2, high=5), depth=4), S(ints(4, high=5, low=-2), depth=3, on_value=2.0, off_value=-1.0),
                 S(ints(high=3), depth=3), S(ints(0), depth=3), S(ints(3, high=4), depth=4, dtype="float64")])


def _pick(x, i, axis=-1, mode="clip", keepdims=False):
    if axis is None:
        x, axis = x.reshape(-1), 0
    n = x.shape[axis]
    i = np.asarray(i).astype(int)
    one = x.ndim == 1 and i.shape == (1,)              # the result is index-shaped
    i = np.clip(i, 0, n - 1) if mode == "clip" else i % n
    i = i.reshape([1 if k == axis % x.ndim else m for k, m in enumerate(x.shape)])
    y = np.take_along_axis(x, i, axis)
    return y if keepdims or one else y.squeeze(axis)


_PICKS = [S(normal(3, 4), ints(3, high=4)), S(normal(3, 4), ints(4, high=5), axis=0, mode="wrap"),
          S(normal(3, 4), np.array([9, -9, 1]), keepdims=True), S(normal(2, 3, 4), ints(2, 1, 4, high=3), axis=1),
          S(normal(0, 4), ints(0)), S(normal(5), ints(high=5)), S(normal(5), ints(1, high=5)),
          S(normal(3, 4), np.array([2.0, 1.0, 3.0], "float32"))]
row("pick", ref=_pick, samples=_PICKS, grad=(0,))
row("nd_pick", ref=_pick, samples=_PICKS, grad=(0,))
exempt("pick_grad", "pick")
row("round_ste", ref=lambda x: np.sign(x) * np.floor(abs(x) + 0.5), grad=(),
    samples=[S(normal(3, 4)), S(normal()), S(normal(0))])
row("sign_ste", ref=np.sign, grad=(), samples=[S(normal(3, 4)), S(normal()), S(normal(0))])

# -- softmax -------------------------------------------------------------------------------------------------------


def _masked(x, mask, axis, temperature, log, sign=1):
    with np.errstate(all="ignore"):
        x = np.where(mask, sign * x / (temperature or 1), -np.inf)
        y = scipy.special.softmax(x, axis) if x.size else x
        y = np.where(mask & np.isfinite(y), y, 0)
        return np.log(y) if log else y


def _softmax(log=False, sign=1):
    def ref(x, length=None, axis=-1, temperature=None, use_length=False, dtype=None):
        if length is None:
            mask = np.ones(x.shape, bool)
        else:
            shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
            mask = np.arange(x.shape[axis]).reshape(shape) < np.expand_dims(length, axis)
        if log and length is None:
            return scipy.special.log_softmax(x / (temperature or 1), axis) if x.size else x
        return _masked(x, mask, axis, temperature, log, sign)
    return ref


for _name, _log, _sign in (("softmax", False, 1), ("log_softmax", True, 1), ("softmin", False, -1)):
    for _prefix in ("", "nd_"):
        row(_prefix + _name, ref=_softmax(_log, _sign), tol=4, grad=(0,),
            samples=[S(normal(3, 4), None), S(normal(2, 3, 4), None, axis=1, temperature=2.5), S(normal(0, 4), None),
                     S(normal(3, 4), ints(3, low=1, high=5), use_length=True, grad=not _log),
                     S(normal(2, 3, 4), ints(2, 4, low=0, high=4), axis=1, use_length=True, grad=not _log),
                     S(normal(3, scale=100), None)])
for _name in ("masked_softmax", "masked_log_softmax"):
    row(_name, tol=4, ref=lambda x, m, axis=-1, temperature=1.0, normalize=True, log="log" in _name:
        _masked(x, np.broadcast_to(m, x.shape), axis, temperature, log), grad=(0,),
        samples=[S(normal(3, 4), bools(3, 4), grad="log" not in _name), S(normal(2, 3, 4), bools(2, 3, 1), axis=1,
                                                                         temperature=2.0, grad="log" not in _name),
                 S(normal(3, 4), np.ones((1, 4), bool)), S(normal(0, 3), np.ones((1, 3), bool))])
exempt("softmax_grad", "softmax")
exempt("log_softmax_grad", "log_softmax")
row("softmax_activation", ref=lambda x, mode="instance": scipy.special.softmax(
    x, 1 if mode == "channel" else tuple(range(1, x.ndim))), tol=4,
    samples=[S(normal(2, 3, 4)), S(normal(2, 3, 4), mode="channel")])
row("smooth_l1", ref=lambda x, scalar=1.0: np.where(abs(x) < 1 / scalar ** 2, 0.5 * (scalar * x) ** 2,
                                                    abs(x) - 0.5 / scalar ** 2), tol=2,
    samples=[S(normal(3, 4)), S(normal(5), scalar=2.0), S(normal()), S(normal(0, 3))])


def _topk(x, axis=-1, k=1, ret_typ="indices", is_ascend=False, dtype="float32"):
    shape = x.shape
    if axis is None:
        x, axis = x.reshape(-1), 0
    k = k if k > 0 else x.shape[axis]
    order = np.argsort(x if is_ascend else -x, axis=axis, kind="stable").take(np.arange(k), axis=axis)
    values = np.take_along_axis(x, order, axis)
    mask = np.zeros(x.shape)
    np.put_along_axis(mask, order, 1, axis)
    return {"indices": order, "value": values, "both": (values, order), "mask": mask.reshape(shape)}[ret_typ]


row("topk", ref=_topk, samples=[
    S(distinct(3, 4), k=2), S(distinct(3, 4), axis=0, k=2, ret_typ="value"), S(distinct(3, 4), axis=None, k=5,
                                                                              ret_typ="value"),
    S(distinct(3, 4), k=3, ret_typ="both", is_ascend=True), S(distinct(2, 3, 4), axis=1, k=2, ret_typ="mask"),
    S(distinct(3), k=0), S(normal(0, 3), k=2), S(np.array([1.0, 2, 2, 1]), k=2, grad=False)])

# -- sequences -----------------------------------------------------------------------------------------------------


def _times(x, lengths, axis):
    """True at valid times."""
    shape = [1] * x.ndim
    shape[axis] = -1
    other = [1] * x.ndim
    other[1 - axis] = -1
    return np.arange(x.shape[axis]).reshape(shape) < np.asarray(lengths).reshape(other)


def _sequence_mask(x, lengths=None, use_sequence_length=False, value=0.0, axis=0):
    return np.where(_times(x, lengths, axis), x, value) if use_sequence_length else x


def _sequence_last(x, lengths=None, use_sequence_length=False, axis=0):
    x = x if axis == 0 else x.swapaxes(0, 1)
    last = lengths.astype(int) - 1 if use_sequence_length else np.full(x.shape[1], len(x) - 1)
    return x[last, np.arange(x.shape[1])]


def _sequence_reverse(x, lengths=None, use_sequence_length=False, axis=0):
    y = x.copy() if axis == 0 else x.swapaxes(0, 1).copy()
    source = y.copy()
    for i in range(y.shape[1]):
        n = int(lengths[i]) if use_sequence_length else len(y)
        y[:n, i] = source[:n, i][::-1]
    return y if axis == 0 else y.swapaxes(0, 1)


for _name, _ref in (("sequence_mask", _sequence_mask), ("sequence_last", _sequence_last),
                    ("sequence_reverse", _sequence_reverse)):
    row(_name, ref=_ref, grad=(0,),
        samples=[S(normal(4, 3, 2), None), S(normal(4, 3, 2), ints(3, low=1, high=5), use_sequence_length=True),
                 S(normal(3, 4), ints(3, low=1, high=5), use_sequence_length=True, axis=1), S(normal(3, 0), None)])
exempt("sequence_last_grad", "sequence_last")

# -- normalisation -------------------------------------------------------------------------------------------------


def _batch_norm(x, gamma, beta, mean, var, eps, momentum, fix_gamma, axis, train):
    axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    new_mean, new_var = mean, var
    if train:
        batch_mean, batch_var = x.mean(axes), x.var(axes)
        new_mean = momentum * mean + (1 - momentum) * batch_mean
        new_var = momentum * var + (1 - momentum) * batch_var
        mean, var = batch_mean, batch_var
    inv = 1 / np.sqrt(var + eps)
    g = 1 if fix_gamma else gamma.reshape(shape)
    y = (x - mean.reshape(shape)) * inv.reshape(shape) * g + beta.reshape(shape)
    return (y, mean, inv, new_mean, new_var) if train else (y, mean, inv)


def _bn(*shape, axis=1, fix_gamma=False):
    c = shape[axis]
    return S(normal(*shape), positive(c), normal(c), normal(c), positive(c), eps=1e-3, momentum=0.9,
             fix_gamma=fix_gamma, axis=axis)


for _name, _train in (("batch_norm_train", True), ("batch_norm_fixed", False)):
    row(_name, ref=lambda *a, train=_train, **k: _batch_norm(*a, **k, train=train), tol=8, outputs=(0,), grad=(0, 1, 2),
        samples=[_bn(4, 3, 5), _bn(3, 4, 2, 2, axis=-1), _bn(6, 3), _bn(4, 3, 2, fix_gamma=True)])
exempt("batch_norm_grad", "batch_norm_train")


def _layer_norm(x, gamma, beta, axis=-1, eps=1e-5, output_mean_var=False):
    mean, var = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    std = np.sqrt(var + eps)
    return (x - mean) / std * gamma.reshape(shape) + beta.reshape(shape), mean, std


row("layer_norm", ref=_layer_norm, tol=8, outputs=(0,),
    samples=[S(normal(3, 4), positive(4), normal(4)), S(normal(2, 3, 4), positive(3), normal(3), axis=1, eps=1e-3),
             S(normal(0, 4), positive(4), normal(4))])
exempt("layer_norm_grad", "layer_norm")


def _group_norm(x, gamma, beta, num_groups=1, eps=1e-3, output_mean_var=False):
    g = x.reshape(x.shape[0], num_groups, -1)
    mean, std = g.mean(2), np.sqrt(g.var(2) + eps)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    y = ((g - mean[..., None]) / std[..., None]).reshape(x.shape)
    return y * gamma.reshape(shape) + beta.reshape(shape), mean, std


row("group_norm", ref=_group_norm, tol=8, outputs=(0,),
    samples=[S(normal(2, 4, 3), positive(4), normal(4), num_groups=2), S(normal(3, 6), positive(6), normal(6)),
             S(normal(2, 3, 2, 2), positive(3), normal(3), num_groups=3)])
_L2 = {"instance": lambda n: tuple(range(1, n)), "channel": lambda n: 1, "spatial": lambda n: tuple(range(2, n))}
row("l2_normalization", tol=4, ref=lambda x, eps=1e-10, mode="instance":
    x / np.sqrt((x ** 2).sum(_L2[mode](x.ndim), keepdims=True) + eps),
    samples=[S(normal(2, 3, 4)), S(normal(3)), S(normal(2, 3, 4), mode="channel"),
             S(normal(2, 3, 4), mode="spatial", eps=0.1)])


def _window_sum(x, nsize):
    return sum(np.pad(x, [(0, 0), (nsize // 2, nsize // 2)] + [(0, 0)] * (x.ndim - 2))[:, i:i + x.shape[1]]
               for i in range(nsize))


row("channel_window_sum", ref=_window_sum, tol=4, samples=[S(normal(2, 5, 3), nsize=3), S(normal(2, 3), nsize=7)])
row("channel_sum", ref=lambda x, axis: x.sum(tuple(i for i in range(x.ndim) if i != axis)), tol=8,
    samples=[S(normal(3, 4, 5), axis=1), S(normal(2, 3, 2, 4), axis=3), S(normal(0, 3), axis=1)])
row("lrn", tol=4, ref=lambda x, alpha=1e-4, beta=0.75, knorm=2.0, nsize=5:
    x / (knorm + alpha / nsize * _window_sum(x ** 2, nsize)) ** beta,
    samples=[S(normal(2, 6, 3), alpha=0.5, nsize=3), S(normal(2, 3, 2, 2), beta=0.5, knorm=1.0)])

# -- convolution ---------------------------------------------------------------------------------------------------


def _first(x, last):
    return np.moveaxis(x, -1, 1) if last else x


def _conv(x, w, b=None, *, kernel=None, stride=None, dilate=None, pad=None, num_filter=1, num_group=1, no_bias=False,
          layout=None):
    last = layout is not None and layout[1] != "C"
    x, w = _first(x, last), _first(w, last)
    n = x.ndim - 2
    stride, dilate, pad = stride or (1,) * n, dilate or (1,) * n, pad or (0,) * n
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    spans = [d * (k - 1) + 1 for d, k in zip(dilate, w.shape[2:])]
    v = sliding_window_view(x, spans, tuple(range(2, n + 2)))
    v = v[(slice(None), slice(None), *[slice(None, None, s) for s in stride], *[slice(None, None, d) for d in dilate])]
    parts = []
    for xs, ws in zip(np.split(v, num_group, 1), np.split(w, num_group, 0)):
        letters = "hwd"[:n], "pqr"[:n]
        parts.append(np.einsum(f"nc{letters[0]}{letters[1]},oc{letters[1]}->no{letters[0]}", xs, ws))
    y = np.concatenate(parts, 1)
    if not no_bias:
        y = y + b.reshape((-1,) + (1,) * n)
    return np.moveaxis(y, 1, -1) if last else y


row("convolution", ref=_conv, tol=8, samples=[
    S(normal(2, 3, 5, 6), normal(4, 3, 3, 2), normal(4), kernel=(3, 2)),
    S(normal(2, 2, 7), normal(3, 2, 3), None, stride=(2,), pad=(1,), dilate=(2,), no_bias=True),
    S(normal(1, 2, 4, 3, 5), normal(2, 2, 2, 2, 3), normal(2), stride=(1, 2, 2), pad=(0, 1, 1)),
    S(normal(2, 4, 6, 5), normal(6, 2, 3, 3), normal(6), num_group=2, pad=(1, 1), stride=(2, 1)),
    S(normal(2, 5, 6, 3), normal(4, 3, 2, 3), normal(4), layout="NHWC", pad=(1, 0)),
    S(normal(0, 3, 5, 5), normal(2, 3, 3, 3), None, no_bias=True),
    S(normal(2, 30, 4, 4), normal(26, 30, 3, 3), None, pad=(1, 1), no_bias=True, grad=False)])
exempt("convolution_data_grad", "convolution", "deconvolution")
exempt("convolution_weight_grad", "convolution", "deconvolution")
exempt("convolution_grads", "convolution")


def _deconv(x, w, b=None, *, kernel=None, stride=None, dilate=None, pad=None, adj=None, target_shape=None, num_filter=1,
            num_group=1, no_bias=False, layout=None):
    last = layout is not None and layout[1] != "C"
    x, w = _first(x, last), _first(w, last)
    n = x.ndim - 2
    stride, dilate, adj, pad = stride or (1,) * n, dilate or (1,) * n, adj or (0,) * n, pad or (0,) * n
    full = [(m - 1) * s + d * (k - 1) + 1 for m, s, d, k in zip(x.shape[2:], stride, dilate, w.shape[2:])]
    out = [f - 2 * p + a for f, p, a in zip(full, pad, adj)]
    if target_shape:
        out = list(target_shape)
        pad = [(f - t + 1) // 2 for f, t in zip(full, out)]
    big = np.zeros((x.shape[0], w.shape[1] * num_group, *[max(f, p + o) for f, p, o in zip(full, pad, out)]))
    o = w.shape[1]
    for g in range(num_group):
        c = w.shape[0] // num_group
        for tap in itertools.product(*[range(k) for k in w.shape[2:]]):
            where = tuple(slice(i * d, i * d + (m - 1) * s + 1, s)
                          for i, d, m, s in zip(tap, dilate, x.shape[2:], stride))
            big[(slice(None), slice(g * o, (g + 1) * o), *where)] += np.einsum(
                "nc...,co->no...", x[:, g * c:(g + 1) * c], w[(slice(g * c, (g + 1) * c), slice(None), *tap)])
    y = big[(slice(None), slice(None), *[slice(p, p + m) for p, m in zip(pad, out)])]
    if not no_bias:
        y = y + b.reshape((-1,) + (1,) * n)
    return np.moveaxis(y, 1, -1) if last else y


row("deconvolution", ref=_deconv, tol=8, samples=[
    S(normal(2, 3, 3, 4), normal(3, 2, 3, 2), normal(2), stride=(2, 1), pad=(1, 0), adj=(1, 0)),
    S(normal(2, 2, 4), normal(2, 3, 3), None, stride=(3,), adj=(2,), dilate=(2,), no_bias=True),
    S(normal(2, 4, 3, 3), normal(4, 2, 2, 2), normal(4), num_group=2, stride=(2, 2)),
    S(normal(1, 2, 3, 3), normal(2, 2, 4, 4), None, stride=(2, 2), target_shape=(6, 7), no_bias=True),
    S(normal(1, 2, 3, 3, 2), normal(2, 2, 2, 2, 2), None, no_bias=True, pad=(1, 0, 0)),
    S(normal(2, 3, 4, 2), normal(2, 2, 3, 3), normal(3), layout="NHWC")])

# -- pooling -------------------------------------------------------------------------------------------------------


def _pool(x, kernel=None, stride=None, pad=None, pool_type="max", pooling_convention="valid", global_pool=False,
          p_value=None, count_include_pad=None, layout=None):
    last = layout is not None and layout[1] != "C"
    x = _first(x, last)
    n, sizes = x.ndim - 2, x.shape[2:]
    if global_pool:
        kernel, stride, pad = sizes, (1,) * n, (0,) * n
    stride, pad = stride or (1,) * n, pad or (0,) * n
    up = {"valid": lambda m, k, s, p: (m + 2 * p - k) // s + 1, "full": lambda m, k, s, p: -(-(m + 2 * p - k) // s) + 1,
          "same": lambda m, k, s, p: -(-m // s)}[pooling_convention]
    out = [up(*v) for v in zip(sizes, kernel, stride, pad)]
    y = np.zeros((*x.shape[:2], *out))
    for at in itertools.product(*[range(o) for o in out]):
        low = [a * s - p for a, s, p in zip(at, stride, pad)]
        high = [min(lo + k, m + p) for lo, k, m, p in zip(low, kernel, sizes, pad)]
        count = np.prod([h - lo for h, lo in zip(high, low)])
        inside = [slice(max(lo, 0), max(min(h, m), 0)) for lo, h, m in zip(low, high, sizes)]
        v = x[(slice(None), slice(None), *inside)]
        v = v.reshape(*x.shape[:2], int(np.prod(v.shape[2:])))
        if count_include_pad is False:
            count = max(v.shape[2], 1)
        p = p_value or 1
        value = {"max": lambda v=v: v.max(2), "sum": lambda v=v: v.sum(2), "avg": lambda v=v, c=count: v.sum(2) / c,
                 "lp": lambda v=v, p=p: (v ** p).sum(2) ** (1 / p)}[pool_type]()
        y[(slice(None), slice(None), *at)] = value
    return np.moveaxis(y, 1, -1) if last else y


_POOLS = [
    S(distinct(2, 3, 6, 4, scale=0.1), kernel=(2, 2), stride=(2, 2)),
    S(distinct(2, 2, 5, 6, scale=0.1), kernel=(3, 2), stride=(2, 1), pad=(1, 1)),
    S(normal(1, 2, 4, 5), kernel=(2, 2), pad=(3, 2), pool_type="avg", count_include_pad=False),
    S(distinct(2, 2, 6, 5, scale=0.1), kernel=(3, 3), stride=(2, 2), pooling_convention="full"),
    S(distinct(2, 2, 7, scale=0.1), kernel=(3,), stride=(2,), pooling_convention="same"),
    S(distinct(1, 2, 3, 4, 4, scale=0.1), kernel=(2, 2, 2), stride=(1, 2, 2)),
    S(distinct(2, 3, 4, 2, scale=0.1), kernel=(2, 2), layout="NHWC"),
    S(distinct(2, 3, 4, 2, scale=0.1), global_pool=True), S(normal(0, 3, 4, 4), kernel=(2, 2)),
    S(normal(2, 3, 5), kernel=(3,), stride=(2,), pad=(1,), pool_type="avg"),
    S(normal(2, 3, 5, 4), kernel=(3, 2), stride=(2, 2), pad=(1, 1), pool_type="avg", count_include_pad=False),
    S(normal(2, 3, 5, 5), kernel=(2, 2), stride=(2, 2), pool_type="avg", pooling_convention="full"),
    S(normal(2, 3, 4, 4), pool_type="avg", global_pool=True), S(normal(2, 3, 4), pool_type="sum", global_pool=True),
    S(normal(2, 3, 4, 2), kernel=(2, 2), pool_type="sum", layout="NHWC"),
    S(normal(2, 3, 5), kernel=(2,), pool_type="lp", p_value=1),
    S(positive(2, 3, 5), kernel=(2,), stride=(2,), pool_type="lp", p_value=2),
    S(positive(2, 3, 4), global_pool=True, pool_type="lp", p_value=3)]
row("pooling", ref=_pool, samples=_POOLS, tol=4)
row("nd_pooling", ref=_pool, samples=_POOLS[:2], tol=4)
for _name in ("max_pool_grad", "max_pool_select", "sum_pool_grad"):
    exempt(_name, "pooling")


def _adaptive(x, output_size=()):
    h, w = np.broadcast_to(output_size if output_size != () else 1, 2)
    y = np.zeros((*x.shape[:2], h, w))
    for i, j in itertools.product(range(h), range(w)):
        rows = slice(i * x.shape[2] // h, -(-(i + 1) * x.shape[2] // h))
        columns = slice(j * x.shape[3] // w, -(-(j + 1) * x.shape[3] // w))
        y[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
    return y


row("adaptive_avg_pooling", ref=_adaptive, tol=4, samples=[
    S(normal(2, 3, 5, 7), output_size=(2, 3)), S(normal(2, 3, 4, 4), output_size=2), S(normal(2, 3, 4, 5)),
    S(normal(1, 2, 3, 3), output_size=(2,))])
exempt("adaptive_avg_grad", "adaptive_avg_pooling")

