"""Deformable convolution layers."""
from __future__ import annotations

import numpy
import pytest

import raynd as mx
from raynd import autograd
from raynd.gluon import nn

DATA = numpy.random.default_rng(0).standard_normal((2, 4, 8, 9)).astype("float32")


@pytest.mark.parametrize("arguments", [{}, {"groups": 2, "num_deformable_group": 2, "padding": 1, "strides": 2},
                                       {"use_bias": False, "offset_use_bias": False, "dilation": (1, 2)}])
@pytest.mark.parametrize("layer", [nn.DeformableConvolution, nn.ModulatedDeformableConvolution])
def test_zero_offsets_make_an_ordinary_convolution(layer, arguments):
    """Offsets are zero at first, and the weights of taps 1."""
    x = mx.np.array(DATA)
    net = layer(6, kernel_size=(3, 2), **arguments)
    net.initialize(mx.init.Normal(1.0))
    y = net(x)
    ordinary = {k: v for k, v in net._kwargs_deformable_conv.items() if k != "num_deformable_group"}
    bias = () if net.deformable_conv_bias is None else (net.deformable_conv_bias.data(),)
    expected = mx.npx.convolution(x, net.deformable_conv_weight.data(), *bias, **ordinary)
    numpy.testing.assert_allclose(y.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-4)


def test_offsets_move_the_taps():
    """A constant offset of one row reads one row further down; beyond the image lie zeros."""
    net = nn.DeformableConvolution(4, kernel_size=1, use_bias=False)
    net.initialize()
    x = mx.np.array(DATA)
    net(x)
    net.deformable_conv_weight.set_data(mx.np.eye(4).reshape(4, 4, 1, 1))
    net.offset_bias.set_data(mx.np.array([1, 0], dtype="float32"))
    expected = numpy.zeros_like(DATA)
    expected[:, :, :-1] = DATA[:, :, 1:]
    numpy.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("layer", [nn.DeformableConvolution, nn.ModulatedDeformableConvolution])
def test_hybridized_gives_the_same(layer):
    """Values and gradients of a program are those of the eager layer, whose names are MXNet's."""
    x, found = mx.np.array(DATA), []
    net = layer(3, kernel_size=3, activation="relu", offset_weight_initializer=mx.init.Normal(0.3))
    net.initialize()
    assert sorted(net.collect_params()) == ["deformable_conv_bias", "deformable_conv_weight", "offset_bias",
                                            "offset_weight"]
    for hybrid in (False, True):
        net.hybridize(hybrid)
        with autograd.record():
            y = net(x)
            loss = (y * y).sum()
        loss.backward()
        found.append([y.asnumpy(), *[p.grad().asnumpy() for p in net.collect_params().values()]])
    for a, b in zip(*found):
        assert abs(a).sum() > 0
        numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_layouts_and_adj_are_refused():
    with pytest.raises(ValueError, match="NCHW"):
        nn.DeformableConvolution(3, layout="NHWC")
    with pytest.raises(ValueError, match="transposed"):
        nn.ModulatedDeformableConvolution(3, adj=(1, 1))
