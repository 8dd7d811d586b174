"""Running lines in a process of their own: what may kill it, or depends on a first use."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

START = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import torch
import torch.nn.functional as F
import gradwalk
from gradwalk import GraphWidget, capture, diagnose, record, save, watch
"""


def fresh(code: str, start: str = START) -> str:
    """What some code prints; fails when it raises, or when the process ends by a signal."""
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
