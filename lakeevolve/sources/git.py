"""A schema as it stood at a git revision: ``git:REF:path``."""

from __future__ import annotations

import subprocess

from lakeevolve.avro.parse import parse
from lakeevolve.errors import SourceError, SourceNotFound
from lakeevolve.model.schema import Schema


def read(location: str, *, lenient: bool = False) -> Schema:
    """The schema at ``REF:path``, read from the repository of the working directory.

    Raises ``SourceNotFound`` where the revision or the path does not exist, ``SourceError`` where git is missing.
    """
    revision, colon, path = location.partition(":")
    if not (revision and colon and path) or revision.startswith("-"):
        raise SourceError("a git source is git:REF:path", where=f"git:{location}", hint="e.g. git:main:orders.avsc")
    try:
        shown = subprocess.run(
            ["git", "show", f"{revision}:./{path}" if not path.startswith("/") else f"{revision}:{path[1:]}"],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise SourceError("git is not installed", where=f"git:{location}", hint="install git") from error
    if shown.returncode != 0:
        reason = shown.stderr.decode(errors="replace").strip().splitlines()
        raise SourceNotFound(
            f"git has no such file: {reason[-1] if reason else 'unknown reason'}",
            where=f"git:{location}",
            hint="check revision and path; in a shallow clone fetch the revision first",
        )
    return parse(shown.stdout, source_name=f"git:{location}", lenient=lenient)
