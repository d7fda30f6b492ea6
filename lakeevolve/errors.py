"""Every exception that lakeevolve raises, in one tree.

::

    LakeEvolveError
    ├── SourceError            a schema or table could not be read from where it was said to be
    │   ├── SchemaError        it was read, and is not a valid Avro schema
    │   ├── SourceNotFound     nothing is there
    │   └── UnknownScheme      the URI names a kind of source that does not exist
    ├── ConfigError            lakeevolve.yaml, an option or the state folder is unusable
    │   ├── InvalidConfig      a file of ours holds faults; all of them are told together
    │   └── StateUnavailable   the store of the state did not answer
    ├── ResolutionError        data cannot be read with the reader schema
    │   └── ValueMismatch      the schemas allow it, one row's value does not
    ├── TableError             a table refused, failed or is in a state that cannot be handled
    │   ├── TableNotFound      no table under that URI
    │   ├── CatalogUnavailable the catalog or the store did not answer
    │   ├── UnsupportedTable   the table uses a feature that lakeevolve does not handle
    │   └── CommitConflict     another writer committed first; nothing of ours landed
    ├── PlanError              a plan cannot be read, is not of this table, or is not applicable
    │   ├── PlanFormatError    not a plan, edited by hand, or of another format version
    │   ├── PlanBlocked        the plan holds refused steps or findings that fail it
    │   ├── StalePlan          the table has changed since the plan was made
    │   └── PermitMissing      a step needs a permit that was not given
    ├── EngineError            who was to do the heavy work (processes, a cluster) could not
    ├── ReplayMismatch         what the table reads is not what the resolutions say
    └── PartlyApplied          apply stopped part-way; the journal is kept
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

#: Exit codes from the one that counts most: of several results, a command exits with the first of these that occurs.
#: Interrupted; stopped part-way; data that reads wrong; could not run; stale; findings; changes; done.
PRECEDENCE: Final = (130, 6, 5, 2, 4, 1, 3, 0)

_Text = TypeVar("_Text", str, str | None)


def _shown(text: _Text) -> _Text:
    """The text without credentials. Most texts can hold none, and then nothing is loaded for them."""
    if text is None or (":/" not in text and "?" not in text):
        return text
    from lakeevolve.redaction import redact

    return redact(text)


def _lines(what: str, where: str | None, hint: str | None) -> tuple[str, ...]:
    found = [what]
    if where is not None:
        found.append(f"at: {where}")
    if hint is not None:
        found.append(f"next: {hint}")
    return tuple(" ".join(line.split()) for line in found)


def worst(codes: Iterable[int]) -> int:
    """The exit code of several results together; 0 for none.

    >>> worst([0, 1, 5, 2])
    5
    """
    return min(codes, key=PRECEDENCE.index, default=0)


class LakeEvolveError(Exception):
    """Base of every error raised on purpose.

    Parameters
    ----------
    what:
        What happened, in one sentence without a full stop.
    where:
        The path, file, row or URI concerned. Never a row value, never a credential.
    hint:
        What to do next.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        # Whoever raises need not think of what a URI or a library's text may hold.
        what, where, hint = _shown(what), _shown(where), _shown(hint)
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return self.what if self.where is None else f"{self.what} ({self.where})"

    def lines(self) -> tuple[str, ...]:
        """The error as at most three lines: what, where, what next."""
        return _lines(self.what, self.where, self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        # Raised in another process it arrives as it was, whatever its class takes to be made.
        return _again, (type(self), self.args), dict(self.__dict__)


def _again(kind: type[LakeEvolveError], args: tuple[Any, ...]) -> LakeEvolveError:
    made = kind.__new__(kind)
    made.args = args
    return made


class SourceError(LakeEvolveError):
    """A schema or table could not be read from where it was said to be."""


class SchemaError(SourceError):
    """The text is not a valid Avro schema; ``where`` holds the JSON path."""


class SourceNotFound(SourceError):
    """Nothing is there: a missing file, revision, subject or version."""


class UnknownScheme(SourceError):
    """The URI names a kind of source that lakeevolve does not know."""


class ConfigError(LakeEvolveError):
    """lakeevolve.yaml, an option or the state folder is unusable."""


class InvalidConfig(ConfigError):
    """A file that people write for lakeevolve holds faults, which are told together.

    ``faults`` holds one text for each, ``file:line: what is wrong``.
    """

    def __init__(self, file: str, faults: Sequence[tuple[int, str, str | None]]) -> None:
        line, what, hint = faults[0]
        count = len(faults)
        super().__init__(
            what if count == 1 else f"{file} holds {count} faults",
            where=f"{file}, line {line}" if count == 1 else file,
            hint=hint if count == 1 else "mend them all; each names its line",
        )
        self.faults = tuple(
            _shown(f"{file}:{line}: {what}" + ("" if hint is None else f"; {hint}")) for line, what, hint in faults
        )

    def __str__(self) -> str:
        return "; ".join(self.faults)

    def with_others(self, others: Sequence[InvalidConfig]) -> InvalidConfig:
        """This error with the faults of other files."""
        files = 1 + len(others)
        self.faults = (*self.faults, *(fault for other in others for fault in other.faults))
        self.what = f"{files} files hold {len(self.faults)} faults"
        self.where, self.hint = None, "mend them all; each names its file and line"
        return self

    def lines(self) -> tuple[str, ...]:
        """One fault as every error; two with a line for each; of more, the first one and how to see them all."""
        if len(self.faults) == 1:
            return super().lines()
        first, second, *more = (" ".join(fault.split()) for fault in self.faults)
        return (self.what, first, f"next: --format json lists the {len(self.faults) - 1} others" if more else second)

    def to_json(self) -> dict[str, object]:
        """All of it, for programs."""
        return {"error": self.what, "faults": list(self.faults), "exit_code": self.exit_code}


class StateUnavailable(ConfigError):
    """The store of the state did not answer."""


class ResolutionError(LakeEvolveError):
    """Data written with one schema cannot be read with another."""


class ValueMismatch(ResolutionError):
    """The schemas resolve except for some values, and this row holds one.

    ``row`` is the zero-based number of the first offending row, ``path`` its field.
    """

    def __init__(self, what: str, *, row: int, path: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where=where or f"row {row}, {path or '$'}", hint=hint)
        self.row = row
        self.path = path


class TableError(LakeEvolveError):
    """A table refused, failed, or is in a state that cannot be handled."""


class TableNotFound(TableError):
    """No table is there under that URI."""


class CatalogUnavailable(TableError):
    """The catalog or the object store did not answer."""


class UnsupportedTable(TableError):
    """The table uses a feature that lakeevolve does not handle."""


class CommitConflict(TableError):
    """Another writer committed first; nothing of ours landed."""

    exit_code = 4


class PlanError(LakeEvolveError):
    """A plan cannot be read, does not belong to this table, or cannot be applied."""


class PlanFormatError(PlanError):
    """Not a plan, edited by hand, or written in another format version."""


class PlanBlocked(PlanError):
    """The plan holds refused steps, or findings that fail it."""

    exit_code = 1


class StalePlan(PlanError):
    """The table has changed since the plan was made; nothing was done."""

    exit_code = 4


class PermitMissing(PlanError):
    """A step needs a permit that was not given; nothing was done."""

    exit_code = 1


class EngineError(LakeEvolveError):
    """Who was to do the heavy work could not: a worker died again and again, or a cluster did not answer."""


class ReplayMismatch(LakeEvolveError):
    """What the table reads is not what the resolutions say."""

    exit_code = 5


class PartlyApplied(LakeEvolveError):
    """Apply stopped part-way; the journal is kept and ``resume`` continues it."""

    exit_code = 6


class Interrupted(KeyboardInterrupt):
    """Apply was interrupted (Ctrl-C, SIGTERM); says what state the table is in and what next.

    It is a ``KeyboardInterrupt`` and no :class:`LakeEvolveError`, so that no ``except Exception`` takes it for a
    failure and goes on.
    """

    exit_code = 130

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = _shown(where)
        self.hint = hint

    def lines(self) -> tuple[str, ...]:
        """The interruption as at most three lines: what, where, what next."""
        return _lines(self.what, self.where, self.hint)
