"""The leaderboard: every score that is stored with its number of questions and its command.

Rows come from the ``expected.json`` files of the catalogue (``agents/*/expected.json``,
``envs/*/expected.json``), from result files that others submitted
(``agents/<name>/results/*.json``), and from result files that are named. A result file is what
``searchgym eval … --out DIR`` writes, with its trajectories beside it. It is checked before it is
shown, as ``searchgym verify FILE`` does: a wrong one is refused, and a row says what was not
checked. In a result file an episode that the infrastructure ended counts as 0, so that no score
gains by losing some.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from searchgym.benchmark.reference_runs import FIRST_SCORING, load
from searchgym.cards import cards, catalog
from searchgym.envs.options import Options
from searchgym.errors import EvaluationError, SearchGymError, check_known
from searchgym.evaluation.comparison import BEYOND
from searchgym.evaluation.intervals import Interval, mean_interval
from searchgym.evaluation.machine import NOTE
from searchgym.evaluation.metrics import METRICS as MEASURED
from searchgym.evaluation.metrics import column, own_metric
from searchgym.evaluation.result import EvalResult
from searchgym.rewards.reward import Reward
from searchgym.scoring import SCORING_VERSION
from searchgym.storage.files import read_json
from searchgym.text import printable

from .submission import Checked, check_result, followed

METRICS = ("f1", "em", "evidence_recall", "searches", "reward")
_ALWAYS = ("f1", "em", "evidence_recall", "searches")
"""Metrics of every row; the reward's is only there where it ranks."""
FEWEST = 50
"""Fewest questions of a row; fewer say too little about a method."""


class Entry(NamedTuple):
    """A method's scores on one set of questions, as one run measured them."""

    method: str
    set: str
    """A real set, an environment, or a rung of one ladder: "held-out world (candidate)". One whose
    options are not its own is marked: "SearchQA-v0 (altered)"."""
    run: str
    """Owner and name of the run: rows of one run were measured alike."""
    scores: Mapping[str, Interval]
    """Metric → mean with its 95 % interval, over seeds and questions."""
    questions: int
    """Questions behind the means, lost episodes among them."""
    seeds: int
    date: str
    """Day of the measurement (ISO), or "" where the file does not say."""
    version: str
    """Version of searchgym."""
    command: str
    """Command that measures it again; "" where none asks the same questions."""
    metric: str = "f1"
    """The metric that ranks the methods of this set, see ``evaluation.metrics.own_metric``."""
    ceiling: bool = False
    """True for the oracle, which is told the gold queries: a bound, no method."""
    lost: int = 0
    """Episodes that the infrastructure ended; each counts as 0."""
    note: str = ""
    """Remark for readers: lost episodes, chosen questions, "not verified", an earlier
    version of the scoring."""
    verified: bool = True
    """False: its actions were not played again here, so it is never the best."""


def expected_files() -> list[Path]:
    """Every ``expected.json`` of the catalogue, in alphabetical order."""
    return sorted(p for kind in ("agents", "envs") for p in catalog(kind).glob("*/expected.json"))


def submitted_files() -> list[Path]:
    """Every result file that lies beside an agent's card."""
    return sorted(catalog("agents").glob("*/results/*.json"))


def entries(results: Iterable[Path] = (), *, fewest: int = FEWEST) -> list[Entry]:
    """All rows with at least ``fewest`` questions; ``results``: result files to add. Of stored runs
    of one agent on one set the row with most questions stands, then most seeds, unless ``fewest``
    is 1, which shows all.

    Raises:
        EvaluationError: a file is neither stored runs nor a result.
    """
    stored: dict[tuple[str, ...], Entry] = {}
    for entry in (entry for path in expected_files() for entry in recorded(path)):
        key = (entry.set, entry.method, *([entry.run] if fewest == 1 else ()))
        other = stored.setdefault(key, entry)
        if (entry.questions, entry.seeds, entry.date) > (other.questions, other.seeds, other.date):
            stored[key] = entry
    all_entries = list(stored.values())
    all_entries += [measured(path) for path in (*submitted_files(), *results)]
    return [entry for entry in all_entries if entry.questions >= fewest]


def recorded(path: Path) -> list[Entry]:
    """The rows of an ``expected.json`` file."""
    rows = []
    owner = path.parent.name
    for name, run in load(path).items():
        cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in run["table"]:
            cells.setdefault((row["rung"], row["agent"]), []).append(row)
        command = [*run.get("command", "transfer").split(), *run["arguments"]]
        if command[0] != "python":  # a learner's own module
            command.insert(0, "searchgym")
        kinds = {rung["name"]: rung["kind"] for rung in run["rungs"]}
        scoring = run.get("scoring", FIRST_SCORING)
        note = "" if scoring == SCORING_VERSION else f"scoring {scoring}"
        for (rung, agent), these in cells.items():
            scores = {row["metric"]: Interval.of({**row, "method": "stored"}) for row in these
                      if row["metric"] in METRICS and row["low"] is not None}  # fmt: skip
            if not scores:  # a mean without an interval stands beside another row's, no row itself
                continue
            rows.append(
                Entry(
                    agent,
                    rung if kinds.get(rung) == "real" or rung == owner else f"{rung} ({owner})",
                    f"{owner}/{name}", scores, these[0]["questions"],
                    these[0]["seeds"], run.get("date", ""), run["versions"]["searchgym"],
                    shlex.join(command), _metric_of(rung), agent == "oracle", note=note,
                )
            )  # fmt: skip
    return rows


def _metric_of(name: str) -> str:
    """The metric that ranks the methods of a set, by its name."""
    known = gym.registry.get(f"searchgym/{name}")
    return own_metric(known.kwargs if known else {})


def measured(path: Path) -> Entry:
    """The row of a result file, its means computed from the stored rows.

    Raises:
        EvaluationError: the run was interrupted, or the file is wrong.
    """
    result = EvalResult.load(path)
    if not result.complete:
        raise EvaluationError(f"{path}: the run was interrupted; the same command goes on with it")
    try:
        checked = check_result(path)
    except SearchGymError as error:  # such as a reward that only its author's code knows
        checked = Checked((), (), (str(error),), lost=result.infra_errors)
    return _row(path, result, checked)


def _row(path: Path, result: EvalResult, checked: Checked) -> Entry:
    if checked.wrong:
        raise EvaluationError(
            f"{path} is wrong: {checked.wrong[0]}; 'searchgym verify' tells all that is"
        )
    with followed(path):
        name, options = _identity(result)
        settings = result.settings
        altered = options != {} or checked.chosen or not (
            settings["search_enabled"] and _is_plain(settings)
        )  # fmt: skip
        shown = (settings["corpus"]["name"] if _is_real(settings) else name).removeprefix(
            "searchgym/"
        )
        scores = {m: _counted(result, m) for m in METRICS if m in (*_ALWAYS, result.metric)}
        notes = [
            f"{checked.lost} lost" if checked.lost else "", checked.chosen,
            "" if checked.played else "not verified",
        ]  # fmt: skip
        return Entry(
            result.agent, shown + (" (altered)" if altered else ""),
            f"{path.parent.name}/{path.stem}",
            scores, scores[result.metric].n, 1, _day(path),
            settings["versions"].get("searchgym", ""), _command(result, checked, name, options),
            result.metric, result.ceiling, checked.lost, "; ".join(filter(None, notes)),
            checked.played,
        )  # fmt: skip


def _counted(result: EvalResult, metric: str) -> Interval:
    """A metric's mean in which a lost episode counts as 0, or less where others have less; what
    agents take (searches) is that of the others."""
    values = column(result.rows, metric)
    if metric != "searches" and result.infra_errors:
        worst = min([0.0, *values[~np.isnan(values)]])
        has = [row.infra_error and not math.isnan(getattr(row, metric)) for row in result.rows]
        values[has] = worst
    return mean_interval(values, seed=result.seed, unit=MEASURED[metric])


def _command(
    result: EvalResult, checked: Checked, env: str, options: Mapping[str, Any] | None
) -> str:
    """The command that asks the same agent the same questions, or "" where none is known to. It
    names catalogued agents and numbers only: whoever pastes it runs no code of a file's author and
    asks no server of theirs."""
    settings = result.settings
    card = cards("agents").get(result.agent)
    own = card is None or card.body["use"] != settings["agent"].get("class")
    texts = any(isinstance(v, str) for v in (settings["agent"].get("options") or {}).values())
    if checked.asked is None or options is None or own or texts or not _is_plain(settings):
        return ""
    command = ["searchgym", "eval", env, "-a", result.agent, *checked.asked]
    own_options = settings["agent"].get("options") or {}
    for key, value in {**{f"agent.{k}": v for k, v in own_options.items()}, **options}.items():
        command += ["-s", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    if not settings["search_enabled"]:
        command += ["--closed-book", "only"]
    if result.seed:
        command += ["--seed", str(result.seed)]
    line = shlex.join(command)
    return line if printable(line) == line else ""


def _identity(result: EvalResult) -> tuple[str, dict[str, Any] | None]:
    """Id of a result's environment and the options that are not those of its id; where it names
    none, the id that has all its options. None: there is no such id."""
    for known in (result.set, f"searchgym/{result.set}"):
        if known in gym.registry:
            options = _options(result, gym.registry[known].kwargs)
            if "corpus" not in options:  # else it only has the name
                return result.set, options
    for card in cards("envs").values():
        if not _options(result, gym.registry[card.id].kwargs):
            return card.id, {}
    return result.set, None


def _is_plain(settings: Mapping[str, Any]) -> bool:
    """True if keywords alone make the environment."""
    return not any(settings.get(name) for name in BEYOND)


def _options(result: EvalResult, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a result's environment that are not ``keywords``, those of an id."""
    given = {k: v for k, v in result.settings["environment"].items() if k != "data_dir"}
    usual = {k: _as_json(v) for k, v in keywords.items() if k != "reward"}
    if result.metric == "reward":  # another one would be another scale
        given["reward"] = result.settings["rules"]["reward"]
        usual["reward"] = Reward.of(keywords.get("reward", "em")).to_json()
    default = {f.name: _as_json(f.default) for f in fields(Options)}
    return {
        k: v for k in (*given, *(k for k in usual if k not in given))
        if (v := given.get(k, default.get(k))) != usual.get(k, default.get(k))
    }  # fmt: skip


def _as_json(value: Any) -> Any:
    """A value as it is read back from JSON: tuples are lists."""
    return json.loads(json.dumps(value, default=str))


def _day(path: Path) -> str:
    """Day on which a run was made, as its folder notes it, or ""."""
    note = path.parent / NOTE
    if not note.is_file():
        return ""
    return str(read_json(note).get("date", ""))


def _is_real(settings: Mapping[str, Any]) -> bool:
    card = cards("corpora").get(settings["corpus"]["name"])
    return card is not None and card.body["kind"] == "real"


def ordered(rows: Sequence[Entry], *, of: str | None = None) -> list[Entry]:
    """Rows set by set, the best of each first by the set's own metric; what was not verified, and
    the oracle, last.

    Args:
        rows: What to sort.
        of: Keep only this set.

    Raises:
        EvaluationError: an unknown set; the nearest are named.
    """
    if of is not None:
        check_known("set", {row.set for row in rows}, of, error=EvaluationError)
        rows = [row for row in rows if row.set == of]
    return sorted(rows, key=lambda r: (r.set, r.ceiling, not r.verified, -_mean(r, r.metric)))


def _mean(row: Entry, metric: str) -> float:
    score = row.scores.get(metric)
    return -math.inf if score is None or math.isnan(score.mean) else score.mean
