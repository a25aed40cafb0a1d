"""Text generators behind one protocol: transformers, vLLM in process, OpenAI-compatible servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils import attach

_WHERE = {
    "base": ("Sampling",),
    "merging": ("merge_models",),
    "sft": ("SftConfig", "SftTrainer"),
    "sft_data": ("encode",),
    "small": ("small_model", "train_tokenizer"),
    "transformers_generator": ("TransformersGenerator",),
    "vllm_generator": ("VllmGenerator",),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .base import Sampling as Sampling
    from .merging import merge_models as merge_models
    from .sft import SftConfig as SftConfig
    from .sft import SftTrainer as SftTrainer
    from .sft_data import encode as encode
    from .small import small_model as small_model
    from .small import train_tokenizer as train_tokenizer
    from .transformers_generator import TransformersGenerator as TransformersGenerator
    from .vllm_generator import VllmGenerator as VllmGenerator

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
