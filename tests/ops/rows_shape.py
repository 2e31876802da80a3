"""Rows of the operators on shapes: reshape, axes, joining, splitting, repeating, padding, diagonals."""
import numpy as np
from table import S, exempt, normal, row

row("reshape", ref=lambda a, newshape: a.reshape(newshape), ints_as="int32", samples=[
    S(normal(2, 3, 4), newshape=(6, -1)), S(normal(6), newshape=-1), S(normal(), newshape=(1, 1)),
    S(normal(0, 3), newshape=(3, 0)), S(normal(1), newshape=())])
row("npx_reshape", ref=lambda a, newshape, reverse=False: a.reshape(-1, a.shape[-1]) if a.size else a, samples=[
    S(normal(2, 3, 4), newshape=(-5, -2)), S(normal(2, 3, 4), newshape=(-1, -2), reverse=True),
    S(normal(2, 0), newshape=(-4,))])
row("ravel", ref=lambda x: x.ravel(), samples=[S(normal(2, 3)), S(normal()), S(normal(0, 3))])
row("batch_flatten", ref=lambda x: x.reshape(len(x), -1), samples=[S(normal(2, 3, 4)), S(normal(3))])
row("transpose", ref=lambda a, axes=None: np.transpose(a, axes), ints_as="uint8", samples=[
    S(normal(2, 3, 4)), S(normal(2, 3, 4), axes=(1, -1, 0)), S(normal()), S(normal(0, 3))])
row("expand_dims", ref=np.expand_dims, samples=[
    S(normal(2, 3), axis=1), S(normal(2), axis=(0, -1)), S(normal(), axis=0), S(normal(0, 3), axis=-1)])
row("squeeze", ref=lambda a, axis=None: np.squeeze(a, axis), samples=[
    S(normal(1, 2, 1)), S(normal(1, 2, 1), axis=0), S(normal(1, 2, 1), axis=(0, -1)), S(normal()), S(normal(1, 0))])
row("broadcast_to", ref=lambda x, shape: np.broadcast_to(x, shape), samples=[
    S(normal(3), shape=(2, 3)), S(normal(2, 1), shape=(4, 2, 3)), S(normal(), shape=(2,)),
    S(normal(1, 3), shape=(0, 3))])
row("flip", ref=lambda m, axis=None: np.flip(m, axis), samples=[
    S(normal(2, 3)), S(normal(2, 3, 4), axis=(0, -1)), S(normal(3), axis=0), S(normal()), S(normal(0, 3))])
row("roll", ref=lambda a, shift, axis=None: np.roll(a, shift, axis), samples=[
    S(normal(2, 3), shift=2), S(normal(2, 3), shift=(1, -2), axis=(0, 1)), S(normal(2, 3), shift=1, axis=(0, 1)),
    S(normal(2, 3), shift=-1, axis=-1), S(normal(0, 3), shift=1), S(normal(), shift=3)])
row("concatenate", ref=lambda *a, axis=0: np.concatenate(a, axis), ints_as="int32", samples=[
    S(normal(2, 3), normal(1, 3)), S(normal(2, 3), normal(2, 2), normal(2, 0), axis=-1),
    S(normal(2), normal(2, 2), normal(), axis=None), S(normal(2, 3))])
row("stack", ref=lambda *a, axis=0: np.stack(a, axis), samples=[
    S(normal(2, 3), normal(2, 3)), S(normal(2, 3), normal(2, 3), normal(2, 3), axis=-1), S(normal(), normal()),
    S(normal(0))])
row("split", ref=lambda a, points, axis: tuple(np.split(a, points, axis)), samples=[
    S(normal(2, 6), points=(2, 3), axis=1), S(normal(4, 2), points=(2,), axis=0), S(normal(4), points=(), axis=0),
    S(normal(4), points=(3, 9), axis=-1), S(normal(4), points=(3, 1), axis=0), S(normal(0, 3), points=(0,), axis=0)])
exempt("split_grad", "split", "concatenate")
row("tile", ref=lambda A, reps: np.tile(A, reps), samples=[
    S(normal(2, 3), reps=2), S(normal(2, 3), reps=(2, 1, 2)), S(normal(2), reps=(0, 1)), S(normal(), reps=3),
    S(normal(2), reps=())])
row("repeat", ref=lambda a, repeats, axis=None: np.repeat(a, repeats, axis), samples=[
    S(normal(2, 3), repeats=2), S(normal(2, 3), repeats=2, axis=1), S(normal(2, 3), repeats=(1, 3), axis=0),
    S(normal(2, 3), repeats=(2, 0, 1), axis=-1), S(normal(2, 2), repeats=(1, 0, 2, 1)), S(normal(), repeats=3),
    S(normal(2), repeats=(2,)), S(normal(2), repeats=0), S(normal(0, 2), repeats=2, axis=1)])
exempt("repeat_grad", "repeat")
row("pad", ref=lambda x, pad_width, mode="constant", **k: np.pad(x, pad_width, mode, **k), samples=[
    S(normal(2, 3), pad_width=((1, 2), (0, 1))), S(normal(2, 3), pad_width=1, constant_values=2.5),
    S(normal(2, 3), pad_width=(1, 2), constant_values=((1, 2), (3, 4))), S(normal(2), pad_width=((0, 0),)),
    S(normal(0, 2), pad_width=1), S(normal(1), pad_width=2, mode="reflect")] + [
    S(normal(2, 3), pad_width=((3, 1), (0, 7)), mode=m) for m in ("edge", "reflect", "symmetric", "wrap")])
exempt("pad_grad", "pad")
for _name, _f in (("tril", np.tril), ("triu", np.triu)):
    row(_name, ref=lambda m, k=0, _f=_f: _f(m, k), samples=[
        S(normal(3, 4)), S(normal(3, 4), k=1), S(normal(2, 4, 3), k=-1), S(normal(3)), S(normal(0, 3))])
row("diag", ref=lambda array, k=0: np.diag(array, k), samples=[
    S(normal(3)), S(normal(3), k=-2), S(normal(3, 4), k=1), S(normal(3, 4), k=9), S(normal(0))])
row("diagonal", ref=lambda a, offset=0, axis1=0, axis2=1: np.diagonal(a, offset, axis1, axis2), samples=[
    S(normal(3, 4)), S(normal(3, 4, 2), offset=-1), S(normal(2, 3, 4), offset=1, axis1=2, axis2=0),
    S(normal(2, 3), offset=7), S(normal(0, 3))])
exempt("diagonal_grad", "diagonal", "diag", "trace")
row("trace", ref=lambda a, offset=0, axis1=0, axis2=1: np.trace(a, offset, axis1, axis2), ints_as="int32", samples=[
    S(normal(3, 4)), S(normal(3, 4, 2), offset=-1), S(normal(2, 3, 4), offset=1, axis1=2, axis2=0), S(normal(0, 3))])


def arange_like(data, start=0.0, step=1.0, repeat=1, axis=None):
    shape = data.shape if axis is None else (data.shape[axis],)
    return (start + np.arange(np.prod(shape, dtype=int)) // repeat * step).reshape(shape)


row("arange_like", ref=arange_like, samples=[
    S(normal(2, 3)), S(normal(2, 3), axis=1, start=1.5, step=2.0), S(normal(2, 3), repeat=2), S(normal(0, 3)),
    S(normal())])
