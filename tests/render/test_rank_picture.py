"""The picture of a step: areas are times, texts fit and contrast with their ground, and lines are the last arrivals."""

import re
from importlib import resources

import hand_made
import pytest
from browser_pages import contrast
from made_rank_sections import BACKWARD, FORWARD, LATE, LENGTH, LOAD, TRANSFER, rank_section

from nsyswrap.render import rank_picture
from nsyswrap.render.rank_picture import PARTS, PictureView


def picture_of(count: int, late: int) -> PictureView:
    """Return the picture of a made job."""
    (found,) = rank_picture.pictures(rank_section(count, late, hand_made.WINDOW))
    return found


TWO = picture_of(2, 1)


def test_segments_fill_the_axis_in_proportion_to_their_time() -> None:
    first, second = TWO.rows
    expected = [[LOAD, FORWARD, BACKWARD, LATE, TRANSFER], [LOAD + LATE, FORWARD, BACKWARD, TRANSFER]]
    for row, lengths in zip((first, second), expected, strict=True):
        assert [float(one.width) for one in row.segments] == pytest.approx(
            [100 * ns / LENGTH for ns in lengths], abs=0.01
        )
        assert float(row.segments[-1].x) + float(row.segments[-1].width) == pytest.approx(100, abs=0.02)


def test_the_parts_of_a_segment_are_as_high_as_their_share() -> None:
    """The area of a colour is its time: a segment half idle is half orange."""
    section = rank_section(2, 1, hand_made.WINDOW)
    table = section.tables["segments"]
    half = table["compute_ns"].iloc[1] // 2
    table.loc[1, ["compute_ns", "idle_ns"]] = [half, half]
    (found,) = rank_picture.pictures(section)
    parts = found.rows[0].segments[1].parts
    assert [(part.key, float(part.height)) for part in parts] == [("compute", 12.0), ("idle", 12.0)]
    assert float(parts[1].y) + float(parts[1].height) == float(parts[0].y)
    assert float(parts[0].y) + float(parts[0].height) == found.rows[0].y + found.sizes.bar


def test_each_row_names_its_rank_and_gpu_and_why() -> None:
    assert [(row.name, row.said, row.is_late) for row in TWO.rows] == [
        ("rank 0, GPU 0", "waits for rank 1", False),
        ("rank 1, GPU 1", "late: data loader wait in data", True),
    ]
    assert TWO.label == "step 7 on 2 ranks; late: rank 1, GPU 1"


def test_segments_are_labelled_where_the_text_fits() -> None:
    labels = [label.text for row in TWO.rows for one in row.segments for label in one.labels if label.fits != "narrow"]
    expected = ["data", "forward", "backward", "waits for rank 1"], ["data: data loader wait", "forward", "backward"]
    assert labels == [*expected[0], *expected[1]]


def test_where_several_segments_have_one_text_the_widest_has_it() -> None:
    section = rank_section(2, 1, hand_made.WINDOW)
    section.tables["segments"].loc[1, "phase"] = "backward"
    (found,) = rank_picture.pictures(section)
    texts = [[label.text for label in one.labels] for one in found.rows[0].segments]
    assert texts[1:3] == [[], ["backward"]]


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
    (waiting,), (last,) = (row.bars for row in TWO.rows)
    assert float(waiting.x) == pytest.approx(100 * (LOAD + FORWARD + BACKWARD) / LENGTH, abs=0.01)
    assert float(waiting.wait) == pytest.approx(100 * LATE / LENGTH, abs=0.01)
    assert (last.wait, last.is_marked, waiting.is_marked) == ("0", True, False)
    assert waiting.transfer_x == last.transfer_x


def test_a_line_shows_the_arrival_of_the_last_rank() -> None:
    (line,) = TWO.lines
    assert line.x == TWO.rows[1].bars[0].x
    assert line.title == "rank 1 arrives last at this AllReduce; the first rank waits 15.0 ms"


def test_short_waits_have_no_line() -> None:
    assert picture_of(3, -1).lines == ()


def test_the_axis_has_round_times() -> None:
    assert [tick.text for tick in TWO.ticks] == ["0", "10 ms", "20 ms", "30 ms", "40 ms"]
    assert float(TWO.ticks[1].x) == pytest.approx(100 * 10e6 / LENGTH, abs=0.01)


@pytest.mark.parametrize("count", [2, 8, 9, 24, 25, 64])
def test_the_picture_fits_on_one_screen(count: int) -> None:
    """With its heading and axis it is below 700 of the 844 pixels of a screen."""
    assert picture_of(count, 1).height < 600


def test_of_many_ranks_every_eighth_and_the_late_one_have_a_label() -> None:
    found = picture_of(64, 21)
    assert [row.short for row in found.rows if row.short] == ["0", "8", "16", "21", "24", "32", "40", "48", "56"]


def test_the_note_says_which_step_and_what_is_left_out() -> None:
    assert (TWO.title, TWO.note) == (
        "Step 7, 48.0 ms",
        "the median of 10 steps that all ranks take in the window; the longest 1 of 3 collectives",
    )
    second = rank_picture.pictures(rank_section(2, 1, hand_made.WINDOW, pictures=2))[1]
    assert second.note.startswith("the longest waits of 10 steps")


def test_a_section_without_steps_has_no_picture() -> None:
    section = rank_section(2, 1, hand_made.WINDOW)
    tables = {name: section.tables[name] for name in ("ranks", "matrix")}
    assert rank_picture.pictures(type(section)("ranks", "Ranks", section.window, tables=tables)) == ()
