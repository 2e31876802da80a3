"""Batch normalisation over the batches of all devices together."""
from __future__ import annotations

import math
import threading
import warnings
from itertools import count

from ... import numpy as np
from ...autograd import PythonNode, assign, is_recording, is_training, pause
from ...dispatch import F, scope
from ...errors import MXNetError, ShapeError, TraceError
from ...kvstore.collective import Meeting
from .normalization import BatchNorm


class _Sums:
    """The sums over devices of one layer. The n-th call on each device takes part in the n-th sum."""

    def __init__(self):
        self.lock, self.calls, self.open, self.numbers = threading.Lock(), {}, {}, count()

    def meeting(self, key, devices, device):
        """The meeting that ``device`` joins next under ``key``; made by the first member."""
        with self.lock:
            queue = self.open.setdefault(key, [])
            for meeting in queue:
                if device not in meeting.joined:
                    found = meeting
                    break
            else:
                found = Meeting((id(self), next(self.numbers)), devices)
                queue.append(found)
            if len(found.missing()) == 1:
                queue.remove(found)
            if not queue:
                del self.open[key]
            return found

    def sum(self, x, devices, key="forward", create_graph=False):
        """The sum of ``x`` over devices, on each of them; its gradient is the sum of the gradients over devices."""
        meeting = self.meeting(key, devices, x.device)
        result = meeting.join(x)
        if (is_recording() or create_graph) and x._entry is not None:
            def gradients(grads, create_graph):
                return [self.sum(grads[0], devices, ("backward", meeting.key), create_graph)]
            PythonNode("a sum over devices", gradients, [x], [result])
        return result


class SyncBatchNorm(BatchNorm):
    """:class:`BatchNorm` whose statistics in training are those of the batches of all devices together (Zhang et al.
    2018).

    ``num_devices``: how many of the layer's devices take part, by default all. Every one of them must call the layer
    once for each step (an empty part of a batch counts), and its backward must run too; a value that depends on the
    layer can be read only then. The layer stays eager in a hybridized block. Channels are axis 1.
    """

    def __init__(self, in_channels=0, num_devices=None, momentum=0.9, epsilon=1e-5, center=True, scale=True,
                 use_global_stats=False, beta_initializer="zeros", gamma_initializer="ones",
                 running_mean_initializer="zeros", running_variance_initializer="ones", prefix=None, params=None):
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
                         running_mean_initializer, running_variance_initializer, in_channels, prefix, params)
        self._num_devices, self._sums = num_devices, _Sums()

    def _members(self):
        devices = self.running_mean.list_device()
        if self._num_devices is None or self._num_devices >= len(devices):
            if self._num_devices is not None and self._num_devices > len(devices) > 1:
                warnings.warn(f"SyncBatchNorm(num_devices={self._num_devices}) is initialized on {len(devices)} "
                              "devices: its statistics are over these", stacklevel=3)
            return devices
        return devices[:self._num_devices]

    def forward(self, x):
        if not is_training() or self._kwargs["use_global_stats"] or len(self._members()) == 1:
            return super().forward(x)
        if scope().trace is not None:
            raise TraceError("SyncBatchNorm exchanges sums with other devices")
        device, members = x.device, self._members()
        if device not in members:
            raise MXNetError(f"SyncBatchNorm was called on {device}; its devices are {members}")
        if x.ndim < 2:
            raise ShapeError(f"SyncBatchNorm needs at least two axes, got shape {x.shape}")
        axes = tuple(i for i in range(x.ndim) if i != 1)
        channels = x.shape[1]
        wide = x if x._spec.dtype.itemsize >= 4 else F.cast(x, dtype="float32")
        number = math.prod(x.shape[i] for i in axes)
        count = np.full((1,), number, dtype="float32", device=device)
        if count.dtype != wide.dtype:
            count = F.cast(count, dtype=wide._spec.dtype.name)
        total = self._sums.sum(np.concatenate([wide.sum(axis=axes), np.square(wide).sum(axis=axes), count]), members)
        everything = total[2 * channels:]
        mean = total[:channels] / everything
        var = np.maximum(total[channels:2 * channels] / everything - np.square(mean), 0)
        self._move_averages(mean, var, device)
        shape = tuple(channels if i == 1 else 1 for i in range(x.ndim))
        gamma, beta = self.gamma.data(device), self.beta.data(device)
        factor = 1 / np.sqrt(var + self._kwargs["eps"])
        if not self._kwargs["fix_gamma"]:
            factor = factor * gamma
        y = (wide - np.reshape(mean, shape)) * np.reshape(factor, shape) + np.reshape(beta, shape)
        return y if y.dtype == x.dtype else F.cast(y, dtype=x._spec.dtype.name)

    def _move_averages(self, mean, var, device):
        """As batch_norm does: running averages with the biased variance."""
        momentum = self._kwargs["momentum"]
        with pause(train_mode=True):
            for parameter, value in ((self.running_mean, mean), (self.running_var, var)):
                running = parameter.data(device)
                value = value.detach()
                if value.dtype != running.dtype:
                    value = F.cast(value, dtype=running._spec.dtype.name)
                assign(running, running * momentum + value * (1 - momentum))
