"""Where the kernels of heavy operators come from: the records' own (over NumPy), or PyTorch's where it is installed.

``RAYND_KERNELS`` chooses: 'reference' never uses another provider, 'torch' insists on PyTorch, 'auto' (the default)
uses it if it can be imported. A provider is a function ``bind(xp, name, in_specs, out_specs, attrs)`` that gives a
function of the arrays, or None for what it does not support, and then the record's kernel is used. PyTorch is imported
when an operator of the table is first prepared, since that takes seconds.
"""
from __future__ import annotations

import importlib
import importlib.util

from .. import config
from ..errors import MXNetError

# the operators for which PyTorch has faster kernels; kept here so that asking does not import it
TORCH_OPERATORS = frozenset((
    "convolution", "convolution_data_grad", "convolution_grads", "convolution_weight_grad", "deconvolution",
    "pooling", "nd_pooling", "max_pool_grad", "channel_sum", "batch_norm_train", "batch_norm_fixed",
    "batch_norm_grad", "layer_norm", "layer_norm_grad", "softmax", "log_softmax", "nd_softmax", "nd_log_softmax",
    "softmax_grad", "log_softmax_grad", "embedding_grad", "rnn_predict", "rnn_keep", "rnn_train", "rnn_grad",
    "ctc_loss", "ctc_grad", "erf", "erfinv", "gammaln", "activation", "sigmoid", "leaky_grad", "elu", "elu_grad",
    "gelu", "gelu_grad", "transpose",
))
_state: dict = {}


def torch_available() -> bool:
    """Whether PyTorch is installed (it is not imported to find out)."""
    if "available" not in _state:
        _state["available"] = importlib.util.find_spec("torch") is not None
    return _state["available"]


def in_use() -> str:
    """'torch' or 'reference': the provider by the setting and by what is installed."""
    choice = config.kernels()
    if choice == "auto":
        return "torch" if torch_available() else "reference"
    if choice == "torch" and not torch_available():
        raise MXNetError("RAYND_KERNELS=torch, but PyTorch is not installed in the device's environment; install "
                         "raynd[torch], or set RAYND_KERNELS=auto")
    return choice


def kernel(xp, name, in_specs, out_specs, attrs):
    """The provider's function for an operator on these specs, or None: use the record's own."""
    if name not in TORCH_OPERATORS or in_use() != "torch":
        return None
    return importlib.import_module(f"{__package__}.torch_kernels").bind(xp, name, in_specs, out_specs, attrs)
