"""What commands have to do with ``lakeevolve.yaml``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lakeevolve.config.project import Project

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="The project's file; by default the nearest lakeevolve.yaml, from the working directory upwards.",
        metavar="FILE",
    ),
]


@contextmanager
def in_project(config: str | None) -> Iterator[Project | None]:
    """Read the project's file that is named, if one is, and keep the state where it says."""
    from lakeevolve.config.state import using

    if config is None:
        yield None
        return
    from lakeevolve.config.load import load_project

    project = load_project(config)
    with using(project):
        yield project
