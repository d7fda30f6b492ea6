"""The credentials that this process knows of, so that no message holds one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakeevolve.redaction import secrets_in, secrets_of


def known_secrets(given: Sequence[str]) -> frozenset[str]:
    """The credentials in the arguments, in the environment and in pyiceberg's configuration, if that was read."""
    found = set(secrets_in(given)) | set(secrets_of(dict(_options(given))))
    for name, value in os.environ.items():
        # PWD, SSH_AUTH_SOCK, GOOGLE_APPLICATION_CREDENTIALS and their like name files.
        if not os.path.exists(value):
            found |= secrets_of({name: value})
    found |= secrets_of(_catalogs())
    return frozenset(found)


def _options(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, text in enumerate(given):
        _, equals, rest = text.partition("--option=")
        pair = rest if equals else given[at] if at and given[at - 1] == "--option" else ""
        name, equals, value = pair.partition("=")
        if equals:
            yield name, value


def _catalogs() -> Mapping[str, Any]:
    module = sys.modules.get("lakeevolve.tables.iceberg.catalog")
    return {} if module is None else module.configured_properties()
