"""The worker core by itself: commands in, table and reports out; no Ray, no driver."""
from __future__ import annotations

import numpy as onp
import pytest

from raynd import protocol
from raynd.protocol import Failure
from raynd.spec import encode_spec, spec
from raynd.worker import providers
from raynd.worker.backend import Backend
from raynd.worker.worker import Hooks, Worker


class Post(Hooks):
    """Peers by reference."""
    mail: dict = {}

    def __init__(self, name):
        self.name = name

    def pack(self, array):
        return array.copy()

    def unpack(self, payload, shape, dtype):
        return onp.frombuffer(payload, dtype).reshape(shape)

    def post(self, peers, tag, value):
        for peer in peers:
            self.mail[tag, self.name, peer] = value if isinstance(value, Failure) else value.copy()

    def take(self, tag, peer):
        return self.mail.pop((tag, peer, self.name))


def worker(name="cpu(0)"):
    return Worker(name, Backend(), Post(name))


def put(number, values):
    values = onp.asarray(values, "float32")
    return protocol.PUT, number, values.tobytes(), values.shape, "float32"


def prepare(code, name, *shapes, out=None, attrs=None, into=None):
    specs = tuple(encode_spec(spec(s, "float32")) if isinstance(s, tuple) else s for s in shapes)
    return protocol.PREPARE, code, name, specs, (encode_spec(spec(out or shapes[0], "float32")),), attrs or {}, into


def fetch(w, *numbers):
    w.execute([(protocol.FETCH, n, n) for n in numbers])
    failures, replies = w.report()
    return [value if ok else value.message for _, ok, value in replies]


def test_operators_views_scalars_and_frees():
    w = worker()
    w.execute([put(1, [1, 2, 3, 4, 5, 6]), prepare(7, "add", (2,), "int"), (7, ((1, 2, (2,)), (10,)), 2), 1])
    assert [v.tolist() for v in fetch(w, 2)] == [[13, 14]]
    assert list(w.table) == [2] and w.poisoned == 0


def test_a_call_that_cannot_be_bound_says_why_wherever_it_is_used(monkeypatch):
    monkeypatch.setenv("RAYND_KERNELS", "torch")
    monkeypatch.setitem(providers._state, "available", False)
    w = worker()
    attrs = {"axis": -1, "temperature": None, "use_length": False, "dtype": None}
    program = "double softmax", 3, (), ((7, (0,), 1, ()), (7, (1,), 2, (1,))), (2,), 1, ()
    w.execute([put(1, [1, 2]), prepare(7, "softmax", (2,), attrs=attrs), (7, (1,), 2), (protocol.PROGRAM, 8, program),
               (8, (1,), (3,))])
    for message in fetch(w, 2, 3):
        assert "PyTorch is not installed" in message


def test_a_failure_poisons_what_is_computed_from_it_and_nothing_else():
    w = worker()
    w.execute([put(1, [1, 2]), prepare(7, "add", (2,), (2,)), (99, (1, 1), 2), (7, (1, 2), 3), (7, (1, 1), 4)])
    failures, _ = w.report()
    assert [f.key for f in failures] == [("cpu(0)", 0, 2)]
    bad, bad_too, good = fetch(w, 2, 3, 4)
    assert "99" in bad and bad == bad_too and good.tolist() == [2, 4]
    w.execute([2, 3])
    assert w.poisoned == 0


def test_a_poisoned_write_keeps_the_last_good_value_and_assign_passes_the_poison_on():
    w = worker()
    w.execute([put(1, [1, 2]), put(3, [5, 6]), (99, (1,), 2), prepare(7, "add", (2,), (2,), into=("float32",)),
               (7, (1, 2), (1,)), (protocol.ASSIGN, 2, 3)])
    w.report()
    kept, poisoned = fetch(w, 1, 3)
    assert kept.tolist() == [1, 2] and isinstance(poisoned, str)


def test_aliases_share_until_a_write():
    w = worker()
    w.execute([put(1, [1, 2, 3]), prepare(8, "copy", (3,)), (8, (1,), 2), (protocol.ALIAS, 2, 3)])
    assert onp.shares_memory(w.table[2], w.table[3])
    w.writable(2)[0] = 9
    assert [v.tolist() for v in fetch(w, 2, 3)] == [[9, 2, 3], [1, 2, 3]]


def test_a_collective_sums_in_the_members_order_and_poison_reaches_every_member():
    a, b = worker("cpu(0)"), worker("cpu(1)")
    members = ["cpu(0)", "cpu(1)"]
    for w, peer, values in ((a, "cpu(1)", [1, 2]), (b, "cpu(0)", [10, 20])):
        w.execute([put(1, values), put(2, [[5]]), (protocol.CONTRIBUTE, 77, [1, 2], [peer])])
    for w in (a, b):
        w.execute([(protocol.COLLECT, 77, [1, 2], [(2,), (1, 1)], members)])
        first, second = fetch(w, 1, 2)
        assert first.tolist() == [11, 22] and second.tolist() == [[10]]
    a.execute([(99, (1,), 1)])
    for w, peer in ((a, "cpu(1)"), (b, "cpu(0)")):
        w.execute([(protocol.CONTRIBUTE, 78, [1], [peer])])
    for w in (a, b):
        w.execute([(protocol.COLLECT, 78, [1], [(2,)], members)])
        assert isinstance(fetch(w, 1)[0], str)


def test_batches_survive_pickling():
    batch = [put(1, [1.0]), 5, (7, ((1, 0, (1,)), (2.5,), (None,)), (3, 4))]
    assert protocol.decode(protocol.encode(batch)) == batch
    failure = Failure.of(("cpu(0)", 3, 1), "add", ValueError("no"))
    again = protocol.decode(protocol.encode(failure))
    assert again.key == failure.key and again.cause is ValueError and again.message == "no"


def test_an_error_class_that_cannot_travel_is_replaced_by_its_base():
    class Local(IndexError):
        pass

    failure = Failure.of(("cpu(0)", 0, 0), "op", Local("gone"))
    assert failure.cause is IndexError and "gone" in failure.message


@pytest.mark.parametrize("shape", [(3,), (0, 2), ()])
def test_put_and_fetch_keep_shapes(shape):
    w = worker()
    w.execute([put(1, onp.zeros(shape))])
    assert fetch(w, 1)[0].shape == shape
