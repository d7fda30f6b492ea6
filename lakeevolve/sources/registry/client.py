"""A schema registry that speaks the Confluent REST API (Confluent, Karapace, Apicurio ``ccompat``, Redpanda), through
Confluent's own client library.

The library is not loaded before a registry is asked. Retries are ours: the library's also try again what cannot get
better (a certificate that is not trusted) and do not read ``Retry-After``.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from lakeevolve.errors import LakeEvolveError, SourceError, SourceNotFound
from lakeevolve.model.schema import Schema
from lakeevolve.redaction import redact, secrets_in, without_secrets
from lakeevolve.sources.registry.inline import schema_of
from lakeevolve.sources.registry.naming import address
from lakeevolve.sources.registry.settings import CA, PASSWORD, TOKEN, URL, USER, Settings, settings
from lakeevolve.sources.size import MAX_BYTES, refuse_large

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

_Value = TypeVar("_Value")

#: What may pass by itself.
_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
_TRIES: Final = 4
_FIRST_WAIT: Final = 0.25
_NO_LEVEL: Final = 40408
_AVRO: Final = "AVRO"


@dataclass(frozen=True, slots=True)
class Reference:
    """A named type that a schema uses, and the subject and version that define it."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Registered:
    """One version of a subject, as it was registered. ``kind`` is ``AVRO``, ``PROTOBUF`` or ``JSON``."""

    subject: str
    version: int
    id: int
    text: str
    kind: str = _AVRO
    references: tuple[Reference, ...] = ()

    @property
    def uri(self) -> str:
        """Its address; of a schema that is not registered yet, where it comes from."""
        return f"registry:{self.subject}@{self.version}" if self.version else self.subject


class Registry:
    """A registry that is open for questions; close it, or use it in a ``with`` statement.

    Every method raises ``SourceNotFound`` where the registry does not have what is asked for, and ``SourceError`` where
    it does not answer, lets nobody in or answers nonsense.
    """

    def __init__(self, said: Settings) -> None:
        self.settings = said
        self._waits: list[float] = []
        self._client = _client(said, self._waits)

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The names of the subjects, sorted; with *deleted* also those that were soft-deleted."""
        found = self._ask(lambda: self._client.get_subjects(prefix or None, deleted), "", "its subjects")
        # Not every registry knows the prefix.
        return sorted(each for each in found if each.startswith(prefix))

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions, oldest first; with *deleted* also the soft-deleted ones."""
        return sorted(self._ask(lambda: self._client.get_versions(subject, deleted), subject, "its versions"))

    def version(self, subject: str, number: int | str = "latest", *, deleted: bool = False) -> Registered:
        """One version of a subject; with *deleted* also where it was soft-deleted."""
        where = f"{subject}@{number}"
        asked: Any = number
        found = self._ask(lambda: self._client.get_version(subject, asked, deleted), where, "the version")
        made = found.schema
        if made is None or made.schema_str is None or found.version is None:
            raise self._error("the registry's answer holds no schema", where, "check that the URL is a registry's")
        refuse_large(len(made.schema_str), f"registry:{where}")
        references = tuple(
            Reference(each.name or "", each.subject or "", int(each.version or 0)) for each in made.references or ()
        )
        return Registered(
            found.subject or subject,
            int(found.version),
            int(found.schema_id or 0),
            made.schema_str,
            (made.schema_type or _AVRO).upper(),
            references,
        )

    def level(self, subject: str) -> tuple[str, bool]:
        """The compatibility level that holds for a subject, and whether it is the subject's own, not the global one."""
        try:
            return self._level(subject), True
        except SourceNotFound:
            return self._level(None), False

    def _level(self, subject: str | None) -> str:
        level = self._ask(lambda: self._client.get_compatibility(subject), subject or "", "the compatibility level")
        return str(level).upper()

    def accepts(self, subject: str, text: str, references: Iterable[Reference] = ()) -> bool | None:
        """Whether the registry would take a schema as the subject's next version; None where it cannot say.

        A subject that it does not have takes every schema.
        """
        schema = _schema(text, references)
        try:
            return bool(
                self._ask(lambda: self._client.test_compatibility_all_versions(subject, schema), subject, "its verdict")
            )
        except SourceNotFound:
            pass
        try:
            # Registries without that question have the one for the newest version.
            return bool(self._ask(lambda: self._client.test_compatibility(subject, schema), subject, "its verdict"))
        except SourceNotFound:
            return True if subject not in self.subjects(subject) else None

    def register(self, subject: str, text: str, references: Iterable[Reference] = ()) -> int:
        """Register a schema as the subject's next version, and return its id. What is registered already stays as it
        is. Raises ``SourceError`` where the registry refuses it."""
        schema = _schema(text, references)
        return int(self._ask(lambda: self._client.register_schema(subject, schema), subject, "the registration"))

    def users(self, subject: str, number: int | str = "latest") -> list[tuple[str, int]]:
        """The subjects and versions that refer to a version of a subject."""
        asked: Any = number
        ids = self._ask(
            lambda: self._client.get_referenced_by(subject, asked), f"{subject}@{number}", "who refers to it"
        )
        found: set[tuple[str, int]] = set()
        for each in ids:
            places = self._ask(partial(self._client.get_schema_versions, each), subject, "who refers to it")
            found |= {(str(place.subject), int(place.version or 0)) for place in places}
        return sorted(found)

    def all_users(self, subject: str, number: int | str = "latest") -> list[tuple[str, int]]:
        """As :meth:`users`, and who refers to those in turn."""
        found: set[tuple[str, int]] = set()
        todo: list[tuple[str, int | str]] = [(subject, number)]
        while todo:
            new = set(self.users(*todo.pop())) - found
            found |= new
            todo += new
        return sorted(found)

    def schema(self, registered: Registered, *, lenient: bool = False) -> Schema:
        """The schema of a version, with the types of all subjects that it refers to.

        Raises ``SchemaError`` where the text is no Avro schema, and ``SourceError`` where it is another kind of schema
        or its references go in a circle.
        """
        if registered.kind != _AVRO:
            raise _not_avro(registered)
        texts = [each.text for each in self.referred(registered)]
        return schema_of(registered.text, texts, source_name=registered.uri, lenient=lenient)

    def complete(self, text: str, references: Iterable[Reference], name: str) -> Schema:
        """The schema of a text that is not registered yet, with the types that it refers to."""
        return self.schema(Registered(name, 0, 0, text, references=tuple(references)))

    def referred(self, registered: Registered) -> list[Registered]:
        """What a version refers to, directly or not, each once and after what it refers to itself."""
        found: dict[tuple[str, int], Registered] = {}

        def visit(at: Registered, above: tuple[tuple[str, int], ...]) -> None:
            for each in at.references:
                key = (each.subject, each.version)
                if key in above:
                    circle = " -> ".join(
                        f"{subject}@{version}" for subject, version in (*above[above.index(key) :], key)
                    )
                    raise SourceError(
                        "the references of the schema go in a circle",
                        where=f"{registered.uri}: {circle}",
                        hint="put the types that use each other into one schema",
                    )
                if key not in found:
                    # What is referred to counts also after it was soft-deleted: data was written with it.
                    below = self.version(each.subject, each.version, deleted=True)
                    if below.kind != _AVRO:
                        raise _not_avro(below)
                    visit(below, (*above, key))
                    found[key] = below

        visit(registered, ((registered.subject, registered.version),))
        return list(found.values())

    # How it is asked ------------------------------------------------------------------------------------------------

    def _ask(self, question: Callable[[], _Value], where: str, what: str) -> _Value:
        """The answer to a question; asked again for a while where the registry is busy or away."""
        began, failed = time.monotonic(), 0
        while True:
            self._waits.clear()
            try:
                return question()
            except Exception as error:
                failed += 1
                wait = self._wait(error, failed)
                if wait is None or failed >= _TRIES or time.monotonic() - began + wait > self.settings.patience:
                    self._fail(error, where, what, failed)
            time.sleep(wait)

    def _wait(self, error: Exception, failed: int) -> float | None:
        """Seconds until it is worth asking again; None where it never is."""
        status = getattr(error, "http_status_code", None)
        if status in _AGAIN or (status is None and _is_network(error) and _tls_reason(error) is None):
            jittered: float = _FIRST_WAIT * 2 ** (failed - 1) * (0.5 + random.random() / 2)
            return max(jittered, *self._waits) if self._waits else jittered
        return None

    def _fail(self, error: Exception, where: str, what: str, failed: int) -> NoReturn:
        cause = without_secrets(error)
        tried = f" (asked {failed} times)" if failed > 1 else ""
        status = getattr(error, "http_status_code", None)
        if status is None:
            reason = _tls_reason(error)
            if reason is not None:
                raise self._error(
                    f"the registry's certificate is not trusted: {reason}",
                    where,
                    f"name its authority's file with {CA} or registry.ca in lakeevolve.yaml",
                ) from cause
            if _is_network(error):
                raise self._error(
                    f"the schema registry does not answer{tried}: {_kind(error)}", where, f"check the address in {URL}"
                ) from cause
            if isinstance(error, LakeEvolveError):
                raise error
            raise self._error(
                "the answer is not one of a schema registry", where, "check that the URL is a registry's"
            ) from cause
        code, said = getattr(error, "error_code", None), _said(error)
        match status:
            case 401:
                hint = f"set {USER} and {PASSWORD}, or {TOKEN}"
                raise self._error("the registry does not let us in (401)", where, hint) from cause
            case 403:
                hint = f"ask for the right to read {what}"
                raise self._error("the registry does not allow it (403)", where, hint) from cause
            case 404 if code == _NO_LEVEL or 40400 < (code or 0) < 40500:
                hint = "lakeevolve registry subjects lists what there is"
                raise self._error(f"the registry does not have it: {said}", where, hint, SourceNotFound) from cause
            case 404 | 405:
                hint = "check that the URL is a registry's, with its path (as .../apis/ccompat/v7)"
                raise self._error(
                    f"no registry answers there for {what} ({status})", where, hint, SourceNotFound
                ) from cause
            case 409:
                hint = "lakeevolve check says what breaks, and for whom"
                raise self._error(f"the registry refuses the schema as incompatible: {said}", where, hint) from cause
            case 422:
                raise self._error(f"the registry refuses it: {said}", where, "mend what it names") from cause
            case 429:
                raise self._error(f"the registry is asked too often (429){tried}", where, "try again later") from cause
        hint = "try again later" if status in _AGAIN else "see the registry's own log"
        raise self._error(f"the registry answers with an error ({status}){tried}: {said}", where, hint) from cause

    def _error(self, what: str, where: str, hint: str, kind: type[SourceError] = SourceError) -> SourceError:
        place = self.settings.shown + (f", {where}" if where else "")
        return kind(redact(what, self._secrets, library=True), where=place, hint=hint)

    @property
    def _secrets(self) -> frozenset[str]:
        said = self.settings
        return frozenset(each for each in (said.password, said.token) if each) | secrets_in([said.url])


def open_registry(url: str | None = None) -> Registry:
    """The registry that the environment or the project names; see :func:`settings`."""
    return Registry(settings(url))


def _client(said: Settings, waits: list[float]) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise SourceError(
            "the client of schema registries is not installed", hint="pip install 'lakeevolve[registry]'"
        ) from error
    config: dict[str, Any] = {"url": said.url, "timeout": said.timeout, "max.retries": 0}
    if said.user or said.password:
        config["basic.auth.user.info"] = f"{said.user}:{said.password}"
    if said.token:
        config |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": said.token,
            "bearer.auth.logical.cluster": said.cluster,
        }
    config |= {
        key: value
        for key, value in (
            ("ssl.ca.location", said.ca),
            ("ssl.certificate.location", said.certificate),
            ("ssl.key.location", said.key),
        )
        if value is not None
    }
    try:
        client = SchemaRegistryClient(config)
    except (ValueError, OSError) as error:
        raise SourceError(
            "the registry's address, credentials or certificates cannot be used",
            where=said.shown,
            hint=f"check {URL}, {USER}, {TOKEN} and {CA}",
        ) from without_secrets(error)
    _watch(client, waits)
    return client


def _watch(client: SchemaRegistryClient, waits: list[float]) -> None:
    """Note how long a busy registry asks us to wait, which the library's errors do not say, and how large an answer is
    going to be."""

    def look(response: Any) -> None:
        size = response.headers.get("Content-Length", "")
        # The schema is a text within the answer, so that a few of its characters take two.
        if size.isdigit() and int(size) > 2 * MAX_BYTES:
            response.close()
            refuse_large(int(size), str(response.url))
        after = response.headers.get("Retry-After", "")
        if response.status_code in _AGAIN and after.isdigit():
            waits.append(float(after))

    hooks = client._rest_client.session.event_hooks
    client._rest_client.session.event_hooks = {**hooks, "response": [*hooks.get("response", ()), look]}


def _schema(text: str, references: Iterable[Reference]) -> Any:
    from confluent_kafka.schema_registry import Schema as Unregistered
    from confluent_kafka.schema_registry import SchemaReference

    return Unregistered(text, _AVRO, [SchemaReference(each.name, each.subject, each.version) for each in references])


def _not_avro(registered: Registered) -> SourceError:
    return SourceError(
        f"the subject holds a schema of the type {registered.kind}, and only AVRO is read",
        where=registered.uri,
        hint="name a subject whose schema is Avro, or an .avsc file",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or at.__context__


def _is_network(error: Exception) -> bool:
    """Whether no answer came: httpx's ``TransportError``, of whichever httpx the library uses."""
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


def _tls_reason(error: Exception) -> str | None:
    import ssl

    for each in _causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return str(each.verify_message)
        if isinstance(each, ssl.SSLError):
            return str(each.reason or "TLS failed").replace("_", " ").lower()
    return None


def _kind(error: Exception) -> str:
    if "Timeout" in type(error).__name__:
        return "it took too long"
    return next(
        (str(each.strerror) for each in _causes(error) if isinstance(each, OSError) and each.strerror), "no connection"
    )


def _said(error: Exception) -> str:
    """The registry's own words: one line, without what only its developers read."""
    text = str(getattr(error, "error_message", "") or "")
    first = text.splitlines()[0] if text else "it does not say why"
    return first if len(first) <= 300 else first[:299] + "…"


def text_of(schema: Schema) -> str:
    """A schema as text, as it is registered: with every type that it uses."""
    return json.dumps(schema.to_json(), ensure_ascii=False)


def references_of(given: Mapping[str, str]) -> tuple[Reference, ...]:
    """``{type's full name: "SUBJECT@N"}`` as references."""
    found = []
    for name, text in given.items():
        place = address(text)
        if not isinstance(place.version, int):
            raise SourceError("a reference names one version", where=f"{name}={text}", hint="write NAME=SUBJECT@3")
        found.append(Reference(name, place.subject, place.version))
    return tuple(found)
