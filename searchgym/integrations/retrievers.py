"""Retrievers of LangChain, LlamaIndex and PyTerrier over a corpus and an engine of ours.

Each function takes a :class:`~searchgym.engines.searcher.Searcher`::

    from searchgym import Searcher
    from searchgym.integrations import retrievers

    retriever = retrievers.langchain(Searcher("notes/", "bm25"), k=5)
    retriever.invoke("Who founded Aldor?")
"""

from __future__ import annotations

from typing import Any

from ..engines.searcher import Searcher
from ..types import Hit


def _metadata(hit: Hit) -> dict[str, Any]:
    passage = hit.passage
    return {"id": passage.id, "title": passage.title, "url": passage.url, "score": hit.score}


def _missing(peer: str, package: str, error: ImportError) -> ImportError:
    return ImportError(f"{peer} is needed: pip install {package}").with_traceback(
        error.__traceback__
    )


def langchain(searcher: Searcher, k: int = 3) -> Any:
    """Return a LangChain ``BaseRetriever``; ``batch`` searches all queries at once.

    Raises:
        ImportError: ``langchain-core`` is missing.
    """
    try:
        from langchain_core.callbacks import CallbackManagerForRetrieverRun
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever
    except ImportError as error:
        raise _missing("LangChain", "langchain-core", error) from error

    def documents(texts: list[str]) -> list[list[Document]]:
        return [
            [Document(hit.passage.text, metadata=_metadata(hit), id=hit.passage.id) for hit in hits]
            for hits in searcher.search(texts, k)
        ]

    class LangChainRetriever(BaseRetriever):
        """Searches by SearchGym."""

        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[Document]:
            return documents([query])[0]

        def batch(self, inputs: list[str], config: Any = None, **_: Any) -> list[list[Document]]:
            return documents(list(inputs))

    return LangChainRetriever()


def llama_index(searcher: Searcher, k: int = 3) -> Any:
    """Return a LlamaIndex ``BaseRetriever``.

    Raises:
        ImportError: ``llama-index-core`` is missing.
    """
    try:
        from llama_index.core.retrievers import BaseRetriever
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    except ImportError as error:
        raise _missing("LlamaIndex", "llama-index-core", error) from error

    class LlamaIndexRetriever(BaseRetriever):
        """Searches by SearchGym."""

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [
                NodeWithScore(
                    node=TextNode(
                        id_=hit.passage.id, text=hit.passage.text, metadata=_metadata(hit)
                    ),
                    score=hit.score,
                )
                for hit in searcher.search([query_bundle.query_str], k)[0]
            ]

    return LlamaIndexRetriever()


def pyterrier(searcher: Searcher, k: int = 1000) -> Any:
    """Return a PyTerrier ``Transformer`` from ``qid, query`` to ``qid, query, docno, title, text,
    score, rank``; ranks count from 0, as PyTerrier's do.

    Raises:
        ImportError: ``pyterrier`` is missing.
    """
    try:
        import pandas as pd
        import pyterrier as pt
    except ImportError as error:
        raise _missing("PyTerrier", "pyterrier", error) from error

    class PyTerrierTransformer(pt.Transformer):
        """Searches by SearchGym."""

        def transform(self, inp: Any) -> Any:
            pt.validate.query_frame(inp, ["query"])
            rankings = searcher.search([str(query) for query in inp["query"]], k)
            rows = [
                {
                    "qid": qid, "query": query, "docno": hit.passage.id,
                    "title": hit.passage.title, "text": hit.passage.text, "score": hit.score,
                    "rank": rank,
                }
                for qid, query, hits in zip(inp["qid"], inp["query"], rankings, strict=True)
                for rank, hit in enumerate(hits)
            ]  # fmt: skip
            columns = ["qid", "query", "docno", "title", "text", "score", "rank"]
            return pd.DataFrame(rows, columns=columns)

    return PyTerrierTransformer()
