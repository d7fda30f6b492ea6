"""Running a plan: preconditions, proof, one commit, and what is remembered of it.

Nothing reaches the table before everything is written and proved. Whatever fails before the commit leaves the table
as it was and deletes what was staged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from lakeevolve.applying import ledger
from lakeevolve.applying.application import Application, undo_of
from lakeevolve.applying.conversion import Conversion
from lakeevolve.applying.counted import Files
from lakeevolve.applying.interrupt import Landed, interrupted
from lakeevolve.applying.journal import Journal, Leftovers, clean
from lakeevolve.applying.proofs import SUFFIX
from lakeevolve.config.approvals import Approval
from lakeevolve.config.state import TableState, state_of
from lakeevolve.engines import Engine, open_engine
from lakeevolve.errors import (
    CommitConflict,
    ConfigError,
    LakeEvolveError,
    PartlyApplied,
    PermitMissing,
    PlanBlocked,
    PlanError,
    ReplayMismatch,
    StalePlan,
)
from lakeevolve.model.change import Change
from lakeevolve.model.sentence import told_change
from lakeevolve.planning.plan import Plan, Step, load_plan
from lakeevolve.planning.sound import refuse_unsound
from lakeevolve.planning.stale import differs, told_version
from lakeevolve.replaying.forward import protected
from lakeevolve.replaying.prove import check_preconditions, prove_staged
from lakeevolve.replaying.result import ReplayResult
from lakeevolve.replaying.verify import verify
from lakeevolve.rules.policy import OVER_LIMIT, over_limit
from lakeevolve.rules.table import unreadable
from lakeevolve.tables import open_table
from lakeevolve.tables.base import DataFile, Evolution, Route, Staged, Table, Version
from lakeevolve.tables.lineage import in_force
from lakeevolve.tables.marker import entry_of

__all__ = ["ATTEMPTS", "Application", "Phase", "Progress", "apply"]

#: How often apply lists the files again when a write raced a rewrite.
ATTEMPTS: Final = 3

Phase = Literal["check", "rewrite", "prove", "commit", "verify"]
Progress = Callable[[Phase, int, int], None]


def apply(
    plan: Plan | str | Path,
    allow: Collection[str] = (),
    *,
    table: Table | None = None,
    engine: Any = None,
    resume: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    approval: Approval | None = None,
    require_idle: timedelta | None = None,
) -> Application:
    """Run a plan against its table: proof first, then one commit that carries the marker, then a replay.

    Parameters
    ----------
    plan:
        A plan, or the path of a saved one.
    allow:
        The permits: ``rewrite``, ``backfill``, ``drop``, ``protocol-upgrade``.
    table:
        The open table, where it needs credentials; plans carry none. Else the plan's URI is opened.
    engine:
        Who writes, proves and verifies file by file: what :func:`lakeevolve.engines.open_engine` takes; by default
        threads. Only this process commits.
    resume:
        Continue an apply that stopped part-way.
    dry_run:
        Check staleness, permits and the data's preconditions, and stop before anything is written.
    progress:
        Called with the phase, the files done and the files in all; while files are rewritten these are numbers that
        know their bytes (:class:`~lakeevolve.applying.counted.Files`).
    approval:
        The approval that covers the plan, for the ledger. Whether one is needed is the caller's to say.
    require_idle:
        Do nothing unless the last write by others is at least so long ago.

    Raises
    ------
    StalePlan
        The table's schema, protocol or identity changed since the plan was made (exit 4).
    PlanBlocked, PermitMissing
        The plan is refused or needs a permit (exit 1).
    ReplayMismatch
        The proof failed (exit 5); the table is untouched.
    PartlyApplied
        Several commits were needed and not all landed (exit 6).

    Examples
    --------
    >>> apply("plan.json", allow={"backfill"})  # doctest: +SKIP
    """
    wanted = plan if isinstance(plan, Plan) else load_plan(plan)
    live = table if table is not None else open_table(wanted.table["uri"])
    live.refresh()
    live.leave_out(wanted.inputs.foreign)
    store = state_of(live.state.id)
    landed = live.progress_of(wanted.digest)
    if landed == "done":
        _refuse_gone_back(wanted, live)
        # A killed apply may have landed its plan and not have put its notes away.
        left = Leftovers() if dry_run else clean(store, live)
        return Application(wanted.digest, "already-applied", wanted.target_version, leftovers=left, state=live.state)
    if landed == "none":
        _refuse_stale(wanted, live)
    elif not resume:
        raise PartlyApplied(
            "an earlier apply of this plan stopped part-way", where=live.uri, hint="run apply again with --resume"
        )
    _refuse_blocked(wanted)
    if landed == "none":
        # What landed part-way carries this plan's digest, so its beginning was held against the table already.
        refuse_unsound(wanted, live)
    if wanted.empty:
        return Application(wanted.digest, "nothing-to-do", wanted.base_version, state=live.state)
    _refuse_unpermitted(wanted, allow)
    if require_idle is not None:
        _refuse_busy(live, require_idle)
    store.probe("journal")
    store.probe("ledger")
    live.resume(wanted.digest if landed == "partly" else None)
    try:
        with open_engine(engine) as opened:
            run = _Run(wanted, live, store, progress or (lambda *_: None), opened, approval)
            return run.run(dry_run, landed == "partly")
    finally:
        live.resume(None)


def _refuse_stale(plan: Plan, table: Table) -> None:
    if table.uri != plan.table["uri"] and table.state.id != plan.table["id"]:
        raise PlanError("the plan is for another table", where=plan.table["uri"], hint="make a plan for this table")
    reason = differs(plan, table.state)
    if reason is not None:
        newest = table.history(hint=plan.hint)[-1]
        moved = (newest.number, newest.digest) != (plan.base_version, plan.base_digest)
        winner = f": it is at {told_version(newest)}" if moved else ""
        raise StalePlan(
            f"the plan is stale: {reason}{winner}",
            where=plan.table["uri"],
            hint="lakeevolve plan --rebase PLAN makes it again on top of that",
        )


def _refuse_gone_back(plan: Plan, table: Table) -> None:
    versions = table.history()
    made = next(version.number for version in versions if version.plan == plan.digest)
    line = in_force(versions)
    if made not in line:
        raise StalePlan(
            f"the plan was applied as version {made}, and the table went back to version {line[0]} since",
            where=plan.table["uri"],
            hint="make the plan again",
        )


def _refuse_busy(table: Table, idle: timedelta) -> None:
    since = datetime.now(UTC) - idle
    late = [write for write in table.writes() if write.at is not None and write.at > since]
    if late:
        last = late[0]
        raise PlanBlocked(
            f"the table is in use: the last write ({last.by}, {last.operation}) was at "
            f"{last.at:%Y-%m-%d %H:%M:%S} UTC, less than {idle} ago",
            where=table.uri,
            hint="apply when its writers pause, or leave out --require-idle",
        )


def refuse_plan(plan: Plan, allow: Collection[str]) -> None:
    """Refuse a plan for what it says itself: what cannot be run, its findings, and permits that were not given.

    Raises ``PlanBlocked`` or ``PermitMissing`` (exit 1).
    """
    _refuse_blocked(plan)
    _refuse_unpermitted(plan, allow)


def _refuse_blocked(plan: Plan) -> None:
    uri = plan.table["uri"]
    stopped = [step for step in plan.steps if step.route in ("refuse", "external")]
    if stopped:
        first = stopped[0]
        raise PlanBlocked(
            f"{len(stopped)} of {_counted(len(plan.steps), 'step')} cannot be run here; the first: {_told(first)}",
            where=f"{uri}, {first.changes[0].path or '$'}" if first.changes else uri,
            hint="lakeevolve show PLAN lists them all",
        )
    if plan.failures:
        found = plan.failures[0]
        raise PlanBlocked(
            f"{_counted(len(plan.failures), 'finding')} against the plan; the first: {found.rule}, {found.message}",
            where=f"{uri}, {found.path or '$'}",
            hint=f"{found.fix}; or plan with another mode, or waive the finding" if found.fix else "mend the schema",
        )


def _told(step: Step) -> str:
    return f"{told_change(step.changes[0])}: {step.reason}" if step.changes else step.reason


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _refuse_unpermitted(plan: Plan, allow: Collection[str]) -> None:
    missing = sorted(plan.permits - set(allow))
    if not missing:
        return
    needs = []
    for permit in missing:
        places = dict.fromkeys(c.path or "$" for step in plan.steps if permit in step.permits for c in step.changes)
        needs.append(f"{permit} ({', '.join(places)})")
    raise PermitMissing(
        "the plan needs a permit that was not given: " + "; ".join(needs),
        where=plan.table["uri"],
        hint="if that is meant: " + " ".join(f"--allow {permit}" for permit in missing),
    )


@dataclass
class _Run:
    """One apply of one plan."""

    plan: Plan
    table: Table
    store: TableState
    progress: Progress
    engine: Engine
    approval: Approval | None
    leftovers: Leftovers = field(default_factory=Leftovers)
    journal: Journal = field(init=False)

    def run(self, dry_run: bool, started: bool) -> Application:
        if dry_run:
            return self._attempts(dry_run, started)
        self.leftovers = clean(self.store, self.table)
        self.journal = Journal(self.store, self.plan.digest, self.table.uri)
        try:
            return self._attempts(dry_run, started)
        except PartlyApplied:
            raise
        except KeyboardInterrupt as stop:
            landed = self._landed()
            if landed == "none":
                self.journal.end()
            raise interrupted(self.table.uri, landed) from stop
        except BaseException:
            if self._landed() == "none":
                self.journal.end()
            raise

    def _landed(self) -> Landed | None:
        """How far the plan got, by the table's own word; None where the table cannot be asked now."""
        try:
            self.table.refresh()
            return self.table.progress_of(self.plan.digest)
        except LakeEvolveError:
            return None

    def _attempts(self, dry_run: bool, started: bool) -> Application:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(dry_run)
            except CommitConflict as conflict:
                self.table.refresh()
                landed = self.table.progress_of(self.plan.digest)
                if landed == "done":
                    return self._finish(None, 0)
                if landed == "partly":
                    raise PartlyApplied(
                        "apply stopped part-way: another writer committed in between",
                        where=self.table.uri,
                        hint="run apply again with --resume",
                    ) from conflict
                if not started:
                    _refuse_stale(self.plan, self.table)
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _once(self, dry_run: bool) -> Application:
        versions = self.table.history(hint=self.plan.hint)
        if versions[-1].digest != self.plan.base_digest and self.table.progress_of(self.plan.digest) == "none":
            raise StalePlan(
                "the plan is stale: the table's schema is not the one it starts from",
                where=self.table.uri,
                hint="make the plan again",
            )
        after = self._version(versions)
        chain = (*versions[: after.number - 1], after)
        files = self.table.files(hint=self.plan.hint)
        self._hold_to_limits(self.table.must_rewrite(self._changes(), files, self.plan.fills))
        # Files that came after a first commit of the plan are of the version that it makes.
        self._check_data(tuple(file for file in files if file.version < after.number or not self.plan.changes))
        if dry_run:
            return Application(self.plan.digest, "dry-run", self.plan.base_version, state=self.table.state)
        evolution = self._evolution(chain, versions[-1], files)
        staged = self.table.stage(evolution)
        try:
            # Staging has proved on the schema what can be, where no row can be read.
            unread = unreadable(self.table.findings())
            proof = None if unread else self._prove(staged, evolution, chain, files)
            # Whoever listens may stop here, and nothing is sent yet.
            self.progress("commit", 0, 1)
        except BaseException:
            self._abandon(staged)
            raise
        try:
            self.table.commit(staged, tuple(entry_of(version) for version in chain))
        except BaseException:
            # Asked anew: what this handle knows may be older than a commit that landed just now, and the files of
            # such a commit are live. Where nobody can tell, the files stay.
            if self._landed() == "none":
                self._abandon(staged)
            raise
        self.progress("commit", 1, 1)
        return self._finish(proof, len(evolution.rewrite))

    def _version(self, versions: tuple[Version, ...]) -> Version:
        if not self.plan.changes:
            # Nothing but the marker: the version that the table has is recorded as it is.
            return replace(versions[-1], plan=self.plan.digest)
        return Version(
            number=versions[-1].number + 1,
            schema=self.plan.target,
            plan=self.plan.digest,
            fills=self.plan.fills,
            renames=self.plan.renames,
            routes={change.path: step.route for step in self.plan.steps for change in step.changes},
        )

    def _check_data(self, files: tuple[DataFile, ...]) -> None:
        checked = self.plan.checks
        if not checked:
            return
        broken = check_preconditions(
            self.table,
            checked,
            files,
            target=self.plan.target,
            hint=self.plan.hint,
            renames=self.plan.renames,
            fills=self.plan.fills,
            progress=lambda done, of: self.progress("check", done, of),
        )
        if broken:
            raise PlanBlocked(
                f"the rows stand against the plan at {_counted(len(broken), 'place')}; the first: {broken[0].message}",
                where=f"{self.table.uri}, {broken[0].where}",
                hint=broken[0].way_out,
            )

    def _evolution(self, chain: tuple[Version, ...], before: Version, files: tuple[DataFile, ...]) -> Evolution:
        changes = self._changes()
        rewrite = self.table.must_rewrite(changes, files, self.plan.fills)

        every, done = Files(len(rewrite), sum(file.bytes for file in rewrite)), Files(0, 0)

        def written(file: DataFile) -> None:
            nonlocal done
            done = Files(done + 1, done.bytes + file.bytes)
            self.progress("rewrite", done, every)

        return Evolution(
            base=before.schema,
            target=self.plan.target,
            changes=changes,
            renames=self.plan.renames,
            fills=self.plan.fills,
            rewrite=rewrite,
            convert=Conversion(self.table, chain, self.plan.hint),
            progress=written,
            writing=self.journal.writing,
            engine=self.engine,
        )

    def _changes(self) -> list[tuple[Change, Route]]:
        return [(change, step.route) for step in self.plan.steps for change in step.changes]

    def _hold_to_limits(self, rewrite: Sequence[DataFile]) -> None:
        uri, stored = self.plan.table["uri"], sum(file.bytes for file in rewrite)
        found = list(over_limit(self.plan.inputs.limits, len(rewrite), stored, uri))
        if found and not any(f.waived for f in self.plan.findings if f.rule == OVER_LIMIT.id):
            raise PlanBlocked(found[0].message, where=uri, hint=found[0].fix)

    def _prove(
        self,
        staged: Staged,
        evolution: Evolution,
        chain: tuple[Version, ...],
        files: tuple[DataFile, ...],
    ) -> ReplayResult:
        proof = prove_staged(
            self.table,
            staged,
            evolution,
            chain,
            files,
            protects=self._promised(chain),
            hint=self.plan.hint,
            engine=self.engine,
            progress=lambda done, of: self.progress("prove", done, of),
        )
        if not proof.ok:
            first = proof.mismatches[0] if proof.mismatches else None
            if first is not None and first.kind == "unreadable":
                hint = "the table is untouched; mend or restore what cannot be read, then apply again"
            else:
                hint = "the table is untouched; report this with the plan, it is a defect of lakeevolve or of a library"
            raise ReplayMismatch(
                f"the proof before the commit failed, so nothing was committed: {first or 'see the evidence'}",
                where=self.table.uri,
                hint=hint,
            )
        return proof

    def _promised(self, chain: tuple[Version, ...]) -> list[Version]:
        """The versions whose readers the mode promises something, but for those whose breaking is waived."""
        waived = {number for finding in self.plan.findings if finding.waived for number in finding.versions}
        return [each for each in protected(self.plan.mode, chain) if each.number not in waived]

    def _abandon(self, staged: Staged) -> None:
        self.journal.forget(staged.abandon())

    def _keep(self, version: int, proof: ReplayResult | None, replay: ReplayResult | None) -> str | Path | None:
        """Write what proves the plan, the plan itself and its ledger entry, and close the journal; return where the
        evidence lies, if there is any."""
        name = f"{version}-{self.plan.digest}"
        try:
            evidence = None if replay is None else self.store.write("evidence", name, replay.evidence.to_json())
            if proof is not None:
                self.store.write("evidence", name + SUFFIX, proof.evidence.to_json())
            self.store.write("plans", self.plan.digest, self.plan.to_json(), once=True)
            ledger.record(self.store, self.plan, self.table, replay=replay, approval=self.approval)
            if proof is not None:
                self.journal.forget()
            self.journal.end()
        except ConfigError as error:
            if error.what.startswith("the plan is applied"):
                raise
            raise ConfigError(
                f"the plan is applied, and its evidence was not written: {error.what}",
                where=error.where,
                hint="the table is as planned; when the state can be written: lakeevolve verify, and history --rebuild",
            ) from error
        return evidence

    def _finish(self, proof: ReplayResult | None, rewritten: int) -> Application:
        self.table.refresh()
        unread = unreadable(self.table.findings())
        replay = None
        if not unread:
            replay = verify(
                self.table,
                engine=self.engine,
                since=self.plan.base_version,
                progress=lambda done, of: self.progress("verify", done, of),
            )
        version = self.table.history()[-1].number
        evidence = self._keep(version, proof, replay)
        return Application(
            self.plan.digest,
            "applied",
            version,
            rewritten,
            proof,
            replay,
            evidence,
            undo=undo_of(self.table, self.plan.base_version) if version != self.plan.base_version else None,
            leftovers=self.leftovers,
            state=self.table.state,
            findings=unread,
        )
