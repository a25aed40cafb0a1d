"""transformers' own server: real, but without log-probabilities and ids. The client says so."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, GenRequest, Message, Sampling
from searchgym.llms.openai_generator import OpenAIGenerator
from searchgym.llms.transformers_generator import TransformersGenerator
from tests.llms import tiny
from tests.llms.served import child
from tests.llms.server import free_port

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("m") / "qwen2", sampling=True)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[OpenAIGenerator]:
    for needed in ("openai", "accelerate", "fastapi"):
        assert importlib.util.find_spec(needed), f"transformers serve needs {needed}"
    port = free_port()
    command = [
        str(Path(sys.executable).parent / "transformers"),
        *("serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"),
    ]
    with child(command, port, folder.parent / "log", OMP_NUM_THREADS="1"):
        made = OpenAIGenerator(f"http://127.0.0.1:{port}/v1", str(folder))
        yield made
        made.close()


@pytest.fixture(scope="module")
def plain(folder: Path) -> TransformersGenerator:
    return TransformersGenerator(folder, device="cpu")


def test_what_it_can_do(client: OpenAIGenerator) -> None:
    assert "chat" in client.capabilities
    assert not {"logp", "ids", "score", "entropy"} & client.capabilities
    facts = client.facts["completions"]
    assert facts is not None
    assert (facts.samples, facts.top_k, facts.stop) == (True, False, "kept")


def test_what_it_lacks_is_an_error(client: OpenAIGenerator) -> None:
    for needs in ("logp", "ids", "entropy"):
        with pytest.raises(EngineError, match=f"lacks {needs}"):
            client.run([GenRequest("x", needs=frozenset({needs}))])
    with pytest.raises(EngineError, match="lacks ids"):
        client.score([((5,), (6,))])
    with pytest.raises(EngineError, match="ignores top_k"):
        client.run([GenRequest("x", Sampling(top_k=3))])


def test_its_texts(client: OpenAIGenerator, plain: TransformersGenerator) -> None:
    """Greedy texts are the model's, those of chats and with stop strings, too."""
    chat = (Message("system", "Be short."), Message("user", "Who?"))
    greedy = Sampling(24, 0.0)
    for prompt in ("The capital of Paris", "née Łódź", chat):
        (want,) = plain.run([GenRequest(prompt, greedy)])
        assert isinstance(want, Completion)
        at = next(i for i in range(4, 20) if "�" not in want.text[i : i + 2])
        for sampling in (greedy, greedy._replace(stop=(want.text[at : at + 2],))):
            (got,) = client.run([GenRequest(prompt, sampling)])
            (same,) = plain.run([GenRequest(prompt, sampling)])
            assert isinstance(got, Completion)
            assert isinstance(same, Completion)
            assert (got.text, got.finish) == (same.text, same.finish)
            assert (got.ids, got.logp) == (None, None)


def test_it_samples(client: OpenAIGenerator) -> None:
    batch = [GenRequest("The capital of Paris", Sampling(12), key=i) for i in range(4)]
    answers = client.run(batch)
    assert all(isinstance(a, Completion) for a in answers)
    assert len({a.text for a in answers if isinstance(a, Completion)}) > 1
