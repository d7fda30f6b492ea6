"""Suspected renames: a field that went and one that came, which look like one field under two names.

Nothing here decides anything. A rename without an alias reads as a loss of the old data, so it has to be declared or
denied by someone who knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from lakeevolve.model import path as paths
from lakeevolve.model.types import (
    PROMOTIONS,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
    short_name,
    without_null,
)
from lakeevolve.model.value import value

#: Two names at or above this likeness (0 to 1) are close.
CLOSE: Final = 0.75
#: Below this likeness a name is no evidence at all.
SOME: Final = 0.6
#: Above so many pairs of one record only equal words and equal places are looked at, so that the cost stays linear.
_MANY: Final = 20_000


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Suggestion:
    """A suspected rename.

    ``strong`` means that the parent and the type are the same and the name or the place is close. ``score`` (0 to 1)
    ranks suggestions; ``alias`` is what to add to the aliases of the field at ``new_path``.
    """

    old_path: str
    new_path: str
    score: float
    reason: str
    alias: str
    strong: bool

    @property
    def fix(self) -> str:
        """The exact alias to add; the rename to declare where strict parsing would refuse the alias."""
        if not paths.is_avro_name(self.alias):
            rename = f"{self.old_path}={self.new_path}"
            return f"{self.alias} is no Avro name and cannot be an alias: declare it, --rename '{rename}'"
        return f'add "aliases": ["{self.alias}"] to the field {self.new_path}'

    def to_json(self) -> dict[str, Json]:
        return {
            "old": self.old_path,
            "new": self.new_path,
            "score": self.score,
            "reason": self.reason,
            "alias": self.alias,
            "strong": self.strong,
            "fix": self.fix,
        }


def suspects(old: Record, new: Record, kept: Mapping[int, int], old_path: str, new_path: str) -> tuple[Suggestion, ...]:
    """The suspected renames within one record, each field in at most one of them, in the order of *new*.

    *kept* maps the index of each field of *new* that has one to the index of its field in *old*.
    """
    sources = set(kept.values())
    gone = [i for i in range(len(old.fields)) if i not in sources]
    come = [j for j in range(len(new.fields)) if j not in kept]
    if not gone or not come:
        return ()
    same_place = _same_places(old, new, kept)
    found = []
    for i, j in _candidates(old, new, gone, come, same_place):
        judged = _judge(old.fields[i], new.fields[j], (i, j) in same_place)
        if judged is not None:
            found.append((*judged, i, j, words(old.fields[i].name) == words(new.fields[j].name)))
    # The same words outweigh the place: two fields may have changed places as well as their style.
    found.sort(key=lambda each: (not each[0], not each[5], -each[1], abs(each[3] - each[4]), each[3], each[4]))
    used_old: set[int] = set()
    used_new: set[int] = set()
    chosen: list[tuple[int, Suggestion]] = []
    for strong, score, reason, i, j, _ in found:
        if i in used_old or j in used_new:
            continue
        used_old.add(i)
        used_new.add(j)
        was, is_ = old.fields[i].name, new.fields[j].name
        chosen.append(
            (j, Suggestion(paths.child(old_path, was), paths.child(new_path, is_), score, reason, was, strong))
        )
    return tuple(suggestion for _, suggestion in sorted(chosen, key=lambda each: each[0]))


def _candidates(
    old: Record, new: Record, gone: list[int], come: list[int], same_place: set[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    if len(gone) * len(come) <= _MANY:
        yield from ((i, j) for i in gone for j in come)
        return
    by_words: dict[tuple[str, ...], list[int]] = {}
    for j in come:
        by_words.setdefault(words(new.fields[j].name), []).append(j)
    yield from sorted(same_place | {(i, j) for i in gone for j in by_words.get(words(old.fields[i].name), ())})


def _same_places(old: Record, new: Record, kept: Mapping[int, int]) -> set[tuple[int, int]]:
    """Pairs that stand at the same place: behind the same kept field, where as many went as came."""
    back = {i: j for j, i in kept.items()}
    went: dict[int, list[int]] = {}
    came: dict[int, list[int]] = {}
    # A place is known by the kept field before it, as an index in the new record; -1 is the record's head.
    mark = -1
    for i in range(len(old.fields)):
        if i in back:
            mark = back[i]
        else:
            went.setdefault(mark, []).append(i)
    mark = -1
    for j in range(len(new.fields)):
        if j in kept:
            mark = j
        else:
            came.setdefault(mark, []).append(j)
    return {
        pair
        for at, gone in went.items()
        if len(gone) == len(came.get(at, ()))
        for pair in zip(gone, came[at], strict=True)
    }


def _judge(old: Field, new: Field, same_place: bool) -> tuple[bool, float, str] | None:
    """(strong, score, reason), or None where nothing points to a rename."""
    alike = _type_likeness(old.type, new.type)
    if alike == 0:
        return None
    name = likeness(old.name, new.name)
    same_doc = bool(old.doc) and old.doc == new.doc
    matches = alike >= 0.9
    strong = matches and (same_place or name >= CLOSE)
    weak = (matches and (name >= SOME or same_doc)) or name >= CLOSE or (same_doc and alike > 0)
    if not strong and not weak:
        return None
    score = 0.4 * alike + 0.3 * name + 0.2 * same_place + 0.1 * same_doc
    told = [
        "the same type" if alike == 1 else "the same type but for null" if matches else "a related type",
        *(["the same place in the record"] if same_place else []),
        *(["the same words"] if name == 1 else ["a similar name"] if name >= SOME else []),
        *(["the same doc"] if same_doc else []),
    ]
    return strong, round(score, 3), ", ".join(told)


def words(name: str) -> tuple[str, ...]:
    """The words of a name: ``callset_id``, ``callsetID`` and ``CallsetId`` have the same.

    >>> words("callsetID2")
    ('callset', 'id', '2')
    """
    found: list[str] = []
    for part in re.findall(r"[^\W\d_]+|\d+", name):
        start = 0
        for at in range(1, len(part)):
            # A capital begins a word after a small letter, and before one: callsetID, HTTPServer.
            after, before = part[at - 1].islower(), part[at + 1 : at + 2].islower()
            if part[at].isupper() and (after or before):
                found.append(part[start:at].lower())
                start = at
        found.append(part[start:].lower())
    return tuple(found)


def likeness(a: str, b: str) -> float:
    """How alike two names are, from 0 to 1; 1 means the same letters in the same order, whatever their case.

    >>> likeness("customer_id", "customerId"), likeness("amount", "total") < SOME
    (1.0, True)
    """
    mine, yours = words(a), words(b)
    joined, other = "".join(mine), "".join(yours)
    if joined == other:
        return 1.0
    if not joined or not other:
        return 0.0
    ratio = SequenceMatcher(None, joined, other, autojunk=False).ratio()
    short, long = sorted((set(mine), set(yours)), key=len)
    # zip and zip_code: one name holds all the words of the other.
    contained = 0.8 if short < long and max(len(w) for w in short) > 2 else 0.0
    return round(max(ratio, contained), 3)


def _type_likeness(old: AvroType, new: AvroType) -> float:
    """1 the same, 0.9 the same but for null, 0.6 a promotion either way, 0 nothing in common."""
    if shape(old) == shape(new):
        return 1.0
    a, b = without_null(old), without_null(new)
    if shape(a) == shape(b):
        return 0.9
    if isinstance(a, Primitive) and isinstance(b, Primitive):
        near = a.name == b.name or b.name in PROMOTIONS.get(a.name, ()) or a.name in PROMOTIONS.get(b.name, ())
        return 0.6 if near else 0.0
    return 0.0


def shape(type_: AvroType) -> object:
    """The type without docs, aliases, defaults and properties, as a value that can be compared."""
    match type_:
        case Primitive():
            return type_.name, type_.logical
        case NamedRef():
            return "ref", short_name(type_.name)
        case Array():
            return "array", shape(type_.items)
        case Map():
            return "map", shape(type_.values)
        case Union():
            return "union", tuple(shape(branch) for branch in type_.branches)
        case Fixed():
            return "fixed", short_name(type_.name), type_.size, type_.logical
        case Enum():
            return "enum", short_name(type_.name)
        case Record():
            return "record", short_name(type_.name)
