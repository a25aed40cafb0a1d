"""SearchGym: Gymnasium environments in which search agents are trained and compared.

``import searchgym as sg`` registers the catalogue's environments and stays light: every public name
below, those that plug-ins add (``sg.RulesAgent``), and every package such as ``sg.curricula``,
loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .envs.registration import register_catalog
from .plugins import public_names
from .utils import attach

_WHERE = {
    "_version": ("__version__",),
    # environments and episodes
    "envs.search": ("SearchEnv",),
    "envs.vector": ("SearchVectorEnv",),
    "envs.session": ("Session", "Step"),
    "envs.unwrap": ("search_env",),
    "envs.checker": ("check_env", "check_vector_env"),
    "envs.spaces": ("ChatSpace", "FreeText",),
    "envs.registration": ("env_ids", "register_card"),
    "cards": ("read_card",),
    "wrappers": ("CurriculumWrapper", "VectorCurriculumWrapper"),
    "core.episode": ("Episode", "run_tools"),
    "core.rules": ("EpisodeConfig", "Rules"),
    "core.trajectory": ("Trajectory",),
    "core.messages": ("messages_of",),
    "core.rollout": ("run_episode", "run_episodes"),
    "types": (
        "ABSTAIN", "Access", "Agent", "Answer", "Call", "Failure", "Hit", "Passage", "Query",
        "Search", "SearchEngine", "Segment", "Task", "ToolCall", "ToolResult", "ToolSpec",
        "TurnRequest",
    ),
    "errors": (
        "CardError", "CheckError", "DataError", "EngineError", "EpisodeError", "EvaluationError",
        "SearchGymError", "WorldError",
    ),
    # worlds, corpora, tasks, engines
    "worlds.loader": ("load_schema",),
    "worlds.generate": ("generate",),
    "corpora.render": ("render",),
    "corpora.corpus": ("Corpus",),
    "corpora.load": ("load_corpus", "load_questions"),
    "tasks.build": ("build_tasks",),
    "tasks.audit": ("verify",),
    "tasks.draft": ("Family", "family"),
    "engines.registry": ("build_engine",),
    "engines.searcher": ("Searcher",),
    "curricula": ("AXES", "Curriculum", "Driver", "make_curriculum"),
    # rewards, tools and dialects of your own
    "rewards": ("Outcome", "Reward", "RewardPart", "gate", "per_turn"),
    "tools": ("Tool", "ToolContext"),
    "dialects.base": ("Dialect",),
    # agents and their evaluation
    "agents.oracle": ("OracleAgent",),
    "agents.scripted": ("ConstantAgent", "FirstHitAgent"),
    "agents.function": ("FunctionAgent",),
    "evaluation.run": ("episode_for", "evaluate"),
    "evaluation.result": ("EvalResult", "compare"),
    "evaluation.crossed": ("crossed_interval", "crossed_p"),
    "evaluation.intervals": ("holm",),
    "evaluation.power": ("power_note",),
    "benchmark": (
        "Rung", "TransferTable", "generated_rungs", "oracle", "real_rungs", "smoke_rung",
        "transfer",
    ),
    # language models and their training
    "llms.base": ("Sampling",),
    "llms.transformers_generator": ("TransformersGenerator",),
    "llms.vllm_generator": ("VllmGenerator",),
    "llms.small": ("small_model", "train_tokenizer"),
    "policies.trainable": ("Lora", "TrainableLM"),
    "policies.causal_lm": ("CausalLMPolicy",),
    "policies.external": ("ExternalPolicy",),
    "policies.renderer": ("ChatRenderer",),
    "llms.foreign": ("neutralise",),
    "rl.trainer": ("TrainConfig", "Trainer"),
    "rl.recipe": ("Recipe",),
    "rl.critics.scalar": ("Critic",),
    "rl.processes": ("Processes",),
    "rl.asynchronous.rollouts": ("AsyncRollouts",),
    "policies.model_folder": ("load_policy",),
}  # fmt: skip
"""Module → the public names it defines."""
_PACKAGES = (
    "agents benchmark cards charts corpora curricula dialects engines envs evaluation "
    "kgs llms policies reports rewards rl scoring seeding serve tasks tools types "
    "viewer worlds wrappers"
).split()
"""Packages and modules that are attributes: ``sg.wrappers`` needs no import of its own."""

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .agents.function import FunctionAgent as FunctionAgent
    from .agents.oracle import OracleAgent as OracleAgent
    from .agents.scripted import ConstantAgent as ConstantAgent
    from .agents.scripted import FirstHitAgent as FirstHitAgent
    from .benchmark import Rung as Rung
    from .benchmark import TransferTable as TransferTable
    from .benchmark import generated_rungs as generated_rungs
    from .benchmark import oracle as oracle
    from .benchmark import real_rungs as real_rungs
    from .benchmark import smoke_rung as smoke_rung
    from .benchmark import transfer as transfer
    from .cards import read_card as read_card
    from .core.episode import Episode as Episode
    from .core.episode import run_tools as run_tools
    from .core.messages import messages_of as messages_of
    from .core.rollout import run_episode as run_episode
    from .core.rollout import run_episodes as run_episodes
    from .core.rules import EpisodeConfig as EpisodeConfig
    from .core.rules import Rules as Rules
    from .core.trajectory import Trajectory as Trajectory
    from .corpora.corpus import Corpus as Corpus
    from .corpora.load import load_corpus as load_corpus
    from .corpora.load import load_questions as load_questions
    from .corpora.render import render as render
    from .curricula import AXES as AXES
    from .curricula import Curriculum as Curriculum
    from .curricula import Driver as Driver
    from .curricula import make_curriculum as make_curriculum
    from .dialects.base import Dialect as Dialect
    from .engines.registry import build_engine as build_engine
    from .engines.searcher import Searcher as Searcher
    from .envs.checker import check_env as check_env
    from .envs.checker import check_vector_env as check_vector_env
    from .envs.registration import env_ids as env_ids
    from .envs.registration import register_card as register_card
    from .envs.search import SearchEnv as SearchEnv
    from .envs.session import Session as Session
    from .envs.session import Step as Step
    from .envs.spaces import ChatSpace as ChatSpace
    from .envs.spaces import FreeText as FreeText
    from .envs.unwrap import search_env as search_env
    from .envs.vector import SearchVectorEnv as SearchVectorEnv
    from .errors import CardError as CardError
    from .errors import CheckError as CheckError
    from .errors import DataError as DataError
    from .errors import EngineError as EngineError
    from .errors import EpisodeError as EpisodeError
    from .errors import EvaluationError as EvaluationError
    from .errors import SearchGymError as SearchGymError
    from .errors import WorldError as WorldError
    from .evaluation.crossed import crossed_interval as crossed_interval
    from .evaluation.crossed import crossed_p as crossed_p
    from .evaluation.intervals import holm as holm
    from .evaluation.power import power_note as power_note
    from .evaluation.result import EvalResult as EvalResult
    from .evaluation.result import compare as compare
    from .evaluation.run import episode_for as episode_for
    from .evaluation.run import evaluate as evaluate
    from .llms.base import Sampling as Sampling
    from .llms.foreign import neutralise as neutralise
    from .llms.small import small_model as small_model
    from .llms.small import train_tokenizer as train_tokenizer
    from .llms.transformers_generator import TransformersGenerator as TransformersGenerator
    from .llms.vllm_generator import VllmGenerator as VllmGenerator
    from .policies.causal_lm import CausalLMPolicy as CausalLMPolicy
    from .policies.external import ExternalPolicy as ExternalPolicy
    from .policies.model_folder import load_policy as load_policy
    from .policies.renderer import ChatRenderer as ChatRenderer
    from .policies.trainable import Lora as Lora
    from .policies.trainable import TrainableLM as TrainableLM
    from .rewards import Outcome as Outcome
    from .rewards import Reward as Reward
    from .rewards import RewardPart as RewardPart
    from .rewards import gate as gate
    from .rewards import per_turn as per_turn
    from .rl.asynchronous.rollouts import AsyncRollouts as AsyncRollouts
    from .rl.critics.scalar import Critic as Critic
    from .rl.processes import Processes as Processes
    from .rl.recipe import Recipe as Recipe
    from .rl.trainer import TrainConfig as TrainConfig
    from .rl.trainer import Trainer as Trainer
    from .tasks.audit import verify as verify
    from .tasks.build import build_tasks as build_tasks
    from .tasks.draft import Family as Family
    from .tasks.draft import family as family
    from .tools import Tool as Tool
    from .tools import ToolContext as ToolContext
    from .types import ABSTAIN as ABSTAIN
    from .types import Access as Access
    from .types import Agent as Agent
    from .types import Answer as Answer
    from .types import Call as Call
    from .types import Failure as Failure
    from .types import Hit as Hit
    from .types import Passage as Passage
    from .types import Query as Query
    from .types import Search as Search
    from .types import SearchEngine as SearchEngine
    from .types import Segment as Segment
    from .types import Task as Task
    from .types import ToolCall as ToolCall
    from .types import ToolResult as ToolResult
    from .types import ToolSpec as ToolSpec
    from .types import TurnRequest as TurnRequest
    from .worlds.generate import generate as generate
    from .worlds.loader import load_schema as load_schema
    from .wrappers import CurriculumWrapper as CurriculumWrapper
    from .wrappers import VectorCurriculumWrapper as VectorCurriculumWrapper

__getattr__, __dir__, _names = attach(__name__, _WHERE, modules=_PACKAGES, others=public_names)
__all__ = _names

register_catalog()
