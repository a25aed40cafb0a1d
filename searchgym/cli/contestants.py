"""Agents from what a person types: a card's name or folder, saved weights, ``module:Class``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..cards import Card, cards, read_card
from ..envs.search import SearchEnv
from ..errors import CardError, unknown
from ..llms.models import MODELS, is_here
from ..objects import bare_hint, check_fits, is_path, load_known, load_object, own_folder
from ..plugins import Registry
from ..rl.recipe_files import shipped
from ..types import Agent, Task

Maker = Callable[[SearchEnv, Sequence[Task]], Agent | None]
"""Function that makes an agent for the questions it will be asked, or None where it cannot play."""


def contestant(name: str, options: Mapping[str, Any] | None = None) -> Maker:
    """A maker of the agent that a name means.

    A card of ``agents/``, or a folder of yours with one (``./mine``: a bare name always means what
    is shipped), a ``.safetensors`` file written by
    ``searchgym train``, the folder of a language model, ``untrained``, ``majority`` (the commonest
    answer), or ``module:Class``, or ``module:function`` (see ``searchgym.agents.simple``).
    ``options``: arguments of the card's or named class, over the card's own; of a language model,
    those of :func:`searchgym.policies.model_folder.load_policy`.

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
    if name in shipped():
        raise CardError(
            f"{name!r} is a recipe, not an agent: it trains a language model "
            f"(searchgym train {name} --model MODEL); then pass the folder it writes"
        )
    if is_path(name) and not Path(name).exists():
        raise CardError(f"agent {name!r}: there is no such file or folder")
    names = [*known, *MODELS, "untrained", "majority"]
    raise CardError(
        f"{unknown('agent', name, names)}, a .safetensors file, the folder of a "
        f"language model, 'module:Class' or 'module:function'{bare_hint(name)}"
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
        for key in kwargs:
            if key not in takes:
                raise CardError(unknown(f"option of agent {name!r}", key, {*takes} - {"tasks"}))

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


def _majority(env: SearchEnv, tasks: Sequence[Task]) -> Agent:
    from ..agents.simple import ConstantAgent
    from ..evaluation.baselines import majority_answer

    return ConstantAgent(majority_answer(tasks))


def _candidate(weights: Path | None) -> Agent:
    """The candidate agent with these weights; None: before its first update."""
    agent: Agent = load_known(Registry("trainer")["candidate"]).agent(weights)
    return agent


def _language_model(folder: Path, options: Mapping[str, Any]) -> Maker:
    """A maker of a model's policy, with options checked before it is loaded."""
    from ..policies.model_folder import load_policy

    known = {*inspect.signature(load_policy).parameters} - {"folder"}
    for key in options:
        if key not in known:
            raise CardError(unknown(f"option of agent {str(folder)!r}", key, known))
    as_text = json.dumps(options, sort_keys=True)
    return lambda env, tasks: _loaded(folder, as_text)


@cache
def _loaded(folder: Path, options: str) -> Agent:
    """One policy per folder and options: weights take memory."""
    from ..policies.model_folder import load_policy
    from .live import quiet_loading

    with quiet_loading():
        return load_policy(folder, **json.loads(options))
