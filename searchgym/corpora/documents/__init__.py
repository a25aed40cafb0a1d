"""Documents of your own as a corpus: text, Markdown, HTML, PDF, DOCX, tables, JSON."""

from __future__ import annotations

from .folder import DocumentCorpus, DocumentFile, SkippedFile, SkippedFiles, load_documents

__all__ = [
    "DocumentCorpus",
    "DocumentFile",
    "SkippedFile",
    "SkippedFiles",
    "load_documents",
]  # fmt: skip
