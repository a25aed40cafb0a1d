"""The warm start end to end, resumed, and loaded by other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from searchgym.envs.setting import Setting
from searchgym.errors import DataError
from searchgym.llms.sft import Progress, SftConfig
from searchgym.warmstart.measuring import by_hops, play, reader_policy
from searchgym.warmstart.reading import MARKS
from searchgym.warmstart.run import STAGES, Stage, stage_traces, warm_start
from searchgym.warmstart.traces import SETTING

KEYWORDS = {**SETTING, "tasks": {"simple": 12, "chain-2": 6}}
SMALL = (
    Stage(1, (1,), 1, SftConfig(steps=3, batch=2)),
    Stage(2, (1, 2), 1, SftConfig(steps=4, batch=2)),
)


def begin(out: Path, **changes: Any) -> Any:
    return warm_start(out, SMALL, vocabulary=512, width=32, keywords=KEYWORDS, **changes)


def test_stages_see_their_hops_and_no_world_twice() -> None:
    first, second = (stage_traces(s, i, keywords=KEYWORDS) for i, s in enumerate(SMALL))
    assert {trace.hops for trace in first} == {1}
    assert {trace.hops for trace in second} == {1, 2}
    text = "".join(piece.text for trace in first for piece in trace.pieces)
    assert "Doc 1(" in text
    assert "Doc 2(" not in text
    assert {t.pieces for t in first}.isdisjoint(t.pieces for t in second)
    with pytest.raises(DataError, match="no trace has"):
        stage_traces(SMALL[0]._replace(hops=(3,)), 0, keywords=KEYWORDS)


def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    whole = begin(tmp_path / "whole")

    class Interrupt(Exception):
        pass

    def stop(stage: int, now: Progress) -> None:
        if stage == 1 and now.step == 2:
            raise Interrupt

    with pytest.raises(Interrupt):
        begin(tmp_path / "cut", report=stop)
    again = begin(tmp_path / "cut")
    assert again.tokens == whole.tokens > 0
    there = whole.model.state_dict()
    assert all((there[n] == p).all() for n, p in again.model.state_dict().items())
    with pytest.raises(DataError, match="other settings"):
        begin(tmp_path / "cut", seed=1)


def test_transformers_loads_the_result_and_it_plays(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    made = begin(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path))
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    text = f"Question: Who?\n{MARKS[0]}+ author{MARKS[1]} Ann Bee{MARKS[3]}"
    assert tokenizer(text)["input_ids"] == made.tokenizer(text)["input_ids"]
    setting = Setting({**KEYWORDS, "world": {"entities": 300, "seed": 9}})
    played = [play(reader_policy(m, t), setting) for m, t in ((model, tokenizer), made[:2])]
    texts = [[turn.text for e in episodes for turn in e.turns] for episodes in played]
    assert texts[0] == texts[1]
    counted = by_hops(played[0])
    assert [c.hops for c in counted] == [1, 2]
    assert sum(c.questions for c in counted) == len(setting.tasks)


def test_the_default_stages_grow() -> None:
    assert [stage.k for stage in STAGES] == sorted(stage.k for stage in STAGES)
    assert STAGES[-1].k == SETTING["k"]
    assert STAGES[-1].hops == (1, 2, 3)
    with pytest.raises(DataError, match="at least one stage"):
        warm_start(Path("unused"), ())
