"""Credentials are left out of URIs and masked in texts, and nothing else is."""

from __future__ import annotations

import traceback

import pytest

from lakeevolve.errors import LakeEvolveError, SourceError
from lakeevolve.redaction import public_uri, redact, secret_name, secrets_in, secrets_of, without_secrets


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("s3://AKIA:hunter2@bucket/t", "s3://bucket/t"),
        ("s3://AKIA:hun/ter2+x@bucket/t", "s3://bucket/t"),
        ("s3://AKIA:1234/hunter2@bucket/t", "s3://bucket/t"),
        ("delta:az://box/t?sv=1&sig=hunter2", "delta:az://box/t"),
        ("https://user:hun@ter2@host:80/t#x", "https://host:80/t"),
        ("https://token@host/t", "https://host/t"),
        ("abfss://box@account.dfs.core.windows.net/t?sig=hunter2", "abfss://box@account.dfs.core.windows.net/t"),
        ("delta:abfss://box@account.dfs.core.windows.net/t", "delta:abfss://box@account.dfs.core.windows.net/t"),
        ("delta:s3://bucket/t@v3", "delta:s3://bucket/t@v3"),
        ("delta:s3://bucket@v3", "delta:s3://bucket@v3"),
        ("http://host:9000/a@b/t", "http://host:9000/a@b/t"),
        ("delta:lake/what?is=this", "delta:lake/what?is=this"),
        ("iceberg:prod/shop.orders@17", "iceberg:prod/shop.orders@17"),
        ("file:///data/a@b/t", "file:///data/a@b/t"),
    ],
)
def test_a_public_uri_holds_no_credential_and_still_names_the_table(uri: str, public: str) -> None:
    assert public_uri(uri) == public
    assert public_uri(public) == public


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("no answer (s3://AKIA:hun/ter2@bucket/t)", "no answer (s3://***@bucket/t)"),
        ("at: delta:az://box/t?sv=1&sig=hunter2@v3", "at: delta:az://box/t?sv=***&sig=***@v3"),
        ("at: iceberg:prod/shop.orders?token=hunter2", "at: iceberg:prod/shop.orders?token=***"),
        ("az://box/t?hunter2", "az://box/t?***"),
        ("at: s3:/AKIA:hunter2@bucket/plan.json", "at: s3:/***@bucket/plan.json"),
        ("at: delta:/data/a@b/c", "at: delta:/data/a@b/c"),
        ("postgresql+psycopg2://u:pass?w/rd@db:5432/x", "postgresql+psycopg2://***@db:5432/x"),
        ("see https://iceberg.apache.org/spec/#defaults", "see https://iceberg.apache.org/spec/#defaults"),
        ("delta:s3://bucket/t@v3 is stale", "delta:s3://bucket/t@v3 is stale"),
        ("did you mean amount?", "did you mean amount?"),
        ("password: string is added", "password: string is added"),
    ],
)
def test_a_text_keeps_all_but_its_credentials(text: str, masked: str) -> None:
    assert redact(text) == masked


def test_known_credentials_are_masked_wherever_they_stand_also_when_quoted() -> None:
    assert redact("url /v1?w=hun%2Fter2 and hun/ter2", {"hun/ter2"}) == "url /v1?w=*** and ***"
    assert redact("abc", {"abc"}) == "abc", "what is that short is a word, not a credential"


def test_what_a_library_assigns_to_a_telling_name_is_masked() -> None:
    text = """{'s3.secret-access-key': 'hunter2', 'region': 'eu'} password=hunter2, token: hunter2"""
    assert redact(text, library=True) == ("""{'s3.secret-access-key': ***, 'region': 'eu'} password=***, token: ***""")


def test_credentials_are_found_among_options_and_in_arguments() -> None:
    assert secret_name("AWS_SECRET_ACCESS_KEY")
    assert secret_name("sas_token")
    assert not secret_name("type")
    for name in ("warehouse", "GIT_AUTHOR_NAME", "XAUTHORITY", "compass", "signal", "passenger", "OLDPWDS"):
        assert not secret_name(name), name
    for name in ("sas_token", "PGPASSWORD", "db.pwd", "header.authorization", "s3.auth", "az.sas", "AZURE_STORAGE_SAS"):
        assert secret_name(name), name
    options = {"uri": "postgresql://u:hunter2@db/x", "s3": {"secret-access-key": "hunter3"}, "type": "sql"}
    assert secrets_of(options) >= {"hunter2", "hunter3"}
    assert "sql" not in secrets_of(options)
    assert secrets_in(["delta:az://b/t?sig=hunter4@v3"]) == {"hunter4"}


def test_no_error_of_ours_holds_a_credential() -> None:
    error = LakeEvolveError(
        "cannot open s3://AKIA:hunter2@b/t", where="az://b/t?sig=hunter2", hint="try s3://AKIA:hunter2@b"
    )
    assert "hunter2" not in " ".join((str(error), repr(error), *error.lines(), *error.args))


def test_the_cause_of_an_error_holds_no_credential() -> None:
    def fail() -> None:
        try:
            try:
                raise OSError("no route to s3://AKIA:hunter2@b/t")
            except OSError as inner:
                raise ValueError("could not list") from inner
        except ValueError as error:
            raise SourceError("no answer") from without_secrets(error)

    with pytest.raises(SourceError) as caught:
        fail()
    text = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in text
    assert "could not list" in text
    harmless = ValueError("nothing in it")
    assert without_secrets(harmless) is harmless
