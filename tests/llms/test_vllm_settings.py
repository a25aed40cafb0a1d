"""What vLLM is told and asked, without vLLM: a stand-in takes notes. The real one is tested in
``test_vllm_generator.py``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from searchgym.errors import EngineError
from searchgym.llms import vllm_generator
from searchgym.llms.vllm_generator import VllmGenerator, WeightWorker, place_for, size_of
from tests.llms import tiny
from tests.llms.checks import free


class Engine:
    """``vllm.LLM``."""

    reloads = True

    def __init__(self, **settings: Any) -> None:
        self.settings, self.loaded = settings, ""
        self.weights: dict[str, Any] = {}
        config = tiny.model().config
        model = SimpleNamespace(max_model_len=512, dtype=torch.bfloat16, hf_config=config, model="")
        self.llm_engine = SimpleNamespace(vllm_config=SimpleNamespace(model_config=model))

    def get_tokenizer(self) -> Any:
        return tiny.tokenizer()

    def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        if method == "searchgym_reloads":
            return [self.reloads]
        from safetensors.torch import load_file

        (self.loaded,) = args
        self.weights = load_file(self.loaded)
        return [None]

    def reset_prefix_cache(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = ModuleType("vllm")
    made.LLM, made.SamplingParams, made.__version__ = Engine, dict, "0.11.0"
    platforms: Any = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: True)
    monkeypatch.setitem(sys.modules, "vllm", made)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    for name in ("WORLD_SIZE", "VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_NO_USAGE_STATS"):
        monkeypatch.setenv(name, "1")
        monkeypatch.delenv(name)


def backend(**options: Any) -> Any:
    made: Any = VllmGenerator("folder", **options).llm
    return made.settings.get("distributed_executor_backend")


def test_of_several_processes_each_has_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend() is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(EngineError, match=r"2 processes were launched .* make .*Processes\(…\) be"):
        backend()
    assert backend(distributed_executor_backend="uni") == "uni", "who says so knows"
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert backend(tensor_parallel_size=1) == "external_launcher"
    with pytest.raises(EngineError, match="tensor_parallel_size=2 would need them"):
        backend(tensor_parallel_size=2)


def test_a_vllm_that_takes_no_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "reloads", False)
    with pytest.raises(EngineError, match=r"vLLM 0\.11\.0 cannot be given weights"):
        VllmGenerator("folder")


def test_workers_say_whether_they_take_weights() -> None:
    class Old:
        def reload_weights(self) -> None: ...

    class New:
        def reload_weights(self, weights_iterator: Any = None) -> None: ...

    class Worker(WeightWorker):
        def __init__(self, runner: Any) -> None:
            self.model_runner = runner

        def reload_weights(self, *args: Any, **kwargs: Any) -> None: ...

    assert [Worker(runner).searchgym_reloads() for runner in (Old(), New())] == [False, True]
    assert not WeightWorker().searchgym_reloads(), "there is none"


def test_weights_go_where_there_is_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(vllm_generator, "SHARED", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    generator = VllmGenerator("folder")
    engine: Any = generator.llm
    weights = tiny.model().state_dict()
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]  # tied, as many models' are
    free(monkeypatch, {str(shared): 2**30, str(tmp_path): 2**30})
    assert generator.update_weights(weights) == 1
    assert shared in Path(engine.loaded).parents
    assert engine.weights.keys() == weights.keys()
    assert all(torch.equal(value, weights[name]) for name, value in engine.weights.items())
    free(monkeypatch, {str(shared): 1000, str(tmp_path): 2**30})
    generator.update_weights(weights)
    assert shared not in Path(engine.loaded).parents
    free(monkeypatch, {str(tmp_path): 1000})
    with pytest.raises(EngineError, match=r"shared has 0\.00 GiB free"):
        generator.update_weights(weights)
    assert generator.version == 2
    assert generator.dtype == torch.bfloat16


def test_a_place_with_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    monkeypatch.setattr(vllm_generator, "SHARED", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    free(monkeypatch, {str(shared): 100, str(other): 2**30})
    assert place_for(100) == str(shared)
    assert place_for(101) == str(other), "as in a container, whose /dev/shm is small"
    full = r"needs 2\.00 GiB: .*/shared has 0\.00 GiB free, .*/other has 1\.00"
    with pytest.raises(EngineError, match=full):
        place_for(2**31)
    shared.rmdir()
    assert place_for(1) == str(other), "not all systems have one"


def test_sizes() -> None:
    half = torch.zeros(3, dtype=torch.bfloat16)
    assert size_of({"a": torch.zeros(2, 5), "b": half}) == 46
