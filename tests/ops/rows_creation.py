"""Rows of the operators that make arrays."""
import numpy as np
from table import S, bools, ints, normal, row

row("zeros", ref=lambda shape, dtype: np.zeros(shape, dtype),
    samples=[S(shape=(2, 3), dtype="float32"), S(shape=(), dtype="int8"), S(shape=(0, 2), dtype="bool")])
row("ones", ref=lambda shape, dtype: np.ones(shape, dtype),
    samples=[S(shape=(2, 3), dtype="float32"), S(shape=(), dtype="int8"), S(shape=(0, 2), dtype="bool")])
row("empty", check=lambda inputs, outputs, attrs: None,
    samples=[S(shape=(2, 3), dtype="float32"), S(shape=(), dtype="int8"), S(shape=(0, 2), dtype="bool")])
row("full", ref=lambda shape, fill_value, dtype: np.full(shape, np.asarray(fill_value).astype(dtype)),
    samples=[S(shape=(2, 3), fill_value=1.5, dtype="float32"), S(shape=(), fill_value=-1, dtype="uint8"),
             S(shape=(0, 2), fill_value=True, dtype="bool")])
row("fill", ref=lambda value, shape, dtype: np.full(shape, value, dtype),
    samples=[S(normal(), shape=(2, 3), dtype="float64"), S(normal(), shape=(), dtype="float64")], dtypes="float64")
for _name in ("zeros_like", "ones_like"):
    row(_name, ref=getattr(np, _name),
        samples=[S(normal(2, 3)), S(normal(2), dtype="int32"), S(ints()), S(bools(0, 3))])
row("full_like_value", ref=lambda x, value, dtype=None: np.full(x.shape, value, dtype or x.dtype),
    samples=[S(normal(2, 3), value=1.5), S(ints(2), value=2.5), S(normal(), value=3, dtype="bool"),
             S(normal(0), value=1)])
row("copy", ref=np.copy, samples=[S(normal(2, 3)), S(ints()), S(bools(0, 3))])
row("arange", ref=lambda start, stop, step, dtype: np.arange(start, stop, step).astype(dtype),
    samples=[S(start=0, stop=5, step=1, dtype="float32"), S(start=1.5, stop=-1, step=-0.4, dtype="float64"),
             S(start=3, stop=3, step=1, dtype="int64"), S(start=2, stop=10, step=3, dtype="int32")])
row("linspace", ref=lambda start, stop, num, endpoint, dtype: np.linspace(start, stop, num, endpoint, dtype=dtype),
    samples=[S(start=-2.5, stop=3, num=9, endpoint=True, dtype="int32"),
             S(start=0, stop=1, num=7, endpoint=True, dtype="float64"),
             S(start=3.5, stop=-1, num=4, endpoint=False, dtype="float32"),
             S(start=2, stop=3, num=1, endpoint=True, dtype="float32"),
             S(start=2, stop=3, num=0, endpoint=True, dtype="float32")])
row("logspace",
    ref=lambda start, stop, num, endpoint, base, dtype: np.logspace(start, stop, num, endpoint, base).astype(dtype),
    samples=[S(start=0, stop=2, num=5, endpoint=True, base=10.0, dtype="float64"),
             S(start=0, stop=2, num=5, endpoint=False, base=2, dtype="float32"),
             S(start=0, stop=2, num=0, endpoint=True, base=2, dtype="float32")])
for _name in ("eye", "tri"):
    row(_name, ref=getattr(np, _name),
        samples=[S(N=3, M=3, k=0, dtype="float32"), S(N=3, M=5, k=1, dtype="int32"), S(N=0, M=2, k=0, dtype="float32"),
                 S(N=4, M=2, k=-2, dtype="bool")])
row("indices", ref=lambda dimensions, dtype: np.indices(dimensions, dtype),
    samples=[S(dimensions=(2, 3), dtype="int64"), S(dimensions=(4,), dtype="float32"),
             S(dimensions=(0, 2), dtype="int32")])
row("window", ref=lambda size, kind, dtype: getattr(np, kind)(size).astype(dtype),
    samples=[S(size=n, kind=k, dtype="float64") for k in ("blackman", "hamming", "hanning") for n in (0, 1, 2, 7)])
