"""Rows of the optimizer update: each rule written out in NumPy."""
import numpy as np
from table import S, normal, positive, row


def _step(rule, w, g, s, n, c):
    """The new weight and states of one tensor; ``g`` is prepared, ``n`` are lr, wd and the rule's own, ``c``
    settings."""
    lr, wd, *more = n
    if rule == "sgd":
        return w - lr * g, []
    if rule in ("sgd_mom", "nag_mom"):
        m = c[0] * s[0] - lr * g
        return w + (m if rule == "sgd_mom" else c[0] * m - lr * g), [m]
    if rule in ("adam", "adamw", "adabelief"):
        m = c[0] * s[0] + (1 - c[0]) * g
        if rule == "adabelief":
            v = c[1] * s[1] + (1 - c[1]) * (g - m) ** 2 + c[2]
            return w - more[0] * lr * m / (np.sqrt(v) + c[2]), [m, v]
        v = c[1] * s[1] + (1 - c[1]) * g ** 2
        step = lr * m / (np.sqrt(v) + c[2])
        return w - (step if rule == "adam" else more[0] * (step + wd * w)), [m, v]
    if rule == "ftml":
        d, v, z = s
        v = c[1] * v + (1 - c[1]) * g ** 2
        new = (1 - c[0] ** more[0]) / lr * (np.sqrt(v / (1 - c[1] ** more[0])) + c[2])
        z = c[0] * z + (1 - c[0]) * g - (new - c[0] * d) * w
        return -z / new, [new, v, z]
    if rule == "ftrl":
        z = s[0] + g - (np.sqrt(s[1] + g ** 2) - np.sqrt(s[1])) * w / lr
        count = s[1] + g ** 2
        return -np.sign(z) * np.maximum(abs(z) - c[0], 0) / ((c[1] + np.sqrt(count)) / lr + wd), [z, count]
    if rule == "rmsprop":
        m = c[0] * s[0] + (1 - c[0]) * g ** 2
        w = w - lr * g / (np.sqrt(m) + c[1])
        return np.clip(w, -c[2], c[2]) if c[2] >= 0 else w, [m]
    if rule == "rmspropalex":
        a, b = c[0] * s[0] + (1 - c[0]) * g ** 2, c[0] * s[1] + (1 - c[0]) * g
        d = c[1] * s[2] - lr * g / np.sqrt(a - b ** 2 + c[2])
        return w + d, [a, b, d]
    if rule == "signsgd":
        return (1 - lr * wd) * w - lr * np.sign(g), []
    if rule == "signum":
        m = c[0] * s[0] - (1 - c[0]) * g
        return (1 - lr * c[1]) * w + lr * np.sign(m), [m]
    if rule == "adagrad":
        h = s[0] + g ** 2
        return w - lr * g / (np.sqrt(h) + c[0]), [h]
    if rule == "group_adagrad":
        h = s[0] + (g ** 2).mean(axis=1)
        return w - lr * g / (np.sqrt(h) + c[0])[:, None], [h]
    return _layerwise(rule, w, g, s, n, c)


def _layerwise(rule, w, g, s, n, c):
    lr, wd, t = n
    norm = np.linalg.norm

    def trust(direction):
        r1 = norm(w)
        r1 = max(r1, c[3]) if c[3] >= 0 else r1
        r1 = min(r1, c[4]) if c[4] >= 0 else r1
        return r1 / norm(direction) if r1 and norm(direction) else 1.0
    if rule == "lans":
        g = g / norm(g)
    m, v = c[0] * s[0] + (1 - c[0]) * g, c[1] * s[1] + (1 - c[1]) * g ** 2
    mh, vh = (m / (1 - c[0] ** t), v / (1 - c[1] ** t)) if rule == "lans" or c[5] else (m, v)
    first = mh / (np.sqrt(vh) + c[2]) + wd * w
    if rule == "lamb":
        return w - lr * trust(first) * first, [m, v]
    second = g / (np.sqrt(vh) + c[2]) + wd * w
    return w - lr * (c[0] * trust(first) * first + (1 - c[0]) * trust(second) * second), [m, v]


NUMBERS = {"adamw": 1, "adabelief": 1, "ftml": 1, "lamb": 1, "lans": 1}
STATES = {"sgd": 0, "sgd_mom": 1, "nag_mom": 1, "adam": 2, "adamw": 2, "adabelief": 2, "ftml": 3, "ftrl": 2,
          "rmsprop": 1,
          "rmspropalex": 3, "signsgd": 0, "signum": 1, "adagrad": 1, "group_adagrad": 1, "lamb": 2, "lans": 2}


def _update(*arrays, rule, tensors=1, master=False, settings=(), clip=-1.0):
    width, count, results = 1 + STATES[rule] + master, 3 + NUMBERS.get(rule, 0), []
    for k in range(tensors):
        own, g = arrays[k * width:(k + 1) * width], arrays[tensors * width + k]
        at = tensors * (width + 1) + k * count
        *n, rescale = arrays[at:at + count]
        w = own[-1] if master else own[0]
        decay = 0 if rule in ("adamw", "ftrl", "lamb", "lans") else n[1] * w
        if rule != "signsgd":
            g = g * rescale
            if rule == "adabelief":
                g = g + decay
                decay = 0
            g = (np.clip(g, -clip, clip) if clip >= 0 else g) + decay
        new, states = _step(rule, w, g, own[1:1 + STATES[rule]], n, settings)
        results += [new, *states, *([new] if master else [])]
    return tuple(results)


def _sample(rule, settings=(), numbers=(), shapes=((3, 4),), clip=-1.0, wd=0.02, history=None):
    own = [a for s in shapes for a in (normal(*s), *[positive(*(history or s)) for _ in range(STATES[rule])])]
    return S(*own, *[normal(*s) for s in shapes], *[n for _ in shapes for n in (0.1, wd, *numbers, 0.5)], rule=rule,
             tensors=len(shapes), settings=settings, clip=clip)


_ADAM = (0.9, 0.99, 1e-3)
row("multi_update", ref=_update, tol=20, samples=[
    _sample("sgd"), _sample("sgd", shapes=((40000,), (2, 3), (0, 3)), clip=0.3), _sample("sgd_mom", (0.9,), clip=0.2),
    _sample("nag_mom", (0.9,), shapes=((3,), ())), _sample("adam", _ADAM), _sample("adam", _ADAM, clip=0.1, wd=0.0),
    _sample("adamw", _ADAM, (0.7,)), _sample("adabelief", _ADAM, (0.7,), clip=0.3), _sample("ftml", _ADAM, (3.0,)),
    _sample("ftrl", (0.5, 1.0)), _sample("rmsprop", (0.9, 1e-3, -1.0)), _sample("rmsprop", (0.9, 1e-3, 0.5)),
    _sample("signsgd"), _sample("signum", (0.9, 0.1)), _sample("adagrad", (1e-3,)),
    _sample("group_adagrad", (1e-3,), history=(3,)), _sample("lamb", (*_ADAM, -1.0, -1.0, 1.0), (3.0,)),
    _sample("lamb", (*_ADAM, 0.1, 0.5, 0.0), (3.0,)), _sample("lans", (*_ADAM, -1.0, -1.0), (3.0,))],
    dtypes="float32 float64")
