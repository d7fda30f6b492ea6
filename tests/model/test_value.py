"""Values compare, hash and show themselves as dataclasses do."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import get_args

import pytest

from lakeevolve.model.change import AddField, Change, RenameField
from lakeevolve.model.types import Field, Primitive
from lakeevolve.model.value import value


@dataclass(frozen=True, slots=True)
class Usual:
    a: int
    b: str = "x"
    seen: int = field(default=0, compare=False, repr=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ours:
    a: int
    b: str = "x"
    seen: int = field(default=0, compare=False, repr=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bag:
    name: str
    held: dict[str, int] = field(default_factory=dict, hash=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Empty:
    """No field at all."""


def test_they_are_what_dataclass_makes() -> None:
    one, same, other = Ours(1), Ours(1, seen=5), Ours(1, "y")
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != Usual(1)
    assert repr(one) == repr(Usual(1)).replace("Usual", "Ours")
    assert replace(one, b="y") == other
    assert len({one, same, other}) == 2
    assert hash(Bag("a", {"x": 1})) == hash(Bag("a")) == hash(("a",))
    assert Bag("a", {"x": 1}) == Bag("a", {"x": 1}) != Bag("a")
    assert Empty() == Empty()
    assert hash(Empty()) == hash(())
    with pytest.raises(FrozenInstanceError):
        one.a = 2  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        one.c = 2  # type: ignore[attr-defined]


def test_changes_are_compared_by_their_content_and_their_kind() -> None:
    one = AddField("a", Field("a", Primitive("int")), 0)
    assert one == AddField("a", Field("a", Primitive("int")), 0)
    assert one != AddField("a", Field("a", Primitive("int")), 1)
    assert one != one.reverse()
    assert RenameField("a", "b") == eval(repr(RenameField("a", "b")))
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    for kind in get_args(Change):
        assert kind.__eq__ is not object.__eq__
        assert kind.__hash__ is not object.__hash__
        assert fields(kind)
