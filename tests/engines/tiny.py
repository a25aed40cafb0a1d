"""Real transformers small enough to make in a test: random weights, a word-piece vocabulary."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789éüñ日本京都東жидко"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def _save_bert(folder: Path, *, seed: int, outputs: int | None) -> Path:
    import torch
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        BertModel,
        BertTokenizerFast,
    )

    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted(set(LETTERS))
    vocabulary = [*SPECIAL, *letters, *(f"##{c}" for c in letters), ".", ",", "?", "(", ")", "-"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizerFast(
        vocab=str(folder / "vocab.txt"), model_max_length=64, strip_accents=False
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=64, initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if outputs is None:
            model = BertModel(config)
        else:
            config.num_labels = outputs
            model = BertForSequenceClassification(config)
    model.save_pretrained(folder)
    return folder


def encoder_folder(folder: Path, *, seed: int = 0) -> Path:
    """A plain transformer without sentence-transformers' own files (as many on hubs are)."""
    return _save_bert(folder, seed=seed, outputs=None)


def cross_encoder_folder(folder: Path, *, seed: int = 0, outputs: int = 1) -> Path:
    """A sequence classifier, as cross-encoders are."""
    return _save_bert(folder, seed=seed, outputs=outputs)


@lru_cache(maxsize=1)
def tiny_encoder() -> Path:
    """One encoder folder for all tests of a process."""
    return encoder_folder(Path(mkdtemp(prefix="tiny-encoder-")))
