"""The warm start end to end, resumed, and loaded by other tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from searchgym.core import run_episodes
from searchgym.envs import SearchEnv
from searchgym.errors import DataError
from searchgym.evaluation import episode_for
from searchgym.llms import Progress, Sampling, TransformersGenerator, fast_dtype
from searchgym.policies import BareRenderer, CausalLMPolicy, load_policy, read_note
from searchgym_agents.candidate.encoder import WordEncoder
from searchgym_agents.reader import run
from searchgym_agents.reader.encoding import MARKS
from searchgym_agents.reader.examples import KINDS, Examples, examples
from searchgym_agents.reader.mixture import Stage
from searchgym_agents.reader.run import OWN_TOKENS, WarmStart, stages, warm_start
from searchgym_agents.reader.slots import NamesRenderer
from searchgym_agents.reader.traces import DEFAULTS
from tests.reader.few_words import FewWords

pytestmark = pytest.mark.contract

KEYWORDS = {**DEFAULTS, "tasks": {"simple": 12, "chain-2": 6}}
SMALL = (
    Stage(3, {"copy": 1.0}),
    Stage(4, {"plan": 0.2, "cloze": 0.2, "drill": 0.2, "one": 0.2, "trace": 0.2}),
)


@pytest.fixture(scope="module", autouse=True)
def written_once() -> Iterator[None]:
    """Equal examples are written once: that they come again is shown in ``test_examples``."""
    made: dict[str, Examples] = {}

    def remembered(*args: Any, **options: Any) -> Examples:
        asked = repr((args, options))
        if asked not in made:
            made[asked] = examples(*args, **options)
        return made[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "examples", remembered)
        yield


def begin(out: Path, encoder: WordEncoder | None = None, **changes: Any) -> Any:
    options = {"vocabulary": 512, "width": 32, "keywords": KEYWORDS, "encoder": encoder,
               "entities": 100}  # fmt: skip
    return warm_start(out, SMALL, worlds=1, **{**options, **changes})


class Interrupt(Exception):
    pass


class Whole(NamedTuple):
    """A run that nobody disturbed."""

    folder: Path
    encoder: WordEncoder | None
    made: WarmStart


@pytest.fixture(scope="module", params=[None, FewWords()], ids=["pieces", "names"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    return Whole(folder, request.param, begin(folder, request.param, others=64))


def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(
    tmp_path: Path, whole: Whole
) -> None:
    encoder = whole.encoder

    def stop(now: Progress) -> None:
        if now.step == 5:
            raise Interrupt

    with pytest.raises(Interrupt):
        begin(tmp_path / "cut", encoder, others=64, report=stop)
    assert read_note(tmp_path / "cut") == read_note(whole.folder)  # it can be played with
    again = begin(tmp_path / "cut", encoder, others=64)
    assert again.tokens == whole.made.tokens > 0
    there = whole.made.model.state_dict()
    assert all((there[n] == p).all() for n, p in again.model.state_dict().items())
    for changes in ({"seed": 1}, {"entities": 101}, {"max_tokens": 600}, {"others": 65}):
        with pytest.raises(DataError, match="other settings"):
            begin(tmp_path / "cut", encoder, **{"others": 64, **changes})


def test_a_run_goes_on_in_its_own_numbers_on_another_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = torch.float32 if fast_dtype() == torch.bfloat16 else torch.bfloat16
    whole = begin(tmp_path, dtype=other)
    again = begin(tmp_path)
    there = whole.model.state_dict()
    assert all((there[n] == p).all() for n, p in again.model.state_dict().items())
    with pytest.raises(DataError, match=r"other settings \(dtype\)"):
        begin(tmp_path, dtype=fast_dtype())
    used: list[torch.dtype] = []
    monkeypatch.setattr(run, "fast_dtype", lambda: used.append(other) or other)

    def stop(now: Progress) -> None:
        raise Interrupt

    with pytest.raises(Interrupt):
        begin(tmp_path / "new", report=stop)
    assert used == [other], "a new run takes what is fast here"


def test_transformers_loads_the_result_and_it_plays(whole: Whole) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, encoder, made = whole
    renderer = type(load_policy(folder).renderer)
    assert renderer is (BareRenderer if encoder is None else NamesRenderer)
    assert ("freeze" in read_note(folder)) == (encoder is not None)
    model = AutoModelForCausalLM.from_pretrained(str(folder))
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    text = f"Question: Who?\n{MARKS[0]}+ author{MARKS[1]} Ann Bee{MARKS[3]}"
    assert tokenizer(text)["input_ids"] == made.tokenizer(text)["input_ids"]
    few = {"simple": 2, "chain-2": 1}  # untrained, it writes to the limit of every turn
    setting = SearchEnv(**{**KEYWORDS, "tasks": few, "max_turns": 2,
                           "world": {"entities": 100, "seed": 9}})  # fmt: skip
    there = made.model.state_dict()
    assert all((there[n] == p).all() for n, p in model.state_dict().items())
    texts, name = [], "bare" if encoder is None else "names"
    for own, env in (((model, tokenizer), setting), (made[:2], setting.under(max_turns=1))):
        sampling = Sampling(max_tokens=OWN_TOKENS, temperature=0.0)
        policy = CausalLMPolicy(TransformersGenerator(*own), name, sampling=sampling)
        begun = [episode_for(env, task, 0) for task in env.tasks]
        texts.append([e.turns[0].text for e in run_episodes(begun, policy, env.toolbox)])
    assert texts[0] == texts[1]


def test_the_stages_take_the_steps_asked_for_and_every_kind() -> None:
    for steps in (600, 5_000, 20_001):
        plan = stages(steps)
        assert sum(stage.steps for stage in plan) == steps
        assert {kind for stage in plan for kind in stage.shares} == set(KINDS)
        assert [set(stage.shares) for stage in plan[:2]] == [{"copy"}, {"plan"}]
    short = stages(1_000, few_episodes=True)
    assert sum(stage.steps for stage in short) == 1_000
    shares = short[-1].shares
    assert sum(shares.values()) == pytest.approx(1)
    assert 0 < shares["trace"] < shares["one"] / 2 < 0.05
    with pytest.raises(DataError, match="at least 600 steps"):
        stages(599)
    with pytest.raises(DataError, match="at least one stage"):
        warm_start(Path("unused"), ())
