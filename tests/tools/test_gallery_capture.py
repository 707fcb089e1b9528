"""Private variables are found in packed captures, and no committed capture holds any."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from packed_captures import BEGIN, literal, packed
from tool_modules import tool_module

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted((ROOT / "reports").glob("*/*/capture.nsys-rep"))
# A word of the shell that started the samples, not an environment variable.
OF_SAMPLES = {"kept"}
PRIVATE = re.compile(rb"(?<!/srv)/(?:home|root|Users|work|mnt)/|https?://|[Pp]assword|secret|SECRET|TOKEN=|API_KEY")


@pytest.fixture(scope="module")
def capture() -> Iterator[ModuleType]:
    """Import the tool with its folder on the path, as when it is started."""
    with tool_module("gallery_capture") as module:
        yield module


@pytest.fixture(scope="module")
def shared(capture: ModuleType) -> frozenset[str]:
    """Return the variables whose values may be public."""
    assert capture
    found: frozenset[str] = importlib.import_module("gallery_results").SHARED
    return found


def test_there_are_committed_captures() -> None:
    assert len(COMMITTED) >= 2


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_a_committed_capture_holds_nothing_private(path: Path, capture: ModuleType, shared: frozenset[str]) -> None:
    """The unpacked text is more than twice as long as the file, so the packed parts were read too."""
    content = path.read_bytes()
    whole = capture.unpacked(content)
    assert len(whole) > 2 * len(content)
    assert whole.count(b"PYTHONPATH=") > content.count(b"PYTHONPATH=")
    assert set(capture.variables(whole, shared)) <= OF_SAMPLES
    assert PRIVATE.findall(whole) == []


def test_blocks_are_unpacked_in_their_order_with_what_is_around_them(capture: ModuleType) -> None:
    long = b"a variable " * 60
    whole = capture.unpacked(packed(b"first", long, b"last"))
    assert whole.startswith(b"first" + long + b"last\0")
    assert whole.endswith(b"\x07session\x03lz4\x02it")
    assert b"head" in whole


@pytest.mark.parametrize("count", [4, 18, 19, 300, 700])
def test_a_repeated_part_of_a_block_is_written_out(capture: ModuleType, count: int) -> None:
    """A match may be longer than its distance, and its length may fill bytes."""
    length = count - 4
    token, more = (length, b"") if length < 15 else (15, bytes([255] * ((length - 15) // 255) + [(length - 15) % 255]))
    block = bytes([3 << 4 | token]) + b"abc" + b"\x03\x00" + more + literal(b"END")
    whole = capture.unpacked(packed(blocks=((block, 3 + count + 3),)))
    assert whole.startswith(b"abc" + (b"abc" * count)[:count] + b"END\0")


def test_variables_are_found_everywhere_in_a_capture(capture: ModuleType) -> None:
    """They may be in a block, around it, or after a length byte. Options and variables of nsys do not count."""
    inside = b"\0HOME=/srv\0http_proxy=x\0NSYS_TSC_SUPPORT=1\0QUADD_AGENT_PID=5\0LD_PRELOAD=y\n!--trace=cuda a==b"
    whole = capture.unpacked(packed(inside, b"\0zPATH=/bin\0", tail=b"\x09LATE_KEY=1"))
    assert capture.variables(whole, {"HOME", "PATH"}) == ["LATE_KEY", "http_proxy"]
    assert capture.variables(whole, set()) == ["HOME", "LATE_KEY", "http_proxy", "zPATH"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a capture"),
        (b"SQLite format 3", "not a capture"),
        (packed(), "without LZ4 blocks"),
        (packed(blocks=((literal(b"short"), 99),)), "without LZ4 blocks"),
        (packed(blocks=((b"\x00\x09\x00", 4),)), "without LZ4 blocks"),
    ],
    ids=["nothing", "another file", "no block", "another size", "a match of nothing"],
)
def test_a_file_that_cannot_be_unpacked_is_an_error(capture: ModuleType, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        capture.unpacked(content)


def test_a_capture_that_is_cut_short_is_an_error(capture: ModuleType) -> None:
    """This holds for each possible length, and no other error is raised."""
    content = packed(b"HOME=/srv")
    for length in range(len(BEGIN), len(content) - 3):
        with pytest.raises(ValueError, match=r"without LZ4 blocks|cut short"):
            capture.unpacked(content[:length])


def test_a_capture_with_private_variables_is_not_kept(capture: ModuleType, tmp_path: Path) -> None:
    """The capture of an earlier report is removed, too."""
    assert capture
    gallery = importlib.import_module("gallery")
    made, kept = tmp_path / "made.nsys-rep", tmp_path / "capture.nsys-rep"
    for content, seen, said in (
        (packed(b"HOME=/srv\0CLOUD_KEY=1"), [], "it holds CLOUD_KEY"),
        (b"x", [], "not a capture of Nsight Systems"),
        (packed(b"HOME=/srv"), ["TOKEN"], "it would hold TOKEN"),
    ):
        made.write_bytes(content)
        kept.write_bytes(b"of an earlier report")
        assert said in gallery.keep_capture(made, tmp_path, seen)
        assert not kept.exists()
    assert gallery.keep_capture(made, tmp_path, []) == ""
    assert kept.read_bytes() == made.read_bytes()
