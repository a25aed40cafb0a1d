"""Example episodes and passages of ``searchgym show``."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from ..cards import cards
from ..errors import SearchGymError
from ..types import ToolResult
from .agents import contestant
from .output import console, cut
from .targets import env_id, make_search_env

if TYPE_CHECKING:
    from ..core.episode import Episode
    from ..envs.search import SearchEnv
    from ..types import Agent, Failure, Task

SMALL = {"entities": 400}
FAMILIES = 4
"""Questions of each family in the world of an example."""
WIDTH = 76


LINES = 5
"""Lines of a tool's output, or results of a search, that are shown."""


def print_example(name: str, kind: str, own: Path | None) -> None:
    """An episode, or why there is none. Where the card is one's ``own``, its error is raised."""
    try:
        if kind == "corpora":
            title, lines = "Its first passage", passage_lines(name)
        elif kind == "envs":
            title, lines = "An episode", episode_lines(env_id(name))
        elif kind == "agents":
            title, lines = "An episode in SimpleQA-v0", episode_lines("SimpleQA-v0", name)
        else:
            title = "An episode in SimpleQA-v0, in this dialect"
            lines = episode_lines("SimpleQA-v0", keywords={"dialect": name})
    except (SearchGymError, gym.error.Error) as error:
        if own is not None:
            raise type(error)(f"{own}: {error}") from error
        title, lines = "No example here", textwrap.wrap(str(error), 76)
    out = console()
    out.print(f"[bold]{title}[/bold]")
    for line in lines:
        out.print(f"  {line}", markup=False)


def episode_lines(
    env_name: str, agent: str | None = None, keywords: Mapping[str, Any] | None = None
) -> list[str]:
    """Play one episode and return it as lines of at most 80 columns.

    A generated environment is built small (400 entities). Without ``agent`` the oracle plays, or,
    where the questions name no evidence, the rules.

    Raises:
        SearchGymError: the environment's data is not on this machine, or the agent cannot play.
    """
    env = _small(env_name, dict(keywords or {}))
    tasks = [task for task in env.tasks if not task.should_abstain] or list(env.tasks)
    for name in (agent,) if agent else ("oracle", "rules"):
        if (player := contestant(name)(env, tasks)) is not None:
            break
    else:
        raise SearchGymError(f"{agent} cannot play {env_name}")
    task = max(tasks, key=lambda t: (t.hops == 2, -len(t.question)))  # short, of two hops if any
    lines = _told(_played(env, player, task), name)
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="   ")]


def _small(name: str, keywords: dict[str, Any]) -> SearchEnv:
    given = gym.spec(env_id(name)).kwargs
    families: Mapping[str, Any] = given.get("tasks") or {}
    if families:  # a real set brings its own questions
        keywords["tasks"] = {
            k: min(v, FAMILIES) if isinstance(v, int) and not isinstance(v, bool) else v
            for k, v in families.items()
        } | {"at_most": True}
        keywords["world"] = {**given.get("world", {}), **SMALL}
    with contextlib.redirect_stderr(io.StringIO()):  # bars of a first download of nothing
        return make_search_env(name, **keywords)


def _played(env: SearchEnv, agent: Agent, task: Task) -> Episode:
    from ..core.rollout import run_episodes
    from ..evaluation.play import episode_for

    finished: list[Episode] = []
    run_episodes([episode_for(env, task, 0)], agent, env.toolbox, finished=finished.extend)
    return finished[0]


def _told(episode: Episode, player: str) -> Iterator[str]:
    """The question, each action, the beginning of what it brought, and what the episode earned."""
    yield f"Question: {episode.config.task.question}"
    for turn in episode.turns:
        yield f"{player}: {cut(' '.join(turn.text.split()), WIDTH - len(player) - 2)}"
        for result in turn.results:
            lines = list(_brought(result))
            yield from (f"   {cut(line, WIDTH - 3)}" for line in lines[:LINES])
            if len(lines) > LINES:
                yield f"   … and {len(lines) - LINES} more"
    outcome = episode.outcome()
    reward = sum(turn.reward for turn in episode.turns)
    answer = outcome.answer if outcome is not None else ""
    accepted = f"; accepted: {' / '.join(episode.config.task.answers[:3])}"
    yield f"Reward {reward:g} for {answer!r}{'' if episode.config.rules.one_search else accepted}"


def _brought(result: ToolResult | Failure) -> Iterator[str]:
    """What a tool returned, a line each: its text, a page, search results."""
    if not isinstance(result, ToolResult):
        yield result.message
        return
    for part in result.parts:
        yield from filter(str.strip, part.splitlines() if isinstance(part, str) else [part.alt])
    if page := result.meta.get("page"):
        yield f"{page.title}: {page.text.removeprefix(page.title)}"
    for place, hit in enumerate(result.hits, 1):
        text = hit.passage.text.removeprefix(hit.passage.title)
        yield f"{place}. {hit.passage.title}: {text}"


def passage_lines(name: str) -> list[str]:
    """Return the first passage of a corpus as lines of at most 80 columns; a generated world is
    built small.

    Raises:
        SearchGymError: the corpus is not on this machine.
    """
    if cards("corpora")[name].body["kind"] == "world":
        env = _small("SimpleQA-v0", {"corpus": name})
        passage = env.corpus[0]
    else:
        from ..corpora.load import load_corpus

        passage = load_corpus(name)[0]
    return textwrap.wrap(cut(f"{passage.title}: {passage.text}", 4 * WIDTH), WIDTH)
