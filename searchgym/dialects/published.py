"""Prompts of published search agents, byte for byte, by the name to give as ``instructions=``.

A published checkpoint is evaluated under the prompt that it was trained with, and no other: a
user's message without a system message, and no word on budgets. What the policy writes and reads
after the prompt is the matching dialect's part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Published(NamedTuple):
    """One prompt and where it stands in its authors' code."""

    text: str
    """Text with ``{question}`` where the question goes."""
    dialect: str
    """Registered dialect in which its policy writes."""
    tools: frozenset[str]
    """The tools of which it speaks."""
    question_mark: bool
    """True if a question that does not end in one gets one, as in the authors' code."""
    source: str
    """Repository, commit and file."""


SEARCH_R1 = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first every "
    "time you get new information. After reasoning, if you find you lack some knowledge, you can "
    "call a search engine by <search> query </search> and it will return the top searched results "
    "between <information> and </information>. You can search as many times as your want. If you "
    "find no further external knowledge needed, you can directly provide the answer inside "
    "<answer> and </answer>, without detailed illustrations. For example, <answer> Beijing "
    "</answer>. Question: {question}\n"
)
_SEARCH_ACCESS = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant "
    "answers it. The Assistant analyzes the given question and information in the mind, retains "
    "important relevant information, calls a search engine to find necessary information, accesses "
    "web pages with certain urls, and provides the user with the answer. The Assistant conducts "
    "search by <search> query </search>, access cerain url by <access> url </access>, and the top "
    "search results and url page will be returned between <information> and </information>.  The "
    "reasoning processes are enclosed within <think> </think>. Finally, the Assistant provides "
    "answer inside <answer> and </answer>, i.e. <answer> answer here </answer>. If there are "
    "multiple queries, ensure all answers are enclosed within <answer> </answer>, seperated with "
    "comma. "
)
_SEARCH_ONLY = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant "
    "answers it. The Assistant analyzes the given question and information in the mind, retains "
    "important relevant information, calls a search engine to find necessary information, accesses "
    "web pages with certain urls, and provides the user with the answer. The Assistant conducts "
    "search by <search> query </search> and the top search results will be returned between "
    "<information> and </information>.  The reasoning processes are enclosed within <think> "
    "</think>. Finally, the Assistant provides answer inside <answer> and </answer>, i.e. <answer> "
    "answer here </answer>. If there are multiple queries, ensure all answers are enclosed within "
    "<answer> </answer>, seperated with comma. "
)
_MAY_BE_INVALID = (
    "Note that when the Assistant finds the question is invalid, e.g. no answer could match all "
    "information in the question, the Assistant replies with '<answer> the question is invalid. "
    "</answer>'."
)
_LIKELY = "You should try to find the most likely answer. "
_REST = (
    " \n\n"
    "User: \n\n"
    "{question}. \n\n"
    "The language of your answer should align with the question. \n\n"
    "Assistant: \n"
    "<think>\n"
)
_EVALUATION = (
    " \n\n"
    "Note: the question is a valid question and you should try to find a correct answer. \n\n"
    "User: {question}\n\n"
    "Assistant: \n"
    "<think>"
)


def _asearcher(text: str, file: str, *tools: str) -> Published:
    source = f"inclusionAI/ASearcher@813e804fc3b24b661b4f5625c77343d5daa14a03 {file}"
    return Published(text, "asearcher", frozenset({"search", *tools}), False, source)


_TRAINING = "AReaL/ASearcher/train/prompts.py"
PUBLISHED: Mapping[str, Published] = {
    "search_r1": Published(
        SEARCH_R1, "search_r1", frozenset({"search"}), True,
        "PeterGriffinJin/Search-R1@a14dc3a4ffc6fe88c1e95038d9738e21ba3f7a06 "
        "scripts/data_process/nq_search.py",
    ),
    "zerosearch": Published(
        SEARCH_R1, "search_r1", frozenset({"search"}), True,
        "Alibaba-NLP/ZeroSearch@2d4cdca033ee2c11b1fcfc7fc448b902d7cf8bf5 inference.py",
    ),
    "asearcher": _asearcher(_SEARCH_ACCESS + _MAY_BE_INVALID + _REST, _TRAINING, "access"),
    "asearcher_likely": _asearcher(_SEARCH_ACCESS + _LIKELY + _REST, _TRAINING, "access"),
    "asearcher_search": _asearcher(_SEARCH_ONLY + _MAY_BE_INVALID + _REST, _TRAINING),
    "asearcher_search_likely": _asearcher(_SEARCH_ONLY + _LIKELY + _REST, _TRAINING),
    "asearcher_evaluation": _asearcher(
        _SEARCH_ACCESS.rstrip(" ") + _EVALUATION, "evaluation/utils.py", "access"
    ),
}  # fmt: skip
"""ZeroSearch took over Search-R1's. ASearcher trains with the first four: with and without pages,
and a share of the episodes (``valid_inst_ratio``) with ``_likely``, where no question counts as
invalid; it evaluates with the last. Its prompts are continued as they stand, without a chat
template (renderer ``plain``)."""
