from .base import Sampling as Sampling
from .sft import SftConfig as SftConfig
from .sft import SftTrainer as SftTrainer
from .sft_data import encode as encode
from .small import small_model as small_model
from .small import train_tokenizer as train_tokenizer
from .transformers_generator import TransformersGenerator as TransformersGenerator
from .vllm_generator import VllmGenerator as VllmGenerator
