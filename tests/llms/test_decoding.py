"""Rows in slots get the numbers that a growing cache gives, in every kind of model that can."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from searchgym.llms import decoding
from searchgym.llms.caches import Past, joined, stacked
from searchgym.llms.causal import Running, evaluating, score_rows

COMMON = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
IN_SLOTS = (
    "llama", "qwen2", "qwen3", "mistral", "gemma", "phi3", "olmo2", "granite", "cohere", "gpt2",
    "gpt_neox", "qwen2_moe", "deepseek_v3",
)  # fmt: skip
GROWING = ("gpt_neo", "gemma2", "lfm2", "bloom")
PROMPTS = [tuple(range(3, 3 + n)) for n in (5, 17, 1, 30, 9)]


def made(kind: str, device: str = "cpu") -> Any:
    options: dict[str, Any] = dict(COMMON)
    if kind == "mistral":
        options["sliding_window"] = None
    if kind == "gpt_neo":
        options |= {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
    if kind == "gpt2":
        options |= {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
    if kind == "lfm2":
        options["layer_types"] = ["conv", "full_attention"]
    if kind == "bloom":
        options |= {"n_layer": 2, "n_head": 4}
    if kind == "qwen2_moe":
        options |= {"num_experts": 4, "moe_intermediate_size": 16,
                    "shared_expert_intermediate_size": 16}  # fmt: skip
    if kind == "deepseek_v3":  # keys are wider than values
        options |= {"q_lora_rank": None, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
                    "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "n_group": 1,
                    "topk_group": 1, "moe_intermediate_size": 16,
                    "num_key_value_heads": 4}  # fmt: skip
    config = transformers.AutoConfig.for_model(kind, **options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = transformers.AutoModelForCausalLM.from_config(config)
    return model.eval().to(device)


def written(model: Any, room: int = 64) -> tuple[list[torch.Tensor], list[Past | None], Running]:
    """Logits of steps among which rows leave, in any order."""
    seen, pasts = [], []
    with evaluating(model):
        running = Running(model, PROMPTS, 0, room=room)
        for step in range(24):
            if step in (3, 5, 11):
                pasts.append(running.past(len(running) - 1))
                order = [*range(1, len(running))][::-1]
                order += order[:1] * (step == 5)  # a row twice
                running.keep(torch.tensor(order, device=model.device))
            running.step(running.logits.argmax(-1))
            seen.append(running.logits.clone())
    return seen, pasts, running


@pytest.mark.parametrize("kind", [*IN_SLOTS, *GROWING])
@pytest.mark.parametrize("room", [64, 1])
def test_slots_give_what_a_growing_cache_gives(
    kind: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(kind)
    if kind in ("gemma2", "lfm2"):  # what cannot be padded, or not be joined
        with evaluating(model):
            running = Running(model, PROMPTS, 0)
            running.step(running.logits.argmax(-1))
        assert running._slots is None
        return
    seen, pasts, running = written(model, room)
    assert (running._slots is not None) == (kind in IN_SLOTS)
    monkeypatch.setattr(decoding, "possible", lambda *given: False)
    usual, theirs, _ = written(model)
    for mine, other in zip(seen, usual, strict=True):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-4)
    for one, two in zip(pasts, theirs, strict=True):
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            assert one.length == two.length
            for a, b in zip(one.layers, two.layers, strict=True):
                torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma"])
def test_output_layers_are_not_given_slices(kind: str) -> None:
    """PyTorch multiplies a slice by frozen weights one row at a time, in bfloat16 slowly."""
    model = made(kind)
    given: list[torch.Tensor] = []
    model.get_output_embeddings().register_forward_pre_hook(lambda _, args: given.append(args[0]))
    written(model)
    with torch.inference_mode():
        score_rows(model, [((3, 4, 5), (6, 7)), ((8,), (9,)), ((5, 4, 3, 2), (9, 9, 9))], 0)
    assert {states.shape[1] for states in given} == {1, 4}
    for states in given:
        assert states.stride() == torch.empty(states.shape).stride()


def test_a_past_in_one_piece_is_the_same_past() -> None:
    draw = torch.Generator().manual_seed(0)
    some = [stacked(torch.randn(6, 2, n, 4, generator=draw)) for n in (5, 3)]
    apart = [past._replace(whole=None) for past in some]
    (one, seen), (two, hidden) = (joined([a, None, b]) for a, b in (some, apart))
    assert seen.tolist() == hidden.tolist() == [[1] * 5, [0] * 5, [0, 0, 1, 1, 1]]
    for mine, other in zip(one.layers, two.layers, strict=True):
        assert mine.keys.equal(other.keys)
        assert mine.values.equal(other.values)


def test_memory_is_free_as_soon_as_nothing_is_written_any_more() -> None:
    """It may be most of a GPU's, and must not wait for the collector of circles."""
    import gc
    import weakref

    model = made("llama")
    with evaluating(model):
        running = Running(model, PROMPTS, 0)
        running.step(running.logits.argmax(-1))
        slots: Any = running._slots
        held = weakref.ref(slots._held[0])
        gc.disable()
        try:
            del running, slots
            assert held() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("kind", IN_SLOTS)
def test_models_with_experts_are_known(kind: str) -> None:
    assert decoding.routed(made(kind).config) == (kind in ("qwen2_moe", "deepseek_v3"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2", "qwen2_moe"])
def test_a_recorded_step_gives_what_a_growing_cache_gives(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(kind, "cuda")
    seen, _, running = written(model)
    slots: Any = running._slots
    assert (slots._graph is not None) == (kind != "qwen2_moe")
    monkeypatch.setattr(decoding, "possible", lambda *given: False)
    for mine, other in zip(seen, written(model)[0], strict=True):
        torch.testing.assert_close(mine, other, atol=1e-3, rtol=1e-3)
