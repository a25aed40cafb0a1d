"""LlamaIndex, unmodified, gets the hits that an environment's engine gives."""

from __future__ import annotations

from searchgym.engines import Searcher
from searchgym.integrations import retrievers
from tests.integrations.glue import run
from tests.integrations.scene import scene


def test_the_retriever_gives_the_engines_hits():
    env = scene()
    searcher = Searcher(env.corpus, env.engine)
    questions = [task.question for task in env.tasks]
    retriever = retrievers.llama_index(searcher, 5)
    for question, hits in zip(questions, searcher.search(questions, 5), strict=True):
        nodes = retriever.retrieve(question)
        assert [node.node.id_ for node in nodes] == [hit.passage.id for hit in hits]
        assert [node.score for node in nodes] == [hit.score for hit in hits]


def test_the_documented_program_runs(tmp_path):
    assert run("llama_index_retriever.py", tmp_path).startswith("[")
