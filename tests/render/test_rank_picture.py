"""The picture of a step: areas are times, texts fit and contrast with their ground, and lines are the last arrivals."""

import re
from importlib import resources

import hand_made
import pytest
from browser_pages import contrast
from made_rank_sections import BACKWARD, FORWARD, LATE, LENGTH, LOAD, TRANSFER, rank_section

from nsyswrap.model import Section
from nsyswrap.render import rank_picture
from nsyswrap.render.drawings import Picture, Shape
from nsyswrap.render.rank_picture import PARTS


def drawn(section: Section) -> Picture:
    (found,) = rank_picture.pictures(section)
    return found


def picture_of(count: int, late: int) -> Picture:
    return drawn(rank_section(count, late, hand_made.WINDOW))


def shapes(view: Picture, look: str, row: int | None = None) -> list[Shape]:
    """Return the shapes of a class, in order; those of one rank where a row is given."""
    waiting = list(view.shapes) if row is None else [shapes(view, "rank-row")[row]]
    found = []
    while waiting:
        one = waiting.pop(0)
        found += [one] if one.attributes.get("class", "").split(" ")[0] == look else []
        waiting = [*one.parts, *waiting]
    return found


def numbers(shown: list[Shape], name: str) -> list[float]:
    """Return an attribute of shapes, in per cent or pixels."""
    return [float(one.attributes[name].rstrip("%")) for one in shown]


def segments(view: Picture, row: int) -> list[Shape]:
    (link,) = [one for one in shapes(view, "rank-row")[row].parts if one.tag == "a"]
    return [one for one in link.parts if one.tag == "g"]


def texts(view: Picture, row: int) -> list[str]:
    """Return the texts on the bar of a rank on a wide page."""
    shown = shapes(view, "rank-text", row)
    return [one.words for one in shown if not one.attributes["class"].endswith("narrow")]


TWO = picture_of(2, 1)


def test_segments_fill_the_axis_in_proportion_to_their_time() -> None:
    expected = [[LOAD, FORWARD, BACKWARD, LATE, TRANSFER], [LOAD + LATE, FORWARD, BACKWARD, TRANSFER]]
    for row, lengths in enumerate(expected):
        first = [one.parts[0] for one in segments(TWO, row)]
        assert numbers(first, "width") == pytest.approx([100 * ns / LENGTH for ns in lengths], abs=0.01)
        assert sum(numbers(first[-1:], "x") + numbers(first[-1:], "width")) == pytest.approx(100, abs=0.02)


def test_the_parts_of_a_segment_are_as_high_as_their_share() -> None:
    """The area of a colour is its time: a segment half idle is half orange."""
    section = rank_section(2, 1, hand_made.WINDOW)
    table = section.tables["segments"]
    half = table["compute_ns"].iloc[1] // 2
    table.loc[1, ["compute_ns", "idle_ns"]] = [half, half]
    view = drawn(section)
    parts = list(segments(view, 0)[1].parts)
    assert [one.attributes["class"] for one in parts] == ["p-compute", "p-idle"]
    assert numbers(parts, "height") == [12.0, 12.0]
    lower, upper = numbers(parts, "y")
    assert upper + 12 == lower
    (ground,) = shapes(view, "hit", 0)
    assert lower + 12 == sum(numbers([ground], "y") + numbers([ground], "height"))


def test_each_row_names_its_rank_and_gpu_and_why() -> None:
    heads = shapes(TWO, "rank-name")
    assert [[part.words for part in one.parts] for one in heads] == [
        ["rank 0, GPU 0", "waits for rank 1"],
        ["rank 1, GPU 1", "late: data loader wait in data"],
    ]
    assert [one.attributes["class"] for one in heads] == ["rank-name", "rank-name late"]
    assert TWO.alt == "step 7 on 2 ranks; late: rank 1, GPU 1"


def test_segments_are_labelled_where_the_text_fits() -> None:
    assert texts(TWO, 0) == ["data", "forward", "backward", "waits for rank 1"]
    assert texts(TWO, 1) == ["data: data loader wait", "forward", "backward"]


def test_where_several_segments_have_one_text_the_widest_has_it() -> None:
    section = rank_section(2, 1, hand_made.WINDOW)
    section.tables["segments"].loc[1, "phase"] = "backward"
    assert texts(drawn(section), 0).count("backward") == 1


def test_texts_contrast_with_their_ground_in_both_themes() -> None:
    """At least 4.5:1, on a light page and on a dark one; the colours come from the style sheets."""
    page, ranks = (_static(name) for name in ("page.css", "ranks.css"))
    light, dark = page.split("@media screen and (prefers-color-scheme: dark)")[:2]
    keys = {key: key.replace("_", "-") for _, key, _ in PARTS}
    dark_text = re.search(r'\[data-theme="dark"\] \.rank-text \{ fill: (#\w+)', ranks)
    assert dark_text
    for key, name in keys.items():
        text = re.search(rf"\.on-{key}\b[^{{]*\{{ fill: (#\w+)", ranks)
        assert text
        assert contrast(*(_rgb(each) for each in (text[1], _colour(light, name)))) >= 4.5
        assert contrast(*(_rgb(each) for each in (dark_text[1], _colour(dark, name)))) >= 4.5


def _static(name: str) -> str:
    return resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")


def _colour(style: str, name: str) -> str:
    found = re.search(rf"--{name}: (#\w+)", style)
    assert found
    return found[1]


def _rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def test_a_collective_waits_from_its_arrival_and_then_transfers() -> None:
    lanes = [[one for one in shapes(TWO, "rank-row")[row].parts if one.tag == "rect"] for row in (0, 1)]
    wait, transfer = lanes[0]
    assert numbers([wait], "x") == pytest.approx([100 * (LOAD + FORWARD + BACKWARD) / LENGTH], abs=0.01)
    assert numbers([wait], "width") == pytest.approx([100 * LATE / LENGTH], abs=0.01)
    assert [one.attributes["class"] for one in lanes[1]] == ["rank-frame", "p-communication"]
    assert numbers([transfer], "x") == numbers(lanes[1][1:], "x")


def test_a_line_and_a_mark_show_the_arrival_of_the_last_rank() -> None:
    (line,), (mark,) = shapes(TWO, "median"), [one for one in TWO.shapes[-1].parts if one.tag == "svg"]
    last = [one for one in shapes(TWO, "rank-row")[1].parts if one.tag == "rect"][-1]
    assert line.attributes["x1"] == mark.attributes["x"] == last.attributes["x"]
    assert line.title == "rank 1 arrives last at this AllReduce; the first rank waits 15.0 ms"


def test_short_waits_have_no_line() -> None:
    assert shapes(picture_of(3, -1), "median") == []


def test_the_axis_has_round_times() -> None:
    ticks = shapes(TWO, "rank-tick")
    assert [one.words for one in ticks] == ["0", "10 ms", "20 ms", "30 ms", "40 ms"]
    assert numbers(ticks[1:2], "x") == pytest.approx([100 * 10e6 / LENGTH], abs=0.01)


@pytest.mark.parametrize("count", [2, 8, 9, 24, 25, 64])
def test_the_picture_fits_on_one_screen(count: int) -> None:
    """With its heading and axis it is below 700 of the 844 pixels of a screen."""
    assert picture_of(count, 1).height < 624


def test_of_many_ranks_every_eighth_and_the_late_one_have_a_label() -> None:
    assert [one.words for one in shapes(picture_of(64, 21), "rank-name")] == [
        "0",
        "8",
        "16",
        "21",
        "24",
        "32",
        "40",
        "48",
        "56",
    ]


def test_the_note_says_which_step_and_what_is_left_out() -> None:
    words = "the median of 10 steps that all ranks take in the window; the longest 1 of 3 collectives"
    said = f"{words}; \N{BLACK DIAMOND} arrives last at a collective"
    assert (TWO.title, TWO.caption) == ("Step 7, 48.0 ms", said)
    second = rank_picture.pictures(rank_section(2, 1, hand_made.WINDOW, pictures=2))[1]
    assert second.caption.startswith("the longest waits of 10 steps")
