"""Stdout for results, stderr for progress; plain text when piped."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import typer


class Format(StrEnum):
    text = "text"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="How the result is written.")]


class FailOn(StrEnum):
    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


FailOnOption = Annotated[FailOn | None, typer.Option("--fail-on", help="Lowest severity that makes the exit code 1.")]
ModeOption = Annotated[
    str, typer.Option("--mode", help="NONE, BACKWARD, FORWARD, FULL or one of the _TRANSITIVE ones.")
]
RenameOption = Annotated[
    list[str] | None, typer.Option("--rename", help="A rename that the owner approves: OLD=NEW (paths). Repeatable.")
]
NotRenameOption = Annotated[
    list[str] | None, typer.Option("--not-rename", help="A suspected rename that is none: OLD=NEW. Repeatable.")
]


def write(text: str) -> None:
    """A result as text; coloured on a terminal only."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.highlighter import RegexHighlighter
        from rich.theme import Theme

        class Words(RegexHighlighter):
            base_style = "le."
            highlights: ClassVar[list[str]] = [
                r"(?P<bad>\b(error|refuse|differs|no)\b)",
                r"(?P<warn>\b(warning|rewrite|backfill|irreversible)\b)",
                r"(?P<good>\b(info|metadata|equal|yes|ok)\b)",
            ]

        theme = Theme({"le.bad": "bold red", "le.warn": "yellow", "le.good": "green"})
        Console(highlighter=Words(), theme=theme, soft_wrap=True).print(text, markup=False)
    else:
        sys.stdout.write(text + "\n")


def write_json(record: Any) -> None:
    sys.stdout.write(json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def note(text: str) -> None:
    """A message that is no result."""
    sys.stderr.write(text + "\n")


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Progress on stderr, one bar per phase; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _phase, _done, _of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        tasks: dict[str, Any] = {}

        def show(phase: str, done: int, of: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=of)
            bars.update(tasks[phase], completed=done, total=of)

        yield show


def pairs(given: list[str] | None, option: str) -> list[tuple[str, str]]:
    """``OLD=NEW`` options as pairs."""
    found = []
    for text in given or []:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{text!r} is not OLD=NEW", param_hint=option)
        found.append((old.strip(), new.strip()))
    return found


def old_rows_of(given: list[str] | None) -> str | dict[str, str]:
    """``--old-rows default``, ``--old-rows null`` and ``--old-rows PATH=null`` as the API takes them."""
    if not given:
        return "default"
    per_path: dict[str, str] = {}
    for text in given:
        path, equals, wanted = text.partition("=")
        per_path[path.strip() if equals else "*"] = (wanted if equals else path).strip()
    return per_path["*"] if list(per_path) == ["*"] else per_path
