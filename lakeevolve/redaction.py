"""Keeping credentials out of whatever is printed, saved or raised.

Credentials reach lakeevolve inside URIs (``s3://KEY:SECRET@bucket``, ``az://box/t?sig=...``), as options of a table, in
the environment and in pyiceberg's configuration. What is kept of a URI is :func:`public_uri`; whatever text is shown
passes through :func:`redact`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

MASK: Final = "***"

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^\s\"'<>]*)")
#: A URL that was taken for a path, and so lost a slash.
_COLLAPSED: Final = re.compile(r"\b(s3a?|gs|az|adl|abfss?|wasbs?|https?):/([^\s/\"'<>][^\s\"'<>]*)")
_QUERY: Final = re.compile(r"(?<=[^\s?])\?([\w.%-]+=[^\s\"'<>]*)")
#: Where a table's version ends its URI: its ``@`` ends no user and password.
_VERSION: Final = re.compile(r"@v?\d+\Z")
#: Here the text before the ``@`` names a container, as in ``abfss://box@account.dfs.core.windows.net``.
_CONTAINER_SCHEMES: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_PORT_SCHEMES: Final = frozenset({"http", "https", "hdfs", "grpc", "thrift"})
_NAME: Final = (
    r"pass(?:word|wd|phrase)|(?<![a-z])(?:pass|pwd)(?![a-z])|secret|token|credential|signature|authorization|bearer"
    r"|(?<![a-z])(?:sig|sas|auth)(?![a-z])"
    r"|(?:api|access|account|private|storage|master|encryption)[-_.]?key"
)
#: A folder of a partition, by itself and within a text that names a data file.
_FOLDER: Final = re.compile(r"\A([^=]+)=.*\Z", re.DOTALL)
_PARTITION: Final = re.compile(r"(?<![^/\s\"'(])([\w.%-]+)=[^/\n]*/(?=[^\n]*\.(?:parquet|avro|orc)\b)")
_SECRET_NAME: Final = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    rf"([\w.-]*(?:{_NAME})[\w.-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"',;&)}}\]]+)", re.IGNORECASE
)
#: Shorter values than this occur in ordinary text, and no credential is so short.
_SHORTEST: Final = 6


def public_uri(uri: str) -> str:
    """A URI without user, password and query: enough to find the table again, given credentials from elsewhere.

    >>> public_uri("s3://key:secret@bucket/orders?sig=abc")
    's3://bucket/orders'
    >>> public_uri("abfss://box@account.dfs.core.windows.net/orders")
    'abfss://box@account.dfs.core.windows.net/orders'
    >>> public_uri("iceberg:prod/shop.orders")
    'iceberg:prod/shop.orders'
    """
    before, colon, rest = uri.partition("://")
    if not colon:
        return uri
    user, place = _split(before.rpartition(":")[2], rest)
    kept = f"{user}@" if user and _names_container(before.rpartition(":")[2], user) else ""
    return f"{before}://{kept}{re.split('[?#]', place, maxsplit=1)[0]}"


def public_path(path: str) -> str:
    """The address of a data file without credentials and without the values of its partition.

    Folders named ``column=value`` hold row values, which belong in no message.

    >>> public_path("s3://key:secret@bucket/orders/country=FR/part-0.parquet")
    's3://bucket/orders/country=***/part-0.parquet'
    """
    *folders, name = public_uri(path).split("/")
    return "/".join([*(_FOLDER.sub(rf"\1={MASK}", folder) for folder in folders), name])


def redact(text: str, known: Collection[str] = (), *, library: bool = False) -> str:
    """A text with ``***`` in the place of every credential.

    Parameters
    ----------
    text:
        Any text: a message, a URI, a traceback.
    known:
        Values that are credentials wherever they occur; see :func:`secrets_in` and :func:`secrets_of`.
    library:
        The text was written by a library, so ``password: x`` and ``token=x`` are taken for what they look like.

    >>> redact("no answer from s3://key:secret@bucket/orders?sig=abc")
    'no answer from s3://***@bucket/orders?sig=***'
    """
    for value in sorted(known, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, MASK).replace(quote(value, safe=""), MASK)
    if "://" in text:
        text = _URI.sub(_masked_uri, text)
    if ":/" in text:
        text = _COLLAPSED.sub(lambda found: _masked_uri(found).replace("://", ":/", 1), text)
    if "?" in text:
        text = _QUERY.sub(lambda found: "?" + _masked_query(found.group(1)), text)
    if "=" in text:
        text = _PARTITION.sub(rf"\1={MASK}/", text)
    return _ASSIGNED.sub(rf"\1{MASK}", text) if library else text


def secret_name(name: str) -> bool:
    """Whether an option or variable of that name holds a credential.

    >>> secret_name("s3.secret-access-key"), secret_name("s3.region")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None


def secrets_of(options: Mapping[str, object]) -> frozenset[str]:
    """The credentials among options: values of telling names, and what the URIs among them hold."""
    found: set[str] = set()
    for name, value in options.items():
        if isinstance(value, Mapping):
            found |= secrets_of(value)
        elif isinstance(value, str):
            found |= {value} if secret_name(name) else secrets_in([value])
    return frozenset(found)


def secrets_in(texts: Iterable[str]) -> frozenset[str]:
    """The credentials that URIs in the texts hold."""
    found: set[str] = set()
    for text in texts:
        for uri in _URI.finditer(text):
            user, _ = _split(uri.group(1), uri.group(2))
            if user and not _names_container(uri.group(1), user):
                found |= {user, user.partition(":")[2]}
        for query in re.finditer(r"\?([^\s\"'<>]*)", text):
            found |= {_VERSION.sub("", part).partition("=")[2] for part in query.group(1).split("&")}
    return frozenset(value for value in found if len(value) >= _SHORTEST)


def without_secrets(error: BaseException) -> BaseException:
    """The error, fit to be the cause of one of ours: where its text, or that of what led to it, holds a credential, an
    error that says the same without it."""
    texts = list(_texts(error))
    if all(redact(text, library=True) == text for text in texts):
        return error
    return RuntimeError(redact("; caused by ".join(texts), library=True))


def _texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield f"{type(at).__name__}: {at}"
        at = at.__cause__ or at.__context__


def _split(scheme: str, rest: str) -> tuple[str, str]:
    """User (with password) and place of what follows ``://``. A secret key may hold ``/``, ``?``, ``#`` and ``@``."""
    head = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in head and not (len(head) == len(rest) and _VERSION.search(head) and head.count("@") == 1):
        user, _, _ = head.rpartition("@")
        return user, rest[len(user) + 1 :]
    host, colon, port = head.partition(":")
    if colon and not host.startswith("[") and not (port.isdigit() and scheme.lower() in _PORT_SCHEMES):
        user, at, _ = _VERSION.sub("", rest).rpartition("@")
        if at:
            return user, rest[len(user) + 1 :]
    return "", rest


def _names_container(scheme: str, user: str) -> bool:
    return scheme.lower() in _CONTAINER_SCHEMES and ":" not in user


def _masked_uri(found: re.Match[str]) -> str:
    scheme, rest = found.groups()
    user, place = _split(scheme, rest)
    if user:
        place = f"{user if _names_container(scheme, user) else MASK}@{place}"
    before, mark, query = place.partition("?")
    return f"{scheme}://{before}{mark}{_masked_query(query) if mark else ''}"


def _masked_query(query: str) -> str:
    version = _VERSION.search(query)
    end = version.group() if version else ""
    parts = (query[: -len(end)] if end else query).split("&")
    return "&".join(_masked_part(part) for part in parts) + end


def _masked_part(part: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        return MASK if name else ""
    return f"{name}={MASK}{')' * value.endswith(')')}"
