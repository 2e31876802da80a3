"""Activation functions as layers."""
from __future__ import annotations

from ... import initializer, numpy_extension as npx
from ..block import HybridBlock
from ..parameter import Parameter


class Activation(HybridBlock):
    """``npx.activation``: 'relu', 'sigmoid', 'log_sigmoid', 'mish', 'tanh', 'softrelu' or 'softsign'."""

    def __init__(self, activation, prefix=None, params=None):
        self.__dict__["_act_type"] = activation
        super().__init__(prefix, params)

    def _alias(self):
        return self._act_type

    def forward(self, x):
        return npx.activation(x, act_type=self._act_type)

    def __repr__(self):
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x, and alpha * x where x is negative."""

    def __init__(self, alpha, prefix=None, params=None):
        assert alpha >= 0, "Slope coefficient for LeakyReLU must be no less than 0."
        super().__init__(prefix, params)
        self._alpha = alpha

    def forward(self, x):
        return npx.leaky_relu(x, act_type="leaky", slope=self._alpha)

    def __repr__(self):
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """As LeakyReLU with a learned slope for each of ``in_channels`` channels (axis 1), or one for all. He et al.
    2015."""

    def __init__(self, alpha_initializer=None, in_channels=1, prefix=None, params=None):
        super().__init__(prefix, params)
        self.alpha = Parameter("alpha", shape=(in_channels,),
                               init=initializer.Constant(0.25) if alpha_initializer is None else alpha_initializer)

    def forward(self, x):
        return npx.leaky_relu(x, gamma=self.alpha.data(x.device), act_type="prelu")


class ELU(HybridBlock):
    """x, and alpha * (exp(x) - 1) where x is negative. Clevert et al. 2016."""

    def __init__(self, alpha=1.0, prefix=None, params=None):
        super().__init__(prefix, params)
        self._alpha = alpha

    def forward(self, x):
        return npx.leaky_relu(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """ELU with the fixed slope and scale of self-normalizing networks. Klambauer et al. 2017."""

    def forward(self, x):
        return npx.leaky_relu(x, act_type="selu")


class GELU(HybridBlock):
    """x times the normal distribution function of x: exactly ('erf') or by its tanh approximation ('tanh').
    Hendrycks and Gimpel 2016."""

    def __init__(self, approximation="erf", prefix=None, params=None):
        super().__init__(prefix, params)
        if approximation not in ("erf", "tanh"):
            raise ValueError(f"approximation of GELU must be 'erf' or 'tanh', not {approximation!r}")
        self._act_algorithm = "gelu" if approximation == "erf" else "gelu_tanh"

    def forward(self, x):
        return npx.leaky_relu(x, act_type=self._act_algorithm)


class Swish(HybridBlock):
    """x * sigmoid(beta * x). Ramachandran et al. 2017."""

    def __init__(self, beta=1.0, prefix=None, params=None):
        super().__init__(prefix, params)
        self._beta = beta

    def forward(self, x):
        return x * npx.sigmoid(self._beta * x)


class SiLU(HybridBlock):
    """x * sigmoid(x)."""

    def forward(self, x):
        return x * npx.sigmoid(x)
