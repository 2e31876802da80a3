"""Networks, losses, training (``mx.gluon``)."""
from __future__ import annotations

import importlib

from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from .trainer import Trainer

_MODULES = ("block", "data", "loss", "metric", "nn", "parameter", "rnn", "trainer", "utils", "model_zoo", "probability",
            "contrib")

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter", "ParameterDict",
           "SymbolBlock", "Trainer", *_MODULES[:9]]


def __getattr__(name):
    if name in _MODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module 'raynd.gluon' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_MODULES})
