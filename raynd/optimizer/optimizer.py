"""The base of optimizers: counts of updates, learning rates, weight decays, and how an update runs."""
from __future__ import annotations

import warnings

import numpy

from .. import autograd
from ..dispatch import F, Proxy, scope
from ..errors import ArgumentError, ShapeError
from ..util import is_np_array

FLOAT16 = numpy.dtype("float16")


class Optimizer:
    """Base of optimizers.

    ``rescale_grad`` multiplies every gradient first (a Trainer sets it to 1 / batch size), then ``clip_gradient``
    bounds its elements, then ``wd`` times the weight is added. ``learning_rate``: a number; None: the optimizer's
    default. ``lr_scheduler`` gives the learning rate from the number of updates; its ``base_lr`` is set to
    ``learning_rate`` if that is given too. ``multi_precision``: float16 weights get a float32 master copy.
    ``param_dict``: index to parameter, for its ``lr_mult`` and ``wd_mult``. ``aggregate_num`` and ``use_fused_step``
    are MXNet's: how many parameters an update takes at once (optimizers of this package take all), and whether one
    command runs the whole update.

    A subclass defines ``create_state(index, weight)`` and ``step(indices, weights, grads, states)``, which takes lists
    and begins with ``self._update_count(indices)``; or, in the 1.x way, ``update(index, weight, grad, state)``.
    """
    default_learning_rate = 0.01
    opt_registry: dict[str, type] = {}

    def __init__(self, rescale_grad=1., param_idx2name=None, wd=0., clip_gradient=None, learning_rate=None,
                 lr_scheduler=None, sym=None, begin_num_update=0, multi_precision=False, param_dict=None,
                 aggregate_num=None, use_fused_step=None):
        if sym is not None:
            raise ArgumentError("sym= is not supported: give lr_mult and wd_mult to parameters, or use set_lr_mult")
        if param_idx2name is not None and not isinstance(param_idx2name, dict):
            raise ArgumentError("param_idx2name should be a dict of param indexes to names.")
        self.rescale_grad, self.lr_scheduler, self.wd = rescale_grad, lr_scheduler, wd
        if lr_scheduler is not None and learning_rate is not None and lr_scheduler.base_lr != learning_rate:
            warnings.warn("learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer.",
                          UserWarning, stacklevel=3)
            lr_scheduler.base_lr = learning_rate
        self.lr = self.default_learning_rate if learning_rate is None and lr_scheduler is None else learning_rate
        self.lr_mult, self.wd_mult = {}, {}
        self.begin_num_update = self.num_update = begin_num_update
        self._all_index_update_counts, self._first_counts = {}, {}
        self._set_current_device(0)
        self.clip_gradient, self.multi_precision = clip_gradient, multi_precision
        self.aggregate_num = 1 if aggregate_num is None else aggregate_num
        self.use_fused_step = bool(use_fused_step)
        self.idx2name = dict(param_idx2name or {})
        self.param_dict = param_dict or {}
        self.allow_np_array = is_np_array()

    # -- registry ----------------------------------------------------------------------------------------------

    @staticmethod
    def register(klass):
        """Class decorator: make an optimizer known by its class's name in lower case."""
        assert isinstance(klass, type), "only a class can be registered as an optimizer"
        name = klass.__name__.lower()
        other = Optimizer.opt_registry.get(name)
        if other is not None and other is not klass:
            warnings.warn(f"New optimizer {klass.__module__}.{klass.__name__} is overriding existing optimizer "
                          f"{other.__module__}.{other.__name__}", stacklevel=2)
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name, **kwargs):
        """An optimizer from its name and arguments."""
        if isinstance(name, Optimizer):
            return name
        try:
            klass = Optimizer.opt_registry[name.lower()]
        except KeyError:
            raise ShapeError(f"Cannot find optimizer {name}; known are "
                             f"{', '.join(sorted(Optimizer.opt_registry))}") from None
        return klass(**kwargs)

    # -- rates -------------------------------------------------------------------------------------------------

    @property
    def learning_rate(self):
        """The present learning rate."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)

    def set_learning_rate(self, lr):
        """Change the learning rate; with a scheduler it raises UserWarning."""
        if self.lr_scheduler is not None:
            raise UserWarning("LRScheduler of the optimizer has already been defined. Note that set_learning_rate can "
                              "mutate the value of the learning rate of the optimizer only when the LRScheduler of the "
                              "optimizer is undefined.")
        self.lr = lr

    def set_lr_mult(self, args_lr_mult):
        """Multipliers of the learning rate by index or name, where the parameter itself gives none."""
        self.lr_mult = dict(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        """Multipliers of the weight decay by index or name, where the parameter itself gives none."""
        self.wd_mult = dict(args_wd_mult)

    def _multiplier(self, index, attribute):
        if index in self.param_dict:
            return getattr(self.param_dict[index], attribute)
        own = getattr(self, attribute)
        return own[index] if index in own else own.get(self.idx2name.get(index), 1.0)

    def _get_lrs(self, indices):
        lr = self.learning_rate
        return [lr * self._multiplier(i, "lr_mult") for i in indices]

    def _get_lr(self, index):
        return self._get_lrs([index])[0]

    def _get_wds(self, indices):
        return [self.wd * self._multiplier(i, "wd_mult") for i in indices]

    def _get_wd(self, index):
        return self._get_wds([index])[0]

    # -- counts ------------------------------------------------------------------------------------------------

    def _set_current_device(self, device_id):
        """Count the following updates for this device: replicas of a parameter are updated once each a step."""
        if device_id not in self._all_index_update_counts:
            self._all_index_update_counts[device_id] = dict(self._first_counts)
        self._index_update_count = self._all_index_update_counts[device_id]

    _set_current_context = _set_current_device

    def _update_count(self, index):
        """Count an update of one index or of several."""
        for i in index if isinstance(index, (list, tuple)) else [index]:
            count = self._index_update_count.get(i, self.begin_num_update) + 1
            self._index_update_count[i] = count
            self.num_update = max(count, self.num_update)

    # -- states ------------------------------------------------------------------------------------------------

    def create_state(self, index, weight):
        """The state of a parameter: None, an array, or a nested tuple of them."""
        return None

    def create_state_multi_precision(self, index, weight):
        """As :meth:`create_state`; a (float32 master copy, its state) for float16 with ``multi_precision``."""
        if weight.dtype == FLOAT16:
            if self.multi_precision:
                with autograd.pause(train_mode=scope().training):
                    master = F.cast(weight, dtype="float32")
                return master, self.create_state(index, master)
            warnings.warn("Accumulating with float16 in optimizer can lead to poor accuracy or slow convergence. "
                          "Consider using multi_precision=True option of the optimizer", stacklevel=2)
        return self.create_state(index, weight)

    # -- updating ----------------------------------------------------------------------------------------------

    def step(self, indices, weights, grads, states):
        """Update by separate operators."""
        raise NotImplementedError(f"{type(self).__name__} does not define step")

    def fused_step(self, indices, weights, grads, states):
        """Update by one command."""
        raise NotImplementedError(f"{type(self).__name__} does not define fused_step; use use_fused_step=False")

    def update(self, indices, weights, grads, states):
        """Update ``weights`` and ``states`` in place (lists, or one of each)."""
        if not isinstance(indices, (list, tuple)):
            indices, weights, grads, states = [indices], [weights], [grads], [states]
        for x in (*weights, *grads):
            assert isinstance(x, Proxy), f"weights and gradients must be arrays, not {type(x).__name__}"
        with autograd.pause(train_mode=scope().training):
            (self.fused_step if self.use_fused_step else self.step)(indices, weights, grads, states)

    def _one_by_one(self):
        """Whether this is an optimizer of the 1.x line: its ``update`` takes one parameter."""
        cls = type(self)
        return (cls.update is not Optimizer.update and cls.step is Optimizer.step
                and cls.fused_step is Optimizer.fused_step)

    def _is_master(self, weight):
        return self.multi_precision and weight.dtype == FLOAT16

    def update_multi_precision(self, indices, weights, grads, states):
        """As :meth:`update`; float16 weights with a master copy are updated through it."""
        if not isinstance(indices, (list, tuple)):
            indices, weights, grads, states = [indices], [weights], [grads], [states]
        with autograd.pause(train_mode=scope().training):
            masters, grads32, inner = [], [], []
            for w, g, s in zip(weights, grads, states):
                special = self._is_master(w)
                masters.append(s[0] if special else w)
                inner.append(s[1] if special else s)
                grads32.append(F.cast(g, dtype="float32") if special else g)
            if self._one_by_one():
                for arguments in zip(indices, masters, grads32, inner):
                    self.update(*arguments)
            else:
                self.update(indices, masters, grads32, inner)
            for w, master in zip(weights, masters):
                if self._is_master(w):
                    autograd.assign(w, F.cast(master, dtype="float16"))

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["param_dict"]                  # the trainer's, set anew by it
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.param_dict = {}
        for counts in self._all_index_update_counts.values():    # whichever devices go on from here
            for i, n in counts.items():
                self._first_counts[i] = max(n, self._first_counts.get(i, 0))
        self._all_index_update_counts = {}
        self._set_current_device(0)


register, create = Optimizer.register, Optimizer.create_optimizer


def zeros_like(weight, dtype=None):
    """A zero state for ``weight``, on its device and of its class."""
    return F.zeros_like(weight.detach(), dtype=dtype)


class Rule(Optimizer):
    """An optimizer given by a rule on arrays, which runs eagerly (:meth:`step`) or, recorded once for all parameters
    of a device, as one command (:meth:`fused_step`).

    ``coefficients(lr, wd, t)``: the numbers of the t-th update of a parameter that change from step to step.
    ``rule(weight, grad, state, rescale, wd, *coefficients)`` writes ``weight`` and ``state`` by :meth:`write`; there
    the numbers may only be operands of operators on arrays. ``special(index)``: a value, part of the rule, that
    depends on the parameter.
    """
    fusible = True

    def coefficients(self, lr, wd, t):
        """Numbers that change from step to step; by default the learning rate."""
        return (lr,)

    def special(self, index):
        """What the rule needs to know of a parameter; hashable."""
        return None

    def rule(self, weight, grad, state, special, rescale, wd, *coefficients):
        """One update of one parameter."""
        raise NotImplementedError

    def record(self):
        """(rule, settings) of the operator ``multi_update`` that does the same in one pass over memory; None: there is
        no such rule, and :meth:`rule` is recorded."""
        return None

    def record_numbers(self, rescale, wd, lr, *rest):
        """The numbers of a parameter as ``multi_update`` takes them: (lr, wd, ..., rescale)."""
        return lr, wd, rescale

    def record_states(self, state):
        """The arrays of a state in the order of the operator's rule."""
        return () if state is None else state if isinstance(state, tuple) else (state,)

    write = staticmethod(autograd.assign)

    def prepared(self, weight, grad, rescale, wd=None):
        """The gradient in the weight's dtype, rescaled, clipped, and with weight decay."""
        grad = grad * rescale
        if grad.dtype != weight.dtype:
            grad = F.cast(grad, dtype=weight._spec.dtype.name)
        if self.clip_gradient is not None and self.clip_gradient > 0:
            grad = F.clip(grad, a_min=-self.clip_gradient, a_max=self.clip_gradient)
        return grad if wd is None else grad + weight * wd

    def _numbers(self, indices):
        """For each index, after counting the update: (rescale, wd, *coefficients)."""
        self._update_count(indices)
        rescale = self.rescale_grad
        rescale = float(rescale.item() if isinstance(rescale, Proxy) else rescale)
        numbers = []
        for i, lr, wd in zip(indices, self._get_lrs(indices), self._get_wds(indices)):
            extra = self.coefficients(lr, wd, self._index_update_count[i])
            numbers.append((rescale, float(wd), *[float(x) for x in extra]))
        return numbers

    def step(self, indices, weights, grads, states):
        for i, w, g, s, n in zip(indices, weights, grads, states, self._numbers(indices)):
            self.rule(w, g, s, self.special(i), *n)

    def fused_step(self, indices, weights, grads, states):
        if not self.fusible:
            self.step(indices, weights, grads, states)
            return
        from .fused import run
        run(self, indices, weights, grads, states, self._numbers(indices), [False] * len(indices))

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "rule" in cls.__dict__ and "record" not in cls.__dict__:
            cls.record = Rule.record             # a subclass with a rule of its own does not inherit another's record

    def update_multi_precision(self, indices, weights, grads, states):
        if not isinstance(indices, (list, tuple)):
            indices, weights, grads, states = [indices], [weights], [grads], [states]
        cls = type(self)
        masters = [self._is_master(w) for w in weights]
        if not any(masters):
            self.update(indices, weights, grads, states)
        elif self.use_fused_step and self.fusible and cls.fused_step is Rule.fused_step \
                and cls.update is Optimizer.update:
            from .fused import run
            with autograd.pause(train_mode=scope().training):
                run(self, indices, weights, grads, states, self._numbers(indices), masters)
        else:
            super().update_multi_precision(indices, weights, grads, states)


@register
class Test(Rule):
    """Plain gradient descent with a state that is not used, for tests."""

    def create_state(self, index, weight):
        return zeros_like(weight)

    def rule(self, weight, grad, state, special, rescale, wd, lr):
        self.write(weight, weight - (grad * rescale + weight * wd) * lr)
