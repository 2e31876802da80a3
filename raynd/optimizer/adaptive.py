"""Optimizers that scale each element by its past gradients."""
from __future__ import annotations

from ..dispatch import F
from ..errors import ArgumentError, ShapeError
from .optimizer import Rule, register, zeros_like


def _renamed(kwargs, **names):
    """Arguments of MXNet 1 that have new names."""
    for old, new in names.items():
        if kwargs.pop(old, None) is not None:
            raise ArgumentError(f"parameter {old!r} is deprecated. Please use {new!r} instead...")


@register
class AdaGrad(Rule):
    """Steps divided by the root of the sum of squared gradients (Duchi, Hazan and Singer 2011)."""

    def __init__(self, learning_rate=None, epsilon=1e-6, use_fused_step=True, **kwargs):
        _renamed(kwargs, eps="epsilon")
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.epsilon = epsilon

    def create_state(self, index, weight):
        return zeros_like(weight)

    def record(self):
        return "adagrad", (self.epsilon,)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        grad = self.prepared(weight, grad, rescale, wd)
        self.write(state, state + F.square(grad))
        self.write(weight, weight - grad / (F.sqrt(state) + self.epsilon) * lr)


@register
class GroupAdaGrad(Rule):
    """AdaGrad with one sum of squares for each row of a matrix. Weight decay is not supported and raises."""

    def __init__(self, learning_rate=None, epsilon=1e-6, use_fused_step=True, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.epsilon = epsilon

    def create_state(self, index, weight):
        if len(weight.shape) != 2:
            raise ShapeError(f"GroupAdaGrad is for matrices; a parameter has shape {weight.shape}")
        return F.zeros_like(F.sum(weight.detach(), axis=1, keepdims=True))

    def coefficients(self, lr, wd, t):
        if wd != 0:
            raise ShapeError("Weight decay is not supported for GroupAdaGrad")
        return (lr,)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        grad = self.prepared(weight, grad, rescale)
        self.write(state, state + F.sum(F.square(grad), axis=1, keepdims=True) / max(1, weight.shape[1]))
        self.write(weight, weight - grad / (F.sqrt(state) + self.epsilon) * lr)


@register
class AdaDelta(Rule):
    """Steps in the units of the weights, by running averages of squared gradients and squared steps (Zeiler 2012)."""
    default_learning_rate = 1.0

    def __init__(self, learning_rate=None, rho=0.9, epsilon=1e-6, use_fused_step=False, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        squares, steps = state
        grad = self.prepared(weight, grad, rescale, wd)
        self.write(squares, squares * self.rho + F.square(grad) * (1 - self.rho))
        step = F.sqrt(steps + self.epsilon) / F.sqrt(squares + self.epsilon) * grad
        self.write(steps, steps * self.rho + F.square(step) * (1 - self.rho))
        self.write(weight, weight - step * lr)


@register
class RMSProp(Rule):
    """Steps divided by the root of a running average of squared gradients (Tieleman and Hinton 2012); ``centered``: of
    their variance, with momentum (Graves 2013). ``clip_weights`` bounds the weights afterwards."""
    default_learning_rate = 0.001

    def __init__(self, learning_rate=None, rho=0.9, momentum=0.9, epsilon=1e-8, centered=False, clip_weights=None,
                 use_fused_step=True, **kwargs):
        _renamed(kwargs, gamma1="rho", gamma2="momentum")
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.rho, self.momentum, self.epsilon = rho, momentum, epsilon
        self.centered, self.clip_weights = centered, clip_weights

    def create_state(self, index, weight):
        return tuple(zeros_like(weight) for _ in range(3)) if self.centered else zeros_like(weight)

    def record(self):
        limit = self.clip_weights or -1.0
        if self.centered:
            return "rmspropalex", (self.rho, self.momentum, self.epsilon, limit)
        return "rmsprop", (self.rho, self.epsilon, limit)

    def record_states(self, state):
        return (state[1], state[0], state[2]) if self.centered else (state,)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        grad = self.prepared(weight, grad, rescale, wd)
        if self.centered:
            mean, var, momentum = state
            self.write(mean, mean * self.rho + grad * (1 - self.rho))
            self.write(var, var * self.rho + F.square(grad) * (1 - self.rho))
            step = grad * lr / F.sqrt(var - F.square(mean) + self.epsilon)
            self.write(momentum, momentum * self.momentum - step)
            new = weight + momentum
        else:
            self.write(state, state * self.rho + F.square(grad) * (1 - self.rho))
            new = weight - grad * lr / (F.sqrt(state) + self.epsilon)
        if self.clip_weights:
            new = F.clip(new, a_min=-self.clip_weights, a_max=self.clip_weights)
        self.write(weight, new)


@register
class Ftrl(Rule):
    """Follow the regularised leader: many weights become exactly zero (McMahan et al. 2013)."""
    default_learning_rate = 0.1

    def __init__(self, learning_rate=None, lamda1=0.01, beta=1., use_fused_step=True, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.lamda1, self.beta = lamda1, beta

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight)

    def record(self):
        return "ftrl", (self.lamda1, self.beta)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        z, n = state
        grad = self.prepared(weight, grad, rescale)
        before = F.sqrt(n)
        self.write(n, n + F.square(grad))
        root = F.sqrt(n)
        self.write(z, z + grad - (root - before) / lr * weight)
        shrunk = F.sign(z) * F.maximum(F.absolute(z) - self.lamda1, 0)
        self.write(weight, -shrunk / ((root + self.beta) / lr + wd))
