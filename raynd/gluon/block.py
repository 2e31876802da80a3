"""Blocks: networks as trees of layers (``mx.gluon.Block``, ``mx.gluon.HybridBlock``)."""
from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
import warnings
from collections import OrderedDict

from .. import ndarray as nd
from ..dispatch import Proxy, scope
from ..errors import MXNetError, ShapeError
from ..util import is_np_array
from .parameter import DeferredInitializationError, Parameter, ParameterDict, device_list, load_into, outside, zero
from .utils import HookHandle, shape_is_known

_counts: dict[str, itertools.count] = {}
_counts_lock = threading.Lock()


def _new_name(hint):
    """'dense0', 'dense1' ... for the blocks of a class."""
    with _counts_lock:
        return f"{hint}{next(_counts.setdefault(hint, itertools.count()))}"


class _Child:
    """A child block as ``_children`` holds it. Called without arguments it gives the block, as the weak references of
    MXNet 2 do; with arguments it runs it, as the blocks of MXNet 1 do."""
    __slots__ = ("_block",)

    def __init__(self, block):
        object.__setattr__(self, "_block", block)

    def __call__(self, *args, **kwargs):
        return self._block(*args, **kwargs) if args or kwargs else self._block

    def __getattr__(self, name):
        return getattr(self._block, name)

    def __setattr__(self, name, value):
        setattr(self._block, name, value)

    def __repr__(self):
        return repr(self._block)

    def __reduce__(self):
        return _Child, (self._block,)


def _indent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *[" " * spaces + line for line in rest]])


def _holds_unregistered(value, registered):
    """Whether a container holds a block, at any depth, that is not registered."""
    if isinstance(value, Block):
        return value not in registered
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return False
    return any(_holds_unregistered(v, registered) for v in value)


class Block:
    """Base of layers and models: a tree of blocks and their parameters.

    A subclass makes its children and parameters as attributes in ``__init__`` and computes in ``forward(self, *args)``,
    which calling the block runs. ``prefix`` and ``params`` are the arguments of the 1.x line: a name for the block, and
    parameters (of another block's ``params`` or ``collect_params()``) to share instead of making its own.
    """

    def __init__(self, prefix=None, params=None):
        if params is not None and not isinstance(params, dict):
            raise TypeError(f"params must be a dictionary of parameters to share, not {type(params).__name__}")
        d = self.__dict__
        d["_children"] = OrderedDict()
        d["_reg_params"] = ParameterDict()
        d["_forward_hooks"], d["_forward_pre_hooks"] = OrderedDict(), OrderedDict()
        d["_prefix"], d["_shared_params"] = prefix, params

    def __repr__(self):
        lines = [f"  ({name}): {_indent(repr(block), 2)}" for name, block in self.__dict__.items()
                 if isinstance(block, Block)]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])

    def __setattr__(self, name, value):
        existing = getattr(self, name, None)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            raise TypeError(f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not "
                            "allowed.")
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            value = self._registered(name, value)
        object.__setattr__(self, name, value)

    def _registered(self, name, parameter):
        shared = (self._shared_params or {}).get(name)
        if shared is not None and shared is not parameter:
            shared._check_and_setattr(shape=parameter._shape, dtype=parameter.dtype)
            parameter = shared
        for key in [k for k, p in self._reg_params.items() if p is parameter and k not in self.__dict__]:
            del self._reg_params[key]            # made by params.get under another name
        self._reg_params[name] = parameter
        return parameter

    # -- names -------------------------------------------------------------------------------------------------

    def _alias(self):
        return type(self).__name__.lower()

    @property
    def prefix(self):
        """The prefix given, or one made up: class name and number."""
        if self._prefix is None:
            self.__dict__["_prefix"] = _new_name(self._alias()) + "_"
        return self._prefix

    @property
    def name(self):
        """The prefix without its underscore."""
        return self.prefix[:-1] if self.prefix.endswith("_") else self.prefix

    @contextlib.contextmanager
    def name_scope(self):
        """A ``with`` block of the 1.x line. Names come from the tree of attributes, so it changes nothing."""
        yield self

    # -- parameters --------------------------------------------------------------------------------------------

    @property
    def params(self):
        """The block's own parameters (without its children's), a :class:`ParameterDict`."""
        return self._reg_params

    def collect_params(self, select=None):
        """All parameters of the tree by path ('0.weight', 'features.conv.bias'), a :class:`ParameterDict`.

        ``select``: a regular expression that paths must match from their beginning.
        """
        self._check_container_with_block()
        return ParameterDict(self._collect_params_with_prefix(select=select))

    def _collect_params_with_prefix(self, prefix="", select=None):
        if prefix:
            prefix += "."
        pattern = None if select is None else re.compile(select)
        result = {prefix + k: p for k, p in self._reg_params.items() if pattern is None or pattern.match(prefix + k)}
        for name, child in self._children.items():
            result.update(child()._collect_params_with_prefix(prefix + name, select))
        return result

    def _check_container_with_block(self):
        registered = {child() for child in self._children.values()}
        for name, value in self.__dict__.items():
            if isinstance(value, (list, tuple, dict)) and name not in ("_children", "_reg_params") \
                    and _holds_unregistered(value, registered):
                warnings.warn(f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. Note that '
                              "Blocks inside the list, tuple or dict will not be registered automatically. Make sure "
                              "to register them using register_child() or switching to nn.Sequential/"
                              "nn.HybridSequential instead. ", stacklevel=3)

    def initialize(self, init=None, device=None, verbose=False, force_reinit=False, ctx=None):
        """Initialize all parameters on ``device`` (a device or a list; ``ctx`` is its older name).

        ``init`` (``Uniform()`` by default) is used for parameters without an initializer of their own.
        """
        self.collect_params().initialize(init, device, verbose, force_reinit, ctx)

    def setattr(self, name, value):
        """Set an attribute of all parameters, such as ``grad_req`` or ``lr_mult``."""
        self.collect_params().setattr(name, value)

    def zero_grad(self):
        """Set the gradients of all parameters to zero."""
        grads = {id(g): g for p in self.collect_params().values() if p._grad is not None for g in p._grad}
        with outside():
            for g in grads.values():
                zero(g)

    def reset_device(self, device=None, ctx=None):
        """Move all parameters to other devices."""
        self.collect_params().reset_device(device_list(device, ctx))

    def reset_ctx(self, ctx):
        """Older name of :meth:`reset_device`."""
        self.reset_device(ctx)

    def cast(self, dtype):
        """Turn all parameters into another dtype."""
        for child in self._children.values():
            child().cast(dtype)
        for parameter in self._reg_params.values():
            parameter.cast(dtype)

    def share_parameters(self, shared):
        """Use the parameters in ``shared`` (paths to parameters) in place of the block's own. Returns the block."""
        if shared is None:
            return self
        if not isinstance(shared, dict):
            raise ShapeError(f"'shared' should be in type of Dict. Get type {type(shared)}!")
        unused = set(shared)
        self._shared_parameters(shared, unused)
        for name in sorted(unused):
            warnings.warn(f"Parameter name {name} is not in the current model!", stacklevel=2)
        return self

    def _shared_parameters(self, shared, unused, prefix=""):
        if prefix:
            prefix += "."
        for name in list(self._reg_params):
            if shared.get(prefix + name) is not None:
                setattr(self, name, shared[prefix + name])
                unused.discard(prefix + name)
        for name, child in self._children.items():
            child()._shared_parameters(shared, unused, prefix + name)

    # -- files -------------------------------------------------------------------------------------------------

    def save_parameters(self, filename, deduplicate=False):
        """Save all parameters by path (npz). ``deduplicate``: a shared parameter once, under one of its paths."""
        params = self._collect_params_with_prefix()
        if deduplicate:
            params = {name: p for p, name in {p: name for name, p in params.items()}.items()}
        arrays = {name: p._reduce() for name, p in params.items()}
        if is_np_array():
            from ..numpy_extension import savez
            savez(filename, **arrays)
        else:
            nd.save(filename, arrays)

    def load_parameters(self, filename, device=None, allow_missing=False, ignore_extra=False, cast_dtype=False,
                        dtype_source="current", ctx=None):
        """Load parameters saved by :meth:`save_parameters`.

        ``device``: where to put those not initialized yet. A parameter missing in the file, or one in the file that the
        block lacks, raises unless ``allow_missing``, ``ignore_extra``. ``cast_dtype``: a saved dtype that differs is
        cast to the parameter's, or the parameter to it (``dtype_source='saved'``).
        """
        if is_np_array():
            from ..numpy_extension import load
            loaded = load(filename)
        else:
            loaded = nd.load(filename)
        if loaded:
            if not isinstance(loaded, dict):
                raise ShapeError(f"{filename} holds a list of arrays, not parameters by name")
            self._load(loaded, filename, device if ctx is None else ctx, allow_missing, ignore_extra, cast_dtype,
                       dtype_source)

    def load_dict(self, param_dict, device=None, allow_missing=False, ignore_extra=False, cast_dtype=False,
                  dtype_source="current", ctx=None):
        """As :meth:`load_parameters`, from a dictionary of arrays."""
        self._load(param_dict, None, device if ctx is None else ctx, allow_missing, ignore_extra, cast_dtype,
                   dtype_source)

    def _load(self, arrays, filename, device, allow_missing, ignore_extra, cast_dtype, dtype_source):
        arrays = {k.removeprefix("arg:").removeprefix("aux:"): v for k, v in arrays.items()}
        self._adapt_loaded(arrays)
        load_into(self.collect_params(), arrays, filename, device, allow_missing, ignore_extra, cast_dtype,
                  dtype_source)

    def _adapt_loaded(self, arrays, prefix=""):
        """Bring ``arrays``, loaded from a file by path, from the form of older versions into the present one.
        ``prefix``: the path of this block and a dot."""
        for name, child in self._children.items():
            child()._adapt_loaded(arrays, f"{prefix}{name}.")

    save_params, load_params = save_parameters, load_parameters

    def save(self, prefix):
        """Save the structure (classes and parameter names) and the parameters, as ``<prefix>-model.json`` and
        ``<prefix>-model.params``."""
        with open(f"{prefix}-model.json", "w") as file:
            json.dump(self._structure(), file)
        self.save_parameters(f"{prefix}-model.params")

    def load(self, prefix):
        """Load what :meth:`save` saved into a block of the same structure; another structure raises."""
        with open(f"{prefix}-model.json") as file:
            if json.load(file) != self._structure():
                raise ShapeError(f"{prefix}-model.json describes a block of another structure than this "
                                 f"{type(self).__name__}")
        self.load_parameters(f"{prefix}-model.params")

    def _structure(self):
        return {"class": type(self).__name__, "params": sorted(self._reg_params),
                "children": {name: child()._structure() for name, child in self._children.items()}}

    # -- the tree ----------------------------------------------------------------------------------------------

    def register_child(self, block, name=None):
        """Add a child; attributes that are blocks are added by themselves."""
        if name is None:
            name = str(len(self._children))
        self._children[name] = _Child(block)
        if self._shared_params:
            below = {k[len(name) + 1:]: p for k, p in self._shared_params.items() if k.startswith(name + ".")}
            block._shared_parameters(below, set())

    def apply(self, fn):
        """Call ``fn(block)`` for every block of the tree, children first. Returns the block."""
        for child in self._children.values():
            child().apply(fn)
        fn(self)
        return self

    def hybridize(self, active=True, **kwargs):
        """Hybridize the children that can be (see :meth:`HybridBlock.hybridize`)."""
        for child in self._children.values():
            child().hybridize(active, **kwargs)

    def register_forward_pre_hook(self, hook):
        """Call ``hook(block, inputs)`` before each forward. Returns a handle with ``detach()``."""
        return HookHandle().attach(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook):
        """Call ``hook(block, inputs, outputs)`` after each forward. Returns a handle with ``detach()``."""
        return HookHandle().attach(self._forward_hooks, hook)

    def register_op_hook(self, callback, monitor_all=False):
        """MXNet's hook on every operator of a hybridized block. Not supported: raises."""
        raise MXNetError("register_op_hook is not supported; use register_forward_hook on the blocks to be watched")

    # -- running -----------------------------------------------------------------------------------------------

    def __call__(self, *args, **kwargs):
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        result = self.forward(*args, **kwargs)
        for hook in self._forward_hooks.values():
            hook(self, args, result)
        return result

    def forward(self, *args):
        """The block's computation; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def summary(self, *inputs):
        """Print a table of the blocks with their output shapes and numbers of parameters, for these inputs. The block
        must be initialized and not hybridized."""
        from .summary import summarise
        summarise(self, inputs)


def _arrays_in(value):
    """The arrays of nested lists and tuples."""
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _arrays_in(v)


class HybridBlock(Block):
    """A block whose forward can be recorded once and then run as one command a call: see :meth:`hybridize`.

    A subclass defines ``forward(self, x, *args)``, taking parameters by ``self.weight.data(x.device)``, or in the way
    of the 1.x line ``hybrid_forward(self, F, x, *args, weight, bias)``, where ``F`` is ``mx.nd`` and the parameters are
    passed by name. If parameters have unknown shapes it also defines ``infer_shape(self, x, *args)``, which sets them.
    """

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix, params)
        d = self.__dict__
        d["_active"], d["_cached_op"], d["_shapes_known"], d["_flags"] = False, None, False, {}

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._deactivate("changing the children blocks")
            self._clear_cached_op()
        elif isinstance(value, Parameter):
            self.__dict__["_shapes_known"] = False

    def _deactivate(self, reason):
        if self._active:
            warnings.warn("Currently the model has been hybridized. Automatically deactivate the hybridization when "
                          f"{reason}.", stacklevel=4)
            self.__dict__["_active"] = False

    def _clear_cached_op(self):
        """Forget the recorded programs."""
        cache, self.__dict__["_cached_op"] = self._cached_op, None
        if cache is not None:
            cache.clear()

    def register_child(self, block, name=None):
        if not isinstance(block, HybridBlock):
            raise ShapeError(f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. "
                             "If you are using Sequential, please try HybridSequential instead.")
        super().register_child(block, name)
        self._deactivate("adding new children block")
        self._clear_cached_op()

    def hybridize(self, active=True, partition_if_dynamic=True, static_alloc=False, static_shape=False, inline_limit=2,
                  forward_bulk_size=None, backward_bulk_size=None, backend=None, backend_opts=None, clear=True):
        """Run the block, from its next call on, as a recorded program: one command a call and device.

        The recording is made at the first call for each kind of inputs (shapes, dtypes, training mode). The memory and
        bulk arguments of MXNet are accepted and need nothing here: a program always plans its memory and is always sent
        whole. A block that reads values of arrays stays eager, with one warning. ``backend`` raises: there are none.
        """
        if backend is not None or backend_opts:
            raise MXNetError(f"there is no hybridize backend {backend!r} in raynd; leave backend out")
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warnings.warn(f'"{self}" is being hybridized while still having forward hook/pre-hook. If it is a child of '
                          "a hybridized block, the hooks will not take effect.", stacklevel=2)
        self.__dict__["_active"] = bool(active)
        self.__dict__["_flags"] = {"static_alloc": static_alloc, "static_shape": static_shape}
        if clear:
            self._clear_cached_op()
        super().hybridize(active, static_alloc=static_alloc, static_shape=static_shape, inline_limit=inline_limit,
                          forward_bulk_size=forward_bulk_size, backward_bulk_size=backward_bulk_size)

    def cast(self, dtype):
        self._deactivate("cast the block to use another data type")
        self._clear_cached_op()
        super().cast(dtype)

    def infer_shape(self, *args):
        """Set the shapes of the block's own parameters from its inputs. A subclass whose parameters may have unknown
        shapes defines it."""
        unknown = [p for p in self._reg_params.values() if not shape_is_known(p._shape)]
        if unknown:
            name = type(self).__name__
            raise RuntimeError(f"{name} has parameters with unknown shape. You need to either specify the shape in "
                               f"__init__ or implement {name}.infer_shape to set the parameter shapes based on the "
                               "first input. Parameters with unknown shapes are "
                               + ", ".join(f"{p._full_name} ({p.shape})" for p in unknown))

    def infer_type(self, *args):
        """Set the dtypes of the parameters from the first input."""
        self.cast(args[0].dtype)

    def _settle(self, args):
        """Before the first call: infer unknown shapes and draw deferred parameters."""
        if not all(shape_is_known(p._shape) for p in self._reg_params.values()):
            self.infer_shape(*args)
        for parameter in self._reg_params.values():
            parameter._finish_deferred_init()
        self.__dict__["_shapes_known"] = True

    def __call__(self, *args, **kwargs):
        if not (args and isinstance(args[0], Proxy)) and next(_arrays_in([*args, *kwargs.values()]), None) is None:
            raise ShapeError(f"In HybridBlock, there must be one NDArray in the input. Please check the type of the "
                             f"args of {type(self).__name__}.")
        if not self._shapes_known:
            self._settle(args)
        if self._active and not kwargs and scope().trace is None:
            return self._call_cached_op(*args)
        return super().__call__(*args, **kwargs)

    def _call_cached_op(self, *args):
        """Call the recorded program, or record it."""
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        result = self._run_program(self.forward, args)
        for hook in self._forward_hooks.values():
            hook(self, args, result)
        return result

    def _run_program(self, function, args, extra_key=()):
        """Call ``function(*args)``, a computation of this block, as a recorded program; ``extra_key``, hashable: what
        else the program depends on."""
        cache, new = self._cached_op, False
        if cache is None:
            from ..program import ProgramCache
            cache, new = ProgramCache(), True
            self.__dict__["_cached_op"] = cache
        result = cache(self, function, args, extra_key)
        if new:
            for parameter in self._collect_params_with_prefix().values():
                parameter._watchers.add(self)
        return result

    def forward(self, x, *args):
        """The block's computation; subclasses define it, or ``hybrid_forward``."""
        legacy = getattr(self, "hybrid_forward", None)
        if legacy is None:
            raise NotImplementedError(f"{type(self).__name__} defines neither forward nor hybrid_forward")
        device = next(_arrays_in([x, *args])).device
        params = {name: p.data(device) for name, p in self._reg_params.items() if self.__dict__.get(name) is p}
        return legacy(nd, x, *args, **params)

    def optimize_for(self, x, *args, backend=None, clear=False, partition_if_dynamic=True, static_alloc=False,
                     static_shape=False, inline_limit=2, forward_bulk_size=None, backward_bulk_size=None, **kwargs):
        """Hybridize and record the block for these inputs. There are no backends: another than None raises."""
        if backend is not None or kwargs:
            raise MXNetError(f"there is no backend {backend!r} in raynd; optimize_for takes backend=None")
        self.hybridize(True, partition_if_dynamic, static_alloc, static_shape, inline_limit, forward_bulk_size,
                       backward_bulk_size, clear=clear or not self._active)
        self(x, *args)

    def export(self, path, epoch=0, remove_amp_cast=True):
        """MXNet's export to a symbol file; symbols are not part of this release, so this raises."""
        raise MXNetError("export needs mx.sym, which this release does not have; use save_parameters and the Python "
                         "code of the block")


class SymbolBlock(HybridBlock):
    """MXNet's block made of a symbol; symbols are not part of this release, so making one raises."""

    def __init__(self, outputs=None, inputs=None, params=None, prefix=None):
        raise MXNetError("SymbolBlock needs mx.sym, which this release does not have; build the network in Python and "
                         "use load_parameters")

    @staticmethod
    def imports(symbol_file, input_names, param_file=None, device=None, allow_missing=False, ignore_extra=False,
                ctx=None):
        """As making one: raises."""
        SymbolBlock(symbol_file, input_names)


__all__ = ["Block", "HybridBlock", "SymbolBlock", "DeferredInitializationError"]
