"""States where they are asked for are the model's own, and so are their gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from searchgym.llms import small_model


class Few:
    """A tokenizer as far as a model needs one."""

    eos_token_id = pad_token_id = 0

    def __len__(self) -> int:
        return 50


def gradients(model: Any, states: torch.Tensor) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    toward = torch.randn(states.shape, generator=draw)
    model.zero_grad()
    (states * toward).sum().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("width", [32, 40])
@pytest.mark.parametrize("asked", ["some", "one row none", "all", "one"])
def test_states_and_gradients_are_the_models(width: int, asked: str) -> None:
    from searchgym_agents.reader.states import states_at

    model = small_model(Few(), width=width, seed=3)
    model.set_attn_implementation("eager")
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 50, (3, 17), generator=draw)
    wanted = torch.rand(3, 17, generator=draw) < 0.4
    if asked == "one row none":
        wanted[1] = False
    elif asked == "all":
        wanted[:] = True
    elif asked == "one":
        wanted[:] = False
        wanted[2, 16] = True
    embeds = model.get_input_embeddings()(ids)
    ours = states_at(model, embeds, wanted)
    ours_back = gradients(model, ours)
    theirs = model.model(inputs_embeds=model.get_input_embeddings()(ids), use_cache=False)
    whole = theirs.last_hidden_state[wanted]
    assert ours.shape == (int(wanted.sum()), width)
    assert torch.allclose(ours, whole, atol=1e-5)
    for name, theirs_back in gradients(model, whole).items():
        assert torch.allclose(ours_back[name], theirs_back, atol=1e-4, rtol=1e-4), name
