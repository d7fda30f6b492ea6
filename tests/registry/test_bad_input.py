"""Registries that are away, busy, closed or wrong: at most three lines, the next step, exit code 2, and no secret."""

from __future__ import annotations

import base64
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import ConfigError, LakeEvolveError, SourceError, SourceNotFound
from lakeevolve.sources.registry import open_registry
from lakeevolve.sources.registry.settings import CA, PASSWORD, TOKEN, URL, USER
from lakeevolve.sources.size import MAX_BYTES

from .conftest import ADDRESS, Answer, Told

SECRET = "hunter2-s3cret"
FOUND = {"subject": "a", "version": 1, "id": 1, "schema": json.dumps(ADDRESS)}


def said(capsys: pytest.CaptureFixture[str], source: str = "registry:a", *, code: int = 2) -> list[str]:
    """What a command says of a source: at most three lines on stderr, nothing on stdout, no secret."""
    assert main(["check", source, source]) == code
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert 2 <= len(lines) <= 3
    assert lines[-1].startswith("  next: ")
    assert SECRET not in err
    return lines


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# Where and who --------------------------------------------------------------------------------------------------------


def test_nobody_said_where_the_registry_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = said(capsys)
    assert "nothing says where the schema registry is" in lines[0]
    assert URL in lines[-1]


def test_the_projects_file_says_where_and_the_environment_comes_before_it(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.answer = lambda method, path: Answer(200, FOUND)
    monkeypatch.chdir(tmp_path)
    Path("lakeevolve.yaml").write_text("version: 1\nregistry: {url: 'http://127.0.0.1:1'}\n")
    assert le.load("registry:a").record.name == "shop.Address"
    monkeypatch.delenv(URL)
    Path("lakeevolve.yaml").write_text(f"version: 1\nregistry: {{url: '{told.url}'}}\n")
    assert le.load("registry:a").record.name == "shop.Address"


@pytest.mark.parametrize(
    ("registry", "fault"),
    [
        ("{url: registry.example.com}", "registry.url is no URL"),
        ("{url: 'https://me:hunter2-s3cret@registry.example.com'}", "holds a credential in a URI"),
        ("{url: 'https://$HOST'}", "holds a variable"),
        ("{url: 'https://registry.example.com', password: x}", "unknown key registry.password"),
        ("{ca: ca.pem}", "registry.url is missing"),
    ],
)
def test_a_registry_in_the_projects_file_has_an_address_and_no_secret(
    tmp_path: Path, registry: str, fault: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lakeevolve.yaml").write_text(f"version: 1\nregistry: {registry}\n")
    assert main(["check"]) == 2
    err = capsys.readouterr().err
    assert fault in err
    assert SECRET not in err


def test_an_address_that_is_no_url_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, "registry.example.com:8081")
    assert "no http or https URL" in said(capsys)[0]


def test_basic_authentication_is_sent_from_the_environment_or_the_url(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.answer = lambda method, path: Answer(200, FOUND)
    wanted = "Basic " + base64.b64encode(f"ann:{SECRET}".encode()).decode()
    monkeypatch.setenv(USER, "ann")
    monkeypatch.setenv(PASSWORD, SECRET)
    le.load("registry:a")
    assert told.asked[-1][2]["Authorization"] == wanted
    monkeypatch.delenv(USER)
    monkeypatch.delenv(PASSWORD)
    monkeypatch.setenv(URL, told.url.replace("://", f"://ann:{SECRET}@"))
    le.load("registry:a")
    assert told.asked[-1][2]["Authorization"] == wanted


def test_confluent_cloud_is_told_which_registry_is_meant(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.answer = lambda method, path: Answer(200, FOUND)
    monkeypatch.setenv(TOKEN, SECRET)
    monkeypatch.setenv("LAKEEVOLVE_REGISTRY_CLUSTER", "lsrc-1")
    le.load("registry:a")
    assert told.asked[-1][2]["target-sr-cluster"] == "lsrc-1"


def test_a_bearer_token_is_sent_and_not_together_with_a_user(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.answer = lambda method, path: Answer(200, FOUND)
    monkeypatch.setenv(TOKEN, SECRET)
    le.load("registry:a")
    assert told.asked[-1][2]["Authorization"] == f"Bearer {SECRET}"
    monkeypatch.setenv(USER, "ann")
    with pytest.raises(ConfigError, match="both a token and a user"):
        le.load("registry:a")


@pytest.mark.parametrize(("status", "words"), [(401, "does not let us in (401)"), (403, "does not allow it (403)")])
def test_who_is_not_let_in_is_told_what_to_set_and_is_asked_once(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: int, words: str
) -> None:
    monkeypatch.setenv(URL, told.url.replace("://", f"://ann:{SECRET}@"))
    told.answer = lambda method, path: Answer(status, {"error_code": status, "message": f"no, ann:{SECRET}"})
    lines = said(capsys)
    assert words in lines[0]
    assert len(told.asked) == 1
    assert main(["diff", "registry:a", "registry:a", "--debug"]) == 2
    out, err = capsys.readouterr()
    assert "Traceback" in err
    assert SECRET not in out + err
    assert status != 401 or USER in lines[-1]


# Away and busy --------------------------------------------------------------------------------------------------------


def test_a_registry_that_is_down_is_told_after_a_few_tries(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, f"http://ann:{SECRET}@127.0.0.1:{closed_port()}")
    lines = said(capsys)
    assert "does not answer (asked 4 times)" in lines[0]
    assert "127.0.0.1" in lines[1]


def test_a_name_that_nobody_knows_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, "http://registry.invalid")
    assert "does not answer" in said(capsys)[0]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_again_and_the_answer_taken(told: Told, status: int) -> None:
    answers = [Answer(status, {"error_code": status, "message": "busy"}), Answer(status, b"<html>"), Answer(200, FOUND)]
    told.answer = lambda method, path: answers[len(told.asked) - 1]
    assert le.load("registry:a").record.name == "shop.Address"
    assert len(told.asked) == 3


@pytest.mark.parametrize(
    ("status", "words"), [(429, "asked too often (429) (asked 4 times)"), (503, "(503) (asked 4 times)")]
)
def test_what_does_not_pass_is_told(told: Told, capsys: pytest.CaptureFixture[str], status: int, words: str) -> None:
    told.answer = lambda method, path: Answer(status, {"error_code": 50001, "message": "busy"})
    assert words in said(capsys)[0]
    assert len(told.asked) == 4


def test_a_busy_registry_is_given_the_time_that_it_asks_for(told: Told) -> None:
    answers = [Answer(429, {}, {"Retry-After": "1"}), Answer(200, FOUND)]
    told.answer = lambda method, path: answers[len(told.asked) - 1]
    began = time.monotonic()
    le.load("registry:a")
    assert time.monotonic() - began >= 1


def test_nobody_waits_longer_than_patience_goes(told: Told) -> None:
    told.answer = lambda method, path: Answer(429, {}, {"Retry-After": "3600"})
    began = time.monotonic()
    with pytest.raises(SourceError, match="too often"):
        le.load("registry:a")
    assert time.monotonic() - began < 5
    assert len(told.asked) == 1


def test_a_refusal_that_stays_is_asked_once(told: Told) -> None:
    told.answer = lambda method, path: Answer(404, {"error_code": 40401, "message": "Subject 'a' not found."})
    with pytest.raises(SourceNotFound):
        le.load("registry:a")
    assert len(told.asked) == 1


def test_what_is_not_there_is_told_with_where_to_look(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    told.answer = lambda method, path: Answer(404, {"error_code": 40401, "message": "Subject 'a' not found."})
    lines = said(capsys)
    assert "Subject 'a' not found" in lines[0]
    assert "registry subjects" in lines[-1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(404, b"<html>nginx</html>"), "no registry answers there"),
        (Answer(200, b"<html>hello</html>"), "not one of a schema registry"),
        (Answer(200, b""), "not one of a schema registry"),
        (Answer(200, {"subject": "a"}), "holds no schema"),
        (Answer(200, [1]), "not one of a schema registry"),
        (Answer(302, b"", {"Location": "https://login.example.com"}), "answers with an error (302)"),
        (Answer(418, {"error_code": 1, "message": f"teapot, token={SECRET}"}), "(418)"),
    ],
)
def test_an_answer_that_is_no_registrys_is_told(
    told: Told, capsys: pytest.CaptureFixture[str], answer: Answer, words: str
) -> None:
    told.answer = lambda method, path: answer
    assert words in said(capsys)[0]


# TLS ------------------------------------------------------------------------------------------------------------------


def test_a_registry_with_an_authority_of_its_own_is_trusted_once_that_is_named(
    told_by_tls: Told, authority: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_by_tls.answer = lambda method, path: Answer(200, FOUND)
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    monkeypatch.setenv(CA, str(ca))
    assert le.load("registry:a").record.name == "shop.Address"
    monkeypatch.delenv(CA)
    monkeypatch.delenv(URL)
    monkeypatch.chdir(tmp_path)
    Path("lakeevolve.yaml").write_text(f"version: 1\nregistry: {{url: '{told_by_tls.url}', ca: ca.pem}}\n")
    assert le.load("registry:a").record.name == "shop.Address"


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(
    told_by_tls: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    told_by_tls.answer = lambda method, path: Answer(200, FOUND)
    began = time.monotonic()
    lines = said(capsys)
    assert "certificate is not trusted" in lines[0]
    assert CA in lines[-1]
    assert told_by_tls.asked == []
    assert time.monotonic() - began < 3


def test_a_certificate_of_another_host_is_refused(
    told_by_tls: Told,
    authority: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv(CA, str(tmp_path / "ca.pem"))
    monkeypatch.setenv(URL, told_by_tls.url.replace("127.0.0.1", "localhost"))
    assert "certificate is not trusted" in said(capsys)[0]
    assert told_by_tls.asked == []


def test_https_to_a_registry_that_speaks_http_is_told(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, told.url.replace("http:", "https:"))
    assert "not trusted" in said(capsys)[0] or "does not answer" in said(capsys)[0]


def test_an_authority_file_that_is_missing_or_none_is_told(
    told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CA, str(tmp_path / "nope.pem"))
    assert "no such file" in said(capsys)[0]
    (tmp_path / "nope.pem").write_text("hello")
    assert "cannot be used" in said(capsys)[0]


# What it holds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PROTOBUF", "JSON"])
def test_a_subject_of_another_kind_is_said_plainly(told: Told, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    told.answer = lambda method, path: Answer(200, {**FOUND, "schemaType": kind, "schema": 'syntax = "proto3";'})
    lines = said(capsys)
    assert f"the type {kind}, and only AVRO is read" in lines[0]
    assert "registry:a@1" in lines[1]


def test_references_in_a_circle_are_refused_with_the_circle(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(method: str, path: str) -> Answer:
        subject = path.split("/")[2]
        other = {"a": "b", "b": "c", "c": "a"}[subject]
        text = {"type": "record", "name": subject, "fields": [{"name": "x", "type": other}]}
        references = [{"name": other, "subject": other, "version": 1}]
        return Answer(200, {**FOUND, "subject": subject, "schema": json.dumps(text), "references": references})

    told.answer = answer
    lines = said(capsys)
    assert "go in a circle" in lines[0]
    assert "a@1 -> b@1 -> c@1 -> a@1" in lines[1]


def test_a_reference_that_is_gone_is_told(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    missing = {**FOUND, "references": [{"name": "shop.B", "subject": "b", "version": 3}]}
    told.answer = lambda method, path: (
        Answer(200, missing)
        if "/a/" in path
        else Answer(404, {"error_code": 40401, "message": "Subject 'b' not found."})
    )
    lines = said(capsys)
    assert "Subject 'b' not found" in lines[0]
    assert "b@3" in lines[1]


def test_an_answer_that_is_nested_without_end_is_told(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    told.answer = lambda method, path: Answer(200, b"[" * 100_000 + b"]" * 100_000)
    assert "not one of a schema registry" in said(capsys)[0]


def test_what_the_registry_says_of_a_password_is_not_passed_on(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, told.url.replace("://", f"://ann:{SECRET}@"))
    told.answer = lambda method, path: Answer(418, {"error_code": 1, "message": f"never heard of {SECRET}"})
    with pytest.raises(SourceError, match="never heard of") as caught:
        le.load("registry:a")
    assert SECRET not in "".join(caught.value.lines())


@pytest.mark.parametrize(
    "text", ["{", "not a schema", '{"type": "record"}', '{"type": "record", "name": "R", "fields": 1}']
)
def test_a_schema_that_is_broken_is_told_with_its_place(told: Told, text: str) -> None:
    told.answer = lambda method, path: Answer(200, {**FOUND, "schema": text})
    with pytest.raises(LakeEvolveError) as caught:
        le.load("registry:a")
    assert "registry:a@1" in str(caught.value.where)


def test_a_schema_of_50_megabytes_is_refused_before_it_is_parsed(
    told: Told, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    large = json.dumps({**ADDRESS, "doc": "x" * 50_000_000})
    (tmp_path / "large.avsc").write_text(large)
    body = json.dumps({**FOUND, "schema": large}).encode()
    told.answer = lambda method, path: Answer(200, body)
    for source in ("registry:a", str(tmp_path / "large.avsc")):
        lines = said(capsys, source)
        assert f"{MAX_BYTES >> 20} MiB is the most" in lines[0]


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(SourceError, match="not installed") as caught:
        open_registry()
    assert "lakeevolve[registry]" in (caught.value.hint or "")


def test_settings_do_not_show_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeevolve.sources.registry import settings

    monkeypatch.setenv(URL, f"https://ann:{SECRET}@registry.example.com")
    assert SECRET not in settings().shown
    monkeypatch.setenv(URL, "https://registry.example.com")
    monkeypatch.setenv(TOKEN, SECRET)
    assert SECRET not in repr(settings())
