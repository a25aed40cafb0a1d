from __future__ import annotations

import json

import pytest

from searchgym.errors import DataError
from searchgym.tasks.records import save_tasks, task_from_dict, task_to_dict
from searchgym.types import Task


def test_save_and_load_round_trip(built, tmp_path):
    path = tmp_path / "tasks.jsonl"
    save_tasks(built[2], path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [task_from_dict(json.loads(line)) for line in lines] == built[2]
    assert list(tmp_path.iterdir()) == [path]


def test_a_minimal_task_keeps_its_defaults():
    task = Task("a", "Who?", ("Bob",))
    assert task_to_dict(task) == {"id": "a", "question": "Who?", "answers": ["Bob"]}
    assert task_from_dict(task_to_dict(task)) == task


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "b", "question": "?"}, "a task needs 'answers'"),
        ({"id": "b", "question": "?", "answers": "x"}, "'answers' must be a list of texts"),
        ({"id": "b", "question": "?", "answers": [], "familly": 1}, "Did you mean 'family'"),
        ({"id": "b", "question": "?", "answers": [], "graph": {}}, "broken graph"),
    ],
)
def test_a_broken_record_is_told(record, message):
    with pytest.raises(DataError, match=message):
        task_from_dict(record)
