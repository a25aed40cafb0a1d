"""Word vectors for a model that learns everything else from nothing.

A model that has only ever read "wrote" knows nothing of "penned". So each common word is one token,
and its embedding is a sentence encoder's vector of it, projected to the model's width. The
projection is learnt, the vectors stay as they are (:mod:`.embeddings`): a word not met in training
lies beside those of its meaning that were. Besides the words of the training texts the vocabulary
holds their nearest neighbours in English. All other words are names, read as slots
(:mod:`.slots`), whose embeddings say nothing and are as far apart as can be: that
is what makes them quick to copy.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from searchgym.errors import DataError
from searchgym.seeding import stream
from searchgym.utils.english import tokenise

from .embeddings import Given, TokenMeanings, projected
from .slots import SLOTS, slots

NEAR = 8
LEAST = 20
_WORD = re.compile(r"(?<![A-Za-z])[A-Za-z]?[a-z]{2,}(?![A-Za-z])")
_ENGLISH = re.compile(r"[a-z]{3,}")
_SPACE = "Ġ"
"""Mark by which byte-level tokenizers write the space before a word."""
LONG = 2.0
"""Length of a slot's vector, of a word's 1. As long as words', 512 of them were not copied at all
after 1,000 steps; 128, twice as long, after 200."""
_CAPITAL = 0.7
"""Length of the direction that tells "Directed" from "directed", beside a word's own of 1."""


class Lexicon(NamedTuple):
    """N words and what they mean."""

    words: tuple[str, ...]
    """Lower case, sorted."""
    vectors: NDArray[np.float32]
    """(N, D) unit vectors: what the encoder makes of each word, read on its own."""
    capitals: frozenset[str]
    """Words that also begin sentences in the texts, or are frequent enough to be expected there."""


def lexicon_of(
    texts: Iterable[str], encoder: Any, *, near: int = NEAR, least: int = LEAST
) -> Lexicon:
    """The words that stand in the texts ``least`` times or more, each with its ``near`` nearest
    neighbours among the whole words of the encoder's vocabulary. ``DataError`` if there are none.
    """
    count: Counter[str] = Counter()
    for text in texts:
        count.update(_WORD.findall(text))
    seen = sorted(word for word, n in count.items() if n >= least and word.islower())
    if not seen:
        raise DataError(f"no word stands {least} times in the texts: give more texts")
    english = sorted(word for word in encoder.vocabulary() if _ENGLISH.fullmatch(word))
    of_english = encoder.spelt(english)
    mean = of_english.mean(0)
    pool = _unit(of_english - mean)
    words = set(seen)
    for row in _unit(encoder.spelt(seen) - mean) @ pool.T:
        words.update(english[i] for i in np.argpartition(-row, near)[:near].tolist())
    chosen = tuple(sorted(words))
    capitals = frozenset(w for w in chosen if count[w] >= least or count[w.capitalize()] >= least)
    read = _encoded(chosen, encoder)
    return Lexicon(chosen, _unit(read - read.mean(0)), capitals)


def known(lexicon: Lexicon) -> list[str]:
    """The words that are tokens of their own, as they are written."""
    capitals = (word.capitalize() for word in lexicon.words if word in lexicon.capitals)
    return [*lexicon.words, *capitals]


def word_tokenizer(base: Any, lexicon: Lexicon) -> Any:
    """A tokenizer of the pieces of ``base`` (byte-level BPE) and the lexicon's words, which cuts
    every text into as few tokens as it can (a unigram model with equal odds: Kudo, 2018).

    Any text round-trips, as with ``base``; tokens added to that are added to this.
    """
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    inner = base.backend_tokenizer
    added = sorted(inner.get_added_tokens_decoder().items())
    apart = {token.content for _, token in added}
    pieces = json.loads(inner.to_str())["model"]["vocab"]
    learnt = [piece for piece in sorted(pieces, key=pieces.get) if piece not in apart]
    words = [_SPACE + word for word in known(lexicon)]
    tokens = list(dict.fromkeys([base.eos_token, *learnt, *words]))
    made = Tokenizer(models.Unigram([(token, -1.0) for token in tokens], unk_id=0))
    made.pre_tokenizer, made.decoder = inner.pre_tokenizer, inner.decoder
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=base.eos_token, pad_token=base.pad_token
    )
    tokenizer.add_tokens([token for _, token in added if token.content != base.eos_token])
    return tokenizer


def slot_vectors(width: int) -> NDArray[np.float32]:
    """(SLOTS, width) unit vectors, always the same: at right angles if the width allows it."""
    draws = stream(0, "slots").normal(size=(width, width) if width >= SLOTS else (SLOTS, width))
    if width >= SLOTS:
        basis, sides = np.linalg.qr(draws)
        draws = (basis * np.sign(np.diag(sides))).T[:SLOTS]
    return _unit(draws.astype(np.float32))


def embed(model: Any, tokenizer: Any, lexicon: Lexicon) -> Given:
    """Write the lexicon's vectors into the model's table, as long as the rows learnt beside them,
    and those of slots, ``LONG`` times as long. Returns which rows those are, and how words' are
    made.

    The width but one of the vectors' principal directions is kept, to begin with; the last number
    says "capital".
    """
    table = model.get_input_embeddings().weight
    width = table.shape[1]
    kept = min(width - 1, *lexicon.vectors.shape)
    _, _, directions = np.linalg.svd(lexicon.vectors, full_matrices=False)
    # the sign of a direction is the solver's whim
    directions *= np.sign(directions[:, np.abs(directions).argmax(1)].diagonal())[:, None]
    projection = np.zeros((width - 1, lexicon.vectors.shape[1]), dtype=np.float32)
    projection[:kept] = directions[:kept]
    where = tokenizer.get_vocab()
    rows: list[int] = []
    words: list[int] = []
    capitals: list[float] = []
    for place, word in enumerate(lexicon.words):
        for token, capital in ((word, 0.0), (word.capitalize(), _CAPITAL)):
            row = where.get(_SPACE + token)
            if row is not None:
                rows.append(row)
                words.append(place)
                capitals.append(capital)
    length = float(table.detach().norm(dim=1).mean())
    of_words = TokenMeanings(
        torch.tensor(rows),
        torch.from_numpy(lexicon.vectors[words]),
        torch.tensor(capitals)[:, None],
        torch.from_numpy(projection),
        length,
    )
    still = torch.tensor([where[slot] for slot in slots()[1:]])
    with torch.no_grad():
        table[of_words.tokens] = projected(*of_words[1:]).to(table.device)
        vectors = torch.from_numpy(slot_vectors(width) * np.float32(LONG * length))
        table[still] = vectors.to(table.device)
    return Given(still, of_words)


def _encoded(words: Iterable[str], encoder: Any) -> NDArray[np.float32]:
    """(N, D) each word's vector, read on its own."""
    texts = [tokenise(word) for word in words]
    encoder.prepare(texts)
    return np.stack([encoder(text)[0] for text in texts])


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; rows of zeros stay."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    made: NDArray[np.float32] = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)
    return made
