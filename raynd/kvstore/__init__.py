"""Key-value stores: sums of arrays over devices (``mx.kv``, ``mx.kvstore``)."""
from __future__ import annotations

from .base import KVStoreBase, TestStore
from .kvstore import KVStore, create

__all__ = ["KVStore", "KVStoreBase", "TestStore", "create"]
