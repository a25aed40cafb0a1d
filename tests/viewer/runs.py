"""Runs to look at: episodes of a small world, played for real, in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from searchgym import BestSentenceAgent, RandomAgent, RulesAgent
from searchgym.agents import OracleAgent
from searchgym.core import Episode, Trajectory, run_episodes, write_jsonl
from searchgym.envs import SearchEnv
from searchgym.evaluation import episode_for
from searchgym.types import Agent

from ..small import episode, play


@cache
def world() -> SearchEnv:
    return SearchEnv(**{"corpus": "encyclopedia", "world": {"entities": 300}, "max_turns": 6})


def agents() -> dict[str, Agent]:
    return {
        "rules": RulesAgent(),
        "best-sentence": BestSentenceAgent(),
        "random": RandomAgent(seed=3),
        "oracle": OracleAgent(world().tasks),
    }


def episodes(agent: Agent, count: int, seed: int = 0) -> list[Episode]:
    tasks = list(world().tasks)
    tasks = tasks[:: max(1, len(tasks) // count)][:count]
    made = [episode_for(world(), task, seed) for task in tasks]
    return run_episodes(made, agent, world().toolbox)


def write_run(folder: Path, count: int = 12, names: Sequence[str] = ("rules", "oracle")) -> Path:
    """``<agent>.trajectories.jsonl`` of each agent, on the same questions."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        played = episodes(agents()[name], count)
        write_jsonl(folder / f"{name}.trajectories.jsonl", map(Trajectory.of, played))
    return folder


def branched() -> list[Trajectory]:
    """A root of three turns, two branches off its second turn, one branch off a branch."""
    root = play(
        episode(), "<search> Aldor founder </search>", "<search> Mira Venn born </search>",
        "<answer> Osten </answer>",
    )  # fmt: skip
    one = play(root.fork(at=1, branch=1), "<search> Quell </search>", "<answer> Quell </answer>")
    two = play(root.fork(at=1, branch=2), "hmm", "<answer> Mira </answer>")
    three = play(one.fork(at=2, branch=3), "<answer> Town of Quell </answer>")
    return [Trajectory.of(e) for e in (root, one, two, three)]


HOSTILE = (
    "\u202eesrever\u2066 \x00 \x1b[31m <script>window.ran = 1</script>"
    "<img src=x onerror='window.ran = 2'>"
    "<a href='javascript:window.ran=3'>click</a><svg onload=window.ran=4></svg>"
    "<iframe src='https://evil.example'></iframe><style>body{display:none}</style>"
    "</td></table></main><!-- <base href='https://evil.example/'>"
    "{{ 7*7 }} {% raw %} '\"> <form action=https://evil.example>"
    "<meta http-equiv=refresh content='0;url=https://evil.example'> \ud83d \U000e0041\U000e0042"
)


def hostile(trajectory: Trajectory) -> dict[str, Any]:
    """A record in which every text of strangers is an attack, as JSON."""
    text = json.loads(json.dumps(trajectory.to_json()))

    def turned(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {k: turned(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [turned(v, name) for v in value]
        keep = (
            "version",
            "kind",
            "author",
            "dialect",
            "tool",
            "role",
            "events",
            "action",
            "prompt",
        )
        return HOSTILE if isinstance(value, str) and name not in keep else value

    made: dict[str, Any] = turned(text)
    for hit in (
        h for e in made["snapshot"]["events"] if e[0] == "receive" for r in e[1] for h in r["hits"]
    ):
        hit[:4] = [HOSTILE] * 4
    made["segments"][-1]["text"] = HOSTILE + "long " * 100_000
    return made


def trained() -> Trajectory:
    """An episode as a trainer saves it: four tokens, of which one is masked."""
    e = play(episode(), "<answer> Quell </answer>")
    row = {
        "context": 0,
        "ids": [1, 2, 3, 4],
        "text": ["Question", "<answer>", " Quell ", "</answer>"],
        "turn": [None, 0, 0, 0],
        "trained": [False, True, True, False],
        "logp": [None, -0.01, -2.0, -0.3],
        "advantage": [None, 1.5, 1.5, None],
    }
    training = {"step": 7, "group": "0", "reward": 1.0, "advantages": {"0": 1.5}, "rows": [row]}
    return Trajectory.of(e, "train", training=training)
