"""Arrays to files and back: NumPy's formats, MXNet's binary format (against files made by hand), damaged files."""
from __future__ import annotations

import io
import struct
import zipfile

import numpy
import pytest

import raynd as mx
from raynd import np
from raynd.ndarray.serialization import load, save, savez

DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "bfloat16"]
SHAPES = [(2, 3), (), (0,), (4, 0, 5), (1,)]


def example(shape, dtype):
    return np.array(numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape), dtype="float32").astype(dtype)


def check_same(a, b):
    assert a.shape == b.shape and numpy.dtype(a.dtype) == numpy.dtype(b.dtype)
    numpy.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_npy_and_npz(tmp_path, dtype):
    for shape in SHAPES:
        x = example(shape, dtype)
        save(str(tmp_path / "a.npy"), x)
        check_same(load(str(tmp_path / "a.npy")), x)
        savez(tmp_path / "b", x, x, name=x, file=x, **{"a.b/c": x})
        back = load(str(tmp_path / "b"))
        assert sorted(back) == ["a.b/c", "arr_0", "arr_1", "file", "name"]
        for y in back.values():
            check_same(y, x)
        if dtype != "bfloat16":
            numpy.testing.assert_array_equal(numpy.load(tmp_path / "a.npy"), x.asnumpy())
            numpy.testing.assert_array_equal(numpy.load(tmp_path / "b")["name"], x.asnumpy())


def test_arrays_of_numpy(tmp_path):
    values = numpy.arange(20.0).reshape(2, 10).T
    numpy.save(tmp_path / "f.npy", values)
    numpy.savez_compressed(tmp_path / "c.npz", a=values, big=values.astype(">f8"))
    numpy.testing.assert_array_equal(load(str(tmp_path / "f.npy")).asnumpy(), values)
    for x in load(str(tmp_path / "c.npz")).values():
        numpy.testing.assert_array_equal(x.asnumpy(), values)
    savez(str(tmp_path / "empty.npz"))
    assert load(str(tmp_path / "empty.npz")) == {}
    stream = io.BytesIO()
    save(stream, np.ones(3))
    stream.seek(0)
    assert load(stream).shape == (3,)


def test_any_device_to_the_first_cpu(tmp_path):
    x = np.arange(4, device=mx.cpu(1))
    savez(str(tmp_path / "x.npz"), x=x)
    assert load(str(tmp_path / "x.npz"))["x"].device == mx.cpu(0)
    with mx.cpu(1):
        assert load(str(tmp_path / "x.npz"))["x"].device == mx.cpu(0)


@pytest.mark.parametrize("legacy_mode", [False, True])
def test_binary_format(tmp_path, legacy_mode):
    path = tmp_path / "x.params"
    file = str(path)
    arrays = [example((2, 3), d).as_nd_ndarray() for d in DTYPES]
    if legacy_mode:
        mx.util.reset_np()
    try:
        mx.nd.save(file, arrays)
        version = struct.unpack("<I", path.read_bytes()[24:28])[0]
        assert version == (0xF993FAC9 if legacy_mode else 0xF993FACA)
        for a, b in zip(arrays, mx.nd.load(file), strict=True):
            check_same(a, b)
            assert type(b) is mx.nd.NDArray
        mx.nd.save(file, {"a b": arrays[0], "é": arrays[4]})
        back = mx.nd.load(file)
        assert list(back) == ["a b", "é"]
        check_same(back["é"], arrays[4])
        mx.nd.save(file, arrays[0])
        single = mx.nd.load(file)
        assert isinstance(single, list) and len(single) == 1
        check_same(mx.nd.load_frombuffer(path.read_bytes())[0], arrays[0])
    finally:
        mx.util.set_np()
    assert load(file).shape == (2, 3)


def by_hand(version, *, sparse=b"", shape, flag=0, values=b"", aux_head=b"", stype=0):
    """The bytes of a file with one array."""
    head = struct.pack("<QQQ", 0x112, 0, 1)
    dims = struct.pack(f"<i{len(shape)}q", len(shape), *shape)
    if version is None:
        array = struct.pack(f"<I{len(shape)}I", len(shape), *shape)
    elif version == 1:
        array = struct.pack("<I", 0xF993FAC8) + dims
    else:
        array = struct.pack("<Ii", 0xF993FAC9, stype) + sparse + dims
    return head + array + struct.pack("<iii", 2, 1, flag) + aux_head + values + struct.pack("<Q", 0)


def test_older_and_sparse_files():
    values = numpy.arange(6, dtype="float32")
    for version in (None, 1, 2):
        x, = mx.nd.load_frombuffer(by_hand(version, shape=(2, 3), values=values.tobytes()))
        numpy.testing.assert_array_equal(x.asnumpy(), values.reshape(2, 3))
        assert x.context == mx.cpu(0)                 # it was saved from gpu(1)
    rows = numpy.array([0, 2], "int64")
    shape = struct.pack("<iq", 1, 2)
    x, = mx.nd.load_frombuffer(by_hand(2, stype=1, sparse=struct.pack("<i2q", 2, 0, 2), shape=(3, 2),
                                       aux_head=struct.pack("<i", 6) + shape,
                                       values=values[:4].tobytes() + rows.tobytes()))
    numpy.testing.assert_array_equal(x.asnumpy(), [[0, 1], [0, 0], [2, 3]])
    starts, columns = numpy.array([0, 2, 3], "int64"), numpy.array([0, 2, 1], "int64")
    heads = struct.pack("<iiqiiq", 6, 1, 3, 6, 1, 3)
    x, = mx.nd.load_frombuffer(by_hand(2, stype=2, sparse=struct.pack("<iq", 1, 0), shape=(2, 3), aux_head=heads,
                                       values=values[1:4].tobytes() + starts.tobytes() + columns.tobytes()))
    numpy.testing.assert_array_equal(x.asnumpy(), [[1, 0, 2], [0, 3, 0]])


def test_sparse_arrays_of_npz(tmp_path):
    """Their parts as MXNet writes them; its 'format' has a header that NumPy cannot read."""
    path = tmp_path / "sparse.npz"
    parts = {"a/data": numpy.array([1.0, 2.0], "float32"), "a/indptr": numpy.array([0, 1, 2]),
             "a/indices": numpy.array([1, 0]), "a/shape": numpy.array([2, 2]), "b/data": numpy.ones((1, 2), "float32"),
             "b/indices": numpy.array([2]), "b/shape": numpy.array([3, 2]), "c": numpy.arange(3)}
    numpy.savez(path, **parts)
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("a", "b"):
            archive.writestr(f"{name}/format.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|s3{'descr': '<i8'")
    loaded = mx.npx.load(str(path))
    assert {k: v.tolist() for k, v in loaded.items()} == {
        "a": [[0, 1], [2, 0]], "b": [[0, 0], [0, 0], [1, 1]], "c": [0, 1, 2]}


def test_damaged_files_and_bad_arguments(tmp_path):
    file = str(tmp_path / "x")
    mx.nd.save(file, {"a": mx.nd.ones((3,)), "b": mx.nd.zeros((2, 2))})
    with open(file, "rb") as f:
        data = f.read()
    for cut in (0, 4, 20, 30, len(data) - 10, len(data) - 1):
        with pytest.raises(mx.MXNetError):
            mx.nd.load_frombuffer(data[:cut])
    with pytest.raises(mx.MXNetError):
        mx.nd.load_frombuffer(b"PK\x03\x04 not a zip archive")
    with pytest.raises(mx.MXNetError):
        mx.nd.load_frombuffer(b"\x93NUMPY nor an array")
    with pytest.raises(OSError):
        load(str(tmp_path / "missing"))
    for bad in (3, [3], {"a": 3}, {1: mx.nd.ones(1)}, [np.ones(2)], {"a": np.ones(2)}):
        with pytest.raises((TypeError, ValueError)):
            mx.nd.save(file, bad)
    with pytest.raises(ValueError):
        save(file, [np.ones(2)])
    with pytest.raises(TypeError):
        savez(file, numpy.ones(2))
    with pytest.raises(ValueError):
        savez(file, np.ones(2), arr_0=np.ones(2))
    with pytest.raises(TypeError):
        mx.nd.load(3)
    with pytest.raises(TypeError):
        mx.nd.load_frombuffer(3)
    assert mx.nd.load(file)["a"].shape == (3,)            # refused before the file was touched


def test_an_error_value_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError):
        save(str(tmp_path / "x.npy"), np.random.normal(0, -1))


def test_pickle():
    import copy
    import pickle
    for x in (np.arange(6, device=mx.cpu(1)).reshape(2, 3), mx.nd.array([1, 2], dtype="int32")):
        y = pickle.loads(pickle.dumps(x))
        check_same(x, y)
        assert type(y) is type(x) and y.device == x.device
        z = copy.deepcopy(x)
        z[:] = 0
        assert x.asnumpy().any()


def test_states_of_mxnet_pickles():
    """MXNet pickles an NDArray as its class, None, and a state with the array in the binary format."""
    state = {"handle": bytearray(struct.pack("<Iiiqiii", 0xF993FAC9, 0, 1, 1, 2, 0, 0) + struct.pack("<f", 2.5))}
    x = mx.nd.NDArray(None)
    x.__setstate__(state)
    assert x.asnumpy().tolist() == [2.5] and x.context == mx.cpu(0)
    y = mx.nd.zeros((3,))
    y.__setstate__(mx.nd.array([[1, 2]], dtype="int8").__getstate__())
    check_same(y, mx.nd.array([[1, 2]], dtype="int8"))


def test_zero_sizes_between_the_modes(tmp_path):
    file = str(tmp_path / "x")
    mx.nd.save(file, [mx.nd.zeros((0, 2)), mx.nd.ones((2,))])
    with mx.util.np_shape(False):
        with pytest.raises(mx.MXNetError):
            mx.nd.load(file)
        mx.nd.save(file, [mx.nd.ones((2,))])
        with pytest.raises(ValueError):
            load(file)                                   # makes np arrays, so it needs their mode
    assert mx.nd.load(file)[0].shape == (2,)             # other shapes are read in both modes
