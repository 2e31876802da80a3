"""Starting, describing and stopping the runtime: ``mx.init(...)``, ``mx.devices()``, ``mx.shutdown()``."""
from __future__ import annotations

import types
from dataclasses import dataclass

from . import executors
from .device import Device
from .engine import engine
from .errors import ArgumentError


def start(mode=None, address=None, cpu_devices=None, simulate_gpus=None):
    """Start the runtime with chosen settings; what is None comes from the environment (see the README).

    ``mode``: 'ray' or 'local'. ``address``: of a running Ray cluster, or 'auto'. ``cpu_devices``: how many cpu(i) a
    node has. ``simulate_gpus``: how many gpu(i) are played by the CPU. Raises if the runtime already runs.
    """
    if mode not in (None, "ray", "local"):
        raise ArgumentError(f"mode must be 'ray' or 'local', not {mode!r}")
    for name, value, low in (("cpu_devices", cpu_devices, 1), ("simulate_gpus", simulate_gpus, 0)):
        if value is not None and (not isinstance(value, int) or value < low):
            raise ArgumentError(f"{name} must be an integer of at least {low}, not {value!r}")
    if mode == "local" and address is not None:
        raise ArgumentError("address is for mode='ray'; local mode runs in this process")
    engine.start(mode=mode, address=address, cpu_devices=cpu_devices, simulate_gpus=simulate_gpus)


init_runtime = start
start.__qualname__ = "init"          # users call it as mx.init(...), and so do errors about its arguments


def shutdown():
    """Stop all devices. Arrays made before are gone (using one raises); the next use starts the runtime anew with the
    settings of the environment."""
    executors.choose()
    engine.shutdown()


@dataclass
class DeviceInfo:
    """One line of the device map. ``memory`` is (free, total) bytes, None where the device has not started."""
    device: Device
    node: str
    address: str
    physical_id: object
    pid: int | None
    memory: tuple | None
    simulated: bool


def devices() -> list[DeviceInfo]:
    """The map of all devices: a started one shows its process and memory."""
    executor = engine.ensure()
    result = []
    for kind in ("cpu", "gpu"):
        for index in range(executor.count(kind)):
            device = Device(kind, index)
            info = executor.describe(device)
            started = (kind, index) in engine.queues
            result.append(DeviceInfo(device, info.get("node"), info.get("address"), info.get("physical_id"),
                                     info.get("pid") if started else None,
                                     executor.memory_info(device) if started else None, bool(info.get("simulated"))))
    return result


def num_gpus() -> int:
    """How many gpu(i) there are, real and simulated, over all nodes."""
    return engine.ensure().count("gpu")


class _CallableModule(types.ModuleType):
    def __call__(self, *args, **kwargs):
        return start(*args, **kwargs)


def callable_module(module):
    """``module`` as it is, but calling it starts the runtime: ``mx.init`` is both MXNet's initializers and this."""
    module.__class__ = _CallableModule
    return module
