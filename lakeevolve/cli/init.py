"""``lakeevolve init [FOLDER]``: a first ``lakeevolve.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeevolve.cli.asking import can_ask
from lakeevolve.cli.console import note, write
from lakeevolve.cli.options import ModeOption

if TYPE_CHECKING:
    from lakeevolve.planning.setup import Detected


def init(
    folder: Annotated[
        str, typer.Argument(help="Where schemas and tables are, and where the file goes.", metavar="[FOLDER]")
    ] = ".",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take all that is found.")] = False,
    mode: ModeOption = "BACKWARD",
) -> int:
    """Begin a project: find schemas and tables, and write lakeevolve.yaml, never over one that is there."""
    from lakeevolve.config.find import NAME
    from lakeevolve.planning.setup import detect, there_already
    from lakeevolve.rules.modes import MODES

    root = Path(folder)
    if mode.upper() not in MODES:
        raise typer.BadParameter(f"{mode!r} is none of {', '.join(MODES)}", param_hint="--mode")
    if (root / NAME).exists():
        raise there_already(root / NAME)
    if not (yes or can_ask()):
        raise typer.BadParameter("without a terminal, nobody can be asked: give --yes", param_hint="--yes")
    found = detect(root)
    if not yes:
        found, mode = _asked(found, mode)
    for each in found.notes:
        note(f"note: {each}")
    if not found.subjects:
        note("nothing was written")
        return 0
    text = found.to_yaml(mode.upper())
    if not yes:
        write(text.rstrip())
        if not typer.confirm(f"write this to {root / NAME}?", default=True, err=True):
            note("nothing was written")
            return 0
    file = found.write(mode.upper())
    tables = sum(len(owned) for _, owned in found.subjects)
    write(f"wrote {file}: {len(found.subjects)} subject(s), {tables} table(s)\nnext: lakeevolve check, lakeevolve plan")
    return 0


def _asked(found: Detected, mode: str) -> tuple[Detected, str]:
    from lakeevolve.rules.modes import MODES

    dropped = []
    for line, tables in found.subjects:
        versions = "a version" if len(line.versions) == 1 else f"{len(line.versions)} versions"
        held = ", ".join(each.uri for each in tables) or "no table"
        if not typer.confirm(f"{line.name}: {versions} in {line.source}; {held}. Take it?", default=True, err=True):
            dropped.append(line.name)
    kept = found.without(dropped)
    while kept.subjects:
        mode = typer.prompt("which compatibility mode is to hold?", default=mode.upper(), err=True).upper()
        if mode in MODES:
            break
        note(f"{mode} is none of {', '.join(MODES)}")
    return kept, mode
