"""Adam and its relatives."""
from __future__ import annotations

import math

from ..dispatch import F
from .optimizer import Rule, register, zeros_like
from .sgd import no_lazy, norm, usable


class _Moments(Rule):
    """Optimizers with running averages of the gradient and of its square."""
    default_learning_rate = 0.001

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight)

    def _corrected(self, lr, t):
        """The learning rate with the correction of both averages' bias towards zero at update ``t``."""
        return lr * math.sqrt(1 - self.beta2 ** t) / (1 - self.beta1 ** t)

    def _averages(self, mean, var, grad, deviation=None):
        """Move both averages."""
        self.write(mean, mean * self.beta1 + grad * (1 - self.beta1))
        second = grad if deviation is None else deviation(grad, mean)
        self.write(var, var * self.beta2 + F.square(second) * (1 - self.beta2))


@register
class Adam(_Moments):
    """Kingma and Ba 2015, with the weight decay as part of the gradient."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-8, lazy_update=False, use_fused_step=True,
                 **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        no_lazy("Adam", lazy_update)
        self.beta1, self.beta2, self.epsilon, self.lazy_update = beta1, beta2, epsilon, False

    def coefficients(self, lr, wd, t):
        return (self._corrected(lr, t),)

    def record(self):
        return "adam", (self.beta1, self.beta2, self.epsilon)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        mean, var = state
        self._averages(mean, var, self.prepared(weight, grad, rescale, wd))
        self.write(weight, weight - mean / (F.sqrt(var) + self.epsilon) * lr)


@register
class AdamW(_Moments):
    """Adam with the weight decay apart from the gradient (Loshchilov and Hutter 2019)."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True, use_fused_step=True,
                 **kwargs):
        kwargs.setdefault("aggregate_num", 4)
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.correct_bias = beta1, beta2, epsilon, correct_bias

    def coefficients(self, lr, wd, t):
        lr = self._corrected(lr, t) if self.correct_bias else lr
        return lr, 1 - lr * wd

    def record(self):
        return "adamw", (self.beta1, self.beta2, self.epsilon)

    def record_numbers(self, rescale, wd, lr, shrink):
        return lr, lr * wd, 1.0, rescale

    def rule(self, weight, grad, state, special, rescale, wd, lr, shrink):
        mean, var = state
        self._averages(mean, var, self.prepared(weight, grad, rescale))
        self.write(weight, (weight - mean / (F.sqrt(var) + self.epsilon) * lr) * shrink)


@register
class AdaBelief(_Moments):
    """Adam with the average of the squared deviation from the mean gradient (Zhuang et al. 2020)."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True, use_fused_step=True,
                 **kwargs):
        kwargs.setdefault("aggregate_num", 4)
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.correct_bias = beta1, beta2, epsilon, correct_bias

    def coefficients(self, lr, wd, t):
        return (self._corrected(lr, t) if self.correct_bias else lr,)

    def record(self):
        return "adabelief", (self.beta1, self.beta2, self.epsilon)

    def record_numbers(self, rescale, wd, lr):
        return lr, wd, 1.0, rescale

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        mean, var = state
        grad = grad * rescale + weight * wd              # here the decay is clipped too
        if self.clip_gradient is not None and self.clip_gradient > 0:
            grad = F.clip(grad, a_min=-self.clip_gradient, a_max=self.clip_gradient)
        self._averages(mean, var, grad, lambda g, m: g - m)
        self.write(var, var + self.epsilon)
        self.write(weight, weight - mean / (F.sqrt(var) + self.epsilon) * lr)


@register
class Adamax(_Moments):
    """Adam with the largest gradient in place of the average square (Kingma and Ba 2015, section 7)."""
    default_learning_rate = 0.002

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-8, use_fused_step=False, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def coefficients(self, lr, wd, t):
        return (lr / (1 - self.beta1 ** t),)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        mean, largest = state
        grad = self.prepared(weight, grad, rescale, wd)
        self.write(mean, mean * self.beta1 + grad * (1 - self.beta1))
        self.write(largest, F.maximum(largest * self.beta2, F.absolute(grad)))
        self.write(weight, weight - mean / (largest + self.epsilon) * lr)


@register
class Nadam(_Moments):
    """Adam with Nesterov's momentum (Dozat 2016). The momentum schedule's product is that of the parameter's own
    updates, so it is the same on every device (MXNet multiplies once for each parameter and device)."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004,
                 use_fused_step=False, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.schedule_decay = beta1, beta2, epsilon, schedule_decay
        self._products = [1.0]

    def _momentum(self, t):
        return self.beta1 * (1 - 0.5 * 0.96 ** (t * self.schedule_decay))

    def coefficients(self, lr, wd, t):
        while len(self._products) <= t:
            self._products.append(self._products[-1] * self._momentum(len(self._products)))
        now, following = self._momentum(t), self._momentum(t + 1)
        return (lr, (1 - now) / (1 - self._products[t]), following / (1 - self._products[t] * following),
                1 / (1 - self.beta2 ** t))

    def rule(self, weight, grad, state, special, rescale, wd, lr, of_grad, of_mean, of_var):
        mean, var = state
        grad = self.prepared(weight, grad, rescale, wd)
        self._averages(mean, var, grad)
        step = (mean * of_mean + grad * of_grad) / (F.sqrt(var * of_var) + self.epsilon)
        self.write(weight, weight - step * lr)


@register
class FTML(Rule):
    """Follow the moving leader (Zheng and Kwok 2017)."""
    default_learning_rate = 0.0025

    def __init__(self, learning_rate=None, beta1=0.6, beta2=0.999, epsilon=1e-8, use_fused_step=True, **kwargs):
        super().__init__(learning_rate=learning_rate, use_fused_step=use_fused_step, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def coefficients(self, lr, wd, t):
        return 1 / (1 - self.beta2 ** t), (1 - self.beta1 ** t) / lr

    def rule(self, weight, grad, state, special, rescale, wd, of_var, factor):
        d, v, z = state
        grad = self.prepared(weight, grad, rescale, wd)
        self.write(v, v * self.beta2 + F.square(grad) * (1 - self.beta2))
        new = (F.sqrt(v * of_var) + self.epsilon) * factor
        sigma = new - d * self.beta1
        self.write(d, new)
        self.write(z, z * self.beta1 + grad * (1 - self.beta1) - sigma * weight)
        self.write(weight, -z / d)


class _Layerwise(_Moments):
    """Adam-like steps scaled for each layer by the ratio of the norms of weights and step."""

    def create_state(self, index, weight):
        return zeros_like(weight, "float32"), zeros_like(weight, "float32")

    def _trust(self, weight, step):
        """norm(weight), within the bounds, over norm(step); 1 where that is of no use."""
        r = norm(weight)
        if self.lower_bound is not None:
            r = F.maximum(r, self.lower_bound)
        if self.upper_bound is not None:
            r = F.minimum(r, self.upper_bound)
        ratio = r / norm(step)
        return usable(ratio, ratio, step)

    def _move(self, weight, step):
        step = step if step.dtype == weight.dtype else F.cast(step, dtype=weight._spec.dtype.name)
        self.write(weight, weight - step)


@register
class LAMB(_Layerwise):
    """Adam for large batches: each layer's step scaled to its weights (You et al. 2020)."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None,
                 bias_correction=True, aggregate_num=4, use_fused_step=True, **kwargs):
        super().__init__(learning_rate=learning_rate, aggregate_num=aggregate_num, use_fused_step=use_fused_step,
                         **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.lower_bound, self.upper_bound, self.bias_correction = lower_bound, upper_bound, bias_correction

    def coefficients(self, lr, wd, t):
        if not self.bias_correction:
            return lr, 1.0, 1.0
        return lr, 1 / (1 - self.beta1 ** t), 1 / (1 - self.beta2 ** t)

    def rule(self, weight, grad, state, special, rescale, wd, lr, of_mean, of_var):
        mean, var = state
        self._averages(mean, var, self.prepared(weight, grad, rescale))
        step = mean * of_mean / (F.sqrt(var * of_var) + self.epsilon) + weight * wd
        self._move(weight, step * self._trust(weight, step) * lr)


@register
class LANS(_Layerwise):
    """LAMB with normalised gradients and Nesterov's momentum (Zheng et al. 2020)."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None,
                 aggregate_num=4, use_fused_step=True, **kwargs):
        super().__init__(learning_rate=learning_rate, aggregate_num=aggregate_num, use_fused_step=use_fused_step,
                         **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def coefficients(self, lr, wd, t):
        return lr, 1 / (1 - self.beta1 ** t), 1 / (1 - self.beta2 ** t)

    def rule(self, weight, grad, state, special, rescale, wd, lr, of_mean, of_var):
        mean, var = state
        grad = grad * rescale
        grad = grad / norm(grad)
        if self.clip_gradient is not None and self.clip_gradient > 0:
            grad = F.clip(grad, a_min=-self.clip_gradient, a_max=self.clip_gradient)
        self._averages(mean, var, grad)
        scale = F.sqrt(var * of_var) + self.epsilon
        decay = weight * wd
        first, second = mean * of_mean / scale + decay, grad / scale + decay
        step = first * self._trust(weight, first) * self.beta1 \
            + second * self._trust(weight, second) * (1 - self.beta1)
        self._move(weight, step * lr)
