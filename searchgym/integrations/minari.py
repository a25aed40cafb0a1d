"""Datasets of episodes in Minari's format, which offline reinforcement learning reads.

:func:`register` teaches Minari the space of texts, so that its ``DataCollector`` works on search
environments; :func:`write` makes a dataset of saved trajectories, as does ``searchgym export FILE
--to minari --out searchgym/simple/oracle-v0``::

    from searchgym.integrations import minari as bridge

    bridge.register()
    env = minari.DataCollector(gym.make("SearchQA-v0"), record_infos=False)

Written for Minari 0.5 (``pip install -e ".[minari]"``). Its HDF5 files give texts back as
``bytes``: ``str(value, "utf-8")``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..core.trajectory import Trajectory
from ..envs.spaces import FreeText
from ..errors import DataError, MissingExtraError


def register() -> None:
    """Teach Minari to write and read the space :class:`~searchgym.envs.spaces.FreeText`."""
    try:
        from minari.serialization import deserialize_space, serialize_space
    except ImportError as error:
        raise MissingExtraError("a dataset for Minari", "minari") from error

    @serialize_space.register(FreeText)
    def _serialise(space: FreeText, to_string: bool = True) -> Any:
        described = {"type": "FreeText", "max_length": space.max_length}
        return json.dumps(described) if to_string else described

    @deserialize_space.register("FreeText")
    def _deserialise(described: dict[str, Any]) -> FreeText:
        return FreeText(described["max_length"])


def write(name: str, trajectories: Iterable[Trajectory], **describes: Any) -> Any:
    """Make a Minari dataset of trajectories, where Minari keeps its datasets.

    Observations are the visible contexts before each turn and after the last, actions the policy's
    texts, rewards the turns'. Episodes that the infrastructure broke are left out.

    Args:
        name: Minari's id of the dataset, such as ``"searchgym/simple/oracle-v0"``.
        trajectories: The episodes.
        describes: Passed to ``minari.create_dataset_from_buffers``: ``author``, ``description``, …

    Returns:
        The ``minari.MinariDataset``.

    Raises:
        DataError: There is no whole episode, or a dataset of the name.
    """
    register()
    import minari
    from minari.data_collector import EpisodeBuffer

    buffers: list[Any] = []
    for trajectory in trajectories:
        episode = trajectory.replay()
        if not (episode.terminated or episode.truncated):
            continue
        turns = episode.turns
        seen = [episode.fork(at=at) for at in range(len(turns))] + [episode]
        buffers.append(
            EpisodeBuffer(
                id=len(buffers),
                seed=None,
                observations=[one.shown() for one in seen],
                actions=[turn.text for turn in turns],
                rewards=[turn.reward for turn in turns],
                terminations=[False] * (len(turns) - 1) + [episode.terminated],
                truncations=[False] * (len(turns) - 1) + [episode.truncated],
                infos={},
            )
        )
    if not buffers:
        raise DataError("no episode came to its end, so there is nothing to make a dataset of")
    space = FreeText()
    try:
        return minari.create_dataset_from_buffers(
            name, buffers, observation_space=space, action_space=space, **describes
        )
    except ValueError as error:  # a name that is taken or misspelt
        raise DataError(f"Minari: {error}") from error
