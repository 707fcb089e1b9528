"""Blocks as text for a terminal."""

from rich.text import Text

from nsyswrap.render.text_writer import printed


def test_lines_have_no_blanks_at_their_ends_and_the_text_one_line_break() -> None:
    assert printed([Text("a  "), Text("\nb [bold] :smile:\n\n")], width=20, colour=False) == "a\n\nb [bold] :smile:\n"


def test_colour_is_added_only_where_it_is_wanted() -> None:
    plain, coloured = (printed([Text("x", style="bold red")], width=20, colour=colour) for colour in (False, True))
    assert plain == "x\n"
    assert coloured == "\x1b[1;31mx\x1b[0m\n"
