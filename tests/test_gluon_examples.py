"""The digits examples as a user runs them."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as onp
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(tmp_path, name, *args):
    result = subprocess.run([sys.executable, str(EXAMPLES / name), *args], cwd=tmp_path, capture_output=True, text=True,
                            timeout=200)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_train_and_classify(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    out = run(tmp_path, "train_digits.py", "--mode", "local", "--devices", "2", "--epochs", "4")
    assert float(re.search(r"test accuracy (\S+)", out).group(1)) > 0.9
    assert len(re.findall(r"epoch +\d+: loss \S+, accuracy \S+", out)) == 4
    out = run(tmp_path, "classify_digits.py", "digits.params", "--count", "20")
    assert int(re.search(r"(\d+) of 20 right", out).group(1)) >= 16
    onp.save(tmp_path / "mine.npy", onp.zeros((2, 8, 8)))
    assert "image 1:" in run(tmp_path, "classify_digits.py", "digits.params", "--images", "mine.npy")
