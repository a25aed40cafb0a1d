"""Run three programs of others on every environment id, and write what they say.

- rl-envdoctor plays policies that never look at the task, and corrupted answers, twice each: as
  the text of every turn, and written as an answer.
- gradecheck plays degenerate completions, bare and written as an answer.
- nenyax loads the id through its own driver of Gymnasium and climbs its tiers up to "audited": an
  episode completes, is the same for the same seed, and the right answer beats a wrong one.

Usage: ``python -m tests.certified.run REPORTS.json [ID …]``. The exit code is 1 if anything was
found.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import nenyax
from envdoctor.checks import run_checks
from envdoctor.runner import scan
from envdoctor.targets import Target
from envdoctor.types import Case, Score, Severity
from gradecheck.completion_attacks import run_all

import searchgym
from searchgym.cards import cards
from searchgym.core import gold_calls
from searchgym.dialects import get_dialect
from searchgym.envs import ids_of
from searchgym.errors import DataError
from searchgym.types import Answer, Search, Task

CASES = 40
PROGRAMS = ("rl-envdoctor", "gradecheck", "nenyax")


def answered_ids() -> list[str]:
    """Environments in which answers are paid: these programs forge answers, and in the others (a
    query is rewritten and its ranking paid) there is none to forge."""
    names = [name for item in cards("envs").values() for name in ids_of(item)]
    return [name for name in names if not gym.spec(name).kwargs.get("one_search")]


class Player:
    """Plays whole episodes of an environment with one text, and adds up the rewards; where calls
    are paid, too, after the right ones."""

    def __init__(self, env_id: str) -> None:
        self.env_id = env_id
        self.env = gym.make(env_id)
        inner: Any = self.env.unwrapped
        self.dialect = get_dialect(inner.rules.dialect)
        step = max(1, len(inner.tasks) // CASES)
        self.tasks: list[Task] = list(inner.tasks)[::step][:CASES]
        self.calls = {
            task.id: [*map(self.dialect.render_action, gold_calls(task, inner.rules.tools))]
            for task in inner.tasks if task.meta.get("worked_out")
        } | {
            task.id: [self.dialect.render_action(Search((query,))) for query in task.queries]
            for task in inner.tasks if "dossier" in task.meta  # only pages that were shown support
        }  # fmt: skip
        """Task → the turns before its answer, where more than the answer is paid."""

    def prompt(self, task: Task) -> str:
        """The first observation of a task's episode."""
        return str(self.env.reset(seed=0, options={"task_id": task.id})[0])

    def answered(self, text: str) -> str:
        """Write a text as an answer in the environment's dialect, unescaped, even if empty."""
        return self.dialect.render_action(Answer("PLACE")).replace("PLACE", text)

    def play(self, task_id: str, text: str) -> float:
        """Say the same in every turn until the episode ends."""
        self.env.reset(seed=0, options={"task_id": task_id})
        total, over = 0.0, False
        for call in self.calls.get(task_id, ()):  # what must be done is done: the rest is said
            total += float(self.env.step(call)[1])
        while not over:
            _, reward, terminated, truncated, _ = self.env.step(text)
            total += float(reward)
            over = terminated or truncated
        return total


class Doctored(Target):
    """An environment as rl-envdoctor wants it."""

    def __init__(self, player: Player, *, as_answer: bool) -> None:
        self.player, self.as_answer = player, as_answer
        self.name = f"{player.env_id}, {'as an answer' if as_answer else 'as a turn'}"

    def cases(self, n: int = 20, seed: int = 0) -> list[Case]:
        return [
            Case(task.id, self.player.prompt(task), task.answers[0])
            for task in self.player.tasks[:n]
        ]

    def score(self, case: Case, completion: str) -> Score:
        text = self.player.answered(completion) if self.as_answer else completion
        return Score(self.player.play(case.id, text))


class Graded:
    """An environment as gradecheck's attacks on completions want it."""

    pass_threshold = 0.5

    def __init__(self, player: Player) -> None:
        self.player = player
        self.examples = [
            SimpleNamespace(
                index=task.id, prompt=prompt, answer=task.answers[0], observation_text=prompt
            )
            for task in player.tasks
            if (prompt := player.prompt(task))
        ]

    def format_payload(self, text: str) -> str:
        return self.player.answered(text)

    formatted_gold = format_payload

    def score(self, example: Any, text: str) -> float:
        return self.player.play(example.index, text)

    def solved(self, reward: float) -> bool:
        return reward >= self.pass_threshold


def envdoctor_says(player: Player) -> dict[str, Any]:
    """Give what a right answer earns, what the best task-blind policy earns, and all findings."""
    said: dict[str, Any] = {"findings": []}
    for as_answer in (False, True):
        report = run_checks(scan(Doctored(player, as_answer=as_answer), n_cases=CASES))
        blind = [row for row in report.stats["policies"] if row["kind"] == "exploit"]
        best = max(blind, key=lambda row: row["mean_reward"])
        said["as an answer" if as_answer else "as a turn"] = {
            "trials": len(report.trials), "right": round(report.stats["ceiling"], 4),
            "best blind": [best["policy"], round(best["mean_reward"], 4)],
        }  # fmt: skip
        said["findings"] += [
            f"{found.severity}: {found.check}: {found.title}"
            for found in report.sorted_findings()
            if found.severity != Severity.INFO
        ]
    if any("prompt_leaks_answer" in line for line in said["findings"]):
        said["answers in prompts"], told = answers_in_prompts(player)
        if not told:
            said["findings"] = [x for x in said["findings"] if "prompt_leaks_answer" not in x]
    return said


def gradecheck_says(player: Player) -> dict[str, Any]:
    """Give the verdict of each attack; "fooled" and "warn" are findings."""
    found = run_all(Graded(player))  # type: ignore[arg-type]
    said: dict[str, Any] = {
        "verdicts": {finding.attack: finding.verdict for finding in found},
        "baseline": found[0].summary,
    }
    lines = [
        f"{finding.verdict}: {finding.attack}: {finding.summary}"
        for finding in found
        if finding.verdict not in ("resisted", "info")
    ]
    if said["verdicts"]["answer-leak"] == "warn":
        said["answers in prompts"], told = answers_in_prompts(player)
        if not told:
            lines = [line for line in lines if "answer-leak" not in line]
    return {**said, "findings": lines}


OTHER = "for no reason known"


def answers_in_prompts(player: Player) -> tuple[dict[str, int], bool]:
    """Count why answers stand in prompts, and whether any tells something.

    The programs look for letters in a row, so that "no" is found in "know". What every prompt says,
    such as how to refuse, tells nothing of a question; and a comparison names all that it compares,
    wrong and right.
    """
    frame = player.prompt(player.tasks[0]).replace(player.tasks[0].question, "")

    def why(task: Task) -> str | None:
        answer = task.answers[0].strip()
        if len(answer) < 2 or answer not in player.prompt(task):
            return None
        if not re.search(rf"\b{re.escape(answer)}\b", player.prompt(task)):
            return "part of a longer word"
        if answer in frame:
            return "said in every prompt"
        shape = str(task.meta.get("shape"))  # of "sql", with the family that is asked
        compared = task.family.removeprefix("derived-") == "comparison" or "comparison:" in shape
        if compared or re.search(r"\b(or|both|and)\b", task.question):
            return "one of the alternatives that the question names"
        return OTHER

    reasons = Counter(filter(None, map(why, player.tasks)))
    return dict(reasons), OTHER in reasons


def nenyax_says(player: Player) -> dict[str, Any]:
    """Give the tier reached; a check that fails or is left out is a finding."""
    tasks = {task.question: task for task in player.env.unwrapped.tasks}  # type: ignore[attr-defined]

    def right(observation: Any) -> str:
        task = tasks[max((q for q in tasks if q in observation.text), key=len)]
        left = (call for call in player.calls.get(task.id, ()) if call not in observation.text)
        return next(left, player.answered(task.answers[0]))

    environment = nenyax.load(f"gymnasium:{player.env_id}")
    report = nenyax.check(
        environment, reference=right, null=lambda _: player.answered("nothing of the kind"),
        probe=right, samples=5,
    )  # fmt: skip
    return {
        "tier": report.tier.label,
        "findings": [
            f"{check.status}: {check.name}: {check.detail}"
            for check in report.checks
            if check.status != "pass"
        ],
    }


def written(reports: dict[str, Any]) -> str:
    """Write an environment a paragraph, a program a line."""
    ids = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(p)}: {json.dumps(said)}" for p, said in programs.items())
        + "\n  }"
        for name, programs in reports["environments"].items()
    ]
    head = json.dumps({**reports, "environments": {}}, indent=1)
    return head.removesuffix("{}\n}") + "{\n" + ",\n".join(ids) + "\n }\n}\n"


def main(target: Path, chosen: list[str]) -> int:
    """Run all on the ids, and write the reports."""
    known = json.loads(target.read_text()) if target.exists() else {"environments": {}}
    reports: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "searchgym": searchgym.__version__,
        "programs": {name: version(name) for name in PROGRAMS},
        "cases per environment": CASES,
        "environments": known["environments"],
    }
    found = 0
    for env_id in chosen or answered_ids():
        try:
            player = Player(env_id)
        except DataError as error:
            print(f"{env_id}: not run, its data is not here: {error}")
            continue
        said = {
            "rl-envdoctor": envdoctor_says(player),
            "gradecheck": gradecheck_says(player),
            "nenyax": nenyax_says(player),
        }
        reports["environments"][env_id] = said
        faults = [f"{name}: {line}" for name in said for line in said[name]["findings"]]
        print(f"{env_id}: {said['nenyax']['tier']}, {len(faults)} findings", *faults, sep="\n  ",
              flush=True)  # fmt: skip
        found += len(faults)
        target.write_text(written(reports), encoding="utf-8")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
