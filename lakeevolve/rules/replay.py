"""Rules about what a replay found. They are told; the replay compares."""

from __future__ import annotations

from lakeevolve.rules.rule import Rule

READER_FAULT = Rule(
    "REPLAY-READER-FAULT",
    "warning",
    "A reader shows a value otherwise than it is stored",
    "The stored bytes are what the resolutions say, and a known fault of this reader makes something else of them. "
    "Other readers may read them rightly.",
    "pyiceberg reads a NULL list of structs as an empty one",
    "read the column with another reader until the fault is mended",
)

RULES = (READER_FAULT,)
