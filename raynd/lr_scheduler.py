"""Learning-rate schedules: functions of the number of updates made so far (``mx.lr_scheduler``)."""
from __future__ import annotations

import logging
import math

from .errors import ShapeError

__all__ = ["LRScheduler", "FactorScheduler", "MultiFactorScheduler", "PolyScheduler", "CosineScheduler"]


class LRScheduler:
    """Base of schedules. ``scheduler(num_update)`` gives the learning rate.

    For the first ``warmup_steps`` updates it rises from ``warmup_begin_lr`` to ``base_lr`` ('linear') or stays at
    ``warmup_begin_lr`` ('constant').
    """

    def __init__(self, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        assert isinstance(warmup_steps, int), "warmup_steps must be an integer"
        if warmup_begin_lr > base_lr:
            raise ShapeError("Base lr has to be higher than warmup_begin_lr")
        if warmup_steps < 0:
            raise ShapeError("Warmup steps has to be positive or 0")
        if warmup_mode not in ("linear", "constant"):
            raise ShapeError("Supports only linear and constant modes of warmup")
        self.base_lr = self.warmup_final_lr = base_lr
        self.warmup_steps, self.warmup_begin_lr, self.warmup_mode = warmup_steps, warmup_begin_lr, warmup_mode

    def get_warmup_lr(self, num_update):
        """The learning rate at an update of the warm-up."""
        assert num_update < self.warmup_steps
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = self.warmup_final_lr - self.warmup_begin_lr
        return self.warmup_begin_lr + rise * num_update / self.warmup_steps

    def __call__(self, num_update):
        raise NotImplementedError(f"{type(self).__name__} does not define __call__(num_update)")


class FactorScheduler(LRScheduler):
    """Multiplied by ``factor`` after every ``step`` updates, but not below ``stop_factor_lr``."""

    def __init__(self, step, factor=1, stop_factor_lr=1e-8, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0,
                 warmup_mode="linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ShapeError("Schedule step must be greater or equal than 1 round")
        if factor > 1.0:
            raise ShapeError("Factor must be no more than 1 to make lr reduce")
        self.step, self.factor, self.stop_factor_lr, self.count = step, factor, stop_factor_lr, 0

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while num_update > self.count + self.step:       # several at once after loading a later state
            self.count += self.step
            self.base_lr = max(self.base_lr * self.factor, self.stop_factor_lr)
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplied by ``factor`` after each of the updates in the increasing list ``step``."""

    def __init__(self, step, factor=1, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(step, list) and step, "step must be a list of at least one update number"
        if any(b <= a for a, b in zip(step, step[1:])):
            raise ShapeError("Schedule step must be an increasing integer list")
        if step[0] < 1:
            raise ShapeError("Schedule step must be greater or equal than 1 round")
        if factor > 1.0:
            raise ShapeError("Factor must be no more than 1 to make lr reduce")
        self.step, self.cur_step_ind, self.factor, self.count = step, 0, factor, 0

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _Falling(LRScheduler):
    """From ``base_lr`` to ``final_lr`` at ``max_update``, then constant; ``shape(part)`` falls from 1 to 0."""

    def __init__(self, max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(max_update, int), "max_update must be an integer"
        if max_update < 1:
            raise ShapeError("maximum number of updates must be strictly positive")
        self.base_lr_orig, self.max_update, self.final_lr = base_lr, max_update, final_lr
        self.max_steps = max_update - warmup_steps

    def shape(self, part):
        """How much of the way is left, ``part`` of the updates being done."""
        raise NotImplementedError

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            part = (num_update - self.warmup_steps) / self.max_steps
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * self.shape(part)
        return self.base_lr


class PolyScheduler(_Falling):
    """Falls to ``final_lr`` at ``max_update`` as a polynomial of power ``pwr``."""

    def __init__(self, max_update, base_lr=0.01, pwr=2, final_lr=0, warmup_steps=0, warmup_begin_lr=0,
                 warmup_mode="linear"):
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def shape(self, part):
        return (1 - part) ** self.power


class CosineScheduler(_Falling):
    """Falls to ``final_lr`` at ``max_update`` as half a cosine wave. Loshchilov and Hutter 2017."""

    def __init__(self, max_update, base_lr=0.01, final_lr=0, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def shape(self, part):
        return (1 + math.cos(math.pi * part)) / 2
