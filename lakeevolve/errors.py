"""Every exception that lakeevolve raises, in one tree.

::

    LakeEvolveError
    ├── SourceError            a schema or table could not be read from where it was said to be
    │   ├── SchemaError        it was read, and is not a valid Avro schema
    │   ├── SourceNotFound     nothing is there
    │   └── UnknownScheme      the URI names a kind of source that does not exist
    ├── ConfigError            lakeevolve.yaml, an option or the state folder is unusable
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
    ├── ReplayMismatch         what the table reads is not what the resolutions say
    └── PartlyApplied          apply stopped part-way; the journal is kept
"""

from __future__ import annotations

from typing import TypeVar

_Text = TypeVar("_Text", str, str | None)


def _shown(text: _Text) -> _Text:
    """The text without credentials. Most texts can hold none, and then nothing is loaded for them."""
    if text is None or ("://" not in text and "?" not in text):
        return text
    from lakeevolve.redaction import redact

    return redact(text)


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
        found = [self.what]
        if self.where is not None:
            found.append(f"at: {self.where}")
        if self.hint is not None:
            found.append(f"next: {self.hint}")
        return tuple(" ".join(line.split()) for line in found)


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


class ReplayMismatch(LakeEvolveError):
    """What the table reads is not what the resolutions say."""

    exit_code = 5


class PartlyApplied(LakeEvolveError):
    """Apply stopped part-way; the journal is kept and ``resume`` continues it."""

    exit_code = 6
