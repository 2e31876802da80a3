"""Layers (``mx.gluon.nn``)."""
from __future__ import annotations

from ..block import Block, HybridBlock, SymbolBlock
from .activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, SiLU, Swish
from .basic import Dense, Dropout, Embedding, Flatten
from .containers import Concatenate, HybridConcatenate, HybridLambda, HybridSequential, Identity, Lambda, Sequential
from .convolution import (
                          Conv1D,
                          Conv1DTranspose,
                          Conv2D,
                          Conv2DTranspose,
                          Conv3D,
                          Conv3DTranspose,
                          DeformableConvolution,
                          ModulatedDeformableConvolution,
                          PixelShuffle1D,
                          PixelShuffle2D,
                          PixelShuffle3D,
                          ReflectionPad2D,
)
from .normalization import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm
from .pooling import (
                          AvgPool1D,
                          AvgPool2D,
                          AvgPool3D,
                          GlobalAvgPool1D,
                          GlobalAvgPool2D,
                          GlobalAvgPool3D,
                          GlobalMaxPool1D,
                          GlobalMaxPool2D,
                          GlobalMaxPool3D,
                          MaxPool1D,
                          MaxPool2D,
                          MaxPool3D,
)
from .synchronized import SyncBatchNorm

HybridConcurrent, Concurrent = HybridConcatenate, Concatenate      # their names in MXNet 1

__all__ = [
    "Activation", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNorm", "BatchNormReLU", "Block", "Concatenate",
    "Concurrent", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense",
    "DeformableConvolution", "Dropout", "ELU", "Embedding", "Flatten", "GELU", "GlobalAvgPool1D", "GlobalAvgPool2D",
    "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "GroupNorm", "HybridBlock",
    "HybridConcatenate", "HybridConcurrent", "HybridLambda", "HybridSequential", "Identity", "InstanceNorm",
    "Lambda", "LayerNorm", "LeakyReLU", "MaxPool1D", "MaxPool2D", "MaxPool3D", "ModulatedDeformableConvolution",
    "PReLU", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D", "ReflectionPad2D", "SELU", "Sequential", "SiLU",
    "Swish", "SymbolBlock", "SyncBatchNorm",
]
