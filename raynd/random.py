"""Seeding, and the random functions of ``mx.random``."""
from __future__ import annotations

from .device import Device
from .dispatch import draws
from .errors import ArgumentError


def seed(seed_state, device="all", ctx=None):
    """Seed the generators of all devices, or of one. Equal seeds give equal numbers in every mode."""
    device = ctx if ctx is not None else device
    try:
        value = int(seed_state.__index__())
    except AttributeError:
        raise ArgumentError(f"the seed must be an integer, not {seed_state!r}") from None
    if device == "all":
        draws.reset(value)
    elif isinstance(device, Device):
        draws.reset(value, device)
    else:
        raise ArgumentError(f"device must be 'all' or a Device, not {device!r}")
