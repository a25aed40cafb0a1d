"""Keeps other libraries' warnings and log lines out of what a command prints."""

from __future__ import annotations

import os
import sys
import warnings

_QUIET = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}
_NOISY = r"(transformers|huggingface_hub|sentence_transformers|tokenizers|torch|tqdm|peft)\b"


def quiet_libraries() -> None:
    """Ask libraries, before they are loaded, to print errors only.

    Notes for developers ("this argument will be removed", "a faster kernel could be installed")
    tear live tables, and a user of the command line cannot act on them. What the user has set
    stands: ``TRANSFORMERS_VERBOSITY=info`` or ``python -W default`` shows everything.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if sys.warnoptions:
        return
    for kind in (FutureWarning, DeprecationWarning, PendingDeprecationWarning):
        warnings.simplefilter("ignore", kind)
    warnings.filterwarnings("ignore", module=_NOISY)
    warnings.filterwarnings("ignore", message="IProgress not found")  # tqdm blames its caller
