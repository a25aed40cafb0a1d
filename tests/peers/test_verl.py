"""verl's own ``AgentLoopWorker``, unmodified, plays our agent loop against a scripted server; run
by ``make peers`` in an environment that has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest
import torch
import transfer_queue
import verl
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopManager, AgentLoopWorker
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.rollout.replica import TokenOutput

from searchgym.envs import METRICS, Session
from searchgym.errors import CardError, EngineError
from searchgym.integrations import verl as bridge
from tests.integrations.glue import run
from tests.integrations.scene import OUTAGE, SCENE, scene
from tests.integrations.scores import AGENTS, REWARD, expected, texts
from tests.llms import tiny
from tests.peers.local_ray import cluster

ENV = scene()
TASKS = {task.id: task for task in ENV.tasks}
INSTRUCTED = Session(ENV, ENV.tasks[0].id).prompt.count("<information>")
"""Times that the instructions alone name the results' tag."""
DOWN = "tests.integrations.scene:PartlyBrokenEngine"
WEIGHTS = 5
"""Steps that the server's weights have been trained for."""


class Server:
    """Writes what a script says, token by token, with log-probabilities that name the token.

    Each task's first four episodes differ: the right answer, a wrong one, no action, no end. With
    ``down``, the fourth asks what the scene's engine cannot answer; so do those that verl begins
    after it, unless the engine ``recovers``.
    """

    def __init__(
        self, words: Any, agent: str | None = None, *, down: bool = False, recovers: bool = False
    ) -> None:
        self.words, self.agent, self.down, self.recovers = words, agent, down, recovers
        self.asked: list[dict[str, Any]] = []
        self.places: dict[str, list[str]] = {task: [] for task in TASKS}
        self.sampled: dict[str, list[int]] = {}

    def text(self, prompt: str, request_id: str) -> str:
        task = next(t for t in TASKS.values() if t.question in prompt)
        if self.agent is not None:
            return texts(self.agent, task)[prompt.count("<information>") - INSTRUCTED]
        begun = self.places[task.id]
        if request_id not in begun:
            begun.append(request_id)
        kind = begun.index(request_id)
        if kind > 3:
            kind = 0 if self.recovers else 3
        if kind == 3:  # never answers: the turns run out
            return f"<search>{OUTAGE if self.down else task.question}</search>"
        if prompt.count("<information>") == INSTRUCTED:
            return f"<search>{task.question}</search>"
        answer = task.answers[0] if kind == 0 else "nothing of the kind"
        return f"<answer>{answer}</answer>" if kind < 2 else "no action at all"

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        await asyncio.sleep(0)
        self.asked.append(dict(sampling_params))
        text = self.text(self.words.decode(prompt_ids), request_id)
        ids = self.words(text, add_special_tokens=False)["input_ids"]
        ids = ids[: sampling_params["max_tokens"]]
        turns = self.sampled.setdefault(request_id, [])
        weights = WEIGHTS + bool(turns)  # as if they changed after the first turn
        turns.extend(ids)
        return TokenOutput(
            token_ids=ids,
            log_probs=[-i / 1000 for i in ids],
            extra_fields={"min_global_steps": weights, "max_global_steps": weights},
        )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    words = tiny.tokenizer()
    words.eos_token = words.pad_token = tiny.END
    words.save_pretrained(folder)
    tiny.model(
        vocabulary=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def config(model: Path, folder: Path, response: int = 4096, **options: Any) -> Any:
    """verl's own configuration, as its command composes it, with the documented settings."""
    options = {**SCENE, **options}
    bridge.agent_loop(
        folder / "searchgym.yaml", "SearchQA-v0", renderer="plain", max_tokens=200, **options
    )
    bridge.parquet(folder / "train.parquet", "SearchQA-v0", **options)
    where = str(Path(verl.__file__).parent / "trainer" / "config")
    with initialize_config_dir(config_dir=where, version_base=None):
        return compose(
            "ppo_trainer",
            overrides=[
                f"actor_rollout_ref.model.path={model}",
                "actor_rollout_ref.rollout.name=vllm",
                "actor_rollout_ref.rollout.prompt_length=1024",
                f"actor_rollout_ref.rollout.response_length={response}",
                f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder}/searchgym.yaml",
                "actor_rollout_ref.rollout.agent.num_workers=2",
                "actor_rollout_ref.rollout.n=4",
                "algorithm.adv_estimator=grpo",
                # each unit takes a processor of Ray's: of more than it has, the last would wait for
                # ever
                "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
                f"data.train_files={folder}/train.parquet",
            ],
        )


def rows(folder: Path, copies: int) -> DataProto:
    """The training file's rows, each so many times, as verl's data set hands them on."""
    found = datasets.Dataset.from_parquet(str(folder / "train.parquet")).to_list()
    found = [row for row in found for _ in range(copies)]
    return DataProto.from_dict(
        tensors={"dummy": torch.zeros(len(found), 1)},
        non_tensors={
            "raw_prompt": _column([row["prompt"] for row in found]),
            "agent_name": _column([row["agent_name"] for row in found]),
            "extra_info": _column([row["extra_info"] for row in found]),
        },
    )


def played(
    model: Path, folder: Path, copies: int = 4, server: Server | None = None, **options: Any
) -> tuple[Any, Server]:
    server = server or Server(tiny.tokenizer())
    worker = AgentLoopWorker(config(model, folder, **options), server)
    return asyncio.run(worker.generate_sequences(rows(folder, copies))), server


@pytest.fixture(scope="module")
def local() -> Iterator[None]:
    with cluster(4):
        yield


def _column(values: list[Any]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def test_32_episodes_with_mixed_ends(model: Path, tmp_path: Path) -> None:
    done, server = played(model, tmp_path)
    assert len(done) == 32
    batch, more = done.batch, done.non_tensor_batch
    scores = batch["rm_scores"].sum(1).tolist()
    assert sorted(set(scores)) == [0.0, 1.0]
    assert sum(scores) == 8
    assert set(done.meta_info["reward_extra_keys"]) == set(METRICS)
    assert np.mean(more["answered"]) == 0.5
    assert sum(more["truncated"]) == 16
    assert set(more["turns"]) == {2.0, 4.0}  # options were kept in every episode
    assert set(more["min_global_steps"]) == {WEIGHTS}
    assert set(more["max_global_steps"]) == {WEIGHTS + 1}
    words = tiny.tokenizer()
    sampled = sorted(tuple(ids) for ids in server.sampled.values())
    trained = sorted(
        tuple(ids[mask.bool()].tolist())
        for ids, mask in zip(batch["responses"], batch["response_mask"], strict=True)
    )
    assert trained == sampled
    assert int(batch["response_mask"].sum()) == sum(map(len, sampled))
    logp = batch["rollout_log_probs"][batch["response_mask"].bool()]
    ids = batch["responses"][batch["response_mask"].bool()]
    assert torch.allclose(logp, -ids / 1000)
    assert "<information>" in words.decode(batch["responses"][0])
    assert all(told["include_stop_str_in_output"] for told in server.asked)
    assert {stop for told in server.asked for stop in told["stop"]} >= {"</search>", "</answer>"}


def test_verls_own_manager_plays_on_two_workers_of_ray(
    model: Path, tmp_path: Path, local: None
) -> None:
    told = config(model, tmp_path)
    manager = AgentLoopManager.create(told, Server(tiny.tokenizer()))
    done = manager.generate_sequences(rows(tmp_path, 4))
    assert len(done) == 32
    assert float(done.batch["rm_scores"].sum()) == 8.0
    assert sum(done.non_tensor_batch["truncated"]) == 16


@pytest.mark.parametrize("agent", AGENTS)
def test_a_reward_of_ones_own_is_the_same_float(model: Path, tmp_path: Path, agent: str) -> None:
    """verl keeps rewards of turns as given, and the return in single precision."""
    done, _ = played(model, tmp_path, 1, Server(tiny.tokenizer(), agent), reward=REWARD)
    wanted = expected(agent)
    for row, turns, score in zip(
        done.non_tensor_batch["extra_info"], done.non_tensor_batch["turn_scores"],
        done.batch["rm_scores"].sum(1).tolist(), strict=True,
    ):  # fmt: skip
        assert sum(turns) == wanted[row["task_id"]]
        assert score == float(np.float32(wanted[row["task_id"]]))


def test_what_broke_once_is_played_again(model: Path, tmp_path: Path) -> None:
    server = Server(tiny.tokenizer(), down=True, recovers=True)
    done, _ = played(model, tmp_path, server=server, engine=DOWN)
    assert len(done) == 32
    assert float(done.batch["rm_scores"].sum()) == 16.0
    assert sum(done.non_tensor_batch["infra_error"]) == 0


def test_what_broke_twice_has_no_row(model: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="failed in 2 attempts"):
        played(model, tmp_path, server=Server(tiny.tokenizer(), down=True), engine=DOWN)


def test_verls_trainer_leaves_out_what_broke(model: Path, tmp_path: Path, local: None) -> None:
    """Its data set, queue, workers, sampling and advantages: those of the three that were left."""
    told = config(model, tmp_path, engine=DOWN)
    batch = tensordict_utils.get_tensordict(
        {
            **collate_fn(list(RLHFDataset([told.data.train_files], tiny.tokenizer(), told.data))),
            "uid": np.array([f"task{i}" for i in range(len(TASKS))], dtype=object),
        }
    )
    tensordict_utils.assign_non_tensor_data(batch, "global_steps", WEIGHTS)
    tags = [{"is_prompt": True, "status": "pending", "global_steps": WEIGHTS}] * len(TASKS)
    buffer = ReplayBuffer(
        "sync", told.trainer.v1.sync, max_off_policy_threshold=8, max_off_policy_strategy="drop",
        sampler_kwargs=told.trainer.v1.sampler.sampler_kwargs, poll_interval=0.2,
    )  # fmt: skip
    transfer_queue.init(told.transfer_queue)
    try:
        transfer_queue.kv_batch_put(keys=list(batch["uid"]), partition_id="train", tags=tags)
        manager = AgentLoopManagerTQ.create(told, Server(tiny.tokenizer(), down=True))
        manager.generate_sequences(batch)
        kept, _ = buffer.sample(WEIGHTS, "train", len(TASKS))
        trainer = SimpleNamespace(config=told)  # all that the methods read of it
        # the policy that played stands for the one at the step's start, which no worker computes
        told.algorithm.rollout_correction.bypass_mode = True
        PPOTrainer._compute_old_log_prob(trainer, kept, {})
        PPOTrainer._compute_advantage(trainer, kept, {})
        names = ["uid", "rm_scores", "advantages", "response_mask"]
        data = transfer_queue.kv_batch_get(
            keys=kept.keys, partition_id="train", select_fields=names
        )
    finally:
        transfer_queue.close()
    assert len(kept.keys) == 24
    assert {tag["max_global_steps"] for tag in kept.tags} == {WEIGHTS + 1}
    rest = torch.tensor([1.0, 0.0, 0.0])
    right, wrong = ((rest - rest.mean()) / (rest.std() + 1e-6)).tolist()[:2]
    for score, advantage, mask in zip(
        data["rm_scores"], data["advantages"], data["response_mask"], strict=True
    ):
        wanted = right if score.sum() == 1 else wrong
        assert advantage[mask.bool()].tolist() == pytest.approx([wanted] * int(mask.sum()))
    assert sum(float(score.sum()) for score in data["rm_scores"]) == len(TASKS)


def test_what_has_no_room_is_not_in_the_row(model: Path, tmp_path: Path) -> None:
    done, _ = played(model, tmp_path, copies=1, response=120)
    assert done.batch["responses"].shape[1] == 120
    assert sum(done.non_tensor_batch["answered"]) == 0
    assert int(done.batch["response_mask"].sum()) > 0


def test_what_verl_cannot_train_on_is_refused(tmp_path: Path) -> None:
    for options in ({"page_stub_chars": 20}, {"judge": True}):
        with pytest.raises(CardError, match="several sequences"):
            bridge.agent_loop(tmp_path / "x.yaml", "SearchQA-v0", **SCENE, **options)
    with pytest.raises(CardError, match="an id"):
        bridge.agent_loop(tmp_path / "x.yaml", ENV)  # type: ignore[arg-type]


def test_the_files_hold_no_answer(model: Path, tmp_path: Path) -> None:
    config(model, tmp_path)
    (entry,) = OmegaConf.to_container(OmegaConf.load(tmp_path / "searchgym.yaml"))
    assert entry["options"] == SCENE
    rows = datasets.Dataset.from_parquet(str(tmp_path / "train.parquet")).to_list()
    assert [row["extra_info"]["task_id"] for row in rows] == list(TASKS)
    for row in rows:
        assert TASKS[row["extra_info"]["task_id"]].answers[0] not in json.dumps(row)


def test_the_documented_program_writes_the_files(tmp_path: Path) -> None:
    run("verl_files.py", tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} >= {".yaml", ".parquet"}
