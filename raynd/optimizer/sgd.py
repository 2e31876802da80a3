"""Gradient descent and its relatives."""
from __future__ import annotations

import math

from ..dispatch import F
from ..errors import ArgumentError
from .optimizer import Rule, register, zeros_like


def no_lazy(name, lazy_update):
    """Lazy updates are for row_sparse gradients, which gluon here does not have."""
    if lazy_update:
        raise ArgumentError(f"{name}(lazy_update=True) is for sparse gradients, which are not supported: leave it "
                            "False")


class _Momentum(Rule):
    """Optimizers whose state is a momentum array, or None without momentum."""

    def create_state(self, index, weight):
        return zeros_like(weight) if self.momentum != 0 else None


@register
class SGD(_Momentum):
    """``state = momentum * state - lr * grad; weight += state``."""
    default_learning_rate = 0.1

    def __init__(self, learning_rate=None, momentum=0.0, lazy_update=False, multi_precision=False, use_fused_step=True,
                 aggregate_num=1, **kwargs):
        super().__init__(learning_rate=learning_rate, multi_precision=multi_precision, aggregate_num=aggregate_num,
                         use_fused_step=use_fused_step, **kwargs)
        no_lazy("SGD", lazy_update)
        self.momentum, self.lazy_update = momentum, False

    def record(self):
        return ("sgd_mom", (self.momentum,)) if self.momentum != 0 else ("sgd", ())

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        change = self.prepared(weight, grad, rescale, wd) * lr
        if state is None:
            self.write(weight, weight - change)
            return
        self.write(state, state * self.momentum - change)
        self.write(weight, weight + state)


@register
class NAG(_Momentum):
    """SGD with Nesterov's momentum (Sutskever et al. 2013)."""
    default_learning_rate = 0.1

    def __init__(self, learning_rate=None, momentum=0.9, multi_precision=False, use_fused_step=True, **kwargs):
        super().__init__(learning_rate=learning_rate, multi_precision=multi_precision, use_fused_step=use_fused_step,
                         **kwargs)
        self.momentum = momentum

    def record(self):
        return ("nag_mom", (self.momentum,)) if self.momentum != 0 else ("sgd", ())

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        change = self.prepared(weight, grad, rescale, wd) * lr
        if state is None:
            self.write(weight, weight - change)
            return
        self.write(state, state * self.momentum - change)
        self.write(weight, weight + state * self.momentum - change)


@register
class Signum(_Momentum):
    """Steps of fixed size along the sign of the (averaged) gradient, with decoupled weight decay ``wd_lh``
    (Bernstein et al. 2018)."""

    def __init__(self, learning_rate=None, momentum=0.9, wd_lh=0.0, use_fused_step=True, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.momentum, self.wd_lh = momentum, wd_lh

    def coefficients(self, lr, wd, t):
        decay = self.wd_lh if self.momentum != 0 else wd + self.wd_lh
        return lr, 1 - lr * decay

    def record(self):
        return ("signum", (self.momentum, self.wd_lh)) if self.momentum != 0 else None

    def rule(self, weight, grad, state, special, rescale, wd, lr, shrink):
        if state is None:
            self.write(weight, weight * shrink - F.sign(grad) * lr)
            return
        grad = self.prepared(weight, grad, rescale, wd)
        self.write(state, state * self.momentum - grad * (1 - self.momentum))
        self.write(weight, weight * shrink + F.sign(state) * lr)


@register
class SGLD(Rule):
    """Stochastic gradient Langevin dynamics: half a gradient step plus normal noise of variance lr (Welling and Teh
    2011)."""
    default_learning_rate = 0.1
    fusible = False

    def __init__(self, learning_rate=None, use_fused_step=False, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        from ..numpy import random
        noise = random.normal(0, math.sqrt(lr), size=weight.shape, device=weight.device)
        if noise.dtype != weight.dtype:
            noise = F.cast(noise, dtype=weight._spec.dtype.name)
        self.write(weight, weight - self.prepared(weight, grad, rescale, wd) * (lr / 2) + noise)


@register
class DCASGD(Rule):
    """SGD that makes up for delayed gradients by a term with the change of the weights (Zheng et al. 2017)."""
    default_learning_rate = 0.1

    def __init__(self, learning_rate=None, momentum=0.0, lamda=0.04, use_fused_step=False, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.momentum, self.lamda = momentum, lamda

    def create_state(self, index, weight):
        return zeros_like(weight) if self.momentum != 0 else None, F.copy(weight.detach())

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        momentum, previous = state
        grad = self.prepared(weight, grad, rescale, wd)
        change = (F.square(grad) * (weight - previous) * self.lamda + grad) * lr
        new = weight - change
        if momentum is not None:
            self.write(momentum, momentum * self.momentum - change)
            new = weight + momentum
        self.write(previous, F.copy(weight))
        self.write(weight, new)


@register
class LARS(_Momentum):
    """SGD with a rate for each layer in proportion to the norms of weights and gradients (You, Gitman and Ginsburg
    2017). Parameters whose name ends in gamma, beta or bias get the plain rate."""
    default_learning_rate = 0.1

    def __init__(self, learning_rate=None, momentum=0.0, eta=0.001, epsilon=1e-8, lazy_update=False,
                 use_fused_step=True, aggregate_num=1, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, aggregate_num=aggregate_num,
                         **kwargs)
        no_lazy("LARS", lazy_update)
        self.momentum, self.eta, self.epsilon, self.lazy_update = momentum, eta, epsilon, False

    def special(self, index):
        name = self.idx2name.get(index) or getattr(self.param_dict.get(index), "name", str(index))
        return name.endswith(("gamma", "beta", "bias"))

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        change = self.prepared(weight, grad, rescale, wd) * lr
        if not special:
            w, g = norm(weight), norm(grad) * rescale
            ratio = w * self.eta / (g + w * wd + self.epsilon)
            change = change * usable(ratio, w / g, weight)
        if state is None:
            self.write(weight, weight - change)
            return
        self.write(state, state * self.momentum - change)
        self.write(weight, weight + state)


def norm(x):
    """The 2-norm of all elements, in float32 at least."""
    x = x if x._spec.dtype.itemsize >= 4 else F.cast(x, dtype="float32")
    return F.sqrt(F.sum(F.square(x)))


def usable(value, ratio, weight):
    """``value``, or 1 where the ratio of norms is 0, infinite or not a number; in the weight's dtype."""
    value = F.where(F.logical_and(ratio > 0, ratio < float("inf")), value, F.ones_like(value))
    return value if value.dtype == weight.dtype else F.cast(value, dtype=weight._spec.dtype.name)
