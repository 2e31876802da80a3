"""Matrix products of multi-head attention on interleaved projections: arrays (length, batch, heads * parts * size),
where for each head the query, key and value (or key and value) lie next to each other."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import promote, spec
from .products import matmul_t
from .registry import check_float, operator


def _split(x, heads, parts, name):
    """(length, batch, size of a head) of a projection."""
    if not isinstance(heads, int) or heads < 1:
        raise ArgumentError(f"{name}: heads must be a positive int, not {heads!r}")
    if len(x.shape) != 3 or x.shape[2] % (heads * parts):
        raise ShapeError(f"{name}: an array of shape (length, batch, {heads} heads * {parts} * size) is needed, got "
                         f"{x.shape}")
    return x.shape[0], x.shape[1], x.shape[2] // (heads * parts)


def _infer_heads(x, heads, parts, index):
    length, batch, size = _split(x, heads, parts, "attention_heads")
    return spec((batch * heads, length, size), x.dtype)


def attention_heads(xp, x, heads, parts, index):
    """Part ``index`` of an interleaved projection, as (batch * heads, length, size)."""
    length, batch, width = x.shape
    size = width // (heads * parts)
    part = x.reshape(length, batch, heads, parts, size)[:, :, :, index]
    return part.transpose(1, 2, 0, 3).reshape(batch * heads, length, size)


def _put_heads(xp, x, heads, parts, index):
    """The adjoint of ``attention_heads``: zeros in the other parts."""
    rows, length, size = x.shape
    batch = rows // heads
    result = xp.zeros((length, batch, heads, parts, size), x.dtype)
    result[:, :, :, index] = x.reshape(batch, heads, length, size).transpose(2, 0, 1, 3)
    return result.reshape(length, batch, heads * parts * size)


def _infer_put(x, heads, parts, index):
    rows, length, size = x.shape
    return spec((length, rows // heads, heads * parts * size), x.dtype)


operator("attention_heads", "x, heads, parts, index", inputs="x", infer=_infer_heads, kernel=attention_heads,
         vjp=lambda F, dy, x, y, heads, parts, index: F.put_heads(dy, heads=heads, parts=parts, index=index))
operator("put_heads", "x, heads, parts, index", inputs="x", infer=_infer_put, kernel=_put_heads,
         vjp=lambda F, dy, x, y, heads, parts, index: F.attention_heads(dy, heads=heads, parts=parts, index=index))


def _scores(name, signature, places, doc):
    """Record of scores: queries times keys over the square root of the head's size. ``places``: for query and key,
    which input holds it, how many parts that has, and which one it is."""
    (qi, q_parts, q_at), (ki, k_parts, k_at) = places

    def infer(*x, heads):
        lq, batch, size = _split(x[qi], heads, q_parts, name)
        lk, other, k_size = _split(x[ki], heads, k_parts, name)
        if (batch, size) != (other, k_size):
            raise ShapeError(f"{name}: the batch and head sizes of shapes {[s.shape for s in x]} differ")
        check_float(name, *x)
        return spec((batch * heads, lq, lk), promote(x[qi].dtype, x[ki].dtype))

    def kernel(xp, *x, heads):
        q = attention_heads(xp, x[qi], heads, q_parts, q_at)
        k = attention_heads(xp, x[ki], heads, k_parts, k_at)
        return matmul_t(xp, q * q.dtype.type(max(q.shape[-1], 1) ** -0.5), k, False, True)

    def vjp(F, dy, x, y, heads):
        q = F.attention_heads(x[qi], heads=heads, parts=q_parts, index=q_at)
        k = F.attention_heads(x[ki], heads=heads, parts=k_parts, index=k_at)
        dy = dy * max(q.shape[-1], 1) ** -0.5
        gq = F.put_heads(F.matmul_t(dy, k), heads=heads, parts=q_parts, index=q_at)
        gk = F.put_heads(F.matmul_t(dy, q, True, False), heads=heads, parts=k_parts, index=k_at)
        return gq + gk if qi == ki else (gq, gk)

    operator(name, signature, inputs=signature.split(", heads")[0], infer=infer, kernel=kernel, vjp=vjp, npx=name,
             nd=f"_contrib_{name}", doc=doc)


def _values(name, signature, parts, doc):
    """Record of the attended values: attention (batch * heads, queries, length) times the values, the last part."""

    def infer(x, attention, heads):
        length, batch, size = _split(x, heads, parts, name)
        if len(attention.shape) != 3 or attention.shape[0] != batch * heads or attention.shape[2] != length:
            raise ShapeError(f"{name}: attention of shape ({batch * heads}, queries, {length}) is needed, got "
                             f"{attention.shape}")
        return spec((attention.shape[1], batch, heads * size), promote(x.dtype, attention.dtype))

    def kernel(xp, x, attention, heads):
        return _put_heads(xp, matmul_t(xp, attention, attention_heads(xp, x, heads, parts, parts - 1)), heads, 1, 0)

    def vjp(F, dy, x, y, heads):
        dy = F.attention_heads(dy, heads=heads, parts=1, index=0)
        values = F.attention_heads(x[0], heads=heads, parts=parts, index=parts - 1)
        gv = F.put_heads(F.matmul_t(x[1], dy, True, False), heads=heads, parts=parts, index=parts - 1)
        return gv, F.matmul_t(dy, values, False, True)

    operator(name, signature, inputs=signature.split(", heads")[0], infer=infer, kernel=kernel, vjp=vjp, npx=name,
             nd=f"_contrib_{name}", doc=doc)


_scores("interleaved_matmul_selfatt_qk", "queries_keys_values, heads, out=None", ((0, 3, 0), (0, 3, 1)),
        "Scores (batch * heads, length, length) of self-attention from (length, batch, heads * 3 * size): queries "
        "times keys, over the square root of size.")
_scores("interleaved_matmul_encdec_qk", "queries, keys_values, heads, out=None", ((0, 1, 0), (1, 2, 0)),
        "Scores (batch * heads, queries, length) of queries (queries, batch, heads * size) with the keys of (length, "
        "batch, heads * 2 * size), over the square root of size.")
_values("interleaved_matmul_selfatt_valatt", "queries_keys_values, attention, heads, out=None", 3,
        "Attention (batch * heads, length, length) times the values of (length, batch, heads * 3 * size): (length, "
        "batch, heads * size).")
_values("interleaved_matmul_encdec_valatt", "keys_values, attention, heads, out=None", 2,
        "Attention (batch * heads, queries, length) times the values of (length, batch, heads * 2 * size): (queries, "
        "batch, heads * size).")
