"""Readers of files: ours and those of others, and what is none of them."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.core import Trajectory
from searchgym.errors import DataError
from searchgym.viewer.formats import LOG, blocks, detect, parse, sources
from searchgym.viewer.formats.search_r1 import hits_of, last_action, turns_of
from searchgym.viewer.record import Record

from ..small import TASKS, episode, play
from .runs import branched

PROMPT = (
    "Answer the given question. For example, <answer> Beijing </answer>. Question: "
    "Who founded Aldor?\n"
)
WRITTEN = (
    "<think> I search. </think>\n<search> Aldor founder </search>\n\n"
    "<information>Doc 1(Title: Aldor) Aldor was founded by Mira Venn.\n"
    "Doc 2(Title: Quell) Quell is a town.</information>\n\n"
    "hmm\nMy previous action is invalid. Say more. Let me try again.\n"
    "<answer> Mira Venn </answer>"
)


def read(path: Path) -> list[Record]:
    kind = detect(path)
    return [parse(data, kind, f"{path}:{at}") for at, data, _ in blocks(path, kind)]


def lines(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(v) + "\n" for v in values), encoding="utf-8")
    return path


def test_ours_say_all_that_the_episode_knows(tmp_path: Path) -> None:
    e = play(episode(), "<search> Aldor founder </search>", "hm", "<answer> Osten </answer>")
    (found,) = read(lines(tmp_path / "a.jsonl", Trajectory.of(e).to_json()))
    task = e.config.task
    assert (found.question, found.answers, found.evidence) == (
        task.question, task.answers, task.evidence,
    )  # fmt: skip
    assert [t.action for t in found.turns] == ["Search", "Invalid", "Answer"]
    assert found.turns[0].detail == "Aldor founder"
    assert [h.id for h in found.turns[0].hits] == [
        h.passage.id for s in e.contexts.segments for h in s.hits
    ]
    assert found.missing == tuple(e.missing_evidence)
    assert (found.outcome, found.problems) == ("wrong", ("invalid", "evidence"))
    said = [o.text for o in (*found.prompt, *(o for t in found.turns for o in t.observations))]
    assert said == [s.text for s in e.contexts.segments if s.author == "env"]
    assert sum(t.reward or 0 for t in found.turns) == found.reward


def test_branches_know_where_they_began(tmp_path: Path) -> None:
    made = branched()
    found = read(lines(tmp_path / "a.jsonl", *(t.to_json() for t in made)))
    assert [f.parent for f in found] == [t.parent for t in made]
    assert found[0].parent is None
    assert [len(f.turns) for f in found] == [3, 3, 3, 3]


def search_r1_turns(found: Record) -> None:
    assert [t.action for t in found.turns] == ["Search", "Invalid", "Answer"]
    assert [(h.title, h.text) for h in found.turns[0].hits] == [
        ("Aldor", "Aldor was founded by Mira Venn."),
        ("Quell", "Quell is a town."),
    ]
    assert found.turns[1].observations[0].kind == "invalid"
    assert found.question == "Who founded Aldor?"
    assert (found.answer, found.answers) == ("Mira Venn", ("Mira Venn", "Venn"))
    assert (found.outcome, found.reward, found.searches) == ("right", 1.0, 1)


def test_the_question_is_the_last_one_of_a_prompt_with_an_example(tmp_path: Path) -> None:
    example = "An example. Question: Who founded Quell?\n<answer> Osten </answer>\n\n"
    row = {"input": example + PROMPT, "output": WRITTEN, "score": 1.0, "step": 20,
           "gts": {"target": ["Mira Venn", "Venn"]}}  # fmt: skip
    (record,) = read(lines(tmp_path / "20.jsonl", row))
    search_r1_turns(record)


def test_verl_dumps_of_search_r1(tmp_path: Path) -> None:
    chat = f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    row = {"input": chat, "output": WRITTEN + "<|im_end|>", "score": 1.0, "step": 20,
           "gts": {"target": ["Mira Venn", "Venn"]}, "em": 1}  # fmt: skip
    path = lines(tmp_path / "20.jsonl", row)
    (found,) = read(path)
    search_r1_turns(found)
    assert (found.step, dict(found.parts)) == (20, {"em": 1.0})
    (source,) = sources(path)
    assert source.step == 20
    for name in ("²", "9" * 40, "step-" + "9" * 40):  # no numbers, or none that a database holds
        (source,) = sources(path.rename(tmp_path / f"{name}.jsonl"))
        assert source.step is None
        path = source.path


def test_the_log_that_search_r1_prints(tmp_path: Path) -> None:
    rule = "-" * 32
    block = (
        f"{rule}\nGolden answers: ['Mira Venn' 'Venn']\nExtracted answer: Mira Venn\n"
        f"Solution string: <|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n{WRITTEN}\n"
    ).replace("['Mira Venn' 'Venn']", "['Mira Venn', 'Venn']")
    other = block.replace("Extracted answer: Mira Venn", "Extracted answer: None")
    text = "INFO starting\n" + block + "step:1 - critic/score/mean:0.2\n" + other + "INFO done\n"
    worker = "".join(f"(main_task pid=77) {line}\n" for line in text.splitlines())
    for name, log in (("plain.log", text), ("ray.log", worker)):
        path = tmp_path / name
        path.write_text(log)
        assert detect(path) == LOG
        first, second = read(path)
        search_r1_turns(first)
        assert "critic/score" not in first.turns[-1].text
        assert (second.answer, second.reward, second.outcome) == ("", 0.0, "none")


def test_verifiers_results(tmp_path: Path) -> None:
    call = json.dumps(
        {
            "id": "1",
            "type": "function",
            "function": {"name": "search", "arguments": '{"q": "Aldor"}'},
        }
    )
    row = {
        "example_id": 3, "task": "wiki", "answer": "Mira Venn", "reward": 0.5, "judge": 1.0,
        "prompt": [{"role": "system", "content": "Be brief."},
                   {"role": "user", "content": "Who founded Aldor?"}],
        "completion": [
            {"role": "assistant", "content": "Let me see.", "tool_calls": [call]},
            {"role": "tool", "content": "Aldor was founded by Mira Venn."},
            {"role": "assistant", "content": "Mira Venn"},
        ],
        "error": None, "total_ms": 1200.0,
    }  # fmt: skip
    broken = row | {"error": "TimeoutError()", "completion": row["completion"][:2]}
    first, second = read(lines(tmp_path / "results.jsonl", row, broken))
    assert [(t.action, t.detail) for t in first.turns] == [
        ("Search", "Aldor"),
        ("Answer", "Mira Venn"),
    ]
    assert first.turns[0].observations[0].text == "Aldor was founded by Mira Venn."
    assert (first.task, first.question, first.answers) == (
        "wiki-3", "Who founded Aldor?", ("Mira Venn",),
    )  # fmt: skip
    assert (first.reward, first.parts["judge"], first.outcome) == (0.5, 1.0, "partly")
    assert (second.end, second.outcome, second.problems[:1]) == (
        "infra_error",
        "lost",
        ("failure",),
    )


def test_openai_messages(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Who founded Aldor?"}]},
        {"role": "assistant", "content": None, "reasoning_content": "I look.",
         "tool_calls": [{"function": {"name": "lookup", "arguments": "{not json"}}]},
        {"role": "tool", "content": "nothing"},
    ]  # fmt: skip
    done = [*messages, {"role": "assistant", "content": "<answer>Mira Venn</answer>"}]
    full = {"messages": done, "answer": "Mira Venn", "model": "m"}
    cut, whole = read(lines(tmp_path / "chat.jsonl", {"messages": messages}, full))
    assert (cut.end, cut.outcome, cut.turns[0].detail) == ("max_turns", "none", "{not json")
    assert "I look." in cut.turns[0].text
    assert (whole.answer, whole.agent, whole.outcome) == ("Mira Venn", "m", "unscored")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02", "is not text"),
        (b"hello\n", "line 1 is not JSON"),
        (b"[1, 2]\n", "no object"),
        (b'{"step": 1, "loss": 2.0}\n', "an object with step, loss"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        sources(path)
    with pytest.raises(DataError, match="holds no trajectories"):
        sources(tmp_path)


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    good = Trajectory.of(play(episode(TASKS[1]), "<answer> x </answer>")).to_json()
    path = lines(tmp_path / "a.jsonl", good, good | {"turns": [{"number": 0}]})
    with pytest.raises(DataError, match=r"a\.jsonl:\d+: not a record of searchgym: no 'action'"):
        read(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("turns", 0, "number"), None), (("turns", 0, "context"), "x"),
        (("turns", 0, "reward"), [1]), (("turns", 0, "reward_parts"), [1]),
        (("turns", 0, "reward_parts"), {"em": "x"}), (("turns", 0, "role"), 7),
        (("segments", 0, "text"), 7), (("segments", 0, "kind"), None), (("parts",), {"em": [1]}),
    ],
)  # fmt: skip
def test_a_record_of_other_types_is_broken(
    tmp_path: Path, place: tuple[Any, ...], value: object
) -> None:
    record = Trajectory.of(play(episode(TASKS[1]), "<answer> x </answer>")).to_json()
    inner: Any = json.loads(json.dumps(record))
    path = lines(tmp_path / "a.jsonl", inner)
    read(path)
    *before, last = place
    changed = inner
    for name in before:
        inner = inner[name]
    inner[last] = value
    with pytest.raises(DataError, match="not a record of searchgym"):
        read(lines(tmp_path / "a.jsonl", changed))


def test_a_line_that_is_still_being_written_is_left(tmp_path: Path) -> None:
    good = json.dumps(Trajectory.of(play(episode(TASKS[1]), "<answer> x </answer>")).to_json())
    path = tmp_path / "a.jsonl"
    path.write_text(f"{good}\n{good[:500]}")
    assert len(read(path)) == 1
    path.write_text(f"{good}\n{good}")  # whole, without its newline
    assert len(read(path)) == 2


REFERENCE = re.compile(r"<(search|answer|access)>(.*?)</\1>", re.DOTALL)
TAGS = ["<search>", "</search>", "<answer>", "</answer>", "<access>", "a", " "]


@given(st.lists(st.sampled_from(TAGS), max_size=30).map("".join))
def test_the_last_action_is_the_one_an_expression_finds(text: str) -> None:
    found = REFERENCE.findall(text)
    assert last_action(text) == (found[-1] if found else None)


@pytest.mark.parametrize(
    "piece",
    ["<access>", "<access><search>", "<search>a</search>", "Doc 1 (Title: ",
     "My previous action is invalid.", "<information>", "Question: "],
)  # fmt: skip
def test_sixteen_thousand_tags_take_no_time(piece: str) -> None:
    """A collapsed policy repeats a tag; the time must grow with the text, not with its square."""
    text = piece * 16_000
    taken = []
    for _ in range(3):  # the machine may be busy with other things
        began = time.thread_time()
        turns = turns_of(text)
        hits_of(text)
        taken.append(time.thread_time() - began)
        assert len(turns) == 1
    assert min(taken) < 0.1
