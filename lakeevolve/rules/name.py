"""Rules about names, aliases and renames."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from lakeevolve.model import path as paths
from lakeevolve.model.change import RenameField, RenameType, SetAliases
from lakeevolve.model.find import find_field, find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Enum, Fixed, Record, short_name, without_null
from lakeevolve.rules.fault import Fault
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule
from lakeevolve.rules.step import Step

CHANGED = Rule(
    "NAME-CHANGED",
    "error",
    "A record, enum or fixed has another name",
    "Avro reads a named type only as one of the same name, the namespace aside, or as one that has its name among its "
    "aliases. Some decoders read renamed records all the same, and mix up records of the same shape in unions.",
    "record Order becomes record Purchase",
    "add the old name to the aliases of the type",
)
ALIAS_COLLISION = Rule(
    "NAME-ALIAS-COLLISION",
    "error",
    "Several old fields would become one field",
    "By its name and its aliases the field is the continuation of more than one field of the older schema. Readers "
    "differ in which of them they take, and some fail.",
    'total has "aliases": ["amount", "sum"], and the older schema has both',
    "keep one of the old names among the aliases, and add a field for the other",
)
RENAME_SUSPECTED = Rule(
    "NAME-RENAME-SUSPECTED",
    "error",
    "A field looks renamed, and no alias says so",
    "Without an alias a rename is a loss: readers of old data take the new field's default, or fail, and the old "
    "values are never read again. It is an error where parent and type match and the place or the name is close, else "
    "a warning.",
    "amount: double goes, and total: double comes in its place",
    "add the alias; or declare the rename for a producer who will not; or list the pair under not_renames",
)
RENAME_DECLARED = Rule(
    "NAME-RENAME-DECLARED",
    "info",
    "A rename is declared by the owner, not by an alias",
    "lakeevolve reads the old values under the new name. Readers that know only the Avro schema do not.",
    "renames: {amount: total}",
    "add the alias to the schema as soon as its producer agrees",
)
RENAME_UNUSED = Rule(
    "NAME-RENAME-UNUSED",
    "warning",
    "A declared rename has nothing to rename",
    "The history has no such old field, or the candidate no such new one: one of the paths is probably misspelt.",
    "renames: {amuont: total}",
    "correct the paths, or take the rename off the list",
)
ALIASES_CHANGED = Rule(
    "NAME-ALIASES-CHANGED",
    "info",
    "Aliases changed",
    "An alias tells readers of the new schema under which name older data has the field or the type.",
    '"aliases": ["amount"] is added to total',
    "nothing to do",
)
ALIAS_REMOVED = Rule(
    "NAME-ALIAS-REMOVED",
    "warning",
    "An alias was removed that older data still needs",
    "A version of the history has the field under this name. Readers of its data no longer find the values.",
    'total loses "aliases": ["amount"], and version 1 has amount',
    "keep every alias for as long as there is data from before the rename",
)
NAMESPACE_CHANGED = Rule(
    "NAME-NAMESPACE-CHANGED",
    "info",
    "A named type moved to another namespace",
    "Avro compares names without their namespace. Avro Java nevertheless fails to read an enum or a fixed in a union "
    "whose namespace changed, which is a warning.",
    "shop.Status becomes sales.Status",
    "add the old full name to the aliases of the type",
)

RULES = (
    CHANGED,
    ALIAS_COLLISION,
    RENAME_SUSPECTED,
    RENAME_DECLARED,
    RENAME_UNUSED,
    ALIASES_CHANGED,
    ALIAS_REMOVED,
    NAMESPACE_CHANGED,
)


def mismatch(fault: Fault) -> Finding:
    """The types stand for each other and have different names."""
    old, new = (None if t is None else without_null(t) for t in (fault.old, fault.new))
    was, is_ = (t.name if isinstance(t, (Record, Enum, Fixed)) else None for t in (old, new))
    fix = CHANGED.fix
    if was is not None and not paths.is_avro_name(short_name(was)):
        # Strict parsing refuses such an alias, and declared renames are of fields.
        fix = (
            "the old name is no Avro name, and no alias can hold it: waive the finding, or give the type a new history"
        )
    elif was is not None:
        fix = f'add "aliases": ["{written_alias(was, is_ or "")}"] to the type'
    message = "the type has another name, and the old one is not among its aliases"
    if fault.direction == "forward":
        message = "older readers know the type by its old name only"
        fix += "; that helps readers of old data only: to protect older readers, keep the name"
    return CHANGED.finding(fault.path, was, is_, message, fix=fix)


def written_alias(old: str, new: str) -> str:
    """The alias for a full name as a type of the name *new* has to write it.

    Without a dot it would stand for a name in the type's own namespace (Avro 1.12, "Aliases").

    >>> written_alias("R", "x.S"), written_alias("x.R", "S"), written_alias("R", "S")
    ('.R', 'x.R', 'R')
    """
    return f".{old}" if "." in new and "." not in old else old


def collision(fault: Fault) -> Finding:
    """Two or more fields of the writer become one of the reader."""
    to = None if fault.new_field is None else fault.new_field.name
    return ALIAS_COLLISION.finding(fault.path, None, to, fault.message)


def suspected(step: Step, denied: Collection[tuple[str, str] | str]) -> Iterator[Finding]:
    """The suspected renames that nobody has denied. *denied* holds (old path, new path) pairs, and single paths."""
    for found in step.diff.suggestions:
        if {(found.old_path, found.new_path), found.old_path, found.new_path} & set(denied):
            continue
        yield RENAME_SUSPECTED.finding(
            found.new_path,
            found.old_path,
            found.new_path,
            f"looks like a rename without an alias: {found.reason}",
            severity="error" if found.strong else "warning",
            breaks=f"readers of data of version {step.version}: the values of {found.old_path} are lost to them",
            fix=f"{found.fix}; or declare the rename (renames); or, if it is none, list the pair under not_renames",
            versions=(step.version,),
        )


def declared(step: Step, history: Sequence[Schema]) -> Iterator[Finding]:
    """Renames by overlay, and those that cannot have been meant."""
    for change in step.diff.changes:
        if isinstance(change, RenameField) and change.via == "overlay":
            old = step.diff.renames.get(change.new_path, change.path)
            yield RENAME_DECLARED.finding(
                change.new_path,
                old,
                change.new_path,
                "the rename is declared by the owner",
                breaks="readers that know only the Avro schema: they do not find the old values",
                fix=f'add "aliases": ["{paths.leaf(old)}"] to the field as soon as its producer agrees'
                if paths.is_avro_name(paths.leaf(old))
                else "keep the rename declared: the old name is no Avro name, and no alias can hold it",
                versions=(step.version,),
            )
    for was, is_ in step.diff.unused:
        if _misspelt(was, is_, step, history):
            yield RENAME_UNUSED.finding(is_, was, is_, "there is no such field to rename")


def changes(step: Step, history: Sequence[Schema]) -> Iterator[Finding]:
    versions = (step.version,)
    for change in step.diff.changes:
        match change:
            case SetAliases():
                gone = [alias for alias in change.old if alias not in change.new]
                needed = [alias for alias in gone if change.on == "field" and _has(history, change.path, alias)]
                for alias in needed:
                    found = tuple(
                        number
                        for number, version in enumerate(history, start=1)
                        if find_field(version.root, _sibling(change.path, alias)) is not None
                    )
                    yield ALIAS_REMOVED.finding(
                        change.path,
                        alias,
                        None,
                        "the alias is gone, and data under that name is still there",
                        breaks=f"readers of data of {_numbers(found)}",
                        versions=found,
                    )
                if len(needed) < len(gone) or set(change.new) - set(change.old):
                    yield ALIASES_CHANGED.finding(
                        change.path,
                        ", ".join(change.old) or None,
                        ", ".join(change.new) or None,
                        "the aliases changed" if change.on == "field" else "the aliases of the type changed",
                        versions=versions,
                    )
            case RenameType() if change.old != change.new and short_name(change.old) == short_name(change.new):
                path = change.after or change.path
                type_ = find_type(step.diff.new.root, path)
                inner = None if type_ is None else without_null(type_)
                if isinstance(inner, (Record, Enum, Fixed)) and change.old in inner.aliases:
                    continue
                in_union = inner is not type_ or paths.leaf(path).startswith("<")
                risky = in_union and isinstance(inner, (Enum, Fixed))
                yield NAMESPACE_CHANGED.finding(
                    path,
                    change.old,
                    change.new,
                    "the type moved to another namespace",
                    severity="warning" if risky else "info",
                    breaks="Avro Java, which looks for an enum or a fixed in a union by its full name" if risky else "",
                    fix=f'add "aliases": ["{written_alias(change.old, change.new)}"] to the type',
                    versions=versions,
                )


def _misspelt(was: str, is_: str, step: Step, history: Sequence[Schema]) -> bool:
    """Whether a rename that does nothing was not simply made before, its new field perhaps dropped since."""
    old, new = step.diff.old.root, step.diff.new.root
    known = any(find_field(version.root, was) is not None for version in history)
    if find_field(new, is_) is None:
        going = find_field(old, was) is not None and find_field(new, was) is None
        return going or not (known or any(find_field(version.root, is_) is not None for version in history))
    return not known and find_field(old, is_) is None


def _has(history: Sequence[Schema], path: str, alias: str) -> bool:
    return any(find_field(version.root, _sibling(path, alias)) is not None for version in history)


def _sibling(path: str, name: str) -> str:
    return paths.child(paths.parent(path), name)


def _numbers(versions: Sequence[int]) -> str:
    return f"version{'s' if len(versions) > 1 else ''} {', '.join(map(str, versions))}"
