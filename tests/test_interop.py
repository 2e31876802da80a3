"""Exchange with NumPy and PyTorch: protocols, DLPack, memory, pickling and copies."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import raynd as mx

pytestmark = pytest.mark.usefixtures("each_mode")


@pytest.fixture
def local(each_mode):
    return each_mode == "local"


def test_numpy_functions_run_as_ours():
    x = mx.np.array([[1.0, 2], [3, 4]])
    for result in (
        np.exp(x),
        np.add(np.ones(2), x),
        np.concatenate([x, x]),
        np.mean(x),
        np.linalg.norm(x),
        np.dot(x, x),
    ):
        assert type(result) is type(x)
    np.testing.assert_allclose(
        np.linalg.svd(x, compute_uv=False), np.linalg.svd(x.asnumpy(), compute_uv=False), rtol=1e-6
    )


def test_array_protocol():
    x = mx.np.array([[1.0, 2], [3, 4]])
    assert np.asarray(x).dtype == "float32" and np.asarray(x, dtype="int8").tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError):
        np.asarray(x, copy=False)
    values = np.asarray(x)
    values[:] = 0
    assert x.sum().item() == 10


def test_dlpack_to_and_from_torch(local):
    torch = pytest.importorskip("torch")
    x = mx.np.array([[1.0, 2], [3, 4]])
    tensor = torch.from_dlpack(x)
    assert tensor.tolist() == [[1, 2], [3, 4]]
    back = mx.np.from_dlpack(tensor)
    assert type(back) is mx.np.ndarray and back.dtype == "float32"
    tensor[0, 0] = 9
    assert (x[0, 0].item() == 9) is local and (back[0, 0].item() == 9) is local
    assert mx.nd.from_dlpack(torch.arange(6).reshape(2, 3).T).asnumpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    row = torch.from_dlpack(mx.np.array([[1.0, 2], [3, 4]])[1])
    assert row.tolist() == [3, 4]


def test_dlpack_capsules():
    x = mx.np.array([1.0, 2])
    capsule = x.to_dlpack_for_read()
    assert mx.np.from_dlpack(capsule).asnumpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="consumed only once"):
        mx.np.from_dlpack(capsule)
    assert mx.nd.from_dlpack(mx.nd.to_dlpack_for_read(x)).asnumpy().tolist() == [1, 2]
    assert np.from_dlpack(x).tolist() == [1, 2]
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(TypeError):
        x.__dlpack__(stream="a")
    with pytest.raises(ValueError):
        x.__dlpack__(stream=0)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        mx.np.ones(2, dtype="bfloat16").__dlpack__()
    with pytest.raises(TypeError):
        mx.np.from_dlpack([1, 2])
    for shape in ((), (0, 3)):
        assert mx.np.from_dlpack(mx.np.ones(shape).to_dlpack_for_read()).shape == shape


def test_dlpack_for_write(local):
    x = mx.np.array([1.0, 2])
    if not local:
        with pytest.warns(RuntimeWarning, match="copy"):
            capsule = x.to_dlpack_for_write()
    else:
        capsule = x.to_dlpack_for_write()
    y = mx.np.from_dlpack(capsule)
    y += 1
    assert y.asnumpy().tolist() == [2, 3]


def test_writes_from_outside_do_not_change_what_a_tape_saved():
    torch = pytest.importorskip("torch")
    x = mx.np.array([1.0, 2])
    x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()
    torch.from_dlpack(x)[:] = 0
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4]


def test_from_numpy(local):
    a = np.array([[1, 2], [3, 4]], dtype="float32")
    m = mx.nd.from_numpy(a)
    assert type(m) is mx.nd.NDArray and m.dtype == np.float32
    with pytest.raises(ValueError):
        a[0, 0] = 5  # it may be the array's own memory
    m[1, 1] = 100
    assert m.asnumpy()[1, 1] == 100 and bool(a[1, 1] == 100) is local
    with pytest.raises(ValueError, match="c-contiguous"):
        mx.nd.from_numpy(np.ones((2, 3)).T)
    with pytest.raises(TypeError):
        mx.nd.from_numpy([1, 2])
    b = np.ones(3)
    c = mx.nd.from_numpy(b, zero_copy=False)
    b[0] = 7
    assert c.asnumpy().tolist() == [1, 1, 1]
    for value in (np.array(1.0), np.zeros((1, 0, 2))):
        assert mx.nd.from_numpy(value).shape == value.shape


def test_shares_memory(local):
    a = np.ones((3, 2), "float32")
    m = mx.nd.from_numpy(a).as_np_ndarray()
    assert mx.np.shares_memory(a, m) is local and np.may_share_memory(a[:2], m[1:]) is local
    assert not mx.np.shares_memory(m, m.copy()) and mx.np.shares_memory(m, m[1]) and not mx.np.shares_memory(m[0], m[1])


def test_pickle_copy_and_scalars():
    x = mx.np.array([[1.0, 2], [3, 4]])
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy([x])[0]):
        assert type(y) is type(x) and y.asnumpy().tolist() == x.asnumpy().tolist()
        y[:] = 0
        assert x.sum().item() == 10
    assert [float(v) for v in x[0]] == [1, 2] and int(x[1, 1]) == 4 and bool(x[0, 0]) and len(x) == 2
    assert range(5)[mx.np.array(2, dtype="int32")] == 2
    with pytest.raises(TypeError):
        float(x)
    with pytest.raises(ValueError):
        bool(x)


def test_array_namespace():
    x = mx.np.ones(2)
    assert x.__array_namespace__() is mx.np and x.__array_namespace__(api_version="2021.12") is mx.np
    for bad in ("2020.01", "x", 3):
        with pytest.raises(ValueError):
            x.__array_namespace__(api_version=bad)
