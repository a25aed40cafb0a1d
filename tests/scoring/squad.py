"""SQuAD's normalisation, as its script has it."""

from __future__ import annotations

import re
import string


def squad(text: str) -> str:
    """SQuAD's normalisation, written once more."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())
