from .acceleration import block_attention as block_attention  # internal
from .acceleration import compile_layers as compile_layers  # internal
from .acceleration import fast_dtype as fast_dtype  # internal
from .acceleration import training_dtype as training_dtype  # internal
from .base import Completion as Completion  # internal
from .base import Floats as Floats  # internal
from .base import Generator as Generator  # internal
from .base import GenRequest as GenRequest  # internal
from .base import Ids as Ids  # internal
from .base import Sampling as Sampling
from .base import check as check  # internal
from .base import request_key as request_key  # internal
from .batches import micro_batches as micro_batches  # internal
from .batches import padded as padded  # internal
from .causal import Running as Running  # internal
from .causal import left_padded as left_padded  # internal
from .causal import load as load  # internal
from .models import KIND as KIND  # internal
from .models import MODELS as MODELS  # internal
from .models import SOURCE as SOURCE  # internal
from .models import resolve as resolve  # internal
from .models import to_folder as to_folder  # internal
from .openai_chat import ChatClient as ChatClient  # internal
from .openai_chat import ChatRequest as ChatRequest  # internal
from .openai_generator import OpenAIGenerator as OpenAIGenerator  # internal
from .prompts import Codec as Codec  # internal
from .prompts import text_ends as text_ends  # internal
from .registry import build_generator as build_generator  # internal
from .sft import STATE as STATE  # internal
from .sft import Progress as Progress  # internal
from .sft import SftConfig as SftConfig
from .sft import SftTrainer as SftTrainer
from .sft import train as train  # internal
from .sft_data import Example as Example  # internal
from .sft_data import encode as encode
from .sft_data import untrained as untrained  # internal
from .small import small_model as small_model
from .small import train_tokenizer as train_tokenizer
from .tokens import Reader as Reader  # internal
from .tokens import cut as cut  # internal
from .tokens import stop_end as stop_end  # internal
from .transformers_generator import TransformersGenerator as TransformersGenerator
from .vllm_generator import VllmGenerator as VllmGenerator
from .vllm_generator import size_of as size_of  # internal
