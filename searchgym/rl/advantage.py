"""The old place of ``advantages.enumerated``; goes when its last importer has moved."""

from __future__ import annotations

from .advantages.enumerated import enumerated_advantages as enumerated_advantages
