"""Splitting batches, clipping gradients, downloading."""
from __future__ import annotations

import functools
import hashlib
import http.server
import threading

import numpy as onp
import pytest

import raynd as mx
from raynd import autograd, gluon
from raynd.gluon import utils

DEVS = [mx.cpu(i) for i in range(3)]


@pytest.mark.parametrize("rows, sizes", [(9, [3, 3, 3]), (7, [3, 2, 2]), (2, [1, 1, 0]), (0, [0, 0, 0])])
def test_split(each_mode, rows, sizes):
    host = onp.arange(rows * 2, dtype="float32").reshape(rows, 2)
    for data in (mx.np.array(host), mx.np.array(host) + 0, host, mx.nd.array(host)):
        parts = utils.split_and_load(data, DEVS, even_split=rows % 3 == 0)
        assert [p.shape for p in parts] == [(n, 2) for n in sizes] and [p.device for p in parts] == DEVS
        assert (onp.concatenate([p.asnumpy() for p in parts]) == host).all()
    assert [p.shape[0] for p in utils.split_data(mx.np.array(host), 3, even_split=False)] == sizes


def test_split_other_axis_and_errors():
    data = mx.np.array(onp.arange(12).reshape(2, 6))
    parts = utils.split_and_load(data, DEVS, batch_axis=1)
    assert [p.shape for p in parts] == [(2, 2)] * 3 and parts[2].asnumpy().tolist() == [[4, 5], [10, 11]]
    with pytest.raises(ValueError, match="evenly split"):
        utils.split_data(data, 4, batch_axis=1)
    with pytest.raises(ValueError, match="batch_axis"):
        utils.split_data(data, 2, batch_axis=2)
    with pytest.raises(ValueError):
        utils.split_data(data, 0)
    with pytest.raises(ValueError, match="device"):
        utils.split_and_load(data, [])
    assert utils.split_and_load(data, [data.device])[0] is data


def test_parts_go_straight_to_their_devices():
    """A host batch is sent once: each byte to one device."""
    mx.waitall()
    data = mx.np.array(onp.ones((300, 100), dtype="float32"))
    mx.engine.stats(reset=True)
    parts = utils.split_and_load(data, DEVS)
    for p in parts:
        p.wait_to_read()
    sent = mx.engine.stats()
    assert [sent[str(d)]["bytes"] for d in DEVS] == [40000] * 3
    assert sum(s["copies"] for s in sent.values()) == 0


def test_split_is_differentiable():
    x = mx.np.arange(6).reshape(6, 1)
    x.attach_grad()
    with autograd.record():
        total = sum((p * (i + 1)).sum().as_in_ctx(mx.cpu(0)) for i, p in enumerate(utils.split_and_load(x, DEVS)))
    total.backward()
    assert x.grad.asnumpy().reshape(-1).tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("check", [True, False])
def test_clip_global_norm(check):
    arrays = [mx.np.full((2, 2), 3.0, device=mx.cpu(0)), mx.np.full((2,), 4.0, device=mx.cpu(1))]
    norm = (4 * 9 + 2 * 16) ** 0.5
    before = utils.clip_global_norm(arrays, 100, check_isfinite=check)
    assert float(before) == pytest.approx(norm) and arrays[0].asnumpy()[0, 0] == 3
    utils.clip_global_norm(arrays, 2.0, check_isfinite=check)
    assert sum((x.asnumpy() ** 2).sum() for x in arrays) == pytest.approx(4, rel=1e-5)
    assert isinstance(before, float) if check else before.shape == (1,)


def test_clip_says_what_is_not_finite():
    with pytest.warns(UserWarning, match="nan or inf"):
        utils.clip_global_norm([mx.np.array([1.0, float("inf")])], 1)
    with pytest.raises(ValueError):
        utils.clip_global_norm([], 1)


@pytest.fixture
def server(tmp_path):
    """A web server on this machine that fails the first request for each file named flaky."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "file.bin").write_bytes(b"contents" * 1000)
    (folder / "flaky.bin").write_bytes(b"late")
    seen = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            if "flaky" in self.path and seen.count(self.path) == 1:
                self.send_error(503)
            else:
                super().do_GET()

        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", seen, folder
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_download(server, tmp_path):
    address, seen, folder = server
    sha1 = hashlib.sha1(b"contents" * 1000).hexdigest()
    path = utils.download(f"{address}/file.bin", path=str(tmp_path), sha1_hash=sha1)
    assert path == str(tmp_path / "file.bin") and utils.check_sha1(path, sha1)
    utils.download(f"{address}/file.bin", path=path)         # kept
    assert len(seen) == 1
    (tmp_path / "file.bin").write_bytes(b"damaged")
    utils.download(f"{address}/file.bin", path=path, sha1_hash=sha1)
    assert len(seen) == 2 and utils.check_sha1(path, sha1)
    with pytest.warns(UserWarning, match="retrying"):
        utils.download(f"{address}/flaky.bin", path=str(tmp_path / "new" / "name.bin"), retries=1)
    assert (tmp_path / "new" / "name.bin").read_bytes() == b"late"
    utils.download((folder / "file.bin").as_uri(), path=str(tmp_path / "copy.bin"))
    assert utils.check_sha1(tmp_path / "copy.bin", sha1)


def test_failed_download_leaves_nothing(server, tmp_path):
    address, _, _ = server
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(UserWarning, match="hash"):
        utils.download(f"{address}/file.bin", path=str(target), sha1_hash="0" * 40, retries=0)
    with pytest.raises(RuntimeError, match="404"):
        utils.download(f"{address}/missing.bin", path=str(target), retries=0)
    assert not list(target.iterdir())
    with pytest.raises(ValueError, match="retries"):
        utils.download(address, retries=-1)
    with pytest.raises(ValueError, match="path"):
        utils.download(address + "/")


def test_hook_handle():
    hooks, handle = {}, gluon.utils.HookHandle()
    handle.attach(hooks, print)
    with pytest.raises(RuntimeError, match="twice"):
        handle.attach(hooks, print)
    handle.detach()
    handle.detach()
    assert not hooks
