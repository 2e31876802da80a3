"""The table that ``Block.summary`` prints."""
from __future__ import annotations

from ..dispatch import Proxy
from ..errors import MXNetError


def _shapes(value):
    """Nested shapes of nested arrays."""
    if isinstance(value, Proxy):
        return value.shape
    if isinstance(value, (list, tuple)):
        return [_shapes(v) for v in value]
    return value


def _text(value):
    shapes = _shapes(value)
    if isinstance(shapes, list):
        return str(shapes[0]) if len(shapes) == 1 else str(shapes)[1:-1]
    return str(shapes)


def summarise(block, inputs):
    """Run ``block`` on ``inputs`` and print a line for each block with its output's shape and its number of parameters,
    then totals. A hybridized block raises an AssertionError."""
    from .nn.containers import HybridSequential, Sequential
    rows, seen, handles = [], set(), []

    def watch(child):
        assert not getattr(child, "_active", False), (
            f'"{type(child).__name__}" must not be hybridized to print summary.')
        if not isinstance(child, (Sequential, HybridSequential)):
            handles.append(child.register_forward_hook(note))

    def note(child, _, outputs):
        count = trainable = shared = 0
        for parameter in child.params.values():
            if parameter.shape is None or parameter._data is None:
                raise MXNetError(f"{parameter!r} must be initialized to print a summary")
            size = parameter.list_data()[0].size
            count += size
            trainable += size if parameter.grad_req != "null" else 0
            shared += size if parameter in seen else 0
            seen.add(parameter)
        rows.append((f"{type(child).__name__}-{len(rows) + 1}", _text(outputs), count, trainable, shared))

    try:
        block.apply(watch)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    line = "{:>20}  {:>42} {:>15}"
    print("-" * 80)
    print(line.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    print(line.format("Input", _text(list(inputs)), 0))
    for name, shape, count, _, _ in rows:
        print(line.format(name, shape, count))
    total, trainable, shared = (sum(r[i] for r in rows) for i in (2, 3, 4))
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {total}")
    print(f"   Trainable params: {trainable}")
    print(f"   Non-trainable params: {total - trainable}")
    print(f"Shared params in forward computation graph: {shared}")
    print(f"Unique parameters in model: {total - shared}")
    print("-" * 80)
