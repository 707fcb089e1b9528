"""A randomly damaged export is read or refused with our own error, whichever bytes or values are wrong."""

import random
from pathlib import Path

import pytest
from export_builder import ExportBuilder
from fuzz_cases import fuzz_case
from fuzz_checks import Outcome, examine
from real_captures import more

from nsyswrap.base.errors import ExportError
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import SPECS, Trace

ROUNDS = 16


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a small export with rows in every table."""
    builder = ExportBuilder().session().gpu().command("python", "train.py").environment({"A": "1", "B_TOKEN": "2"})
    builder.diagnostic("hello").domain("loader", 1).visible_device(0, 0).thread_name(1, "python3").graph(1, 2)
    for step in range(60):
        at = step * 1000
        builder.range(f"step {step}", at, at + 900, domain=step % 2, registered=step % 3 > 0)
        builder.kernel(at + 100, at + 500, f"kernel {step % 5}", launched=(at, at + 50)).fill(at + 501, at + 502)
        builder.copy(at + 510, at + 600, launched=(at + 60, at + 70)).os_call("poll", at + 80, at + 90)
    path = builder.write(tmp_path_factory.mktemp("fuzz") / "sound.sqlite")
    load_export(path)
    return path.read_bytes()


def outcome_of(path: Path) -> Trace | ExportError:
    """Return the trace or our error; any other exception fails the test."""
    try:
        return load_export(path)
    except ExportError as error:
        return error


def load_damaged(content: bytearray, path: Path) -> bool:
    """Read damaged bytes, check the result, and return whether they could be read."""
    path.write_bytes(content)
    trace = outcome_of(path)
    if isinstance(trace, ExportError):
        assert path.name in trace.message
        assert trace.hint
        return False
    for spec in SPECS:
        frame = trace[spec]
        assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == dict(spec.columns)
        if "end" in spec.columns:
            assert bool((frame["end"] >= frame["start"]).all())
            assert frame["start"].is_monotonic_increasing
    return True


@pytest.mark.parametrize("seed", [0, 1, *more(2, 3, 4)])
def test_single_bytes_are_wrong(sound: bytes, tmp_path: Path, seed: int) -> None:
    """With a wrong byte anywhere in the file, the export is read or refused."""
    drawn = random.Random(seed)  # noqa: S311 - damage must be the same every time
    outcomes = set()
    for _ in range(ROUNDS):
        content = bytearray(sound)
        for _ in range(drawn.randint(1, 8)):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
        outcomes.add(load_damaged(content, tmp_path / "x.sqlite"))
    assert outcomes == {True, False}


@pytest.mark.parametrize("seed", [0, *more(1, 2)])
def test_the_header_and_the_list_of_tables_are_wrong(sound: bytes, tmp_path: Path, seed: int) -> None:
    """The first pages hold the addresses of all others."""
    drawn = random.Random(seed)  # noqa: S311 - damage must be the same every time
    for _ in range(ROUNDS):
        content = bytearray(sound)
        for _ in range(drawn.randint(1, 4)):
            content[drawn.randrange(16, 8192)] = drawn.randrange(256)
        load_damaged(content, tmp_path / "x.sqlite")


@pytest.mark.parametrize("seed", [0, *more(1, 2)])
def test_long_runs_of_bytes_are_wrong(sound: bytes, tmp_path: Path, seed: int) -> None:
    """A bad disk or a broken copy leaves runs of zeros, noise, or another part of the file."""
    drawn = random.Random(seed)  # noqa: S311 - damage must be the same every time
    for _ in range(ROUNDS):
        content = bytearray(sound)
        size = drawn.choice([64, 512, 4096])
        at, other = (drawn.randrange(100, len(content) - size) for _ in range(2))
        content[at : at + size] = drawn.choice([bytes(size), drawn.randbytes(size), content[other : other + size]])
        load_damaged(content, tmp_path / "x.sqlite")


@pytest.mark.parametrize("seed", [0, *more(1)])
def test_types_are_wrong(sound: bytes, tmp_path: Path, seed: int) -> None:
    """Serial types in a row's header are small numbers that mean number, text or NULL, so small bytes are changed."""
    drawn = random.Random(seed)  # noqa: S311 - damage must be the same every time
    small = [index for index in range(8192, len(sound)) if 0 < sound[index] < 10]
    for _ in range(ROUNDS):
        content = bytearray(sound)
        for index in drawn.sample(small, 3):
            content[index] = drawn.randrange(16)
        load_damaged(content, tmp_path / "x.sqlite")


@pytest.mark.parametrize("first", [0, *more(*range(50, 300, 50))])
def test_exports_of_random_content_are_sound_or_refused(tmp_path: Path, first: int) -> None:
    """`make fuzz` goes on without end. Each case follows from its number, so these 300 are always the same.

    One of 50 goes all the way to the comparison of its report with itself.
    """
    found = {number: examine(number, tmp_path, every=50) for number in range(first, first + 50)}
    assert {number: each.reason for number, each in found.items() if each.outcome is Outcome.FAILED} == {}
    assert {each.outcome for each in found.values()} == {Outcome.READ, Outcome.REPORT, Outcome.REFUSED}


def test_a_case_follows_from_its_number() -> None:
    assert fuzz_case(7).rows == fuzz_case(7).rows != fuzz_case(8).rows
