"""Softmax and its relatives, with lengths or a mask.

Backward needs only the outputs: softmax' vjp is ``y * (dy - sum(dy * y))``, log_softmax' is ``dy - exp(y) * sum(dy)``.
Float16 is computed in float32.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, as_dtype, broadcast, is_float, normalize_axis, spec
from .elementwise import default_float
from .parallel import run_chunks
from .registry import check_float, check_optional, operator


def wide(xp, x):
    """``x`` in the dtype it is computed in: float32 for 16-bit floats and integers."""
    if is_float(x.dtype) and x.dtype.itemsize >= 4:
        return x
    return x.astype("float32")


def _result_dtype(x, dtype):
    if dtype is not None:
        result = as_dtype(dtype)
        if not is_float(result):
            raise ArgumentError(f"softmax: dtype must be a floating type, not {dtype!r}")
        return result
    return x.dtype if is_float(x.dtype) else default_float()


def _infer_softmax(data, length, axis, temperature, use_length, dtype):
    axis = normalize_axis(axis, len(data.shape))
    if temperature is not None and not temperature > 0:
        raise ShapeError(f"softmax: temperature must be positive, not {temperature}")
    check_optional("softmax", "length", length, bool(use_length), use_length=use_length)
    if use_length:
        if not isinstance(length, ArraySpec):
            raise ArgumentError("softmax: length must be an array")
        rest = data.shape[:axis] + data.shape[axis + 1:]
        if length.shape != rest:
            raise ShapeError(f"softmax: length of shape {length.shape} for data of shape {data.shape} and axis {axis}; "
                             f"it must be {rest}")
    return spec(data.shape, _result_dtype(data, dtype))


def valid_positions(xp, shape, length, axis):
    """True where the index along ``axis`` is below ``length`` (an array of the other axes)."""
    axis %= len(shape)
    index = xp.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return index < xp.expand_dims(length, axis)


def softmax(xp, x, axis, temperature=None, mask=None, sign=1, log=False):
    """(log of) softmax of ``sign * x / temperature`` along ``axis`` over the elements where ``mask`` is True. The
    others get 0 (-inf), and so do all where the mask leaves none."""
    x = wide(xp, x)
    if not x.size:
        return x.copy()
    if mask is None and x.ndim > 1 and x.size > BLOCK and axis in (-1, x.ndim - 1):
        def rows(part, out):
            _softmax(xp, part, -1, temperature, None, sign, log, out)
        return _in_blocks(xp, rows, xp.empty_like(x), x)
    return _softmax(xp, x, axis, temperature, mask, sign, log)


BLOCK = 1 << 16                      # elements of a block: what the passes of a softmax read again stays in the cache


def _in_blocks(xp, function, out, *arrays):
    """``function(*rows, out)`` over blocks of rows of arrays that are worked on along the last axis."""
    width = out.shape[-1]
    rows = out.reshape(-1, width)
    arrays = [a.reshape(-1, width) for a in arrays]
    step = max(1, BLOCK // max(width, 1))

    def run(start, stop):
        function(*[a[start:stop] for a in arrays], rows[start:stop])
    run_chunks(xp, [(i, min(i + step, rows.shape[0])) for i in range(0, rows.shape[0], step)], lambda: run)
    return out


def _total(xp, x, axis):
    """Sums along an axis, which stays. Those of rows are a matrix product, which is faster than a reduction."""
    if axis == -1 and x.ndim == 2:
        return xp.matmul(x, xp.ones((x.shape[1], 1), x.dtype))
    return x.sum(axis=axis, keepdims=True)


def _softmax(xp, x, axis, temperature, mask, sign, log, out=None):
    if sign != 1:
        x = -x
    if temperature is not None and temperature != 1:
        x = x / x.dtype.type(temperature)
    if mask is not None:
        x = xp.where(mask, x, x.dtype.type("-inf"))
    top = x.max(axis=axis, keepdims=True)
    if mask is not None:
        top = xp.where(xp.isneginf(top), 0, top)
    y = xp.subtract(x, top, out=out)
    if log:
        total = _total(xp, xp.exp(y), axis)
        y -= xp.log(total)
        return y if mask is None else xp.where(mask, y, x.dtype.type("-inf"))
    y = xp.asarray(xp.exp(y, out=y) if y.ndim else xp.exp(y))
    total = _total(xp, y, axis)
    y *= xp.reciprocal(total if mask is None else xp.where(total == 0, 1, total))
    return y


def _softmax_kernel(sign, log):
    def kernel(xp, x, length, axis, temperature, use_length, dtype):
        mask = valid_positions(xp, x.shape, length, axis) if use_length else None
        return softmax(xp, x, axis, temperature, mask, sign, log)
    return kernel


def _blocked_grad(one):
    """The gradient kernel of ``one(xp, dy, y, axis, scale, out)``, in blocks of rows where it is along the last
    axis."""
    def kernel(xp, dy, y, axis, scale):
        dy, y = wide(xp, dy), wide(xp, y)
        if y.size > BLOCK and y.ndim > 1 and axis in (-1, y.ndim - 1):
            return _in_blocks(xp, lambda a, b, out: one(xp, a, b, -1, scale, out), xp.empty_like(y), dy, y)
        return one(xp, dy, y, axis, scale, None)
    return kernel


def _softmax_grad(xp, dy, y, axis, scale, out):
    result = xp.multiply(dy, y, out=out)
    total = _total(xp, result, axis)
    result -= y * total
    if scale != 1:
        result *= result.dtype.type(scale)
    return result


def _log_softmax_grad(xp, dy, y, axis, scale, out):
    result = xp.exp(y, out=out)
    result *= -_total(xp, dy, axis)
    result += dy
    if scale != 1:
        result *= result.dtype.type(scale)
    return result


def _softmax_grad_vjp(F, g, x, out, axis, scale):
    dy, y = x
    inner = F.sum(dy * y, axis=axis, keepdims=True)
    return F.softmax_grad(g, y, axis=axis, scale=scale), \
        (g * (dy - inner) - dy * F.sum(g * y, axis=axis, keepdims=True)) * scale


def _log_softmax_grad_vjp(F, g, x, out, axis, scale):
    dy, y = x
    p = F.exp(y)
    return (g - F.sum(g * p, axis=axis, keepdims=True)) * scale, \
        -g * p * F.sum(dy, axis=axis, keepdims=True) * scale


for _name, _kernel, _vjp in (("softmax_grad", _softmax_grad, _softmax_grad_vjp),
                             ("log_softmax_grad", _log_softmax_grad, _log_softmax_grad_vjp)):
    operator(_name, "dy, y, axis, scale", inputs="dy, y", infer=lambda dy, y, axis, scale: dy,
             kernel=_blocked_grad(_kernel), vjp=_vjp)


def _register(name, sign, log, doc):
    def vjp(F, dy, x, y, axis, temperature, use_length, dtype):
        scale = sign / (temperature or 1)
        rule = F.log_softmax_grad if log else F.softmax_grad
        dx = rule(dy, y[0], axis=axis, scale=scale)
        if log and use_length:
            dx = F.where(F.isneginf(y[0]), 0.0, dx)
        return dx, None
    kernel = _softmax_kernel(sign, log)
    # the orders of MXNet's signatures, where only softmax has the length first and in mx.nd no other has it at all
    first = name == "softmax"
    operator(name, f"data, {'length=None, axis=-1' if first else 'axis=-1, length=None'}, temperature=None, "
             "use_length=False, dtype=None", npx=name, inputs="data, length", optional=("length",),
             infer=_infer_softmax, kernel=kernel, vjp=vjp, doc=doc)
    operator(f"nd_{name}", f"data, {'length=None, ' if first else ''}axis=-1, temperature=None, dtype=None, "
             f"use_length=False, {'' if first else 'length=None, '}out=None", inputs="data, length",
             optional=("length",), nd=name, method=name, kernel=kernel, vjp=vjp, doc=doc, infer=_infer_softmax)


_TEXT = """ along ``axis``, of ``data / temperature``.

With ``use_length`` only the first ``length`` elements along the axis count (``length`` has the shape of the other
axes) and the rest are {rest}. ``dtype``: of the result, by default that of the data."""
_register("softmax", 1, False, "exp(x) / sum(exp(x))" + _TEXT.format(rest="0"))
_register("softmin", -1, False, "exp(-x) / sum(exp(-x))" + _TEXT.format(rest="0"))
_register("log_softmax", 1, True, "log(softmax(x))" + _TEXT.format(rest="-inf"))

# -- masks ---------------------------------------------------------------------------------------------------------


def _infer_masked(data, mask, axis, temperature, normalize):
    normalize_axis(axis, len(data.shape))
    check_float("masked_softmax", data)
    if temperature is not None and not temperature > 0:
        raise ShapeError(f"masked_softmax: temperature must be positive, not {temperature}")
    if mask is not None and broadcast(data.shape, mask.shape) != data.shape:
        raise ShapeError(f"masked_softmax: mask of shape {mask.shape} does not broadcast to data of shape {data.shape}")
    return data


def _masked_kernel(log):
    def kernel(xp, data, mask, axis, temperature, normalize):
        mask = xp.broadcast_to(mask.astype(bool), data.shape)
        return softmax(xp, data, axis, temperature, mask, log=log)
    return kernel


def _masked_vjp(log):
    def vjp(F, dy, x, y, axis, temperature, normalize):
        rule = F.log_softmax_grad if log else F.softmax_grad
        dy = F.where(x[1], dy, 0.0)
        dx = rule(dy, y[0], axis=axis, scale=1 / (temperature or 1))
        return F.where(x[1], dx, 0.0) if log else dx, None
    return vjp


for _log in (False, True):
    _name = "masked_log_softmax" if _log else "masked_softmax"
    operator(_name, "data, mask, axis=-1, temperature=1.0, normalize=True", inputs="data, mask", npx=_name, nd=_name,
             infer=_infer_masked, kernel=_masked_kernel(_log), vjp=_masked_vjp(_log),
             doc=f"""{'The logarithm of softmax' if _log else 'Softmax'} of ``data / temperature`` along ``axis`` over
the elements where ``mask`` is True; the others are {'-inf' if _log else '0'}. ``mask`` broadcasts to the data.
``normalize`` chooses between two ways to the same result in MXNet and has no effect.""")


def _infer_softmax_activation(data, mode):
    if mode not in ("instance", "channel"):
        raise ArgumentError(f"SoftmaxActivation: mode must be 'instance' or 'channel', not {mode!r}")
    check_float("SoftmaxActivation", data)
    return data


def _activation_axis(shape, mode):
    return 1 if mode == "channel" else tuple(range(1, len(shape)))


operator("softmax_activation", "data, mode='instance', out=None", inputs="data", infer=_infer_softmax_activation,
         kernel=lambda xp, x, mode: softmax(xp, x, _activation_axis(x.shape, mode)), nd="SoftmaxActivation",
         vjp=lambda F, dy, x, y, mode: F.softmax_grad(dy, y[0], axis=_activation_axis(x[0].shape, mode), scale=1),
         doc="Softmax over all axes but the first ('instance'), or over axis 1 ('channel').")
