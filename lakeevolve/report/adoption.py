"""What an adoption found, as one outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeevolve.errors import LakeEvolveError
from lakeevolve.redaction import public_uri
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.text import counted

if TYPE_CHECKING:
    from lakeevolve.planning.adoption import Adopted, Adoption

_FOUND = 1


def of_adoption(found: Adoption) -> Outcome:
    return Outcome("adopt", found.to_json(), lambda: _text(found), "Adoption", _verdict(found))


def code_of(found: Adoption) -> int:
    """2 where a table could not be read, 1 where a marker was asked for and not written."""
    if any(each.kind == "unreadable" for each in found.tables):
        return LakeEvolveError.exit_code
    return _FOUND if any(each.status.startswith("left") for each in found.tables) else 0


def _verdict(found: Adoption) -> str:
    from lakeevolve.planning.adoption import KINDS

    counts = [(kind, sum(each.kind == kind for each in found.tables)) for kind in KINDS]
    said = ", ".join(f"{count} {kind}" for kind, count in counts if count)
    return f"{counted(len(found.tables), 'table')}: {said}"


def _text(found: Adoption) -> str:
    lines = [_verdict(found)]
    for each in found.tables:
        lines.append(f"  {each.kind:<11} {public_uri(each.uri)}{_of(each)}")
        lines += [f"              {reason}" for reason in each.reasons if each.kind != "managed"]
        if each.mapping:
            pairs = ", ".join(f"{path} is {column}" for path, column in each.mapping.items())
            lines.append(f"              mapping: {pairs}")
        if each.foreign:
            lines.append(f"              foreign: {', '.join(each.foreign)}")
        if each.baseline:
            lines.append(
                f"              baseline: {counted(len(each.baseline), 'finding')}, until {found.until.isoformat()}"
            )
        if each.status and each.status != each.kind:
            lines.append(f"              marker: {each.status}")
    return "\n".join(lines)


def _of(each: Adopted) -> str:
    return "" if each.subject is None else f" · {each.subject}, version {each.version} of {each.newest}"
