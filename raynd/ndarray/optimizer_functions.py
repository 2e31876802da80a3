"""The optimizer operators of ``mx.nd``, over the record ``multi_update`` (see ``ops/optimizer.py``).

Each returns the new weight, or writes it to ``out=`` (which may be the weight itself, then nothing is copied); states
are always updated in place. ``clip_gradient`` below 0 means no clipping; ``rescale_grad`` multiplies the gradient.
"""
from __future__ import annotations

import math

from ..dispatch import F, Proxy, invoke
from ..errors import ArgumentError
from ..ops import registry
from ..ops.optimizer import RULES
from .bindings import define
from .indexing import overwrite
from .legacy import give

FUNCTIONS: dict = {}
CONTRIB_FUNCTIONS: dict = {}
SPARSE_FUNCTIONS: dict = {}


def update(rule, tensors, numbers, settings=(), clip=-1.0, master=False):
    """Update tensors in place by one command. ``tensors``: for each (weight, states..., [master,] gradient);
    ``numbers``: for each (lr, wd, the rule's own numbers, rescale)."""
    arrays = [a for t in tensors for a in t[:-1]]
    arrays += [t[-1] for t in tensors]
    arrays += [n if not isinstance(n, int) else float(n) for row in numbers for n in row]
    invoke(registry.get("multi_update"), arrays, {
        "rule": rule, "tensors": len(tensors), "master": master, "settings": tuple(float(s) for s in settings),
        "clip": -1.0 if clip is None else float(clip)})


def _number(value):
    """A number from a number or an array of one element (which is waited for)."""
    return float(value.asscalar() if isinstance(value, Proxy) else value)


def _detached(weight, out):
    """The array to update: ``out`` with the weight's values, or a copy of the weight."""
    if out is None:
        return F.copy(weight.detach())
    if out is not weight:
        overwrite(out, weight)
    return out


def _need(function, **values):
    """Raise for arguments without a default that were not given."""
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise ArgumentError(f"{function}: {' and '.join(missing)} must be given")


def _single(name, rule, settings, state_names, defaults, master=False, numbers=(), doc=""):
    """The nd function of a rule on one tensor, with the signature MXNet gives it."""
    arrays = ["weight", "grad", *state_names, *(["weight32"] if master else [])]
    given = [k if v is _REQUIRED else f"{k}=None" if v is _NEEDED else f"{k}={v!r}" for k, v in defaults.items()]
    source = f"def {name}({', '.join([*arrays, *given])}, out=None, name=None):\n"
    for needed in (k for k, v in defaults.items() if v is _NEEDED):
        source += f"    _need({name!r}, {needed}={needed})\n"
    states = "".join(f", {s}" for s in state_names)
    extra = "".join(f", float({n})" for n in numbers)
    clip = "clip_grad" if "clip_grad" in defaults else "clip_gradient"
    source += f"    target = _detached(weight, out)\n" \
              f"    update({rule!r}, [(target{states}{', weight32' if master else ''}, grad)],\n" \
              f"           [(float(lr), float(wd){extra}, float(rescale_grad))],\n" \
              f"           ({''.join(f'{s}, ' for s in settings)}), {clip}, {master})\n    return target\n"
    if "wd" not in defaults:
        source = source.replace("float(wd)", "0.0")
    space = {"_detached": _detached, "_need": _need, "update": update}
    function = define(source, name, __name__, space)
    function.__module__, function.__doc__ = __name__, doc or f"One update of ``weight`` by the rule '{rule}'."
    return function


_REQUIRED = object()
_NEEDED = object()                # the same for one whose place in MXNet's signature is after some with a default
_COMMON = {"wd": 0.0, "rescale_grad": 1.0, "clip_gradient": -1.0}
_LAZY = {"lazy_update": True}


def _add(name, rule, settings, states, defaults, group=FUNCTIONS, **options):
    group[name] = _single(name, rule, settings, states, {"lr": _REQUIRED, **defaults}, **options)


_add("sgd_update", "sgd", (), (), {**_COMMON, **_LAZY}, doc="``w -= lr * g``.")
_add("sgd_mom_update", "sgd_mom", ("momentum",), ("mom",), {"momentum": 0.0, **_COMMON, **_LAZY},
     doc="``mom = momentum * mom - lr * g; w += mom``.")
_add("mp_sgd_update", "sgd", (), (), {**_COMMON, **_LAZY}, master=True)
_add("mp_sgd_mom_update", "sgd_mom", ("momentum",), ("mom",), {"momentum": 0.0, **_COMMON, **_LAZY}, master=True)
_add("nag_mom_update", "nag_mom", ("momentum",), ("mom",), {"momentum": 0.0, **_COMMON})
_add("mp_nag_mom_update", "nag_mom", ("momentum",), ("mom",), {"momentum": 0.0, **_COMMON}, master=True)
_ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
_add("adam_update", "adam", ("beta1", "beta2", "epsilon"), ("mean", "var"), {**_ADAM, **_COMMON, **_LAZY},
     doc="Adam without bias correction, which the learning rate is to contain (Kingma and Ba 2015).")
_add("ftml_update", "ftml", ("beta1", "beta2", "epsilon"), ("d", "v", "z"),
     {"beta1": 0.6, "beta2": 0.999, "epsilon": 1e-8, "t": _NEEDED, "wd": 0.0, "rescale_grad": 1.0, "clip_grad": -1.0},
     numbers=("t",), doc="Follow the moving leader (Zheng and Kwok 2017).")
_add("ftrl_update", "ftrl", ("lamda1", "beta"), ("z", "n"), {"lamda1": 0.01, "beta": 1.0, **_COMMON},
     doc="FTRL-proximal (McMahan et al. 2013).")
_add("rmsprop_update", "rmsprop", ("rho", "epsilon", "clip_weights"), ("n",),
     {"rho": 0.95, "epsilon": 1e-8, **_COMMON, "clip_weights": -1.0}, doc="RMSProp (Tieleman and Hinton 2012).")
_add("rmspropalex_update", "rmspropalex", ("rho", "momentum", "epsilon", "clip_weights"), ("n", "g", "delta"),
     {"rho": 0.95, "momentum": 0.9, "epsilon": 1e-8, **_COMMON, "clip_weights": -1.0}, doc="RMSProp (Graves 2013).")
_add("signsgd_update", "signsgd", (), (), _COMMON, doc="``w = (1 - lr * wd) * w - lr * sign(grad)``.")
_add("signum_update", "signum", ("momentum", "wd_lh"), ("mom",), {"momentum": 0.0, **_COMMON, "wd_lh": 0.0})
_add("adagrad_update", "adagrad", ("epsilon",), ("history",), {"epsilon": 1e-7, **_COMMON}, group=SPARSE_FUNCTIONS)
FUNCTIONS["_sparse_adagrad_update"] = SPARSE_FUNCTIONS["adagrad_update"]
_add("group_adagrad_update", "group_adagrad", ("epsilon",), ("history",),
     {"rescale_grad": 1.0, "clip_gradient": -1.0, "epsilon": 1e-5}, group=CONTRIB_FUNCTIONS,
     doc="Adagrad with one history for each row.")


# -- several tensors -----------------------------------------------------------------------------------------------


def _columns(data, width, num_weights, function):
    if len(data) != width * num_weights:
        raise ArgumentError(f"{function}: num_weights={num_weights} needs {width * num_weights} arrays, "
                            f"got {len(data)}")
    return [data[k * width:(k + 1) * width] for k in range(num_weights)]


def _multi_sgd(name, rule, states, master):
    width = 2 + states + master

    def function(*data, lrs, wds, momentum=0.0, rescale_grad=1.0, clip_gradient=-1.0, num_weights=1, out=None,
                 name=None):
        rows = _columns(data, width, num_weights, function.__name__)
        outs = [None] * num_weights if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
        targets = [_detached(row[0], o) for row, o in zip(rows, outs)]
        update(rule, [(t, *row[2:], row[1]) for t, row in zip(targets, rows)],
               [(float(lr), float(wd), float(rescale_grad)) for lr, wd in zip(lrs, wds)],
               (momentum,) if states else (), clip_gradient, master)
        return targets[0] if len(targets) == 1 else targets
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Updates by the rule '{rule}' of ``num_weights`` tensors in one command. ``data``: for each
its weight, gradient{', momentum' if states else ''}{' and float32 master weight' if master else ''}."""
    FUNCTIONS[name] = function

    def preloaded(*data, momentum=0.0, rescale_grad=1.0, clip_gradient=-1.0, num_weights=1, out=None, name=None):
        lrs, wds = (list(map(float, a.asnumpy())) for a in data[-2:])
        return function(*data[:-2], lrs=lrs, wds=wds, momentum=momentum, rescale_grad=rescale_grad,
                        clip_gradient=clip_gradient, num_weights=num_weights, out=out)
    preloaded.__name__ = preloaded.__qualname__ = f"preloaded_{name}"
    preloaded.__doc__ = f"As ``{name}``, with learning rates and weight decays as the last two arrays (waits for them)."
    FUNCTIONS[preloaded.__name__] = preloaded


for _rule, _states in (("sgd", 0), ("sgd_mom", 1)):
    for _master in (False, True):
        _multi_sgd(f"multi_{'mp_' if _master else ''}{_rule}_update", _rule, _states, _master)


def multi_lars(lrs, weights_sum_sq, grads_sum_sq, wds, eta, eps, rescale_grad=1.0, out=None, name=None):
    """Learning rates of LARS (You et al. 2017) from the sums of squares of weights and gradients."""
    w, g = F.sqrt(weights_sum_sq), F.sqrt(grads_sum_sq)
    scaled = lrs * float(eta) * w / (g * float(rescale_grad) + wds * w + float(eps))
    return give(F.where(F.logical_and(F.greater(w, 0), F.greater(g, 0)), scaled, lrs), out)


FUNCTIONS["multi_lars"] = multi_lars


# -- Adam with decoupled weight decay and its relatives: nothing happens for an overflowed gradient --------------------


def _usable(rescale_grad):
    scale = _number(rescale_grad)
    return scale, math.isfinite(scale) and scale != 0


def _decoupled(name, rule):
    def function(weight, grad, mean, var, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0,
                 clip_gradient=-1, out=None, name=None):
        return _apply(rule, [(weight, grad, mean, var)], rescale_grad, [lr], [wd], [eta], beta1, beta2, epsilon,
                      clip_gradient, None if out is None else [out], False)[0]

    def mixed(weight, grad, mean, var, weight32, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0,
              clip_gradient=-1, out=None, name=None):
        return _apply(rule, [(weight, grad, mean, var, weight32)], rescale_grad, [lr], [wd], [eta], beta1, beta2,
                      epsilon, clip_gradient, None if out is None else [out], True)[0]

    def multi(weights, grads, mean, var, rescale_grad, lrs, wds, etas, out=None, name=None, size=0, beta1=0.9,
              beta2=0.999, epsilon=1e-8, clip_gradient=-1):
        return _apply(rule, list(zip(weights, grads, mean, var)), rescale_grad, lrs, wds, etas, beta1, beta2, epsilon,
                      clip_gradient, out, False)

    def multi_mixed(weights, grads, mean, var, weights32, rescale_grad, lrs, wds, etas, out=None, name=None, size=0,
                    beta1=0.9, beta2=0.999, epsilon=1e-8, clip_gradient=-1):
        return _apply(rule, list(zip(weights, grads, mean, var, weights32)), rescale_grad, lrs, wds, etas, beta1, beta2,
                      epsilon, clip_gradient, out, True)
    texts = ("one tensor", "one tensor with a float32 master weight", "several tensors by one command",
             "several tensors with float32 master weights by one command")
    for prefix, f, text in zip(("", "mp_", "multi_", "multi_mp_"), (function, mixed, multi, multi_mixed), texts):
        f.__name__ = f.__qualname__ = f"{prefix}{name}"
        f.__doc__ = f"""{rule} for {text}. ``rescale_grad``: a number or an array of one element; if it is 0 or not
finite (an overflow under loss scaling), nothing is updated."""
        CONTRIB_FUNCTIONS[f.__name__] = f


def _apply(rule, rows, rescale_grad, lrs, wds, etas, beta1, beta2, epsilon, clip, outs, master):
    scale, usable = _usable(rescale_grad)
    outs = [None] * len(rows) if outs is None else list(outs)
    targets = [_detached(row[0], o) for row, o in zip(rows, outs)]
    if usable:
        update(rule, [(t, *row[2:], row[1]) for t, row in zip(targets, rows)],
               [(float(lr), float(wd), float(eta), scale) for lr, wd, eta in zip(lrs, wds, etas)],
               (beta1, beta2, epsilon), clip, master)
    return targets


_decoupled("adamw_update", "adamw")
_decoupled("adabelief_update", "adabelief")


# -- LAMB and LANS -------------------------------------------------------------------------------------------------


def lamb_update_phase1(weight, grad, mean, var, beta1=0.9, beta2=0.999, epsilon=1e-6, t=None, bias_correction=True,
                       wd=None, rescale_grad=1.0, clip_gradient=-1.0, out=None, name=None):
    """The direction of LAMB's step (You et al. 2020), before its scaling; updates ``mean`` and ``var``. The count of
    updates ``t`` and the weight decay ``wd`` must be given."""
    _need("lamb_update_phase1", t=t, wd=wd)
    g = F.cast(grad, dtype=mean._spec.dtype.name) * float(rescale_grad)
    if clip_gradient >= 0:
        g = F.clip(g, -float(clip_gradient), float(clip_gradient))
    overwrite(mean, mean * beta1 + g * (1 - beta1))
    overwrite(var, var * beta2 + F.square(g) * (1 - beta2))
    m, v = (mean / (1 - beta1 ** t), var / (1 - beta2 ** t)) if bias_correction else (mean, var)
    return give(m / (F.sqrt(v) + epsilon) + weight * float(wd), out)


def lamb_update_phase2(weight, g, r1, r2, lr, lower_bound=-1.0, upper_bound=-1.0, out=None, name=None):
    """LAMB's step ``weight - lr * r1 / r2 * g``, r1 and r2 being the norms of weight and direction, r1 limited."""
    if lower_bound >= 0:
        r1 = F.maximum(r1, float(lower_bound))
    if upper_bound >= 0:
        r1 = F.minimum(r1, float(upper_bound))
    usable = F.logical_and(F.not_equal(r1, 0), F.not_equal(r2, 0))
    ratio = F.where(usable, r1 / r2, F.ones_like(r1))
    return give(weight - g * (ratio * float(lr)), out)


def mp_lamb_update_phase1(weight, grad, mean, var, weight32, beta1=0.9, beta2=0.999, epsilon=1e-6, t=None,
                          bias_correction=True, wd=None, rescale_grad=1.0, clip_gradient=-1.0, out=None, name=None):
    """:func:`lamb_update_phase1` with a float32 master weight."""
    return lamb_update_phase1(weight32, grad, mean, var, beta1, beta2, epsilon, t, bias_correction, wd, rescale_grad,
                              clip_gradient, out)


def mp_lamb_update_phase2(weight, g, r1, r2, weight32, lr, lower_bound=-1.0, upper_bound=-1.0, out=None, name=None):
    """:func:`lamb_update_phase2` with a float32 master weight, which is updated too."""
    overwrite(weight32, lamb_update_phase2(weight32, g, r1, r2, lr, lower_bound, upper_bound))
    return give(F.cast(weight32, dtype=weight._spec.dtype.name), out)


for _f in (lamb_update_phase1, lamb_update_phase2, mp_lamb_update_phase1, mp_lamb_update_phase2):
    FUNCTIONS[_f.__name__] = _f


def _layerwise(name, rule):
    """The nd.contrib functions of a rule with norms."""
    def run(rows, step_count, lrs, wds, out, beta1, beta2, epsilon, lower_bound, upper_bound, bias_correction,
            rescale_grad, clip_gradient, master):
        outs = [None] * len(rows) if out is None else list(out)
        targets = [_detached(row[0], o) for row, o in zip(rows, outs)]
        settings = (beta1, beta2, epsilon, lower_bound, upper_bound, bias_correction)[:len(RULES[rule].settings)]
        update(rule, [(t, *row[2:], row[1]) for t, row in zip(targets, rows)],
               [(_number(lr), _number(wd), _number(t), float(rescale_grad)) for lr, wd, t in zip(lrs, wds, step_count)],
               settings, clip_gradient, master)
        return targets

    def multi(weights, grads, mean, var, step_count, lrs, wds, out=None, num_tensors=0, beta1=0.9, beta2=0.999,
              epsilon=1e-6, lower_bound=-1.0, upper_bound=-1.0, bias_correction=True, rescale_grad=1.0,
              clip_gradient=-1.0):
        return run(list(zip(weights, grads, mean, var)), step_count, lrs, wds, out, beta1, beta2, epsilon, lower_bound,
                   upper_bound, bias_correction, rescale_grad, clip_gradient, False)

    def multi_mp(weights, grads, mean, var, weights32, step_count, lrs, wds, out=None, num_tensors=0, beta1=0.9,
                 beta2=0.999, epsilon=1e-6, lower_bound=-1.0, upper_bound=-1.0, bias_correction=True, rescale_grad=1.0,
                 clip_gradient=-1.0):
        return run(list(zip(weights, grads, mean, var, weights32)), step_count, lrs, wds, out, beta1, beta2, epsilon,
                   lower_bound, upper_bound, bias_correction, rescale_grad, clip_gradient, True)
    for prefix, f in (("multi_", multi), ("multi_mp_", multi_mp)):
        f.__name__ = f.__qualname__ = f"{prefix}{name}"
        f.__doc__ = f"One {rule.upper()} step of several tensors by one command. ``step_count``: the update's number."
        CONTRIB_FUNCTIONS[f.__name__] = f


_layerwise("lamb_update", "lamb")
_layerwise("lans_update", "lans")
