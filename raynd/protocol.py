"""The wire: commands that a driver sends to a worker, and what comes back.

A batch is a list whose items are ids (free this array) or tuples. The first element of a tuple tells what it is:

``(code, ins, outs)``
    Run the prepared call ``code`` (an int). ``outs`` is one id, or a tuple of ids. Ids the call mutates are among
    ``ins``. An element of ``ins``, or of a written ``outs``, is a *wire argument*: an id; a triple ``(id, offset,
    shape)``, a contiguous range of that array; or a 1-tuple holding a Python scalar (or None).
``(PREPARE, code, name, in_specs, out_specs, attrs, into)``
    Bind operator ``name`` for these specs under ``code``. ``into``: dtypes of written targets, or None.
``(PROGRAM, code, description)``   Register a program (see ``program.ProgramSpec``) under ``code``.
``(DROP, codes)``                  Forget prepared calls and programs.
``(PUT, id, payload, shape, dtype)``   A host array.
``(ALIAS, source, id)``            ``id`` becomes the contents of wire argument ``source`` (copied only on a write).
``(ASSIGN, source, target)``       Overwrite ``target`` by ``source``, poison included (gradients).
``(SEND, source, peer, tag)`` / ``(RECEIVE, tag, id, peer)``    Copy between devices.
``(CONTRIBUTE, tag, sources, peers)`` / ``(COLLECT, tag, targets, shapes, members)``   The two halves of an all-reduce.
``(PEER, name, address)`` / ``(THREADS, n)`` / ``(EMPTY_CACHE,)``   Where a peer listens; threads of kernels; memory.
``(FETCH, token, source)`` / ``(WAIT, token, source or None)``    Replies when everything before has run.

What comes back is ``(batches_done, failures, replies)``: how many batches have completed since the last message, the
:class:`Failure` of each command that failed on its own (not for a poisoned input), and ``(token, ok, value)`` for
each FETCH and WAIT. A failure is a value: it stays in the table in place of the outputs, travels with copies, and
poisons whatever is computed from it.
"""
from __future__ import annotations

import pickle
import traceback
from functools import partial

PREPARE, PROGRAM, DROP = "prepare", "program", "drop"
PUT, ALIAS, ASSIGN, SEND, RECEIVE = "put", "alias", "assign", "send", "receive"
CONTRIBUTE, COLLECT, FETCH, WAIT = "contribute", "collect", "fetch", "wait"
PEER, THREADS, EMPTY_CACHE = "peer", "threads", "empty_cache"


class Failure:
    """The root cause of poisoned arrays: which command, on which device, failed how.

    ``key`` is (device name, batch number, index in the batch), which the driver resolves to the user's line.
    """
    __slots__ = ("key", "name", "cause", "message", "trace")

    def __init__(self, key, name, cause, message, trace=""):
        self.key, self.name, self.cause, self.message, self.trace = key, name, cause, message, trace

    @classmethod
    def of(cls, key, name, error):
        """The failure that exception ``error`` of command ``name`` makes."""
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-4))
        try:
            pickle.dumps(type(error))
            cause = type(error)
        except Exception:                    # a local class of a user's kernel cannot travel; its base can
            cause = next(t for t in type(error).__mro__ if t.__module__ == "builtins")
        return cls(key, name, cause, str(error) or type(error).__name__, trace)

    def __reduce__(self):
        return Failure, (self.key, self.name, self.cause, self.message, self.trace)

    def __repr__(self):
        return f"<failure of {self.name} at {self.key}: {self.message}>"


encode = partial(pickle.dumps, protocol=5)      # bytes of a batch or of a report
decode = pickle.loads
