"""Agents from what a person types: their short names, what makes them, what is told of errors."""

from __future__ import annotations

import inspect
import json
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards import Card, cards, read_card
from ..errors import CardError, EpisodeError, EvaluationError, SearchGymError, check_known, unknown
from ..objects import bare_hint, check_fits, is_path, load_known, load_object, own_folder
from ..plugins import Registry
from ..types import Agent, Task
from .output import say

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from ..evaluation.result import EvalResult

Maker = Callable[["SearchEnv", Sequence[Task]], Agent | None]
"""Function that makes an agent for the questions it will be asked, or None where it cannot play."""
_PACKAGE = Path(__file__).resolve().parent.parent
_LAYOUT = ("agents", "model", "models", "checkpoints", "runs")
"""Folders that every run has: they say nothing about which run it is."""


# --- names ----------------------------------------------------------------------------------------
def named(given: Sequence[str], *, several: bool = False) -> dict[str, list[str]]:
    """Return each agent's short name → what it is made of.

    ``NAME=path`` gives a name; a path without one is called by its run's folder
    (``runs/cand/agents/seed-0.safetensors`` is ``cand/seed-0``); all else by itself. Names that
    would fall together are written in full.

    Args:
        given: What the person typed.
        several: Whether ``NAME=A,B,C`` names the seeds of one entry.

    Raises:
        CardError: an empty name or path, or a name that occurs twice.
    """
    entries: list[tuple[str, list[str]]] = []
    for text in given:
        name, equals, path = text.partition("=")
        if equals and not Path(text).exists():
            parts = [p.strip() for p in path.split(",") if p.strip()] if several else [path]
            if not name or not parts or not parts[0]:
                more = "NAME=A,B,C names the agents of one entry" if several else "NAME=path"
                raise CardError(f"{text!r}: expected {more}")
            entries.append((name, parts))
        else:
            entries.append((short(text), [text]))
    names = [name for name, _ in entries]
    out: dict[str, list[str]] = {}
    for name, parts in entries:
        ours = name == short(parts[0])
        unique = parts[0] if ours and names.count(name) > 1 else name
        if unique in out:
            raise CardError(f"two agents are called {unique!r}; tell them apart by NAME=path")
        out[unique] = parts
    return out


def short(name: str) -> str:
    """Return the short form of a path to an agent; any other name as it is."""
    if not is_path(name):
        return name
    path = Path(name)
    parts = [p for p in path.parts if p not in (".", "..", "/")]
    last = parts[-1].removesuffix(".safetensors") if parts else name
    folders = [p for p in parts[:-1] if p not in _LAYOUT]
    if last in _LAYOUT and folders:  # runs/x/model is x
        return folders[-1]
    if path.suffix == ".safetensors" and folders:
        return f"{folders[-1]}/{last}"
    return last


def file_stem(name: str) -> str:
    """Return an agent's name as the stem of a file's name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-")


# --- makers ---------------------------------------------------------------------------------------
def contestant(name: str, options: Mapping[str, Any] | None = None) -> Maker:
    """A maker of the agent that a name means.

    A card of ``agents/``, or a folder of yours with one (``./mine``: a bare name always means what
    is shipped), a ``.safetensors`` file written by ``searchgym train``, the folder of a language
    model, ``untrained``, ``majority`` (the commonest answer), or ``module:Class``, or
    ``module:function`` (see ``searchgym.agents.simple``). ``options``: arguments of the card's or
    named class, over the card's own; of a language model, those of
    :func:`searchgym.policies.model_folder.load_policy`.

    Raises:
        CardError: none of these; the nearest names are given. Options that it does not take.
    """
    options = dict(options or {})
    if name in (known := cards("agents")):
        return _of_card(known[name], options)
    if (folder := own_folder(name)) is not None:
        return _of_card(read_card(folder, "agents"), options)
    if ":" in name:
        return _of_object(name, load_object(name), options)
    from ..llms.models import MODELS, is_here

    if name not in ("majority", "untrained") and is_here(name):
        return _language_model(Path(name), options)
    if options:
        raise CardError(f"agent {name!r} takes no options, got {', '.join(options)}")
    if name == "majority":
        return _majority
    if name == "untrained":
        return lambda env, tasks: _candidate(None)
    if name.endswith(".safetensors"):
        if not Path(name).is_file():
            raise CardError(f"{name} does not exist; 'searchgym train' writes such files")
        return lambda env, tasks: _candidate(Path(name))
    from ..rl.recipe_files import shipped

    if name in shipped():
        raise CardError(
            f"{name!r} is a recipe, not an agent: it trains a language model "
            f"(searchgym train {name} --model MODEL); then pass the folder it writes"
        )
    if is_path(name) and not Path(name).exists():
        raise CardError(f"agent {name!r}: there is no such file or folder")
    raise CardError(
        f"{unknown('agent', name, [*known, *MODELS])}; or 'untrained', 'majority' (the commonest "
        f"answer), a .safetensors file, the folder of a language model, 'module:Class' or "
        f"'module:function'{bare_hint(name)}"
    )


def _of_card(card: Card, options: Mapping[str, Any]) -> Maker:
    if "train" in card.body and "folder" not in card.body.get("kwargs", {}):
        raise CardError(
            f"agent {card.id!r} has to be trained first: searchgym train {card.id}; then pass the "
            ".safetensors file it writes"
        )
    kwargs = {**card.body.get("kwargs", {}), **options}
    make = load_object(card.body["use"])
    check_fits("agent", card.body["use"], make, ("act",), functions=inspect.isfunction(make))
    return _of_class(card.id, make, kwargs)


def _of_object(name: str, made: Any, options: Mapping[str, Any]) -> Maker:
    """A maker of a named object: a function that plays, or what makes an agent."""
    from ..agents.simple import FunctionAgent, form_of

    if inspect.isclass(made) or inspect.isbuiltin(made):
        check_fits("agent", name, made, ("act",))
    if form_of(made) is None:
        if inspect.isfunction(made) and _lacks(made, {"tasks", *options}):
            FunctionAgent(made)  # says what its parameter must be called
        return _of_class(name, made, options)
    if options:
        raise CardError(f"agent {name!r} is a function, which takes no options")
    return lambda env, tasks: FunctionAgent(made)


def _lacks(make: Callable[..., Any], given: Container[str]) -> bool:
    """Return whether a function needs an argument that is not given."""
    needed = inspect.signature(make).parameters.values()
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.default is p.empty and p.kind not in fixed and p.name not in given for p in needed)


def _of_class(name: str, make: Callable[..., Any], kwargs: Mapping[str, Any]) -> Maker:
    """A maker that hands over the tasks where the class asks for them (oracles)."""
    try:
        takes = inspect.signature(make).parameters
    except ValueError:  # builtins have no signature
        takes = inspect.Signature().parameters
    wants_tasks = "tasks" in takes
    if not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
        _check_options(name, kwargs, {*takes} - {"tasks"})

    def maker(env: SearchEnv, tasks: Sequence[Task]) -> Agent | None:
        # without gold passages "all the evidence was shown" would be true at once
        if wants_tasks and any(not t.evidence or len(t.queries) < len(t.evidence) for t in tasks):
            return None
        try:
            agent = make(tasks, **kwargs) if wants_tasks else make(**kwargs)
        except (TypeError, ValueError) as error:
            given = ", ".join(f"{key}={value!r}" for key, value in kwargs.items())
            raise CardError(
                f"agent {name!r} cannot be made with {given or 'its defaults'}: {error} "
                "('searchgym --traceback …' shows where)"
            ) from error
        if not isinstance(agent, Agent):
            raise CardError(f"{make!r} is no agent: it needs act(requests) -> list[str]")
        return agent

    return maker


def _check_options(name: str, given: Mapping[str, Any], known: set[str]) -> None:
    check_known(f"option of agent {name!r}", known, *given)


def _majority(env: SearchEnv, tasks: Sequence[Task]) -> Agent:
    """The most frequent canonical answer, refusals left out (ties: the first in order)."""
    from ..agents.simple import ConstantAgent

    counts = Counter(task.answers[0] for task in tasks if not task.should_abstain)
    return ConstantAgent(*[answer for answer, _ in counts.most_common(1)])


def _candidate(weights: Path | None) -> Agent:
    """The candidate agent with these weights; None: before its first update."""
    agent: Agent = load_known(Registry("trainer")["candidate"]).agent(weights)
    return agent


def _language_model(folder: Path, options: Mapping[str, Any]) -> Maker:
    """A maker of a model's policy, with options checked before it is loaded."""
    from ..policies.model_folder import load_policy

    _check_options(str(folder), options, {*inspect.signature(load_policy).parameters} - {"folder"})
    as_text = json.dumps(options, sort_keys=True)
    return lambda env, tasks: _loaded(folder, as_text)


@cache
def _loaded(folder: Path, options: str) -> Agent:
    """One policy per folder and options: weights take memory."""
    from ..policies.model_folder import load_policy
    from .live import quiet_loading

    with quiet_loading():
        return load_policy(folder, **json.loads(options))


# --- errors ---------------------------------------------------------------------------------------
@contextmanager
def agent_errors(name: str) -> Iterator[None]:
    """Turn an exception that an agent raises into one line; others pass.

    Raises:
        EvaluationError: the agent raised, with the place in its own code, or returned what is no
            text.
    """
    try:
        yield
    except EpisodeError as error:
        raise EvaluationError(f"agent {name!r}: {error}") from error
    except SearchGymError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(sys.exc_info()[2])
        files = [Path(frame.filename).resolve() for frame in frames]
        from ..evaluation.play import Meter

        caller = Meter.act.__code__  # all evaluated agents are called from here
        if (caller.co_filename, caller.co_name) not in [(f.filename, f.name) for f in frames[:-1]]:
            raise  # not the agent's
        own = [f for f, path in zip(frames, files, strict=True) if _PACKAGE not in path.parents]
        where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
        if "out of memory" in str(error):
            raise EvaluationError(
                f"agent {name!r}: the device is out of memory. Fewer episodes at a time need less: "
                "searchgym eval … --batch 32"
            ) from error
        raise EvaluationError(
            f"agent {name!r} raised {type(error).__name__}: {error}{where}; 'searchgym "
            "--traceback …' shows all of it"
        ) from error


def report_failures(name: str, results: Sequence[EvalResult]) -> None:
    """Name what the infrastructure failed at.

    Raises:
        EvaluationError: no episode was played to its end.
    """
    rows = [row for result in results for row in result.rows]
    lost = [row for row in rows if row.infra_error]
    if not lost:
        return
    (reason, _), *_ = Counter(row.failure or "no reason given" for row in lost).most_common(1)
    told = f"{name}: {len(lost)} of {len(rows)} episodes were lost to the infrastructure ({reason})"
    if len(lost) == len(rows):
        raise EvaluationError(told)
    say(told)
