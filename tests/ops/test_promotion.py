"""Result dtypes of element-wise operators: every pair of dtypes, and Python scalars on either side.

The tables are MXNet 2.0.0b1's, found by trying; ``.`` marks what it refuses and raynd does too. Where MXNet refuses
mixed dtypes that have an obvious result (``maximum``), raynd follows the table of ``add``.
"""
import numpy
import pytest

from raynd import np, util

DTYPES = {"u1": "uint8", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "f2": "float16", "f4": "float32",
          "f8": "float64", "b": "bool"}
COLUMNS = "u1 i1 i4 i8 f2 f4 f8 b int float bool"

ADD = """
u1   u1 i2 i4 i8 f2 f4 f8 u1   u1 f8 u1
i1   i2 i1 i4 i8 f2 f4 f8 i1   i1 f8 i1
i4   i4 i4 i4 i8 f2 f4 f8 i4   i4 f8 i4
i8   i8 i8 i8 i8 f2 f4 f8 i8   i8 f8 i8
f2   f2 f2 f2 f2 f2 f4 f8 f2   f2 f2 f2
f4   f4 f4 f4 f4 f4 f4 f8 f4   f4 f4 f4
f8   f8 f8 f8 f8 f8 f8 f8 f8   f8 f8 f8
b    u1 i1 i4 i8 f2 f4 f8 b    i8 f8 i8
"""
SUBTRACT = ADD.replace("f8 b    i8", "f8 .    i8")
DIVIDE = """
u1   f4 f4 f4 f4 f2 f4 f8 f4   f4 f4 f4
i1   f4 f4 f4 f4 f2 f4 f8 f4   f4 f4 f4
i4   f4 f4 f4 f4 f2 f4 f8 f4   f4 f4 f4
i8   f4 f4 f4 f4 f2 f4 f8 f4   f4 f4 f4
f2   f2 f2 f2 f2 f2 f4 f8 f2   f2 f2 f2
f4   f4 f4 f4 f4 f4 f4 f8 f4   f4 f4 f4
f8   f8 f8 f8 f8 f8 f8 f8 f8   f8 f8 f8
b    f4 f4 f4 f4 f2 f4 f8 f4   f4 f4 f4
"""
BITS = """
u1   u1 i2 i4 i8 . . . u1   u1 . u1
i1   i2 i1 i4 i8 . . . i1   i1 . i1
i4   i4 i4 i4 i8 . . . i4   i4 . i4
i8   i8 i8 i8 i8 . . . i8   i8 . i8
f2   . . . . . . . .   . . .
f4   . . . . . . . .   . . .
f8   . . . . . . . .   . . .
b    u1 i1 i4 i8 . . . b    b . b
"""
DIVISORS = BITS.replace("b    u1 i1 i4 i8 . . . b    b . b", "b    u1 i1 i4 i8 . . . .    . . .")
COMPARE = "\n".join(f"{row} " + " b" * 11 for row in "u1 i1 i4 i8 f2 f4 f8 b".split())

TABLES = {
    "add multiply power floor_divide maximum minimum fmax fmin copysign ldexp": ADD,
    "subtract mod": SUBTRACT, "true_divide": DIVIDE, "bitwise_and bitwise_or bitwise_xor": BITS,
    "left_shift right_shift lcm gcd": DIVISORS,
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor": COMPARE,
}
SCALARS = {"int": 2, "float": 1.5, "bool": True}
OPERATORS = [(name, table) for names, table in TABLES.items() for name in names.split()]


def expected(table):
    """{(row, column): dtype code} of a table."""
    return {(line.split()[0], column): code for line in table.split("\n") if line
            for column, code in zip(COLUMNS.split(), line.split()[1:], strict=True)}


@pytest.mark.parametrize("name, table", OPERATORS, ids=[name for name, _ in OPERATORS])
def test_promotion(name, table):
    """Shape and dtype are known at once; the computed values have that dtype."""
    function = getattr(np, name)
    for (row, column), code in expected(table).items():
        a = np.ones((2,), dtype=DTYPES[row])
        b = SCALARS[column] if column in SCALARS else np.ones((2,), dtype=DTYPES[column])
        for x, y in ((a, b), (b, a)):
            if code == ".":
                with pytest.raises(TypeError):
                    function(x, y)
            else:
                result = function(x, y)
                assert result.dtype == DTYPES[code], f"{name}({row}, {column}) is {result.dtype}"
                assert result.asnumpy().dtype == DTYPES[code]


UNARY = {
    "exp log sqrt cbrt sin arctan sinh degrees rint fix": "f2 f2 f4 f4 f2 f4 f8 f2",
    "floor ceil trunc": "u1 i1 i4 i8 f2 f4 f8 f2", "abs square positive": "u1 i1 i4 i8 f2 f4 f8 b",
    "negative sign reciprocal": "u1 i1 i4 i8 f2 f4 f8 .", "invert": "u1 i1 i4 i8 . . . b",
    "logical_not isnan isinf isfinite isposinf": "b b b b b b b b",
}


@pytest.mark.parametrize("name, codes", [(n, c) for names, c in UNARY.items() for n in names.split()])
def test_unary_dtypes(name, codes):
    """8-bit integers and bools give float16, other integers the default float, where the result is no integer."""
    for source, code in zip("u1 i1 i4 i8 f2 f4 f8 b".split(), codes.split(), strict=True):
        x = np.ones((2,), dtype=DTYPES[source])
        if code == ".":
            with pytest.raises(TypeError):
                getattr(np, name)(x)
        else:
            assert getattr(np, name)(x).asnumpy().dtype == DTYPES[code], f"{name}({source})"


def test_default_dtype_of_numpy():
    """set_np(dtype=True): what is float32 by default becomes float64."""
    x = np.ones((2,), dtype="int32")
    assert (x / 2).dtype == "float32"
    util.set_np(dtype=True)
    try:
        assert util.is_np_default_dtype()
        assert (x / 2).dtype == np.exp(x).dtype == np.ones(2).dtype == np.array([1]).dtype == "float64"
        assert np.arange(3).dtype == "int64"
        assert np.array(numpy.array([1, 2])).dtype == "int64"
    finally:
        util.set_np()
    assert (x / 2).dtype == np.exp(x).dtype == np.ones(2).dtype == np.arange(3).dtype == "float32"


def test_scalars_keep_their_type():
    """1, 1.0 and True hash alike, but are different operands."""
    x = np.array([1, 2], dtype="bool")
    assert [(x * s).dtype.name for s in (1, 1.0, True, 1)] == ["int64", "float64", "int64", "int64"]
    y = np.array([1, 2], dtype="int32")
    assert [(y + s).dtype.name for s in (numpy.float64(1), numpy.int8(1), numpy.float32(1))] == \
        ["float64", "int32", "float64"]


def test_scalars_wrap_around():
    """A Python integer that does not fit the array's dtype wraps around, as array elements do."""
    x = np.array([1, 2], dtype="uint8")
    assert (x + 300).asnumpy().tolist() == [45, 46] and (x - (-1)).asnumpy().tolist() == [2, 3]
    assert (x > -1).asnumpy().all() and not (x > 300).asnumpy().any()


def test_integer_powers():
    """Integers to negative powers round towards zero; powers of scalars keep integer dtypes."""
    x = np.array([-2, -1, 0, 1, 2], dtype="int32")
    assert (x ** 2).asnumpy().tolist() == [4, 1, 0, 1, 4]
    assert (x ** -1).asnumpy().tolist() == [0, -1, 0, 1, 0]
    assert np.power(x, np.array([-2, -2, 1, -3, 3], dtype="int32")).asnumpy().tolist() == [0, 1, 0, 1, 8]
    assert (2 ** np.array([0, 3], dtype="int64")).asnumpy().tolist() == [1, 8]


def test_only_numbers_give_numpy_scalars():
    """Functions of numbers alone are NumPy's."""
    assert isinstance(np.add(1, 2), numpy.int64) and np.add(1, 2) == 3
    assert isinstance(np.exp(1), numpy.float64) and isinstance(np.hypot(numpy.float32(3), 4), numpy.floating)
    assert np.clip(5, 0, 3) == 3


def test_options_of_ufuncs():
    """where=, casting=, ... may only have their ordinary values."""
    x = np.ones(2)
    np.exp(x, where=True, casting="same_kind", order="K", dtype=None, subok=True)
    for options in ({"where": False}, {"order": "C"}, {"dtype": "int8"}, {"casting": "safe"}, {"subok": False}):
        with pytest.raises(NotImplementedError):
            np.add(x, x, **options)
    for options in ({"casting": "mxnet"}, {"dtype": "abc"}, {"unknown": 1}):
        with pytest.raises(TypeError):
            np.add(x, x, **options)


def test_results_keep_their_kind():
    """out= and += refuse results of another kind of number."""
    x, y = np.ones(2), np.ones(2, dtype="int32")
    z = np.zeros(2, dtype="float64")
    assert np.add(x, 1, out=z) is z and z.asnumpy().tolist() == [2, 2]
    with pytest.raises(TypeError):
        np.add(x, 1, out=y)
    with pytest.raises(TypeError):
        np.isnan(x, out=x)
    with pytest.raises(TypeError):
        y += 1.5
    with pytest.raises(TypeError):
        y /= 2
    y //= 2
    assert y.asnumpy().tolist() == [0, 0]
