"""Dense, Dropout, Embedding, Flatten."""
from __future__ import annotations

import math

from ... import numpy_extension as npx
from ...dispatch import F
from ...errors import MXNetError
from ..block import HybridBlock
from ..parameter import Parameter
from .activations import Activation


class Dense(HybridBlock):
    """``activation(x @ weight.T + bias)``.

    ``weight`` has shape (units, in_units); in_units 0: taken from the first input. With ``flatten`` all axes of the
    input but the first are one, else the last axis is transformed and the others kept.
    """

    def __init__(self, units, activation=None, use_bias=True, flatten=True, dtype="float32", weight_initializer=None,
                 bias_initializer="zeros", in_units=0, prefix=None, params=None):
        super().__init__(prefix, params)
        self._units, self._in_units, self._flatten = units, in_units, flatten
        self.weight = Parameter("weight", shape=(units, in_units), init=weight_initializer, dtype=dtype,
                                allow_deferred_init=True)
        self.bias = Parameter("bias", shape=(units,), init=bias_initializer, dtype=dtype,
                              allow_deferred_init=True) if use_bias else None
        self.act = Activation(activation) if activation is not None else None

    def forward(self, x):
        device = x.device
        bias = self.bias
        y = npx.fully_connected(x, self.weight.data(device), None if bias is None else bias.data(device),
                                num_hidden=self._units, no_bias=bias is None, flatten=self._flatten)
        return y if self.act is None else self.act(y)

    def infer_shape(self, x, *args):
        self.weight.shape = (self._units, math.prod(x.shape[1:]) if self._flatten else x.shape[-1])

    def __repr__(self):
        shape = self.weight.shape
        return f"{type(self).__name__}({shape[1] if shape[1] else None} -> {shape[0]}, {self.act or 'linear'})"


class Dropout(HybridBlock):
    """In training sets each element to 0 with probability ``rate`` and scales the others by 1 / (1 - rate).

    ``axes``: axes along which the mask is the same. Srivastava et al. 2014.
    """

    def __init__(self, rate, axes=(), prefix=None, params=None):
        super().__init__(prefix, params)
        self._rate, self._axes = rate, axes

    def forward(self, x):
        return npx.dropout(x, p=self._rate, axes=self._axes) if self._rate > 0 else F.copy(x)

    def __repr__(self):
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Rows of ``weight`` (input_dim, output_dim) for integers in [0, input_dim).

    ``sparse_grad=True`` raises: gradients are dense.
    """

    def __init__(self, input_dim, output_dim, dtype="float32", weight_initializer=None, sparse_grad=False, prefix=None,
                 params=None):
        super().__init__(prefix, params)
        if sparse_grad:
            raise MXNetError("Embedding(sparse_grad=True) is not supported: sparse gradients do not exist in gluon "
                             "here; leave it False")
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": False}
        self.weight = Parameter("weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype,
                                allow_deferred_init=True)

    def forward(self, x):
        return npx.embedding(x, self.weight.data(x.device), **self._kwargs)

    def __repr__(self):
        return "{}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


class Flatten(HybridBlock):
    """All axes but the first as one."""

    def forward(self, x):
        return npx.batch_flatten(x)

    def __repr__(self):
        return type(self).__name__
