"""The errors users meet. Every one derives from :class:`MXNetError`, as in MXNet.

An error that also has a natural Python type (a bad shape is a ``ValueError``) is an instance of both, so code
written against MXNet or against NumPy catches it.
"""
from __future__ import annotations


class MXNetError(RuntimeError):
    """Base of every error that raynd raises on purpose.

    One that comes from a kernel also tells ``operator``, ``device``, ``where`` (the user's line) and
    ``remote_traceback``; these are None otherwise.
    """
    operator: object = None
    device: object = None
    where: str | None = None
    remote_traceback: str | None = None


class ShapeError(MXNetError, ValueError):
    """Shapes or values of arguments do not fit together."""


class ArgumentError(MXNetError, TypeError):
    """An argument has a type, or a name, that the function does not accept."""


class IndexOutOfBounds(MXNetError, IndexError):
    """An index or an axis lies outside the array."""


class DeviceError(MXNetError, ValueError):
    """A device does not exist, or arrays of different devices met in one operator."""


class DeviceLostError(MXNetError):
    """A device's actor has died. Attributes: ``device``, ``node``, ``pid``, ``last_command``, ``cause``."""
    seen = False                         # whether a wait has raised it

    def __init__(self, device, node="?", pid=None, last_command=None, cause="its connection closed"):
        self.device, self.node, self.pid = device, node, pid
        self.last_command, self.cause = last_command, cause
        last = f"; the last command sent was {last_command}" if last_command else ""
        super().__init__(f"{device} (node {node}, pid {pid}) is lost: {cause}{last}. "
                         "Arrays on it are gone; arrays on other devices are intact.")

    def __reduce__(self):
        return DeviceLostError, (self.device, self.node, self.pid, self.last_command, self.cause)


class ShutdownError(MXNetError):
    """The array's runtime was shut down (``mx.shutdown()``), so its contents are gone."""


class AuthenticationError(MXNetError, ConnectionError):
    """A peer of a command stream did not prove that it belongs to this run."""


class TraceError(MXNetError):
    """Something inside a hybridized block needs a value, so it cannot be recorded as a program."""


class FallbackWarning(UserWarning):
    """A hybridized block stays eager; the message says where and why."""


def inside_itself(device):
    """The error of a wait in a finalizer or signal handler that interrupted the very sending or reading it needs."""
    return MXNetError(f"a value on {device} was asked for in a finalizer (__del__) or signal handler that ran in the "
                      "middle of raynd's own work on that device; read it outside of these")


_DUAL: dict[type, type] = {}


def dual(cause_type: type) -> type:
    """The subclass of both :class:`MXNetError` and ``cause_type``, for an error that a kernel raised on a worker."""
    if issubclass(cause_type, MXNetError):
        return cause_type if cause_type.__init__ is RuntimeError.__init__ else MXNetError
    for base in (ZeroDivisionError, OverflowError, FloatingPointError, IndexError, KeyError, TypeError, ValueError,
                 NotImplementedError, MemoryError):
        if issubclass(cause_type, base):
            if base not in _DUAL:
                _DUAL[base] = type("MXNet" + base.__name__, (MXNetError, base),
                                   {"__doc__": f"An operator raised {base.__name__} on its device.",
                                    "__str__": RuntimeError.__str__})
            return _DUAL[base]
    return MXNetError
