"""Which kernels operators take, and PyTorch's as a provider of them."""
from __future__ import annotations

import contextlib
import types

import numpy
import pytest

import raynd as mx
from raynd import autograd, npx
from raynd.errors import MXNetError
from raynd.ops import registry
from raynd.spec import spec
from raynd.worker import providers

needs_torch = pytest.mark.skipif(not providers.torch_available(), reason="needs PyTorch")


def test_the_setting_chooses_the_provider(monkeypatch):
    monkeypatch.setenv("RAYND_KERNELS", "reference")
    assert providers.in_use() == "reference"
    assert providers.kernel(numpy, "softmax", [], [], {}) is None
    monkeypatch.setenv("RAYND_KERNELS", "auto")
    assert providers.in_use() == ("torch" if providers.torch_available() else "reference")
    monkeypatch.setitem(providers._state, "available", False)
    assert providers.in_use() == "reference"
    monkeypatch.setenv("RAYND_KERNELS", "torch")
    with pytest.raises(MXNetError, match="not installed"):
        providers.in_use()


@needs_torch
def test_every_operator_of_a_provider_exists_and_has_a_kernel():
    from raynd.worker import torch_bridge, torch_kernels  # noqa: F401
    registry.load_all()
    assert set(torch_bridge.FACTORIES) == set(providers.TORCH_OPERATORS) <= set(registry.REGISTRY)


def lstm(rng, **changes):
    """(inputs, attributes) of an LSTM of two layers in both directions."""
    attrs = {"mode": "lstm", "state_size": 4, "num_layers": 2, "bidirectional": True, "projection_size": None, "p": 0.0,
             "clip_min": None, "clip_max": None, "clip_nan": False, **changes}
    size = 2 * (16 * (3 + 4) + 16 * (8 + 4) + 2 * 2 * 16)
    shapes = (5, 2, 3), (size,), (4, 2, 4), (4, 2, 4)
    return [rng.standard_normal(s).astype("float32") * 0.3 for s in shapes] + [None], attrs


def calls(rng):
    """(operator, inputs, attributes) of one call of every kind of kernel."""
    def normal(*shape):
        return rng.standard_normal(shape).astype("float32")
    x, w = normal(2, 12, 7, 7), normal(4, 12, 3, 3)
    window = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "global_pool": False, "layout": None}
    back = {"stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "groups": 1, "channels_last": False}
    labels = numpy.array([[1, 2], [3, 3]])
    ctc = {"use_data_lengths": False, "use_label_lengths": False, "blank_label": "first"}
    return [
        ("convolution", [x, w, normal(4)], {"kernel": (3, 3), "pad": (1, 1)}),
        ("convolution_data_grad", [normal(2, 4, 7, 7), w], {"shape": x.shape, **back}),
        ("convolution_weight_grad", [normal(2, 4, 7, 7), x], {"shape": w.shape, **back}),
        ("convolution_grads", [normal(2, 4, 7, 7), x, w], {"bias": True, **back}),
        ("pooling", [x], {**window, "pool_type": "max", "pooling_convention": "valid", "count_include_pad": True}),
        ("batch_norm_fixed", [x, *[1 + abs(normal(12)) for _ in range(4)]],
         {"eps": 1e-3, "momentum": 0.9, "fix_gamma": False, "axis": 1}),
        ("layer_norm", [x, normal(7), normal(7)], {"axis": -1, "eps": 1e-5}),
        ("softmax", [x, None], {}),
        ("embedding_grad", [normal(5, 3), numpy.array([0, 2, 2, 1, 3])], {"rows": 4}),
        ("ctc_loss", [normal(6, 2, 4), labels, None, None], ctc),
        ("ctc_grad", [normal(2), normal(6, 2, 4), labels, None, None], ctc),
        ("rnn_predict", *lstm(rng)),
    ]


def bound(xp, name, inputs, attrs):
    """The provider's function for these inputs and the inferred outputs."""
    op = registry.get(name)
    attrs = {**op.defaults, **attrs}
    specs = [type(None) if x is None else spec(x.shape, x.dtype) for x in inputs]
    outs = op.infer(*[None if s is type(None) else s for s in specs], **attrs)
    return providers.kernel(xp, name, specs, list(outs) if isinstance(outs, tuple) else [outs], attrs)


def double_of_cupy():
    """NumPy under CuPy's name, with what the exchange by DLPack asks of it."""
    xp = types.ModuleType("cupy")
    xp.__getattr__ = lambda name: getattr(numpy, name)
    xp.ndarray, xp.from_dlpack = numpy.ndarray, numpy.from_dlpack
    xp.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=0))
    return xp


@needs_torch
@pytest.mark.parametrize("number", range(11))
def test_kernels_whose_arrays_are_exchanged_by_dlpack_agree_with_the_reference(monkeypatch, number):
    import torch
    monkeypatch.setenv("RAYND_KERNELS", "torch")
    name, inputs, attrs = calls(numpy.random.default_rng(3))[number]
    op = registry.get(name)
    here = op.kernel(numpy, *inputs, **{**op.defaults, **attrs})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda pointer: pointer)
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    xp = double_of_cupy()
    there = bound(xp, name, inputs, attrs)(*inputs)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (here, there)]):
        assert type(b) is numpy.ndarray and not any(numpy.shares_memory(b, x) for x in inputs if x is not None)
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@needs_torch
def test_without_cuda_a_gpu_takes_the_reference_kernels(monkeypatch):
    monkeypatch.setenv("RAYND_KERNELS", "torch")
    inputs, attrs = [numpy.zeros((2, 3), "float32"), None], {}
    assert bound(numpy, "softmax", inputs, attrs) and bound(double_of_cupy(), "softmax", inputs, attrs) is None


@needs_torch
@pytest.mark.parametrize("changes", [{"mode": "gru"}, {"projection_size": 2}, {"clip_min": -1.0, "clip_max": 1.0}])
def test_what_pytorch_has_no_fast_kernel_for_is_left_to_the_reference(monkeypatch, changes):
    monkeypatch.setenv("RAYND_KERNELS", "torch")
    inputs, attrs = lstm(numpy.random.default_rng(1))
    specs = [type(None) if x is None else spec(x.shape, x.dtype) for x in inputs]
    assert providers.kernel(numpy, "rnn_predict", specs, [], attrs)
    assert providers.kernel(numpy, "rnn_predict", specs, [], {**attrs, **changes}) is None


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_backward_of_a_recurrent_layer_reads_what_forward_computed(dropout):
    """Writing to results and inputs between forward and backward changes no gradient; backward can be repeated."""
    def gradients(meddle):
        mx.random.seed(4)
        inputs, attrs = lstm(numpy.random.default_rng(2), p=dropout)
        arrays = [mx.np.array(x) for x in inputs[:4]]
        for a in arrays:
            a.attach_grad()
        options = {k: attrs[k] for k in ("mode", "state_size", "num_layers", "bidirectional", "p")}
        with autograd.record():
            y, h, c = npx.rnn(*arrays, state_outputs=True, **options)
            total = (y * 2).sum() + (h * c).sum()
        if meddle:
            for a in (y, h, c, *arrays):
                a[:1] = 7
        total.backward(retain_graph=meddle)
        first = [a.grad.asnumpy() for a in arrays]
        if meddle:
            total.backward()
        return [first, [a.grad.asnumpy() for a in arrays]]
    plain = gradients(False)[0]
    assert all(abs(g).max() > 0 for g in plain)
    for repeated in gradients(True):
        for a, b in zip(plain, repeated):
            numpy.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
