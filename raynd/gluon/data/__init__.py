"""Datasets, samplers and loaders (``mx.gluon.data``)."""
from __future__ import annotations

import importlib

from . import batchify
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, SimpleDataset
from .sampler import BatchSampler, FilterSampler, IntervalSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "BatchSampler", "DataLoader", "Dataset", "FilterSampler", "IntervalSampler", "RandomSampler",
           "Sampler", "SequentialSampler", "SimpleDataset", "batchify"]


def __getattr__(name):
    if name == "vision":
        try:
            return importlib.import_module(f"{__name__}.vision")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.vision":
                raise
    raise AttributeError(f"module 'raynd.gluon.data' has no attribute {name!r}")
