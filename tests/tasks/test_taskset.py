from __future__ import annotations

import json

import pytest

from searchgym.errors import DataError, TaskError
from searchgym.tasks.taskset import TaskSet, task_from_dict, task_to_dict
from searchgym.types import Task

from .conftest import COUNTS


def test_save_and_load_round_trip(built, tmp_path):
    tasks = TaskSet(built[2])
    tasks.save(tmp_path / "tasks.jsonl")
    loaded = TaskSet.load(tmp_path / "tasks.jsonl")
    assert list(loaded) == list(tasks)
    assert loaded.digest == tasks.digest
    assert list(tmp_path.iterdir()) == [tmp_path / "tasks.jsonl"]
    assert all(task_from_dict(json.loads(json.dumps(task_to_dict(t)))) == t for t in tasks)


def test_families_and_ids(built):
    tasks = TaskSet(built[2])
    assert {name: len(part) for name, part in tasks.by_family().items()} == COUNTS
    assert tasks.get(tasks[5].id) is tasks[5]
    with pytest.raises(TaskError, match=f"unknown task id 'x{tasks[5].id}'. Did you mean"):
        tasks.get("x" + tasks[5].id)
    with pytest.raises(TaskError, match="occurs twice"):
        TaskSet([tasks[0], tasks[0]])


def test_a_minimal_task_keeps_its_defaults():
    task = Task("a", "Who?", ("Bob",))
    assert task_to_dict(task) == {"id": "a", "question": "Who?", "answers": ["Bob"]}
    assert task_from_dict(task_to_dict(task)) == task


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "tasks.jsonl:2: not JSON"),
        ("[]", "tasks.jsonl:2: expected a JSON object, got list"),
        ('{"id": "b", "question": "?"}', "tasks.jsonl:2: a task needs 'answers'"),
        ('{"id": "b", "question": "?", "answers": "x"}', "'answers' must be a list of texts"),
        ('{"id": "b", "question": "?", "answers": [], "familly": 1}', "Did you mean 'family'"),
        ('{"id": "b", "question": "?", "answers": [], "graph": {}}', "broken graph"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, message):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": "a", "question": "?", "answers": ["x"]}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        TaskSet.load(path)
