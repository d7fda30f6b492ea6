"""What the state folder remembers of earlier proofs: which files a rewrite made from which."""

from __future__ import annotations

from lakeevolve.config.state import state_of
from lakeevolve.errors import SourceError
from lakeevolve.replaying.evidence import Evidence, loads
from lakeevolve.tables.base import Table

#: How the evidence of a proof is named, after the evidence of the replay that followed it.
SUFFIX = "-proof"


def proofs_of(table: Table) -> tuple[Evidence, ...]:
    """The evidence of every proof of this table that is still there and whose seal fits.

    Nothing is lost without it: a rewrite can be proved again as a whole.
    """
    found = []
    for _, where, content in state_of(table.state.id).read("evidence", f"*{SUFFIX}"):
        try:
            found.append(loads(content, where))
        except SourceError:
            continue
    return tuple(found)
