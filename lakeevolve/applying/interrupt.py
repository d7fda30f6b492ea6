"""What an apply that was interrupted says: the state that the table is in, and what next."""

from __future__ import annotations

from typing import Literal

from lakeevolve.errors import Interrupted

Landed = Literal["none", "partly", "done"]


def interrupted(uri: str, landed: Landed | None) -> Interrupted:
    """The interruption of an apply, with what the table itself says became of the plan."""
    match landed:
        case "none":
            return Interrupted(
                "interrupted before the commit: the table is unchanged, and what was written for it is deleted",
                where=uri,
                hint="run apply again when it suits",
            )
        case "partly":
            return Interrupted(
                "interrupted between two commits: the plan is applied in part, and rows read as before",
                where=uri,
                hint="run apply again with --resume",
            )
        case "done":
            return Interrupted(
                "interrupted after the commit: the plan is applied, and its replay was not finished",
                where=uri,
                hint="lakeevolve verify replays every row",
            )
    return Interrupted(
        "interrupted, and the table cannot be asked now whether the commit landed",
        where=uri,
        hint="run apply again: it goes on from what the table itself says",
    )
