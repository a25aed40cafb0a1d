"""Environments and episodes as HTML: ``render_mode="html"`` and ``_repr_html_`` in notebooks."""

from __future__ import annotations

from typing import Any

from ..core.episode import Episode
from ..web.pages import Templates, asset
from .render import blocks, ending, heading

PACKAGE = "searchgym.envs"


def page(episode: Episode) -> str:
    """An episode as an HTML page that needs no other file: question, turns, passages (those of the
    evidence marked), rewards, how it ended.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _templates().standalone("episode_page.html", **_told(episode))


def card(env: Any) -> str:
    """A ``SearchEnv`` as a fragment of HTML: its set, its rules, and the current episode."""
    rules, setup = env.rules, env.setup
    facts = {
        "questions": f"{len(env.tasks):,}",
        "passages": f"{len(env.corpus):,} of {env.corpus.name}",
        "engine": env.engine.fingerprint.partition(":")[0],
        "tools": ", ".join(tool.name for tool in rules.tools),
        "passages per search": str(rules.k),
        "turns": str(rules.max_turns),
        "dialect": rules.dialect,
        "split": setup.options.split,
    }
    return _templates().environment.get_template("environment_card.html").render(
        name=type(env).__name__, facts=facts, css=asset(PACKAGE, "episode.css"),
        **(_told(env.episode) if env._episode is not None else {}),
    )  # fmt: skip


def _templates() -> Templates:
    return Templates(PACKAGE, styles=["episode.css"])


def _told(episode: Episode) -> dict[str, Any]:
    question, *rest = [block for block in blocks(episode) if block.kind != "instructions"]
    return {
        "heading": heading(episode), "question": question, "blocks": rest,
        "turns": episode.turns, "ending": ending(episode),
        "evidence": frozenset(episode.config.task.evidence),
    }  # fmt: skip
