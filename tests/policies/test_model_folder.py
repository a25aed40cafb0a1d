"""A trained model is saved as transformers and PEFT load it, with the format of its prompts, and
asked again as any other."""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, JambaConfig, JambaForCausalLM

from searchgym.errors import CardError, DataError, EngineError
from searchgym.llms import Sampling, TransformersGenerator, vllm_generator
from searchgym.policies.model_folder import load_policy, read_note
from searchgym.policies.renderer import PlainRenderer
from searchgym.policies.trainable import Lora, TrainableLM
from searchgym.rl import Recipe, TrainConfig, Trainer, read
from tests.llms import tiny
from tests.rl.colours import SAMPLING, player, setting, tokenizer

IDS = torch.arange(5, 25)[None]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of tied weights in a folder, as transformers wrote it."""
    folder = tmp_path_factory.mktemp("base")
    lm, _ = player()
    lm.model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


def moved(lm: TrainableLM) -> TrainableLM:
    """As after some training: no trained weight is what it was."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in lm.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=draw))
    return lm


def loaded(folder: Path) -> Any:
    """As anybody loads it, with what was missing or left over."""
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"], "nothing is newly initialised"
    assert not info["unexpected_keys"]
    return model


@pytest.mark.parametrize("lora", [None, Lora(rank=2, targets=("q_proj", "v_proj"))])
def test_what_is_saved_is_what_was_trained(base: Path, tmp_path: Path, lora: Lora | None) -> None:
    lm = moved(TrainableLM(str(base), lora=lora, device="cpu"))
    assert lm.save(str(tmp_path / "model")) == tmp_path / "model"
    torch.testing.assert_close(logits(loaded(tmp_path / "model")), logits(lm.model))
    assert not torch.allclose(logits(loaded(base)), logits(lm.model))
    new, old = (load_file(f / "model.safetensors") for f in (tmp_path / "model", base))
    assert new.keys() == old.keys(), "tied weights are written once"
    words = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert words.get_vocab() == tokenizer().get_vocab()


def test_an_adapter_is_a_peft_folder_and_read_as_a_model(base: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    lm = moved(TrainableLM(str(base), lora=Lora(rank=2, alpha=6), device="cpu"))
    folder = lm.save(tmp_path / "adapter", adapter=True, policy=lm.policy("plain"))
    assert not (folder / "config.json").exists()
    assert (folder / "adapter_model.safetensors").stat().st_size < 60_000
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 6)
    assert config["base_model_name_or_path"] == str(base.resolve())
    theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(folder))
    torch.testing.assert_close(logits(theirs), logits(lm.model))

    ours = TrainableLM(folder, device="cpu")
    torch.testing.assert_close(logits(ours.model), logits(lm.model), atol=1e-5, rtol=1e-4)
    assert not any("lora" in name for name, _ in ours.model.named_parameters())
    assert read_note(folder)["renderer"] == "plain"
    assert isinstance(load_policy(folder).renderer, PlainRenderer)
    again = TrainableLM(folder, lora=Lora(rank=2), device="cpu")
    with pytest.raises(EngineError, match="merged in, which is in no folder"):
        again.save(tmp_path / "twice", adapter=True)
    torch.testing.assert_close(
        logits(loaded(again.save(tmp_path / "twice"))), logits(lm.model), atol=1e-5, rtol=1e-4
    )


def test_save_pretrained_after_lora_is_no_random_model(base: Path, tmp_path: Path) -> None:
    lm = moved(TrainableLM(str(base), lora=Lora(rank=2), device="cpu"))
    lm.model.save_pretrained(tmp_path / "as-people-do")
    torch.testing.assert_close(logits(loaded(tmp_path / "as-people-do")), logits(lm.model))
    with pytest.raises(EngineError, match=r"saved by TrainableLM\.save"):
        lm.model.save_pretrained(tmp_path / "other", state_dict={})


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe", "olmoe"])
def test_a_mixtures_adapters_are_merged_into_its_experts(kind: str, tmp_path: Path) -> None:
    """PEFT wraps experts, which lie in one tensor, once for each of their tensors. Saved, copied by
    name, and as vLLM is given them, the weights are those that were trained."""
    words = tiny.tokenizer()
    tiny.architecture(kind, len(words)).save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    lm = TrainableLM(str(tmp_path / "base"), lora=Lora(rank=2), device="cpu")
    plain = logits(lm.model)
    want = logits(moved(lm).model)
    assert (want - plain).abs().max() > 0.1
    assert any("experts" in name for name in lm.state_dict())
    with lm._as_reference() as reference:
        torch.testing.assert_close(logits(reference), plain)
    close = {"atol": 1e-4, "rtol": 1e-4}
    torch.testing.assert_close(logits(loaded(lm.save(tmp_path / "merged"))), want, **close)
    generator = TransformersGenerator(tiny.architecture(kind, len(words)), words)
    generator.update_weights(lm.merged())
    torch.testing.assert_close(logits(generator.model), want, **close)
    handed = vllm_generator._checkpoint(lm.model.config, lm.merged())
    files = load_file(tmp_path / "merged" / "model.safetensors")
    assert handed.keys() >= files.keys()
    assert all(torch.equal(handed[name], value) for name, value in files.items())
    folder = lm.save(tmp_path / "adapter", adapter=True)
    torch.testing.assert_close(logits(TrainableLM(folder, device="cpu").model), want, **close)


def test_layers_whose_weights_are_read_past_adapters_get_none(tmp_path: Path) -> None:
    """A model multiplies by the weight of Mamba's ``dt_proj``: an adapter on it would do nothing
    until it is merged."""
    words = tiny.tokenizer()
    config = JambaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, num_experts=2, attn_layer_period=2,
        attn_layer_offset=1, mamba_d_state=4, mamba_d_conv=2, mamba_expand=1, eos_token_id=0,
        pad_token_id=0, use_mamba_kernels=False,
    )  # fmt: skip
    JambaForCausalLM(config).save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    lm = moved(TrainableLM(str(tmp_path / "base"), lora=Lora(rank=2), device="cpu"))
    assert any("in_proj.lora_A" in name for name, _ in lm.model.named_parameters())
    torch.testing.assert_close(
        logits(loaded(lm.save(tmp_path / "merged"))), logits(lm.model), atol=1e-4, rtol=1e-4
    )


def test_a_folder_with_weights_missing_or_too_many_is_refused(base: Path, tmp_path: Path) -> None:
    whole = load_file(base / "model.safetensors")
    less = dict(list(whole.items())[1:])
    for name, weights in (("less", less), ("more", {**whole, "extra": torch.ones(1)})):
        folder = Path(shutil.copytree(base, tmp_path / name))
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(EngineError, match="missing or unknown: "):
            load_policy(folder)
    lm = TrainableLM(str(base), lora=Lora(rank=2), device="cpu")
    folder = lm.save(tmp_path / "adapter", adapter=True)
    weights = load_file(folder / "adapter_model.safetensors")
    save_file(dict(list(weights.items())[1:]), folder / "adapter_model.safetensors")
    with pytest.raises(EngineError, match=r"does not fit its model: .* missing or unknown: "):
        load_policy(folder)


def test_adapters_that_cannot_be_saved_alone(base: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="there are no adapters"):
        TrainableLM(str(base), device="cpu").save(tmp_path / "a", adapter=True)
    lm, _ = player(lora=Lora(rank=2))
    with pytest.raises(EngineError, match="not loaded from one"):
        lm.save(tmp_path / "a", adapter=True)
    assert not (tmp_path / "a").exists()


def test_a_broken_adapter_is_one_line(base: Path, tmp_path: Path) -> None:
    lm = TrainableLM(str(base), lora=Lora(rank=2), device="cpu")
    folder = lm.save(tmp_path / "adapter", adapter=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(EngineError, match="read from safetensors only"):
        TrainableLM(folder)
    (folder / "adapter_config.json").write_text(json.dumps({**config, "peft_type": "IA3"}))
    with pytest.raises(EngineError, match="only LORA adapters"):
        TrainableLM(folder)


def test_a_trainer_saves_its_model(base: Path, tmp_path: Path) -> None:
    lm = TrainableLM(str(base), device="cpu")
    recipe = Recipe.of(read("grpo"))
    policy = lm.policy(sampling=SAMPLING)
    config = TrainConfig.of(recipe, steps=1, tasks=2, lr=1e-3)
    trainer = Trainer(setting(), lm, recipe, config, policy=policy, out=str(tmp_path / "run"))
    list(trainer.train())
    folder = trainer.save(str(tmp_path / "model"))
    torch.testing.assert_close(logits(loaded(folder)), logits(lm.model))
    note = read_note(folder)
    assert (note["renderer"], note["sampling"]["max_tokens"]) == ("plain", 6)
    assert TrainableLM(folder, device="cpu").policy().renderer.fingerprint == (
        policy.renderer.fingerprint
    )


def test_base_and_trained_are_asked_alike(base: Path, tmp_path: Path) -> None:
    lm = TrainableLM(str(base), device="cpu")
    lm.policy("plain", sampling=Sampling(max_tokens=16, top_p=0.5, stop=("\n",)))
    folder = lm.save(tmp_path / "trained")
    first, second = load_policy(base), load_policy(folder)
    assert first.sampling == Sampling(max_tokens=256, temperature=0.0)
    assert second.sampling == first.sampling._replace(stop=("\n",)), "which belongs to the format"
    noted = load_policy(folder, as_trained=True, temperature=0.0)
    assert noted.sampling == Sampling(16, 0.0, 0.5, 0, ("\n",))
    asked = {"max_tokens": 8, "top_p": 0.9, "top_k": 3, "temperature": 0.7, "stop": "."}
    one, other = (load_policy(f, overflow="refuse", **asked) for f in (base, folder))
    assert one.sampling == other.sampling == Sampling(8, 0.7, 0.9, 3, (".",))
    assert one.prompt_format == other.prompt_format
    assert one.overflow == "refuse"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": "abc"}, "temperature must be a number, got 'abc'"),
        ({"max_tokens": 1.5}, "max_tokens must be a whole number, got 1.5"),
        ({"max_tokens": 0}, "max_tokens ≥ 1"),
        ({"top_p": True}, "top_p must be a number"),
        ({"stop": [1]}, "stop must be a string or a list of strings"),
        ({"renderer": "chats"}, "Did you mean 'chat'"),
        ({"overflow": "ignore"}, "unknown overflow"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"as_trained": True}, "does not say how it was trained"),
    ],
)
def test_wrong_options_are_named(base: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(CardError, match=says):
        load_policy(base, **options)


def test_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no model"):
        load_policy(tmp_path)


def test_a_full_disk_is_one_line_when_a_model_is_saved(base: Path, tmp_path: Path) -> None:
    lm = TrainableLM(str(base), device="cpu")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(DataError, match=r"m cannot be written: .*File too large") as error:
            lm.save(tmp_path / "m")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(error.value)
