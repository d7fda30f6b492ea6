"""The public calls: thin, typed fronts that load what a call needs when it is made.

Nothing here prints, exits or imports a table library before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeevolve.applying.apply import Application
    from lakeevolve.applying.lineage import Lineage
    from lakeevolve.avro.resolution import Resolution
    from lakeevolve.model.change import Change
    from lakeevolve.model.diff import Diff
    from lakeevolve.model.schema import Schema
    from lakeevolve.planning.adoption import Adoption
    from lakeevolve.planning.plan import Plan
    from lakeevolve.replaying.project import ReplayOutput
    from lakeevolve.replaying.result import ReplayResult
    from lakeevolve.rules.modes import Report
    from lakeevolve.rules.policy import Policy
    from lakeevolve.tables.base import Table
    from lakeevolve.tables.description import Description


def load(source: Any) -> Schema:
    """Load a schema: a source URI, a path, Avro JSON text, a dict or list, or a Schema.

    Raises :class:`~lakeevolve.errors.SourceError` or one of its kind.

    >>> load('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}').fields[0].name
    'id'
    """
    from lakeevolve.sources import load as load_source

    return load_source(source)


def diff(old: Any, new: Any, renames: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> Diff:
    """What changed between two schemas, as typed changes.

    ``renames`` are renames that the owner approves, (old path, new path); an alias in *new* needs none. A suspected
    rename is never a change: it stands in ``suggestions``.

    >>> a = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    >>> b = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    >>> [type(change).__name__ for change in diff(a, b).changes]
    ['PromoteType']
    """
    from lakeevolve.model.declared import check_renames
    from lakeevolve.model.diff import diff as compare
    from lakeevolve.model.renames import rename_pairs

    before, after, pairs = load(old), load(new), rename_pairs(renames)
    check_renames(pairs, after, [before])
    return compare(before, after, renames=pairs)


def apply_changes(changes: Sequence[Change], old: Any) -> Schema:
    """The schema that *old* becomes: ``apply_changes(diff(old, new).changes, old) == new``."""
    from lakeevolve.model.apply import apply_changes as run

    return run(changes, load(old))


def resolve(writer: Any, reader: Any, logical: Literal["check", "ignore"] = "check") -> Resolution:
    """Match a writer schema to a reader schema (Avro 1.12, "Schema Resolution").

    ``logical="ignore"`` treats logical types as Avro Java does: as their underlying types.

    >>> resolve('"int"', '"long"').compatible
    True
    """
    from lakeevolve.avro.resolution import resolve as match

    return match(load(writer), load(reader), logical)


def check(
    candidate: Any,
    history: Iterable[Any],
    mode: str = "BACKWARD",
    contracts: Sequence[Any] = (),
    policy: Policy | None = None,
    *,
    renames: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    not_renames: Sequence[tuple[str, str]] = (),
) -> Report:
    """Judge a candidate schema against the versions before it (oldest first).

    ``history`` holds sources, or is one itself: a folder of versions, ``git:REF:path@*`` and ``delta:PATH@*`` each
    name several.

    ``compatible`` is a matter of the mode alone; ``findings`` hold everything else too, each with every version that
    it concerns; ``rollout`` says who moves first.

    >>> old = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    >>> new = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    >>> check(new, [old]).compatible
    False
    """
    from lakeevolve.model.declared import check_renames
    from lakeevolve.model.renames import rename_pairs
    from lakeevolve.rules.modes import check as judge
    from lakeevolve.sources import expand
    from lakeevolve.sources import load as load_source

    sources = [history] if isinstance(history, str | Path) else history
    versions = [load_source(version, lenient=True) for source in sources for version in expand(source)]
    wanted, pairs = load(candidate), rename_pairs(renames)
    check_renames(pairs, wanted, versions)
    return judge(wanted, versions, mode, contracts, policy, renames=pairs, not_renames=not_renames)


def read_avro(path: str | Path, reader: Any = None, batch_size: int = 65_536) -> pa.RecordBatchReader:
    """Read an Avro object container file as Arrow, resolved to a reader schema, ``batch_size`` rows at a time."""
    from lakeevolve.avro.container import read_avro as read

    return read(path, None if reader is None else load(reader), batch_size=batch_size)


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema that a schema's rows have in memory."""
    from lakeevolve.avro.arrow import arrow_schema as convert

    return convert(load(schema))


def open_table(uri: Any, **options: Any) -> Table:
    """Open a live table: ``iceberg:CATALOG/ns.table[@SNAPSHOT]``, ``delta:PATH[@vN]`` or ``parquet:DIR``.

    ``options`` go to pyiceberg's catalog or to Delta's ``storage_options``; they never enter a plan or a log. A
    ``pyarrow.Table`` or ``pyarrow.dataset.Dataset`` may stand in place of a URI; what an evolution makes of it is then
    the table's ``arrow``.
    """
    from lakeevolve.tables import open_table as open_

    return open_(uri, **options)


def fill_defaults(schema: Any, data: Any) -> Any:
    """Rows with every field of a schema, the missing ones filled with their defaults: for producers, before an append.

    A reader of Avro data fills in what the writer left out; a table does not. Neither pyiceberg nor delta-rs applies a
    column's default when rows are appended, and what is left out is stored as NULL.

    Parameters
    ----------
    schema:
        The schema that the rows are written for, in any form that :func:`load` takes, or an open table.
    data:
        A ``pyarrow.Table`` or ``RecordBatch``. A column may go by an alias of its field. What is there is not touched,
        whatever its Arrow type; columns that no field owns come last.

    Returns
    -------
    pyarrow.Table or pyarrow.RecordBatch
        As *data* is, with the fields in the order of the schema. Missing fields are filled at every depth; a null
        record, list or map stays null.

    Raises
    ------
    ResolutionError
        A field is missing and has no default.

    Examples
    --------
    >>> import pyarrow as pa
    >>> fields = [{"name": "id", "type": "long"}, {"name": "country", "type": "string", "default": "US"}]
    >>> rows = pa.table({"id": [1, 2]})
    >>> fill_defaults({"type": "record", "name": "Order", "fields": fields}, rows).to_pylist()
    [{'id': 1, 'country': 'US'}, {'id': 2, 'country': 'US'}]
    """
    from lakeevolve.avro.arrow.fill import fill_defaults as run

    return run(load(schema.schema if hasattr(schema, "schema") else schema), data)


def describe(table: Table | str) -> Description:
    """What a table is, as data that can be saved: identity, schema, versions, features, counts."""
    from lakeevolve.tables.description import describe as make

    return make(open_table(table))


def adopt(
    tables: str | Sequence[str],
    against: str | Sequence[str],
    apply: bool = False,
    *,
    mode: str = "BACKWARD",
    until: date | None = None,
    approver: str = "",
) -> Adoption:
    """Find out what tables are that were never managed: which version of which schema, by their metadata alone.

    Parameters
    ----------
    tables:
        URIs or patterns: ``delta:lake/*``, ``iceberg:lake/shop.*``.
    against:
        Folders of schemas, or other sources, each a subject or several.
    apply:
        Write the markers of those that are a version exactly. No column and no row changes.
    mode:
        The compatibility mode of the schemas.
    until:
        The last day of the baseline; 90 days from now without it.
    approver:
        Who lets the baseline pass.

    Returns
    -------
    Adoption
        ``tables`` says of each its ``kind`` (exact, behind, ahead, conflicting, unmatched, managed, unreadable),
        ``subject``, ``version``, proposed ``mapping`` and ``foreign`` columns and ``baseline``; ``to_yaml()`` and
        ``save(path)`` give the proposal for review.

    Examples
    --------
    >>> adopt("delta:lake/*", "schemas").save("adoption.yaml")  # doctest: +SKIP
    """
    from lakeevolve.applying.adoption import record
    from lakeevolve.planning.adoption import adoption

    def listed(given: str | Sequence[str]) -> Sequence[str]:
        return [given] if isinstance(given, str) else given

    found = adoption(listed(tables), listed(against), mode=mode, until=until, approver=approver)
    return record(found) if apply else found


def plan(
    table: Table | Description | str,
    target: Any,
    mode: str = "BACKWARD",
    old_rows: str | Mapping[str, str] = "default",
    contracts: Sequence[Any] = (),
    policy: Policy | None = None,
    routes: Mapping[str, str] | None = None,
    *,
    renames: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    not_renames: Sequence[tuple[str, str]] = (),
    limits: Mapping[str, int] | None = None,
    pin: Literal["schema", "data"] = "schema",
    subject: str = "",
    mapping: Mapping[str, str] | None = None,
    foreign: Sequence[str] = (),
) -> Plan:
    """Plan how a table gets to a target schema; touches nothing. See :func:`lakeevolve.planning.make.plan`."""
    from lakeevolve.planning.make import plan as make

    return make(
        table,
        target,
        mode,
        old_rows,
        contracts,
        policy,
        routes,
        renames=renames,
        not_renames=not_renames,
        limits=limits,
        pin=pin,
        subject=subject,
        mapping=mapping,
        foreign=foreign,
    )


def load_plan(path: str | Path) -> Plan:
    """Read a saved plan; raises :class:`~lakeevolve.errors.PlanFormatError` where it is none or was edited."""
    from lakeevolve.planning.plan import load_plan as read

    return read(path)


def rebase(plan: Plan, table: Table | str | None = None) -> Plan:
    """Plan anew what a stale plan wanted, on top of what others changed since.

    The digest is the old one where nothing that was approved has changed. See
    :func:`lakeevolve.planning.rebase.rebase`.
    """
    from lakeevolve.planning.rebase import rebase as again

    return again(plan, table)


def apply(
    plan: Plan | str | Path,
    allow: Collection[str] = (),
    *,
    table: Table | None = None,
    engine: Any = None,
    resume: bool = False,
    dry_run: bool = False,
    progress: Callable[[Literal["check", "rewrite", "prove", "commit", "verify"], int, int], None] | None = None,
    approval: str | Path | None = None,
    require_idle: timedelta | None = None,
) -> Application:
    """Run a plan: proof, one commit with its marker, replay. See :func:`lakeevolve.applying.apply.apply`.

    ``approval`` is the file of an approval: if it does not cover the plan today,
    :class:`~lakeevolve.errors.PermitMissing` is raised, else the ledger names its approver.
    """
    from lakeevolve.applying.apply import apply as run

    word = None
    if approval is not None:
        from lakeevolve.config.approvals import load_approval, require
        from lakeevolve.planning.plan import Plan

        plan = plan if isinstance(plan, Plan) else load_plan(plan)
        word = require(plan.digest, [load_approval(approval)], where=plan.table["uri"])
    return run(
        plan,
        allow,
        table=table,
        engine=engine,
        resume=resume,
        dry_run=dry_run,
        progress=progress,
        approval=word,
        require_idle=require_idle,
    )


def rollback(
    table: Table | str,
    to: int,
    allow: Collection[str] = (),
    *,
    dry_run: bool = False,
    approval: str | Path | None = None,
) -> Application:
    """Put rows and schema back to an earlier version, unless that would lose rows (``allow={"lose-rows"}``).

    ``approval`` is the file of an approval of the digest that a dry run gives as its ``plan``: if it does not cover it
    today, :class:`~lakeevolve.errors.PermitMissing` is raised, else the ledger names its approver. See
    :func:`lakeevolve.applying.rollback.rollback`.
    """
    from lakeevolve.applying.rollback import rollback as go_back

    words = None
    if approval is not None:
        from lakeevolve.config.approvals import load_approval

        words = [load_approval(approval)]
    return go_back(table, to, allow, dry_run=dry_run, approvals=words)


def revert(plan: Plan | str | Path, table: Table | str | None = None) -> Plan:
    """Plan how to undo a plan on today's table, with every row that was written since; touches nothing.

    See :func:`lakeevolve.planning.rebase.revert`.
    """
    from lakeevolve.planning.plan import Plan
    from lakeevolve.planning.rebase import revert as undo

    return undo(plan if isinstance(plan, Plan) else load_plan(plan), table)


def verify(
    table: Table | str,
    against: Any = None,
    full: bool = False,
    columns: Literal["changed", "all"] = "changed",
    sample: int | None = None,
    readers: Sequence[str] = (),
    contracts: Sequence[Any] = (),
    engine: Any = None,
    *,
    mode: str | None = None,
) -> ReplayResult:
    """Compare what every row reads as with what the resolutions say. See :func:`lakeevolve.replaying.verify.verify`."""
    from lakeevolve.applying.proofs import proofs_of
    from lakeevolve.replaying.verify import verify as replay

    live = open_table(table)
    proofs = proofs_of(live) if full else ()
    return replay(live, against, full, columns, sample, readers, contracts, engine, mode=mode, evidence=proofs)


def replay(
    source: Any,
    contract: Any,
    out: str | Path,
    *,
    history: Sequence[Any] = (),
    since: int | None = None,
    quarantine: str | Path | None = None,
    keep_days: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> ReplayOutput:
    """Write the rows of a table or of Avro files as one consumer reads them, each with the version it came from.

    See :func:`lakeevolve.replaying.project.project`.
    """
    from lakeevolve.replaying.project import project

    return project(
        source,
        contract,
        out,
        history=history,
        since=since,
        quarantine=quarantine,
        keep_days=keep_days,
        options=options,
    )


def lineage(table: Table | str, at: datetime | str | None = None, columns: Mapping[str, str] | None = None) -> Lineage:
    """Where the rows of a table come from, now or at a moment. See :func:`lakeevolve.applying.lineage.lineage_of`."""
    from lakeevolve.applying.lineage import lineage_of

    return lineage_of(open_table(table), at, columns)
