"""Optimizers (``mx.optimizer``)."""
from __future__ import annotations

from .adam import FTML, LAMB, LANS, AdaBelief, Adam, Adamax, AdamW, Nadam
from .adaptive import AdaDelta, AdaGrad, Ftrl, GroupAdaGrad, RMSProp
from .optimizer import Optimizer, Rule, Test, create, register
from .sgd import DCASGD, LARS, NAG, SGD, SGLD, Signum
from .updater import Updater, get_updater

__all__ = ["AdaBelief", "AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax", "DCASGD", "FTML", "Ftrl", "GroupAdaGrad",
           "LAMB", "LANS", "LARS", "NAG", "Nadam", "Optimizer", "RMSProp", "Rule", "SGD", "SGLD", "Signum", "Test",
           "Updater", "create", "get_updater", "register"]
