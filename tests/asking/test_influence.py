"""InfoPO's setting: what a person says counts by how much it changes what is written next."""

from __future__ import annotations

import numpy as np

from searchgym.envs import SearchEnv
from searchgym.policies import TrainableLM
from searchgym.rl import TaskPlan, Workers, make
from searchgym.tools import AskUser
from searchgym_agents.methods.infopo import Influence
from tests.llms import tiny


class Silent(AskUser):
    """A person who says nothing."""

    def reply(self, question: str, user: dict[str, object]) -> str:
        return "."


def test_what_is_said_has_influence() -> None:
    lm = TrainableLM(tiny.model(max_position_embeddings=2048), tiny.tokenizer())
    found = []
    for user in ("ask_user", Silent):
        env = SearchEnv(
            corpus="encyclopedia", world={"entities": 900}, tasks={"ambiguous": 4},
            tools=["search", user], dialect="search_r1+tools", instructions="Ask first.", k=1,
        )  # fmt: skip
        workers = Workers(lm.policy("plain"), env, lm)
        plan = TaskPlan(env.tasks[0], "asked", 0)
        (group,) = make("rollout", {"use": "demonstrations", "size": 1}).collect([plan], workers)
        (signal,) = Influence().measure([group], workers)
        (episode,) = [member.episode for member in group.members]
        assert "ask_user" in episode.turns[0].text
        assert episode.outcome().em == 1
        found.append(signal["influence"][0])
    told, silent = found
    assert np.abs(told[0]) > 1e-3
    assert told[0] != silent[0], "what was said"
    assert told[-1] == silent[-1] == 0, "nothing is written after the answer"
