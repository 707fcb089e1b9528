"""Private variables are found in packed captures, and no committed capture holds any."""

import importlib
import lzma
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import gallery_capture as capture
import pytest
from capture_fixtures import options
from packed_captures import literal, packed

from nsyswrap.capture.convert import export_report
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted((ROOT / "reports").glob("*/*/capture.nsys-rep"))
# In parts, so that this file names none.
EXAMPLE = b"6.1" + b".0-13-amd64"
UUIDS = b"4af5585b-" + b"ed42-4a2c-a287-104e83392c00", b"099d44c8-" + b"fd9c-4119-94e9-013fca867b48"
# A word of the shell that started the samples, not an environment variable.
OF_SAMPLES = {"kept"}
# A part of each UUID and of each release. What begins with one given character is found fifty times as fast.
IN_UUID, IN_RELEASE = re.compile(rb"-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), re.compile(rb"\.\d+-[a-z0-9]")
# Captures that are made until one can be masked; most can.
TRIES = 5
PRIVATE = re.compile(rb"(?<!/srv)/(?:home|root|Users|work|mnt)/|https?://|[Pp]assword|secret|SECRET|TOKEN=|API_KEY")


@pytest.fixture(scope="module")
def shared() -> frozenset[str]:
    """Return the variables whose values may be public."""
    found: frozenset[str] = importlib.import_module("gallery_results").SHARED
    return found


def test_there_are_committed_captures() -> None:
    assert len(COMMITTED) >= 2


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_a_committed_capture_holds_nothing_private(path: Path, shared: frozenset[str]) -> None:
    """The unpacked text is more than twice as long as the file, so the packed parts were read too."""
    content = path.read_bytes()
    whole = capture.unpacked(content)
    assert len(whole) > 2 * len(content)
    assert whole.count(b"PYTHONPATH=") > content.count(b"PYTHONPATH=")
    assert set(capture.variables(whole, shared)) <= OF_SAMPLES
    assert PRIVATE.findall(whole) == []
    assert capture.masked(content) == content


def test_no_committed_file_names_a_gpu_or_the_kernel_of_a_machine() -> None:
    """Reports and captures have neutral UUIDs and no release of a kernel. Planted faults have a test of their own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    if not names:
        pytest.skip("not a checkout")
    for name in names:
        content = (ROOT / name).read_bytes()
        content = lzma.decompress(content) if name.endswith(".xz") and "/faults/" not in name else content
        uuids = capture.UUID.findall(content) if IN_UUID.search(content) else []
        assert [each for each in uuids if not each.startswith(capture.NEUTRAL)] == [], name
        assert not (IN_RELEASE.search(content) and capture.RELEASE.search(content)), name


def test_a_masked_capture_has_neutral_texts_of_the_same_length() -> None:
    """Two UUIDs stay two, and masking twice changes nothing."""
    one, other = UUIDS
    content = packed(b"shm-" + one + b"-4026532261", tail=b"\x0d" + EXAMPLE + b"\0" + other + b"\0" + one)
    changed = capture.masked(content)
    first, second = (capture.NEUTRAL + b"00000000000%d" % number for number in (1, 2))
    assert changed == content.replace(one, first).replace(other, second).replace(EXAMPLE, b"0.0.0-00000000")
    assert capture.masked(changed) == changed


def test_a_packed_text_that_repeats_a_part_of_a_uuid_is_an_error() -> None:
    """Masking would change that text, too: it refers to the UUID before it."""
    one = UUIDS[0]
    length = len(one) - 15
    block = bytes([15 << 4, length]) + one + b"\x24\x00" + literal(b"the end of it")
    content = packed(blocks=((block, len(one) + 4 + 13),))
    assert capture.unpacked(content).startswith(one + b"4af5the end of it")
    with pytest.raises(ValueError, match="refers to a UUID"):
        capture.masked(content)


def test_nsys_exports_the_same_tables_of_a_masked_capture(nsys: Nsys, tmp_path: Path) -> None:
    """Only the masked texts, and the names and times of the export itself, differ.

    A text may be packed as a part of a UUID, by chance. Such a capture cannot be masked, and is made again.
    """
    masked = tmp_path / "masked.nsys-rep"
    for number in range(TRIES):
        folder = tmp_path / f"made-{number}"
        made = profile(options(folder, sys.executable, "-c", "pass", traces=("nvtx", "osrt")), nsys)
        content = (folder / "capture.nsys-rep").read_bytes()
        with suppress(ValueError):
            masked.write_bytes(capture.masked(content))
            break
    assert masked.read_bytes() != content
    export_report(nsys, masked, tmp_path / "masked.sqlite")
    one, other = tables(made.export), tables(tmp_path / "masked.sqlite")
    differing = {name for name in one | other if one.get(name) != other.get(name)}
    assert differing <= {"TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "META_DATA_EXPORT"}
    changed = set(one["TARGET_INFO_SYSTEM_ENV"]) ^ set(other["TARGET_INFO_SYSTEM_ENV"])
    assert len(changed) <= 2
    assert all("SoftwareReleaseVersion" in row for row in changed)


def tables(export: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(export)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: database.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # noqa: S608


def test_variables_are_found_everywhere_in_a_capture() -> None:
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
def test_a_file_that_cannot_be_unpacked_is_an_error(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        capture.unpacked(content)


def test_a_capture_with_private_variables_is_not_kept(tmp_path: Path) -> None:
    """The capture of an earlier report is removed, too."""
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
