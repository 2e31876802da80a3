"""The order of the layers, the size of files and functions, and what an import loads: read from the source itself.

Every import counts, also one inside a function. What must differ is listed by name below, with its reason.
"""
from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "raynd"

# A module imports only from its own layer and from those above it in this list. A package stands for its modules.
LAYERS = [
    {"errors", "config"},
    {"device", "spec", "base", "registry"},
    {"protocol"},
    {"ops"},
    {"worker"},
    {"executors"},
    {"engine"},
    {"session", "memory"},
    {"dispatch"},
    {"trace"},
    {"random"},
    {"autograd"},
    {"ndarray"},
    {"numpy", "numpy_extension", "util"},
    {"program"},
    {"initializer", "optimizer", "lr_scheduler", "kvstore"},
    {"gluon"},
    {"*"},                                    # everything else: symbol, io, image, cli, ...
]

# (file, module it imports): imports against the order that are right all the same.
EXCEPTIONS = {
    ("device.py", "raynd.memory"),            # Device.empty_cache() and the module-level questions about devices, which
    ("device.py", "raynd.session"),           # MXNet has here; the rest of the module is pure values
    ("ndarray/interop.py", "raynd.numpy"),    # __array_namespace__() answers with that module
}

# Modules that only some files may import. An actor's process is a worker; the driver's must not load its inside.
RESTRICTED = {
    "ray": {"executors/ray.py"},
    "cupy": {"worker/"},
    "raynd.worker": {"worker/", "executors/local.py", "executors/ray.py"},
}

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 120

FILES = sorted(PACKAGE.rglob("*.py"))
PATHS = [file.relative_to(PACKAGE).as_posix() for file in FILES]
every_file = pytest.mark.parametrize("path", PATHS)


# -- reading imports ---------------------------------------------------------------------------------------------------

def module_name(path: str) -> str:
    """'raynd.gluon.nn' for 'gluon/nn/__init__.py'."""
    parts = ["raynd", *path.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in PATHS}
MODULES |= {name.rpartition(".")[0] for name in MODULES} - {""}        # packages without a file of their own


def imports(path: str, source: str):
    """(line, module) of each import in ``source``, which lies at ``path``, however deep in functions it stands."""
    package = module_name(path).split(".")
    if not path.endswith("__init__.py"):
        package = package[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:         # `from . import engine` imports a module, `from .x import f` a name
                name = f"{base}.{alias.name}"
                yield node.lineno, name if name in MODULES else base
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                name = node.args[0].value
                yield node.lineno, ".".join(package) + name if name.startswith(".") else name


def layer(module: str) -> int:
    """The index of the layer of 'raynd.engine' or 'raynd.gluon.nn'; 'raynd' itself is in the last."""
    top = (module.split(".") + [""])[1]
    return next((i for i, names in enumerate(LAYERS) if top in names), len(LAYERS) - 1)


def inside(module: str, package: str) -> bool:
    """Whether ``module`` is ``package`` or lies in it."""
    return module == package or module.startswith(package + ".")


def violations(path: str, source: str):
    """What the imports of the file at ``path`` break, as lines to print."""
    own = layer(module_name(path))
    for line, module in imports(path, source):
        if inside(module, "raynd") and layer(module) > own and (path, module) not in EXCEPTIONS:
            yield f"raynd/{path}:{line} imports {module}, which is in a later layer"
        for name, allowed in RESTRICTED.items():
            if inside(module, name) and not any(path == a or a.endswith("/") and path.startswith(a) for a in allowed):
                yield f"raynd/{path}:{line} imports {module}, which only {', '.join(sorted(allowed))} may"


@every_file
def test_imports_go_one_way(path):
    found = list(violations(path, (PACKAGE / path).read_text()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path, source, count", [
    ("spec.py", "from .engine import engine", 1),
    ("spec.py", "def f():\n    from . import engine", 1),
    ("spec.py", "import raynd.engine", 1),
    ("spec.py", "import importlib\nimportlib.import_module('.engine', 'raynd')", 1),
    ("spec.py", "from .errors import ShapeError\nimport numpy", 0),
    ("spec.py", "from . import __version__", 1),
    ("device.py", "from .memory import empty_cache", 0),
    ("ops/math.py", "from ..engine import engine", 1),
    ("ops/math.py", "from ..spec import spec\nfrom . import registry\nfrom .registry import operator", 0),
    ("ops/math.py", "import cupy", 1),
    ("worker/backend.py", "def f():\n    import cupy.cuda", 0),
    ("worker/worker.py", "from ..ndarray import NDArray", 1),
    ("gluon/nn/__init__.py", "from ...ndarray import NDArray\nfrom ..block import Block", 0),
    ("gluon/nn/__init__.py", "from ...worker.backend import Backend", 1),
    ("autograd.py", "import ray", 1),
    ("cli.py", "from raynd import session\nimport raynd", 0),
    ("cli.py", "def f():\n    import ray.util", 1),
    ("executors/local.py", "from ..worker.worker import Worker", 0),
])
def test_the_import_reader_sees(path, source, count):
    assert len(list(violations(path, source))) == count


def test_exceptions_are_needed():
    """An exception that no file uses any more goes."""
    used = {(path, module) for path in PATHS for _, module in imports(path, (PACKAGE / path).read_text())}
    assert not EXCEPTIONS - used


# -- habits ------------------------------------------------------------------------------------------------------------

def python_files():
    """The Python files of the repository."""
    return [file for folder in ("raynd", "tests", "examples") for file in sorted((ROOT / folder).rglob("*.py"))]


def test_no_file_is_too_long():
    long = {str(file.relative_to(ROOT)): n for file in python_files()
            if (n := len(file.read_text().splitlines())) > MAX_FILE_LINES}
    assert not long, f"over {MAX_FILE_LINES} lines: {long}"


def test_no_function_is_too_long():
    long = [f"{file.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines"
            for file in python_files() for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (length := node.end_lineno - node.lineno + 1) > MAX_FUNCTION_LINES]
    assert not long, "\n".join(long)


@every_file
def test_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse((PACKAGE / path).read_text())), f"raynd/{path} does not say what it is for"


def test_packages_have_an_init():
    """A folder without one is a namespace package: it imports, but is easily left out of a wheel."""
    bare = {str(file.parent.relative_to(ROOT)) for file in FILES if not (file.parent / "__init__.py").exists()}
    assert not bare


@every_file
def test_module_names(path):
    for part in path.removesuffix(".py").split("/"):
        assert re.fullmatch(r"_{0,2}[a-z][a-z0-9]*(_[a-z0-9]+)*_{0,2}", part), f"raynd/{path}: {part}"


def test_no_path_of_a_machine():
    """Nothing names a folder of the machine it was written on."""
    pattern = re.compile(r"(?<![\w.~])/(?:root|work|home/\w+|Users/\w+|tmp/\w+)/\w+")
    files = [file for file in ROOT.rglob("*") if file.suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".sh"}
             and not any(p.startswith(".") or p in ("build", "dist") or p.endswith(".egg-info")
                         for p in file.relative_to(ROOT).parts)]
    found = [f"{file.relative_to(ROOT)}: {match.group()}" for file in [*files, ROOT / ".ci/run"]
             for match in pattern.finditer(file.read_text())]
    assert not found, "\n".join(found)


# -- what an import loads ----------------------------------------------------------------------------------------------

def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter holds after ``code``."""
    process = subprocess.run([sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], cwd=ROOT, text=True,
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert process.returncode == 0, process.stderr
    return set(process.stdout.split())


def heavy(modules: set[str], *names: str) -> list[str]:
    """Those of ``modules`` that are, or lie in, one of ``names``."""
    return sorted(m for m in modules if any(inside(m, name) for name in names))


ENGINE = next(i for i, names in enumerate(LAYERS) if "engine" in names)
DRIVER = sorted(set().union(*LAYERS[ENGINE:]) - {"*"})


def test_import_is_lazy():
    loaded = loaded_by("import raynd")
    assert heavy(loaded, "ray", "cupy", "torch", "scipy", "sklearn") == []
    assert {m.split(".")[1] for m in loaded if m.startswith("raynd.")} <= {"ops", "spec", "errors", "config"}


def test_arrays_need_no_gluon_and_no_ray():
    loaded = loaded_by("import raynd as mx; mx.cpu(0); mx.nd; mx.autograd")
    assert heavy(loaded, "ray", "cupy", "torch", "raynd.gluon", "raynd.optimizer", "raynd.kvstore",
                 "raynd.symbol") == []


def test_the_command_line_loads_nothing_early():
    assert heavy(loaded_by("import raynd.cli"), "ray", "cupy", "torch", "scipy", "raynd.gluon", "raynd.ndarray") == []


def test_a_worker_holds_nothing_of_the_driver():
    """What a device's actor loads: the operators and the worker, no namespace, no engine."""
    loaded = loaded_by("import raynd.worker.worker, raynd.worker.backend\n"
                       "from raynd.ops import registry\n"
                       "registry.get('add')")
    assert heavy(loaded, "ray", *(f"raynd.{name}" for name in DRIVER)) == []


@pytest.mark.parametrize("name", ["nothing_of_this_name", "_private"])
def test_unknown_attribute(name):
    import raynd
    with pytest.raises(AttributeError, match=name):
        getattr(raynd, name)


@pytest.mark.ray
def test_an_actor_holds_nothing_of_the_driver(ray_runtime):
    """The same of a living actor: after work on it, its process has loaded no namespace, no gluon, no engine."""
    engine = ray_runtime.engine.engine
    device = ray_runtime.cpu(1)
    with device:
        assert (ray_runtime.nd.ones((2, 3)) + 1).asnumpy().tolist() == [[2.0] * 3] * 2
    loaded = set(engine.executor.modules(device))
    assert "raynd.worker.worker" in loaded and "ray" in loaded
    assert heavy(loaded, *(f"raynd.{name}" for name in DRIVER)) == []
