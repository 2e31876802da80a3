"""The operator reference and the type stubs match the records."""
from __future__ import annotations

import subprocess
import sys

from conftest import ROOT


def test_reference_and_stubs_are_up_to_date():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "generate.py"), "--check"], capture_output=True,
                          text=True, timeout=100)
    assert done.returncode == 0, done.stderr
