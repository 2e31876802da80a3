"""Optimizer updates: one in-place operator, ``multi_update``, applies a rule to any number of parameters at once.

Its inputs are, for each tensor, the weight, its states and (mixed precision) its float32 master copy, then all
gradients, then for each tensor its numbers: learning rate, weight decay, what else the rule's ``numbers`` name, and the
factor that rescales the gradient. Numbers are operands, so schedules do not make new calls; momentum and the like are
settings.

Arrays are worked through in blocks that stay in the cache, with a few scratch blocks, so a rule of ten passes reads and
writes memory once. Blocks are cut at the same places everywhere, so replicas stay equal bit by bit.

The formulas are those of MXNet's optimizer operators; ``g`` is ``clip(rescale * grad)`` with ``wd * w`` added unless
the rule says otherwise.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float
from .registry import operator

BLOCK = 1 << 15                      # elements of a block: 128 KiB of float32


class Rule:
    """``apply(xp, w, g, states, numbers, settings, scratch)`` updates a block in place. ``g`` is the prepared gradient,
    which it may overwrite; ``decay``: whether weight decay is part of it. ``whole``: the rule needs norms, so it gets
    whole arrays."""

    def __init__(self, apply, states, settings=(), numbers=(), decay=True, whole=False, clip_last=False, raw=False):
        self.apply, self.states, self.settings, self.numbers = apply, states, settings, numbers
        self.decay, self.whole, self.clip_last, self.raw = decay, whole, clip_last, raw


RULES: dict[str, Rule] = {}


def rule(name, states, settings="", numbers="", **options):
    """Register a rule. ``settings`` are named constants, ``numbers`` follow lr and wd."""
    def add(function):
        RULES[name] = Rule(function, states, tuple(settings.split()), tuple(numbers.split()), **options)
        return function
    return add


@rule("sgd", 0)
def _sgd(xp, w, g, states, numbers, settings, scratch):
    g *= numbers[0]
    w -= g


@rule("sgd_mom", 1, "momentum")
def _sgd_mom(xp, w, g, states, numbers, settings, scratch):
    momentum, = states
    g *= numbers[0]
    momentum *= settings[0]
    momentum -= g
    w += momentum


@rule("nag_mom", 1, "momentum")
def _nag_mom(xp, w, g, states, numbers, settings, scratch):
    momentum, = states
    g *= numbers[0]
    momentum *= settings[0]
    momentum -= g
    w -= g
    xp.multiply(momentum, settings[0], out=g)
    w += g


def _average(xp, mean, value, beta, scratch):
    """mean = beta * mean + (1 - beta) * value."""
    mean *= beta
    xp.multiply(value, 1 - beta, out=scratch)
    mean += scratch


def _moments(xp, mean, var, g, beta1, beta2, scratch):
    """Running means of the gradient and of its square."""
    _average(xp, mean, g, beta1, scratch)
    xp.multiply(g, g, out=scratch)
    scratch *= 1 - beta2
    var *= beta2
    var += scratch


def _ratio(xp, mean, var, epsilon, out):
    """mean / (sqrt(var) + epsilon)."""
    xp.sqrt(var, out=out)
    out += epsilon
    xp.divide(mean, out, out=out)


@rule("adam", 2, "beta1 beta2 epsilon")
def _adam(xp, w, g, states, numbers, settings, scratch):
    beta1, beta2, epsilon = settings
    _moments(xp, *states, g, beta1, beta2, scratch[0])
    _ratio(xp, *states, epsilon, g)
    g *= numbers[0]
    w -= g


@rule("adamw", 2, "beta1 beta2 epsilon", "eta", decay=False)
def _adamw(xp, w, g, states, numbers, settings, scratch):
    beta1, beta2, epsilon = settings
    lr, wd, eta = numbers
    _moments(xp, *states, g, beta1, beta2, scratch[0])
    _ratio(xp, *states, epsilon, g)
    g *= lr
    xp.multiply(w, wd, out=scratch[0])
    g += scratch[0]
    g *= eta
    w -= g


@rule("adabelief", 2, "beta1 beta2 epsilon", "eta", clip_last=True)
def _adabelief(xp, w, g, states, numbers, settings, scratch):
    beta1, beta2, epsilon = settings
    mean, var = states
    _average(xp, mean, g, beta1, scratch[0])
    g -= mean
    g *= g
    _average(xp, var, g, beta2, scratch[0])
    var += epsilon
    _ratio(xp, mean, var, epsilon, g)
    g *= numbers[0] * numbers[2]
    w -= g


@rule("ftml", 3, "beta1 beta2 epsilon", "t")
def _ftml(xp, w, g, states, numbers, settings, scratch):
    beta1, beta2, epsilon = settings
    lr, _, t = numbers
    d, v, z = states
    new, work = scratch[:2]
    xp.multiply(g, g, out=work)
    work *= 1 - beta2
    v *= beta2
    v += work
    xp.divide(v, 1 - beta2 ** t, out=new)
    xp.sqrt(new, out=new)
    new += epsilon
    new *= (1 - beta1 ** t) / lr
    z *= beta1
    g *= 1 - beta1
    z += g
    d *= -beta1
    d += new
    d *= w
    z -= d
    d[...] = new
    xp.divide(z, new, out=w)
    xp.negative(w, out=w)


@rule("ftrl", 2, "lamda1 beta", decay=False)
def _ftrl(xp, w, g, states, numbers, settings, scratch):
    lamda1, beta = settings
    lr, wd = numbers
    z, n = states
    root, work = scratch[:2]
    xp.sqrt(n, out=root)
    xp.multiply(g, g, out=work)
    n += work
    xp.sqrt(n, out=work)
    xp.subtract(work, root, out=root)
    root *= w
    root /= lr
    g -= root
    z += g
    work += beta
    work /= lr
    work += wd
    xp.abs(z, out=root)
    root -= lamda1
    xp.maximum(root, 0, out=root)
    root /= work
    xp.sign(z, out=w)
    w *= root
    xp.negative(w, out=w)


def _clip_weights(xp, w, limit):
    if limit >= 0:
        xp.clip(w, -limit, limit, out=w)


@rule("rmsprop", 1, "rho epsilon clip_weights")
def _rmsprop(xp, w, g, states, numbers, settings, scratch):
    rho, epsilon, limit = settings
    n, = states
    xp.multiply(g, g, out=scratch[0])
    scratch[0] *= 1 - rho
    n *= rho
    n += scratch[0]
    xp.sqrt(n, out=scratch[0])
    scratch[0] += epsilon
    g *= numbers[0]
    g /= scratch[0]
    w -= g
    _clip_weights(xp, w, limit)


@rule("rmspropalex", 3, "rho momentum epsilon clip_weights")
def _rmspropalex(xp, w, g, states, numbers, settings, scratch):
    rho, momentum, epsilon, limit = settings
    n, mean, delta = states
    work = scratch[0]
    xp.multiply(g, g, out=work)
    work *= 1 - rho
    n *= rho
    n += work
    _average(xp, mean, g, rho, work)
    xp.multiply(mean, mean, out=work)
    xp.subtract(n, work, out=work)
    work += epsilon
    xp.sqrt(work, out=work)
    g *= numbers[0]
    g /= work
    delta *= momentum
    delta -= g
    w += delta
    _clip_weights(xp, w, limit)


@rule("signsgd", 0, raw=True)
def _signsgd(xp, w, g, states, numbers, settings, scratch):
    lr, wd = numbers
    xp.sign(g, out=g)
    g *= lr
    w *= 1 - lr * wd
    w -= g


@rule("signum", 1, "momentum wd_lh")
def _signum(xp, w, g, states, numbers, settings, scratch):
    momentum, wd_lh = settings
    mean, = states
    mean *= momentum
    g *= 1 - momentum
    mean -= g
    xp.sign(mean, out=g)
    g *= numbers[0]
    w *= 1 - numbers[0] * wd_lh
    w += g


@rule("adagrad", 1, "epsilon")
def _adagrad(xp, w, g, states, numbers, settings, scratch):
    history, = states
    xp.multiply(g, g, out=scratch[0])
    history += scratch[0]
    xp.sqrt(history, out=scratch[0])
    scratch[0] += settings[0]
    g /= scratch[0]
    g *= numbers[0]
    w -= g


@rule("group_adagrad", 1, "epsilon", whole=True)
def _group_adagrad(xp, w, g, states, numbers, settings, scratch):
    """One history for each row (first axis)."""
    history, = states
    rows = (w.shape[0], math.prod(w.shape[1:]))
    history += (xp.square(g).reshape(rows).sum(axis=1) / rows[1]).reshape(history.shape)
    g /= (xp.sqrt(history) + settings[0]).reshape(rows[0], *(1,) * (w.ndim - 1))
    g *= numbers[0]
    w -= g


def _norm(xp, x):
    """The 2-norm as a Python float, accumulated in float64 in a fixed order."""
    return math.sqrt(float(xp.sum(xp.square(x, dtype="float64"))))


def _trust(r1, r2, lower, upper):
    """LAMB's ratio of norms, the weight's bounded."""
    if lower >= 0:
        r1 = max(r1, lower)
    if upper >= 0:
        r1 = min(r1, upper)
    return r1 / r2 if r1 and r2 else 1.0


@rule("lamb", 2, "beta1 beta2 epsilon lower_bound upper_bound bias_correction", "t", decay=False, whole=True)
def _lamb(xp, w, g, states, numbers, settings, scratch):
    """You et al. 2020."""
    beta1, beta2, epsilon, lower, upper, correct = settings
    lr, wd, t = numbers
    mean, var = states
    work = xp.empty_like(g)
    _moments(xp, mean, var, g, beta1, beta2, work)
    xp.divide(var, 1 - beta2 ** t if correct else 1, out=work)
    xp.sqrt(work, out=work)
    work += epsilon
    xp.divide(mean, 1 - beta1 ** t if correct else 1, out=g)
    g /= work
    xp.multiply(w, wd, out=work)
    g += work
    g *= lr * _trust(_norm(xp, w), _norm(xp, g), lower, upper)
    w -= g


@rule("lans", 2, "beta1 beta2 epsilon lower_bound upper_bound", "t", decay=False, whole=True)
def _lans(xp, w, g, states, numbers, settings, scratch):
    """Zheng et al. 2020: LAMB on the normalised gradient, with Nesterov's momentum."""
    beta1, beta2, epsilon, lower, upper = settings
    lr, wd, t = numbers
    mean, var = states
    size = _norm(xp, g)
    if size:
        g /= size
    work = xp.empty_like(g)
    _moments(xp, mean, var, g, beta1, beta2, work)
    root = xp.sqrt(var / (1 - beta2 ** t))
    root += epsilon
    decay = w * wd
    first = mean / (1 - beta1 ** t)
    first /= root
    first += decay
    g /= root
    g += decay
    norm = _norm(xp, w)
    first *= lr * beta1 * _trust(norm, _norm(xp, first), lower, upper)
    g *= lr * (1 - beta1) * _trust(norm, _norm(xp, g), lower, upper)
    w -= first
    w -= g


# -- the operator --------------------------------------------------------------------------------------------------


def width(rule_name, master):
    """How many arrays a tensor has that are written: weight, states, master copy."""
    return 1 + RULES[rule_name].states + bool(master)


def numbers_of(rule_name):
    """How many numbers a tensor has: lr, wd, the rule's own, and the rescaling factor."""
    return 3 + len(RULES[rule_name].numbers)


def _infer_update(*arrays, rule, tensors, master, settings, clip):
    if rule not in RULES:
        raise ArgumentError(f"multi_update: there is no rule {rule!r}")
    w = width(rule, master)
    if len(arrays) != tensors * (w + 1 + numbers_of(rule)):
        raise ArgumentError(f"multi_update: {len(arrays)} inputs for {tensors} tensors of rule {rule!r}")
    for k in range(tensors):
        own, grad = arrays[k * w:(k + 1) * w], arrays[tensors * w + k]
        if not all(isinstance(a, ArraySpec) and is_float(a.dtype) for a in (*own, grad)):
            raise ArgumentError(f"{rule}_update needs floating arrays, got {own[0]!r} and {grad!r}")
        for a in (*own[1:], grad):
            if a.shape != own[0].shape and not (rule == "group_adagrad" and a is own[1]):
                raise ShapeError(f"{rule}_update: weight of shape {own[0].shape}, but a gradient or state of shape "
                                 f"{a.shape}")
        if master and own[-1].dtype.name != "float32":
            raise ArgumentError(f"{rule}_update: the master weight must be float32, not {own[-1].dtype}")
    return ()


def _prepare(xp, rule, grad, w, out, work, rescale, wd, clip):
    """``out`` = the gradient rescaled, clipped and decayed, in w's dtype."""
    if rule.raw:
        out[...] = grad
        return
    if grad.dtype == out.dtype:
        xp.multiply(grad, rescale, out=out)
    else:
        out[...] = grad
        out *= rescale
    if clip >= 0 and not rule.clip_last:
        xp.clip(out, -clip, clip, out=out)
    if rule.decay and wd:
        xp.multiply(w, wd, out=work)
        out += work
    if clip >= 0 and rule.clip_last:
        xp.clip(out, -clip, clip, out=out)


def _update(xp, *arrays, rule, tensors, master, settings, clip):
    """Apply ``rule`` to every tensor, in place."""
    r, w, count = RULES[rule], width(rule, master), numbers_of(rule)
    settings = tuple(settings)
    for k in range(tensors):
        own = arrays[k * w:(k + 1) * w]
        grad = arrays[tensors * w + k]
        at = tensors * (w + 1) + k * count
        *numbers, rescale = arrays[at:at + count]
        target = own[-1] if master else own[0]
        states = own[1:1 + r.states]
        if r.whole:
            g, work = xp.empty(target.shape, target.dtype), xp.empty(target.shape, target.dtype)
            _prepare(xp, r, grad, target, g, work, rescale, numbers[1], clip)
            r.apply(xp, target, g, states, numbers, settings, None)
            if master:
                own[0][...] = target
            continue
        flat, grad, states = target.reshape(-1), grad.reshape(-1), [s.reshape(-1) for s in states]
        size = min(flat.size, BLOCK)
        scratch = [xp.empty(size, target.dtype) for _ in range(3)]
        low = own[0].reshape(-1)
        for start in range(0, flat.size, BLOCK):
            stop = min(start + BLOCK, flat.size)
            g, *rest = [s[:stop - start] for s in scratch]
            block = flat[start:stop]
            _prepare(xp, r, grad[start:stop], block, g, rest[0], rescale, numbers[1], clip)
            r.apply(xp, block, g, [s[start:stop] for s in states], numbers, settings, rest)
            if master:
                low[start:stop] = block


def _written(rule, tensors, master, **_):
    return tuple(range(tensors * width(rule, master)))


operator("multi_update", "*arrays, rule, tensors=1, master=False, settings=(), clip=-1.0", infer=_infer_update,
         kernel=_update, inplace=True, mutates=_written)
