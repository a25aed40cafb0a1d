"""Every question of the environments on worlds in connected prose, by kinds of flaws that readers
found: a pattern that must not occur in any of them."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

import searchgym  # noqa: F401  (registers the environments)
from searchgym.worlds import load_schema

NAMES = [
    "AbstainQA", "AmbiguousQA", "ComparisonQA", "ComputedQA", "CountQA", "DerivedQA",
    "IntersectionQA", "LongSearchQA", "MultiHopQA", "ParallelQA", "ReportQA", "SearchQA", "SetQA",
    "SimpleQA", "SqlQA", "SuperlativeQA",
]  # fmt: skip
ENVIRONMENTS = [(f"{name}-v1", "encyclopedia-v1") for name in NAMES] + [
    (f"{name}-v1", "research-v1") for name in ("IntersectionQA", "MultiHopQA", "SearchQA")
]
FLAWS = {
    "plural of a word that is no noun": (
        r"\b(nexts|bys|withs|ofs|drawings|standings|happenings|activ?es|feedings) "
    ),
    "label put where none fits": r"(?i)\b(is|was) the [\w ]+ the same with\b|the same located in",
    "property named instead of said": r"\b(located in|plays for|based on) (of|with|have|has|\?)",
    "event asked as a state": r"(?i)^(on what day|when) (is|was) the death",
    "a person asked for with what": r"^(What|Which) (is|was) the (person|scientist|man|woman)\b",
    "a trade asked as a person": r"(?i)what (is|was) the person\b(?!.*'s)|by profession, what",
    "participle left bare": r"\b(that|who) (is|was|are) (by|of|to|(from|under|in) (whom|which)) ",
    "studio said to finance": r"\bfinanced\b",
    "which without a noun": r"^Which (is|was) the ",
    "how many have there been": r"\bhave there been\b|^How many are the ",
    "first of firsts": r"\bfirst (awarded|aired) (first|last)\b",
    "noun before a description": r"\b(writer|editor|producer|director|studio|label|record) the ",
    "possessive twice": r"'s's\b",
    "article twice": r"(?i)\b(the|a|an) (the|a|an) ",
    "who or what, of a year or a genre": r"Who or what",
    "from a group": r"^From the ",
    "headquarters that hold a university": r"\b(in|of) the headquarters of\b",
    "country in which a river flows": r"countr(y|ies) (in which|where) (\S+ ){1,2}flows?\b",
    "album that is played or sold": (
        r"\balbums? (that (was|were) )?(played|sold) by|was .+ played\?"
    ),
    "company asked what company it is": r"What (sort|kind) of company is the company",
    "jury that looks": r"\bjury\b",
    "person of whom a person is": r"of whom .* is an? (child|parent|grandchild|grandparent)\b",
    "clause in the middle of a count": r"^How many [a-z -]+ (that|where|by|in|with) .* there\?$",
    "one plural of two": r"\b(mother|grandmother|son|grandson) or \w+s\b",
    "plural of a preposition": r"\b(throughs|unders|alumnuses|\w*childs)\b",
    "clause said twice": r"\b((is|was) \w+ (by|to|in)) [A-Z][\w' &-]* and \1 [A-Z]",
    "comparison that does not say of what": (
        r"\b(more|most) recent\b|\b(is|are) (the )?(earlie|late)(r|st)\b|-running|-lived"
    ),
    "company among its own fellows": (
        r"(?<!other )\bcompan(y|ies) "
        r"(that (is|are|was|were) owned by the owner|with the same owner)"
    ),
    "day of the year for an age": r"(?i)\b(earli|late|old|young)\w+ birthday\b",
    "grandchildren called descendants": r"\bdescended from\b",
    "past of what still is": (
        r"^What was the (difference|total)\b|^What were\b|^Did |"
        r"^How many [\w -]+ were (there|found|rooted|watered)\b|"
        r"^(Who|What) was the [\w-]+ ([\w-]+ )?(that|who) (is|has|lies|inhabits)\b"
    ),
    "person born at a city": r"\bborn at\b",
    "book that happens": r"\bbook (that )?happens? in\b|\bwhere [^?]+ happens\b",
    "beginnings that lie": r"\bbeginnings\b",
    "course for its length": (
        r"(?<!length of )\bthe course of [^?]*\b(in kilometres|differ)\b|has the course"
    ),
    "plural of a participle": r"\b(meant|overseen|broadcast)s\b",
    "profession behind its verb": r"\bhad what profession\b",
    "average as something": r"\bon average as\b|\bin percent of\b",
    "slot left open": r"[{}]",
}
ORDINARY = {  # what each pattern takes for a flaw, and what it must let through
    "plural of a word that is no noun": ("How many country nexts to A?", "How many countries?"),
    "label put where none fits": ("Is the river the same with A?", "Is the river the same as B?"),
    "participle left bare": ("the book that is by A", "the book that was written by A"),
    "comparison that does not say of what": (
        "Which series is shorter-lived?",
        "Which series has fewer episodes, A or B?",
    ),
    "from a group": ("From the awards that A won, which is newer?", "From where is A?"),
    "album that is played or sold": ("the album that was sold by A", "the album released by A"),
    "person of whom a person is": ("the person of whom A is a child", "Of whom is A a child?"),
    "clause in the middle of a count": (
        "How many awards won by A are there?",
        "How many awards are there that A won?",
    ),
    "one plural of two": ("the mother or fathers of A", "the mothers or fathers of A"),
    "company among its own fellows": (
        "the company with the same owner as A",
        "the other company with the same owner as A",
    ),
    "clause said twice": (
        "Which was led by A and was led by B?",
        "Which was led by A and was owned by B?",
    ),
    "past of what still is": ("How many cities were there in A?", "How many people founded A?"),
    "person born at a city": ("a person born at A", "a person born in the city of A"),
    "course for its length": (
        "Which part of the course of A in kilometres?",
        "How long is the course of A?",
    ),
    "first of firsts": ("which was first awarded last?", "When was A first awarded?"),
}
RELATIVE = re.compile(r"\b(that|which|who|whom|whose|where)\b")


UNRELEASED = {
    "AmbiguousQA": {
        "no sentence": r"[^.?]$|\. [^A-Z]",
        "noun that changes": (
            r"^I am thinking of (?!.*\b(\w+)\b.*\. .*\bthis \1\b|an? [\w -]+ (of|on) )"
        ),
        "kind of itself": r"\b(kind|type|sort|genre) of (\w+) is this \2\b|\b(\w+) \3\b",
        "familiar word": r"\b(mom|dad)\b",
        "question that echoes": r"\. This ",
        "first of one": r"\b(the|first) this\b",
    },
    "SqlQA": {
        "no sentence": r"^[a-z]|[^.?]$",
        "which for whom": r"^Which are the\b|^Who or what\b",
        "by director": r"\bis by director\b",
    },
    "ComputedQA": {
        "no sentence": r"^[a-z]|[^.?]$",
        "average as something": r"\bon average as\b|\bin percent of\b",
    },
    "ReportQA": {"no sentence": r"^[a-z]|[^.?]$"},
}
"""Flaws of environments whose questions are new in both versions."""


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", UNRELEASED)
def test_no_new_question_has_a_known_flaw(name: str, split: str, version: str) -> None:
    env = gym.make(f"{name}-{version}", split=split)
    tasks = env.unwrapped.tasks
    env.close()
    assert len(tasks) > 250
    for kind, flaw in UNRELEASED[name].items():
        flawed = [t.question for t in tasks if re.search(flaw, t.question)]
        assert not flawed, f"{kind}: {len(flawed)} of {len(tasks)}: {flawed[:5]}"
    if name == "ReportQA":
        reports = [t.answers[0] for t in tasks]
        assert not [r for r in reports if re.search(r"\b[Aa] (?!uni|one)[aeiou]", r)]


@pytest.mark.parametrize(
    "flawed",
    [
        "I am thinking of an album by A. This album release year",
        "I am thinking of a town in A. Who governs this city?",
        "I am thinking of a film by A. What type of film is this film?",
        "I am thinking of a person whose mom is A. Who is the father of this person?",
        "I am thinking of a book by A. This book was set where?",
        "I am thinking of an award by A. Which year saw the first this award?",
    ],
)
def test_patterns_tell_flaws_of_ambiguous_questions(flawed: str) -> None:
    assert [k for k, flaw in UNRELEASED["AmbiguousQA"].items() if re.search(flaw, flawed)]
    fine = "I am thinking of a native of A. Who taught this person?"
    assert not [k for k, flaw in UNRELEASED["AmbiguousQA"].items() if re.search(flaw, fine)]


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, str, str]]:
    """(family, environment and split, question) of all tasks."""
    found = []
    for name, schema in ENVIRONMENTS:
        for split in ("train", "test"):
            env = gym.make(name, split=split, corpus=schema)
            found += [
                (t.family, f"{name} {schema} {split}", t.question) for t in env.unwrapped.tasks
            ]
            env.close()
    return found


@pytest.mark.parametrize("kind", FLAWS)
def test_no_question_has_a_known_flaw(asked: list[tuple[str, str, str]], kind: str) -> None:
    flawed = [(where, q) for _, where, q in asked if re.search(FLAWS[kind], q)]
    assert len(asked) > 2500
    assert not flawed, f"{len(flawed)} of {len(asked)}: {flawed[:5]}"


@pytest.mark.parametrize("kind", ORDINARY)
def test_patterns_tell_flaws_from_ordinary_questions(kind: str) -> None:
    flawed, fine = ORDINARY[kind]
    assert re.search(FLAWS[kind], flawed)
    assert not re.search(FLAWS[kind], fine)


def test_long_chains_do_not_nest_in_the_middle(asked: list[tuple[str, str, str]]) -> None:
    """What a chain asks comes before its description: no verb waits behind two clauses."""
    verbs = r"\b(house|wed|marry|measure|straddle|arrive|come|start|die|reach|play|cover)\?$"
    waiting = [
        q for family, _, q in asked
        if family == "chain" and len(RELATIVE.findall(q[6:])) > 1 and re.search(verbs, q)
    ]  # fmt: skip
    assert not waiting, waiting[:5]


@pytest.mark.parametrize("name", ["encyclopedia-v1", "research-v1"])
def test_each_relation_has_a_description_that_can_stand_before_another(name: str) -> None:
    """A noun phrase that ends in its slot ("the capital of {s}") on both sides: so chains nest to
    the right."""
    schema = load_schema(name)
    for p in schema.properties:
        banks = [("noun", p.noun, "{s}")]
        if p.is_relation:
            banks.append(("inverse", p.inverse, "{o}"))
        for bank, phrases, slot in banks:
            for side in (phrases.train, phrases.heldout):
                assert not side or any(s.endswith(slot) for s in side), (p.name, bank, side)
