"""Approvals: files in which someone allows one plan, by its intent digest, until a day.

An approval lies where the plans lie, or in a folder of its own, as ``NAME.approval.yaml`` (or ``.yml``, ``.json``)::

    plan: 1f0c...   # all 64 digits of the plan's digest
    approver: ann@example.com
    until: 2027-01-31
    reason: agreed with the owners of the orders report

The digest covers what people approve (table, base version, target, changes, routes, fills, findings and policy), so a
plan that is made again with the same digest is covered still, and one that differs in any of these is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from lakeevolve.errors import ConfigError, InvalidConfig, PermitMissing

SUFFIXES: Final = (".approval.yaml", ".approval.yml", ".approval.json")

Verdict = Literal["valid", "expired", "other-plan"]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Someone's word that one plan may be applied."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "extra": "forbid",
        "strict": True,
        "use_attribute_docstrings": True,
    }

    plan: str
    """The plan's intent digest, all 64 hex digits."""
    approver: str
    """Who approves."""
    until: date
    """The last day on which the approval holds, as 2027-01-31."""
    reason: str = ""
    """Why, for those who read it later."""

    def judge(self, digest: str, *, today: date | None = None) -> Verdict:
        """What the approval is worth for the plan with that digest, on a day (None for the current one)."""
        if self.plan != digest:
            return "other-plan"
        return "valid" if self.until >= (today or date.today()) else "expired"


def load_approval(path: str | Path) -> Approval:
    """Read one approval.

    Raises
    ------
    InvalidConfig
        The file holds faults; each is told with its line.
    ConfigError
        There is no such file, or it cannot be read.
    """
    from lakeevolve.config.document import Document, read
    from lakeevolve.config.load import Fault, validated

    def checked(found: Approval, document: Document) -> Iterator[Fault]:
        if not _DIGEST.match(found.plan):
            hint = "write all 64 hex digits of the plan's digest; `lakeevolve show PLAN --format json` has it"
            yield document.line(("plan",)), "plan is no intent digest", hint
        if not found.approver.strip():
            yield document.line(("approver",)), "approver is empty", "write who approves"

    def prepared(document: Document) -> list[Fault]:
        document.digits_as_text("plan")
        return []

    made: Approval = validated(Approval, read(path), prepare=prepared, check=checked)
    return made


def approval_files(folder: str | Path) -> tuple[Path, ...]:
    """The approvals in a folder (not in those below it), by name; none where there is no folder."""
    try:
        return tuple(sorted(each for each in Path(folder).iterdir() if each.name.endswith(SUFFIXES) and each.is_file()))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(
            f"the folder of approvals cannot be read: {error.strerror}",
            where=str(folder),
            hint="check the path and its permissions",
        ) from error


def load_approvals(*folders: str | Path) -> tuple[Approval, ...]:
    """Read all approvals in some folders. Faults of all files are told together, in one ``InvalidConfig``."""
    found: list[Approval] = []
    wrong: list[InvalidConfig] = []
    for folder in folders:
        for file in approval_files(folder):
            try:
                found.append(load_approval(file))
            except InvalidConfig as error:
                wrong.append(error)
    if wrong:
        raise wrong[0] if len(wrong) == 1 else wrong[0].with_others(wrong[1:])
    return tuple(found)


def covering(digest: str, approvals: Iterable[Approval], *, today: date | None = None) -> Approval | None:
    """The approval that covers the plan with that digest today; of several, the one that holds longest.

    >>> word = Approval(plan="0" * 64, approver="ann", until=date(2027, 1, 31))
    >>> covering("0" * 64, [word], today=date(2027, 1, 31)).approver
    'ann'
    >>> covering("0" * 64, [word], today=date(2027, 2, 1)) is None
    True
    """
    valid = [each for each in approvals if each.judge(digest, today=today) == "valid"]
    return max(valid, key=lambda each: (each.until, each.approver), default=None)


def require(digest: str, approvals: Sequence[Approval], *, where: str = "", today: date | None = None) -> Approval:
    """The approval that covers a plan; raises ``PermitMissing`` (exit 1) where none does, and says why.

    Parameters
    ----------
    digest:
        The plan's intent digest.
    where:
        What to call the plan in the message, its table's URI say.
    """
    found = covering(digest, approvals, today=today)
    if found is not None:
        return found
    ended = [each for each in approvals if each.judge(digest, today=today) == "expired"]
    if ended:
        last = max(ended, key=lambda each: each.until)
        what = f"the approval of {last.approver} ended on {last.until}"
    elif approvals:
        count = len(approvals)
        what = f"no approval names this plan's digest; {count} {'names' if count == 1 else 'name'} other plans"
    else:
        what = "the plan is not approved"
    raise PermitMissing(
        what,
        where=where or f"plan {digest[:12]}",
        hint=f"have it approved: a file NAME{SUFFIXES[0]} with plan: {digest}, approver: and until:",
    )


def approval_schema() -> dict[str, Any]:
    """The JSON Schema of an approval, for editors."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Approval).json_schema()
    schema["properties"]["plan"]["pattern"] = "^[0-9a-f]{64}$"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
