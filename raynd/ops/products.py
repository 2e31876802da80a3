"""Products of arrays: matrix products, tensor contractions, outer and cross products.

Everything comes down to ``xp.matmul``, on operands that may be given transposed: a transposed operand is passed to BLAS
as a flag, never copied, so gradients of matrix products cost the same as the products themselves.
"""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError
from ..spec import broadcast, normalize_axis, promote, spec
from .elementwise import infer_arithmetic, operand_shape
from .registry import operator


def common(xp, *arrays):
    """Arrays in the dtype they are multiplied in: the promoted one, but float32 for 16-bit floats on the CPU, where
    NumPy has no fast product of them."""
    dtype = arrays[0].dtype
    for a in arrays[1:]:
        if a.dtype != dtype:
            dtype = promote(dtype, a.dtype)
    if dtype.itemsize == 2 and dtype.kind in "fV" and xp.__name__ == "numpy":
        dtype = xp.dtype("float32")
    return [a if a.dtype == dtype else a.astype(dtype) for a in arrays]


def _swapped(shape):
    return shape[:-2] + (shape[-1], shape[-2])


def _mismatch(name, a, b):
    return ShapeError(f"{name}: shapes {a} and {b} do not fit: the axes to be summed over differ in size")


# -- matrix products with flags ------------------------------------------------------------------------------------

def infer_matmul_t(a, b, transpose_a=False, transpose_b=False):
    """(..., m, k) times (..., k, n), each optionally stored transposed; leading axes broadcast."""
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ShapeError(f"matrices are needed, got shapes {a.shape} and {b.shape}")
    sa = _swapped(a.shape) if transpose_a else a.shape
    sb = _swapped(b.shape) if transpose_b else b.shape
    if sa[-1] != sb[-2]:
        raise _mismatch("matmul", sa, sb)
    return spec(broadcast(sa[:-2], sb[:-2]) + (sa[-2], sb[-1]), promote(a.dtype, b.dtype))


def matmul_t(xp, a, b, transpose_a=False, transpose_b=False):
    """Matrix product with flags."""
    a, b = common(xp, a, b)
    if transpose_b:
        b = b.swapaxes(-1, -2)
    if b.ndim == 2 and a.ndim > 2 and not transpose_a:        # one large product instead of many small ones
        return xp.matmul(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b).reshape(a.shape[:-1] + b.shape[-1:])
    return xp.matmul(a.swapaxes(-1, -2) if transpose_a else a, b)


def matmul_t_gradients(F, dy, a, b, ta, tb):
    """Gradients of both operands of ``matmul_t``, before they are summed to the operands' shapes."""
    if len(b.shape) == 2 and len(a.shape) > 2 and not ta:
        rows = math.prod(a.shape[:-1])
        flat_dy = F.reshape(dy, newshape=(rows, dy.shape[-1]))
        flat_a = F.reshape(a, newshape=(rows, a.shape[-1]))
        gb = F.matmul_t(flat_dy, flat_a, True, False) if tb else F.matmul_t(flat_a, flat_dy, True, False)
        return F.matmul_t(dy, b, False, not tb), gb
    ga = F.matmul_t(b, dy, tb, True) if ta else F.matmul_t(dy, b, False, not tb)
    gb = F.matmul_t(dy, a, True, ta) if tb else F.matmul_t(a, dy, not ta, False)
    return ga, gb


operator("matmul_t", "a, b, transpose_a=False, transpose_b=False", infer=infer_matmul_t, kernel=matmul_t,
         vjp=lambda F, dy, x, y, transpose_a, transpose_b: matmul_t_gradients(F, dy, *x, transpose_a, transpose_b),
         broadcasts=True, doc="Product of matrices (or stacks of them), each optionally given transposed.")


def _infer_batch_dot(lhs, rhs, transpose_a, transpose_b, forward_stype):
    if forward_stype not in (None, "default"):
        raise ArgumentError(f"batch_dot: forward_stype={forward_stype!r} is not supported; results are dense")
    if len(lhs.shape) < 3 or len(lhs.shape) != len(rhs.shape):
        raise ShapeError(f"batch_dot: both arrays must have the same number (3 or more) of axes, got {lhs.shape} and "
                         f"{rhs.shape}")
    if lhs.shape[:-2] != rhs.shape[:-2]:
        raise ShapeError(f"batch_dot: the batch axes of {lhs.shape} and {rhs.shape} differ")
    return infer_matmul_t(lhs, rhs, transpose_a, transpose_b)


def _batch_dot(name, arrays, **exports):
    """Register it with MXNet's names of its arrays, which differ between npx and nd."""
    operator(name, arrays + ", transpose_a=False, transpose_b=False, forward_stype=None, out=None", **exports,
             infer=_infer_batch_dot, vjp=lambda F, dy, x, y, transpose_a, transpose_b, forward_stype: (
                 matmul_t_gradients(F, dy, *x, transpose_a, transpose_b)),
             kernel=lambda xp, a, b, transpose_a, transpose_b, forward_stype: matmul_t(xp, a, b, transpose_a,
                                                                                       transpose_b),
             doc="Products of the matrices of two stacks of the same batch shape, each optionally given transposed.")


_batch_dot("batch_dot", "a, b", npx="batch_dot")
_batch_dot("nd_batch_dot", "lhs, rhs", nd="batch_dot")

# -- matmul --------------------------------------------------------------------------------------------------------


def _infer_matmul(a, b):
    sa, sb = operand_shape(a), operand_shape(b)
    if not sa or not sb:
        raise ShapeError("matmul: multiplication by a scalar is not allowed; use * instead")
    row, column = len(sa) == 1, len(sb) == 1
    fa, fb = (1, *sa) if row else sa, (*sb, 1) if column else sb
    if fa[-1] != fb[-2]:
        raise _mismatch("matmul", sa, sb)
    shape = broadcast(fa[:-2], fb[:-2]) + (() if row else fa[-2:-1]) + (() if column else fb[-1:])
    return spec(shape, promote(a.dtype, b.dtype))


def _matmul(xp, a, b):
    """Matrix product of two arrays as NumPy's: vectors are rows (left) or columns (right), leading axes broadcast."""
    if a.ndim > 1 and b.ndim > 1:
        return matmul_t(xp, a, b)
    return xp.matmul(*common(xp, a, b))


def _matmul_vjp(F, dy, x, y):
    a, b = x
    row, column = len(a.shape) == 1, len(b.shape) == 1
    if not row and not column:
        return matmul_t_gradients(F, dy, a, b, False, False)
    if row:
        a = F.reshape(a, newshape=(1, *a.shape))
    if column:
        b = F.reshape(b, newshape=(*b.shape, 1))
    dy = F.reshape(dy, newshape=broadcast(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1]))
    ga, gb = matmul_t_gradients(F, dy, a, b, False, False)
    if column:
        gb = F.reshape(gb, newshape=gb.shape[:-1])
    return ga, gb


operator("matmul", "a, b, out=None", infer=_infer_matmul, kernel=_matmul, vjp=_matmul_vjp, broadcasts=True, np="matmul")

# -- tensordot and dot ---------------------------------------------------------------------------------------------


def contracted_axes(a, b, axes, name="tensordot"):
    """Two tuples of axes, of shapes ``a`` and ``b``, that ``axes`` (an int or two sequences) tells to sum over."""
    if isinstance(axes, int):
        if axes < 0 or axes > min(len(a), len(b)):
            raise ShapeError(f"tensordot: axes={axes} does not fit shapes {a} and {b}")
        ca, cb = tuple(range(len(a) - axes, len(a))), tuple(range(axes))
    else:
        if not isinstance(axes, (tuple, list)) or len(axes) != 2:
            raise ArgumentError("tensordot: axes must be an int or a pair of axes or of sequences of axes")
        ca, cb = [(n,) if isinstance(n, int) else tuple(n) for n in axes]
        ca = tuple(normalize_axis(n, len(a)) for n in ca)
        cb = tuple(normalize_axis(n, len(b)) for n in cb)
    if len(ca) != len(cb) or any(a[i] != b[j] for i, j in zip(ca, cb)):
        raise _mismatch(name, a, b)
    if len(set(ca)) != len(ca) or len(set(cb)) != len(cb):
        raise ShapeError(f"tensordot: an axis occurs twice in {axes}")
    return ca, cb


def _free(shape, taken):
    return [i for i in range(len(shape)) if i not in taken]


def infer_tensordot(a, b, axes, name="tensordot"):
    """The free axes of ``a``, then those of ``b``. ``name``: of the function, for errors."""
    ca, cb = contracted_axes(a.shape, b.shape, axes, name)
    return spec(tuple([a.shape[i] for i in _free(a.shape, ca)] + [b.shape[i] for i in _free(b.shape, cb)]),
                promote(a.dtype, b.dtype))


def as_matrix(a, free, taken):
    """``a`` as (matrix, whether it is stored transposed) with rows ``free`` and columns ``taken``: a view if the
    axes lie in either order, else a copy."""
    rows, columns = math.prod([a.shape[i] for i in free]), math.prod([a.shape[i] for i in taken])
    if (*taken, *free) == tuple(range(a.ndim)):
        return a.reshape(columns, rows), True
    return a.transpose(*free, *taken).reshape(rows, columns) if a.ndim else a.reshape(1, 1), False


def tensordot(xp, a, b, axes):
    """Sum of products over chosen axes of two arrays."""
    ca, cb = contracted_axes(a.shape, b.shape, axes)
    fa, fb = _free(a.shape, ca), _free(b.shape, cb)
    shape = tuple([a.shape[i] for i in fa] + [b.shape[i] for i in fb])
    a, b = common(xp, a, b)
    a, ta = as_matrix(a, fa, ca)
    b, tb = as_matrix(b, fb, cb)
    return matmul_t(xp, a, b, ta, not tb).reshape(shape)


def _to_operand(F, product, labels):
    """``product`` with its axes, which stand for the operand's axes ``labels``, put in the operand's order."""
    order = tuple(sorted(range(len(labels)), key=labels.__getitem__))
    return product if order == tuple(range(len(labels))) else F.transpose(product, axes=order)


def tensordot_gradients(F, dy, a, b, axes):
    """Gradients of both operands of ``tensordot``."""
    ca, cb = contracted_axes(a.shape, b.shape, axes)
    fa, fb = _free(a.shape, ca), _free(b.shape, cb)
    n = len(fa)
    ga = F.tensordot(dy, b, axes=(tuple(range(n, n + len(fb))), tuple(fb)))
    ga = _to_operand(F, ga, fa + [i for _, i in sorted(zip(cb, ca))])
    gb = F.tensordot(dy, a, axes=(tuple(range(n)), tuple(fa)))
    gb = _to_operand(F, gb, fb + [j for _, j in sorted(zip(ca, cb))])
    return ga, gb


operator("tensordot", "a, b, axes=2", inputs="a, b", infer=infer_tensordot, kernel=tensordot,
         vjp=lambda F, dy, x, y, axes: tensordot_gradients(F, dy, *x, axes), np="tensordot", linalg="tensordot")


def _dot_axes(a, b, second):
    return (len(a) - 1,), (len(b) - (2 if second and len(b) > 1 else 1),)


def _infer_last(name, second):
    def infer(a, b):
        sa, sb = operand_shape(a), operand_shape(b)
        return infer_tensordot(a, b, _dot_axes(sa, sb, second), name) if sa and sb else infer_arithmetic(a, b)
    return infer


def _last(second):
    def kernel(xp, a, b):
        if not getattr(a, "ndim", 0) or not getattr(b, "ndim", 0):
            return a * b
        return tensordot(xp, a, b, _dot_axes(a.shape, b.shape, second))
    return kernel


def _last_vjp(second):
    def vjp(F, dy, x, y):
        a, b = x
        sa, sb = getattr(a, "shape", ()), getattr(b, "shape", ())
        if not sa or not sb:
            return dy * b, dy * a
        if len(sa) == 2 and len(sb) == 2:
            return matmul_t_gradients(F, dy, a, b, False, not second)
        return tensordot_gradients(F, dy, a, b, _dot_axes(sa, sb, second))
    return vjp


operator("dot", "a, b, out=None", infer=_infer_last("dot", True), kernel=_last(True), vjp=_last_vjp(True),
         broadcasts=True, np="dot", method="dot", doc="Dot product as NumPy's: sums over the last axis of "
         "a and the last but one (or only) axis of b; a scalar multiplies.")
operator("inner", "a, b", infer=_infer_last("inner", False), kernel=_last(False), vjp=_last_vjp(False), broadcasts=True,
         np="inner", doc="Sum of products over the last axes of two arrays; a scalar multiplies.")


def _nd_dot_axes(a, b, ta, tb):
    if not a or not b:
        raise ShapeError(f"dot: arrays of at least one axis are needed, got shapes {a} and {b}")
    return (0 if ta else len(a) - 1,), (len(b) - 1 if tb else 0,)


def _infer_nd_dot(a, b, transpose_a, transpose_b, forward_stype):
    if forward_stype not in (None, "default"):
        raise ArgumentError(f"dot: forward_stype={forward_stype!r} is not supported; results are dense")
    out = infer_tensordot(a, b, _nd_dot_axes(a.shape, b.shape, transpose_a, transpose_b), "dot")
    return spec(out.shape or (1,), out.dtype)


def _nd_dot_vjp(F, dy, x, y, transpose_a, transpose_b, forward_stype):
    a, b = x
    if len(a.shape) == 2 and len(b.shape) == 2:
        return matmul_t_gradients(F, dy, a, b, transpose_a, transpose_b)
    axes = _nd_dot_axes(a.shape, b.shape, transpose_a, transpose_b)
    if len(a.shape) == len(b.shape) == 1:
        dy = F.reshape(dy, newshape=())
    return tensordot_gradients(F, dy, a, b, axes)


def _nd_dot(xp, a, b, transpose_a, transpose_b, forward_stype):
    """Legacy dot: sums over the last axis of lhs (first if transpose_a) and the first axis of rhs (last if
    transpose_b). Two vectors give an array of shape (1,)."""
    result = tensordot(xp, a, b, _nd_dot_axes(a.shape, b.shape, transpose_a, transpose_b))
    return result.reshape(result.shape or (1,))


operator("nd_dot", "lhs, rhs, transpose_a=False, transpose_b=False, forward_stype=None, out=None", infer=_infer_nd_dot,
         kernel=_nd_dot, vjp=_nd_dot_vjp, nd="dot")

# -- outer, vdot, kron, cross --------------------------------------------------------------------------------------


def _outer_vjp(F, dy, x, y):
    a, b = x
    ga = F.matmul_t(dy, F.reshape(b, newshape=(b._spec.size, 1)))
    gb = F.matmul_t(F.reshape(a, newshape=(1, a._spec.size)), dy)
    return F.reshape(ga, newshape=a.shape), F.reshape(gb, newshape=b.shape)


operator("outer", "a, b", infer=lambda a, b: spec((a.size, b.size), promote(a.dtype, b.dtype)), vjp=_outer_vjp,
         kernel=lambda xp, a, b: xp.outer(a, b), np="outer", linalg="outer",
         doc="All products of an element of a with one of b, as a matrix; both are flattened.")


def _infer_vdot(a, b):
    if a.size != b.size:
        raise _mismatch("vdot", a.shape, b.shape)
    return spec((), promote(a.dtype, b.dtype))


operator("vdot", "a, b", infer=_infer_vdot, np="vdot",
         kernel=lambda xp, a, b: tensordot(xp, a.reshape(-1), b.reshape(-1), 1),
         vjp=lambda F, dy, x, y: (F.reshape(x[1], newshape=x[0].shape) * dy, F.reshape(x[0], newshape=x[1].shape) * dy),
         doc="Sum of the products of the elements of two arrays of the same size, as a zero-dim array.")


def _padded(shape, ndim):
    return (1,) * (ndim - len(shape)) + tuple(shape)


def _infer_kron(a, b):
    n = max(len(a.shape), len(b.shape))
    return spec(tuple([i * j for i, j in zip(_padded(a.shape, n), _padded(b.shape, n))]), promote(a.dtype, b.dtype))


def _kron_vjp(F, dy, x, y):
    a, b = x
    n = len(dy.shape)
    sa, sb = _padded(a.shape, n), _padded(b.shape, n)
    dy = F.reshape(dy, newshape=tuple([k for pair in zip(sa, sb) for k in pair]))
    even, odd, every = tuple(range(0, 2 * n, 2)), tuple(range(1, 2 * n, 2)), tuple(range(n))
    ga = F.tensordot(dy, F.reshape(b, newshape=sb), axes=(odd, every))
    gb = F.tensordot(dy, F.reshape(a, newshape=sa), axes=(even, every))
    return F.reshape(ga, newshape=a.shape), F.reshape(gb, newshape=b.shape)


def _kron(xp, a, b):
    """Kronecker product: blocks of b scaled by the elements of a; missing leading axes count as 1."""
    n = max(a.ndim, b.ndim)
    sa, sb = _padded(a.shape, n), _padded(b.shape, n)
    a = a.reshape(tuple([k for m in sa for k in (m, 1)]))
    b = b.reshape(tuple([k for m in sb for k in (1, m)]))
    return (a * b).reshape(tuple([i * j for i, j in zip(sa, sb)]))


operator("kron", "a, b", infer=_infer_kron, kernel=_kron, vjp=_kron_vjp, np="kron")


def _infer_cross3(a, b):
    if a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
        raise ShapeError(f"cross: vectors of size 3 are needed along the last axis, got {a.shape} and {b.shape}")
    return spec(broadcast(a.shape, b.shape), promote(a.dtype, b.dtype))


def _cross3(xp, a, b):
    """Cross product of 3-vectors along the last axis; the other axes broadcast."""
    a, b = xp.moveaxis(a, -1, 0), xp.moveaxis(b, -1, 0)
    return xp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], axis=-1)


operator("cross3", "a, b", infer=_infer_cross3, kernel=_cross3, broadcasts=True,
         vjp=lambda F, dy, x, y: (F.cross3(x[1], dy), F.cross3(dy, x[0])))


def _pad3(xp, a):
    result = xp.zeros((*a.shape[:-1], 3), a.dtype)
    result[..., :2] = a
    return result


operator("pad3", "a", infer=lambda a: spec((*a.shape[:-1], 3), a.dtype), kernel=_pad3,
         vjp=lambda F, dy, x, y: F.basic_index(dy, items=tuple([(0, n, 1) for n in x[0].shape]), shape=x[0].shape),
         doc="2-vectors along the last axis with a zero appended.")

# -- Khatri-Rao ----------------------------------------------------------------------------------------------------


def _infer_khatri_rao(*args):
    if not args or any(len(a.shape) != 2 or a.shape[1] != args[0].shape[1] for a in args):
        raise ShapeError("khatri_rao: matrices with the same number of columns are needed, got "
                         f"{[a.shape for a in args]}")
    dtype = args[0].dtype
    for a in args[1:]:
        dtype = promote(dtype, a.dtype)
    return spec((math.prod([a.shape[0] for a in args]), args[0].shape[1]), dtype)


def _khatri_rao(xp, *args):
    """Column-wise Kronecker product of matrices with the same number of columns."""
    result = args[0]
    for a in args[1:]:
        result = (result[:, None, :] * a[None, :, :]).reshape(result.shape[0] * a.shape[0], a.shape[1])
    return result


def _khatri_rao_vjp(F, dy, x, y):
    n = len(x)
    letters = "abdefghijklmnopqrstuvw"[:n]
    dy = F.reshape(dy, newshape=tuple([a.shape[0] for a in x]) + x[0].shape[1:])
    grads = []
    for i in range(n):
        subs = ",".join([letters + "c"] + [letters[j] + "c" for j in range(n) if j != i]) + f"->{letters[i]}c"
        grads.append(F.einsum(dy, *[x[j] for j in range(n) if j != i], subscripts=subs))
    return tuple(grads)


operator("khatri_rao", "*args, out=None", infer=_infer_khatri_rao, kernel=_khatri_rao, vjp=_khatri_rao_vjp,
         nd="khatri_rao")
