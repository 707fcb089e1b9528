"""One word for one thing: the report's words cover what the contract lists."""

import re
from pathlib import Path

import pytest

from nsyswrap.render import vocabulary

CAUSES = (
    *("not_traced", "queued", "launch", "profiler", "module_load", "allocation", "blocking_copy", "synchronization"),
    *("data_wait", "data_work", "peer_wait", "lock", "off_cpu", "cpu", "unknown"),
)
WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def test_every_cause_of_the_contract_has_words() -> None:
    assert tuple(vocabulary.CAUSES) == CAUSES


def test_the_ledger_has_the_columns_of_the_contract_in_order() -> None:
    assert [part.column for part in vocabulary.LEDGER_PARTS] == [
        *("compute_ns", "communication_exposed_ns", "copy_exposed_ns", "memset_exposed_ns", "idle_ns")
    ]


def test_every_window_source_has_words() -> None:
    assert set(vocabulary.WINDOW_SOURCES) == {"steps", "operations", "session", "user"}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("idle_ns", "idle"),
        ("device_id", "GPU"),
        ("kernel_count", "kernels"),
        ("theoretical_occupancy", "theoretical occupancy"),
        ("some_bytes", "some"),
        ("name", "name"),
    ],
)
def test_a_column_is_headed_by_words(name: str, label: str) -> None:
    assert vocabulary.column_label(name) == label


@pytest.mark.parametrize(
    ("label", "words"),
    [("share_low", "tensor-core share, at least"), ("warm-up steps", "warm-up steps"), ("new_fact_ns", "new fact")],
)
def test_a_fact_is_named_by_words(label: str, words: str) -> None:
    assert vocabulary.fact_label(label) == words


WORDS = [word for _, words in vocabulary.GLOSSARY for word in words]
GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


@pytest.mark.parametrize("label", ["GPU busy", "idle", "gap", "starvation", "exposed copy", "share", "median step"])
def test_every_term_of_the_page_is_in_the_glossary(label: str) -> None:
    anchors = {vocabulary.term_anchor(word.word) for word in WORDS}
    assert vocabulary.term_anchor(label) in anchors - {""}


def test_a_label_that_is_no_word_has_no_anchor() -> None:
    assert vocabulary.term_anchor("std dev") == ""


def test_anchors_are_names_of_their_own() -> None:
    anchors = [vocabulary.term_anchor(word.word) for word in WORDS]
    assert len(set(anchors)) == len(WORDS)
    assert all(re.fullmatch("word-[a-z-]+", anchor) for anchor in anchors)


def test_meanings_are_sentences() -> None:
    assert all(word.meaning[0].isupper() and word.meaning.endswith(".") for word in WORDS)


def test_the_documentation_has_the_same_words() -> None:
    """docs/glossary.md holds the groups, words and meanings that the page shows, in the same order."""
    text = GLOSSARY.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!word \|)([^|-][^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    assert rows == [(word.word, word.meaning) for word in WORDS]
    assert re.findall("^## (.*)$", text, re.MULTILINE) == [title for title, _ in vocabulary.GLOSSARY]


@pytest.mark.parametrize("part", vocabulary.LEDGER_PARTS, ids=lambda part: part.key)
def test_colours_stand_out_from_a_white_page(part: vocabulary.LedgerPart) -> None:
    """Shapes need a contrast of 3 with what is beside them (WCAG 2.2, 1.4.11)."""
    assert re.fullmatch("#[0-9A-F]{6}", part.colour)
    light = luminance((int(part.colour[1:3], 16), int(part.colour[3:5], 16), int(part.colour[5:7], 16)))
    assert (luminance(WHITE) + 0.05) / (light + 0.05) >= 3


def test_luminance_runs_from_black_to_white() -> None:
    assert luminance(BLACK) == 0
    assert luminance(WHITE) == pytest.approx(1)


def luminance(colour: tuple[int, int, int]) -> float:
    """Return the relative luminance of a colour.

    Source:
        WCAG 2.2, relative luminance.
    """
    channels = [one / 255 for one in colour]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
