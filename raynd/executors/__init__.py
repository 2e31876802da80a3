"""How workers are run: in this process (``local``) or as Ray actors (``ray``). An executor has

``count(kind)``, ``missing(kind, index, count)``   how many devices there are; the message when one is not there
``open(device, queue) -> link``                    start a device's worker
``describe(device)``, ``peer_lost(device)``, ``close()``, ``batch_limit``

and a link has ``submit(batch)``, ``poll(seconds)`` (wait for messages and process them), ``watch()`` (have the next
message processed in the background), ``reference(host, start, size)`` (the payload of a part of a staged host array),
``receive(payload, spec)`` (the NumPy array of a FETCH).
"""
from __future__ import annotations

from .. import config

_chosen: dict = {}


def choose(**options):
    """Remember what ``mx.init`` was asked for."""
    _chosen.clear()
    _chosen.update({k: v for k, v in options.items() if v is not None})


def default():
    """The executor of the chosen mode (``mx.init``, else the environment, else Ray)."""
    options = dict(_chosen)
    mode = options.pop("mode", None) or config.mode()
    if mode == "local":
        from .local import LocalExecutor
        options.pop("address", None)
        return LocalExecutor(**options)
    from .ray import RayExecutor
    return RayExecutor(**options)
