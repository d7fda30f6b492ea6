"""Tables that were never managed: which subject and version each is, and what is to be said of it in lakeevolve.yaml.

Nothing is changed and no row is read. What a table shows today against the newest version becomes a baseline: waivers
that end, so that a check in CI fails on what is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from lakeevolve.config.project import Project, TableOptions
from lakeevolve.errors import ConfigError, LakeEvolveError
from lakeevolve.model.mapping import columns_of
from lakeevolve.planning.candidates import Candidate, candidates
from lakeevolve.planning.fit import Fit, best_fit
from lakeevolve.planning.make import make
from lakeevolve.planning.mapped import in_columns
from lakeevolve.planning.plan import Inputs
from lakeevolve.planning.project import contracts_of, policy_of
from lakeevolve.redaction import public_uri, without_secrets
from lakeevolve.rules.findings import Finding, finding_from_json
from lakeevolve.rules.policy import Policy
from lakeevolve.tables import open_table
from lakeevolve.tables.base import Table
from lakeevolve.tables.listing import list_tables

Kind = Literal["exact", "behind", "ahead", "conflicting", "unmatched", "managed", "unreadable"]
#: In the order in which they are told.
KINDS: Final[tuple[Kind, ...]] = ("exact", "behind", "ahead", "conflicting", "unmatched", "managed", "unreadable")
#: What a marker may be written for.
RECORDED: Final = ("exact", "behind")

#: For how long a baseline holds where nobody says.
BASELINE: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Adopted:
    """What one table was found to be.

    ``version`` counts from 1, ``newest`` is how many the subject has. ``baseline`` are the findings that a plan of the
    newest version has against it today. ``status`` says what became of its marker, once one was asked for.
    """

    uri: str
    kind: Kind
    subject: str | None = None
    version: int | None = None
    newest: int | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    baseline: tuple[Finding, ...] = ()
    status: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "table": public_uri(self.uri),
            "class": self.kind,
            "subject": self.subject,
            "version": self.version,
            "newest": self.newest,
            "mapping": dict(self.mapping),
            "foreign": list(self.foreign),
            "reasons": list(self.reasons),
            "baseline": [finding.to_json() for finding in self.baseline],
            "status": self.status,
        }


def _from_json(uri: str, record: Mapping[str, Any]) -> Adopted:
    return Adopted(
        uri,
        record["class"],
        record["subject"],
        record["version"],
        record["newest"],
        record["mapping"],
        tuple(record["foreign"]),
        tuple(record["reasons"]),
        tuple(map(finding_from_json, record["baseline"])),
        record["status"],
    )


@dataclass(frozen=True, slots=True)
class Adoption:
    """All tables that were looked at, and the subjects that they were held against. The baseline ends with ``until``;
    ``approver`` says who lets it pass."""

    tables: tuple[Adopted, ...]
    lines: tuple[Candidate, ...] = field(repr=False)
    until: date
    approver: str

    def to_json(self) -> dict[str, Any]:
        return {
            "format_version": "1.0",
            "until": self.until.isoformat(),
            "tables": [each.to_json() for each in self.tables],
        }

    def to_yaml(self, folder: str | Path = ".") -> str:
        """The proposal, a ``lakeevolve.yaml`` by itself whose paths are relative to *folder*."""
        from lakeevolve.planning.proposal import proposal

        return proposal(self, Path(folder))

    def save(self, path: str | Path) -> Path:
        """Write the proposal, never over a file that somebody may have edited."""
        target = Path(path)
        try:
            with target.open("x", encoding="utf-8") as out:
                out.write(self.to_yaml(target.parent))
        except FileExistsError as error:
            raise ConfigError(
                "the file is there already", where=str(target), hint="name another one with --out, or take it away"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"the proposal cannot be written: {error.strerror}", where=str(target), hint="choose a writable path"
            ) from error
        return target

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from importlib import import_module

        return str(import_module("lakeevolve.report.notebook").shown(self))


def adoption(
    tables: Iterable[str] = (),
    against: Iterable[str] = (),
    *,
    project: Project | None = None,
    mode: str = "BACKWARD",
    until: date | None = None,
    approver: str = "",
    notes: str | Path | None = None,
    open_: Callable[[str], Table] = open_table,
    list_: Callable[[str], tuple[str, ...]] = list_tables,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Adoption:
    """Find out what each table is. Reads metadata alone.

    Parameters
    ----------
    tables:
        URIs or patterns of tables; nothing stands for those of the project's subjects.
    against:
        What to hold them against, see :func:`lakeevolve.planning.candidates.candidates`.
    project:
        The project whose subjects, options and policy hold.
    mode:
        The compatibility mode of subjects that no project knows.
    until:
        The last day of the baseline; 90 days from now without it.
    approver:
        Who lets the baseline pass.
    notes:
        A file that keeps what was looked at until the end, so that a run that stopped is continued.
    progress:
        Called with how many tables were looked at, and how many there are.

    Raises
    ------
    SourceNotFound, TableNotFound
        There is no schema to hold tables against, or no table.
    """
    lines = candidates(against, project)
    uris = _uris(tables, lines, project, list_)
    seen = _Notes(notes, lines)
    found: list[Adopted] = []
    for uri in uris:
        progress(len(found), len(uris))
        known = seen.get(uri)
        if known is None:
            known = _attempt(uri, lines, project, mode, open_)
            seen.add(known)
        found.append(known)
    progress(len(uris), len(uris))
    seen.end()
    return Adoption(tuple(found), lines, until or date.today() + BASELINE, approver or "adopt")


def _uris(
    tables: Iterable[str],
    lines: Sequence[Candidate],
    project: Project | None,
    list_: Callable[[str], tuple[str, ...]],
) -> list[str]:
    wanted = list(tables)
    if wanted:
        return list(dict.fromkeys(uri for each in wanted for uri in list_(each)))
    owned = [uri for line in lines if line.subject is not None for uri in line.subject.tables]
    if project is None or not owned:
        raise ConfigError(
            "no table is named", where="lakeevolve.yaml", hint="name tables, as in lakeevolve adopt 'delta:lake/*'"
        )
    return [project.located(uri) for uri in owned]


def _attempt(
    uri: str, lines: Sequence[Candidate], project: Project | None, mode: str, open_: Callable[[str], Table]
) -> Adopted:
    try:
        return _look(uri, lines, project, mode, open_)
    except LakeEvolveError as error:
        return Adopted(uri, "unreadable", reasons=("; ".join(error.lines()),))
    except Exception as error:
        # A library's text may hold row values, so only the type of what happened is told.
        without_secrets(error)
        return Adopted(uri, "unreadable", reasons=(f"an unexpected {type(error).__name__}",))


def _look(
    uri: str, lines: Sequence[Candidate], project: Project | None, mode: str, open_: Callable[[str], Table]
) -> Adopted:
    live = open_(uri)
    options = TableOptions() if project is None else project.options(uri)
    fit = best_fit(live, _lines_of(uri, lines, project), mapping=options.mapping, foreign=options.foreign)
    if live.history(hint=None if fit is None else fit.hint)[-1].recorded:
        return Adopted(uri, "managed", reasons=("its marker is there already",))
    if fit is None:
        return Adopted(uri, "unmatched", reasons=("no schema shares a column with it",))
    if fit.kind == "unmatched":
        return Adopted(uri, "unmatched", reasons=tuple(fit.reasons()))
    return Adopted(
        uri,
        fit.kind,
        fit.candidate.name,
        fit.version,
        len(fit.candidate.versions),
        fit.mapping,
        fit.foreign,
        tuple(fit.reasons()),
        _baseline(live, fit, options, project, mode),
    )


def _lines_of(uri: str, lines: Sequence[Candidate], project: Project | None) -> Sequence[Candidate]:
    """The subject that the project's file says the table is of, or all."""
    if project is None:
        return lines
    own = [line for line in lines if line.subject and uri in map(project.located, line.subject.tables)]
    return own or lines


def inputs_of(fit_subject: Candidate, project: Project | None) -> Inputs:
    """What a plan for a table of the subject is told by the project."""
    subject = fit_subject.subject
    if project is None or subject is None:
        return Inputs(subject=fit_subject.name)
    return Inputs(
        renames=tuple(subject.renames.items()),
        not_renames=subject.not_renames,
        contracts=contracts_of(project, subject),
        policy=policy_of(project),
        subject=fit_subject.name,
    )


def _baseline(live: Table, fit: Fit, options: TableOptions, project: Project | None, mode: str) -> tuple[Finding, ...]:
    """What fails in a plan of the newest version, as the proposal would have it planned."""
    wanted, inputs = fit.candidate.newest, inputs_of(fit.candidate, project)
    old_rows = options.old_rows or "default"
    if fit.mapping:
        columns = columns_of(fit.mapping, wanted)
        wanted, inputs = columns.schema(wanted), in_columns(inputs, columns)
    subject = fit.candidate.subject
    own = options.mode or (subject.mode if subject is not None else mode)
    made = make(live, wanted, own, old_rows, replace(inputs, foreign=fit.foreign))
    return tuple(finding for finding in made.findings if _fails(finding, inputs.policy))


def _fails(finding: Finding, policy: Policy) -> bool:
    return policy.fails(finding.severity) and not finding.waived


class _Notes:
    """What was looked at before a run stopped: a line of JSON for each table, for the same schemas."""

    def __init__(self, path: str | Path | None, lines: Sequence[Candidate]) -> None:
        self._path = None if path is None else Path(path)
        digests = "".join(schema.digest for line in lines for schema in line.versions)
        self._head = hashlib.sha256(digests.encode()).hexdigest()
        self._known: dict[str, Mapping[str, Any]] = {}
        if self._path is not None:
            self._read(self._path)

    def _read(self, path: Path) -> None:
        try:
            head, *rest = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            head, rest = "", []
        if head != self._head:
            self._write(path, self._head, "w")
            return
        for line in rest:
            try:
                record = json.loads(line)
                self._known[record["key"]] = record
            except (ValueError, KeyError, TypeError):
                # The run was killed while it wrote this line.
                continue

    def _write(self, path: Path, text: str, how: Literal["w", "a"]) -> None:
        try:
            with path.open(how, encoding="utf-8") as out:
                out.write(text + "\n")
        except OSError as error:
            raise ConfigError(
                f"the notes of the run cannot be written: {error.strerror}",
                where=str(path),
                hint="choose a writable path with --out",
            ) from error

    def get(self, uri: str) -> Adopted | None:
        try:
            return _from_json(uri, self._known[_key(uri)])
        except (LakeEvolveError, KeyError, TypeError):
            return None

    def add(self, found: Adopted) -> None:
        # What could not be read may be there the next time.
        if self._path is not None and found.kind != "unreadable":
            self._write(self._path, json.dumps({**found.to_json(), "key": _key(found.uri)}), "a")

    def end(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _key(uri: str) -> str:
    # A URI may hold a credential, which no file is to keep.
    return hashlib.sha256(uri.encode()).hexdigest()


def by_subject(found: Iterable[Adopted]) -> Iterator[tuple[str, list[Adopted]]]:
    """The tables that are of a subject, by its name, in the order of the tables."""
    groups: dict[str, list[Adopted]] = {}
    for each in found:
        if each.subject is not None:
            groups.setdefault(each.subject, []).append(each)
    yield from groups.items()
