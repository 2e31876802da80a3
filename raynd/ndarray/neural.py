"""Functions of ``mx.npx`` and ``mx.nd`` that choose among operators: by mode (batch_norm, dropout, rrelu), by
activation, or by how many results are asked for. Their records are in ``ops/``.

In prediction mode dropout and rrelu draw nothing, so the random numbers of a program do not depend on how often it
predicts; batch_norm's running statistics move in recorded training calls alone.
"""
from __future__ import annotations

from ..dispatch import F, scope
from ..errors import ArgumentError, ShapeError
from ..ops import registry
from .bindings import call
from .legacy import give, need_array


def run(name, arrays, out=None, **attrs):
    """Run the record ``name`` with its defaults and ``attrs``."""
    op = registry.get(name)
    return call(op, tuple(arrays), {**op.defaults, **attrs} if op.attrs else (), out)


def several(result, all_of_them, out=None):
    """The first output, or a list of all of them."""
    if not all_of_them:
        return give(result[0], out)
    if out is None:
        return list(result)
    return [give(y, o) for y, o in zip(result, out)]


def refuse(function, kwargs):
    """Raise for arguments that nothing knows; ``name`` is that of a symbol and means nothing to arrays."""
    kwargs.pop("name", None)
    if kwargs:
        raise ArgumentError(f"{function}() got an unexpected keyword argument {next(iter(kwargs))!r}")


def training_pass() -> bool:
    """Whether this is a recorded forward pass in training mode."""
    modes = scope()
    return modes.recording and modes.training


def batch_norm(x, gamma, beta, running_mean, running_var, eps=0.001, momentum=0.9, fix_gamma=True,
               use_global_stats=False, output_mean_var=False, axis=1, cudnn_off=False, min_calib_range=None,
               max_calib_range=None, out=None, **kwargs):
    """Normalise each channel (``axis``) to mean beta and standard deviation gamma (Ioffe and Szegedy 2015).

    In training by mean and biased variance of the batch, else and with ``use_global_stats`` by the running statistics.
    A recorded training call moves these: ``running = momentum * running + (1 - momentum) * batch``. ``fix_gamma``:
    gamma counts as 1 and has a zero gradient. ``output_mean_var``: also returns the mean and 1 / sqrt(variance + eps).
    """
    refuse("batch_norm", kwargs)
    attrs = {"eps": eps, "momentum": momentum, "fix_gamma": bool(fix_gamma), "axis": axis}
    arrays = (x, gamma, beta, running_mean, running_var)
    if scope().training and not use_global_stats:
        if not training_pass():              # in training mode but not recorded: nothing moves
            arrays = (x, gamma, beta, F.copy(running_mean), F.copy(running_var))
        result = run("batch_norm_train", arrays, **attrs)
    else:
        result = run("batch_norm_fixed", arrays, **attrs)
    return several(result, output_mean_var, out)


def _legacy_batch_norm(data, gamma, beta, moving_mean, moving_var, eps=0.001, momentum=0.9, fix_gamma=True,
                       use_global_stats=False, output_mean_var=False, axis=1, cudnn_off=False, min_calib_range=None,
                       max_calib_range=None, out=None, name=None):
    return batch_norm(data, gamma, beta, moving_mean, moving_var, eps, momentum, fix_gamma, use_global_stats,
                      output_mean_var, axis, out=out)


def batch_norm_with_relu(data, gamma, beta, moving_mean, moving_var, *args, output_mean_var=False, out=None, **kwargs):
    """:func:`batch_norm` followed by a rectifier."""
    result = batch_norm(data, gamma, beta, moving_mean, moving_var, *args, output_mean_var=output_mean_var, **kwargs)
    if output_mean_var:
        return several((F.relu(result[0]), *result[1:]), True, out)
    return give(F.relu(result), out)


def dropout(data, p=0.5, mode="training", axes=None, cudnn_off=False, out=None, **kwargs):
    """Set each element to 0 with probability ``p`` and scale the others by 1 / (1 - p) (Srivastava et al. 2014).

    ``mode``: 'training' (prediction leaves the data as it is and draws no random numbers) or 'always'. Along ``axes``
    all elements share one draw.
    """
    refuse("dropout", kwargs)
    if mode not in ("training", "always"):
        raise ArgumentError(f"dropout: mode must be 'training' or 'always', not {mode!r}")
    if not 0 <= p <= 1:
        raise ShapeError(f"dropout: p must lie between 0 and 1, got {p}")
    need_array(data, "dropout")
    axes = () if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    if p == 0 or not (scope().training or mode == "always"):
        return give(F.copy(data), out)
    return run("dropout", (data,), out, p=float(p), axes=axes)


def leaky_relu(data=None, gamma=None, act_type="leaky", slope=0.25, lower_bound=0.125, upper_bound=0.334, out=None,
               **kwargs):
    """Activations that are not zero for negative x.

    ``act_type``: 'leaky' (slope * x), 'elu' (slope * (exp(x) - 1)), 'selu', 'gelu' (also 'gelu_erf'), 'gelu_tanh',
    'prelu' (gamma * x with the array ``gamma`` of one element or one for each channel, axis 1), or 'rrelu': in training
    a random slope between the bounds for each element, in prediction their mean.
    """
    refuse("leaky_relu", kwargs)
    need_array(data, "leaky_relu")
    if act_type == "prelu":
        if gamma is None:
            raise ArgumentError("leaky_relu: act_type='prelu' needs the array gamma")
        return run("prelu", (data, gamma), out)
    if act_type == "rrelu":
        if scope().training:
            return give(run("rrelu", (data,), lower=float(lower_bound), upper=float(upper_bound)), out)
        return run("leaky", (data,), out, slope=(lower_bound + upper_bound) / 2)
    if act_type in ("leaky", "elu"):
        return run(act_type, (data,), out, slope=float(slope))
    record = {"selu": "selu", "gelu": "gelu", "gelu_erf": "gelu", "gelu_tanh": "gelu_tanh"}.get(act_type)
    if record is None:
        raise ArgumentError("leaky_relu: act_type must be 'leaky', 'elu', 'selu', 'gelu', 'gelu_erf', 'gelu_tanh', "
                            f"'prelu' or 'rrelu', not {act_type!r}")
    return run(record, (data,), out)


def fully_connected(x, weight, bias=None, num_hidden=None, no_bias=True, flatten=True, out=None, **kwargs):
    """``x @ weight.T + bias``. ``weight``: (num_hidden, inputs). ``flatten``: all axes of x but the first count as one,
    else the last axis is transformed and the others are kept."""
    refuse("fully_connected", kwargs)
    return run("fully_connected", (x, weight, None if no_bias else bias), out, num_hidden=num_hidden,
               no_bias=bool(no_bias), flatten=bool(flatten))


def layer_norm(data=None, gamma=None, beta=None, axis=None, eps=None, output_mean_var=None, out=None, **kwargs):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta`` with mean and variance over ``axis`` (default the last; Ba
    et al. 2016). ``output_mean_var``: also returns the mean and sqrt(variance + eps), the axis kept."""
    refuse("layer_norm", kwargs)
    attrs = {"axis": -1 if axis is None else axis, "eps": 1e-5 if eps is None else float(eps)}
    return several(run("layer_norm", (data, gamma, beta), **attrs), output_mean_var, out)


def group_norm(data, gamma, beta, num_groups=1, eps=0.001, output_mean_var=False, out=None, **kwargs):
    """Normalise each of ``num_groups`` groups of channels (axis 1) of each sample, then scale and shift each channel
    (Wu and He 2018). ``output_mean_var``: also returns mean and standard deviation, of shape (batch, num_groups)."""
    refuse("group_norm", kwargs)
    result = run("group_norm", (data, gamma, beta), num_groups=num_groups, eps=float(eps))
    return several(result, output_mean_var, out)


def instance_norm(data, gamma, beta, eps=0.001, out=None, **kwargs):
    """Normalise each channel of each sample over its positions, then scale and shift it (Ulyanov et al. 2016)."""
    refuse("instance_norm", kwargs)
    need_array(data, "instance_norm")
    if data.ndim < 3:
        raise ShapeError(f"instance_norm: data needs at least 3 axes, not shape {data.shape}")
    return give(run("group_norm", (data, gamma, beta), num_groups=max(data.shape[1], 1), eps=float(eps))[0], out)


def sync_batch_norm(data, gamma, beta, moving_mean, moving_var, eps=0.001, momentum=0.9, fix_gamma=True,
                    use_global_stats=False, output_mean_var=False, ndev=1, key=None, out=None, **kwargs):
    """:func:`batch_norm` over one device's part of a batch. For statistics over several devices use
    ``gluon.nn.SyncBatchNorm``."""
    if ndev not in (None, 1):
        raise ArgumentError("sync_batch_norm: ndev > 1 needs the arrays of all devices; use gluon.nn.SyncBatchNorm")
    return batch_norm(data, gamma, beta, moving_mean, moving_var, eps, momentum, fix_gamma, use_global_stats,
                      output_mean_var, out=out, **kwargs)


def rnn(data=None, parameters=None, state=None, state_cell=None, sequence_length=None, mode=None, state_size=None,
        num_layers=None, bidirectional=False, state_outputs=False, p=0.0, use_sequence_length=False,
        projection_size=None, lstm_state_clip_min=None, lstm_state_clip_max=None, lstm_state_clip_nan=None, out=None,
        **kwargs):
    """A recurrent network of ``num_layers`` layers over data (time, batch, inputs).

    ``mode``: 'rnn_relu', 'rnn_tanh', 'lstm' (with ``state_cell``) or 'gru'. ``parameters``: all weights and biases in
    one vector (see ``ops/rnn.py`` for their order). ``state``: (layers * directions, batch, state_size or
    projection_size). ``p``: dropout between layers in training. With ``use_sequence_length`` each sequence ends at its
    ``sequence_length``: outputs after it are 0, and final states are those at its end. ``lstm_state_clip_*``: bounds of
    the cell state. Returns the output (time, batch, directions * size), with ``state_outputs`` a list of it and the
    final states.
    """
    refuse("rnn", kwargs)
    need_array(data, "rnn")
    modes = scope()
    attrs = {"mode": mode, "state_size": state_size, "num_layers": num_layers, "bidirectional": bool(bidirectional),
             "projection_size": projection_size, "p": float(p) if modes.training and num_layers > 1 else 0.0,
             "clip_min": lstm_state_clip_min, "clip_max": lstm_state_clip_max, "clip_nan": bool(lstm_state_clip_nan)}
    if use_sequence_length and sequence_length is None:
        raise ArgumentError("rnn: sequence_length is needed with use_sequence_length=True")
    arrays = (data, parameters, state, state_cell if mode == "lstm" else None,
              sequence_length if use_sequence_length else None)
    if attrs["p"] > 0 or modes.recording:
        result = run("rnn_train" if attrs["p"] > 0 else "rnn_keep", arrays, **attrs)[:-1]
    else:
        result = run("rnn_predict", arrays, **attrs)
    return several(result, state_outputs, out)


def _legacy_fully_connected(data, weight, bias=None, num_hidden=None, no_bias=False, flatten=True, out=None, name=None):
    if not no_bias and bias is None:
        raise ArgumentError("FullyConnected: bias is needed unless no_bias=True")
    return fully_connected(data, weight, bias, num_hidden, no_bias, flatten, out)


def _legacy_layer_norm(data, gamma, beta, axis=-1, eps=1e-05, output_mean_var=False, out=None, name=None):
    return layer_norm(data, gamma, beta, axis, eps, output_mean_var, out)


def _legacy_group_norm(data, gamma, beta, num_groups=1, eps=1e-05, output_mean_var=False, out=None, name=None):
    return group_norm(data, gamma, beta, num_groups, eps, output_mean_var, out)


def _legacy_deconvolution(data, weight, bias=None, kernel=None, stride=(), dilate=(), pad=(), adj=(), target_shape=(),
                          num_filter=1, num_group=1, workspace=512, no_bias=True, cudnn_tune=None, cudnn_off=False,
                          layout=None, out=None, name=None):
    return run("deconvolution", (data, weight, None if no_bias else bias), out, kernel=kernel, stride=stride,
               dilate=dilate, pad=pad, adj=adj, target_shape=target_shape, num_filter=num_filter, num_group=num_group,
               no_bias=no_bias, layout=layout)


def _legacy_rnn(data=None, parameters=None, state=None, state_cell=None, sequence_length=None, state_size=None,
                num_layers=None, bidirectional=False, mode=None, p=0.0, state_outputs=False, projection_size=None,
                lstm_state_clip_min=None, lstm_state_clip_max=None, lstm_state_clip_nan=None, use_sequence_length=False,
                out=None, name=None):
    return rnn(data, parameters, state, state_cell, sequence_length, mode, state_size, num_layers, bidirectional,
               state_outputs, p, use_sequence_length, projection_size, lstm_state_clip_min, lstm_state_clip_max,
               lstm_state_clip_nan, out)


NPX_FUNCTIONS = {f.__name__: f for f in (
    batch_norm, batch_norm_with_relu, dropout, leaky_relu, fully_connected, layer_norm, group_norm, instance_norm,
    rnn, sync_batch_norm)}
def kl_sparse_identity(data, moving_avg, sparseness_target=0.1, penalty=0.001, momentum=0.9, out=None, name=None):
    """The data (batch, units), activities between 0 and 1, whose recorded gradient pushes each unit's mean activity to
    ``sparseness_target``. The mean ``moving_avg`` (units,) moves once a recorded call."""
    for what, value in (("sparseness_target", sparseness_target), ("momentum", momentum)):
        if not 0 <= value <= 1:
            raise ArgumentError(f"IdentityAttachKLSparseReg: {what} must lie within 0 and 1, not {value}")
    average = moving_avg if scope().recording else F.copy(moving_avg)
    result = run("kl_sparse_identity", (data, average), sparseness_target=float(sparseness_target),
                 penalty=float(penalty), momentum=float(momentum))
    return give(result, out)


ND_FUNCTIONS = {
    "BatchNorm": _legacy_batch_norm, "BatchNorm_v1": _legacy_batch_norm, "Dropout": dropout, "LeakyReLU": leaky_relu,
    "FullyConnected": _legacy_fully_connected, "LayerNorm": _legacy_layer_norm, "GroupNorm": _legacy_group_norm,
    "InstanceNorm": instance_norm, "Deconvolution": _legacy_deconvolution, "RNN": _legacy_rnn,
    "IdentityAttachKLSparseReg": kl_sparse_identity,
}
CONTRIB_FUNCTIONS = {"SyncBatchNorm": sync_batch_norm, "BatchNormWithReLU": batch_norm_with_relu}
