"""Parameters: arrays that are trained, one copy on each device (``mx.gluon.Parameter``)."""
from __future__ import annotations

import contextlib
import threading
import uuid
import warnings
import weakref

import numpy

from .. import autograd, initializer
from ..device import Device, as_device, current_device
from ..dispatch import F, Proxy, Scope, invoke_into, scope_var
from ..errors import MXNetError, ShapeError
from ..ndarray.array import NDArray, from_numpy, ndarray
from ..ops import registry
from ..spec import as_dtype
from ..util import is_np_array, is_np_shape
from .utils import shape_is_known

_STYPES = ("default", "row_sparse", "csr")
_drawing = threading.RLock()       # held while values of a parameter are drawn at its first use


class DeferredInitializationError(MXNetError):
    """A parameter's shape is not known yet: its values are drawn at the first forward pass."""


def device_list(device, ctx=None):
    """A list of devices from None (the current one), a device or a sequence; ``ctx`` is the older argument's name."""
    if ctx is not None:
        if device is not None:
            raise MXNetError("give device= or ctx=, not both")
        device = ctx
    if device is None:
        return [current_device()]
    if isinstance(device, Device):
        return [device]
    devices = [as_device(d) for d in device]
    if len({(d.device_typeid == 2, d.device_id) for d in devices}) != len(devices):
        raise ShapeError(f"a device is named twice in {devices}")
    return devices


@contextlib.contextmanager
def outside():
    """Neither recording nor part of a program that is being recorded: where parameters are made and written."""
    token = scope_var.set(Scope())
    try:
        yield
    finally:
        scope_var.reset(token)


def overwrite(target, source):
    """Give ``target`` the values of ``source`` (an array on any device, or a NumPy array)."""
    if not isinstance(source, Proxy):
        source = from_numpy(numpy.asarray(source), target.device)
    if source._spec.shape != target._spec.shape:
        raise ShapeError(f"values of shape {source._spec.shape} for an array of shape {target._spec.shape}")
    if source._buffer.queue.device != target._buffer.queue.device:
        source = autograd.copy_to(source, target.device)
    if source._spec.dtype != target._spec.dtype:
        source = F.cast(source, dtype=target._spec.dtype.name)
    autograd.assign(target, source)


def _key(device):
    return device.device_typeid == 2, device.device_id


class Parameter:
    """A trained array of a block, with a copy and a gradient on each of its devices.

    ``shape`` may have unknown sizes (-1 or 0) if ``allow_deferred_init``: the block sets them at its first call.
    ``grad_req``: 'write' (a backward overwrites the gradient), 'add' (it adds; see :meth:`zero_grad`) or 'null'.
    ``lr_mult`` and ``wd_mult`` multiply the learning rate and the weight decay. ``init``: an initializer, or its name,
    that takes precedence over the one given to ``initialize``. ``stype`` and ``grad_stype`` other than 'default'
    (sparse storage) are accepted here, and raise when the values are needed.
    """

    def __init__(self, name="weight", grad_req="write", shape=None, dtype="float32", lr_mult=1.0, wd_mult=1.0,
                 init=None, allow_deferred_init=False, differentiable=True, stype="default", grad_stype="default"):
        self._uuid = str(uuid.uuid4())
        self._name, self._path = name, None
        self._data = self._grad = self._device_list = self._trainer = None
        self._index = {}                         # device -> position in the lists
        self._deferred_init = ()
        self._watchers = weakref.WeakSet()       # hybridized blocks whose programs hold these arrays
        self._differentiable, self._allow_deferred_init = differentiable, allow_deferred_init
        self._shape = (shape,) if isinstance(shape, int) else None if shape is None else tuple(shape)
        self._dtype = dtype
        self.lr_mult, self.wd_mult, self.init = lr_mult, wd_mult, init
        for what, value in (("grad_stype", grad_stype), ("stype", stype)):
            assert value in _STYPES, (f"{what} for Parameter must be one of 'default', 'row_sparse', or 'csr', but got "
                                      f"'{value}'")
        self._stype, self._grad_stype = stype, grad_stype
        self._grad_req = None
        self.grad_req = grad_req

    def __repr__(self):
        return f"Parameter (shape={self.shape}, dtype={_dtype_name(self.dtype)})"

    # -- attributes --------------------------------------------------------------------------------------------

    @property
    def name(self):
        """The name it was made with, such as 'weight'."""
        return self._name

    @property
    def _full_name(self):
        """The name within the whole model where that is known, for messages."""
        return self._path or self._name

    @property
    def grad_req(self):
        """'write', 'add' or 'null'."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req):
        assert req in ("write", "add", "null"), f"grad_req must be one of 'write', 'add', or 'null', but got '{req}'"
        if not self._differentiable:
            req = "null"
        if req == self._grad_req:
            return
        self._grad_req = req
        if self._data is not None:
            self._changed()
            if req == "null":
                self._grad = None
                self._data = [x.detach() for x in self._data]
            else:
                self._init_grad()

    @property
    def dtype(self):
        """The element type. Setting it casts the values."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype):
        self.cast(dtype)

    @property
    def shape(self):
        """Tuple of int; unknown sizes are -1 (0 in legacy mode). None: nothing is known."""
        if self._shape is None:
            return None
        return tuple(-1 if n == 0 else n for n in self._shape) if is_np_shape() else self._shape

    @shape.setter
    def shape(self, new_shape):
        new_shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
        if self._shape is not None:
            fits = len(self._shape) == len(new_shape) and all(
                old in (-1, 0, new) for new, old in zip(new_shape, self._shape))
            assert fits, (f"shape {new_shape} is incompatible with shape {self._shape} of Parameter "
                          f"'{self._full_name}'")
        self._shape = new_shape

    @property
    def stype(self):
        """Storage type: 'default', 'row_sparse' or 'csr'."""
        return self._stype

    def _changed(self):
        """Its arrays are about to be replaced: programs recorded with them are stale."""
        for block in list(self._watchers):
            block._clear_cached_op()

    def _set_trainer(self, trainer):
        current = self._trainer() if self._trainer is not None else None
        if self._stype != "default" and current is not None and trainer is not None and current is not trainer:
            raise RuntimeError(f"Failed to set the trainer for Parameter '{self._full_name}' because it was already "
                               f"set. More than one trainers for a {self._stype} Parameter is not supported.")
        self._trainer = None if trainer is None else weakref.ref(trainer)

    # -- making ------------------------------------------------------------------------------------------------

    def initialize(self, init=None, device=None, default_init=None, force_reinit=False, ctx=None):
        """Draw the values, once, on the first device, and copy them to the others.

        ``init`` (else the parameter's own, else ``default_init``, else ``Uniform()``): an initializer or its name.
        ``device``: a device or a list of them. An initialized parameter is kept, with a warning, unless
        ``force_reinit``. With an unknown shape the values are drawn at the first forward pass (``allow_deferred_init``)
        or a ValueError is raised.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(f"Parameter '{self._full_name}' is already initialized, ignoring. Set force_reinit=True to "
                          "re-initialize.", stacklevel=2)
            return
        devices = device_list(device, ctx)
        default_init = default_init if default_init is not None else initializer.Uniform()
        if isinstance(self.init, initializer.RNNFused):
            self.init.set_initializer(init or default_init)
            init = self.init
        if init is None:
            init = self.init if self.init is not None else default_init
        if not shape_is_known(self._shape) and not self._allow_deferred_init:
            raise ShapeError(f"Cannot initialize Parameter '{self._full_name}' because it has invalid shape: "
                             f"{self.shape}.")
        self._data = self._grad = None
        self._deferred_init = init, devices, default_init, None
        if shape_is_known(self._shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self):
        """Draw the values now that the shape is known."""
        if self._deferred_init and self._stype == "default":         # reading sparse values says what is missing
            with _drawing:                   # threads that call one block on several devices draw it once
                if self._deferred_init:
                    self._draw_deferred()

    def _draw_deferred(self):
        init, devices, default_init, data = self._deferred_init
        assert shape_is_known(self._shape), (
            f"Cannot initialize Parameter '{self._full_name}' because it has invalid shape: {self.shape}. Please "
            "specify in_units, in_channels, etc for `Block`s.")
        with outside():
            if data is None:
                data = self._drawn(initializer.create(init), initializer.create(default_init), devices[0])
            self._init_impl(data, devices)
        self._deferred_init = ()             # last: other threads wait as long as it is set

    def _drawn(self, init, default_init, device):
        with device:
            data = self._array_class()(*_parts(F.zeros(shape=self._shape, dtype=as_dtype(self._dtype).name)))
            desc = initializer.InitDesc(self._full_name)
            if isinstance(init, initializer.Initializer):
                desc.attrs["__init__"] = init
                if isinstance(default_init, initializer.Initializer):
                    default_init(desc, data)
                else:
                    init(desc, data)
            else:                            # Mixed, Load, or any callable: it decides by the name
                init(desc, data)
        return data

    def _array_class(self):
        return ndarray if is_np_array() else NDArray

    def _init_impl(self, data, devices):
        """Make the copies on ``devices`` from ``data`` and attach gradients."""
        self._changed()
        self._device_list = list(devices)
        self._index = {_key(d): i for i, d in enumerate(devices)}
        if not isinstance(data, Proxy):
            data = from_numpy(numpy.asarray(data), devices[0])
        if data._spec.dtype != as_dtype(self._dtype):
            data = F.cast(data, dtype=as_dtype(self._dtype).name)
        cls = self._array_class()
        self._data = [cls(*_parts(autograd.copy_to(data, d))) for d in devices]
        self._init_grad()

    def _init_grad(self):
        """Attach zero gradients as ``grad_req`` says."""
        if self._grad_req == "null":
            self._grad = None
            return
        if self._grad_stype != "default":
            raise MXNetError(f"Parameter '{self._full_name}' has grad_stype='{self._grad_stype}'; sparse gradients are "
                             "not supported: use grad_stype='default'")
        with outside():
            self._grad = [F.zeros_like(x.detach()) for x in self._data]
            for x, g in zip(self._data, self._grad):
                autograd.attach(x, g, self._grad_req)

    def _load_init(self, data, device, cast_dtype=False, dtype_source="current"):
        """Take values from a file; shape, dtype and devices must fit what is known."""
        if cast_dtype:
            assert dtype_source in ("current", "saved"), "dtype_source must be 'current' or 'saved'"
        if self._shape is not None:
            fits = len(self._shape) == len(data.shape) and all(
                n in (-1, 0, m) for n, m in zip(self._shape, data.shape))
            assert fits, (f"Failed loading Parameter '{self._full_name}' from saved params: shape incompatible "
                          f"expected {self.shape} vs saved {data.shape}")
            self._shape = tuple(data.shape)
        if self._dtype is not None and as_dtype(self._dtype) != as_dtype(data.dtype):
            assert cast_dtype, (
                f"Failed loading Parameter '{self._full_name}' from saved params: dtype incompatible expected "
                f"{_dtype_name(self._dtype)} vs saved {_dtype_name(data.dtype)}. Set cast_dtype=True to cast the dtype "
                "of saved params.")
            if dtype_source == "current":
                data = data.astype(self._dtype)
            else:
                self.dtype = as_dtype(data.dtype).name
        devices = None if device is None else [device] if isinstance(device, Device) else list(device)
        known = self._device_list if self._data is not None else self._deferred_init[1] if self._deferred_init else None
        assert known is None or devices is None or set(devices) == set(known), (
            f"Failed to load Parameter '{self._full_name}' on {devices} because it was previous initialized on "
            f"{known}.")
        with outside():
            if self._data is None:
                self._init_impl(data, known or devices or [current_device()])
            else:
                self.set_data(data)
        self._deferred_init = ()

    def reset_device(self, device=None, ctx=None):
        """Move to other devices: the values are the mean over the present ones."""
        devices = device_list(device, ctx)
        if self._data is not None:
            with outside():
                self._init_impl(self._reduce(), devices)
        elif self._deferred_init:
            init, _, default_init, data = self._deferred_init
            self._deferred_init = init, devices, default_init, data
        else:
            raise ShapeError(f"Cannot reset device for Parameter '{self._full_name}' because it has not been "
                             "initialized.")

    def reset_ctx(self, ctx):
        """Older name of :meth:`reset_device`."""
        self.reset_device(ctx)

    # -- access ------------------------------------------------------------------------------------------------

    def _check_and_get(self, arrays, device):
        """``arrays`` (``device is list``), or the one on ``device`` (None: the only one, or the current device's)."""
        if arrays is not None:
            if device is list:
                return arrays
            if device is None:
                if len(arrays) == 1:
                    return arrays[0]
                device = current_device()
            position = self._index.get((device.device_typeid == 2, device.device_id))
            if position is not None:
                return arrays[position]
            raise RuntimeError(f"Parameter '{self._full_name}' was not initialized on device {device}. It was only "
                               f"initialized on {self._device_list}.")
        if self._deferred_init:
            raise DeferredInitializationError(
                f"Parameter '{self._full_name}' has not been initialized yet because initialization was deferred. "
                "Actual initialization happens during the first forward pass. Please pass one batch of data through "
                "the network before accessing Parameters. You can also avoid deferred initialization by specifying "
                "in_units, num_features, etc., for network layers.")
        raise RuntimeError(
            f"Parameter '{self._full_name}' has not been initialized. Note that you should initialize parameters and "
            "create Trainer with Block.collect_params() instead of Block.params because the later does not include "
            "Parameters of nested child Blocks")

    def _dense(self, what):
        if self._stype != "default":
            raise RuntimeError(f"Cannot return a copy of Parameter '{self._full_name}' via {what}() because its "
                               f"storage type is {self._stype}: sparse parameters are not supported, use "
                               "stype='default'")

    def data(self, device=None, ctx=None):
        """The values on ``device``: the parameter's own array, not a copy."""
        if self._stype != "default":
            self._dense("data")
        return self._check_and_get(self._data, ctx if device is None else device)

    def list_data(self):
        """The arrays of all devices, in the order of :meth:`list_device`."""
        self._dense("data")
        return self._check_and_get(self._data, list)

    def _needs_grad(self):
        if self._data is not None and self._grad is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self._full_name}' because grad_req='null'")

    def grad(self, device=None, ctx=None):
        """The gradient array on ``device``."""
        self._needs_grad()
        return self._check_and_get(self._grad, ctx if device is None else device)

    def list_grad(self):
        """The gradient arrays of all devices."""
        self._needs_grad()
        return self._check_and_get(self._grad, list)

    def list_device(self):
        """The devices it is, or will be, initialized on."""
        if self._data is None:
            if self._deferred_init:
                return self._deferred_init[1]
            raise RuntimeError(f"Parameter '{self._full_name}' has not been initialized")
        return self._device_list

    def list_ctx(self):
        """Older name of :meth:`list_device`."""
        return self.list_device()

    def row_sparse_data(self, row_id):
        """Rows of a row_sparse parameter; sparse parameters are not supported, so this raises."""
        raise RuntimeError(f"Cannot return a copy of Parameter {self._full_name} via row_sparse_data() because its "
                           f"storage type is {self._stype}. Please use data() instead.")

    def list_row_sparse_data(self, row_id):
        """As :meth:`row_sparse_data`."""
        raise RuntimeError(f"Cannot return copies of Parameter '{self._full_name}' on all devices via "
                           f"list_row_sparse_data() because its storage type is {self._stype}. Please use data() "
                           "instead.")

    def var(self):
        """MXNet's symbol of the parameter; symbols are not part of this release, so this raises."""
        raise MXNetError("Parameter.var needs mx.sym, which this release does not have; use data()")

    # -- writing -----------------------------------------------------------------------------------------------

    def set_data(self, data):
        """Give it new values on all devices. Works before a deferred initialization too."""
        self.shape = data.shape
        if self._data is None:
            assert self._deferred_init, f"Parameter '{self._full_name}' has not been initialized"
            self._deferred_init = (*self._deferred_init[:3], data)
            if shape_is_known(self._shape):
                self._finish_deferred_init()
            return
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is not None:
            trainer._parameter_was_set(self)
        with outside():
            for x in self._data:
                overwrite(x, data)

    def zero_grad(self):
        """Set the gradients on all devices to zero; nothing if there are none."""
        if self._grad is not None:
            with outside():
                for g in self._grad:
                    zero(g)

    def cast(self, dtype):
        """Turn values and gradients into another dtype."""
        self._dtype = dtype
        if self._data is None:
            return
        self._changed()
        name = as_dtype(dtype).name
        with outside():
            self._data = [F.cast(x.detach(), dtype=name) for x in self._data]
            if self._grad is not None:
                self._grad = [F.cast(g, dtype=name) for g in self._grad]
                for x, g in zip(self._data, self._grad):
                    autograd.attach(x, g, self._grad_req)

    def _reduce(self):
        """The mean over devices, on cpu(0)."""
        with outside():
            host = Device("cpu", 0)
            arrays = [autograd.copy_to(x.detach(), host) for x in self.list_data()]
            if len(arrays) == 1 or self._grad_req != "null":     # trained replicas are equal
                return arrays[0]
            total = arrays[0]
            for x in arrays[1:]:
                total = total + x
            return total / len(arrays)

    def _check_and_setattr(self, **kwargs):
        """Set what is unset; what is set must agree."""
        for name, value in kwargs.items():
            existing = getattr(self, name, None)
            if existing is None:
                setattr(self, name, value)
            elif name == "shape" and value is not None:
                value = (value,) if isinstance(value, int) else tuple(value)
                agree = len(value) == len(existing) and all(
                    a == b or a <= 0 or b <= 0 for a, b in zip(value, existing))
                assert agree, self._mismatch(name, value)
                self._shape = tuple(a if a > 0 else b for a, b in zip(value, existing))
            elif name == "dtype" and value is not None:
                assert as_dtype(value) == as_dtype(existing), self._mismatch(name, value)
            else:
                assert value is None or value == existing, self._mismatch(name, value)

    def _mismatch(self, name, value):
        return (f"Cannot retrieve Parameter '{self._full_name}' because desired attribute does not match with stored "
                f"for attribute '{name}': desired '{value}' vs stored '{getattr(self, name)}'.")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        """A parameter of its own with the same values and attributes."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._uuid, made._trainer, made._watchers = str(uuid.uuid4()), None, weakref.WeakSet()
        memo[id(self)] = made
        if self._data is not None:
            with outside():
                made._data = [F.copy(x.detach()) for x in self._data]
                made._init_grad()
        return made

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_trainer"] = state["_grad"] = None
        del state["_watchers"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._watchers = weakref.WeakSet()
        if self._data is not None:
            self._init_grad()


def _dtype_name(dtype):
    return as_dtype(dtype).name if dtype is not None else None


def _parts(x):
    return x._buffer, x._spec, x._offset


def zero(x):
    """Set an array to zero in place, by one command that reads nothing (so it also clears a failed value)."""
    invoke_into(registry.get("zeros"), (), {"shape": x._spec.shape, "dtype": x._spec.dtype.name}, (x,))


class Constant(Parameter):
    """A parameter that is not trained: given values, no gradient. ``set_data`` still changes it.

    ``value``: an array or array-like. In the 1.x form ``Constant(name, value)`` the name comes first.
    """

    def __init__(self, *args, **kwargs):
        name = kwargs.pop("name", "const")
        if len(args) == 2:
            name, value = args
        else:
            value = args[0] if args else kwargs.pop("value")
        if kwargs:
            raise TypeError(f"Constant() got unexpected arguments {', '.join(kwargs)}")
        if not isinstance(value, Proxy):
            from ..util import default_array
            with outside():
                value = default_array(value)
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, differentiable=False,
                         init=_Given(value))

    def __repr__(self):
        return f"Constant (shape={self.shape}, dtype={_dtype_name(self.dtype)})"

    @property
    def grad_req(self):
        """Always 'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req):
        if req != "null":
            warnings.warn(f"Constant parameter \"{self._name}\" does not support grad_req other than \"null\", and new "
                          f"value \"{req}\" is ignored.", stacklevel=2)
        self._grad_req = "null"


class _Given(initializer.Initializer):
    """The values of a constant."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def _init_weight(self, _, arr):
        overwrite(arr, self.value)


class ParameterDict(dict):
    """Parameters by name, with the operations on all of them. ``Block.collect_params()`` returns one; in the 1.x way
    ``block.params.get(name, ...)`` makes one of a block's parameters."""

    def __init__(self, items=(), prefix="", shared=None):
        super().__init__(items)
        self.prefix, self._shared = prefix, shared

    def get(self, name, default=None, **kwargs):
        """The parameter ``name``. With keyword arguments (``shape=``, ``init=`` ...) it is made if it is not there, and
        must agree with them if it is; without, ``default`` is returned for one that is not there."""
        if not kwargs:
            found = super().get(name)
            return found if found is not None else self._shared.get(name, default) if self._shared else default
        parameter = super().get(name) or (self._shared.get(name) if self._shared else None)
        if parameter is None:
            parameter = Parameter(name, **kwargs)
        else:
            parameter._check_and_setattr(**{k: v for k, v in kwargs.items() if hasattr(parameter, k)})
        self[name] = parameter
        return parameter

    def get_constant(self, name, value=None):
        """The constant ``name``, made from ``value`` if it is not there."""
        if name not in self:
            if value is None:
                raise KeyError(f"No constant named '{name}'. Please specify value if you want to create a new "
                               "constant.")
            self[name] = Constant(name, value)
        return self[name]

    def update(self, other=(), **kwargs):
        """Add parameters; a name that is there already must mean the same parameter."""
        other = dict(other, **kwargs)
        for name, parameter in other.items():
            assert name not in self or self[name] is parameter, (
                f"Cannot update self with other because they have different Parameters with the same name '{name}'")
        super().update(other)

    def initialize(self, init=None, device=None, verbose=False, force_reinit=False, ctx=None):
        """Initialize all (see ``Parameter.initialize``); a parameter's own initializer takes precedence."""
        devices = device_list(device, ctx)
        init = initializer.create(init) if init is not None else initializer.Uniform()
        if verbose:
            init.set_verbosity(verbose=verbose)
        done = set()
        for path, parameter in self.items():
            if id(parameter) in done:            # shared
                continue
            done.add(id(parameter))
            parameter._path = path
            parameter.initialize(None, devices, init, force_reinit=force_reinit)

    def zero_grad(self):
        """Set all gradients to zero."""
        for parameter in self.values():
            parameter.zero_grad()

    def setattr(self, name, value):
        """Set an attribute of all parameters."""
        for parameter in self.values():
            setattr(parameter, name, value)

    def reset_device(self, device=None, ctx=None):
        """Move all parameters to other devices."""
        devices = device_list(device, ctx)
        for parameter in self.values():
            parameter.reset_device(devices)

    reset_ctx = reset_device

    def list_device(self):
        """All devices that any of the parameters is on."""
        return sorted({d for p in self.values() for d in p.list_device()}, key=_key)

    list_ctx = list_device

    def save(self, filename, strip_prefix=""):
        """Save all to a file; names lose ``strip_prefix``."""
        from ..numpy_extension import savez
        values = {}
        for name, parameter in self.items():
            if not name.startswith(strip_prefix):
                raise ShapeError(f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name "
                                 f"'{name}' does not start with '{strip_prefix}'.")
            values[name[len(strip_prefix):]] = parameter._reduce()
        savez(filename, **values)

    def load(self, filename, device=None, allow_missing=False, ignore_extra=False, restore_prefix="",
             cast_dtype=False, dtype_source="current", ctx=None):
        """Load from a file of :meth:`save`; names gain ``restore_prefix``."""
        from ..numpy_extension import load
        loaded = {restore_prefix + k.removeprefix("arg:").removeprefix("aux:"): v for k, v in load(filename).items()}
        load_into(self, loaded, filename, device if ctx is None else ctx, allow_missing, ignore_extra, cast_dtype,
                  dtype_source)


def _names(names):
    names = [f"'{n}'" for n in names]
    return ", ".join(names if len(names) <= 12 else [*names[:6], "...", *names[-5:]])


def load_into(params, loaded, filename, device, allow_missing, ignore_extra, cast_dtype, dtype_source):
    """Give ``params`` (a dictionary by path) the arrays of dictionary ``loaded``."""
    source = f"file: {filename}" if filename else "param_dict"
    if not allow_missing:
        present = {id(p) for name, p in params.items() if name in loaded}
        missing = [name for name, p in params.items() if id(p) not in present]
        assert not missing, (f"Parameter {_names(missing)} is missing in '{source}', which contains parameters: "
                             f"{_names(loaded)}. Set allow_missing=True to ignore missing parameters.")
    extra = [name for name in loaded if name not in params]
    if extra and not ignore_extra:
        raise ShapeError(f"Parameter {_names(extra)} loaded from '{source}' is not present in Dict, which contains "
                         f"parameters {_names(params)}. Set ignore_extra=True to ignore. ")
    for name, value in loaded.items():
        if name in params:
            if not isinstance(value, Proxy):
                value = from_numpy(numpy.asarray(value), Device("cpu", 0))
            params[name]._path = params[name]._path or name
            params[name]._load_init(value, device, cast_dtype=cast_dtype, dtype_source=dtype_source)
