"""Fixtures of the whole suite. Tests run in local mode unless they ask for Ray.

``RAYND_TEST_SEED`` sets the seed of every test: a number reproduces a failure, ``random`` explores. By default each
test has a seed of its own that never changes, made from its name.
"""
from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import zlib
from pathlib import Path

os.environ.setdefault("RAYND_MODE", "local")            # before anything imports raynd
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:   # as in a shell's background; the scripts would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


# -- seeds -----------------------------------------------------------------------------------------------------------

def _seed_of(item) -> int:
    text = os.environ.get("RAYND_TEST_SEED", "")
    if text == "random":
        return secrets.randbits(31)
    return int(text) if text else zlib.crc32(item.nodeid.encode()) & 0x7FFFFFFF


@pytest.fixture(autouse=True)
def seed(request) -> int:
    """Seeds random, numpy.random and raynd; a failing test's report names the seed."""
    value = request.node.seed_used = _seed_of(request.node)
    random.seed(value)
    numpy.random.seed(value)
    if "raynd" in sys.modules:
        sys.modules["raynd"].random.seed(value)
    return value


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the seed to the report of a failure."""
    report = (yield).get_result()
    if report.failed and hasattr(item, "seed_used"):
        report.sections.append(("seed", f"reproduce with RAYND_TEST_SEED={item.seed_used}"))


# -- modes -----------------------------------------------------------------------------------------------------------

def restart(mode, **options):
    """Shut raynd down, if it runs, and start it anew. After ``mx.shutdown()`` the next use starts it in the mode of the
    environment again."""
    import raynd as mx
    mx.shutdown()
    mx.init(mode=mode, **options)
    return mx


@pytest.fixture(scope="module")
def ray_runtime():
    """raynd on four Ray actors for the tests of a module. Mark these tests (or the module) with ``ray``."""
    mx = restart("ray", cpu_devices=4)
    yield mx
    mx.shutdown()


@pytest.fixture(scope="module", params=["local", pytest.param("ray", marks=pytest.mark.ray)])
def each_mode(request):
    """Run the test in local mode and on Ray actors, with four CPU devices and no GPU, or with what the module's
    ``RUNTIME_OPTIONS`` say. The value is the mode's name."""
    mx = restart(request.param, **getattr(request.module, "RUNTIME_OPTIONS", {"cpu_devices": 4}))
    yield request.param
    mx.shutdown()


# -- scripts of their own ----------------------------------------------------------------------------------------------

def _environment(mode, env):
    full = {k: v for k, v in os.environ.items() if not k.startswith(("RAYND_", "RAY_ADDRESS"))}
    path = [str(ROOT), *filter(None, [full.get("PYTHONPATH")])]
    full.update({"RAYND_MODE": mode, "PYTHONPATH": os.pathsep.join(path), "RAY_USAGE_STATS_ENABLED": "0"})
    full.update(env or {})
    return full


def kill_session(process):
    """End a process started by these fixtures, and all that it started in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@pytest.fixture
def start_script(tmp_path):
    """``start_script(text, *args, mode="local", env=None)``: a running Popen with text pipes, in a session of its own.
    ``text`` is Python source; it is ended with the test."""
    started = []

    def start(text, *args, mode="local", env=None, command=None):
        script = tmp_path / f"script{len(started)}.py"
        script.write_text(text)
        process = subprocess.Popen([*(command or [sys.executable]), str(script), *args], cwd=tmp_path, text=True,
                                   env=_environment(mode, env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        kill_session(process)
        process.stdout.close()
        process.stderr.close()


@pytest.fixture
def run_script(start_script):
    """``run_script(text, *args, mode="local", env=None, timeout=60)``: the CompletedProcess of a script, for tests of
    exit codes, output and a clean end. ``command`` replaces the interpreter, such as ``[sys.executable, "-m",
    "raynd", "run"]``. Past ``timeout`` seconds it is killed with all it started, and the test fails."""

    def run(text, *args, mode="local", env=None, timeout=60, command=None):
        process = start_script(text, *args, mode=mode, env=env, command=command)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_session(process)
            out, err = process.communicate()
            pytest.fail(f"the script did not end within {timeout} s\n-- stdout\n{out}\n-- stderr\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run
