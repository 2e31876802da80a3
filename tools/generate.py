"""Write what is generated from the operator records: ``docs/operators.md`` and the type stubs of the namespaces.

    python tools/generate.py            # write
    python tools/generate.py --check    # exit 1 if a file is not up to date (a test runs this)
"""
from __future__ import annotations

import argparse
import importlib
import inspect
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["RAYND_MODE"] = "local"

STUBS = {                          # namespace -> (module, stub file)
    "np": ("raynd.numpy", "raynd/numpy/__init__.pyi"),
    "npx": ("raynd.numpy_extension", "raynd/numpy_extension/__init__.pyi"),
    "image": ("raynd.numpy_extension.image", "raynd/numpy_extension/image.pyi"),
}
NAMESPACES = ("np", "linalg", "random", "image", "npx", "nd", "method")


def records():
    """All operator records by name, without the gradient helpers that have no public name."""
    from raynd.ops import registry
    registry.load_all()
    return dict(sorted(registry.REGISTRY.items()))


def gradient(op) -> str:
    """What can be said of an operator's derivative in a word."""
    if op.vjp is None:
        return "-"
    return "first" if op.first_order_only else "yes"


def reference() -> str:
    """The text of docs/operators.md."""
    lines = ["# Operators", "",
             "Every operator record: its public names, signature, gradient ('yes': of any order; 'first': the gradient",
             "cannot be differentiated again; '-': none) and whether it updates inputs or draws random numbers. All",
             "run on CPU devices (NumPy). Written by `python tools/generate.py`; do not edit.", "",
             "| operator | signature | public names | gradient | notes |", "|---|---|---|---|---|"]
    for name, op in records().items():
        if not op.exports:
            continue
        names = [f"{space}.{n}" for space in NAMESPACES for n in op.exports.get(space, ())]
        notes = [text for text, on in (("updates inputs", op.mutates), ("draws", op.draws),
                                       ("depends on training mode", op.train)) if on]
        signature = op.signature.replace("|", "\\|")
        lines.append(f"| {name} | `{signature}` | {', '.join(f'`{n}`' for n in names)} | {gradient(op)} | "
                     f"{', '.join(notes)} |")
    helpers = [n for n, op in records().items() if not op.exports]
    lines += ["", f"Internal records, used by the others ({len(helpers)}): "
              + ", ".join(f"`{n}`" for n in helpers) + "."]
    return "\n".join(lines) + "\n"


def stub(module_name) -> str:
    """The text of a namespace's type stub: every public name with its signature."""
    module = importlib.import_module(module_name)
    lines = ["# Written by tools/generate.py; do not edit.", "from typing import Any", "",
             "from ..ndarray.array import ndarray as ndarray", ""]
    for name in sorted(n for n in dir(module) if not n.startswith("_") and n.isidentifier()):
        value = getattr(module, name)
        if name in ("ndarray", "annotations"):
            continue
        if inspect.ismodule(value):
            lines.append(f"{name}: Any")
        elif inspect.isclass(value):
            lines.append(f"{name}: type")
        elif callable(value):
            lines.append(f"def {name}{signature_of(value)} -> Any: ...")
        else:
            lines.append(f"{name}: {type(value).__name__ if type(value) in (int, float, bool, str) else 'Any'}")
    return "\n".join(lines) + "\n"


def signature_of(function) -> str:
    """A signature with defaults that a stub can hold."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "(*args: Any, **kwargs: Any)"
    plain = (int, float, bool, str, type(None), tuple)
    parts = []
    for p in parameters:
        if p.default is not p.empty and (type(p.default) not in plain or p.default != p.default):
            p = p.replace(default=...)
        text = str(p.replace(annotation=inspect.Parameter.empty))
        parts.append(text.replace("=Ellipsis", "=..."))
    return f"({', '.join(parts)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    files = {"docs/operators.md": reference(), **{path: stub(module) for module, path in STUBS.values()}}
    stale = [p for p, text in files.items() if not (ROOT / p).exists() or (ROOT / p).read_text() != text]
    if args.check:
        if stale:
            sys.exit(f"not up to date: {', '.join(stale)}; run python tools/generate.py")
        return
    for path in stale:
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(files[path])
        print("wrote", path)


if __name__ == "__main__":
    main()
