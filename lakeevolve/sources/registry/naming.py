"""How a registry's subjects are named: ``SUBJECT@VERSION#RECORD`` in our sources, and the three strategies by which
producers name the subject of a message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from lakeevolve.errors import ConfigError, SourceError

LATEST: Final = "latest"
ALL: Final = "*"
Strategy = Literal["TopicName", "RecordName", "TopicRecordName"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("TopicName", "RecordName", "TopicRecordName")

_VERSION: Final = re.compile(r"(latest|\*|[1-9][0-9]{0,9})\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """What a ``registry:`` source names.

    ``version`` is a number, ``latest`` or ``*`` (every version). ``event`` is the full name of one record of a schema
    that is a union, ``*`` for all of them as the columns of one table, or None.
    """

    subject: str
    version: int | Literal["latest", "*"] = "latest"
    event: str | None = None

    @property
    def uri(self) -> str:
        return f"registry:{self.subject}@{self.version}" + ("" if self.event is None else f"#{self.event}")


def address(text: str) -> Address:
    """``SUBJECT[@latest|@N|@*][#RECORD]`` taken apart.

    >>> address("orders-value@3")
    Address(subject='orders-value', version=3, event=None)
    """
    text = text.removeprefix("registry:")
    whole, mark, event = text.partition("#")
    subject, at, version = whole.rpartition("@")
    if not at:
        subject, version = whole, LATEST
    # A dot or two in a URL's path are no name but a way.
    if subject in ("", ".", "..") or not _VERSION.match(version) or (mark and not event):
        raise SourceError(
            "a registry source is registry:SUBJECT@latest, @N or @*",
            where=f"registry:{text}",
            hint="e.g. registry:orders-value@3; #com.shop.Placed behind it picks one record of a union",
        )
    number: int | Literal["latest", "*"] = int(version) if version.isdigit() else "*" if version == ALL else "latest"
    return Address(subject, number, event or None)


def subject_name(topic: str, strategy: str, record: str = "", *, key: bool = False) -> str:
    """The subject that a producer registers a message's schema under.

    Parameters
    ----------
    topic:
        The topic's name.
    strategy:
        ``TopicName`` (the usual one: one schema for the topic), ``RecordName`` (one for each record, whatever the
        topic) or ``TopicRecordName`` (one for each record in each topic).
    record:
        The record's full name.
    key:
        Whether it is the message's key; only ``TopicName`` tells.

    >>> subject_name("orders", "TopicRecordName", "shop.Placed")
    'orders-shop.Placed'
    """
    match strategy.removesuffix("Strategy"):
        case "TopicName" if topic:
            return f"{topic}-{'key' if key else 'value'}"
        case "RecordName" if record:
            return record
        case "TopicRecordName" if topic and record:
            return f"{topic}-{record}"
        case "TopicName" | "RecordName" | "TopicRecordName":
            raise ConfigError(
                f"{strategy} names a subject by what is not known here",
                hint="TopicName needs a topic, RecordName a schema that is a record, TopicRecordName both",
            )
    raise ConfigError(f"there is no subject name strategy {strategy!r}", hint="use one of " + ", ".join(STRATEGIES))


def of_topic(topic: str, subjects: list[str]) -> dict[str, Strategy]:
    """The subjects that belong to a topic by their names, with the strategy that names them so.

    Under ``RecordName`` the name of a subject says nothing of its topic, so none is found by that.
    """
    found: dict[str, Strategy] = {}
    for subject in subjects:
        if subject in (f"{topic}-key", f"{topic}-value"):
            found[subject] = "TopicName"
        elif re.fullmatch(rf"{re.escape(topic)}-[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", subject):
            found[subject] = "TopicRecordName"
    return found
