"""Stdout for results, stderr for progress; plain text when piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar


def write(text: str, *, coloured: bool = True) -> None:
    """A result as text; coloured on a terminal only, and only if it is for people."""
    if not (coloured and sys.stdout.isatty()):
        sys.stdout.write(text + "\n")
        return
    from rich.console import Console
    from rich.highlighter import RegexHighlighter
    from rich.theme import Theme

    class Words(RegexHighlighter):
        base_style = "le."
        highlights: ClassVar[list[str]] = [
            r"(?P<bad>\b(error|refuse|refused|differs|not compatible)\b)",
            r"(?P<warn>\b(warning|rewrite|backfill|irreversible)\b)",
            r"(?P<good>\b(info|metadata|equal|(?<!not )compatible)\b)",
        ]

    theme = Theme({"le.bad": "bold red", "le.warn": "yellow", "le.good": "green"})
    Console(highlighter=Words(), theme=theme, soft_wrap=True).print(text, markup=False)


def note(text: str) -> None:
    """A message that is no result."""
    sys.stderr.write(text + "\n")


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Progress on stderr, one bar per phase with the time that is left, and bytes where they are known; nothing where
    stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _phase, _done, _of: None
        return
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[stored]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        tasks: dict[str, Any] = {}

        def show(phase: str, done: int, of: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=of, stored="")
            whole = getattr(of, "bytes", None)
            stored = "" if whole is None else f"{decimal(getattr(done, 'bytes', 0))} of {decimal(whole)}"
            bars.update(tasks[phase], completed=done, total=of, stored=stored)

        yield show
