"""``lakeevolve schema NAME``: JSON Schemas of what lakeevolve writes."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import write


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            help="diff, check, plan, apply, verify, history, describe, ...; all are listed without it.",
            metavar="[NAME]",
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of an output, of lakeevolve.yaml (config) or of an approval."""
    from lakeevolve.report.json import json_text
    from lakeevolve.report.schemas import FILES, SCHEMAS, schema_named

    write("\n".join((*SCHEMAS, *FILES)) if name is None else json_text(schema_named(name)), coloured=False)
    return 0
