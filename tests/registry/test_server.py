"""The registry that serves a folder: answers and refusals as the Confluent REST API has them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lakeevolve.__main__ import main
from lakeevolve.errors import ConfigError
from lakeevolve.registry.faults import Refused
from lakeevolve.registry.server import CONTENT_TYPE, Server
from lakeevolve.registry.store import INDEX, Store
from lakeevolve.sources.registry import open_registry

from .conftest import ADDRESS, Ours, record

A1 = record("A", ("x", "int"))
A2 = record("A", ("x", "long"))
REFERENCE = {"name": "shop.Address", "subject": "address", "version": 1}
ORDER = record("Order", ("to", "Address"))


def body(schema: Any, **others: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), **others}


def http(ours: Ours, method: str, path: str, data: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """A request without any client's help."""
    connection = http_client(ours)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, data, given)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, json.loads(said)


def http_client(ours: Ours) -> HTTPConnection:
    return HTTPConnection(urlsplit(ours.url).netloc, timeout=10)


def refused(ask: Callable[[], Any]) -> tuple[int, int]:
    with pytest.raises(Refused) as caught:
        ask()
    return caught.value.status, caught.value.code


@pytest.fixture
def two(ours: Ours) -> Ours:
    ours.put("a", A1)
    ours.put("a", A2)
    return ours


# Versions and ids -----------------------------------------------------------------------------------------------------


def test_versions_are_told_as_they_were_registered(two: Ours) -> None:
    assert two.ask("GET", "/subjects") == ["a"]
    assert two.ask("GET", "/subjects/a/versions") == [1, 2]
    told = {"subject": "a", "version": 2, "id": 2, "schemaType": "AVRO", "schema": json.dumps(A2)}
    for newest in ("2", "latest", "-1"):
        assert two.ask("GET", f"/subjects/a/versions/{newest}") == told
    assert two.ask("GET", "/subjects/a/versions/1/schema") == A1
    assert two.ask("GET", "/schemas/ids/1") == {"schema": json.dumps(A1)}
    assert two.ask("GET", "/schemas/ids/1/schema") == A1
    assert two.ask("GET", "/schemas/ids/2/versions") == [{"subject": "a", "version": 2}]
    assert two.ask("GET", "/schemas/ids/2/subjects") == ["a"]
    assert two.ask("GET", "/schemas", latestOnly="true") == [told]
    assert [each["version"] for each in two.ask("GET", "/schemas")] == [1, 2]
    assert two.ask("GET", "/schemas/types") == ["AVRO"]
    assert two.ask("GET", "/subjects", subjectPrefix="b") == []


def test_a_schema_has_one_id_in_all_subjects_and_is_registered_once(two: Ours) -> None:
    assert two.put("b", A1) == 1
    spaced = json.dumps(dict(reversed(A1.items())), indent=3)
    assert two.put("b", spaced) == 1
    assert two.ask("GET", "/subjects/b/versions") == [1]
    for same in (
        {**A1, "name": "shop.A", "namespace": "other"},
        {"type": "record", "name": "shop.A", "fields": [{"name": "x", "type": {"type": "int"}}]},
    ):
        assert two.put("b", same) == 1
    for other in ({**A1, "doc": "d"}, {**A1, "aliases": ["B"]}, {**A1, "namespace": ""}):
        assert two.put(f"other{len(two.ask('GET', '/subjects'))}", other) not in (1, 2)
    assert two.ask("GET", "/schemas/ids/1/subjects") == ["a", "b"]
    plain = {"type": "record", "name": "P", "fields": []}
    two.put("p", {**plain, "namespace": ""})
    assert two.put("p", plain) == two.ask("GET", "/subjects/p/versions/1")["id"]
    assert two.ask("GET", "/subjects/p/versions") == [1]


def test_a_schema_is_looked_up_in_its_subject(two: Ours) -> None:
    assert two.ask("POST", "/subjects/a", body(A1))["version"] == 1
    assert refused(lambda: two.ask("POST", "/subjects/a", body(ADDRESS))) == (404, 40403)
    assert refused(lambda: two.ask("POST", "/subjects/nope", body(A1))) == (404, 40401)


def test_what_is_not_there_is_told_with_the_codes_of_the_api(two: Ours) -> None:
    assert refused(lambda: two.ask("GET", "/subjects/nope/versions")) == (404, 40401)
    assert refused(lambda: two.ask("GET", "/subjects/a/versions/9")) == (404, 40402)
    assert refused(lambda: two.ask("GET", "/schemas/ids/99")) == (404, 40403)
    assert refused(lambda: two.ask("GET", "/schemas/ids/x")) == (404, 40403)
    for version in ("0", "x", "2147483648", "-2"):
        assert refused(lambda version=version: two.ask("GET", f"/subjects/a/versions/{version}")) == (422, 42202)
    assert refused(lambda: two.ask("GET", "/nothing")) == (404, 404)
    assert refused(lambda: two.ask("PUT", "/subjects", {})) == (405, 405)


# Registering ----------------------------------------------------------------------------------------------------------


def test_an_incompatible_schema_is_refused_with_what_breaks_and_nothing_is_kept(two: Ours) -> None:
    with pytest.raises(Refused) as caught:
        two.put("a", record("A", ("x", "string")))
    assert (caught.value.status, caught.value.code) == (409, 40901)
    assert "TYPE_MISMATCH" in caught.value.message
    assert "{oldSchemaVersion: 2}" in caught.value.message
    assert two.ask("GET", "/subjects/a/versions") == [1, 2]
    assert sorted(each.name for each in (two.folder / "a").iterdir()) == ["v1.avsc", "v2.avsc"]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"schema": "{"}, 42201),
        ({"schema": ""}, 42201),
        ({"schema": 7}, 42201),
        ({}, 42201),
        ({"schema": '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "Nope"}]}'}, 42201),
        ({"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}, 42201),
        ({"schema": "{}", "schemaType": "JSON"}, 42201),
        (body(ORDER, references=[{**REFERENCE, "version": 4}]), 42201),
        (body(ORDER, references=["shop.Address"]), 42201),
        (body(A1, id=5), 42205),
        (body(A1, version=7), 42205),
        (body({**A1, "doc": "x" * (17 * 2**20)}), 42209),
    ],
)
def test_what_is_no_schema_is_refused(ours: Ours, given: dict[str, Any], code: int) -> None:
    ours.put("address", ADDRESS)
    assert refused(lambda: ours.ask("POST", "/subjects/a/versions", given)) == (422, code)
    assert ours.ask("GET", "/subjects") == ["address"]


def test_the_level_decides_what_is_judged(ours: Ours) -> None:
    with_x, empty = record("A", ("x", "int")), record("A")
    ours.put("a", with_x)
    ours.put("a", empty)
    # Against the newest alone it may come back as another type; against all it may not.
    back = record("A", ("x", "string", ""))
    ask = lambda version="": ours.ask(  # noqa: E731
        "POST", f"/compatibility/subjects/a/versions{version}", body(back), verbose="true"
    )
    assert ask() == {"is_compatible": True, "messages": []}
    ours.ask("PUT", "/config/a", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert ask()["is_compatible"] is False
    assert "{oldSchemaVersion: 1}" in ask()["messages"]
    assert ask("/2")["is_compatible"] is True
    assert ask("/1")["is_compatible"] is False
    assert refused(lambda: ask("/7")) == (404, 40402)
    ours.ask("PUT", "/config/a", {"compatibility": "NONE"})
    assert ask() == {"is_compatible": True, "messages": []}


def test_levels_are_set_and_reset_for_all_and_for_one(two: Ours) -> None:
    assert two.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert refused(lambda: two.ask("GET", "/config/a")) == (404, 40408)
    assert two.ask("GET", "/config/a", defaultToGlobal="true") == {"compatibilityLevel": "BACKWARD"}
    assert two.ask("PUT", "/config/a", {"compatibility": "full"}) == {"compatibility": "FULL"}
    assert two.ask("DELETE", "/config/a") == {"compatibilityLevel": "FULL"}
    assert refused(lambda: two.ask("DELETE", "/config/a")) == (404, 40408)
    assert two.ask("PUT", "/config", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert two.ask("DELETE", "/config") == {"compatibilityLevel": "NONE"}
    assert refused(lambda: two.ask("PUT", "/config", {"compatibility": "SIDEWAYS"})) == (422, 42203)


def test_modes_keep_writers_out_or_let_ids_in(two: Ours) -> None:
    assert two.ask("GET", "/mode") == {"mode": "READWRITE"}
    assert refused(lambda: two.ask("GET", "/mode/a")) == (404, 40409)
    two.ask("PUT", "/mode/a", {"mode": "READONLY"})
    assert refused(lambda: two.put("a", A1)) == (422, 42205)
    assert refused(lambda: two.ask("DELETE", "/subjects/a")) == (422, 42205)
    assert two.ask("DELETE", "/mode/a") == {"mode": "READONLY"}
    assert refused(lambda: two.ask("PUT", "/mode", {"mode": "MAYBE"})) == (422, 42204)
    two.ask("PUT", "/mode/c", {"mode": "IMPORT"})
    assert two.ask("POST", "/subjects/c/versions", body(ADDRESS, id=100, version=5)) == {"id": 100}
    assert two.ask("GET", "/subjects/c/versions") == [5]
    assert refused(lambda: two.ask("POST", "/subjects/c/versions", body(A1, id=100))) == (422, 42207)
    assert two.put("d", record("D")) == 101


def test_two_at_once_get_two_versions(ours: Ours) -> None:
    ours.ask("PUT", "/config", {"compatibility": "NONE"})
    threads = [threading.Thread(target=ours.put, args=("a", record("A", (f"f{number}", "int")))) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ours.ask("GET", "/subjects/a/versions") == list(range(1, 9))
    assert len({ours.ask("GET", f"/subjects/a/versions/{n}")["schema"] for n in range(1, 9)}) == 8


# Deleting -------------------------------------------------------------------------------------------------------------


def test_a_version_is_soft_deleted_first_and_then_for_good(two: Ours) -> None:
    assert refused(lambda: two.ask("DELETE", "/subjects/a/versions/1", permanent="true")) == (404, 40407)
    assert two.ask("DELETE", "/subjects/a/versions/1") == 1
    assert refused(lambda: two.ask("DELETE", "/subjects/a/versions/1")) == (404, 40406)
    assert refused(lambda: two.ask("GET", "/subjects/a/versions/1")) == (404, 40402)
    assert two.ask("GET", "/subjects/a/versions/1", deleted="true")["version"] == 1
    assert two.ask("GET", "/subjects/a/versions", deletedOnly="true") == [1]
    assert two.ask("DELETE", "/subjects/a/versions/1", permanent="true") == 1
    assert two.ask("GET", "/subjects/a/versions", deleted="true") == [2]
    assert not (two.folder / "a" / "v1.avsc").exists()
    two.ask("PUT", "/config/a", {"compatibility": "NONE"})
    assert two.put("a", A1) == 1
    assert two.ask("GET", "/subjects/a/versions") == [2, 3]


def test_a_subject_is_soft_deleted_first_and_then_for_good(two: Ours) -> None:
    assert refused(lambda: two.ask("DELETE", "/subjects/a", permanent="true")) == (404, 40405)
    assert two.ask("DELETE", "/subjects/a") == [1, 2]
    assert refused(lambda: two.ask("DELETE", "/subjects/a")) == (404, 40404)
    assert two.ask("GET", "/subjects") == []
    assert two.ask("GET", "/subjects", deleted="true") == ["a"]
    assert two.ask("DELETE", "/subjects/a", permanent="true") == [1, 2]
    assert two.ask("GET", "/subjects", deleted="true") == []
    assert refused(lambda: two.ask("DELETE", "/subjects/a")) == (404, 40401)


def test_what_others_refer_to_is_not_deleted(ours: Ours) -> None:
    ours.put("address", ADDRESS)
    ours.ask("POST", "/subjects/orders/versions", body(ORDER, references=[REFERENCE]))
    assert ours.ask("GET", "/subjects/address/versions/1/referencedby") == [2]
    assert refused(lambda: ours.ask("DELETE", "/subjects/address/versions/1")) == (422, 42206)
    assert refused(lambda: ours.ask("DELETE", "/subjects/address")) == (422, 42206)
    ours.ask("DELETE", "/subjects/orders")
    assert ours.ask("DELETE", "/subjects/address") == [1]


# The folder -----------------------------------------------------------------------------------------------------------


def served(folder: Path, **options: Any) -> dict[str, list[int]]:
    store = Store(folder, **options)
    store.close()
    return {name: sorted(line.entries) for name, line in store.subjects.items()}


def test_a_folder_of_versions_that_someone_wrote_is_served_in_natural_order(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    for number, schema in ((2, A1), (10, A2)):
        (tmp_path / "orders" / f"v{number}.avsc").write_text(json.dumps(schema))
    store = Store(tmp_path)
    assert [json.loads(entry.text) for entry in store.subjects["orders"].live] == [A1, A2]
    store.close()
    (tmp_path / "orders" / "v1.avsc").write_text(json.dumps(record("A", ("x", "int"), ("y", "int", 0))))
    # What comes later is the next version, wherever its name stands: numbers that were told once stay.
    store = Store(tmp_path)
    assert [len(json.loads(entry.text)["fields"]) for entry in store.subjects["orders"].live] == [1, 1, 2]
    store.close()


def test_types_of_the_files_beside_it_are_put_into_a_version(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "Address.avsc").write_text(json.dumps(ADDRESS))
    (tmp_path / "orders" / "v1.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "orders" / "v2.avsc").write_text(json.dumps([ADDRESS, ORDER]))
    store = Store(tmp_path)
    for entry in store.subjects["orders"].live:
        assert json.loads(entry.text)["fields"][0]["type"]["name"] == "Address"
    store.close()


def test_everything_is_there_again_after_a_restart(two: Ours) -> None:
    two.put("address", ADDRESS)
    two.ask("POST", "/subjects/orders/versions", body(ORDER, references=[REFERENCE]))
    two.ask("PUT", "/config/a", {"compatibility": "FULL"})
    two.ask("PUT", "/config", {"compatibility": "NONE"})
    two.ask("DELETE", "/subjects/a/versions/1")
    before = two.ask("GET", "/schemas", deleted="true")
    two.server.store.close()
    store = Store(two.folder)
    server = Server(store, port=0)
    again = Ours(two.folder, server.url, server)
    assert again.ask("GET", "/schemas", deleted="true") == before
    assert again.ask("GET", "/subjects/a/versions") == [2]
    assert again.ask("GET", "/config/a") == {"compatibilityLevel": "FULL"}
    assert again.ask("GET", "/config") == {"compatibilityLevel": "NONE"}
    assert again.put("e", record("E")) == 5
    server.server_close()


def test_each_subjects_folder_is_a_source(two: Ours) -> None:
    assert main(["check", str(two.folder / "a")]) == 0


@pytest.mark.parametrize("subject", ["a/b", "...", ".hidden", ":.context:orders-value", "käse %20", "a" * 200])
def test_a_subject_of_any_name_stays_within_the_folder(ours: Ours, subject: str) -> None:
    with open_registry() as registry:
        registry.register(subject, json.dumps(A1))
        assert registry.subjects() == [subject]
        assert registry.version(subject).text == json.dumps(A1)
    assert sorted(each.name for each in ours.folder.parent.iterdir()) == ["registry"]
    ours.server.store.close()
    assert served(ours.folder) == {subject: [1]}


def test_a_subject_that_no_folder_can_be_named_for_is_refused(ours: Ours) -> None:
    for subject in ("%20", "x" * 201, "a%00b", ".", ".."):
        assert refused(lambda subject=subject: ours.ask("POST", f"/subjects/{subject}/versions", body(A1))) == (
            422,
            42208,
        )


def test_a_crash_between_two_writes_loses_nothing(two: Ours) -> None:
    two.server.store.close()
    index = two.folder / INDEX
    # The version was written, and its index was not.
    (two.folder / "a" / "v3.avsc").write_text(json.dumps(record("A", ("x", "long"), ("y", "int", 0))))
    assert served(two.folder) == {"a": [1, 2, 3]}
    # A version was on its way out, and the index still has it.
    (two.folder / "a" / "v1.avsc").rename(two.folder / "a" / ".v1.avsc.deleted")
    assert served(two.folder) == {"a": [2, 3]}
    # The index is gone altogether.
    index.unlink()
    assert served(two.folder) == {"a": [1, 2]}


def test_a_damaged_folder_is_told(two: Ours) -> None:
    two.server.store.close()
    (two.folder / "a" / "v1.avsc").unlink()
    with pytest.raises(ConfigError, match="file of a version is gone"):
        Store(two.folder)
    (two.folder / INDEX).write_text("{")
    with pytest.raises(ConfigError, match="index is damaged"):
        Store(two.folder)


def test_a_folder_is_served_by_one_process_at_a_time_and_read_only_by_any(two: Ours) -> None:
    with pytest.raises(ConfigError, match="another process serves this folder"):
        Store(two.folder)
    assert served(two.folder, read_only=True) == {"a": [1, 2]}
    before = (two.folder / INDEX).read_bytes()
    store = Store(two.folder, read_only=True)
    server = Server(store, port=0)
    readonly = Ours(two.folder, server.url, server)
    assert refused(lambda: readonly.put("a", ADDRESS)) == (422, 42205)
    assert refused(lambda: readonly.ask("PUT", "/mode", {"mode": "READWRITE"})) == (422, 42205)
    assert refused(lambda: readonly.ask("PUT", "/config/a", {"compatibility": "NONE"})) == (422, 42205)
    server.server_close()
    assert (two.folder / INDEX).read_bytes() == before


# HTTP -----------------------------------------------------------------------------------------------------------------


def test_over_http_a_refusal_is_json_with_its_code(two: Ours) -> None:
    status, said = http(two, "GET", "/subjects/nope/versions")
    assert (status, said) == (404, {"error_code": 40401, "message": "Subject 'nope' not found."})
    assert http(two, "GET", "/subjects/a/versions?deleted=true") == (200, [1, 2])
    data = json.dumps(body(record("A", ("x", "string")))).encode()
    status, said = http(two, "POST", "/subjects/a/versions", data, Content_Type=CONTENT_TYPE)
    assert (status, said["error_code"]) == (409, 40901)


def test_a_page_in_a_browser_cannot_write_and_cannot_read_under_another_name(two: Ours) -> None:
    data = json.dumps(body(ADDRESS)).encode()
    assert http(two, "POST", "/subjects/b/versions", data, Content_Type="text/plain")[0] == 415
    assert http(two, "GET", "/subjects", Host="evil.example.com")[0] == 403
    assert http(two, "GET", "/subjects", Host="localhost:8081") == (200, ["a"])


def test_bodies_that_are_none_are_refused(two: Ours) -> None:
    post = {"Content_Type": CONTENT_TYPE}
    assert http(two, "POST", "/subjects/a/versions", b"{", **post)[0] == 400
    assert http(two, "POST", "/subjects/a/versions", b"[]", **post)[0] == 400
    assert http(two, "POST", "/subjects/a/versions", b"", Content_Length="999999999", **post)[0] == 413
    connection = http_client(two)
    connection.putrequest("POST", "/subjects/a/versions")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    assert connection.getresponse().status == 411
    connection.close()


def test_a_port_that_is_taken_is_told_and_lets_go_of_the_folder(two: Ours, tmp_path: Path) -> None:
    port = urlsplit(two.url).port
    assert port is not None
    with pytest.raises(ConfigError, match="nothing can listen there"):
        Server(Store(tmp_path / "other"), port=port)
    assert served(tmp_path / "other") == {}
