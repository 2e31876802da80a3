"""The array classes. :class:`NDArray` is the legacy face (``mx.nd``), :class:`ndarray` the NumPy-compatible one
(``mx.np``); both are the same proxy of an array that lives on a device."""
from __future__ import annotations

import warnings

import numpy

from .. import autograd, protocol
from ..device import Device, as_device
from ..dispatch import F, PlaceholderScalar, Proxy, _class_hook, invoke, invoke_into, materialised, stage, traced
from ..engine import engine
from ..errors import ArgumentError, MXNetError, ShapeError, TraceError, dual
from ..ops import registry
from ..spec import as_dtype, bfloat16
from . import indexing
from .bindings import call, convert


def from_numpy(value, device=None, cls=None):
    """An array with a copy of a NumPy array, of the same dtype, on ``device``."""
    return stage(numpy.asarray(value), as_device(device), cls or ndarray)


def _other(self, other):
    """Whether ``other`` can be an operand."""
    return isinstance(other, (Proxy, int, float, numpy.ndarray, numpy.generic, PlaceholderScalar))


def _binary(name, reflected=False):
    """The method of a binary operator (``__add__``)."""
    op = registry.get(name)
    plain = frozenset((int, float, bool))
    if reflected:
        def method(self, other):
            if isinstance(other, Proxy) or type(other) in plain:
                return invoke(op, (other, self))
            if not _other(self, other):
                return NotImplemented
            return call(op, (other, self), (), None)
    else:
        def method(self, other):
            if isinstance(other, Proxy) or type(other) in plain:
                return invoke(op, (self, other))
            if not _other(self, other):
                return NotImplemented
            return call(op, (self, other), (), None)
    return method


def _inplace(name):
    """The method of an in-place operator (``__iadd__``)."""
    op = registry.get(name)

    def method(self, other):
        if not _other(self, other):
            return NotImplemented
        arrays = (self, other)
        if isinstance(other, (numpy.ndarray, numpy.generic)):
            arrays = convert(op, arrays)
        invoke_into(op, arrays, (), (self,), same_kind=True)
        return self
    return method


class NDArray(Proxy):
    """An array on a device (legacy face). Operators return at once; reading a value waits."""
    __slots__ = ("_grad",)
    __array_priority__ = 1000.0

    def __init__(self, buffer, array_spec=None, offset=None):
        self._buffer = buffer
        self._offset = offset
        self._spec = array_spec
        self._entry = None

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def shape(self):
        """Tuple of int."""
        return self._spec.shape

    @property
    def ndim(self):
        """Number of axes."""
        return len(self._spec.shape)

    @property
    def size(self):
        """Number of elements."""
        return self._spec.size

    @property
    def itemsize(self):
        """Bytes of one element."""
        return self._spec.dtype.itemsize

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return self._spec.nbytes

    @property
    def dtype(self):
        """The element type: a NumPy scalar type here, a ``numpy.dtype`` for ``mx.np`` arrays."""
        return self._spec.dtype.type

    @property
    def device(self):
        """The device that holds the array."""
        return self._buffer.queue.device

    ctx = context = device

    @property
    def stype(self):
        """Storage type: 'default' for dense arrays."""
        return "default"

    # -- reading -----------------------------------------------------------------------------------------------

    def asnumpy(self):
        """The values as a private, writable NumPy array; waits for them."""
        queue = materialised(traced(self))._buffer.queue
        waiter = queue.ask(protocol.FETCH, self._wire(), "asnumpy()")
        return queue.link.receive(engine.finish(waiter), self._spec)

    def wait_to_read(self):
        """Wait until the array is computed; raises its error if that failed."""
        queue = materialised(self)._buffer.queue
        engine.finish(queue.ask(protocol.WAIT, self._wire(), "wait_to_read()"))

    wait_to_write = wait_to_read

    def asscalar(self):
        """The only element as a Python scalar."""
        if self.size != 1:
            raise ShapeError("The current array is not a scalar")
        return self.asnumpy().reshape(())[()]

    def item(self, *args):
        """One element as a Python scalar, chosen as in NumPy."""
        return self.asnumpy().item(*args)

    def tolist(self):
        """The values as nested lists."""
        return self.asnumpy().tolist()

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ShapeError("an array on a device cannot become a NumPy array without a copy")
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __bool__(self):
        if self.size == 0:
            return False
        if self.size == 1:
            return bool(self.item())
        raise ShapeError("The truth value of an ndarray with multiple elements is ambiguous.")

    def __float__(self):
        if self.size != 1:
            raise ArgumentError("only size-1 arrays can be converted to Python scalars")
        return float(self.item())

    def __int__(self):
        if self.size != 1:
            raise ArgumentError("only size-1 arrays can be converted to Python scalars")
        return int(self.item())

    def __index__(self):
        if self.size != 1 or self._spec.dtype.kind not in "iub":
            raise ArgumentError("only integer scalar arrays can be converted to a scalar index")
        return int(self.item())

    def __len__(self):
        if not self._spec.shape:
            raise ArgumentError("len() of unsized object")
        return self._spec.shape[0]

    def __iter__(self):
        if not self._spec.shape:
            raise ArgumentError("iteration over a 0-d array")
        return (self[i] for i in range(self._spec.shape[0]))

    def __hash__(self):
        return id(self) >> 4

    def __repr__(self):
        try:
            values = str(self.asnumpy())
        except TraceError:
            return f"<{type(self).__name__} {self._spec!r} being recorded>"
        return f"\n{values}\n<{type(self).__name__.replace('NDArray', 'ndarray')} shape={self.shape} {self.device}>"

    def __str__(self):
        values = self.asnumpy()
        if self._spec.dtype == bfloat16:
            values = values.astype("float64")
        return f"{values!s}\n<ndarray shape={self.shape} {self.device}>"

    def __reduce__(self):
        return _rebuild, (type(self), self.asnumpy(), self.device)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    # -- copies ------------------------------------------------------------------------------------------------

    def copyto(self, other):
        """Copy to a device (a Device: always a new array) or into an array of the same shape (returned).

        Copying an array to itself warns and returns False.
        """
        if isinstance(other, Device):
            return autograd.copy_to(self, other)
        if not isinstance(other, Proxy):
            raise ArgumentError(f"copyto does not support type {type(other)}")
        if other is self or (other._buffer is self._buffer and other._offset == self._offset):
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2)
            return False
        if other.shape != self.shape:
            raise ShapeError(f"copyto: the source has shape {self.shape}, the target has shape {other.shape}")
        indexing.overwrite(other, self)
        return other

    def copy(self):
        """A copy on the same device."""
        return F.copy(self)

    def to_device(self, device):
        """This array if it is on ``device``, else a copy there."""
        return self if self._buffer.queue.device == device else autograd.copy_to(self, as_device(device))

    def as_in_context(self, context):
        """:meth:`to_device`, by its older name."""
        return self.to_device(context)

    def as_in_ctx(self, ctx):
        """:meth:`to_device`, by its older name."""
        return self.to_device(ctx)

    def astype(self, dtype, copy=True):
        """The array in another dtype; ``copy=False`` returns this array if it has that dtype."""
        dtype = as_dtype(dtype)
        if not copy and dtype == self._spec.dtype:
            return self
        return F.cast(self, dtype=dtype.name)

    def as_nd_ndarray(self):
        """The legacy face of the same memory."""
        return _face(self, NDArray)

    def as_np_ndarray(self):
        """The NumPy face of the same memory."""
        return _face(self, ndarray)

    # -- autograd ----------------------------------------------------------------------------------------------

    def attach_grad(self, grad_req="write", stype=None):
        """Make this array a variable: gradients go to ``.grad``, a new zero array; earlier history is cut off."""
        if stype not in (None, "default"):
            raise MXNetError(f"attach_grad: stype={stype!r} is not supported; gradients are dense")
        materialised(self)
        self._grad = F.zeros_like(self.detach())
        autograd.attach(self, self._grad, grad_req)

    @property
    def grad(self):
        """The gradient array, or None without attach_grad."""
        entry = self._entry
        if isinstance(entry, autograd.Leaf):
            return entry.grad
        return None

    @property
    def _fresh_grad(self):
        return self._entry.fresh if isinstance(self._entry, autograd.Leaf) else False

    @_fresh_grad.setter
    def _fresh_grad(self, value):
        self._entry.fresh = bool(value)

    def backward(self, out_grad=None, retain_graph=False, train_mode=True):
        """Gradients of this array with regard to the variables it was computed from (see ``autograd.backward``)."""
        autograd.backward([self], [out_grad], retain_graph, train_mode)

    def detach(self):
        """The same memory, off the tape."""
        return type(self)(self._buffer, self._spec, self._offset)

    # -- indexing ----------------------------------------------------------------------------------------------

    def __getitem__(self, key):
        return indexing.getitem(self, key)

    def __setitem__(self, key, value):
        indexing.setitem(self, key, value)

    # -- operators ---------------------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _binary("add"), _binary("add", True), _inplace("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _binary("subtract", True), _inplace("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _binary("multiply", True), _inplace("multiply")
    __truediv__, __rtruediv__ = _binary("true_divide"), _binary("true_divide", True)
    __itruediv__ = _inplace("true_divide")
    __matmul__, __rmatmul__, __imatmul__ = _binary("matmul"), _binary("matmul", True), _inplace("matmul")
    __mod__, __rmod__, __imod__ = _binary("mod"), _binary("mod", True), _inplace("mod")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", True)
    __ifloordiv__ = _inplace("floor_divide")
    __rpow__, __ipow__ = _binary("power", True), _inplace("power")
    __and__, __rand__, __iand__ = _binary("bitwise_and"), _binary("bitwise_and", True), _inplace("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or"), _binary("bitwise_or", True), _inplace("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor"), _binary("bitwise_xor", True), _inplace("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _binary("left_shift", True)
    __rshift__, __rrshift__ = _binary("right_shift"), _binary("right_shift", True)
    __ilshift__, __irshift__ = _inplace("left_shift"), _inplace("right_shift")
    __lt__, __le__, __gt__, __ge__ = _binary("less"), _binary("less_equal"), _binary("greater"), \
        _binary("greater_equal")
    _power = _binary("power")

    def __pow__(self, other, modulo=None):
        if modulo is not None:
            raise ArgumentError("pow() of arrays takes no third argument")
        return self._power(other)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __invert__(self):
        return invoke(_INVERT, (self,))

    def __round__(self, ndigits=None):
        return invoke(_ROUND, (self,), {"decimals": 0 if ndigits is None else int(ndigits)})

    def _compare_list(self, op, other):
        return call(op, (self, numpy.asarray(other)), (), None)

    def __eq__(self, other):
        if other is None or not _other(self, other):
            return self._compare_list(_EQUAL, other) if isinstance(other, (list, tuple)) else False
        return call(_EQUAL, (self, other), (), None)

    def __ne__(self, other):
        if other is None or not _other(self, other):
            return self._compare_list(_NOT_EQUAL, other) if isinstance(other, (list, tuple)) else True
        return call(_NOT_EQUAL, (self, other), (), None)

    def __neg__(self):
        return invoke(_NEGATIVE, (self,))

    def __pos__(self):
        return self

    def __abs__(self):
        return invoke(_ABSOLUTE, (self,))

    __div__, __rdiv__, __idiv__, __nonzero__ = __truediv__, __rtruediv__, __itruediv__, __bool__   # MXNet's old names

    @property
    def writable(self):
        """Whether the array may be written: always."""
        return True


_EQUAL, _NOT_EQUAL = registry.get("equal"), registry.get("not_equal")
_NEGATIVE, _ABSOLUTE = registry.get("negative"), registry.get("absolute")
_INVERT, _ROUND = registry.get("invert"), registry.get("round")


class ndarray(NDArray):
    """An array on a device with NumPy semantics (``mx.np.ndarray``)."""
    __slots__ = ()
    __hash__ = NDArray.__hash__

    @property
    def dtype(self):
        """The element type, a ``numpy.dtype``."""
        return self._spec.dtype

    def __floor__(self):
        return F.floor(self)

    def __ceil__(self):
        return F.ceil(self)

    def __trunc__(self):
        return F.trunc(self)

    def __repr__(self):
        try:
            values = self.asnumpy()
        except TraceError:
            return f"<ndarray {self._spec!r} being recorded>"
        if self.dtype.kind == "V" or self.dtype.name == "bfloat16":
            text = f"array({numpy.array2string(values.astype('float32'), separator=', ')}, dtype=bfloat16)"
        else:
            text = repr(values)
            if self.dtype == numpy.float32:
                text = text.replace(", dtype=float32", "")
            elif self.dtype == numpy.float64:
                text = text[:-1] + ", dtype=float64)"
        return text if self.device.device_type == "cpu" and self.device.device_id == 0 \
            else f"{text[:-1]}, device={self.device})"

    def __format__(self, format_spec):
        if not self._spec.shape:
            return format(self.item(), format_spec)
        if format_spec:
            raise ArgumentError("only zero-dim arrays can be formatted with a format specification")
        return str(self)

    def __index__(self):
        if self._spec.shape or self._spec.dtype.kind not in "iu":
            raise ArgumentError("only integer scalar arrays can be converted to a scalar index")
        return int(self.item())

    def copy(self, order="C"):
        """A copy on the same device. Arrays are always in C order."""
        if order not in ("C", "K", "A"):
            raise dual(NotImplementedError)(f"copy: order={order!r} is not supported; arrays are always in C order")
        return F.copy(self)

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        """The array in another dtype; ``copy=False`` returns this array if it has that dtype.

        ``order``, ``casting`` and ``subok`` may only have their default values.
        """
        if order not in ("K", "C", "A") or casting != "unsafe" or subok is not True:
            raise dual(NotImplementedError)("astype: only order='K', casting='unsafe' and subok=True are supported")
        return NDArray.astype(self, dtype, copy)

    @property
    def mT(self):
        """The last two axes exchanged (a copy)."""
        if self.ndim < 2:
            raise ShapeError("x must be at least 2-dimensional for matrix_transpose")
        return F.matrix_transpose(self)

    def __str__(self):
        values = str(self.asnumpy())
        return values if self.device.device_type == "cpu" and self.device.device_id == 0 \
            else f"{values} @{self.device}"


_class_hook.append(ndarray)


def _face(x, cls):
    result = cls(x._buffer, x._spec, x._offset)
    result._entry = x._entry
    return result


def _rebuild(cls, values, device):
    """Unpickle an array onto its device, or onto the current one where that does not exist."""
    try:
        engine.queue(device)
    except MXNetError:
        device = as_device(None)
    return stage(values, device, cls)


