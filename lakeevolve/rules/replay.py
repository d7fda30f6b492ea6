"""Rules about what a replay found. They are told; the replay compares."""

from __future__ import annotations

from lakeevolve.rules.rule import Rule

MISMATCH = Rule(
    "REPLAY-MISMATCH",
    "error",
    "A value that reads otherwise than the schemas say",
    "The table's own reader gives another value, row or null than the raw file holds once it is resolved through every "
    "version of the schema. Whoever reads the table reads wrong data, and nothing else tells.",
    "a float that a stale writer appended after the column became a double",
    "restore the table to the version before, or rewrite the files that are named; then verify again",
)
READER_FAULT = Rule(
    "REPLAY-READER-FAULT",
    "warning",
    "A reader shows a value otherwise than it is stored",
    "The stored bytes are what the resolutions say, and a known fault of this reader makes something else of them. "
    "Other readers may read them rightly.",
    "pyiceberg reads a NULL list of structs as an empty one",
    "read the column with another reader until the fault is mended",
)

RULES = (MISMATCH, READER_FAULT)
