"""Rules about enums."""

from __future__ import annotations

from collections.abc import Iterator

from lakeevolve.model.change import DropSymbol, ReorderSymbols, SetEnumDefault
from lakeevolve.model.find import find_type
from lakeevolve.model.types import Enum, without_null
from lakeevolve.rules.fault import Fault
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule
from lakeevolve.rules.step import Step

SYMBOL_REMOVED = Rule(
    "ENUM-SYMBOL-REMOVED",
    "error",
    "An enum lost a symbol, and has no default",
    "A reader with the new schema fails on the first old value that is this symbol. The default of the field does not "
    "help: only the default of the enum itself does.",
    "symbols [NEW, PAID, LOST] become [NEW, PAID]",
    'keep the symbol, or give the enum a "default" among its symbols',
)
SYMBOL_ADDED = Rule(
    "ENUM-SYMBOL-ADDED",
    "error",
    "An enum gained a symbol, and older readers have no default for it",
    "A reader with the older schema fails on the first new value that is this symbol, unless its enum has a default.",
    "symbols [NEW, PAID] become [NEW, PAID, SENT], in a mode that protects older readers",
    'give the enum a "default" first, and add symbols once every reader has it; or let readers move first',
)
SYMBOL_DEFAULTED = Rule(
    "ENUM-SYMBOL-DEFAULTED",
    "warning",
    "An enum lost a symbol, which now reads as the enum's default",
    "Old values of the symbol stay readable and are no longer told apart from the default.",
    'symbols [UNKNOWN, NEW, LOST] with "default": "UNKNOWN" become [UNKNOWN, NEW]',
    "keep the symbol, unless nobody needs to tell it from the default any more",
)
REORDERED = Rule(
    "ENUM-REORDERED",
    "info",
    "The symbols of an enum changed their order",
    "Avro reads symbols by name. Code that stores their positions, or sorts by them, notices.",
    "symbols [NEW, PAID] become [PAID, NEW]",
    "nothing to do, unless something counts on the position of a symbol",
)
DEFAULT_CHANGED = Rule(
    "ENUM-DEFAULT-CHANGED",
    "info",
    "The default of an enum changed",
    "It is what readers take for symbols that they do not know. Rows that a table has already rewritten keep theirs.",
    '"default": "UNKNOWN" becomes "default": "NEW"',
    "nothing to do, unless readers meet symbols that they do not know",
)

RULES = (SYMBOL_REMOVED, SYMBOL_ADDED, SYMBOL_DEFAULTED, REORDERED, DEFAULT_CHANGED)


def missing_symbols(fault: Fault) -> Iterator[Finding]:
    """One finding for each symbol of the writer that the reader has not."""
    writer, reader = (None if t is None else without_null(t) for t in (fault.writer, fault.reader))
    if isinstance(writer, Enum) and isinstance(reader, Enum):
        known = set(reader.symbols)
        symbols = [symbol for symbol in writer.symbols if symbol not in known]
    else:
        symbols = fault.message.strip("[]").split(", ")
    for symbol in symbols:
        if fault.direction == "backward":
            yield SYMBOL_REMOVED.finding(fault.path, symbol, None, "the symbol is gone, and the enum has no default")
        else:
            message = "the symbol is new, and the enum of older readers has no default"
            yield SYMBOL_ADDED.finding(fault.path, None, symbol, message)


def changes(step: Step) -> Iterator[Finding]:
    for change in step.diff.changes:
        versions = (step.version,)
        match change:
            case DropSymbol() if (SYMBOL_REMOVED.id, change.path) not in step.reported:
                now = find_type(step.diff.new.root, change.path)
                enum = None if now is None else without_null(now)
                if isinstance(enum, Enum) and enum.default is not None:
                    message = f"old values of the symbol now read as {enum.default}"
                    yield SYMBOL_DEFAULTED.finding(change.path, change.symbol, enum.default, message, versions=versions)
            case ReorderSymbols():
                message = "the symbols changed their order"
                yield REORDERED.finding(
                    change.path, ", ".join(change.old), ", ".join(change.new), message, versions=versions
                )
            case SetEnumDefault():
                message = "the symbol that stands for unknown ones changed"
                yield DEFAULT_CHANGED.finding(change.path, change.old, change.new, message, versions=versions)
