"""``lakeevolve apply FOLDER``: many saved plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lakeevolve.cli.asking import Word
from lakeevolve.cli.console import progress_bars
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import open_with
from lakeevolve.cli.signals import stoppable

if TYPE_CHECKING:
    from lakeevolve.applying.batch import Batch

_DURATION = re.compile(r"(\d+) ?(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"(\d+) ?(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)


def duration(text: str | None, option: str) -> timedelta | None:
    """``90s``, ``15m``, ``2h`` or ``1d``."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration such as 15m or 2h", param_hint=option)
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def size(text: str | None, option: str) -> int | None:
    """A number of bytes: ``1000000``, ``500 GiB``, ``2TB``."""
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size such as 500 GiB", param_hint=option)
    power = " KMGT".index((found[2] or " ").upper())
    unit: int = 1024 if found[3] else 1000
    return int(found[1]) * int(unit**power)


def apply_folder(
    folder: str,
    allow: Sequence[str],
    *,
    yes: bool,
    approved: bool,
    approvals: str | None,
    resume: bool,
    dry_run: bool,
    max_bytes: str | None,
    within: str | None,
    window: str | None,
    jobs: str,
    require_idle: timedelta | None,
    engine: str | None,
    option: list[str] | None,
    format: str,
    output: Sequence[str] | None,
) -> int:
    """Apply every plan of a folder, each by itself."""
    from lakeevolve.applying.batch import Window, apply_batch, plan_files
    from lakeevolve.config.approvals import load_approvals
    from lakeevolve.report.batch import of_batch

    if not jobs.isdecimal() or int(jobs) < 1:
        raise typer.BadParameter(f"{jobs!r} is no number of plans", param_hint="--jobs")
    word = Word.of(folder, yes=yes, approved=approved, dry_run=dry_run)
    files = plan_files(folder)
    words = load_approvals(approvals or folder) if approved else None
    if files and not word.or_ask(lambda: "\n".join(map(str, files)), f"apply these {len(files)} plans?"):
        return 0
    with stoppable(), progress_bars() as progress:
        done: Batch = apply_batch(
            files,
            frozenset(allow),
            approvals=words,
            max_bytes=size(max_bytes, "--max-bytes"),
            within=duration(within, "--within"),
            window=None if window is None else Window.parse(window),
            jobs=int(jobs),
            require_idle=require_idle,
            engine=engine,
            resume=resume,
            dry_run=dry_run,
            open_=lambda uri: open_with(uri, option),
            watch=lambda uri: lambda phase, done, of: progress(f"{phase} {uri}", done, of),
        )
    emit(of_batch(done, Path(folder).name), format, output)
    return done.exit_code
