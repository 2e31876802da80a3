"""Initial values of parameters (``mx.init``, ``mx.initializer``).

An initializer is called with a description of the parameter (its name, an :class:`InitDesc`) and an array, and writes
the array. Names that end in ``bias``, ``gamma``, ``running_var`` and so on have fixed meanings; everything else gets
the initializer's own values, which come from the array's device and its generator, so that a seed fixes them.
"""
from __future__ import annotations

import json
import logging
import re

import numpy

from .errors import ArgumentError, MXNetError, ShapeError
from .registry import get_alias_func, get_create_func, get_register_func


class InitDesc(str):
    """The name of a parameter, with attributes (``__init__``: the initializer chosen for it) and the initializer used
    where it has none."""

    def __new__(cls, name, attrs=None, global_init=None):
        self = super().__new__(cls, name)
        self.attrs = attrs or {}
        self.global_init = global_init
        return self


def _random(array):
    """(uniform, normal) functions ``f(a, b, shape)`` on the array's device."""
    from .numpy import random
    device = array.device
    return (lambda low, high, shape: random.uniform(low, high, size=shape, device=device),
            lambda mean, sigma, shape: random.normal(mean, sigma, size=shape, device=device))


class Initializer:
    """Base of initializers. Subclasses define ``_init_weight(self, name, array)``, which writes ``array``."""

    def __init__(self, **kwargs):
        self._kwargs = kwargs
        self._verbose = False
        self._print_func = None

    def set_verbosity(self, verbose=False, print_func=None):
        """Log ``print_func(array)`` (by default its norm over the square root of its size) after each
        initialization."""
        self._verbose = verbose
        self._print_func = print_func or (
            lambda x: str(float(numpy.linalg.norm(x.asnumpy()) / numpy.sqrt(max(1, x.size)))))
        return self

    def _verbose_print(self, desc, init, array):
        if self._verbose and self._print_func:
            logging.info("Initialized %s as %s: %s", desc, init, self._print_func(array))

    def dumps(self) -> str:
        """Name and arguments as JSON text, which :func:`create` reads."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other):
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._kwargs.items())})"

    def __call__(self, desc, arr):
        if not isinstance(desc, InitDesc):
            desc = InitDesc(desc)
        if desc.global_init is None:
            desc.global_init = self
        chosen = desc.attrs.get("__init__")
        if chosen:                               # given for this parameter, whatever its name says
            chosen = create(chosen)
            chosen._init_weight(desc, arr)
            self._verbose_print(desc, chosen, arr)
            return
        rule = next((rule for ending, rule in _BY_NAME if desc.endswith(ending)), "default")
        getattr(self, "_init_" + rule)(desc, arr)
        self._verbose_print(desc, rule, arr)

    def _init_weight(self, name, arr):
        raise NotImplementedError(f"{type(self).__name__} does not say how to initialize {name}")

    def _init_bias(self, _, arr):
        arr[:] = 0

    _init_beta = _init_zero = _init_bias

    def _init_gamma(self, _, arr):
        arr[:] = 1

    _init_one = _init_gamma

    def _init_default(self, name, _):
        raise ShapeError(f"Unknown initialization pattern for {name}. Default initialization is now limited to names "
                         'ending in "weight", "bias", "gamma" (1), and "beta" (0); give the parameter an init')


_BY_NAME = (("weight", "weight"), ("bias", "bias"), ("gamma", "gamma"), ("beta", "beta"), ("min", "zero"),
            ("max", "one"), ("running_mean", "zero"), ("moving_mean", "zero"), ("running_var", "one"),
            ("moving_var", "one"), ("moving_inv_var", "zero"), ("moving_avg", "zero"))


register = get_register_func(Initializer, "initializer")
alias = get_alias_func(Initializer, "initializer")
_create = get_create_func(Initializer, "initializer")


def create(init, **kwargs):
    """An initializer from itself or another callable, its class, its name ('xavier'), or the JSON text that
    :meth:`Initializer.dumps` gives."""
    if callable(init) and not isinstance(init, type):
        return init
    return _create(init, **kwargs)


@alias("zeros")
@register
class Zero(Initializer):
    """All zeros."""

    def _init_weight(self, _, arr):
        arr[:] = 0


@alias("ones")
@register
class One(Initializer):
    """All ones."""

    def _init_weight(self, _, arr):
        arr[:] = 1


@register
class Constant(Initializer):
    """One value, or the values of an array of the parameter's shape."""

    def __init__(self, value):
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, _, arr):
        if isinstance(self.value, (list, tuple)):
            arr[:] = numpy.asarray(self.value, dtype=arr.dtype)
        else:
            arr[:] = self.value

    def dumps(self):
        value = self.value
        if hasattr(value, "asnumpy"):
            value = value.asnumpy()
        return json.dumps(["constant", {"value": numpy.asarray(value).tolist()}])

    def __eq__(self, other):
        return type(self) is type(other) and bool(numpy.all(numpy.asarray(self.value) == numpy.asarray(other.value)))

    __hash__ = object.__hash__


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale]."""

    def __init__(self, scale=0.07):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, _, arr):
        arr[:] = _random(arr)[0](-self.scale, self.scale, arr.shape)


@register
class Normal(Initializer):
    """Normal with mean 0 and standard deviation sigma."""

    def __init__(self, sigma=0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, _, arr):
        arr[:] = _random(arr)[1](0, self.sigma, arr.shape)


@register
class Orthogonal(Initializer):
    """A matrix with orthogonal rows or columns times ``scale`` (Saxe, McClelland and Ganguli 2013, arXiv:1312.6120).

    ``rand_type``: 'uniform' or 'normal', the distribution of the matrix whose singular vectors are taken.
    """

    def __init__(self, scale=1.414, rand_type="uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        if rand_type not in ("uniform", "normal"):
            raise ShapeError(f"rand_type must be 'uniform' or 'normal', not {rand_type!r}")
        self.scale, self.rand_type = scale, rand_type

    def _init_weight(self, _, arr):
        rows, columns = arr.shape[0], int(numpy.prod(arr.shape[1:]))
        uniform, normal = _random(arr)
        seed = uniform(-1, 1, (rows, columns)) if self.rand_type == "uniform" else normal(0, 1, (rows, columns))
        u, _, v = numpy.linalg.svd(seed.asnumpy(), full_matrices=False)
        arr[:] = (self.scale * (u if u.shape == (rows, columns) else v)).reshape(arr.shape).astype(arr.dtype)


@register
class Xavier(Initializer):
    """Keeps the variance of activations over layers (Glorot and Bengio 2010).

    ``magnitude / factor`` is the variance ('gaussian') or a third of it ('uniform': the bound is its square root),
    where the factor is the number of inputs ('in'), of outputs ('out') or their mean ('avg').
    """

    def __init__(self, rnd_type="uniform", factor_type="avg", magnitude=3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name, arr):
        shape = arr.shape
        if len(shape) < 2:
            raise ShapeError(f"Xavier initializer cannot be applied to vector {name}. It requires at least 2D.")
        receptive = float(numpy.prod(shape[2:])) if len(shape) > 2 else 1.0
        fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
        factors = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ShapeError(f"Incorrect factor type {self.factor_type!r}: 'in', 'out' or 'avg'")
        scale = float(numpy.sqrt(self.magnitude / factors[self.factor_type]))
        uniform, normal = _random(arr)
        if self.rnd_type == "uniform":
            arr[:] = uniform(-scale, scale, shape)
        elif self.rnd_type == "gaussian":
            arr[:] = normal(0, scale, shape)
        else:
            raise ShapeError(f"Unknown random type {self.rnd_type!r}: 'uniform' or 'gaussian'")


@register
class MSRAPrelu(Xavier):
    """For rectifiers with slope ``slope`` (He, Zhang, Ren and Sun 2015): gaussian with variance
    ``2 / (1 + slope ** 2) / factor``."""

    def __init__(self, factor_type="avg", slope=0.25):
        super().__init__("gaussian", factor_type, 2. / (1 + slope ** 2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The kernel of bilinear upsampling, for transposed convolutions."""

    def _init_weight(self, _, arr):
        height, width = arr.shape[-2:]
        f = numpy.ceil(width / 2.)
        c = (2 * f - 1 - f % 2) / (2. * f)
        y, x = numpy.ogrid[:height, :width]
        kernel = (1 - abs(x / f - c)) * (1 - abs(y / f - c))
        arr[:] = numpy.broadcast_to(kernel, arr.shape).astype("float32")


@register
class LSTMBias(Initializer):
    """Zeros, but ``forget_bias`` for the forget gate (the second quarter)."""

    def __init__(self, forget_bias=1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name, arr):
        values = numpy.zeros(arr.shape, "float32")
        quarter = arr.shape[0] // 4
        values[quarter:2 * quarter] = self.forget_bias
        arr[:] = values


class Load:
    """Values from a dictionary, or the file of one, by parameter name; ``default_init`` for names not in it."""

    def __init__(self, param, default_init=None, verbose=False):
        if isinstance(param, str):
            from .ndarray import load
            param = load(param)
        if not isinstance(param, dict):
            raise ArgumentError("Load needs a dictionary of arrays, or the name of a file with one")
        self.param = {k.removeprefix("arg:").removeprefix("aux:"): v for k, v in param.items()}
        self.default_init, self.verbose = default_init, verbose

    def __call__(self, name, arr):
        if name in self.param:
            value = self.param[name]
            if arr.shape != value.shape:
                raise ShapeError(f"Parameter {name} cannot be initialized from loading. Shape mismatch, target "
                                 f"{arr.shape} vs loaded {value.shape}")
            arr[:] = value.asnumpy() if hasattr(value, "asnumpy") else value
        elif self.default_init is None:
            raise MXNetError(f"Cannot Initialize {name}. Not found in loaded param and no default Initializer is "
                             "provided.")
        else:
            self.default_init(name, arr)
        if self.verbose:
            logging.info("Initialized %s by %s", name, "loading" if name in self.param else "default")


class Mixed:
    """The first initializer whose regular expression matches the parameter's name."""

    def __init__(self, patterns, initializers):
        if len(patterns) != len(initializers):
            raise ShapeError("Mixed needs as many patterns as initializers")
        self.map = [(re.compile(p), i) for p, i in zip(patterns, initializers)]

    def __call__(self, name, arr):
        for pattern, init in self.map:
            if pattern.match(name):
                create(init)(name, arr)
                return
        raise ShapeError(f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at the and '
                         "with default Initializer.")


@register
class RNNFused(Initializer):
    """For the packed parameters of a recurrent layer: each matrix and bias of each layer and direction by its own
    initializer (None: the one given to ``initialize``), in the order of ``npx.rnn``."""

    def __init__(self, mode, num_layers, state_size, bidirectional=False, projection_size=None,
                 i2h_weight_initializer=None, h2h_weight_initializer=None, i2h_bias_initializer=None,
                 h2h_bias_initializer=None, h2r_weight_initializer=None):
        super().__init__(mode=mode, num_layers=num_layers, state_size=state_size, bidirectional=bidirectional,
                         projection_size=projection_size, i2h_weight_initializer=i2h_weight_initializer,
                         h2h_weight_initializer=h2h_weight_initializer, i2h_bias_initializer=i2h_bias_initializer,
                         h2h_bias_initializer=h2h_bias_initializer, h2r_weight_initializer=h2r_weight_initializer)
        self.gates = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}[mode]
        self.num_layers, self.num_hidden, self.dir = num_layers, state_size, 2 if bidirectional else 1
        self.projection_size = projection_size
        self._inits = {"i2h_weight": i2h_weight_initializer, "h2h_weight": h2h_weight_initializer,
                       "i2h_bias": i2h_bias_initializer, "h2h_bias": h2h_bias_initializer,
                       "h2r_weight": h2r_weight_initializer}
        self._default = None

    def set_initializer(self, init):
        """The initializer of the parts that have none of their own."""
        self._default = create(init)

    def _parts(self, input_size):
        """(kind, shape) of each part in packing order: all weights, then all biases."""
        hidden, out = self.num_hidden, self.projection_size or self.num_hidden
        weights, biases = [], []
        for layer in range(self.num_layers):
            size = input_size if layer == 0 else self.dir * out
            for _ in range(self.dir):
                weights += [("i2h_weight", (self.gates * hidden, size)), ("h2h_weight", (self.gates * hidden, out))]
                if self.projection_size:
                    weights.append(("h2r_weight", (self.projection_size, hidden)))
                biases += [("i2h_bias", (self.gates * hidden,)), ("h2h_bias", (self.gates * hidden,))]
        return weights + biases

    def _init_weight(self, name, arr):
        size = arr.size
        fixed = sum(int(numpy.prod(s)) for _, s in self._parts(0))
        input_size, rest = divmod(size - fixed, self.gates * self.num_hidden * self.dir)
        if rest or input_size <= 0:
            raise ShapeError(f"{name} of size {size} cannot hold the parameters of {self!r}")
        from .numpy import zeros
        offset, flat = 0, numpy.empty(size, "float32")
        for kind, shape in self._parts(input_size):
            part = zeros(shape, device=arr.device)
            init = self._inits[kind]
            if init is not None:
                create(init)._init_weight(InitDesc(kind), part)
            elif self._default is not None:
                self._default(InitDesc(kind), part)
            else:
                Uniform()(InitDesc(kind), part)
            count = int(numpy.prod(shape))
            flat[offset:offset + count] = part.asnumpy().reshape(-1)
            offset += count
        arr[:] = flat.reshape(arr.shape)

    def __call__(self, desc, arr):
        self._init_weight(desc, arr)
