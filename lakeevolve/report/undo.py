"""What became of going back, in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeevolve.report.outcome import Outcome, told

if TYPE_CHECKING:
    from lakeevolve.applying.application import Application


def of_rollback(done: Application, uri: str, to: int) -> Outcome:
    from lakeevolve.report.findings import of_replay
    from lakeevolve.report.json import application_record

    return Outcome(
        "rollback",
        application_record(done),
        lambda: _text(done, uri, to),
        f"Rollback of {uri} to version {to}",
        told(done),
        done.findings if done.replay is None else of_replay(done.replay, uri),
    )


def _text(done: Application, uri: str, to: int) -> str:
    from lakeevolve.report.text import replay_text, unreplayed_text

    match done.status:
        case "dry-run":
            said = f"dry run: {uri} could go back to version {to}; nothing was changed"
            return f"{said}\nan approval of it names the digest {done.plan}"
        case "nothing-to-do":
            return f"{uri} is as version {to} was (version {done.version}); nothing was done"
    lines = [f"{uri} went back to version {to}, as its version {done.version}"]
    if done.replay is not None:
        lines.append(replay_text(done.replay, uri))
    lines += unreplayed_text(done, uri)
    return "\n".join(lines)
