"""The command line: running MXNet scripts unmodified, the device map, the doctor."""
from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import raynd
from raynd import cli, compat, diagnosis

ROOT = Path(__file__).resolve().parent.parent
RAYND = [sys.executable, "-m", "raynd"]
RUN = [*RAYND, "run"]


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    assert capsys.readouterr().out == f"raynd {declared}\n"


@pytest.mark.parametrize("arguments, message", [
    ([], "COMMAND"),
    (["fly"], "invalid choice"),
    (["run"], "script"),
    (["devices", "--cpu-devices", "0"], "must be at least 1"),
    (["devices", "--cpu-devices", "many"], "invalid integer"),
    (["devices", "--mode", "cloud"], "invalid choice"),
    (["devices", "extra"], "unrecognized arguments"),
])
def test_bad_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


# -- run ---------------------------------------------------------------------------------------------------------------

def test_run_is_like_python(run_script):
    """The script sees what it would see under python: name, file, arguments, path, its own classes for pickle."""
    result = run_script("""
import os, pickle, sys
class Thing: pass
assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
assert sys.modules["__main__"].Thing is Thing
assert __name__ == "__main__" and os.path.samefile(sys.path[0], os.path.dirname(os.path.abspath(__file__)))
print(os.path.basename(sys.argv[0]), sys.argv[1:], os.path.basename(__file__))
""", "--mode", "train", "--", "-x", "--help", command=RUN)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "script0.py ['--mode', 'train', '--', '-x', '--help'] script0.py\n"


def test_mxnet_is_raynd(run_script):
    result = run_script("""
import sys
import mxnet
import mxnet as mx
import mxnet.device, mxnet.autograd, mxnet.context as context
from mxnet import autograd, base
from mxnet.base import MXNetError
import raynd
assert mx is mxnet is raynd
assert sys.modules["mxnet.autograd"] is raynd.autograd is autograd
assert raynd.autograd.__name__ == raynd.autograd.__spec__.name == "raynd.autograd"
assert context.cpu(1) == mx.cpu(1) == raynd.cpu(1)
assert MXNetError is raynd.MXNetError is base.MXNetError
""", command=RUN)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("one, other", [
    ("numpy", "np"), ("ndarray", "nd"), ("numpy_extension", "npx"), ("initializer", "init"), ("kvstore", "kv"),
    ("error", "errors"),
])
def test_two_names_of_a_module(run_script, one, other):
    result = run_script(f"""
import sys
import mxnet.{one}, mxnet.{other}
from mxnet import {one}, {other}
import raynd
assert sys.modules["mxnet.{one}"] is sys.modules["mxnet.{other}"] is {one} is {other} is raynd.{other}
""", command=RUN)
    assert (result.returncode, result.stderr) == (0, "")


def test_run_an_mxnet_script(run_script):
    result = run_script("""
import mxnet as mx
from mxnet import autograd, nd
x = nd.array([1, 2, 3])
x.attach_grad()
with autograd.record():
    y = (x * x).sum()
y.backward()
print(x.grad.asnumpy().tolist(), y.asscalar(), x.context)
""", command=RUN)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "[2.0, 4.0, 6.0] 14.0 cpu(0)\n"


def test_run_takes_runtime_options_before_the_script(run_script):
    result = run_script("import mxnet as mx; print(mx.num_gpus(), mx.gpu(1))", mode="ray",
                        command=[*RUN, "--mode", "local", "--simulate-gpus", "2"])
    assert (result.returncode, result.stdout, result.stderr) == (0, "2 gpu(1)\n", "")


@pytest.mark.parametrize("statement", ["import mxnet.nothing", "import mxnet.gluon_nothing.deep",
                                       "import mxnet.base.sys", "from mxnet.nothing import x"])
def test_unknown_module_names_raynd(run_script, statement):
    result = run_script(statement, command=RUN)
    assert result.returncode == 1
    assert re.search(r"ModuleNotFoundError: No module named 'mxnet\.\w+.*raynd", result.stderr) or \
        "is not a package" in result.stderr


def test_unknown_name_is_an_import_error(run_script):
    result = run_script("""
try:
    from mxnet import nothing
except ImportError as error:
    print(error)
""", command=RUN)
    assert "cannot import name 'nothing' from 'raynd'" in result.stdout


def test_an_error_looks_as_under_python(run_script):
    text = "def f():\n    raise ValueError('mine')\nf()\n"
    ours, pythons = run_script(text, command=RUN), run_script(text)
    assert ours.returncode == pythons.returncode == 1
    assert ours.stderr == pythons.stderr.replace("script1.py", "script0.py")


def test_a_syntax_error_looks_as_under_python(run_script):
    ours, pythons = run_script("x = (\n", command=RUN), run_script("x = (\n")
    assert ours.returncode == pythons.returncode == 1
    assert ours.stderr == pythons.stderr.replace("script1.py", "script0.py")


@pytest.mark.parametrize("text, code", [("import sys; sys.exit(3)", 3), ("raise SystemExit", 0),
                                        ("import sys; sys.exit('no')", 1), ("raise KeyboardInterrupt", 130)])
def test_exit_code(run_script, text, code):
    assert run_script(text, command=RUN).returncode == code


def test_missing_script(capsys, tmp_path):
    assert cli.main(["run", str(tmp_path / "nothing.py")]) == 2
    assert re.fullmatch(r"raynd run: no such script: .*nothing\.py\n", capsys.readouterr().err)
    assert cli.main(["run", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err


def test_the_real_mxnet_is_not_replaced_in_use(monkeypatch):
    monkeypatch.setitem(sys.modules, "mxnet", sys)
    with pytest.raises(ImportError, match="already imported"):
        compat.install()


def test_install_twice(run_script):
    result = run_script("""
import sys
from raynd import compat
before = len(sys.meta_path)
compat.install(); compat.install()
assert len(sys.meta_path) == before + 1
import mxnet, raynd
assert mxnet is raynd
compat.install()
""")
    assert (result.returncode, result.stderr) == (0, "")


def test_an_error_inside_a_module_is_not_hidden(monkeypatch, tmp_path):
    """A module that exists and fails to import says why, rather than being reported as absent."""
    (tmp_path / "broken_part.py").write_text("import what_is_not_installed")
    monkeypatch.setattr(raynd, "__path__", [*raynd.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="what_is_not_installed"):
        compat.resolve("mxnet.broken_part")


# -- devices -----------------------------------------------------------------------------------------------------------

@pytest.fixture
def stopped():
    """raynd is not running, before and after."""
    raynd.shutdown()
    yield
    raynd.shutdown()


@pytest.fixture
def clean_environment(monkeypatch):
    """The variables that the command line sets are restored."""
    for variable in cli.ENVIRONMENT.values():
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("RAYND_MODE", "local")


def test_devices(stopped, clean_environment, capsys):
    assert cli.main(["devices", "--mode", "local", "--cpu-devices", "2", "--simulate-gpus", "1"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split("  ")[0] == "device" and header.rstrip().endswith("simulated")
    assert [line.split()[0] for line in lines] == ["cpu(0)", "cpu(1)", "gpu(0)"]
    assert [line.split()[-1] for line in lines] == ["no", "no", "yes"]


def test_devices_json(stopped, clean_environment, capsys):
    assert cli.main(["devices", "--mode", "local", "--cpu-devices", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["device"] for row in rows] == ["cpu(0)", "cpu(1)", "cpu(2)"]
    assert set(rows[0]) == set(cli.COLUMNS) and rows[0]["simulated"] is False


@pytest.mark.ray
def test_devices_of_ray(run_script):
    result = run_script("import sys\nfrom raynd.cli import main\n"
                        "sys.exit(main(['devices', '--json', '--cpu-devices', '2']))", mode="ray", timeout=100)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [row["device"] for row in rows] == ["cpu(0)", "cpu(1)"]
    assert all(row["node"] and row["address"] for row in rows)


def test_devices_refuses_with_a_message(stopped, clean_environment, capsys):
    assert cli.main(["devices", "--mode", "local", "--address", "auto"]) == 1
    assert re.fullmatch(r"raynd devices: .*local mode.*\n", capsys.readouterr().err)


# -- doctor ------------------------------------------------------------------------------------------------------------

def test_doctor_reports_what_fails(monkeypatch, capsys):
    found = [diagnosis.Check("numpy", "ok", "2.0", "unused"),
             diagnosis.Check("torch", "missing", "not there", "get it"),
             diagnosis.Check("ray", "FAIL", "broken", "mend it")]
    monkeypatch.setattr(diagnosis, "checks", lambda: iter(found))
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "unused" not in out and "-> get it" in out and "-> mend it" in out
    assert out.endswith("raynd cannot work here yet: see ray.\n")
    assert cli.main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"] and [check["status"] for check in report["checks"]] == ["ok", "missing", "FAIL"]
    monkeypatch.setattr(diagnosis, "checks", lambda: iter(found[:2]))
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("raynd works here.\n")


@pytest.mark.parametrize("code, seconds, good, detail", [
    ("print('fine')", 30, True, "fine"),
    ("raise ValueError('the reason')", 30, False, "ValueError: the reason"),
    ("import sys; sys.exit(4)", 30, False, "exit code 4"),
    ("import time; time.sleep(60)", 1, False, "no answer within 1 s"),
    ("import raynd; print(raynd.__name__)", 30, True, "raynd"),
])
def test_attempts_have_a_process_of_their_own(code, seconds, good, detail):
    assert diagnosis.attempt(code, seconds) == (good, detail)


def test_missing_packages():
    assert diagnosis.package("surely-not-installed", True, "x").status == "FAIL"
    assert diagnosis.package("surely-not-installed", False, "x").status == "missing"
    assert diagnosis.package("numpy", True, "x").status == "ok"


@pytest.mark.parametrize("setting, torch, status, detail", [
    ("reference", "2.0", "ok", "the reference kernels (numpy); RAYND_KERNELS=reference"),
    ("auto", None, "ok", "the reference kernels (numpy); RAYND_KERNELS=auto"),
    ("auto", "2.0", "ok", "torch 2.0 (the reference kernels where it has none); RAYND_KERNELS=auto"),
    ("torch", "2.0", "ok", "torch 2.0 (the reference kernels where it has none); RAYND_KERNELS=torch"),
    ("torch", None, "FAIL", "RAYND_KERNELS=torch, but torch is not installed"),
    ("magic", "2.0", "FAIL", "RAYND_KERNELS must be 'reference', 'torch' or 'auto', not 'magic'"),
])
def test_the_kernels_in_use_are_named(monkeypatch, setting, torch, status, detail):
    monkeypatch.setenv("RAYND_KERNELS", setting)
    monkeypatch.setattr(diagnosis, "version", lambda distribution: torch)
    check = diagnosis.kernels()
    assert (check.status, check.detail) == (status, detail)


@pytest.mark.skipif(sys.platform != "linux", reason="memfd is Linux's")
def test_shared_memory_is_tried():
    assert diagnosis.shared_memory().status == "ok"


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_doctor(run_script):
    """On a machine where the suite passes, all that raynd needs is there."""
    result = run_script("import sys\nfrom raynd.cli import main\nsys.exit(main(['doctor', '--json']))", timeout=280)
    report = json.loads(result.stdout)
    assert result.returncode == 0 and report["ok"], [c for c in report["checks"] if c["status"] == "FAIL"]
    names = [check["name"] for check in report["checks"]]
    assert {"python", "numpy", "ray", "kernels", "shared memory", "local mode", "cuda", "nccl"} <= set(names)
    assert all(check["remedy"] for check in report["checks"] if check["status"] != "ok")
