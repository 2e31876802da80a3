"""Rows of indexing, gathering and scattering."""

import numpy as np
from table import S, bools, exempt, ints, normal, row


def index_of(structure, arrays):
    """The NumPy index of a structure."""
    rest = iter(arrays)
    return tuple(next(rest) if k == "#" else slice(*k) if type(k) is tuple else k for k in structure)


def written(x, index, value):
    """``x`` after ``x[index] = value``."""
    x = x.copy()
    x[index] = value
    return x


def added(shape, index, value):
    """Zeros of ``shape`` after adding ``value`` at ``index``."""
    result = np.zeros(shape, np.asarray(value).dtype)
    np.add.at(result, index, value)
    return result


# -- basic ---------------------------------------------------------------------------------------------------------

row(
    "basic_index",
    ref=lambda x, items, shape: x[index_of(items, ())].reshape(shape),
    ints_as="int32 bool",
    samples=[
        S(normal(3, 4), items=((0, 2, 1), 1), shape=(2,)),
        S(normal(3, 4), items=((2, None, -1), (0, 4, 2)), shape=(3, 1, 2)),
        S(normal(3), items=(-1,), shape=()),
        S(normal(), items=(), shape=(1,)),
        S(normal(0, 3), items=((0, 0, 1), 2), shape=(0,)),
    ],
)
exempt("basic_index_grad", "basic_index")
row(
    "basic_assign",
    ref=lambda x, value, items, shape: written(x, index_of(items, ()), value),
    samples=[
        S(normal(3, 4), normal(2), items=((0, 2, 1), 1), shape=(2,)),
        S(normal(3, 4), 2.5, items=((2, None, -1), (0, 4, 2)), shape=(3, 2)),
        S(normal(3, 4), normal(1, 1, 4), items=(1, (0, 4, 1)), shape=(4,)),
        S(normal(3, 4), normal(), items=((0, 3, 1), 0), shape=(3,)),
        S(normal(0, 3), normal(3), items=((0, 0, 1), (0, 3, 1)), shape=(0, 3)),
    ],
)

# -- advanced ------------------------------------------------------------------------------------------------------

ALL = (None, None, None)
STRUCTURES = [
    (("#",), [(0, -1)]),
    (("#", ALL), [[(0, 2), (2, 2)]]),
    (("#", "#"), [(0, 1), (1, -4)]),
    (("#", "#"), [[(0,), (1,)], (1, 2)]),
    ((ALL, "#"), [(3, 0, 3)]),
    ((1, "#"), [(0, 0)]),
    ((None, "#", (3, 0, -2)), [(0, 1)]),
    (("#", None, "#"), [(0, 1), (2, 3)]),
    (("#", 2), [1]),
]


def advanced(make):
    """Samples over all structures for an array of shape (3, 4)."""
    return [
        make(structure + (ALL,) * (2 - sum(k is not None for k in structure)), [np.array(a) for a in arrays])
        for structure, arrays in STRUCTURES
    ]


row(
    "advanced_index",
    ref=lambda x, *arrays, structure: x[index_of(structure, arrays)],
    ints_as="int32",
    samples=advanced(lambda s, a: S(normal(3, 4), *a, structure=s))
    + [
        S(normal(5, 2, 3), ints(4, 2, high=5), structure=("#", ALL, ALL)),
        S(normal(5), ints(40, high=5), structure=("#",)),
        S(normal(5, 3), ints(0, high=5), structure=("#", ALL)),
        S(normal(0, 3), ints(0, high=5), structure=("#", ALL)),
        S(normal(5, 0), ints(3, high=5), structure=("#", ALL)),
        S(normal(5), np.array([1.0, 3.0]), structure=("#",)),
    ][:-1],
)
exempt("advanced_index_grad", "advanced_index")
row(
    "advanced_assign",
    ref=lambda x, value, *arrays, structure: written(x, index_of(structure, arrays), value),
    samples=advanced(lambda s, a: S(normal(3, 4), normal(), *a, structure=s))
    + [
        S(normal(3, 4), normal(2, 4), np.array([2, 0]), structure=("#", ALL)),
        S(normal(3), 1.5, np.array([-1]), structure=("#",)),
        S(normal(3, 4), normal(1, 1, 4), np.array([2, 0]), structure=("#", ALL)),
        S(normal(0, 3), 1.5, ints(0), structure=("#", ALL)),
    ],
)

# -- masks ---------------------------------------------------------------------------------------------------------

MASK = np.array([[True, False, True], [False, True, False]])
row("mask_count", ref=np.count_nonzero, samples=[S(bools(3, 4)), S(bools()), S(bools(0, 3)), S(normal(3))])
row(
    "mask_places",
    ref=lambda mask, count: np.nonzero(mask),
    samples=[S(MASK, count=3), S(MASK[0], count=2), S(np.zeros((0, 2), bool), count=0)],
)
row(
    "mask_index",
    ref=lambda x, mask, count, axis=0: np.moveaxis(np.moveaxis(x, (axis, axis + 1), (0, 1))[mask], 0, axis),
    samples=[
        S(normal(2, 3), MASK, count=3),
        S(normal(2, 3, 4), MASK, count=3),
        S(normal(4, 2, 3), MASK, count=3, axis=1),
        S(normal(0, 3), np.zeros((0, 3), bool), count=0),
    ],
)
exempt("mask_index_grad", "mask_index")
row(
    "mask_assign",
    ref=lambda x, value, mask, axis=0: written(x, (slice(None),) * axis + (mask,), value),
    samples=[
        S(normal(2, 3), 2.5, MASK),
        S(normal(2, 3), normal(3), MASK),
        S(normal(2, 3, 4), normal(4), MASK),
        S(normal(4, 2, 3), normal(4, 1), MASK, axis=1),
        S(normal(0, 3), 1.5, np.zeros((0, 3), bool)),
    ],
)

# -- take ----------------------------------------------------------------------------------------------------------


def take(a, indices, axis=None, mode="raise"):
    return np.take(a, np.asarray(indices).astype("int64"), axis=axis, mode=mode)


TAKES = [
    S(normal(3, 4), np.array([0, 5, 5, 11]), axis=None),
    S(normal(3, 4), np.array([[0, 2], [1, 1]]), axis=0),
    S(normal(2, 3, 4), np.array([3, 0]), axis=-1),
    S(normal(2, 3, 4), np.array(1), axis=1),
    S(normal(4), 2, axis=0),
    S(normal(3, 4), np.array([-7, 1, 9, 9]), axis=1, mode="clip"),
    S(normal(3, 4), np.array([-7, 1, 9]), axis=1, mode="wrap"),
    S(normal(3, 4), ints(0), axis=1),
    S(normal(0, 4), np.array([1]), axis=1),
]
row("take", ref=take, samples=TAKES, ints_as="int32")
row("nd_take", ref=lambda a, indices, axis=0, mode="clip": take(a, indices, axis, mode), samples=TAKES)
exempt("take_grad", "take", "nd_take")
row(
    "take_along_axis",
    ref=lambda arr, indices, axis: np.take_along_axis(
        np.broadcast_to(arr, np.broadcast_shapes(arr.shape[:1], indices.shape[:1]) + arr.shape[1:])
        if axis == 1
        else arr,
        indices,
        axis,
    ),
    samples=[
        S(normal(3, 4), ints(3, 2, high=4), axis=1),
        S(normal(3, 4), ints(1, 5, high=12).__call__(np.random.default_rng(1))[0], axis=None),
        S(normal(1, 4), ints(3, 2, high=4), axis=1),
        S(normal(3, 4), ints(2, 4, high=3), axis=0),
        S(normal(0, 4), ints(0, 2, high=4), axis=1),
    ],
)
exempt("take_along_axis_grad", "take_along_axis")
row(
    "batch_take",
    ref=lambda a, indices: a[np.arange(len(a)), np.clip(indices, 0, a.shape[1] - 1)],
    samples=[S(normal(3, 4), np.array([0, 3, 9])), S(normal(0, 4), ints(0))],
)
exempt("batch_take_grad", "batch_take")

# -- many axes at once ---------------------------------------------------------------------------------------------

ND = [
    S(normal(3, 4), np.array([[0, 1, 1], [1, 2, 2]])),
    S(normal(3, 4), np.array([[0, -1, 0]])),
    S(normal(3, 4, 2), np.array([[[0, 1], [1, 1]], [[0, 0], [1, 3]]])),
    S(normal(3, 4), np.zeros((2, 0), "int64")),
]
row("gather_nd", ref=lambda data, indices: data[tuple(indices)], samples=ND, ints_as="int32")
row(
    "scatter_add_nd",
    ref=lambda data, indices, shape: added(shape, tuple(indices), data),
    samples=[
        S(normal(3), np.array([[0, 1, 0], [1, 2, 1]]), shape=(2, 3)),
        S(normal(2, 4), np.array([[0, 0]]), shape=(3, 4)),
        S(normal(0), np.zeros((1, 0), "int64"), shape=(2,)),
    ],
)
row(
    "scatter_nd",
    ref=lambda data, indices, shape: added(shape, tuple(indices), data),
    samples=[
        S(normal(3), np.array([[0, 1, 0], [1, 2, 0]]), shape=(2, 3)),
        S(normal(2, 4), np.array([[0, 2]]), shape=(3, 4)),
        S(normal(0), np.zeros((1, 0), "int64"), shape=(2,)),
    ],
)


def places(ind):
    return tuple(ind) if ind.ndim > 1 else (np.atleast_1d(ind),)


PUTS = [
    S(normal(3, 4), np.array([[0, 2], [1, 1]]), normal(2)),
    S(normal(3, 4), np.array([[2, 0]]), normal(2, 1)),
    S(normal(3, 4), np.array([0, 2]), normal(4)),
    S(normal(3, 4), np.array(1), normal(1, 4)),
    S(normal(3, 4), np.array([1]), 2.5),
    S(normal(3, 4), np.zeros((1, 0), "int64"), normal(0, 4)),
]
row("index_update", ref=lambda a, ind, val: written(a, places(ind), val), samples=PUTS)
row(
    "index_add",
    ref=lambda a, ind, val: a + added(a.shape, places(ind), np.asarray(val, a.dtype)),
    samples=PUTS
    + [S(normal(3, 4), np.array([[0, 0], [1, 1]]), normal(2)), S(normal(3, 4), np.array([[2, 2, 0]]), normal(4))],
)
row(
    "index_copy",
    ref=lambda old, index, new: written(old, index, new),
    samples=[
        S(normal(3, 4), np.array([2, 0]), normal(2, 4)),
        S(normal(3), np.array([1]), normal(1)),
        S(normal(3, 4), ints(0), normal(0, 4)),
    ],
)

# -- index arithmetic ----------------------------------------------------------------------------------------------

row(
    "index_array",
    ref=lambda data, axes=None: np.stack(
        [np.indices(data.shape)[a] for a in (range(data.ndim) if axes is None else axes)], -1
    ),
    samples=[S(normal(2, 3)), S(normal(2, 3), axes=(1,)), S(normal(0, 3))],
)
row(
    "fill_element_0index",
    ref=lambda lhs, mhs, rhs: written(lhs, (np.arange(len(lhs)), rhs.astype("int64")), mhs),
    samples=[S(normal(3, 4), normal(3), ints(3, high=4)), S(normal(0, 4), normal(0), ints(0))],
)
row(
    "nd_unravel_index",
    ref=lambda data, shape: np.stack(np.unravel_index(data, shape)),
    samples=[S(ints(5, high=12), shape=(3, 4)), S(ints(2, 3, high=12), shape=(2, 3, 2)), S(ints(0), shape=(3, 4))],
)
row(
    "nd_ravel_multi_index",
    ref=lambda data, shape: np.ravel_multi_index(tuple(data), shape),
    samples=[S(ints(2, 5, high=3), shape=(3, 4)), S(ints(3, 0), shape=(2, 3, 2))],
)
