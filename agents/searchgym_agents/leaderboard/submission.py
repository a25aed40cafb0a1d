"""Checks a result file that somebody else made, from its episodes and by playing them again.

A result file says what an agent scored; its trajectories, ``<name>.trajectories.jsonl`` beside it,
say what the agent did. Everything a leaderboard states follows from the two:

1. the means and intervals in the file are those of its rows;
2. the environment, built here from the settings in the file, asks these questions, accepts these
   answers, and has the same corpus and rules;
3. each trajectory, replayed from its own log, gives the row in the file;
4. the recorded actions, played in the environment, earn the same and are shown the same texts: no
   result page was invented.

Steps 2 and 4 need the environment's data, and an engine that answers alike twice. What was not
tried is no proof: lost episodes, questions that were left out, and all that could not be repeated
make the verdict "NOT VERIFIED". No check tells who wrote the actions: an agent that was told the
answers can look like one that found them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from searchgym.core.trajectory import Trajectory, from_line, read_jsonl, to_line
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, EvaluationError, SearchGymError
from searchgym.evaluation.comparison import differing, told
from searchgym.evaluation.journal import trajectories_of
from searchgym.evaluation.metrics import Row, row_of
from searchgym.evaluation.play import spread, tasks_within
from searchgym.evaluation.result import EvalResult
from searchgym.evaluation.run import asked_digest, evaluate, settings_of
from searchgym.rewards.reward import Reward
from searchgym.scoring import SCORING_VERSION
from searchgym.storage.files import read_json
from searchgym.tasks.records import task_from_dict
from searchgym.types import Task, TurnRequest
from searchgym.utils.trust import registered_only

_TOOK = ("tokens_in", "tokens_out", "cost", "overflowed", "length_cut", "judge", "retries",
         "no_action")  # fmt: skip
"""Columns that an agent, its server or a judge reports, which cannot be recomputed, and a quotation
that older results lack."""
_OWN = ("agent", "batch", "tokens", "versions", "judge", "environment", "questions",
        "scoring")  # fmt: skip
"""Settings that describe the agent or the machine, or are checked apart."""


Asked = tuple[str, ...] | None
"""Options of ``searchgym eval`` that ask a result's questions; None where no options do."""


class Checked(NamedTuple):
    """Outcome of checking a file: what was found right, what is wrong, what was not tried."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]
    untried: tuple[str, ...]
    played: bool = False
    """True if the environment was built here and the recorded actions played in it."""
    lost: int = 0
    """Episodes that the infrastructure ended: nothing of them was checked."""
    chosen: str = ""
    """"156 chosen of 956", if the questions are neither all nor what a number of them asks."""
    asked: Asked = None

    @property
    def verdict(self) -> str:
        """ "WRONG", "NOT VERIFIED" (something was not tried) or "ok"."""
        return "WRONG" if self.wrong else "NOT VERIFIED" if self.untried else "ok"


class _Recorded:
    """An agent that repeats the recorded texts, and notes where it was shown other ones before."""

    def __init__(self, played: Sequence[Trajectory]) -> None:
        self._texts = {t.id: [str(turn["text"]) for turn in t.turns] for t in played}
        self._shown = {t.id: {s["id"]: s["text"] for s in t.segments} for t in played}
        self.differs: dict[str, str] = {}
        """Episode → the kind of text that the environment gives otherwise."""

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        out = []
        for request in requests:
            texts = self._texts.get(request.episode_id, [])
            out.append(texts[request.turn] if request.turn < len(texts) else "")
            shown = self._shown.get(request.episode_id, {})
            for segment in request.segments:
                if segment.author == "env" and shown.get(segment.id) != segment.text:
                    self.differs.setdefault(request.episode_id, segment.kind)
        return out


def check_result(path: Path, *, rebuild: bool = True, trust: bool = False) -> Checked:
    """Check a result file with its trajectories.

    Args:
        path: The result's file, as ``searchgym eval … --out`` writes it.
        rebuild: Whether to build the environment and play the actions in it again.
        trust: Import and run what the files name by import path, such as an own reward.

    Raises:
        EvaluationError: not a result file of this version.
    """
    with followed(path):
        return _checked(path, rebuild, trust)


@contextmanager
def followed(path: Path) -> Iterator[None]:
    """Turn an error of following what a file says, which may be anything, into one line.

    Raises:
        EvaluationError: naming the file.
    """
    try:
        yield
    except SearchGymError:
        raise
    except _BROKEN as error:
        raise EvaluationError(
            f"{path} is no result as this program writes it: {error!r:.200}"
        ) from error


def _checked(path: Path, rebuild: bool, trust: bool) -> Checked:
    result = EvalResult.load(path)
    right: list[str] = []
    untried: list[str] = []
    if not result.complete:
        return Checked((), (), ("the run was interrupted: the same command goes on with it",))
    wrong = _of_the_file(path, result)
    if not wrong:
        right.append(f"means and intervals follow from the {len(result.rows)} rows")
    if lost := result.infra_errors:
        untried.append(
            f"{lost} of {len(result.rows)} episodes were lost to the infrastructure and were not "
            "checked; on the leaderboard they count as 0 (searchgym eval … --retry-lost plays "
            "them again)"
        )
    if result.scoring_version != SCORING_VERSION:
        untried.append(
            f"its episodes: scored by version {result.scoring_version} of the scoring, this is "
            f"{SCORING_VERSION}, and scores of two versions differ; evaluate again, or verify it "
            "with the release that made it"
        )
        return Checked(tuple(right), tuple(wrong), tuple(untried), lost=lost)
    episodes = trajectories_of(path)
    if not episodes.is_file():
        wrong.append(f"{episodes.name} is missing: without its episodes a score cannot be checked")
        return Checked(tuple(right), tuple(wrong), tuple(untried), lost=lost)
    played = list(read_jsonl(episodes))
    env, chosen, asked, repeated = None, "", None, False
    if not rebuild:
        untried.append("the environment was not built")
    else:
        try:
            with registered_only(path, trust=trust):
                env = _environment(result, trust)
        except _BROKEN as error:
            untried.append(f"building the environment: {str(error) or type(error).__name__}")
    if env is not None:
        if bad := _questions(env, result, played):
            wrong += bad
        else:
            right.append("questions and accepted answers are the environment's")
            chosen, asked = _selection(env, result)
        if chosen:
            untried.append(f"{chosen} questions: the others may have other scores")
    if not wrong:
        if bad := _replayed(path, result, played, trust):
            wrong += bad
        else:
            right.append(f"all {len(played)} trajectories, replayed, give these rows")
    if env is not None and not wrong:
        if unusual := next((k for k in _UNUSUAL if result.settings.get(k)), ""):
            untried.append(f"playing the actions in the environment: it has a {unusual} of its own")
        else:
            try:
                with registered_only(path, trust=trust):
                    bad = _played_again(env, result, played)
            except _BROKEN as error:
                untried.append(f"playing the actions in the environment: {error!r:.200}")
            else:
                wrong += bad
                repeated = not bad
            if repeated:
                right.append(
                    "the recorded actions, played in the environment built here, earn it (tokens, "
                    "costs, retries, a judge's verdicts and closed-book scores are as the file "
                    "states them)"
                )
    return Checked(tuple(right), tuple(wrong), tuple(untried), repeated, lost, chosen, asked)


_UNUSUAL = ("class", "curriculum", "reward_transforms", "wrappers")
"""Settings that a file cannot bring back."""
_BROKEN = (
    SearchGymError, LookupError, TypeError, ValueError, AttributeError, OSError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
"""Errors of following what a file says, which may be anything."""


def _of_the_file(path: Path, result: EvalResult) -> list[str]:
    """Contradictions within the file."""
    wrong = []
    stated = read_json(path).get("means", {})
    for name, interval in result.means.items():
        for part in ("mean", "low", "high", "n"):
            value, said = getattr(interval, part), stated.get(name, {}).get(part)
            if not _same(value, math.nan if said is None else said):
                wrong.append(f"{name}: {part} {said} is stated, the rows give {value:.6g}")
    if len({row.task_id for row in result.rows}) < len(result.rows):
        wrong.append("a question occurs twice")
    count = result.settings.get("questions", {}).get("count")
    if count != len(result.rows):
        wrong.append(f"{count} questions were to be asked, {len(result.rows)} have a row")
    return wrong


def _replayed(
    path: Path, result: EvalResult, played: Sequence[Trajectory], trust: bool
) -> list[str]:
    """Rows of the file that its own episodes do not give."""
    rows = {row.task_id: row for row in result.rows}
    wrong = []
    if [t.task_id for t in played] != [row.task_id for row in result.rows]:
        wrong.append(f"{len(played)} episodes for {len(rows)} rows, or other questions")
    for trajectory in played:
        if trajectory.task_id not in rows:
            continue
        try:
            with registered_only(path, trust=trust):
                episode = trajectory.replay(trust=trust)
                row = row_of(episode, trajectory.usage)
                again = from_line(to_line(Trajectory.of(episode)), "it")
        except CardError:  # code that is not trusted: to be said as it is
            raise
        except _BROKEN as error:
            wrong.append(f"{trajectory.task_id}: cannot be replayed: {error!r:.200}")
            continue
        if name := _differs(rows[trajectory.task_id], row, ("judge",)):
            there, here = getattr(rows[trajectory.task_id], name), getattr(row, name)
            wrong.append(f"{trajectory.task_id}: {name} {there!r} is stated, replayed {here!r}")
        elif other := [n for n in _TOLD if getattr(again, n) != getattr(trajectory, n)]:
            wrong.append(f"{trajectory.task_id}: its {other[0]} are not those of its own log")
    return wrong


_TOLD = ("turns", "segments", "id", "end", "answer", "queries", "ret")
"""Fields of an episode's record besides its log, for those who read it."""


def _environment(result: EvalResult, trust: bool) -> SearchEnv:
    """The environment of a result, from the keywords in its settings."""
    if result.settings.get("class"):
        raise EvaluationError("it has a class of its own")
    keywords = dict(result.settings["environment"])
    keywords.pop("data_dir", None)
    reward = Reward.from_json(result.settings["rules"]["reward"], trust=trust)
    env = SearchEnv(**keywords, reward=reward)
    env.params.update(result.settings.get("params", {}))
    env.time_limit = result.settings.get("time_limit")
    return env


def _questions(env: SearchEnv, result: EvalResult, played: Sequence[Trajectory]) -> list[str]:
    """Questions that are not the environment's, and those of which an episode tells otherwise: its
    accepted answers or gold passages, which decide what a replay earns."""
    known = {task.id: task for task in env.tasks}
    strange = [row.task_id for row in result.rows if row.task_id not in known]
    if strange:
        return [f"{strange[0]!r} and {len(strange) - 1} more are no questions of the environment"]
    wrong = []
    for trajectory in played:
        task = known.get(trajectory.task_id)
        if task is None:
            wrong.append(f"{trajectory.task_id!r} is no question of the environment")
            continue
        try:
            replayed = task_from_dict(trajectory.snapshot["config"]["task"])
        except _BROKEN as error:
            wrong.append(f"{task.id}: its episode names no task: {error!r:.200}")
            continue
        stated: list[tuple[Any, str]] = [(replayed, name) for name in ("id", *_JUDGED)]
        stated += [(trajectory, name) for name in ("question", "answers", "family")]
        for record, name in stated:
            if (there := getattr(record, name)) != (here := getattr(task, name)):
                wrong.append(f"{task.id}: {name} {there!r} in its episode, the set has {here!r}")
                break
    digest = asked_digest([known[row.task_id] for row in result.rows])
    if not wrong and result.settings["questions"]["digest"] != digest:
        wrong.append("questions or accepted answers are not the environment's")
    return wrong


_JUDGED = ("question", "answers", "items", "evidence", "should_abstain", "family", "hops")
"""Fields of a task that a row is computed from."""


def _selection(env: SearchEnv, result: EvalResult) -> tuple[str, Asked]:
    """Return how many questions were chosen of how many, or the options that ask them all."""
    known = [task.id for task in tasks_within(env)]
    asked, n = {row.task_id for row in result.rows}, len(result.rows)
    if asked == set(known):
        return "", ()
    if asked == {*spread(known, n)}:
        return "", ("-n", str(n))
    if asked == set(known[:n]):
        return "", ("-s", f"max_tasks={n}")
    return f"{n} chosen of {len(known)}", None


def _played_again(env: SearchEnv, result: EvalResult, played: Sequence[Trajectory]) -> list[str]:
    """Differences of the environment, and of what the recorded actions earn in it."""
    known = {task.id: task for task in env.tasks}
    tasks: list[Task] = [known[row.task_id] for row in result.rows]
    agent = _Recorded(played)
    enabled = bool(result.settings["search_enabled"])
    here = settings_of(agent, env, tasks, search_enabled=enabled, batch=1)
    if differs := differing(result.settings, here, _OWN):
        return [f"the environment built here differs: {told(differs)}"]
    again = evaluate(agent, env, tasks=tasks, seed=result.seed, search_enabled=enabled)
    ids = {trajectory.id: trajectory for trajectory in played}
    wrong = [
        f"{ids[name].task_id}: the environment gives another text ({kind}) than its episode tells"
        for name, kind in agent.differs.items() if name in ids and not ids[name].infra_error
    ]  # fmt: skip
    for row, now in zip(result.rows, again.rows, strict=True):
        if not row.infra_error and (name := _differs(row, now, _TOOK)):
            wrong.append(
                f"{row.task_id}: {name} {getattr(row, name)!r} is stated, played again "
                f"{getattr(now, name)!r}"
            )
    return wrong


def _differs(a: Row, b: Row, but: Sequence[str]) -> str:
    """Name of the first column in which two rows differ, or ""."""
    for name in Row._fields:
        if name not in but and not _same(getattr(a, name), getattr(b, name)):
            return name
    return ""


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, float) and isinstance(b, float | int):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return bool(a == b)
