"""``python -m raynd``: the command line."""
from __future__ import annotations

import sys

from raynd.cli import main

sys.exit(main())
