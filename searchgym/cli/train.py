"""``searchgym train``: trains a language model by a recipe, or an agent by its card.

A language model also in several processes, ``torchrun --nproc-per-node 2 -m searchgym train …``, of
which the main one speaks and writes.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import shlex
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError, MissingExtraError, unknown
from ..objects import bare_hint, from_spec, own_folder
from ..plugins import Registry, register
from ..utils.processes import PATIENCE, patient
from ..utils.trust import named_sources, registered_only
from .live import Screen, quiet_loading
from .options import Settings, Trust, fills, overrides, refuse_options, set_option
from .output import (
    JsonFlag,
    print_facts,
    say,
    with_examples,
    working,
)

if TYPE_CHECKING:
    from ..cards import Card
    from ..envs.mixture import EnvironmentMix
    from ..rl.launch import Plan
    from ..rl.trainer import Trainer

_LM = "Language models, by a recipe"


@dataclass(frozen=True)
class TrainOptions:
    """Options of a training."""

    model: Annotated[str | None, typer.Option(rich_help_panel=_LM)] = None
    """Model to train: a folder, a GGUF file, a name of 'searchgym models', or a hub name."""
    env: Annotated[str | None, typer.Option(rich_help_panel=_LM)] = None
    """Environment to train in; several, and texts: -s env=[…]. Default: SearchQA-v0."""
    steps: Annotated[int | None, typer.Option(min=1, rich_help_panel=_LM)] = None
    """Training steps. Default: the recipe's."""
    log: Annotated[list[str] | None, typer.Option(rich_help_panel=_LM)] = None
    """Also log to tensorboard, wandb or trackio. Repeatable."""
    resume: Annotated[bool, typer.Option("--resume", rich_help_panel=_LM)] = False
    """Go on with the run in --out."""
    out: Path | None = None
    """Folder of the run. Default: runs/NAME of a recipe or of a card that trains a language model,
    else runs/train."""
    seed: list[int] | None = None
    """Fixes the run. Repeatable for cards: one agent per seed."""
    seconds: Annotated[float | None, typer.Option(min=1)] = None
    """Stop training after so many seconds. Runs are reproducible only without it."""
    show: Annotated[bool, typer.Option("--open")] = False
    """Follow the training in the browser (searchgym watch)."""


OF_CARDS = frozenset({"card", "out", "seed", "seconds", "settings", "show", "as_json"})
"""Options for agents that learn by their cards."""
REPORT_S = 60.0
"""Seconds between reports of a step."""
_ENDS = ("", "seconds", "interrupted")
"""Ways to end before the last step; where processes differ, the last of these counts."""


@register("train")
@with_examples(
    "searchgym train candidate",
    "searchgym train smollm",
    "searchgym train grpo --model Qwen/Qwen2.5-0.5B-Instruct --env SearchQA-v0 --steps 50 "
    "--out runs/x",
    "searchgym train dapo --model runs/small -s lora.rank=16 -s lora.targets=q_proj,v_proj -s "
    "env.max_turns=4",
    "searchgym train --resume --out runs/x --steps 100",
    "searchgym train candidate --seed 0 --seed 1 --out runs/two",
    "searchgym train ./my-agent -s config.episodes=20000 --json",
)
@fills("how", TrainOptions)
def train(
    context: typer.Context,
    how: TrainOptions,
    card: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE|CARD]",
            help="A recipe (grpo, dapo, ppo, …) that trains a language model, or an agent card "
            "that learns by itself (candidate). Left out with --resume.",
        ),
    ] = None,
    settings: Annotated[
        Settings,
        set_option(
            "Option of a recipe: loss.clip_high=.28, rollout.size=16, train.lr=1e-5, "
            "env.max_turns=4, sampling.max_tokens=200; of the run: lora.rank=16 (and alpha, "
            "targets), teacher=MODEL, roles.ROLE=MODEL, renderer=chat, dtype=bfloat16, "
            "device=cuda; of a card's train table: config.episodes=5000."
        ),
    ] = None,
    trust: Trust = False,
    as_json: JsonFlag = False,
) -> None:
    """Train a language model by a recipe, or an agent by its card.

    Ctrl-C finishes the step and saves; the same command, or --resume with --out, goes on with the
    same numbers. The folder then holds rl.jsonl (a line per step), curve.png, and model, which can
    be passed to [bold]searchgym eval --agent[/bold], as what a card writes can.
    """
    from .view import watching

    if card is not None and not is_recipe(card):
        refuse_options(
            context, OF_CARDS,
            f"is for language models, and {card!r} is none of their recipes; a card's own settings "
            "are changed by --set",
        )  # fmt: skip
        learner = agent_card(card)
        trainer = trainer_of(learner)
        home = how.out or Path("runs") / ("train" if hasattr(trainer, "climbers") else learner.id)
        with watching(home, how.show):
            trainer(learner, home, how.seed or (), settings, seconds=how.seconds, as_json=as_json)
        return
    if how.seed is not None and len(how.seed) > 1:
        raise CardError("one seed per folder: run again with another --seed and --out")
    folder = how.out or Path("runs") / Path(card or "train").stem
    plan = plan_of(
        card, model=how.model, env=how.env, out=folder, resume=how.resume, steps=how.steps,
        seed=how.seed[0] if how.seed else None, changes=overrides(settings), trust=trust,
    )  # fmt: skip
    if how.show and "save_rollouts" not in plan.train:  # the page shows the newest
        plan = replace(plan, train={**plan.train, "save_rollouts": 8})
    read: Any = nullcontext()
    if card is None or trust:  # what is built of a plan alone was named by the folder
        read = registered_only(folder / "run.json", trust=trust, sources=plan.sources)
    with watching(folder, how.show and main_process()), read:
        run(plan, folder, seconds=how.seconds, log=how.log or (), as_json=as_json)


def is_recipe(name: str) -> bool:
    """Return whether a name or path is of a recipe rather than an agent that learns by itself.
    Raises ``CardError`` if it is of neither."""
    from ..cards import cards
    from ..rl.recipe_files import shipped

    if name in shipped() or name.endswith(".toml"):
        return True
    known = cards("agents")
    if name not in known and own_folder(name) is None:
        learn = [*shipped(), *(n for n, c in known.items() if "train" in c.body)]
        raise CardError(unknown("recipe or card that learns", name, learn) + bare_hint(name))
    return False


def trainer_of(card: Card) -> Any:
    """Return what trains an agent: the trainer that its card names as ``use`` of the table
    ``train``, else that of pretrained models where the table names one, else the candidate
    agent's."""
    table = card.body.get("train", {})
    name = table.get("use", "finetune" if "model" in table else "candidate")
    return from_spec("trainer", name, Registry("trainer"), accepts=(), functions=True)


def agent_card(name: str) -> Card:
    """The agent's card of this name or folder."""
    from ..cards import card

    return card("agents", name)


def plan_of(
    recipe: str | None, *, out: Path, model: str | None = None, env: str | None = None,
    resume: bool = False, steps: int | None = None, seed: int | None = None,
    changes: Mapping[str, Any] | None = None, trust: bool = False,
) -> Plan:  # fmt: skip
    """Return what was asked for, as a plan; with ``resume`` that of the folder, which may name
    registered items only unless it is trusted.

    Raises:
        CardError: something is missing or unknown; says what to type.
        DataError: nothing to resume, or another run in the folder.
    """
    from ..rl.launch import Plan
    from ..rl.recipe_files import read, shipped

    changes = dict(changes or {})
    if resume and recipe is None:
        device = changes.pop("device", None)
        given = {"--model": model, "--env": env, "--seed": seed, "--set": changes or None}
        if fixed := [name for name, value in given.items() if value is not None]:
            raise CardError(
                f"{', '.join(fixed)} cannot be changed in a run that is resumed: what it began "
                "with counts (--steps and -s device=… may be given)"
            )
        plan = Plan.load_from(out, trust=trust)
        with registered_only(out / "run.json", trust=trust, sources=plan.sources):
            return replace(plan.extended(steps), **({} if device is None else {"device": device}))
    if recipe is None:
        raise CardError(
            f"say what to train by: searchgym train RECIPE, one of {', '.join(shipped())}; or "
            "candidate, an agent without a language model"
        )
    read(recipe)  # what is no recipe is said before a model is asked for
    if model is None:
        raise CardError(
            f"recipe {recipe!r} trains a language model: add --model with a name of 'searchgym "
            "models' (--model smollm2-135m), a folder ('searchgym warmstart' makes a small one) or "
            "a hub name (--model Qwen/Qwen2.5-0.5B-Instruct)"
        )
    train = {k: v for k, v in (("steps", steps), ("seed", seed)) if v is not None}
    plan = Plan.of(recipe, model, changes, env=env or "SearchQA-v0", train=train)
    if resume and not (out / "run.json").exists():
        Plan.load_from(out)  # says that there is none
    plan.agree(out)
    return plan


# --- a run in the terminal ------------------------------------------------------------------------
def run(
    plan: Plan, out: Path, *, seconds: float | None = None, log: Sequence[str] = (),
    as_json: bool = False,
) -> None:  # fmt: skip
    """Train to the end, or until Ctrl-C, which saves; raises ``KeyboardInterrupt`` then."""
    from ..rl.launch import config_of
    from ..rl.log import require_trackers

    require_trackers(log)
    config_of(plan)
    from ..rl.processes import launched  # not before it is known that torch is there

    with ExitStack() as silence:
        if launched() > 1 and not main_process():
            silence.enter_context(redirect_stdout(_Nowhere()))
            silence.enter_context(redirect_stderr(_Nowhere()))
        _run(plan, out, seconds, log, as_json)


def main_process() -> bool:
    """Return whether this is the process that speaks, of those that ``torchrun`` started."""
    return os.environ.get("RANK", "0") == "0"


class _Nowhere(io.TextIOBase):
    """Discards output of processes besides the main one; exceptions still propagate."""

    def write(self, text: str) -> int:
        return len(text)


def _run(plan: Plan, out: Path, seconds: float | None, log: Sequence[str], as_json: bool) -> None:
    from ..rl.launch import build
    from ..rl.log import Trackers

    with working(f"building {_place(plan)} …"):
        env = environments_of(plan)
    with working(f"loading {plan.model} …"), quiet_loading():
        trainer = build(plan, env, out)
    main = trainer.processes.main
    start, last = trainer.steps, trainer.config.steps
    if start >= last:
        say(f"{out} was trained to its last step already, {start}; go on with --steps {2 * start}")
    elif start:
        say(f"going on after step {start} of {last} in {out}")
    last_row = _last_row(trainer, start)
    trackers = Trackers(log if main else (), out, asdict(plan), start - len(last_row))
    for step, metrics in last_row.items():  # a kill may have come before they were told it
        trackers.write(step, metrics)
    title = f"{plan.recipe}: {plan.model} in {_place(plan)}"
    with trainer.locked():  # until the model is written
        try:
            with Screen(title, last, start) as screen, _collected_warnings() as collected:
                stopped = _follow(trainer, screen, trackers, collected, seconds)
        except KeyboardInterrupt:
            say(f"stopped at once: steps since the last checkpoint are lost; {_again(plan, out)}")
            raise
        finally:
            trackers.close()
        trainer.processes.close()  # the rest is the main one's alone
        if stopped == "interrupted":
            say(f"stopped and saved after step {trainer.steps} of {last}; {_again(plan, out)}")
            raise KeyboardInterrupt
        if main:
            _finish(trainer, plan, out, as_json)


def environments_of(plan: Plan) -> EnvironmentMix:
    """Make what a plan is played in."""
    from ..envs.mixture import EnvironmentMix
    from .targets import make_search_env

    if isinstance(plan.env, str):
        return EnvironmentMix([make_search_env(plan.env, None, **plan.env_options)])
    return EnvironmentMix.of(plan.env, plan.env_options)


def _last_row(trainer: Trainer, start: int) -> dict[int, dict[str, float]]:
    """Step → metrics of the last step before a resumed run's first."""
    row = trainer.log.row(start - 1) if start and trainer.log is not None else None
    if row is None:
        return {}
    return {start - 1: {k: v for k, v in row.items() if isinstance(v, int | float)}}


def _again(plan: Plan, out: Path) -> str:
    trust = " --trust" if named_sources(asdict(plan)) or _closed(plan) else ""
    return f"go on with: searchgym train --resume --out {out}{trust}"


def _closed(plan: Plan) -> bool:
    """Return whether the plan names files or engines that no file may name unless it is trusted."""
    from ..envs.mixture import mixture
    from ..envs.registration import env_id
    from ..envs.setup import checked_options
    from ..policies.trainable import TrainableLM

    try:
        with registered_only():
            if isinstance(plan.env, str):
                env_id(plan.env)
            else:
                for part in mixture(plan.env):
                    checked_options(part.keywords)
            checked_options(plan.env_options)
    except CardError:
        return True
    return not plan.load.keys() <= inspect.signature(TrainableLM).parameters.keys()


def _follow(
    trainer: Trainer, screen: Screen, trackers: Any, collected: list[str], seconds: float | None
) -> str:
    """Train and save; returns how it ended: done | interrupted | seconds.

    ``seconds`` count from the first step: loading and building are over by then.
    """
    began, ended = time.monotonic(), ""
    quiet = screen.live or not trainer.processes.main

    def waits() -> None:
        screen.note = PATIENCE
        if trainer.processes.main and not screen.live:
            os.write(2, f"{PATIENCE}\n".encode())

    with patient(waits) as asked, _reports(screen, trainer, quiet):
        for metrics in trainer.train():
            screen.step(metrics, collected)
            collected.clear()
            trackers.write(int(metrics["step"]), metrics)
            late = seconds is not None and time.monotonic() - began >= seconds
            # all processes stop after the same step, whichever of them was told to
            ended = _ENDS[trainer.processes.all_reduce_max(2 if asked() else int(late))]
            if ended:
                break
        if ended:
            trainer.monitor.finish()
            screen.warn(collected)
            trainer.save_checkpoint()
    return "done" if trainer.steps >= trainer.config.steps else ended


@contextmanager
def _reports(screen: Screen, trainer: Trainer, quiet: bool) -> Iterator[None]:
    """Tell every :data:`REPORT_S` seconds what a long step is at, where no terminal shows it."""
    over = threading.Event()

    def tell() -> None:
        step, began = trainer.steps, time.monotonic()
        while not over.wait(REPORT_S):
            if trainer.steps != step:
                step, began = trainer.steps, time.monotonic()
            else:
                spent = time.monotonic() - began
                screen.tell(f"step {step}, for {spent:.0f} s now: {trainer.doing}")

    if not quiet:
        threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect named warnings for the screen; other warnings are shown as always."""
    from ..rl.collapse import CollapseWarning

    collected: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", CollapseWarning)
        shown = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **more: Any) -> None:
            if issubclass(category, CollapseWarning):
                collected.append(str(message))
            else:
                shown(message, category, *rest, **more)

        warnings.showwarning = show
        yield collected


def _finish(trainer: Trainer, plan: Plan, out: Path, as_json: bool) -> None:
    """The model as a folder, the curve, and what came of it all."""
    from ..envs.mixture import mixture
    from ..reports.page import save_curve
    from ..rl.launch import MODEL
    from ..rl.log import read_log

    with working("writing the model …"), quiet_loading():
        folder = trainer.save(out / MODEL)
    rows = read_log(out)
    try:
        with working("drawing …"):
            curve: str | None = str(save_curve(out))
    except MissingExtraError as error:
        curve = None
        say(f"no curve was drawn: {error}")
    facts = {
        "recipe": plan.recipe,
        "model": str(folder),
        "steps": trainer.steps,
        "episodes": int(sum(row["episodes"] for row in rows)),
        "lost to infrastructure": int(sum(row["infra_errors"] for row in rows)),
        "minutes of training": round(
            sum(row["rollout_s"] + row["update_s"] for row in rows) / 60, 2
        ),
        **_beginning_and_end(rows),
        "warnings": sorted(
            {*trainer.monitor.warned, *(w for row in rows for w in row.get("warnings", ()))}
        ),
        "log": str(out / "rl.jsonl"),
        "curve": curve,
    }
    print_facts(f"{plan.recipe} in {_place(plan)}", facts, as_json)
    say(f"look at it: searchgym report {shlex.quote(str(out))} --open")
    where, same = plan.env, plan.env_options
    if not isinstance(where, str):  # one of them, for a beginning
        first = mixture(where, same)[0]
        where, same = first.id or "SearchQA-v0", first.keywords
    told = [f"-s {shlex.quote(f'{k}={_typed(v)}')}" for k, v in same.items()]
    say(" ".join([f"evaluate it: searchgym eval {where} --agent {folder}", *told]))


def _place(plan: Plan) -> str:
    return plan.env if isinstance(plan.env, str) else "several environments"


def _beginning_and_end(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Means of the first and the last steps, at most ten of each, which never overlap."""
    count = min(10, len(rows) // 2)
    parts = {"first": rows[:count]} if count else {}
    parts["last"] = rows[-max(count, 1) :]
    facts: dict[str, float | None] = {}
    for name in ("reward", "em", "searches", "invalid"):
        for which, some in parts.items():
            when = f"{which} step" if len(some) == 1 else f"{which} {len(some)} steps"
            facts[f"{name}, {when}"] = _mean(some, name)
    for name in ("overflowed", "length_cut"):
        if share := _mean(rows, name):
            facts[name.replace("_", " ")] = share
    return facts


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None


def _typed(value: Any) -> str:
    """Format a value as ``--set`` takes it."""
    return value if isinstance(value, str) else json.dumps(value)
