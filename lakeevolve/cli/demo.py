"""``lakeevolve demo [DIR]``: two sample tables in both formats, evolved and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command("demo", help="Evolve two sample tables in both formats through three versions, and verify each.")(demo)


def demo(
    directory: Annotated[
        Path, typer.Argument(help="A new or empty folder, or that of an earlier demo, which is replaced.")
    ] = Path("lakeevolve-demo"),
) -> int:
    from rich.console import Console

    from lakeevolve.demo.run import run
    from lakeevolve.errors import ReplayMismatch

    done = run(directory, Console())
    return 0 if done.ok else ReplayMismatch.exit_code
