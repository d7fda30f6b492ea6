"""The served registry under every level against the verdicts of Avro's own Java library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeevolve.registry.api import Api
from lakeevolve.registry.faults import Refused
from lakeevolve.registry.store import Store

CORPUS = Path(__file__).resolve().parents[1] / "conformance" / "compatibility_modes.jsonl"
HISTORIES: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: str(history["id"]))
def test_each_level_takes_and_refuses_what_java_does(history: dict[str, Any], tmp_path: Path) -> None:
    store = Store(tmp_path)
    api = Api(store)
    api.answer("PUT", "/config", {}, {"compatibility": "NONE"})
    for version in history["versions"]:
        api.answer("POST", "/subjects/s/versions", {}, {"schema": json.dumps(version)})
    candidate = {"schema": json.dumps(history["candidate"])}
    known = candidate["schema"] in [json.dumps(version) for version in history["versions"]]
    for level, compatible in history["java_modes"].items():
        api.answer("PUT", "/config/s", {}, {"compatibility": level})
        told = api.answer("POST", "/compatibility/subjects/s/versions", {"verbose": "true"}, candidate)
        assert told["is_compatible"] is compatible, level
        assert bool(told["messages"]) is not compatible
        if not compatible and not known:
            with pytest.raises(Refused) as caught:
                api.answer("POST", "/subjects/s/versions", {}, candidate)
            assert caught.value.code == 40901
    store.close()
