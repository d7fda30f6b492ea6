"""A schema: an Avro type with the place it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from lakeevolve.model.types import AvroType, Field, Record
from lakeevolve.model.value import value


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """One Avro schema.

    Parameters
    ----------
    root:
        The type itself.
    source:
        Where it was loaded from, for messages; no part of equality.
    lines:
        Line number (from 1) in ``source`` for each path, where known; no part of equality.
    warnings:
        What a reader tolerates but a producer should mend (an invalid logical type, ...); no part of equality.
    """

    root: AvroType
    source: str | None = field(default=None, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)
    _digest: list[str] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def record(self) -> Record:
        """The root as a record, which it has to be for a table.

        Raises ``ValueError`` where the root is another type.
        """
        if not isinstance(self.root, Record):
            raise ValueError("the schema's root is not a record")
        return self.root

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.record.fields

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the schema's canonical JSON; see :mod:`lakeevolve.model.digest`."""
        from lakeevolve.model.digest import schema_digest

        if not self._digest:
            self._digest.append(schema_digest(self))
        return self._digest[0]

    def to_json(self) -> object:
        """The schema as Avro JSON: the first use of a named type holds its definition, later uses its full name."""
        from lakeevolve.model.digest import schema_json

        return schema_json(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(import_module("lakeevolve.report.notebook").shown(self))
