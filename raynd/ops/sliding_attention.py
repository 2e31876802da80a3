"""Attention within a sliding window (Beltagy et al. 2020, Longformer), with a dilation of its own for each head.

Scores, attention weights and masks are (batch, length, heads, window): element j of a token belongs to the token
``dilation * (j - before)`` away, where the window reaches ``before`` places to the left and ``after`` to the right.

The positions of a head that share a remainder modulo its dilation make one *strand*, within which the window is dense.
A block of tokens in a strand meets only the block and its margins, so the products are those of small matrices, of
which the window is a diagonal band. Margins are zeros.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float, promote, spec
from .registry import operator
from .softmax import wide

_BAND_BYTES = 1 << 21              # bytes of bands computed at once
_SHORTEST_BLOCK = 16               # tokens


def _strided(xp, x, shape, strides):
    return xp.lib.stride_tricks.as_strided(x, shape, tuple(n * x.itemsize for n in strides))


class _Strands:
    """The strands of the heads that have one dilation, in arrays of ``length`` tokens."""

    def __init__(self, heads, dilation, length):
        self.heads, self.step = heads, min(dilation, length)       # a longer step leads out of the sequence as well
        self.whole, self.rest = divmod(length, self.step)
        self.count = self.whole + bool(self.rest)                  # tokens of the longest strand

    def take(self, xp, x, before, total):
        """x (batch, length, heads, size) as (strands, total, size) with ``before`` zeros in front."""
        part = wide(xp, x)[:, :, self.heads]
        batch, _, heads, size = part.shape
        main = self.whole * self.step
        result = xp.zeros((batch, heads, self.step, total, size), part.dtype)
        result[:, :, :, before:before + self.whole] = part[:, :main].reshape(
            batch, self.whole, self.step, heads, size).transpose(0, 3, 2, 1, 4)
        if self.rest:
            result[:, :, :self.rest, before + self.whole] = part[:, main:].transpose(0, 2, 1, 3)
        return result.reshape(-1, total, size)

    def put(self, result, strands):
        """The inverse of ``take``, into the heads of ``result``."""
        batch, size = result.shape[0], result.shape[3]
        part = strands.reshape(batch, -1, self.step, *strands.shape[1:])
        main = self.whole * self.step
        result[:, :main, self.heads] = part[:, :, :, :self.whole].transpose(0, 3, 2, 1, 4).reshape(
            batch, main, -1, size)
        if self.rest:
            result[:, main:, self.heads] = part[:, :, :self.rest, self.whole].transpose(0, 2, 1, 3)


def _strands(xp, dilation, length):
    """The :class:`_Strands` of every dilation that occurs."""
    steps = _steps(dilation)
    for step in sorted(set(steps)):
        heads = [h for h, s in enumerate(steps) if s == step]
        yield _Strands(slice(None) if len(heads) == len(steps) else xp.asarray(heads), step, length)


def _steps(dilation):
    steps = dilation.tolist()
    if any(s < 1 for s in steps):
        raise ValueError(f"sliding window attention: dilations must be at least 1, not {steps}")
    return steps


class _Band:
    """Products of blocks of tokens with their surroundings: pieces of the work, and the diagonal band of each."""

    def __init__(self, xp, count, before, after, dtype):
        self.xp, self.dtype = xp, dtype
        self.window = before + after + 1
        self.block = min(count, max(_SHORTEST_BLOCK, (before + after) // 2))
        self.blocks = -(-count // self.block)
        self.width = self.block + before + after
        self.padded = self.blocks * self.block                     # length of a strand of whole blocks
        self.around = self.padded + before + after                 # with its margins

    def pieces(self, strands):
        """Slices of strands and of blocks."""
        fit = max(1, _BAND_BYTES // (self.block * self.width * self.dtype.itemsize))
        blocks = min(fit, self.blocks)
        rows = max(1, fit // self.blocks)
        for start in range(0, strands, rows):
            for first in range(0, self.blocks, blocks):
                yield slice(start, start + rows), slice(first, first + blocks)

    def parts(self, x):
        """x (strands, padded, size) in blocks (strands, blocks, block, size)."""
        return x.reshape(x.shape[0], self.blocks, self.block, x.shape[2])

    def surroundings(self, x):
        """For each block of x (strands, around, size), what its windows reach: (strands, blocks, width, size)."""
        n, length, size = x.shape
        return _strided(self.xp, x, (n, self.blocks, self.width, size), (length * size, self.block * size, size, 1))

    def diagonal(self, products):
        """The windows (..., block, window) among products (..., block, width), a view."""
        n, m, block, width = products.shape
        return _strided(self.xp, products, (n, m, block, self.window),
                        (m * block * width, block * width, width + 1, 1))


# -- kernels -------------------------------------------------------------------------------------------------------


def _scores(xp, query, key, dilation, before, after):
    """Products of each query (b, t, h, u) with the keys of its window: (b, t, h, before + after + 1)."""
    result = xp.zeros((*query.shape[:3], before + after + 1), promote(wide(xp, query).dtype, wide(xp, key).dtype))
    if not query.size:
        return result
    for strands in _strands(xp, dilation, query.shape[1]):
        band = _Band(xp, strands.count, before, after, result.dtype)
        q = band.parts(strands.take(xp, query, 0, band.padded))
        k = band.surroundings(strands.take(xp, key, before, band.around))
        out = xp.empty((*q.shape[:3], band.window), result.dtype)
        for piece in band.pieces(q.shape[0]):
            out[piece] = band.diagonal(xp.matmul(q[piece], k[piece].swapaxes(2, 3)))
        strands.put(result, out.reshape(q.shape[0], band.padded, band.window))
    return result


def _context(xp, score, value, dilation, before, after):
    """Sums of the values (b, t, h, u) in each token's window, weighted by ``score`` (b, t, h, before + after + 1)."""
    result = xp.zeros(value.shape, promote(wide(xp, score).dtype, wide(xp, value).dtype))
    if not value.size:
        return result
    for strands in _strands(xp, dilation, value.shape[1]):
        band = _Band(xp, strands.count, before, after, result.dtype)
        s = band.parts(strands.take(xp, score, 0, band.padded))
        v = band.surroundings(strands.take(xp, value, before, band.around))
        out = xp.empty((*s.shape[:3], value.shape[3]), result.dtype)
        for piece in band.pieces(s.shape[0]):
            weights = xp.zeros((*s[piece].shape[:3], band.width), result.dtype)
            band.diagonal(weights)[...] = s[piece]
            out[piece] = xp.matmul(weights, v[piece])
        strands.put(result, out.reshape(s.shape[0], band.padded, -1))
    return result


def _mirror(xp, score, dilation, before, after):
    """The scores seen from the other side: element j of a token is what the token ``dilation * (j - after)`` away has
    for this one, for windows that reach ``after`` places to the left."""
    result = xp.zeros(score.shape, wide(xp, score).dtype)
    window = before + after + 1
    if not score.size:
        return result
    for strands in _strands(xp, dilation, score.shape[1]):
        total = strands.count + before + after
        s = strands.take(xp, score, after, total)
        # row t + j of the padded strand at place window - 1 - j, for token t: one step down is one place back
        turned = _strided(xp, s.reshape(-1)[window - 1:], (s.shape[0], strands.count, window),
                          (total * window, window, window - 1))
        strands.put(result, turned)
    return result


def _mask_like(xp, score, dilation, valid_length, w, symmetric):
    """1 where a window's element is a token of the sequence, else 0, in float32 and the shape of ``score``.

    score (batch, length, heads, window); dilation (heads,), valid_length (batch,): integers. Tokens at and after a
    sequence's valid length have no window.
    """
    _, length, _, window = score.shape
    _steps(dilation)
    place, step = xp.arange(length)[:, None], dilation.astype("int64")
    valid = valid_length.astype("int64")[:, None, None]
    number = xp.arange(window)
    reach = (place // step)[..., None]                                         # (length, heads, 1)
    left = number >= w - reach
    inside = place < valid                                                     # (batch, length, 1)
    result = left & inside[..., None]
    if symmetric:
        reach = (valid - place - 1) // step                                    # (batch, length, heads)
        result &= window - 1 - number >= w - reach[..., None]
    return result


# -- rules ---------------------------------------------------------------------------------------------------------


def _check(function, x, dilation, w, names):
    """Raise unless all arrays of ``x`` are (batch, length, heads, size) of one (batch, length, heads)."""
    if isinstance(w, bool) or not isinstance(w, int) or w < 0:
        raise ArgumentError(f"{function}: w must be an int that is not negative, not {w!r}")
    for name, s in zip(names, x):
        if not isinstance(s, ArraySpec) or s.ndim != 4:
            raise ShapeError(f"{function}: {name} must be (batch, length, heads, size), not of shape "
                             f"{getattr(s, 'shape', ())}")
        if s.shape[:3] != x[0].shape[:3]:
            raise ShapeError(f"{function}: {names[0]} of shape {x[0].shape} and {name} of shape {s.shape} must have "
                             "the same batch, length and heads")
        if not is_float(s.dtype):
            raise ArgumentError(f"{function}: {name} must be floating, not {s.dtype}; use astype")
    _check_integers(function, "dilation", dilation, x[0].shape[2], "heads")


def _check_integers(function, name, x, count, of):
    if not isinstance(x, ArraySpec) or x.shape != (count,):
        raise ShapeError(f"{function}: {name} must have shape ({count},) for {count} {of}, not "
                         f"{getattr(x, 'shape', ())}")
    if x.dtype.kind not in "iu":
        raise ArgumentError(f"{function}: {name} must hold integers, not {x.dtype}; use astype('int32')")


def _window(w, symmetric):
    """How far a window reaches to the left and to the right."""
    return {"before": w, "after": w if symmetric else 0}


def _length(before, after):
    return before + after + 1


def _infer_score(query, key, dilation, w, symmetric):
    _check("sldwin_atten_score", (query, key), dilation, w, ("query", "key"))
    if query.shape != key.shape:
        raise ShapeError(f"sldwin_atten_score: query of shape {query.shape} and key of shape {key.shape} must have the "
                         "same size")
    return _scores_of(query, key, dilation, **_window(w, symmetric))


def _infer_context(score, value, dilation, w, symmetric):
    _check("sldwin_atten_context", (score, value), dilation, w, ("score", "value"))
    _check_window("sldwin_atten_context", score, w, symmetric)
    return _like_second(score, value)


def _infer_mask(score, dilation, valid_length, w, symmetric):
    _check("sldwin_atten_mask_like", (score,), dilation, w, ("score",))
    _check_integers("sldwin_atten_mask_like", "valid_length", valid_length, score.shape[0], "sequences")
    _check_window("sldwin_atten_mask_like", score, w, symmetric)
    return spec(score.shape, "float32")


def _check_window(function, score, w, symmetric):
    window = _length(**_window(w, symmetric))
    if score.shape[3] != window:
        raise ShapeError(f"{function}: score of shape {score.shape} must end in {window} for w={w} and "
                         f"symmetric={symmetric}")


def _scores_of(query, key, dilation, before, after):
    return spec((*query.shape[:3], _length(before, after)), promote(query.dtype, key.dtype))


def _like_second(score, value, *_, **__):
    return spec(value.shape, promote(score.dtype, value.dtype))


# -- records -------------------------------------------------------------------------------------------------------


def _score_vjp(F, dy, x, y, before, after):
    query, key, dilation = x
    turned = F.window_mirror(dy, dilation, before=before, after=after)
    return (F.window_context(dy, key, dilation, before=before, after=after),
            F.window_context(turned, query, dilation, before=after, after=before), None)


def _context_vjp(F, dy, x, y, before, after):
    score, value, dilation = x
    turned = F.window_mirror(score, dilation, before=before, after=after)
    return (F.window_scores(dy, value, dilation, before=before, after=after),
            F.window_context(turned, dy, dilation, before=after, after=before), None)


operator("window_scores", "query, key, dilation, before, after", inputs="query, key, dilation", infer=_scores_of,
         kernel=_scores, vjp=_score_vjp)
operator("window_context", "score, value, dilation, before, after", inputs="score, value, dilation",
         infer=_like_second, kernel=_context, vjp=_context_vjp)
operator("window_mirror", "score, dilation, before, after", inputs="score, dilation", kernel=_mirror,
         infer=lambda score, dilation, before, after: score,
         vjp=lambda F, dy, x, y, before, after: (F.window_mirror(dy, x[1], before=after, after=before), None))


def _public(name, signature, infer, kernel, vjp, doc):
    operator(name, f"{signature}, w, symmetric, out=None", inputs=signature, infer=infer, doc=doc, npx=name,
             nd=f"_contrib_{name}",
             kernel=lambda xp, *x, w, symmetric: kernel(xp, *x, **_window(w, symmetric)),
             vjp=lambda F, dy, x, y, w, symmetric: vjp(F, dy, x, y, **_window(w, symmetric)))


_WINDOW = "A window reaches ``w`` tokens to the left and, if ``symmetric``, to the right; its tokens lie " \
          "``dilation`` (heads,), integers of at least 1, apart. Source: Beltagy et al. 2020, Longformer."
_public("sldwin_atten_score", "query, key, dilation", _infer_score, _scores, _score_vjp,
        "Products of each query with the keys in its window: (batch, length, heads, window), 0 beyond the ends of "
        "the sequence. query, key (batch, length, heads, size), floating.\n\n" + _WINDOW)
_public("sldwin_atten_context", "score, value, dilation", _infer_context, _context, _context_vjp,
        "Sums of the values in each token's window, weighted by ``score`` (batch, length, heads, window): the shape "
        "of ``value`` (batch, length, heads, size).\n\n" + _WINDOW)
operator("sldwin_atten_mask_like", "score, dilation, valid_length, w, symmetric, out=None",
         inputs="score, dilation, valid_length", infer=_infer_mask, kernel=_mask_like, npx="sldwin_atten_mask_like",
         nd="_contrib_sldwin_atten_mask_like")
