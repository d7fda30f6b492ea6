"""Where a schema comes from: one URI syntax for every command and call.

``orders.avsc`` · ``git:REF:path`` · ``registry:SUBJECT@latest|N|*`` · ``avro:file.avro`` · ``arrow:file`` ·
``parquet:file-or-folder`` · ``iceberg:CATALOG/ns.table[@SNAPSHOT]`` · ``delta:PATH[@vN]`` · a saved description · Avro
JSON text. Where several versions may stand, a folder, ``git:REF:path@*``, ``git:REF:folder``, ``registry:SUBJECT@*``
and a table's URI with ``@*`` name them all.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lakeevolve.avro.parse import parse
from lakeevolve.errors import LakeEvolveError, SourceError, SourceNotFound, UnknownScheme
from lakeevolve.model.schema import Schema
from lakeevolve.sources.folder import text_of
from lakeevolve.sources.references import parse_with
from lakeevolve.sources.size import refuse_large

#: Scheme -> dotted name of the function that reads it. Lazy, so that a schema file never loads a table library, and
#: so that rooms above this one can be named here without being imported.
SCHEMES: Final[Mapping[str, str]] = {
    "file": "lakeevolve.sources:_read_file",
    "git": "lakeevolve.sources.git:read",
    "registry": "lakeevolve.sources.registry:read",
    "avro": "lakeevolve.sources.container:read",
    "arrow": "lakeevolve.sources.arrow:read_arrow",
    "parquet": "lakeevolve.sources.arrow:read_parquet",
    "iceberg": "lakeevolve.tables:schema_of",
    "delta": "lakeevolve.tables:schema_of",
}

#: Schemes whose readers are given what follows the colon; the others' take the whole URI.
_PATHS: Final = frozenset({"file", "git", "registry", "avro", "arrow", "parquet"})
_ALL: Final = "@*"
#: What Avro JSON text begins with.
_JSON: Final = ("{", "[", '"')

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]+):")


def load(source: Any, *, lenient: bool = False) -> Schema:
    """Load a schema from wherever it is.

    Parameters
    ----------
    source:
        A source URI, a path, Avro JSON text, a parsed Avro JSON dict or list, or a Schema (returned as it is).
    lenient:
        Read a broken schema with warnings where that is possible; meant for old versions, never for a candidate.

    Raises
    ------
    SourceNotFound
        Nothing is there.
    UnknownScheme
        The URI names a kind of source that does not exist.
    SchemaError
        What is there is not a valid Avro schema; ``where`` holds the JSON path.

    Examples
    --------
    >>> load('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}').fields[0].name
    'id'
    """
    if isinstance(source, Schema):
        return source
    if isinstance(source, Mapping):
        return parse(dict(source), lenient=lenient)
    if isinstance(source, list):
        return parse(source, lenient=lenient)
    if isinstance(source, Path):
        return _read_file(str(source), lenient=lenient)
    if not isinstance(source, str):
        raise SourceError(
            f"a schema cannot be loaded from a {type(source).__name__}", hint="give a path, a source URI or Avro JSON"
        )
    text = source.strip()
    if not text:
        raise SourceError("the name of a source is empty", hint="give a path, a source URI or Avro JSON")
    if text[:1] in _JSON:
        return parse(text, lenient=lenient)
    scheme = _scheme(text)
    if not scheme:
        return _read_file(text, lenient=lenient)
    if scheme not in SCHEMES:
        raise UnknownScheme(
            f"no kind of source is called {scheme!r}",
            where=text,
            hint="known kinds: " + ", ".join(SCHEMES) + ", or the path of an .avsc file",
        )
    module, _, name = SCHEMES[scheme].partition(":")
    read: Callable[..., Schema] = getattr(importlib.import_module(module), name)
    return read(text[len(scheme) + 1 :] if scheme in _PATHS else text, lenient=lenient)


def _scheme(text: str) -> str:
    """The scheme of a source in small letters; empty for a path, also where a file's name looks like a URI."""
    match = _SCHEME.match(text)
    return "" if match is None or Path(text).exists() else match.group(1).lower()


def expand(source: Any) -> list[Any]:
    """What a source names, one by one and oldest first, each for :func:`load`: itself for most sources, every version
    for a folder of schema files (in the natural order of their names), ``git:REF:path@*``, ``git:REF:folder``,
    ``registry:SUBJECT@*`` and a table's URI with ``@*``.

    Raises ``SourceNotFound`` where nothing is there.

    Examples
    --------
    >>> expand("orders.avsc")
    ['orders.avsc']
    """
    if not isinstance(source, str | Path):
        return [source]
    text = str(source).strip()
    folder = Path(text.removeprefix("file:"))
    if text and text[:1] not in _JSON and folder.is_dir():
        from lakeevolve.sources.folder import files_of

        return list(files_of(folder))
    if text.startswith("git:"):
        from lakeevolve.sources.git import expand as expand_git

        return list(expand_git(text.removeprefix("git:")))
    if text.startswith("registry:"):
        from lakeevolve.sources.registry import expand as expand_registry

        return expand_registry(text.removeprefix("registry:"))
    if text.endswith(_ALL) and text.startswith(("iceberg:", "delta:")):
        return list(importlib.import_module("lakeevolve.tables").schemas_of(text.removesuffix(_ALL)))
    return [source]


def files_read(source: str) -> frozenset[Path]:
    """The files, by their full paths, that the schema of a source depends on: its own, and those that hold types which
    it uses, also where one of them is not there. Nothing for sources that are no files.

    Of a folder, the folder itself and the files that its versions depend on.

    >>> [file.name for file in files_read("orders.avsc")]
    ['orders.avsc']
    """
    text = str(source).removeprefix("file:")
    scheme = _scheme(text)
    if scheme in ("avro", "arrow", "parquet"):
        return frozenset({Path(text[len(scheme) + 1 :]).absolute()})
    if scheme or text.lstrip()[:1] in _JSON:
        return frozenset()
    place = Path(text).absolute()
    if place.is_dir():
        inside = sorted(each for each in place.iterdir() if each.suffix == ".avsc")
        return frozenset({place}).union(*map(_asked_for, inside))
    return _asked_for(place)


def _asked_for(file: Path) -> frozenset[Path]:
    found = {file}

    def beside(name: str) -> str | None:
        found.add(file.with_name(name))
        return text_of(file.with_name(name))

    with suppress(LakeEvolveError):
        # Whoever loads it says what is wrong with it.
        parse_with(text_of(file) or "", str(file), beside, lenient=True)
    return frozenset(found)


def _read_file(path: str, *, lenient: bool = False) -> Schema:
    file = Path(path)
    try:
        refuse_large(file.stat().st_size if file.is_file() else 0, path)
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise SourceNotFound("there is no such file", where=path, hint="check the path") from _cause(error)
    except UnicodeDecodeError as error:
        raise SourceError("the file is not UTF-8 text", where=path, hint="a schema file is Avro JSON") from error
    except IsADirectoryError as error:
        raise SourceError(
            "this is a folder, where one schema is wanted", where=path, hint="check takes a folder of versions"
        ) from error
    except OSError as error:
        raise SourceError(f"the file cannot be read: {error.strerror}", where=path) from _cause(error)
    if not text.strip():
        raise SourceError("the file is empty", where=path, hint="a schema file is Avro JSON")
    if text.lstrip().startswith("{") and '"format_version"' in text:
        described = _described(text)
        if described is not None:
            return parse(described, source_name=path, lenient=lenient)
    return parse_with(text, path, lambda name: text_of(file.with_name(name)), lenient=lenient)


def _described(text: str) -> Any:
    """The schema of a saved description; None for whatever is none."""
    import json

    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record["schema"] if {"format_version", "uri", "format", "schema", "versions"} <= record.keys() else None


def _cause(error: OSError) -> BaseException:
    """What is told of a file's error, whose text quotes the path as it was given."""
    from lakeevolve.redaction import without_secrets

    return without_secrets(error)
