"""Writing the markers of tables that were adopted: each says which version its table is, and no column changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakeevolve.applying.apply import apply
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model.mapping import columns_of
from lakeevolve.planning.adoption import RECORDED, Adopted, Adoption
from lakeevolve.planning.candidates import Candidate
from lakeevolve.planning.make import plan
from lakeevolve.redaction import without_secrets
from lakeevolve.tables import open_table
from lakeevolve.tables.base import Table


def record(
    found: Adoption,
    *,
    open_: Callable[[str], Table] = open_table,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Adoption:
    """Write the marker of each table that is a version, and nothing else; the others are left as they are.

    What the schema claims beyond the table's own columns (a text that is an enum, an optional column that holds no
    null) is held against the rows first, as every apply does. A table that has its marker is not touched again, so a
    run that stopped is simply repeated.

    Returns
    -------
    Adoption
        The same with ``status`` set: ``recorded``, ``managed``, or ``left`` with the reason.
    """
    lines = {line.name: line for line in found.lines}
    done: list[Adopted] = []
    for each in found.tables:
        progress(len(done), len(found.tables))
        done.append(replace(each, status=_status(each, lines, open_)))
    progress(len(done), len(found.tables))
    return replace(found, tables=tuple(done))


def _status(each: Adopted, lines: dict[str, Candidate], open_: Callable[[str], Table]) -> str:
    if each.kind == "managed":
        return "managed"
    if each.kind not in RECORDED or each.subject is None or each.version is None:
        return f"left: {each.kind}"
    try:
        return _record(each, lines[each.subject], each.version, open_)
    except LakeEvolveError as error:
        return f"left: {'; '.join(error.lines())}"
    except Exception as error:
        # A library's text may hold row values, so only the type of what happened is told.
        without_secrets(error)
        return f"left: an unexpected {type(error).__name__}"


def _record(each: Adopted, line: Candidate, version: int, open_: Callable[[str], Table]) -> str:
    schema = line.versions[version - 1]
    hint = columns_of(each.mapping, schema).schema(schema) if each.mapping else schema
    live = open_(each.uri)
    live.leave_out(each.foreign)
    if live.history(hint=hint)[-1].recorded:
        return "managed"
    made = plan(live, live.derived(hint=hint), "NONE", subject=line.name, foreign=each.foreign)
    apply(made, table=live)
    return "recorded"
