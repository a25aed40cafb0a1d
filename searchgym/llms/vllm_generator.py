"""vLLM in this process: fast text with exact ids, whose weights a trainer can replace in place."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EngineError, MissingExtraError
from ..storage.files import read_json
from ..types import Failure
from .base import Completion, Floats, GenRequest, Ids, check, request_key
from .models import resolve
from .prompts import Codec, check_template, refusal, text_ends, weights_digest
from .tokens import Reader, cut, stop_end

if TYPE_CHECKING:
    from torch import Tensor


_WORKER = "searchgym.llms.vllm_generator.WeightWorker"


class VllmGenerator:
    """A causal LM served by vLLM within this process; equal prefixes are computed once.

    ``context`` is the longest prompt + completion in tokens (default: the model's). ``entropy``
    gives that capability; requests that need it fetch the whole vocabulary's log-probabilities.
    ``kv_cache_gb`` sizes the cache of the CPU build. ``timeout_s`` bounds a call of ``run`` or
    ``score``: what is unfinished then is a ``Failure("timeout")``. Further options go to
    ``vllm.LLM`` (``enforce_eager``, ``tensor_parallel_size``, …). Log-probabilities are those
    before temperature; check them while training by the trainer's ``agreement``, for some
    architectures are off in some builds. Of several processes that train together (``torchrun``)
    each holds a whole model of its own, on its GPU: make ``Processes`` first. Raises
    ``EngineError`` if vLLM cannot load the model, or is too old to be given weights.
    """

    needs_task = False

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        dtype: str = "auto",
        context: int | None = None,
        entropy: bool = False,
        kv_cache_gb: float | None = None,
        timeout_s: float | None = None,
        **options: Any,
    ) -> None:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine in this process
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        if kv_cache_gb is not None:
            os.environ["VLLM_CPU_KVCACHE_SPACE"] = f"{kv_cache_gb:g}"
        try:
            import vllm
            from vllm.platforms import current_platform
        except ImportError as error:
            raise MissingExtraError(f"the vLLM generator ({error})", "vllm") from error
        settings: dict[str, Any] = {
            "model": resolve(model),
            "dtype": dtype,
            "max_model_len": context,
            "enable_prefix_caching": True,
            "max_logprobs": -1 if entropy else 1,
            "load_format": "safetensors",
            "trust_remote_code": False,
            **options,
            "logprobs_mode": "raw_logprobs",
            "worker_extension_cls": _WORKER,
        }
        if current_platform.is_cpu():
            # the CPU build (0.32) fails on a seeded request whose prompt is read in two chunks
            settings.setdefault("enable_chunked_prefill", False)
        _join_processes(settings)
        _hide_llvmlite()
        try:
            self.llm = vllm.LLM(**settings)
        except Exception as error:  # it raises what it likes; a config may lack a field
            what = _architecture(Path(model))
            raise EngineError(
                f"vLLM cannot load {what} from {os.fspath(model)!r}: {error}"
            ) from error
        if not all(self.llm.collective_rpc("searchgym_reloads")):
            raise EngineError(
                f"vLLM {vllm.__version__} cannot be given weights (its workers' reload_weights "
                'takes no weights_iterator): pip install "vllm>=0.32" brings one that can'
            )
        check_template(self.llm.get_tokenizer())
        self.codec = Codec(self.llm.get_tokenizer())
        config = self.llm.llm_engine.vllm_config.model_config
        self.context: int = config.max_model_len
        self.dtype: Any = config.dtype
        """torch's, of the weights."""
        self.timeout_s = timeout_s
        self.version = 0
        """Version of the weights; each ``update_weights`` raises it."""
        self.capabilities = frozenset(
            {"ids", "logp", "score", "seed"}
            | ({"chat"} if self.codec.has_chat else set())
            | ({"entropy"} if entropy else set())
        )
        self._params = vllm.SamplingParams
        self._ends = sorted(text_ends(self.codec.tokenizer))
        self._described = json.dumps(
            [
                vllm.__version__,
                str(config.dtype),
                config.hf_config.to_dict(),
                self.codec.describe(),
            ],
            sort_keys=True,
            default=str,
        )
        self._lock = threading.RLock()
        self._numbers = count()
        self._weights: str | None = None
        """Digest of the weights; ``None``: those of the checkpoint, not read yet."""

    @property
    def fingerprint(self) -> str:
        """Digest of configuration, tokenizer and weights."""
        if self._weights is None:
            self._weights = _checkpoint_digest(self.llm.llm_engine.vllm_config.model_config)
        return "vllm:" + weights_digest((), self._described, self._weights)

    def cache_key(self, request: GenRequest) -> bytes:
        return request_key(request)

    def encode(self, request: GenRequest) -> Ids:
        """The ids of a prompt; see ``Codec.encode``."""
        return self.codec.encode(request)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        check(self, batch)
        prompts = [self.encode(request) for request in batch]
        jobs: list[tuple[Ids, Any] | Failure] = [
            refusal(prompt, request.sampling.max_tokens, self.context)
            or (prompt, self._sampling(request))
            for prompt, request in zip(prompts, batch, strict=True)
        ]
        with self._lock:
            outputs = self._drive(jobs)
            return [
                out
                if isinstance(out, Failure)
                else self._completion(prompt, request, out.outputs[0])
                for prompt, request, out in zip(prompts, batch, outputs, strict=True)
            ]

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> list[Floats | Failure]:
        asked = self._params(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        jobs: list[tuple[Ids, Any] | Failure] = [
            refusal(context, len(rest) + 1, self.context) or ((*context, *rest), asked)
            for context, rest in batch
        ]
        with self._lock:
            outputs = self._drive(jobs)
        scores: list[Floats | Failure] = []
        for (context, rest), out in zip(batch, outputs, strict=True):
            if isinstance(out, Failure):
                scores.append(out)
                continue
            logprobs = out.prompt_logprobs[len(context) : len(context) + len(rest)]
            scores.append(
                np.array([at[i].logprob for at, i in zip(logprobs, rest, strict=True)], np.float32)
            )
        return scores

    def update_weights(self, weights: Mapping[str, Any]) -> int:
        """Take over a complete state dict of the model in transformers; the new version.

        Forgets cached prefixes, which belong to the old weights. ``EngineError``, with nothing
        changed, if names or shapes do not fit or a weight is missing.
        """
        from safetensors.torch import save_file

        config = self.llm.llm_engine.vllm_config.model_config.hf_config
        plain = _apart(_checkpoint(config, weights))
        with self._lock, tempfile.TemporaryDirectory(dir=place_for(size_of(plain))) as folder:
            path = str(Path(folder) / "weights.safetensors")
            save_file(plain, path)
            self.llm.collective_rpc("searchgym_load", args=(path,))
            if not self.llm.reset_prefix_cache():
                raise EngineError("vLLM kept prefixes of the old weights: requests are running")
            self._weights = weights_digest(plain.items())
            self.version += 1
            return self.version

    def _sampling(self, request: GenRequest) -> Any:
        s = request.sampling
        return self._params(
            max_tokens=s.max_tokens,
            temperature=s.temperature,
            top_p=s.top_p,
            top_k=s.top_k,
            seed=request.key if s.temperature > 0 else None,
            stop=list(s.stop) or None,
            stop_token_ids=self._ends,
            include_stop_str_in_output=True,
            skip_special_tokens=False,
            detokenize=bool(s.stop),
            logprobs=-1 if "entropy" in request.needs else 0,
        )

    def _drive(self, jobs: Sequence[tuple[Ids, Any] | Failure]) -> list[Any]:
        """vLLM's outputs in order, each finished, or a ``Failure``."""
        engine = self.llm.llm_engine
        end = None if self.timeout_s is None else time.monotonic() + self.timeout_s
        results: list[Any] = [job if isinstance(job, Failure) else None for job in jobs]
        waiting: dict[str, int] = {}
        try:
            for i, job in enumerate(jobs):
                if not isinstance(job, Failure):
                    name = f"searchgym-{next(self._numbers)}"
                    ids, params = job
                    engine.add_request(name, {"prompt_token_ids": list(ids)}, params)
                    waiting[name] = i
            while waiting and (end is None or time.monotonic() < end):
                for out in engine.step():
                    if out.finished:
                        results[waiting.pop(out.request_id)] = out
        finally:  # also on an interrupt: the engine must not go on with abandoned requests
            if waiting:
                engine.abort_request(list(waiting))
        for i in waiting.values():
            results[i] = Failure("timeout", f"not finished in {self.timeout_s:g} s")
        return results

    def _completion(self, prompt: Ids, request: GenRequest, out: Any) -> Completion | Failure:
        ids = tuple(out.token_ids)
        by_text = out.finish_reason == "stop" and isinstance(out.stop_reason, str)
        if out.finish_reason not in ("stop", "length"):
            return Failure("unavailable", f"vLLM ended a request with {out.finish_reason!r}")
        eos = out.finish_reason == "stop" and not by_text
        reader = Reader(self.codec.decode, prompt)
        for token in ids[: len(ids) - eos]:
            reader.add(token)
        if eos:
            reader.silent()
        text, ends, n = reader.finish(), tuple(reader.ends), len(ids)
        if by_text:
            end = stop_end(text, request.sampling.stop)
            if end is None:
                return Failure(
                    "bad_response", f"{out.stop_reason!r} ended a text without it: {text!r}"
                )
            n, ends = cut(ends, end)
            text = text[:end]
        logp = [at[i].logprob for at, i in zip(out.logprobs, ids, strict=True)]
        entropy = None
        if "entropy" in request.needs:
            entropy = np.array([_entropy(at) for at in out.logprobs[:n]], np.float32)
        return Completion(
            text,
            ids[:n],
            np.array(logp[:n], np.float32),
            ends,
            self.version,
            entropy,
            "stop" if by_text else "eos" if eos else "length",
        )


def _join_processes(settings: dict[str, Any]) -> None:
    """Let vLLM use the group of processes that is there, with the GPU of this one.

    Left alone it would set up a group of a single process, on the first GPU, in each of them; and
    where it comes first, those that train find no others.
    """
    started = os.environ.get("WORLD_SIZE", "1")
    if started == "1" or settings.get("distributed_executor_backend") is not None:
        return
    import torch

    group = torch.distributed
    group_size = group.get_world_size() if group.is_available() and group.is_initialized() else 0
    if str(group_size) != started:
        raise EngineError(
            f"{started} processes were launched (WORLD_SIZE), but they do not form a group yet: "
            "make searchgym.rl.processes.Processes(…) before a VllmGenerator. For a model per "
            "process that nobody trains: VllmGenerator(…, distributed_executor_backend='uni')"
        )
    split = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    if wrong := [name for name in split if settings.get(name) not in (None, 1)]:
        raise EngineError(
            f"each of {started} processes plays episodes of its own, with a whole model: "
            f"{wrong[0]}={settings[wrong[0]]} would need them to generate the same texts; leave it "
            "out, or train in one process"
        )
    settings["distributed_executor_backend"] = "external_launcher"


def _apart(weights: Mapping[str, Any]) -> dict[str, Any]:
    """The weights on the CPU; what shares memory with another, as tied ones do, is copied, for
    safetensors takes no such."""
    plain: dict[str, Any] = {}
    seen: set[int] = set()
    for name, weight in weights.items():
        weight = weight.detach().cpu().contiguous()
        place = weight.untyped_storage().data_ptr()
        plain[name] = weight.clone() if place in seen else weight
        seen.add(place)
    return plain


def _architecture(folder: Path) -> str:
    try:
        names = read_json(folder / "config.json")["architectures"]
        return str(names[0])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return "a model"


def _hide_llvmlite() -> None:
    """vLLM (seen in 0.32) looks for kernels in the ``__dict__`` of whatever any module holds, and
    llvmlite's library object, there once numba is imported, answers to every name with a function.
    It is given an empty one."""
    lib = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    table = getattr(lib, "_fntab", None)
    if isinstance(table, dict):
        table["__dict__"] = {}


def _entropy(at: Mapping[int, Any]) -> float:
    logp = np.array([entry.logprob for entry in at.values()], np.float64)
    finite = logp[np.isfinite(logp)]
    return float(-(np.exp(finite) * finite).sum())


def _checkpoint(config: Any, weights: Mapping[str, Any]) -> Mapping[str, Any]:
    """A complete state dict of ``config``'s model, named and cut as in its published files, which
    is what vLLM reads (a mixture's experts apart). ``EngineError`` if it is not complete."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.core_model_loading import revert_weight_conversion

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    known = {name: tuple(w.shape) for name, w in model.state_dict().items()}
    missing = sorted({name for name, _ in model.named_parameters()} - set(weights))
    strange = sorted(set(weights) - set(known))
    wrong = sorted(n for n in set(weights) & set(known) if tuple(weights[n].shape) != known[n])
    for problem, names in (("missing", missing), ("unknown", strange), ("of other shape", wrong)):
        if names:
            shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
            raise EngineError(f"these weights do not fit the model; {problem}: {shown}")
    named: Mapping[str, Any] = revert_weight_conversion(model, dict(weights))
    return named


def _checkpoint_digest(model_config: Any) -> str:
    """Digest of the weights vLLM started with: the files of a folder, or a hub name and commit."""
    from safetensors import safe_open

    path = Path(model_config.model)
    if not path.is_dir():
        commit = getattr(model_config.hf_config, "_commit_hash", None)
        return f"{model_config.model}@{model_config.revision or commit}"

    def tensors() -> Iterator[tuple[str, Any]]:
        for file in sorted(path.glob("*.safetensors")):
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118  (no mapping)
                    yield name, opened.get_tensor(name)

    return weights_digest(tensors())


class WeightWorker:
    """Methods for ``LLM.collective_rpc``."""

    reload_weights: Callable[..., None]
    """vLLM's own: loads into fresh layers, then packs them for the kernels as at the start (a
    plain copy into parameters misses kernels that keep packed copies, as the CPU's do)."""

    def searchgym_reloads(self) -> bool:
        """True if :attr:`reload_weights` can be given weights; vLLM's first versions of it only
        read the checkpoint again."""
        runner = getattr(self, "model_runner", None)  # to which a worker hands its arguments on
        ask = getattr(runner, "reload_weights", None) or getattr(self, "reload_weights", None)
        takes = inspect.signature(ask).parameters if ask is not None else {}
        return "weights_iterator" in takes or any(p.kind is p.VAR_KEYWORD for p in takes.values())

    def searchgym_load(self, path: str) -> None:
        """Replace all weights by those of a safetensors file with checkpoint names."""
        from safetensors import safe_open

        def tensors() -> Iterator[tuple[str, Tensor]]:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118  (no mapping)
                    yield name, file.get_tensor(name)

        self.reload_weights(weights_iterator=tensors())


SHARED = "/dev/shm"
"""Linux keeps its files in memory; containers often give it 64 MB."""


def size_of(weights: Mapping[str, Tensor]) -> int:
    """Size in bytes."""
    return sum(weight.numel() * weight.element_size() for weight in weights.values())


def place_for(needed: int) -> str:
    """A folder with room for so many bytes: ``SHARED``, else the one for temporary files.

    Raises:
        EngineError: neither has room; says what each has.
    """
    full: list[str] = []
    for folder in (SHARED, tempfile.gettempdir()):
        if os.path.isdir(folder) and os.access(folder, os.W_OK):
            free = shutil.disk_usage(folder).free
            if free >= needed:
                return folder
            full.append(f"{folder} has {free / 2**30:.2f} GiB free")
    raise EngineError(
        f"weights are handed over through a file, which needs {needed / 2**30:.2f} GiB: "
        f"{', '.join(full) or 'no folder can be written to'}. Make room there, give the container "
        "a larger /dev/shm (docker run --shm-size), or set TMPDIR to a folder with room"
    )
