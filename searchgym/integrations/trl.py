"""TRL's ``GRPOTrainer`` on search episodes, by either of its two doors for environments.

``environment_factory``: TRL samples, and calls the environment's tools as methods. The model must
have a chat template with tools; its last message is the answer::

    from searchgym.integrations import trl as bridge

    trainer = GRPOTrainer(
        model=…, args=GRPOConfig(…, **bridge.settings(env)),
        train_dataset=bridge.dataset(env, tokenizer), reward_funcs=bridge.reward,
        environment_factory=bridge.environment(env, tokenizer),
    )

``rollout_func``: SearchGym plays the episodes with the trainer's weights, in the environment's own
dialect, so base models without a chat template train, too::

    trainer = GRPOTrainer(
        model=…, args=GRPOConfig(…), processing_class=tokenizer,
        train_dataset=bridge.dataset(env, tokenizer), reward_funcs=bridge.rollout_reward,
        rollout_func=bridge.rollout(env),
    )

In both, an episode that the infrastructure broke is rewarded ``None``, which TRL leaves out of
baselines and advantages. Written for TRL 1.16 (``pip install -e ".[trl]"``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from typing import Any

from ..core.episode import Episode
from ..core.rollout import run_episodes
from ..envs.search import SearchEnv
from ..envs.session import Session
from ..envs.unwrap import search_env
from ..errors import CardError, EpisodeError, MissingExtraError
from ..llms.base import GenRequest, Sampling, require_own_distribution
from ..llms.foreign import neutralise
from ..llms.prompts import text_ends
from ..seeding import derive
from ..text import blocks
from .common import methods, native, one_row, only_row


def dataset(env: Any, tokenizer: Any) -> Any:
    """Return the environment's tasks as a ``datasets.Dataset``.

    Columns: ``prompt``, the instructions and the question as chat messages, of which the last also
    names its ``task_id``, so that two tasks of equal wording are kept apart; and ``task_id``.
    ``rollout_func`` reads the id alone: the episode writes its own prompt.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec.
        tokenizer: The model's. Strings of its special tokens in a question are made harmless.
    """
    try:
        from datasets import Dataset
    except ImportError as error:
        raise MissingExtraError("a dataset for TRL", "trl") from error
    inner = native(search_env(env))
    prompts = []
    for task in inner.tasks:
        system, user = (
            {**message, "content": neutralise(message["content"], tokenizer)}
            for message in Session(inner, task.id).messages
        )
        prompts.append([{**system, "task_id": task.id}, {**user, "task_id": task.id}])
    return Dataset.from_dict({"prompt": prompts, "task_id": [t.id for t in inner.tasks]})


def settings(env: Any) -> dict[str, Any]:
    """Return the options of ``GRPOConfig`` that follow from the environment's rules, for
    ``environment_factory``: with more rounds of tools than turns TRL would call tools of an episode
    that is over."""
    return {"max_tool_calling_iterations": search_env(env).rules.max_turns - 1}


# --- environment_factory ------------------------------------------------------------------------
class ToolEnvironment:
    """One rollout at a time for TRL, which reuses it: ``reset`` begins the next episode.

    :func:`environment` makes subclasses with a public method for each of the environment's tools.
    """

    def __init__(self, env: SearchEnv, tokenizer: Any, seed: int, number: int) -> None:
        self._env, self._tokenizer, self._seed = env, tokenizer, seed
        self._number, self._episodes = number, 0
        self._session: Session | None = None
        self._error: Exception | None = None

    def reset(self, task_id: str, **_: Any) -> None:
        """Begin an episode of a task; the prompt already holds the question."""
        place = (int(os.environ.get("RANK", "0")), self._number, self._episodes)
        key = derive(self._seed, "trl", task_id, *place)
        self._session, self._error = Session(self._env, task_id, key=key), None
        self._episodes += 1

    @property
    def session(self) -> Session:
        """The current episode."""
        if self._session is None:
            raise EpisodeError("no episode yet: TRL calls reset() before the first tool")
        return self._session


def _call(environment: ToolEnvironment, tool: str, arguments: dict[str, Any]) -> str:
    try:
        result = environment.session.call(tool, arguments)
    except Exception as error:  # TRL shows it to the model; :func:`reward` raises it
        environment._error = error
        raise
    return neutralise(result, environment._tokenizer)


class Factory:
    """Makes environments for TRL. It pickles, as ``async_grpo`` asks."""

    def __init__(self, env: SearchEnv, tokenizer: Any, seed: int) -> None:
        self.env, self.tokenizer, self.seed = env, tokenizer, seed
        self._made = 0

    def __call__(self) -> ToolEnvironment:
        tools = methods(self.env.rules.tools, _call)
        kind = type("SearchEnvironment", (ToolEnvironment,), dict(tools))
        self._made += 1
        made: ToolEnvironment = kind(self.env, self.tokenizer, self.seed, self._made - 1)
        return made


def environment(env: Any, tokenizer: Any, *, seed: int = 0) -> Factory:
    """Return a factory for ``GRPOTrainer(environment_factory=…)``.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec. Its dialect and
            instructions are not used: the chat template says how calls are written.
        tokenizer: The model's. No string of its special tokens reaches the model in a result.
        seed: Seed of everything random in the episodes but the model's sampling.

    Raises:
        CardError: rules that one growing conversation cannot follow.
    """
    inner = search_env(env)
    one_row(inner)
    return Factory(native(inner), tokenizer, seed)


def reward(
    completions: Sequence[Any],
    completion_ids: Sequence[Sequence[int]],
    environments: Sequence[ToolEnvironment],
    log_metric: Any = None,
    **_: Any,
) -> list[float | None]:
    """Reward function for ``environment_factory``: the last message is each episode's answer.

    A message that was cut off, and so does not end in a token that ends texts (the template's, the
    tokenizer's, and those of the generation configuration in its folder), is no answer. Returns the
    episodes' returns, ``None`` where the infrastructure failed.
    """
    for completion, ids, environment in zip(completions, completion_ids, environments, strict=True):
        session = environment.session
        if environment._error is not None:
            raise environment._error
        last = completion[-1]
        tokenizer = environment._tokenizer
        ends = {*text_ends(tokenizer), tokenizer.pad_token_id}
        finished = bool(ids) and ids[-1] in ends
        if session.done or last["role"] != "assistant" or last.get("tool_calls") or not finished:
            continue
        text = str(last["content"] or "")
        if blocks(text, "answer"):
            session.step(text)
        else:
            session.answer(text.strip())
    sessions = [environment.session for environment in environments]
    _log(log_metric, [session.metrics for session in sessions])
    return [session.reward for session in sessions]


# --- rollout_func -------------------------------------------------------------------------------
class Rollout:
    """Plays TRL's batches: what ``GRPOTrainer(rollout_func=…)`` calls. It pickles."""

    def __init__(self, env: SearchEnv, renderer: Any, sampling: Sampling, seed: int) -> None:
        self.env, self.renderer, self.sampling, self.seed = env, renderer, sampling, seed
        self._at: tuple[str, int] = ("", -1)
        self._calls = count()

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        """Play an episode for each prompt; TRL repeats each prompt for its group."""
        self._check(trainer)
        episodes = self._episodes(prompts, trainer)
        policy = self._policy(trainer)
        model = policy.generator.model
        training = model.training
        model.eval()
        try:
            run_episodes(episodes, policy, self.env.toolbox, batch=len(episodes))
        finally:
            model.train(training)
        for episode in episodes:
            self.env.ended(episode)
        names = (
            "prompt_ids", "completion_ids", "logprobs", "env_mask", "searchgym_return",
            "searchgym_metrics",
        )  # fmt: skip
        rows: dict[str, list[Any]] = {name: [] for name in names}
        end = int(trainer.processing_class.eos_token_id)
        for episode in episodes:
            for name, value in zip(names, _row(episode, policy, end), strict=True):
                rows[name].append(value)
        return rows

    def _check(self, trainer: Any) -> None:
        require_own_distribution(self.sampling, "sampling")
        args = trainer.args
        asked = Sampling(1, float(args.temperature), float(args.top_p), int(args.top_k or 0))
        require_own_distribution(asked, "GRPOConfig")
        for name, plain in (("min_p", (None, 0.0)), ("repetition_penalty", (None, 1.0))):
            if (value := getattr(args, name, None)) not in plain:
                raise CardError(f"GRPOConfig has {name} {value}, which rollout() does not draw by")
        if trainer.use_vllm:
            raise CardError(
                "rollout() samples with the trainer's own weights: set use_vllm=False, or use "
                "environment(), which leaves sampling to TRL and its vLLM"
            )

    def _episodes(self, prompts: list[Any], trainer: Any) -> list[Episode]:
        """The same episodes whatever the number of processes: each is named by its place in the
        whole batch."""
        at = ("train" if trainer.model.training else "eval", int(trainer.state.global_step))
        if at != self._at:
            self._at, self._calls = at, count()
        batch = next(self._calls)
        first = trainer.accelerator.process_index * len(prompts)
        episodes = []
        for place, prompt in enumerate(prompts, first):
            task = _task_id(prompt)
            name = f"{at[0]}.{at[1]}.{batch}.{place}"
            key = derive(self.seed, "trl", name)
            episodes.append(self.env.start(key, task=self.env.task(task), episode_id=name))
        return episodes

    def _policy(self, trainer: Any) -> Any:
        from ..llms.transformers_generator import TransformersGenerator
        from ..policies.causal_lm import CausalLMPolicy
        from ..policies.model_folder import AUTO, default_renderer

        tokenizer = trainer.processing_class
        model = trainer.accelerator.unwrap_model(trainer.model)
        renderer = default_renderer(tokenizer) if self.renderer == AUTO else self.renderer
        return CausalLMPolicy(
            TransformersGenerator(model, tokenizer), renderer, sampling=self.sampling,
            seed=self.seed,
        )  # fmt: skip


def rollout(
    env: Any, *, renderer: Any = "auto", sampling: Sampling | None = None, seed: int = 0
) -> Rollout:
    """Return a function for ``GRPOTrainer(rollout_func=…)``.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec.
        renderer: How episodes become tokens: ``"plain"``, ``"chat"``, … as of
            :class:`~searchgym.policies.causal_lm.ExternalPolicy`; ``"auto"`` takes chat where the
            tokenizer has a template.
        sampling: Sampling of a turn; ``max_tokens`` is a turn's.
        seed: Seed of the episodes and of what is sampled.

    Raises:
        CardError: rules under which an episode is no single sequence.
    """
    inner = search_env(env)
    one_row(inner)
    return Rollout(inner, renderer, sampling or Sampling(), seed)


def rollout_reward(
    completions: Sequence[Any],
    searchgym_return: Sequence[float | None],
    searchgym_metrics: Sequence[dict[str, float]] = (),
    log_metric: Any = None,
    **_: Any,
) -> list[float | None]:
    """Reward function for ``rollout_func``: the episodes' returns, ``None`` where the
    infrastructure failed."""
    _log(log_metric, searchgym_metrics)
    return list(searchgym_return)


# --- parts --------------------------------------------------------------------------------------
def _task_id(prompt: Any) -> str:
    if isinstance(prompt, list) and prompt and "task_id" in prompt[-1]:
        return str(prompt[-1]["task_id"])
    raise CardError(
        "a prompt names no task: train on searchgym.integrations.trl.dataset(env), whose messages "
        "carry their task_id"
    )


def _row(episode: Episode, policy: Any, end: int) -> tuple[Any, ...]:
    """Prompt ids, completion ids, log-probabilities, mask, return and metrics of an episode."""
    outcome = episode.outcome()
    broken = outcome is not None and outcome.end == "infra_error"
    total = None if broken else float(sum(turn.reward for turn in episode.turns))
    metrics = {} if outcome is None or broken else dict(outcome.parts)
    row = only_row(policy.rows(episode), episode.config.episode_id, "TRL")
    if row is None:  # the prompt leaves no room for a first turn, or the first turn failed
        request = policy.ask(episode.requests()[0]) if episode.phase != "done" else None
        ids = list(request.prompt) if isinstance(request, GenRequest) else [end]
        return ids, [end], [0.0], [0], total, metrics
    first = int(row.sampled.argmax())
    ids, logp, mask = row.ids[first:].tolist(), row.logp[first:].tolist(), row.loss_mask[first:]
    kept = mask.astype(int).tolist()
    if ids[-1] != end:  # so that TRL does not take the episode for one that was cut off
        ids, logp, kept = [*ids, end], [*logp, 0.0], [*kept, 0]
    return row.ids[:first].tolist(), ids, logp, kept, total, metrics


def _log(log_metric: Any, metrics: Sequence[dict[str, float]]) -> None:
    if log_metric is None:
        return
    for name in sorted({name for one in metrics for name in one}):
        values = [one[name] for one in metrics if name in one]
        log_metric(f"searchgym/{name}", sum(values) / len(values))
