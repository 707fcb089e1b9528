"""The tool that moves thresholds: what it changes in a source, and which tests are near."""

from pathlib import Path

import mutate as tool

SOURCE = '''"""é: places in the file are bytes."""
LEAST, MOST = 5, 0.5
WIDE = 2 * LEAST
NONE = -1
NAMES = ("a",)


def f(x: float) -> bool:
    return LEAST <= x < MOST and x == WIDE and x > 3
'''


def changes(path: Path) -> dict[str, bytes]:
    return {each.label: each.source for each in tool.mutations(path)}


def test_thresholds_move_by_half_and_comparisons_with_them_flip(tmp_path: Path) -> None:
    """Numbers below 0, texts, and comparisons with other numbers stay."""
    path = tmp_path / "source.py"
    path.write_text(SOURCE, encoding="utf-8")
    found = changes(path)
    assert list(found) == [
        *("LEAST = 8", "LEAST = 2", "MOST = 0.75", "MOST = 0.25", "WIDE = 15", "WIDE = 5"),
        *("LEAST < x", "x <= MOST"),
    ]
    assert "LEAST, MOST = 5, 0.75\n" in found["MOST = 0.75"].decode()
    assert "WIDE = 15\n" in found["WIDE = 15"].decode()
    assert "return LEAST <= x <= MOST and" in found["x <= MOST"].decode()


def test_the_nearest_tests_are_those_of_the_name_and_those_that_import_the_module() -> None:
    near, others = tool.nearest(Path("nsyswrap/attribution/launch_pace.py"))
    assert {Path(each).name for each in near} >= {"test_launch_pace.py", "test_launch_bound.py"}
    assert "test_laws.py" in {Path(each).name for each in others}
    assert not set(near) & set(others)
