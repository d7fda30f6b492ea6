"""Which field of the writer each field of the reader takes its values from."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.model.match import match_fields, names_match
from lakeevolve.model.types import Field, Primitive, Record

PROPERTY = settings(max_examples=200, derandomize=True, deadline=None)


def record(*fields: str) -> Record:
    """A record of ints; ``"new<old,older"`` is the field *new* with the aliases *old* and *older*."""
    made = []
    for text in fields:
        name, _, aliases = text.partition("<")
        made.append(Field(name, Primitive("int"), aliases=tuple(aliases.split(",")) if aliases else ()))
    return Record("R", tuple(made))


@pytest.mark.parametrize(
    ("writer", "reader", "matched"),
    [
        ("a b", "b a c", "1 0 -"),
        ("a", "x<a", "0"),
        ("a", "x<a a", "- 0"),
        ("a", "x<a y<a", "0 -"),
        ("a b", "a<b b<a", "1 0"),
        ("a b c", "b<a c<b d<c", "0 1 2"),
        ("a b", "a<b b", "0 1"),
        ("b<a a", "b<a a", "0 1"),
        ("x<a", "a", "-"),
        ("a", "", ""),
        ("", "a<b", "-"),
    ],
)
def test_names_and_aliases_match(writer: str, reader: str, matched: str) -> None:
    pairs, collisions = match_fields(record(*writer.split()), record(*reader.split()))
    assert " ".join("-" if source is None else str(source) for _, source in pairs) == matched
    assert [at for at, _ in pairs] == list(range(len(reader.split())))
    assert collisions == []


def test_two_fields_that_become_one_collide_and_the_one_of_its_name_goes_first() -> None:
    assert match_fields(record("a", "b"), record("b<a")) == ([(0, 1)], [(0, (0, 1))])
    assert match_fields(record("a", "b"), record("c<b,a")) == ([(0, 0)], [(0, (0, 1))])


def test_declared_renames_and_fresh_fields_are_looked_up_by_path() -> None:
    old, new = record("a", "b"), record("b", "c")
    assert match_fields(old, new, path="to", renames={"to.b": "at.a"}) == ([(0, 0), (1, None)], [])
    assert match_fields(old, new, path="to", renames={"b": "a"}) == ([(0, 1), (1, None)], [])
    assert match_fields(old, new, path="to", fresh=("to.b",)) == ([(0, None), (1, None)], [])
    assert match_fields(old, new, renames={"b": "a", "c": "a"}) == ([(0, 0), (1, None)], [])
    assert match_fields(old, record("c<b"), renames={"c": "a"}) == ([(0, 0)], [])


def test_named_types_match_by_short_name_or_by_full_alias() -> None:
    assert names_match("x.A", "y.A", ())
    assert names_match("x.A", "y.B", ("x.A",))
    assert not names_match("x.A", "y.B", ("y.A",))


NAMES = st.sampled_from("abcd")
FIELDS = st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), unique_by=lambda field: field[0], max_size=4)


@PROPERTY
@given(FIELDS, FIELDS)
def test_no_field_of_the_writer_is_given_away_twice(
    writer: list[tuple[str, list[str]]], reader: list[tuple[str, list[str]]]
) -> None:
    old, new = (
        Record("R", tuple(Field(name, Primitive("int"), aliases=tuple(aliases)) for name, aliases in side))
        for side in (writer, reader)
    )
    pairs, collisions = match_fields(old, new)
    taken = Counter(source for _, source in pairs if source is not None)
    taken.update(source for at, found in collisions for source in found if source != pairs[at][1])
    assert set(taken.values()) <= {1}
    for at, source in pairs:
        field = new.fields[at]
        if source is not None:
            assert old.fields[source].name in (field.name, *field.aliases)
        else:
            assert (
                field.name not in [f.name for f in old.fields]
                or any(
                    new.fields[other].name != field.name and old.fields[index].name == field.name
                    for other, index in pairs
                    if index is not None
                )
                or any(field.name in [old.fields[i].name for i in found] for _, found in collisions)
            )


@PROPERTY
@given(FIELDS)
def test_a_record_matches_itself_whatever_its_aliases(fields: list[tuple[str, list[str]]]) -> None:
    same = Record("R", tuple(Field(name, Primitive("int"), aliases=tuple(aliases)) for name, aliases in fields))
    assert match_fields(same, same) == ([(at, at) for at in range(len(fields))], [])
