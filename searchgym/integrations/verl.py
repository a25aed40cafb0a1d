"""Search episodes as an agent loop of verl, which trains them with Ray, FSDP and vLLM or SGLang.

::

    from searchgym.integrations import verl

    verl.agent_loop("searchgym.yaml", "SearchQA-v0", max_turns=4)
    verl.parquet("train.parquet", "SearchQA-v0", max_turns=4)

verl is then told ``actor_rollout_ref.rollout.agent.agent_loop_config_path=searchgym.yaml`` and
``data.train_files=train.parquet``. Each agent-loop worker makes the environment once and gathers
the searches of its episodes into batches; with ``engine={"name": "remote", …}`` they go to a
``searchgym serve`` that the whole cluster shares.

What was sampled is what is trained on: token ids come from the server and go back as they are, and
tool results are tokenised so that no text in them becomes a special token. Written for verl 0.9,
which has pins of its own: install it in an environment beside (``pip install verl cachetools
uvicorn fastapi TransferQueue searchgym``; verl imports the four that its plain package leaves out).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np

from ..core.episode import Episode
from ..envs.search import SearchEnv
from ..envs.session import Session
from ..envs.unwrap import search_env
from ..errors import CardError, EngineError
from ..llms.base import Completion, GenRequest, Sampling, require_own_distribution
from ..llms.prompts import text_ends
from ..llms.tokens import Reader, cut, stop_end
from ..policies.causal_lm import ExternalPolicy
from ..policies.model_folder import AUTO, default_renderer
from ..seeding import derive
from ..serve import Batcher
from .common import one_row, only_row

try:
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
except ImportError as missing:
    raise ImportError(
        "searchgym.integrations.verl needs: "
        "pip install verl cachetools uvicorn fastapi TransferQueue"
    ) from missing

ATTEMPTS = 2
"""Times an episode is played whose infrastructure fails, before it is left out."""


class _Calls:
    """A toolbox as a service, for the batcher."""

    needs_task = False
    fingerprint = "tools"

    def __init__(self, env: SearchEnv) -> None:
        self._toolbox = env.toolbox

    def cache_key(self, call: Any) -> None:
        return None

    def run(self, calls: Any) -> Any:
        return self._toolbox.run(calls)


class _Worker:
    """Parts that a worker's episodes share: environment, tokens, batches of calls."""

    def __init__(self, env: SearchEnv, tokenizer: Any, renderer: Any) -> None:
        one_row(env)
        self.env = env
        spec = default_renderer(tokenizer) if renderer == AUTO else renderer
        self.policy = ExternalPolicy(tokenizer, spec)
        self.calls: Batcher[Any, Any] = Batcher(_Calls(env), max_batch=1024, max_in_flight=1)
        self.numbers = count()


_WORKERS: dict[tuple[str, int], _Worker] = {}
"""Workers by the environment asked for; verl makes an agent loop for every episode."""


@dataclass
class _Told:
    """Facts of an episode, beside its turns, that verl wants to know."""

    prompt: tuple[int, ...] = ()
    """Ids of the first prompt."""
    seconds: dict[str, float] = field(
        default_factory=lambda: {"generate_sequences": 0.0, "tool_calls": 0.0}
    )
    versions: dict[str, int] = field(default_factory=dict)
    """The first and the last of the weights that wrote it, by their number of steps."""

    def weights(self, turn: Mapping[str, Any]) -> None:
        """Note whose weights wrote a turn, where the server says so."""
        first, last = turn.get("min_global_steps"), turn.get("max_global_steps")
        if first is not None and last is not None:
            known = self.versions or {"min_global_steps": int(first), "max_global_steps": int(last)}
            self.versions = {
                "min_global_steps": min(int(first), known["min_global_steps"]),
                "max_global_steps": max(int(last), known["max_global_steps"]),
            }


class SearchAgentLoop(AgentLoopBase):
    """One episode; verl makes it from the file that :func:`agent_loop` writes.

    Args:
        env: An environment's id.
        options: Its keywords.
        renderer: How episodes become tokens, as of
            :class:`~searchgym.policies.causal_lm.ExternalPolicy`; ``"auto"`` takes chat where the
            tokenizer has a template.
        max_tokens: Tokens of a turn, as far as ``rollout.response_length`` leaves room.
        seed: Seed of everything random in the episodes but what the server samples.

    Raises:
        CardError: rules under which an episode is several sequences.
    """

    def __init__(
        self,
        *args: Any,
        env: str,
        options: Mapping[str, Any] | None = None,
        renderer: Any = AUTO,
        max_tokens: int = 512,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        keywords, spec = _plain(options or {}), _plain(renderer)
        place = (json.dumps([env, keywords, spec], sort_keys=True), id(self.tokenizer))
        if place not in _WORKERS:
            made = _environment(env, keywords)
            _WORKERS[place] = _Worker(made, self.tokenizer, spec)
        self.shared, self.max_tokens, self.seed = _WORKERS[place], max_tokens, seed

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the episode of a row of the training file.

        An episode whose infrastructure fails is played once more, and then left out: verl's trainer
        drops the member of a group whose agent loop raises, and the group's mean is the others'. A
        group of which no member is left is replaced where
        ``trainer.v1.sampler.sync_refill_failed_groups`` is on.

        Raises:
            EngineError: the infrastructure failed in every attempt. (verl's former trainer,
                ``trainer.use_v1=False``, knows no dropped member and stops.)
            CardError: the row names no task, or the prompt is longer than verl's ``prompt_length``.
        """
        task = (row.get("extra_info") or {}).get("task_id")
        if task is None:
            raise CardError(
                "a row names no task: train on a file of searchgym.integrations.verl.parquet, "
                "whose extra_info has task_id"
            )
        for _ in range(ATTEMPTS):
            number = next(self.shared.numbers)
            name = f"{task}.{row.get('priority', 0)}.{number}"
            key = derive(self.seed, "verl", name)
            session = Session(self.shared.env, task, key=key, episode_id=name)
            try:
                told = await self._play(session.episode, sampling_params)
                if session.reward is not None:
                    return self._output(session, session.reward, told)
            finally:
                self.shared.policy.forget([name])
        raise EngineError(
            f"the infrastructure failed in {ATTEMPTS} attempts at task {task!r}: the episode has "
            "no reward, and verl leaves it out; look at the engine, or at the server it asks"
        )

    async def _play(self, episode: Episode, sampling: Mapping[str, Any]) -> _Told:
        """Play to the end."""
        policy, known, told = self.shared.policy, uuid4().hex, _Told()
        while episode.phase != "done":
            (request,) = episode.requests()
            asked = policy.ask(request, Sampling(max_tokens=self.max_tokens))
            assert isinstance(asked, GenRequest)  # the policy itself knows no limit
            told.prompt = told.prompt or _ids(asked)
            began = time.monotonic()
            completion = await self._written(asked, sampling, known, told)
            told.seconds["generate_sequences"] += time.monotonic() - began
            calls = episode.act(policy.remember(request, completion).text)
            began = time.monotonic()
            while calls:
                episode.receive(await self.shared.calls.submit_many(calls))
                calls = episode.pending if episode.phase == "receive" else ()
            told.seconds["tool_calls"] += time.monotonic() - began
        self.shared.env.ended(episode)
        return told

    async def _written(
        self, asked: GenRequest, sampling: Mapping[str, Any], known: str, told: _Told
    ) -> Completion:
        """The server's continuation; an empty one where verl's ``response_length`` is used up."""
        config, prompt = self.rollout_config, len(told.prompt)
        if prompt > config.prompt_length:
            raise CardError(
                f"the prompt has {prompt} tokens, and rollout.prompt_length is "
                f"{config.prompt_length}: raise data.max_prompt_length"
            )
        top_p, top_k = getattr(config, "top_p", 1.0), getattr(config, "top_k", -1)
        require_own_distribution(Sampling(1, 1.0, top_p, top_k), "verl's rollout")
        ids = _ids(asked)
        room = config.response_length - (len(ids) - prompt)
        if room < 1:
            none = np.zeros(0, np.float32)
            return Completion("", (), none, (), 0, none, "length")
        wanted = {**sampling, "max_tokens": min(room, asked.sampling.max_tokens)}
        if asked.sampling.stop:
            wanted["stop"] = list(asked.sampling.stop)
            # both servers would cut what was sampled from the text; here it is an action's end
            keep = "no_stop_trim" if config.name == "sglang" else "include_stop_str_in_output"
            wanted[keep] = True
        output = await self.server_manager.generate(
            request_id=known, prompt_ids=list(ids), sampling_params=wanted
        )
        told.weights(output.extra_fields)
        if output.stop_reason == "aborted":
            raise EngineError("the server aborted a turn, which is no turn of the policy")
        return _completion(output, asked, self.tokenizer)

    def _output(self, session: Session, reward: float, told: _Told) -> AgentLoopOutput:
        name = session.episode.config.episode_id
        row = only_row(self.shared.policy.rows(session.episode), name, "verl")
        start = len(told.prompt)
        if row is not None:
            ids, logp = row.ids[start:].tolist(), row.logp[start:].tolist()
            mask = row.loss_mask[start:].astype(int).tolist()
        else:  # the first turn left nothing
            ids, logp, mask = [int(self.tokenizer.eos_token_id)], [0.0], [0]
        return AgentLoopOutput(
            prompt_ids=list(told.prompt),
            response_ids=ids,
            response_mask=mask,
            response_logprobs=logp,
            reward_score=reward,
            num_turns=2 * len(session.episode.turns),
            metrics=told.seconds,
            extra_fields={
                **told.versions,
                "turn_scores": [turn.reward for turn in session.episode.turns],
                "tool_rewards": [],
                "reward_extra_info": session.metrics,  # the same keys however it ended
            },
        )


def _ids(asked: GenRequest) -> tuple[int, ...]:
    """The prompt, which :class:`~searchgym.policies.causal_lm.ExternalPolicy` writes in ids."""
    return tuple(int(i) for i in asked.prompt)  # type: ignore[arg-type]


def _completion(output: Any, asked: GenRequest, tokenizer: Any) -> Completion:
    """The server's tokens with their text, cut after the stop string where there is one."""
    ids = tuple(int(i) for i in output.token_ids)
    logp = output.log_probs or [0.0] * len(ids)
    eos = bool(ids) and ids[-1] in text_ends(tokenizer)
    reader = Reader(lambda some: tokenizer.decode(some, skip_special_tokens=False), _ids(asked))
    for token in ids[: len(ids) - eos]:
        reader.add(token)
    if eos:
        reader.silent()
    text, ends, kept = reader.finish(), tuple(reader.ends), len(ids)
    end = stop_end(text, asked.sampling.stop)
    if end is not None:
        kept, ends = cut(ends, end)
        text = text[:end]
    finish: Literal["stop", "length", "eos"] = "eos" if eos else "length"
    if end is not None:
        finish = "stop"
    return Completion(text, ids[:kept], np.asarray(logp[:kept], np.float32), ends, finish=finish)


def _plain(value: Any) -> Any:
    """The value with plain dicts and lists in place of OmegaConf's."""
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _environment(env: str, options: Mapping[str, Any]) -> SearchEnv:
    import gymnasium as gym

    from ..envs.registration import env_id

    if not isinstance(env, str):
        raise CardError(
            f"verl's workers make the environment themselves, so it is named: got "
            f"{type(env).__name__}; give an id and its keywords"
        )
    return search_env(gym.make(env_id(env), disable_env_checker=True, **options))


def agent_loop(
    path: Path | str,
    env: str,
    *,
    name: str = "searchgym",
    renderer: Any = AUTO,
    max_tokens: int = 512,
    seed: int = 0,
    **options: Any,
) -> None:
    """Write the file for ``rollout.agent.agent_loop_config_path``.

    Args:
        path: A ``.yaml`` file.
        env: An environment's id.
        name: Name of the agent loop, which the rows of :func:`parquet` name, too.
        renderer, max_tokens, seed: As of :class:`SearchAgentLoop`.
        options: The environment's keywords, of plain values.

    Raises:
        CardError: an option that cannot be written, or rules that verl cannot train under.
    """
    one_row(_environment(env, options))
    target = f"{SearchAgentLoop.__module__}.{SearchAgentLoop.__qualname__}"
    entry = {
        "name": name, "_target_": target, "env": env, "options": options, "renderer": renderer,
        "max_tokens": max_tokens, "seed": seed,
    }  # fmt: skip
    try:
        json.dumps(entry)
    except TypeError as error:
        raise CardError(f"verl reads the options from a file: {error}; give plain values") from None
    OmegaConf.save(OmegaConf.create([entry]), path)


def parquet(path: Path | str, env: str, *, name: str = "searchgym", **options: Any) -> None:
    """Write a training file with a row for each task.

    Columns: ``prompt`` (the episode writes its own and uses the row's for nothing else than its
    length), ``agent_name``, ``data_source``, ``reward_model`` without any answer, and
    ``extra_info`` with ``index`` and ``task_id``.

    Args:
        path: A ``.parquet`` file.
        env: An environment's id.
        name: Name of the agent loop.
        options: The environment's keywords.
    """
    from datasets import Dataset

    made = _environment(env, options)
    rows = [
        {
            "data_source": env,
            "prompt": Session(made, task.id).messages,
            "agent_name": name,
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": index, "task_id": task.id},
        }
        for index, task in enumerate(made.tasks)
    ]
    Dataset.from_list(rows).to_parquet(str(path))
