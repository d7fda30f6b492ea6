"""What a check of two small files costs from the shell, beside loading the libraries of such a command line alone.

Both start a Python of their own. The package is compiled to bytecode first, as an installation is.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lakeevolve
from tests.benchmarks import Figure, seconds, side_by_side

BASE = "import typer, rich, fastavro"
REPEATS = 15


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(Path(lakeevolve.__file__).parent, folder / "lakeevolve")
        compileall.compile_dir(folder / "lakeevolve", quiet=2)
        files = []
        for type_ in ("int", "long"):
            files.append(str(folder / f"{type_}.avsc"))
            record = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": type_}]}
            Path(files[-1]).write_text(json.dumps(record))
        environment = {**os.environ, "PYTHONPATH": name}

        def run(*command: str) -> None:
            subprocess.run([sys.executable, *command], check=True, env=environment, cwd=name, stdout=subprocess.DEVNULL)

        times = side_by_side(
            {"check": lambda: run("-m", "lakeevolve", "check", *files), "base": lambda: run("-c", BASE)},
            repeats=REPEATS,
        )
    ours, theirs = times["check"].median, times["base"].median
    detail = f"{seconds(ours)} to {seconds(theirs)}"
    return [
        Figure("check of two small files, whole process", ours / theirs, f"x {BASE}", at_most=1.5, detail=detail),
    ]
