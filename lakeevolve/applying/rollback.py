"""Going back: rows and schema as they were at an earlier version, unless that would lose rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeevolve.applying import ledger
from lakeevolve.applying.application import Application
from lakeevolve.config.approvals import Approval, require
from lakeevolve.config.state import state_of
from lakeevolve.errors import ConfigError, LakeEvolveError, PermitMissing, PlanError, TableError
from lakeevolve.model.digest import json_digest
from lakeevolve.replaying import digests
from lakeevolve.replaying.digests import Sum
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.sides import RAW_READER, Job, Unreadable, expected_rows
from lakeevolve.replaying.verify import verify
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.table import REVERT_LOSES, unreadable
from lakeevolve.tables import open_table
from lakeevolve.tables.base import DataFile, MarkerEntry, Table, Version
from lakeevolve.tables.lineage import in_force
from lakeevolve.tables.marker import entry_of

PERMIT: Final = "lose-rows"


@dataclass(frozen=True, slots=True)
class Written:
    """What others did to the rows while a version was in force: live rows before and after, and files that came."""

    version: int
    before: int
    after: int
    files: int

    @property
    def told(self) -> str:
        return (
            f"at version {self.version} others changed rows ({self.before:,} rows then, {self.after:,} later, "
            f"{self.files:,} files written)"
        )


def rollback(
    table: Table | str,
    to: int,
    allow: Collection[str] = (),
    *,
    engine: Any = None,
    dry_run: bool = False,
    approvals: Sequence[Approval] | None = None,
) -> Application:
    """Put a table's rows and schema back to what they were when a version was last in force.

    The history goes on: the table gets a new version, which is the old one again. Old snapshots and versions stay as
    long as the format keeps them.

    Parameters
    ----------
    table:
        An open table, or its URI.
    to:
        The number of the version, as ``lakeevolve history`` lists it.
    allow:
        ``lose-rows``, where rows that were written since may go, and rows that were deleted since may come back.
    dry_run:
        Say whether it would be done, and do nothing.
    approvals:
        Those that are there: nothing is done unless one of them covers the digest that a dry run gives as its ``plan``,
        and the ledger names its approver. None: no approval is asked for.

    Returns
    -------
    Application
        Of the status ``rolled-back``, ``nothing-to-do`` or ``dry-run``. ``plan`` is the digest of going back to this
        version from the one that the table has.

    Raises
    ------
    PlanError
        The table has no such version.
    PermitMissing
        Rows would be lost or come back (exit 1); :func:`lakeevolve.revert` keeps them.
    TableError
        What the version needs is no longer there: its snapshot was expired, or its files vacuumed.
    CommitConflict
        Another writer was faster; nothing was changed (exit 4).

    Examples
    --------
    >>> rollback("delta:lake/orders", to=1)  # doctest: +SKIP
    """
    live = open_table(table) if isinstance(table, str) else table
    live.refresh()
    versions = live.history()
    newest = versions[-1]
    if isinstance(to, bool) or not isinstance(to, int) or not 1 <= to <= newest.number:
        raise PlanError(
            f"the table has no version {to}",
            where=live.uri,
            hint=f"its versions are 1 to {newest.number}; lakeevolve history lists them",
        )
    if in_force(versions)[0] == in_force(versions[:to])[0]:
        return Application("", "nothing-to-do", newest.number, state=live.state)
    position = live.around(versions[to])[0]
    back = _back(live, versions, to)
    digest = back.plan or ""
    approval = None if approvals is None or dry_run else require(digest, approvals, where=live.uri)
    lost = _lost(live, versions, to, allow)
    if dry_run:
        return Application(digest, "dry-run", newest.number, state=live.state)
    store = state_of(live.state.id)
    store.probe("evidence")
    store.probe("ledger")
    live.restore(position, [*(entry_of(version) for version in versions), back])
    live.refresh()
    unread = unreadable(live.findings())
    replay = None if unread else verify(live, engine=engine)
    try:
        name = f"{back.number}-{back.plan}"
        evidence = None if replay is None else store.write("evidence", name, replay.evidence.to_json())
        ledger.record(store, None, live, replay=replay, approval=approval, found=lost)
    except ConfigError as error:
        raise ConfigError(
            f"the table went back, and its evidence was not written: {error.what}",
            where=error.where,
            hint=f"when the state can be written: lakeevolve history {live.uri} --rebuild",
        ) from error
    return Application(
        digest,
        "rolled-back",
        back.number,
        replay=replay,
        evidence=evidence,
        state=live.state,
        findings=unread,
    )


def _back(live: Table, versions: Sequence[Version], to: int) -> MarkerEntry:
    # What a version that went back itself was, which has the files.
    to = in_force(versions[:to])[0]
    number, target = versions[-1].number + 1, versions[to - 1]
    return MarkerEntry(
        number=number,
        schema=target.schema.to_json(),
        digest=target.digest,
        plan=json_digest({"rollback": to, "table": live.state.id, "from": versions[-1].number}),
        origin={"restores": to},
        fills={},
        renames={},
        routes={},
    )


def _lost(live: Table, versions: Sequence[Version], to: int, allow: Collection[str]) -> list[Finding]:
    """What going back loses, which has to be allowed."""
    unknown = set(allow) - {PERMIT}
    if unknown:
        raise PlanError(
            f"{', '.join(sorted(unknown))} is no permit of a rollback", where=live.uri, hint=f"the only one is {PERMIT}"
        )
    try:
        told = [each.told for each in written_since(live, versions, to)]
    except LakeEvolveError as error:
        if PERMIT not in allow:
            raise TableError(
                f"whether rows would be lost cannot be told: {error.what}",
                where=error.where or live.uri,
                hint=f"revert the plan, which keeps all rows; or --allow {PERMIT}",
            ) from error
        told = ["whether rows are lost could not be told"]
    if told and PERMIT not in allow:
        raise PermitMissing(
            "going back would lose rows that were written since, or bring back deleted ones: " + "; ".join(told),
            where=live.uri,
            hint=f"revert the plan, which keeps all rows; or, if that is meant: --allow {PERMIT}",
        )
    return [REVERT_LOSES.finding("", "rows", None, each, subject=live.uri) for each in told]


def written_since(live: Table, versions: Sequence[Version], to: int) -> tuple[Written, ...]:
    """What others did to the rows after the version that followed *to* came into force, version by version.

    Files that were compacted hold the same rows, and are nothing.
    """
    found = []
    for version in versions[to:]:
        start = live.around(version)[1]
        is_last = version is versions[-1]
        end = live.state.position if is_last else live.around(versions[version.number])[0]
        if start == end:
            continue
        before, after = _files(live, start), _files(live, end)
        if before.keys() == after.keys():
            continue
        folds = Folds(versions[: version.number])
        one, two = _rows(live, folds, before.values()), _rows(live, folds, after.values())
        if one != two:
            found.append(Written(version.number, one.count, two.count, len(after.keys() - before.keys())))
    return tuple(found)


def _files(live: Table, position: int | None) -> dict[tuple[Any, ...], DataFile]:
    """The live files at a position, each by its path and what is deleted from it."""
    if position is None:
        return {}
    return {(file.path, *_deletes(file.handle)): file for file in live.files(position)}


def _deletes(handle: Any) -> tuple[Any, ...]:
    # Iceberg names delete files, Delta a vector; neither module's type is known here.
    deletes = getattr(handle, "deletes", ())
    return (tuple(str(each.file_path) for each in deletes), str(getattr(handle, "vector", None) or ""))


def _rows(live: Table, folds: Folds, files: Collection[DataFile]) -> Sum:
    job = Job(folds, live.raw, live.read, RAW_READER, True)
    total = Sum()
    for file in files:
        try:
            for rows in expected_rows(job, file):
                total += Sum.of(digests.row_digests(rows.batch))
        except Unreadable as error:
            raise TableError(error.mismatch.reason, where=file.path) from error
    return total
