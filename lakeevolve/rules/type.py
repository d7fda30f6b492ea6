"""Rules about a value's type."""

from __future__ import annotations

from collections.abc import Iterator

from lakeevolve.avro.resolution.logical import fit
from lakeevolve.model.change import ChangeLogicalType, PromoteType
from lakeevolve.model.types import PROMOTIONS, AvroType, Fixed, Primitive, describe, without_null
from lakeevolve.rules.fault import Fault
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule
from lakeevolve.rules.step import Step

CHANGED = Rule(
    "TYPE-CHANGED",
    "error",
    "A type was replaced by one that it cannot be read as",
    "Avro promotes int to long, float and double, long to float and double, float to double, and string and bytes to "
    "each other. Between all other types no value can be read.",
    "amount: double becomes amount: string",
    "add a field of the new type beside the old one, or start a new subject or table",
)
WIDENED = Rule(
    "TYPE-WIDENED",
    "error",
    "A type was widened, which older readers cannot follow",
    "A reader with the older, narrower type cannot read the wider values that are written now.",
    "amount: int becomes amount: long, in a mode that protects older readers",
    "let readers move first (mode BACKWARD), or add a field of the wider type",
)
NARROWED = Rule(
    "TYPE-NARROWED",
    "error",
    "A type was narrowed, and older data does not fit",
    "Values that were written with the wider type may not fit the narrower one, so Avro reads none of them.",
    "amount: double becomes amount: int",
    "keep the wider type",
)
FIXED_SIZE = Rule(
    "TYPE-FIXED-SIZE-CHANGED",
    "error",
    "The size of a fixed changed",
    "A fixed is read whole: values of one size are never values of another.",
    "fixed Hash of size 16 becomes size 32",
    "define a second fixed under another name and add a field for it",
)
LOGICAL_CHANGED = Rule(
    "TYPE-LOGICAL-CHANGED",
    "error",
    "A logical type changed so that stored values would be misread",
    "The bytes stay and their meaning changes: 4.82 as decimal(9,2) reads as 0.482 with scale 3, a day as a "
    "millisecond of 1970. Avro Java and the registries call such a pair compatible; the specification demands the same "
    "precision and scale of decimals.",
    "amount: decimal(9,2) becomes decimal(9,3)",
    "keep the logical type and add a field of the new one",
)
LOGICAL_REREAD = Rule(
    "TYPE-LOGICAL-REREAD",
    "warning",
    "A logical type changed, and not every reader converts",
    "lakeevolve converts exactly (milliseconds to microseconds) or takes the number as it is (long to timestamp). "
    "Other readers take the raw number in each case, and are off by a factor of 1000 after a change of unit.",
    "at: timestamp-millis becomes timestamp-micros",
    "make sure that each reader converts, or add a field of the new type",
)
ROUNDS = Rule(
    "TYPE-PROMOTION-ROUNDS",
    "warning",
    "A promotion rounds large numbers",
    "float holds whole numbers exactly up to 2^24 and double up to 2^53; beyond, the promoted value is another number.",
    "count: long becomes count: double",
    "promote int to long or double instead, or make sure that no value is that large",
)
AS_TEXT = Rule(
    "TYPE-BYTES-AS-TEXT",
    "warning",
    "Bytes are read as text",
    "Avro promotes bytes to string, but bytes that are not UTF-8 are no text: reading such a value fails.",
    "payload: bytes becomes payload: string",
    "make sure that all stored bytes are UTF-8, or keep bytes",
)

RULES = (CHANGED, WIDENED, NARROWED, FIXED_SIZE, LOGICAL_CHANGED, LOGICAL_REREAD, ROUNDS, AS_TEXT)

#: (from, to): whole numbers that the target cannot hold exactly.
_ROUNDING = frozenset({("int", "float"), ("long", "float"), ("long", "double")})


def mismatch(fault: Fault) -> Finding:
    """The reader's type is none that the writer's can be read as."""
    old, new = fault.old, fault.new
    if fault.branch is not None:
        old, new = (fault.branch, new) if fault.direction == "backward" else (old, fault.branch)
    old = None if old is None else without_null(old)
    new = None if new is None else without_null(new)
    message = "the type cannot be read as the other"
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        if new.name in PROMOTIONS.get(old.name, ()):
            return WIDENED.finding(fault.path, *_both(old, new), "the type is wider than older readers can read")
        if old.name in PROMOTIONS.get(new.name, ()):
            return NARROWED.finding(fault.path, *_both(old, new), "the type is narrower than older data")
        message = "the types have no promotion between them"
    return CHANGED.finding(fault.path, *_both(old, new), message)


def fixed_size(fault: Fault) -> Finding:
    return FIXED_SIZE.finding(fault.path, *_both(fault.old, fault.new), "the size of the fixed changed")


def logical(fault: Fault) -> Finding:
    old, new = (None if t is None else without_null(t) for t in (fault.old, fault.new))
    return LOGICAL_CHANGED.finding(fault.path, *_both(old, new), "stored values would be misread")


def changes(step: Step) -> Iterator[Finding]:
    for change in step.diff.changes:
        if not isinstance(change, (ChangeLogicalType, PromoteType)):
            continue
        old, new = change.old, change.new
        if not isinstance(old, (Primitive, Fixed)) or not isinstance(new, (Primitive, Fixed)):
            continue
        path = change.path if not isinstance(change, PromoteType) else change.after or change.path
        versions = (step.version,)
        if old.logical != new.logical and (LOGICAL_CHANGED.id, path) not in step.reported:
            if fit(old, new) == "mismatch":
                message, breaks = "stored values cannot be read with the new logical type", "readers of older data"
            else:
                message, breaks = "readers differ in whether they convert", "readers that take the raw number"
            yield LOGICAL_REREAD.finding(path, *_both(old, new), message, breaks=breaks, versions=versions)
        if (old.name, new.name) in _ROUNDING:
            yield ROUNDS.finding(path, *_both(old, new), "large whole numbers are rounded", versions=versions)
        if (old.name, new.name) == ("bytes", "string"):
            yield AS_TEXT.finding(path, *_both(old, new), "bytes that are not UTF-8 cannot be read", versions=versions)


def _both(old: AvroType | None, new: AvroType | None) -> tuple[str | None, str | None]:
    """Both types in words, with what they are stored as where the words would be the same or hide the change."""
    if not isinstance(old, Primitive) or not isinstance(new, Primitive) or old.name == new.name:
        return tuple(None if t is None else describe(t) for t in (old, new))  # type: ignore[return-value]
    return tuple(f"{describe(t)} on {t.name}" if t.logical else t.name for t in (old, new))  # type: ignore[return-value]
