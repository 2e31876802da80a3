"""Normalization layers."""
from __future__ import annotations

from ... import numpy_extension as npx
from ...spec import as_dtype
from ..block import HybridBlock
from ..parameter import Parameter


class _Norm(HybridBlock):
    """Layers with a scale (gamma) and a shift (beta) for each channel."""

    def _set(self, in_channels, scale, center, gamma_initializer, beta_initializer, differentiable=True):
        self.gamma = Parameter("gamma", grad_req="write" if scale else "null", shape=(in_channels,),
                               init=gamma_initializer, allow_deferred_init=True,
                               differentiable=scale or differentiable)
        self.beta = Parameter("beta", grad_req="write" if center else "null", shape=(in_channels,),
                              init=beta_initializer, allow_deferred_init=True,
                              differentiable=center or differentiable)

    def _set_axis(self, axis, epsilon, center, scale, in_channels, gamma_initializer, beta_initializer):
        """For layers whose channels lie on any axis."""
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = self._channel_axis = axis
        self._epsilon = epsilon
        self._set(in_channels, scale, center, gamma_initializer, beta_initializer)

    _channel_axis = 1

    def infer_shape(self, x, *args):
        for parameter in self._reg_params.values():
            parameter.shape = (x.shape[self._channel_axis],)

    def __repr__(self):
        size = self.gamma.shape[0]
        parts = [f"{k}={v!r}" for k, v in self._kwargs.items()] + [f"in_channels={size if size > 0 else None}"]
        return f"{type(self).__name__}({', '.join(parts)})"


class BatchNorm(_Norm):
    """Normalizes each channel (``axis``) over the batch. Ioffe and Szegedy 2015.

    In training by mean and (biased) variance of the batch, whose running averages
    ``running = momentum * running + (1 - momentum) * batch`` move once per recorded forward; else, and always with
    ``use_global_stats``, by the running averages. Without ``scale`` gamma stays 1; without ``center`` beta is not
    trained.
    """

    def __init__(self, axis=1, momentum=0.9, epsilon=1e-5, center=True, scale=True, use_global_stats=False,
                 beta_initializer="zeros", gamma_initializer="ones", running_mean_initializer="zeros",
                 running_variance_initializer="ones", in_channels=0, prefix=None, params=None):
        super().__init__(prefix, params)
        self._kwargs = {"axis": axis, "eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
                        "use_global_stats": use_global_stats}
        self._axis = self._channel_axis = axis
        self._set(in_channels, scale, center, gamma_initializer, beta_initializer, differentiable=False)
        self.running_mean = Parameter("running_mean", grad_req="null", shape=(in_channels,),
                                      init=running_mean_initializer, allow_deferred_init=True, differentiable=False)
        self.running_var = Parameter("running_var", grad_req="null", shape=(in_channels,),
                                     init=running_variance_initializer, allow_deferred_init=True, differentiable=False)

    def cast(self, dtype):
        super().cast("float32" if as_dtype(dtype).name == "float16" else dtype)     # statistics need the range

    def forward(self, x):
        device = x.device
        return npx.batch_norm(x, self.gamma.data(device), self.beta.data(device), self.running_mean.data(device),
                              self.running_var.data(device), **self._kwargs)


class BatchNormReLU(BatchNorm):
    """:class:`BatchNorm` followed by a rectifier."""

    def forward(self, x):
        return npx.relu(super().forward(x))


class InstanceNorm(_Norm):
    """Normalizes each channel (``axis``) of each sample over the other axes. Ulyanov et al. 2016."""

    def __init__(self, axis=1, epsilon=1e-5, center=True, scale=False, beta_initializer="zeros",
                 gamma_initializer="ones", in_channels=0, prefix=None, params=None):
        super().__init__(prefix, params)
        self._set_axis(axis, epsilon, center, scale, in_channels, gamma_initializer, beta_initializer)

    def forward(self, x):
        device = x.device
        if self._axis == 1:
            return npx.instance_norm(x, self.gamma.data(device), self.beta.data(device), eps=self._epsilon)
        x = x.swapaxes(1, self._axis)
        y = npx.instance_norm(x, self.gamma.data(device), self.beta.data(device), eps=self._epsilon)
        return y.swapaxes(1, self._axis)


class LayerNorm(_Norm):
    """Normalizes over ``axis`` of each sample. Ba, Kiros and Hinton 2016."""

    def __init__(self, axis=-1, epsilon=1e-5, center=True, scale=True, beta_initializer="zeros",
                 gamma_initializer="ones", in_channels=0, prefix=None, params=None):
        super().__init__(prefix, params)
        self._set_axis(axis, epsilon, center, scale, in_channels, gamma_initializer, beta_initializer)

    def forward(self, x):
        device = x.device
        return npx.layer_norm(x, self.gamma.data(device), self.beta.data(device), axis=self._axis, eps=self._epsilon)


class GroupNorm(_Norm):
    """Normalizes ``num_groups`` groups of channels (axis 1) of each sample. Wu and He 2018."""

    def __init__(self, num_groups=1, epsilon=1e-5, center=True, scale=True, beta_initializer="zeros",
                 gamma_initializer="ones", in_channels=0, prefix=None, params=None):
        super().__init__(prefix, params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups, self._epsilon = num_groups, epsilon
        self._set(in_channels, scale, center, gamma_initializer, beta_initializer)

    def forward(self, x):
        device = x.device
        return npx.group_norm(x, self.gamma.data(device), self.beta.data(device), num_groups=self._num_groups,
                              eps=self._epsilon)
