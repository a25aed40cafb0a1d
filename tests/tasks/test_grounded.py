"""Questions from text: what pages state, what is asked of them, and what is refused."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import pytest
from typer.testing import CliRunner

import searchgym
from searchgym.cli import build
from searchgym.engines import build_engine
from searchgym.errors import CardError, TaskError
from searchgym.seeding import stream
from searchgym.tasks.grounded import GroundedTasks, ground, read_facts
from searchgym.tasks.grounded.language import language
from searchgym.tasks.grounded.pages import Pages, TextPage, split_sentences
from searchgym.tasks.grounded.questions import Questions
from searchgym.text import normalise_answer
from searchgym.types import Passage

from .films import PEOPLE, corpus, made_of


@pytest.fixture(scope="module")
def made() -> GroundedTasks:
    return made_of(corpus())


@pytest.fixture(scope="module")
def read() -> Callable[..., TextPage]:
    def one(title: str, text: str) -> TextPage:
        return Pages([Passage("p", title, text, "")], language()).all[0]

    return one


@pytest.mark.parametrize("title", ["print()", "Heat ( )", "()", " "])
def test_titles_that_are_no_names_make_no_trouble(title: str) -> None:
    text = f"{title} is a 1995 American film directed by Michael Mann."
    passages = [*corpus(), Passage("odd", title, text, "")]
    assert made_of(passages).tasks


@pytest.mark.parametrize(
    ("title", "text", "stated"),
    [
        ("Heat (film)", "Heat is a 1995 American film directed by Michael Mann.",
         {"director": "Michael Mann", "year": "1995", "nationality": "American"}),
        ("Ida Holm", "Ida Holm (3 May 1920 – 4 June 1999) was a Danish painter born in Port Vale.",
         {"birth_date": "3 May 1920", "death_date": "4 June 1999", "birth_place": "Port Vale",
          "occupation": "painter", "nationality": "Danish"}),
        ("Lumen", "Lumen is a company based in Port Vale, Denmark. It was founded by Tom Reed.",
         {"headquarters": "Port Vale, Denmark", "founder": "Tom Reed"}),
        # a clause about something else, a possessive, a name that goes on
        ("Heat", "Heat is a film. The critics, who were paid, say it was directed by Ann Lee.", {}),
        ("Heat", "Heat is a film. Heat's sequel was directed by Ann Lee.", {}),
        ("Heat", "Heat is a film directed by Usman dan Fodio.", {}),
        ("Heat", "Heat is a film based on Frankish legends.", {}),
        # a date is no namesake; what opened was not founded
        ("Vale Park", "Vale Park is a park named after May 1836.", {}),
        ("Vale Mall", "Vale Mall is a mall. It opened in 1967.", {"opened": "1967"}),
        ("Vale Mall", "Vale Mall is a mall. It was built in 1967.", {"built": "1967"}),
        # of a soundtrack's film, of an agent, of stations; what streets form; a label, a stage
        ("Moor (soundtrack)", "Moor is the soundtrack album of the Danish film of the same name, "
         "directed by Ann Lee.", {"director": None}),
        ("Moor", "The Moor franchise focuses on a man, a fictional agent created in 1953 by Ann "
         "Lee.", {"founded": None}),
        ("Moor", "Moor is a radio show. It was heard on seven stations owned by Vale Radio.",
         {"owner": None}),
        ("Moor House", "Moor House is a building. It stands on a block formed by Vale Avenue, Odda "
         "Lane and Ryde Street.", {"founder": None}),
        ("Moor", "Moor is an album released by Old Vale Records in 1990.", {"performer": None}),
        ("Moor", "Moor is a film released by Vale Entertainment.", {"label": None}),
        ("Moor", "Moor is a play. It premiered on Broadway in 1949.", {"network": None}),
        ("Moor", "Moor is a musical with lyrics by Tom Reed, and a book by Ann Lee.",
         {"author": None}),
        ("Vale made", "Vale made is an area that tells that a thing was made in Denmark.",
         {"place": None}),
        ("Odda County, Vale", "Odda County is a county located in the Realm of Vale.",
         {"located": None}),
        # one of several: an aside or a word between, several teams, several prizes
        ("Moor", "Moor is a song written by frontwoman Ann Lee and lead guitarist Tom Reed.",
         {"writer": None}),
        ("Ida Holm", "Ida Holm is a singer. She is the daughter of Tom Reed, a former minister, "
         "and Ann Lee.", {"parent": None}),
        ("Moor", "Moor is a film directed by Tom Reed, a Dane, and starring Ann Lee.",
         {"director": "Tom Reed"}),
        ("Ida Holm", "Ida Holm is a player. She played for the Vale Bears and then signed with the "
         "Ryde Foxes.", {"team": None}),
        ("Ida Holm", "Ida Holm is a singer. She won a Vale Award and five Ryde Awards.",
         {"award": None}),
        # a date with another calendar's in it; a party that its bracket tells from its namesake
        ("Ida Holm", "Ida Holm (Ryde; 21 November [O.S. 8 November] 1902 25 January 1982) was a "
         "Danish poet.", {"birth_date": None}),
        ("Ida Holm", "Ida Holm (Ryde; 21 November 1902 – 25 January 1982) was a Danish poet.",
         {"birth_date": "21 November 1902"}),
        ("Ida Holm", "Ida Holm is a member of the Vale Party (Marxist) in Ryde.",
         {"member_of": None}),
    ],
)  # fmt: skip
def test_pages_state(read: Callable[..., TextPage], title: str, text: str, stated: dict) -> None:
    found = {name: fact.value for name, fact in read(title, text).facts.items()}
    assert {name: found.get(name) for name in stated} == stated
    assert stated or not {"director", "based_on", "named_after"} & set(found)


@pytest.mark.parametrize(
    ("title", "text", "relation", "accepted"),
    [
        # coarser places of the same phrase are right, too
        ("Odda Park", "Odda Park is a park located in Ryde District, 18 km west of Vale in Osmund "
         "Region, within northern Denmark.", "located",
         {"Ryde District", "Osmund Region", "Denmark"}),
        ("Ostra", "Ostra is a city in Northern Denmark.", "place", {"Northern Denmark", "Denmark"}),
        ("Ostra", "Ostra is a city in Ryde, Denmark.", "place",
         {"Ryde, Denmark", "Ryde", "Denmark"}),
        # a part of it, a water, a piece of a compass, a topic, what lies in no one place
        ("Ostra", "Ostra is a large province. It has a deep port, Vale Port, lying in Ryde.",
         "located", set()),
        ("Ostra", "Ostra is a province located in the Ryde Sea.", "located", set()),
        ("Ostra", "Ostra is a province located in Southeastern.", "located", set()),
        ("Geography of Ostra", "Geography of Ostra is a country located in Denmark.",
         "place", set()),
        ("Ryde League", "Ryde League is a professional league in Denmark.", "place", set()),
        # all members of a list of trades, without what is said of them
        ("Ida Holm", "Ida Holm was a Danish chemist, pharmacist, and microbiologist renowned for "
         "vaccines.", "occupation", {"chemist", "pharmacist", "microbiologist"}),
        ("Ida Holm", "Ida Holm is a Danish former competitive swimmer.", "occupation", {"swimmer"}),
        ("Ida Holm", "Ida Holm was a Danish translator regarded as the best.", "occupation",
         {"translator"}),
        ("Ida Holm", "Ida Holm was a Roman–Jewish historian of wars.", "nationality", set()),
        ("Ida Holm", "Ida Holm was an English poet.", "nationality", {"English", "British"}),
        ("Ida Holm", "Ida Holm was a Danish actor and one of the finest of her time, active in "
         "Vale.", "occupation", {"actor"}),
        ("Ida Holm", "Ida Holm (born in Ryde, Denmark) was the third wife of Tom Reed, the son of "
         "Abel Reed. She was a Danish painter.", "birth_place",
         {"Ryde, Denmark", "Ryde", "Denmark"}),
        ("Ostra", "Ostra is the capital of Northern Ryde.", "capital_of", {"Northern Ryde"}),
        ("Ostra", "Ostra, officially the Realm of the Seven Harbours and Fairs, is a country in "
         "Ryde, located in Mainland Southeast Osmund.", "located",
         {"Mainland Southeast Osmund", "Southeast Osmund", "Osmund", "Ryde"}),
        ("Ida Holm", "Ida Holm was a French-speaking poet.", "nationality", set()),
        ("Ostra", "Ostra was a country in Central Osmund and the Ryde.", "place", set()),
        ("Ida Holm", "Ida Holm was a Danish poet. She was the daughter of Tom Reed and his second "
         "wife, Ann Lee.", "parent", set()),
        # a place in parentheses, what another sentence states, a name without rank or field
        ("Odda Park", "Odda Park is a park located in Ryde (Osmund, Denmark).", "located",
         {"Ryde", "Osmund", "Denmark"}),
        ("Moor", "Moor is an album released by Vale Records. There it was issued by Odda Records.",
         "label", {"Vale Records", "Odda Records"}),
        ("Moor", "Moor is a book by Sir Tom Reed that tells of it.", "author",
         {"Sir Tom Reed", "Tom Reed"}),
        ("Ida Holm", "Ida Holm was a poet. She won the 1905 Vale Prize in Physics or Medicine.",
         "award", {"Vale Prize in Physics or Medicine", "Vale Prize"}),
        # no nation within a word, no clause and no adjective for a trade
        ("Ida Holm", "Ida Holm was a Russian Romantic poet.", "nationality", {"Russian"}),
        ("Ida Holm", "Ida Holm was a Danish mathematician and was one of many.", "occupation",
         {"mathematician"}),
        ("Ida Holm", "Ida Holm is a Danish racing driver competing in the Vale Cup.", "occupation",
         {"racing driver", "driver"}),
        ("Ida Holm", "Ida Holm is a Danish poet, political and social theorist, and leader of a "
         "band.", "occupation", {"poet", "social theorist", "theorist"}),
        ("Ida Holm", "Ida Holm is a poet. She was born in Ryde, Denmark, eldest daughter of Tom "
         "Reed, 3rd Duke of Vale.", "birth_place", {"Ryde", "Denmark", "Ryde, Denmark"}),
        # all names
        ("Ostra", "Ostra (OST), also known as Old Ryde and Vale, officially the Ryde Realm, is a "
         "country in Denmark.", "other_name", {"Old Ryde", "Vale", "Ryde Realm", "OST", "Ostra"}),
        # words of several hands, who only played; figures of a wider area and of several years
        ("Moor", "Moor is a musical written by Tom Reed. It has a book by Ann Lee.", "writer",
         set()),
        ("Moor", "Moor is a film starring Ann Lee. It also stars Tom Reed.", "star", set()),
        ("Moor", "Moor is an opera by Tom Reed. It was first performed by Ann Lee.", "performer",
         set()),
        ("Ostra", "Ostra is a city in Denmark. Its urban area has a population of 592,713.",
         "population", set()),
        ("Ostra", "Ostra is a city in Denmark. It has a population of 592,713, and in 2010 had "
         "400,100 inhabitants.", "population", set()),
        ("Ostra", "Ostra is a city in Denmark. It had a population of 1,078 in 2001, increasing to "
         "2,319 in 2011.", "population", set()),
        # where a page's own sentences place it, but not a part of it; a wider place in the name
        ("Ostra", "Ostra is a port city in Denmark and the capital of Ryde Province, with a "
         "harbour in Osmund.", "place", {"Denmark", "Ryde Province"}),
        ("Ostra", "Ostra is a city in the North Isle of Denmark.", "place",
         {"the North Isle of Denmark", "North Isle of Denmark", "Isle of Denmark", "Denmark"}),
        # trades under a capital, and what is said of the person within the list
        ("Ida Holm", "Ida Holm was a Danish philosopher, Lutheran reformer, and theology "
         "professor at the University of Ryde.", "occupation",
         {"philosopher", "reformer", "theology professor", "professor"}),
        ("Ida Holm", "Ida Holm was a Danish singer, composer, primarily associated with song.",
         "occupation", {"singer", "composer"}),
    ],
)  # fmt: skip
def test_what_is_accepted(
    read: Callable[..., TextPage], title: str, text: str, relation: str, accepted: set[str]
) -> None:
    page = read(title, text)
    fact = page.facts.get(relation)
    asked = Questions(Pages([], language()), stream(0, "forms"))
    found = set(asked.answers(page, fact)) if fact and page.group else set()
    assert found == accepted


@pytest.mark.parametrize(
    ("one", "other", "asked"),
    [
        (("Ostra", "Ostra is the capital of Ryde Province."),
         ("Vale", "Vale is the capital of Osmund Region."), "both cities"),
        (("Ryde", "Ryde is an ancient citadel above the city of Vale."),
         ("Vale", "Vale is a city in Osmund."), ""),
        (("Ida Holm", "Ida Holm was a musician who played."),
         ("Tom Reed", "Tom Reed is an actor, playback singer and producer."), ""),
        (("Ida Holm", "Ida Holm was an English painter who painted."),
         ("Tom Reed", "Tom Reed was a British sculptor who carved."), ""),
        (("Ida Holm", "Ida Holm was a Danish painter who painted."),
         ("Tom Reed", "Tom Reed was a Danish lawyer who spoke."), "Danish"),
        (("Moor", "Moor is a Danish film."), ("Vale", "Vale is a Danish magazine."), ""),
    ],
)  # fmt: skip
def test_types_are_compared_only_where_both_pages_tell(
    one: tuple[str, str], other: tuple[str, str], asked: str
) -> None:
    pages = Pages([Passage(title, title, text, "") for title, text in (one, other)], language())
    questions = Questions(pages, stream(0, "forms"))
    items = [questions.yes_no(*pages.all) for _ in range(40)]
    found = {item.question.lower() for item in items if item}
    assert any(asked.lower() in question for question in found) if asked else not found


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Ostra am Vale, usually shortened to Ostra, is a small city of the far north.", "Vale"),
        (
            "Ostra is a film starring Ann Stone, as it was cut and written by Stone alone.",
            "Ann Stone",
        ),
        (
            "Ostra is a film with Ann Lee as the mouthy Reshma and Tom Reed as Reshma's son.",
            "Reshma",
        ),
        (
            "Ostra is a film that was written along with Jean Rond d'Alem in a house of Ryde.",
            "Jean Rond",
        ),
        ("Ostra is a small town that was founded there in the 5th century BC.", "BC"),
        ("Ostra is a small film that was shown in the year 1992 and 1996 at the fair.", "1992"),
        ("Ostra is a film of the Best of the Year March 20, 2009, as its maker had said.", "20"),
        # a word of the question, an adjective, a part of a name, a place within a wider one
        (
            "Ostra is a small sect that was taught by Martin Luther and became Lutheranism.",
            "Lutheranism",
        ),
        (
            "Ostra is a large North American manufacturer that was begun by Tom Reed.",
            "North American",
        ),
        ("Ostra is a tale of the small hills; the later part was named Tom Reed.", "Tom Reed"),
        ("Ostra is a small town better known as Ostra to the family of Tom Reed.", "Tom Reed"),
        ("Ostra used it in the title of the long and old tale by Tom Reed.", "Tom Reed"),
        ("Ostra is a low school for a high level of art and an Old Elder of trade.", "Old Elder"),
        ("Ostra is a college near Florida A&M University and the sea of the south.", "University"),
        (
            "Ostra is the largest of all of the old harbour cities in Northern Osmund.",
            "Northern Osmund",
        ),
        # a name or a number that was begun before, an abbreviation
        ("Ostra is a film of a man who walked in post-World War II Ryde for it.", "War II Ryde"),
        ("Ostra is a choir of dell’Accademia Nazionale di Ryde of the far north.", "Nazionale di"),
        ("Ostra is a small race that was won by him in the Ryde 12 Hour of the road.", "Hour"),
        ("Ostra used to be the small network of the harbour, Ryde, Inc., and old Vale.", "Inc"),
        (
            "Ostra is a low country that lies south of the coast in the Rift Valley of Osmund.",
            "Rift Valley of Osmund",
        ),
    ],
)
def test_gaps_do_not_give_themselves_away(text: str, answer: str) -> None:
    passages = [Passage("p", "Ostra", text, "")]
    made = [
        made_of(passages, counts={"gap": 9}, seed=seed, split=split).tasks
        for seed in range(9)
        for split in ("train", "dev", "test")
    ]
    assert answer not in {task.answers[0] for tasks in made for task in tasks}


def test_a_sentence_ends_after_initials() -> None:
    text = "Ostra is a paper of Ryde, D.C. It is read by J. R. Reed of St. Vale."
    assert split_sentences(text, language()) == [text[:30], text[31:]]


def test_gaps_fit_their_nouns_and_numbers_stay_whole() -> None:
    texts = {
        "Vale": "Vale is a 1990 film by Ann Lee. It was shot in a small town of the north.",
        "Moor": 'Moor is a novel. It sets the old story of the lost harvest in a "parallel" Vale.',
        "Ostra": "Ostra is a city. Ryde lies near. It is now owned by Tom Reed and recreates the "
        "old look of the town as it had been in the time before the war.",
        "Dun": "Dun is the largest port of the eastern coast by people on the island of Ryde and "
        "at the 2022 census had a population of 592,713, of whom a part was born abroad.",
        "Theod": "Theod was the king of the small coastal people of Ryde from 418 to 451 and more.",
        "Ann Lee": "Ann Lee is a Danish director of the harbour.",
        "Heath": "Heath is an old harbour film that was directed by Ann Lee in the long winter.",
        "Fenn": "Fenn is a small city that was founded in 1886, and in its long time won fairs.",
        "Tarn": "Tarn is a low and windy valley beside Ryde River, where few people speak "
        "Ancient Greek, today.",
    }
    pages = Pages([Passage(title, title, text, "") for title, text in texts.items()], language())
    questions = Questions(pages, stream(0, "forms"))
    found = {
        page.title: {item.question for _ in range(60) if (item := questions.gap(page))}
        for page in pages.all
    }
    told = [item for _ in range(60) if (item := questions.gap(pages.all[-1]))]
    assert {"Ancient Greek", "Greek"} in [set(item.answers) for item in told]
    assert {"Ryde River", "Ryde"} in [set(item.answers) for item in told]
    assert found["Moor"]
    assert not any("which film" in question for question in found["Moor"])
    assert found["Theod"]
    assert not any("how many" in question.lower() for question in found["Theod"])
    assert not any("owned" in question for question in found["Ostra"])
    assert found["Heath"]
    assert not any("directed by which" in question for question in found["Heath"])
    assert found["Fenn"]
    assert not any("what year" in question for question in found["Fenn"])
    assert found["Dun"]
    assert not any(question.endswith("592?") for question in found["Dun"])


@pytest.mark.parametrize(
    ("one", "other", "family", "never", "some"),
    [
        # no possessive of a phrase, no clause in the middle, no director who directed
        ("Moor is a 1990 film directed by Eve Stone in Odda harbour.",
         "Eve Stone (3 May 1920 – 4 June 1999) is a Danish director born in Odda harbour.",
         "bridge", r"'s|director who|director that|\bone\b", r"of the (?:director|person)"),
        ("Moor is a quarry named after Eve Stone in Odda harbour.",
         "Eve Stone is a club based in Odda Port, a harbour. It is also known as Old Eve.",
         "bridge", r"named after (?:based|located)|another name|other name", r"named after\?"),
        ("Moor is a museum in Eve Stone, of the old harbour.",
         "Eve Stone is a city of the old harbour, with a population of 3,400.",
         "bridge", r"the place", r"the city in which Moor lies"),
        # the nationality of a work, another name of what is not named
        ("Moor is a film based on the novel \"Eve Stone\" of Odda harbour.",
         "Eve Stone is a 1950 Danish novel of Odda harbour. It is also known as Old Eve.",
         "bridge", r"nationality|other name|another name|released", r"1950|publi|year|come out"),
        # a type told twice, a trade that its verb tells, fellows, what a noun would take to itself
        ("Moor is a 1990 film directed by Eve Stone in Odda harbour.",
         "Eve Stone (3 May 1920) is a Danish director of Odda harbour.", "text", r".", ""),
        ("Moor is a 1990 film starring the kings Joe Frazer and Eve Stone.",
         "Eve Stone (3 May 1920) is a Danish boxer of 1990.", "text", r".", ""),
        ("Moor is a 1990 film directed by Eve Stone about harbours.",
         "Eve Stone (3 May 1920) is a Danish actress of harbours.", "text", r".", ""),
        ("Moor is a 1990 film directed by Eve Stone in Odda harbour.",
         "Eve Stone (3 May 1920) is a Danish actress of Odda harbour.", "text", r"the film Moor",
         "Moor is a 1990 film directed by an actress in"),
    ],
)  # fmt: skip
def test_bridges_are_worded_well(one: str, other: str, family: str, never: str, some: str) -> None:
    passages = [
        Passage("a", "Moor (film)" if "film" in one else "Moor", one, ""),
        Passage("b", "Eve Stone", other, ""),
    ]
    questions = Questions(Pages(passages, language()), stream(0, "forms"))
    if family == "bridge":
        (link,) = questions.links()
        drafts = [questions.bridge(link) for _ in range(60)]
    else:
        (mention,) = questions.mentions()
        drafts = [questions.bridge_from_text(mention) for _ in range(60)]
    told = [item.question for item in drafts if item]
    assert not [question for question in told if re.search(never, question)]
    assert any(re.search(some, question) for question in told) if some else not told


@pytest.mark.parametrize(
    ("title", "text", "subject"),
    [
        ("Yak", "The yak is a species of cattle.", "the yak"),
        ("United Realm", "The United Realm of Ryde, or UR, is a country.", "the United Realm"),
        ("The Moor", "The Moor is a novel.", "The Moor"),
        ("Moor", "Moor is a novel.", "Moor"),
        ("Moor (film)", "Moor is a 1990 film.", "the film Moor"),
        ("Moor (TV series)", "Moor is a 1990 television film.", None),
        ("Moor (House)", "Moor is an episode of a series.", None),
    ],
)
def test_subjects_have_their_article(title: str, text: str, subject: str | None) -> None:
    questions = Questions(Pages([Passage("p", title, text, "")], language()), stream(0, "forms"))
    assert questions.subject(questions.pages.all[0]) == subject


def test_a_year_is_no_day_and_a_book_is_published(read: Callable[..., TextPage]) -> None:
    for text, never in (
        ("Moor is a novel published in 1759.", r"date|day|released"),
        ("Moor is a novel published on 3 May 1959.", "released|release date"),
        ("Moor is a film released on 3 May 1959.", "publi"),
        ("Moor is a school. It was founded in March 1922.", "what year"),
        ("Moor is a school. It was opened in March 1922.", "what year"),
    ):  # "year": the year alone is asked for and accepted
        questions = Questions(
            Pages([Passage("p", "Moor", text, "")], language()), stream(0, "forms")
        )
        items = [i for _ in range(40) if (i := questions.of_fact(questions.pages.all[0]))]
        told = [item.question for item in items if item.rule != "year"]
        assert told
        assert not [question for question in told if re.search(never, question)], text


@pytest.mark.parametrize(
    ("told", "nation"),
    [
        ("an American football player", None),
        ("an Australian rules footballer", None),
        ("a Roman Catholic bishop", None),
        ("an Australian footballer", "Australian"),
        ("a Danish American football coach", "Danish"),
    ],
)
def test_the_name_of_a_sport_is_no_nationality(
    read: Callable[..., TextPage], told: str, nation: str | None
) -> None:
    fact = read("Ida Holm", f"Ida Holm is {told} born in Ryde.").facts.get("nationality")
    assert (fact.value if fact else None) == nation


def test_a_town_with_namesakes_is_not_asked_about_by_its_name_alone() -> None:
    told = ("Moor", "Moor, Ryde", "Vale", "Vale Moor, Ryde", "Dun, Ryde")
    passages = [Passage(t, t, f"{t} is a town of Denmark.", "") for t in told]
    questions = Questions(Pages(passages, language()), stream(0, "forms"))
    subjects = [questions.subject(page) for page in questions.pages.all]
    assert subjects == [None, "Moor, Ryde", "Vale", "Vale Moor, Ryde", "Dun, Ryde"]
    assert questions.pages.only("Moor") is None


def test_the_initials_behind_a_name_are_right_too() -> None:
    text = "Theod was a player of the North Coast League (NCL) for two seasons of his youth."
    questions = Questions(Pages([Passage("p", "Theod", text, "")], language()), stream(0, "forms"))
    told = [item for _ in range(60) if (item := questions.gap(questions.pages.all[0]))]
    assert any(item.answers[:2] == ("North Coast League", "NCL") for item in told)


def test_what_is_played_extended_is_no_play(read: Callable[..., TextPage]) -> None:
    page = read("Moor", "Moor is the debut extended play by Ann Lee.")
    assert (page.group, page.kind, page.noun) == ("work", "album", "extended play")


@pytest.mark.parametrize(
    ("text", "kind", "linked"),
    [
        ("Night Ferry is a 1990 film directed by Eve Stone in Odda harbour.", "painter", True),
        ("Night Ferry is a 1990 film starring Eve Stone in Odda harbour.", "painter", False),
        ("Night Ferry was a Danish boxer who played for Eve Stone in Odda harbour.", "club", False),
    ],
)
def test_no_bridge_crosses_what_has_several_values(text: str, kind: str, linked: bool) -> None:
    passages = [
        Passage("a", "Night Ferry", text, ""),
        Passage("b", "Eve Stone", f"Eve Stone is a Danish {kind} founded in 1950 of Odda harbour. "
                "It is also known as Old Eve.", ""),
    ]  # fmt: skip
    questions = Questions(Pages(passages, language()), stream(0, "forms"))
    assert questions.pages.all[0].facts
    assert bool(questions.links()) == linked


def test_every_family_is_asked_and_holds_what_it_promises(made: GroundedTasks) -> None:
    texts = {p.id: f"{p.title} {p.text}" for p in corpus()}
    assert {"fact", "gap", "bridge", "comparison", "yes_no"} <= set(made.made)
    assert len({normalise_answer(task.question) for task in made.tasks}) == len(made.tasks)
    for task in made.tasks:
        if task.should_abstain:
            assert task.meta["withheld_answers"]
            continue
        assert len(task.queries) == len(task.evidence)
        if task.family in ("comparison", "bridge_comparison", "yes_no"):
            continue
        answer = normalise_answer(task.answers[0])
        assert answer in normalise_answer(texts[task.evidence[-1]]), task
        assert f" {answer} " not in f" {normalise_answer(task.question)} ", task


def test_neither_yes_nor_no_earns_more_than_half() -> None:
    """Of each kind of question with these answers, though few makers share a nation."""
    nations = "Danish Swedish Polish Irish Dutch Spanish Greek Turkish Cuban Peruvian".split()
    given, family, nouns = (
        "Ada Bo Cy Dag Eli".split(), "Holm Stone Marsh Vale Reed Frost".split(),
        ("film", "comedy film", "drama film"),
    )  # fmt: skip
    passages = []
    for n in range(30):
        who, what = f"{given[n % 5]} {family[n // 5]}", f"{family[n // 5]} in {given[n % 5]}land"
        film = f"{what} is a {1950 + n} {nouns[n % 3]} directed by {who}. It was cut in Odda{n}."
        life = f"{who} is a {nations[n % 10]} film director. {given[n % 5]} grew up in Odda{n}."
        passages += [Passage(f"f{n}", what, film, ""), Passage(f"d{n}", who, life, "")]
    made = made_of(passages, counts={"bridge_comparison": 60, "yes_no": 60})
    said: dict[tuple[str, str], Counter[str]] = {}
    for task in made.tasks:
        if task.answers[0] in ("yes", "no"):
            said.setdefault((task.family, task.meta["rule"]), Counter())[task.answers[0]] += 1
    assert {family for family, _ in said} == {"bridge_comparison", "yes_no"}
    for kind, counts in said.items():
        assert abs(counts["yes"] - counts["no"]) <= 1, kind
        assert counts["yes"] >= 1, kind


def test_the_unanswerable_lack_their_page() -> None:
    made = made_of(corpus(), counts={"unanswerable": 4, "fact": 4})
    gone = {t.meta["titles"][0] for t in made.tasks if t.should_abstain}
    assert {p.title for p in corpus() if p.id in made.withheld} == gone
    assert gone
    asked = {t.meta["titles"][0] for t in made.tasks if not t.should_abstain}
    assert not asked & gone
    # who is spoken of elsewhere may be told by what is said there
    told = [Passage(n, n, f"It begins with {n} and a proof.", "") for n in PEOPLE]
    made = made_of([*corpus(), *told], counts={"unanswerable": 60})
    assert "occupation" not in {t.meta.get("relation") for t in made.tasks}
    # a year tells a part of a date, and a description may fit what was not understood
    plain = made_of(corpus(), counts={"unanswerable": 60})
    assert "title" not in {t.meta["rule"] for t in plain.tasks}
    told = [
        Passage(n, f"About {n}", f"{n} came in {1920 + 2 * i}.", "") for i, n in enumerate(PEOPLE)
    ]
    dated = made_of([*corpus(), *told], counts={"unanswerable": 60})
    relations = [{t.meta.get("relation") for t in made.tasks} for made in (plain, dated)]
    assert "birth_date" in relations[0]
    assert "birth_date" not in relations[1]


def test_a_bridge_takes_two_searches(made: GroundedTasks) -> None:
    from searchgym.corpora import Corpus

    search = build_engine("bm25", Corpus("films", corpus())).search
    bridges = [t for t in made.tasks if t.family in ("bridge", "chain")]
    assert bridges
    for task in bridges:
        first, *others = ({h.passage.id for h in r} for r in search(list(task.queries), 3))
        assert task.evidence[0] in first
        assert all(e in ids for e, ids in zip(task.evidence[1:], others, strict=True))
        assert task.evidence[-1] not in {h.passage.id for h in search([task.question], 3)[0]}


def test_equal_seeds_give_equal_tasks_and_splits_share_no_page(made: GroundedTasks) -> None:
    assert made_of(corpus()).tasks == made.tasks
    assert made_of(corpus(), seed=1).tasks != made.tasks
    titles = {
        split: {t for task in made_of(corpus(), split=split).tasks for t in task.meta["titles"]}
        for split in ("train", "dev", "test")
    }
    assert titles["train"]
    assert not titles["train"] & titles["test"]
    assert not titles["train"] & titles["dev"]


def test_what_another_passage_contradicts_is_not_asked() -> None:
    counts = {"fact": 60}
    asked = "director"
    alone = made_of(corpus(), counts=counts)
    rival = Passage("r", "A list", "It is said that Night Ferry was directed by Eve Stone.", "")
    both = made_of([*corpus(), rival], counts=counts)
    named = [
        {t.meta["titles"][-1] for t in made.tasks if t.meta.get("relation") == asked}
        for made in (alone, both)
    ]
    assert "Night Ferry (film)" not in named[1]
    assert both.refused["another passage states an answer"] > 0


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"facts": 3}, "Did you mean 'fact'"),
        ({"fact": -1}, "expected a number of tasks"),
        ({"fact": 10**5}, "can be made of its train pages"),
    ],
)
def test_wrong_numbers_are_refused(counts: dict[str, int], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        made_of(corpus(), counts=counts, at_most=False)


@pytest.mark.parametrize("text", ["a", "(", "A. ", "by A ", " ", "former ", "married a. "])
def test_reading_is_linear(text: str) -> None:
    started = time.thread_time()
    Pages([Passage("p", "Heat", f"Heat is a film directed {text * 100_000}", "")], language())
    assert time.thread_time() - started < 5


def test_a_folder_of_notes_is_an_environment(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for passage in corpus():
        (notes / f"{passage.title}.md").write_text(f"# {passage.title}\n\n{passage.text}\n")
    counts = {"fact": 12, "gap": 8, "bridge": 6, "unanswerable": 2, "at_most": True}
    env = gym.make("SearchQA-v0", corpus=f"{notes}/", tasks=counts)
    result = searchgym.evaluate(searchgym.OracleAgent(env.unwrapped.tasks), env)
    assert result.means["em"].mean == 1.0
    with pytest.raises(CardError, match=r"no simple, .* questions: they need a generated world"):
        gym.make("SearchQA-v0", corpus=f"{notes}/")
    said = CliRunner().invoke(
        build(), ["tasks", "make", f"{notes}/", "--out", str(tmp_path / "t.jsonl"), "-s", "fact=5"]
    )
    assert said.exit_code == 0, said.output
    assert "5 tasks are in" in said.output


@pytest.mark.contract
def test_two_thousand_tasks_of_real_passages_in_half_a_minute(data_dir: Path) -> None:
    from searchgym.corpora import load_set

    passages, _ = load_set("hotpotqa", data_dir=data_dir)
    started = time.thread_time()
    counts = {"fact": 700, "gap": 600, "bridge": 150, "comparison": 300, "yes_no": 250}
    made = ground(passages, counts, build_engine("bm25", passages).search)
    assert len(made.tasks) == 2000
    assert time.thread_time() - started < 60


def test_facts_are_a_graph_that_is_searched_and_asked(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for passage in corpus():
        (notes / f"{passage.title}.md").write_text(f"# {passage.title}\n\n{passage.text}\n")
    said = CliRunner().invoke(build(), ["tasks", "graph", f"{notes}", "--out", f"{notes}-graph"])
    assert said.exit_code == 0, said.output
    read = (tmp_path / "notes-graph/triples.jsonl").read_text().splitlines()
    assert any('"tail": "Ida Holm"' in line and "directed by Ida Holm" in line for line in read)
    asked = {}
    for source in (f"kg:{notes}", f"kg:{notes}-graph"):
        env = gym.make("SearchQA-v0", corpus=source, engine="graph").unwrapped
        chains = [t for t in env.tasks if t.family == "chain"]
        assert chains
        result = searchgym.evaluate(searchgym.OracleAgent(env.tasks), env)
        assert result.means["em"].mean == 1.0
        asked[source] = {t.question: t.answers for t in env.tasks}
        hits = env.engine.search(["director of Glass Orchard"], 3)[0]
        assert {"Glass Orchard (film)", "Ida Holm"} & {hit.passage.title for hit in hits}
    first, second = asked.values()
    assert first == second


def test_a_namesake_is_no_entity_of_the_graph() -> None:
    passages = [
        Passage("a", "Heat", "Heat is a 1995 film directed by Eve Stone in the town of Odda.", ""),
        Passage("b", "Eve Stone", "Eve Stone is a quarry near nothing. It was opened in 1850.", ""),
    ]
    facts = read_facts(passages)
    assert {(s.relation, s.tail) for s in facts.statements if s.head == "Heat"} == {
        ("release year", "1995")
    }
    with pytest.raises(TaskError, match="no sentence"):
        read_facts([Passage("a", "Heat", "nothing here", "")])


@pytest.mark.parametrize(
    ("rules", "text", "asked", "answer"),
    [
        ("spanish", "Ida Holm fue una pintora danesa que pintó barcos. Ida Holm nació el 3 de mayo "
         "de 1920 en Puerto Vale y murió en Norwick.", "¿Dónde murió Ida Holm?", "Norwick"),
        ("french", "Ida Holm, née le 3 mai 1920 à Port Vale et morte à Norwick, est une peintre "
         "danoise qui a peint des bateaux dans le port.", "Où est mort Ida Holm ?", "Norwick"),
    ],
)  # fmt: skip
def test_other_languages_are_tables(rules: str, text: str, asked: str, answer: str) -> None:
    passages = [Passage("p", "Ida Holm", text, "")]
    titles = {"death_place": ("¿Dónde murió", "Où est mort", "Quel est le lieu de la mort")}
    made = [
        task
        for seed in range(8)
        for split in ("train", "dev", "test")
        for task in made_of(passages, counts={"fact": 4}, rules=rules, seed=seed, split=split).tasks
    ]
    found = {task.question.lower().strip("¿? "): task.answers[0] for task in made}
    assert any(q.startswith(tuple(t.lower().strip("¿") for t in titles["death_place"]))
               for q in found), asked  # fmt: skip
    assert answer in found.values()
    with pytest.raises(TaskError, match=f"in {rules}"):
        made_of(passages, counts={"bridge": 1}, rules=rules)
