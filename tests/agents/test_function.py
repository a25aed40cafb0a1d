"""Plain functions as agents: in Python, and by name on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from searchgym.agents.simple import FunctionAgent
from searchgym.core import run_episodes
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, EpisodeError
from searchgym.evaluation import episode_for, evaluate
from searchgym.types import TurnRequest
from tests.cli.conftest import SMALL, Cli, cli  # noqa: F401
from tests.small import CORPUS, TASKS


def by_prompt(prompt: str) -> str:
    asked = prompt.rsplit("Question:", 1)[-1]
    return "<answer> Quell </answer>" if TASKS[0].question in asked else "<answer> x </answer>"


def by_request(request: TurnRequest) -> str:
    return by_prompt("Question:" + "".join(s.text for s in request.segments))


def by_batch(requests: Sequence[TurnRequest]) -> list[str]:
    return [by_request(request) for request in requests]


@pytest.mark.parametrize("function", [by_prompt, by_request, by_batch])
def test_functions_of_every_form_play(function: object) -> None:
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": TASKS})
    result = evaluate(function, shared)  # type: ignore[arg-type]
    assert [row.answer.strip() for row in result.rows] == ["Quell", "x"]
    assert {row.turns for row in result.rows} == {1}


@pytest.mark.parametrize("wrong", [lambda: "x", lambda text: text, lambda prompt, more: "", dict])
def test_other_functions_are_refused(wrong: object) -> None:
    with pytest.raises(CardError, match=r"is no agent.*'prompt'"):
        FunctionAgent(wrong)  # type: ignore[arg-type]


def test_a_function_that_returns_nothing_is_named() -> None:
    def forgets(prompt: str) -> None:
        by_prompt(prompt)

    shared = SearchEnv(**{"corpus": CORPUS, "tasks": TASKS})
    with pytest.raises(EpisodeError, match=r"forgets\(\) returned NoneType"):
        evaluate(forgets, shared)  # type: ignore[arg-type]


def test_episodes_that_are_over_are_played_no_further() -> None:
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": TASKS})
    over, fresh = (episode_for(shared, task, 0) for task in TASKS)
    over.act("<answer> Osten </answer>")
    told: list[int] = []
    player = FunctionAgent(by_prompt)
    done = run_episodes([over.fork(), fresh], player, shared.toolbox, progress=told.append)
    assert [e.phase for e in done] == ["done", "done"]
    assert [len(e.turns) for e in done] == [1, 1]
    assert sum(told) == 2


def test_a_function_by_name(
    cli: Cli,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mine_too.py").write_text(
        "def agent(prompt): return '<answer> 7 </answer>'\n"
        "def maker(): return Agent()\n"
        "class Agent:\n"
        "    def act(self, requests): return ['<answer> 8 </answer>'] * len(requests)\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("agent", "maker", "Agent"):
        done = cli("eval", "SimpleQA-v0", "-a", f"mine_too:{name}", *SMALL, "--json")
        assert done.json[0]["means"]["turns"]["mean"] == 1.0
    refused = cli("eval", "SimpleQA-v0", "-a", "mine_too:agent", "-s", "agent.x=1", *SMALL)
    assert (refused.code, "takes no options" in refused.err) == (2, True)
