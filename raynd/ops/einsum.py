"""Einstein summation. The driver brings a call to explicit subscripts without ellipsis and finds the order of
contractions; the kernel contracts two operands at a time by one (batched) matrix product each.
"""
from __future__ import annotations

import math
from functools import lru_cache

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import promote, spec
from .products import common
from .registry import operator

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@lru_cache(maxsize=1024)
def split(subscripts):
    """('ab', 'bc'), 'ac' from 'ab,bc->ac'."""
    terms, out = subscripts.split("->")
    return tuple(terms.split(",")), out


@lru_cache(maxsize=1024)
def explicit(subscripts, ndims) -> str:
    """Subscripts in explicit form, with letters in place of the ellipsis, for operands of ``ndims`` axes.

    Follows NumPy: without '->' the output has the ellipsis axes, then the letters that occur once, in alphabetical
    order. Raises ShapeError for malformed subscripts.
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ShapeError(f"einsum: {len(terms)} terms in {subscripts!r} for {len(ndims)} operands")
    for term in (*terms, right):
        plain = term.replace("...", "", 1)
        if any(c not in LETTERS for c in plain):
            raise ShapeError(f"einsum: {subscripts!r} has a character that is neither a letter nor an ellipsis")
    free = [c for c in LETTERS if c not in text]
    wide = 0
    for term, n in zip(terms, ndims):
        letters = term.replace("...", "")
        if "..." in term:
            if len(letters) > n:
                raise ShapeError(f"einsum: term {term!r} has more letters than its operand has axes ({n})")
            wide = max(wide, n - len(letters))
        elif len(letters) != n:
            raise ShapeError(f"einsum: term {term!r} has {len(letters)} letters, its operand has {n} axes")
    extra = "".join(free[:wide])
    if len(extra) < wide:
        raise ShapeError("einsum: too many axes for the 52 letters")
    full = []
    for term, n in zip(terms, ndims):
        count = n - len(term.replace("...", ""))
        full.append(term.replace("...", extra[len(extra) - count:] if count else ""))
    if arrow:
        out = right.replace("...", extra)
        if wide and "..." not in right:
            raise ShapeError("einsum: the output of an ellipsis must have it too")
        if len(set(out)) != len(out):
            raise ShapeError(f"einsum: a letter occurs twice in the output {right!r}")
        if any(c not in "".join(full) for c in out):
            raise ShapeError(f"einsum: the output {right!r} has a letter that no operand has")
    else:
        every = "".join(full)
        out = extra + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in extra))
    return ",".join(full) + "->" + out


def sizes_of(terms, shapes) -> dict:
    """Size of every letter."""
    sizes = {}
    for term, shape in zip(terms, shapes):
        if len(term) != len(shape):
            raise ShapeError(f"einsum: term {term!r} has {len(term)} letters, its operand has shape {shape}")
        for c, n in zip(term, shape):
            if sizes.setdefault(c, n) != n:
                raise ShapeError(f"einsum: letter {c!r} stands for an axis of size {sizes[c]} and for one of size {n}")
    return sizes


@lru_cache(maxsize=1024)
def contraction_path(subscripts, shapes) -> tuple:
    """Pairs of positions to contract, as ``numpy.einsum_path`` gives them (greedy)."""
    if len(shapes) < 3:
        return (tuple(range(len(shapes))),)
    operands = [numpy.broadcast_to(numpy.float32(0), s) for s in shapes]
    return tuple([tuple(p) for p in numpy.einsum_path(subscripts, *operands, optimize="greedy")[0][1:]])


def _infer(*operands, subscripts):
    terms, out = split(subscripts)
    if len(terms) != len(operands):
        raise ShapeError(f"einsum: {len(terms)} terms in {subscripts!r} for {len(operands)} operands")
    sizes = sizes_of(terms, [s.shape for s in operands])
    dtype = operands[0].dtype
    for s in operands[1:]:
        dtype = promote(dtype, s.dtype)
    return spec(tuple([sizes[c] for c in out]), dtype)


# -- kernel --------------------------------------------------------------------------------------------------------


def _reduced(xp, a, term, keep):
    """``a`` without repeated letters (diagonals are taken) and summed over letters not in ``keep``."""
    target = "".join(dict.fromkeys([c for c in term if c in keep]))
    return (a, term) if target == term else (xp.einsum(f"{term}->{target}", a), target)


def _transposed(a, term, order):
    return a if term == order else a.transpose([term.index(c) for c in order])


def _pair(xp, a, ta, b, tb, keep):
    """Contract two operands without repeated letters: (array, its letters)."""
    a, ta = _reduced(xp, a, ta, set(tb) | keep)
    b, tb = _reduced(xp, b, tb, set(ta) | keep)
    batch = "".join([c for c in ta if c in tb and c in keep])
    summed = "".join([c for c in ta if c in tb and c not in keep])
    fa = "".join([c for c in ta if c not in tb])
    fb = "".join([c for c in tb if c not in ta])
    sizes = dict(zip(ta + tb, a.shape + b.shape))

    def size(letters):
        return math.prod([sizes[c] for c in letters])

    lead = tuple([sizes[c] for c in batch])
    result = batch + fa + fb
    if not summed:
        a = _transposed(a, ta, batch + fa).reshape(lead + tuple([sizes[c] for c in fa]) + (1,) * len(fb))
        b = _transposed(b, tb, batch + fb).reshape(lead + (1,) * len(fa) + tuple([sizes[c] for c in fb]))
        return a * b, result
    if ta == batch + summed + fa:                 # stored transposed: BLAS takes that as a flag
        a = a.reshape(lead + (size(summed), size(fa))).swapaxes(-1, -2)
    else:
        a = _transposed(a, ta, batch + fa + summed).reshape(lead + (size(fa), size(summed)))
    if tb == batch + fb + summed:
        b = b.reshape(lead + (size(fb), size(summed))).swapaxes(-1, -2)
    else:
        b = _transposed(b, tb, batch + summed + fb).reshape(lead + (size(summed), size(fb)))
    return xp.matmul(a, b).reshape(tuple([sizes[c] for c in result])), result


def _kernel(xp, *operands, subscripts):
    """Einstein summation by explicit subscripts."""
    terms, out = split(subscripts)
    path = contraction_path(subscripts, tuple([a.shape for a in operands]))
    arrays, terms = common(xp, *operands), list(terms)
    for step in path:
        picked = [(arrays[i], terms[i]) for i in step]
        for i in sorted(step, reverse=True):
            del arrays[i], terms[i]
        keep = set(out).union(*terms)
        a, term = picked[0]
        for n, (b, tb) in enumerate(picked[1:], 2):
            later = keep.union(*[t for _, t in picked[n:]])
            a, term = _pair(xp, a, term, b, tb, later)
        a, term = _reduced(xp, a, term, keep)
        arrays.append(a)
        terms.append(term)
    return _transposed(arrays[0], terms[0], out)


# -- gradient ------------------------------------------------------------------------------------------------------


def _vjp(F, dy, x, y, subscripts):
    terms, out = split(subscripts)
    grads = []
    for i, (operand, term) in enumerate(zip(x, terms)):
        others = [j for j in range(len(x)) if j != i]
        known = set(out).union(*[terms[j] for j in others])
        unique = "".join(dict.fromkeys(term))
        present = "".join([c for c in unique if c in known])
        g = F.einsum(dy, *[x[j] for j in others], subscripts=",".join([out] + [terms[j] for j in others])
                     + "->" + present)
        grads.append(g if present == term else F.einsum_spread(g, letters=present, term=term, shape=operand.shape))
    return tuple(grads)


def _spread(xp, x, letters, term, shape):
    """The adjoint of taking diagonals and sums: ``x``, whose axes are ``letters``, put on the diagonals of ``term``
    and repeated along letters it lacks."""
    first = {}
    for axis, c in enumerate(term):
        first.setdefault(c, axis)
    order = sorted(letters, key=first.__getitem__)
    x = _transposed(x, letters, "".join(order))
    taken = [first[c] for c in order]
    x = x.reshape([shape[axis] if axis in taken else 1 for axis in range(len(term))])
    mask = None
    for axis, c in enumerate(term):
        if first[c] != axis:
            n = shape[axis]
            at = [1] * len(term)
            at[axis] = n
            here = xp.arange(n).reshape(at)
            at[axis], at[first[c]] = 1, n
            equal = here == xp.arange(n).reshape(at)
            mask = equal if mask is None else mask & equal
    x = xp.broadcast_to(x, shape)
    return x if mask is None else x * mask


operator("einsum", "*operands, subscripts", infer=_infer, kernel=_kernel, vjp=_vjp)
operator("einsum_spread", "x, letters, term, shape", inputs="x", kernel=_spread,
         infer=lambda x, letters, term, shape: spec(shape, x.dtype),
         vjp=lambda F, dy, x, y, letters, term, shape: F.einsum(dy, subscripts=f"{term}->{letters}"))


def prepare(subscripts, shapes):
    """(explicit subscripts, shapes) for operands of ``shapes``; axes of size 1 that broadcast against a larger one
    lose their letter, and the returned shapes lack them."""
    if not isinstance(subscripts, str):
        raise ArgumentError("einsum: subscripts must be a string")
    terms, out = split(explicit(subscripts, tuple([len(s) for s in shapes])))
    largest = {}
    for term, shape in zip(terms, shapes):
        for c, n in zip(term, shape):
            largest[c] = n if largest.get(c, 1) == 1 else largest[c]
    new_terms, new_shapes = [], []
    for term, shape in zip(terms, shapes):
        kept = [(c, n) for c, n in zip(term, shape) if n == largest[c]]
        if any(n not in (1, largest[c]) for c, n in zip(term, shape)):
            sizes_of(terms, shapes)               # raises with the letter and both sizes
        new_terms.append("".join([c for c, _ in kept]))
        new_shapes.append(tuple([n for _, n in kept]))
    return ",".join(new_terms) + "->" + out, new_shapes
