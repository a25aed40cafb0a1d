"""What ``make peers`` notes of the frameworks that the project's own tests install."""

from __future__ import annotations

import json

from tests.peers import conftest


def test_versions_are_noted_in_the_tables_order(tmp_path, monkeypatch):
    monkeypatch.setattr(conftest, "TABLE", tmp_path / "peers.json")
    conftest.note(reversed(conftest.OF_THE_TESTS))
    seen = json.loads((tmp_path / "peers.json").read_text())
    assert list(seen) == [name for name in conftest.TITLES if name in conftest.OF_THE_TESTS]
    assert all(version for row in seen.values() for version in row["versions"].values())
