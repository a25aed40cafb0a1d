"""SearchGym: Gymnasium environments in which search agents are trained and compared.

``import searchgym`` registers the catalogue's environments and stays light; everything else loads
when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .registration import register_catalog

__version__ = "0.1.0"

_LAZY = {
    "Answer": "types", "Access": "types", "Search": "types", "Passage": "types", "Task": "types",
    "TurnRequest": "types", "Agent": "types", "ABSTAIN": "types",
    "Corpus": "corpora.corpus", "Episode": "episode", "EpisodeConfig": "rules", "Rules": "rules",
    "Trajectory": "trajectory", "SearchEnv": "envs.search", "SearchVectorEnv": "envs.vector",
    "check_env": "checker", "run_episode": "rollout", "run_episodes": "rollout",
    "CandidateActions": "wrappers", "SearchGymError": "errors",
}  # fmt: skip

__all__ = ["__version__", *sorted(_LAZY)]

if TYPE_CHECKING:
    from .checker import check_env as check_env
    from .corpora.corpus import Corpus as Corpus
    from .envs.search import SearchEnv as SearchEnv
    from .envs.vector import SearchVectorEnv as SearchVectorEnv
    from .episode import Episode as Episode
    from .errors import SearchGymError as SearchGymError
    from .rollout import run_episode as run_episode
    from .rollout import run_episodes as run_episodes
    from .rules import EpisodeConfig as EpisodeConfig
    from .rules import Rules as Rules
    from .trajectory import Trajectory as Trajectory
    from .types import ABSTAIN as ABSTAIN
    from .types import Access as Access
    from .types import Agent as Agent
    from .types import Answer as Answer
    from .types import Passage as Passage
    from .types import Search as Search
    from .types import Task as Task
    from .types import TurnRequest as TurnRequest
    from .wrappers import CandidateActions as CandidateActions


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


register_catalog()
