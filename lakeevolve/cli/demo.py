"""``lakeevolve demo [DIR]``: two sample tables in both formats, evolved and verified."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    directory: Annotated[
        str,
        typer.Argument(help="A new or empty folder, or that of an earlier demo, which is replaced.", metavar="[DIR]"),
    ] = "lakeevolve-demo",
) -> int:
    """Evolve two sample tables in both formats through three versions, and verify each."""
    from rich.console import Console

    from lakeevolve.demo.run import run
    from lakeevolve.errors import ReplayMismatch

    done = run(directory, Console())
    return 0 if done.ok else ReplayMismatch.exit_code
