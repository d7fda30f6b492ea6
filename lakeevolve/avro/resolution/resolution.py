"""The result of a resolution: the verdict, the way to run it, and its explanation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lakeevolve.avro.nodes import Incompatibility, Node
from lakeevolve.avro.resolution.explain import Explanation, explain, joined
from lakeevolve.avro.resolution.resolver import Resolver
from lakeevolve.errors import ResolutionError
from lakeevolve.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Resolution:
    """How data of one schema is read as another, or why it cannot be.

    Parameters
    ----------
    writer, reader:
        The schema of the data, and the one that it is read as.
    roots:
        The tree of each step, in the order in which they run: one, unless the resolution was composed by ``then``.
    incompatibilities:
        Everything that stands against it; empty for a compatible pair.
    """

    writer: Schema
    reader: Schema
    roots: tuple[Node, ...] = field(repr=False)
    incompatibilities: tuple[Incompatibility, ...]

    @property
    def root(self) -> Node:
        """The tree of the last step."""
        return self.roots[-1]

    @property
    def compatible(self) -> bool:
        """Whether all data of the writer can be read."""
        return not self.incompatibilities

    def explain(self) -> tuple[Explanation, ...]:
        """Per field of the reader, nested ones too, where its value comes from; and the fields that nothing reads."""
        rows = explain(self.roots[0])
        for root in self.roots[1:]:
            rows = joined(rows, explain(root))
        return rows

    def then(self, other: Resolution) -> Resolution:
        """This resolution followed by *other*, which reads what this one gives: one pass, the outcome of both.

        That is not the same as resolving the first writer against the last reader: what the first step filled or
        rounded stays so.

        Raises
        ------
        ResolutionError
            *other* reads another schema than this one gives.
        """
        if self.reader != other.writer:
            raise ResolutionError(
                "the second resolution does not read what the first one gives",
                hint="resolve the second step from the reader schema of the first",
            )
        return Resolution(
            self.writer,
            other.reader,
            self.roots + other.roots,
            self.incompatibilities + other.incompatibilities,
        )

    def to_arrow(self, data: Any, partial: bool = False) -> Any:
        """Read Arrow data of the writer's shape as the reader's.

        Parameters
        ----------
        data:
            A pyarrow Array (struct), RecordBatch, Table or RecordBatchReader.
        partial:
            Run although some values cannot be read (all incompatibilities are ``value_level``), and raise at the
            first row that holds one.

        Returns
        -------
        The same kind as *data*.

        Raises
        ------
        ResolutionError
            The schemas do not resolve, or *data* has not the writer's shape.
        ValueMismatch
            A row holds a value that cannot be read.
        """
        from lakeevolve.avro.arrow import to_arrow

        return to_arrow(self, data, partial)


def resolve(
    writer: Schema,
    reader: Schema,
    logical: Literal["check", "ignore", "table"] = "check",
    *,
    renames: Mapping[str, str] | None = None,
    fresh: Collection[str] = (),
    fills: Mapping[str, str] | None = None,
) -> Resolution:
    """Match a writer schema with a reader schema (Avro 1.12, "Schema Resolution").

    Parameters
    ----------
    writer, reader:
        The schema of the data, and the one that it is to be read as.
    logical:
        ``check``: a value keeps its meaning or the pair is incompatible (a decimal keeps precision and scale, an
        instant its place on the time line). ``ignore``: only the types beneath count, as in Avro Java. ``table``: as
        ``check``, and a decimal may get more digits before the point, as engines let columns do.
    renames:
        Declared renames that no alias tells, path in the reader to path in the writer.
    fresh:
        Paths in the reader whose columns are new, although the writer has a field of that name.
    fills:
        Per path in the reader, what a field without a writer field reads: ``default``, or ``null`` whatever its type.

    Returns
    -------
    Resolution
        Incompatible pairs included: every reason is listed.

    Raises
    ------
    ResolutionError
        A key of *renames* or *fills*, or an entry of *fresh*, is not a path.

    Examples
    --------
    >>> from lakeevolve.avro.parse import parse
    >>> resolve(parse("int"), parse("double")).compatible
    True
    >>> [found.kind for found in resolve(parse("double"), parse("int")).incompatibilities]
    ['TYPE_MISMATCH']
    """
    if logical not in ("check", "ignore", "table"):
        raise ValueError(f"logical is 'check' or 'ignore', not {logical!r}")
    node, faults = Resolver(writer, reader, logical, renames or {}, fresh, fills or {}).run()
    return Resolution(writer, reader, (node,), faults)
