"""Cheats are refused, and honest fixes are accepted: small programs with their work recorded, without timing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_programs import ForkedPrograms
from hostile_programs import HOSTILE
from verified_programs import BASES, CHEATS, HONEST, Change

from nsyswrap.experiments.verify import compared, worst
from nsyswrap.experiments.verify_checks import WorkCheck, WorkOutcome, growth_of
from nsyswrap.experiments.verify_runs import WorkRun, changed_files, roundoff_of, work_run
from nsyswrap.experiments.work_record import FOLDER_VARIABLE, ROUNDOFF_VARIABLE

QUICK = {"skipped backward", "features in another thread", "worker processes", "a batch for a loop"}


class Server:
    """Runs programs in processes that are forked after the import of torch."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._programs = ForkedPrograms({"OMP_NUM_THREADS": "1"})
        self.close = self._programs.close

    def record(self, text: str, roundoff: float = 0.0, times: int = 1) -> WorkRun:
        """Run a program some times in the same folder, and return the last run."""
        self._count += 1
        place = self._folder / str(self._count)
        (cwd := place / "work").mkdir(parents=True)
        (cwd / "data").mkdir()
        for at in range(64):
            (cwd / "data" / f"{at}.bin").write_bytes(
                bytes((at * 31 + byte * 7) % 64 if byte % 4 < 3 else 62 for byte in range(256))
            )
        (place / "program.py").write_text(text)
        for number in range(times):
            (folder := place / f"records{number}").mkdir()
            before = changed_files(cwd)
            output = place / f"output{number}"
            code = self.run(place / "program.py", cwd, output, folder, roundoff)
        return work_run(folder, code, output.read_text(), cwd, changed_files(cwd, before))

    def run(self, script: Path, cwd: Path, output: Path, folder: Path | None, roundoff: float = 0.0) -> int:
        """Run a script, and return its exit code."""
        recorded = {FOLDER_VARIABLE: str(folder), ROUNDOFF_VARIABLE: repr(roundoff)} if folder else {}
        return self._programs.run(script=str(script), cwd=str(cwd), output=str(output), environment=recorded)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("verify"))
    yield found
    found.close()


class Bases:
    """The runs of the unchanged programs, made once each."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: dict[tuple[str, float], WorkRun] = {}

    def run(self, name: str, roundoff: float = 0.0) -> WorkRun:
        if (name, roundoff) not in self._kept:
            self._kept[name, roundoff] = self._server.record(BASES[name], roundoff)
        return self._kept[name, roundoff]


@pytest.fixture(scope="module")
def bases(server: Server) -> Bases:
    return Bases(server)


def checks_of(change: Change, bases: Bases, server: Server, times: int = 1) -> tuple[WorkCheck, ...]:
    """Return the checks of a changed program against the unchanged one."""
    base, new = bases.run(change.base), server.record(change.text, times=times)
    roundoff = max(roundoff_of(base), roundoff_of(new))
    return compared(
        base,
        new,
        lambda: growth_of(roundoff, bases.run(change.base, roundoff)),
        lambda: server.record(change.text),
    )


def some(changes: dict[str, Change]) -> list[object]:
    """Return parameters: a few programs for each run of the tests, and all for the thorough ones."""
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.thorough) for name in changes]


@pytest.mark.slow
@pytest.mark.parametrize("name", some(CHEATS))
def test_a_cheat_is_refused_and_named(name: str, bases: Bases, server: Server) -> None:
    """The verdict is other work, never a doubt, and a sentence says what is missing."""
    change = CHEATS[name]
    found = checks_of(change, bases, server, times=2 if "disk" in name else 1)
    failed = [each for each in found if each.outcome is not WorkOutcome.SAME]
    assert worst(found) is WorkOutcome.OTHER, failed
    assert any(change.says in f"{each.name}: {each.words}" for each in failed), failed


@pytest.mark.slow
@pytest.mark.parametrize("name", some(HONEST))
def test_an_honest_fix_is_accepted(name: str, bases: Bases, server: Server) -> None:
    found = checks_of(HONEST[name], bases, server)
    assert [each for each in found if each.outcome is not WorkOutcome.SAME] == []


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_runs_as_alone_and_is_recorded_or_refused_in_words(
    name: str, server: Server, tmp_path: Path
) -> None:
    hostile = HOSTILE[name]
    (tmp_path / "alone").mkdir()
    (tmp_path / "program.py").write_text(hostile.program)
    output = tmp_path / "output"
    code = server.run(tmp_path / "program.py", tmp_path / "alone", output, None)
    runs = [server.record(hostile.program) for _ in range(2)]
    assert [each.code for each in runs] == [code, code], runs[0].last_lines
    if "repeat" not in hostile.refused and "purpose" not in hostile.refused:
        assert [each.last_lines for each in runs] == [
            tuple(filter(str.strip, output.read_text().splitlines()))[-3:]
        ] * 2
    found = compared(
        runs[0],
        runs[1],
        lambda: growth_of(2**-24, server.record(hostile.program, 2**-24)),
        lambda: server.record(hostile.program),
    )
    failed = [each for each in found if each.outcome is not WorkOutcome.SAME]
    if hostile.refused:
        assert worst(found) is WorkOutcome.CANNOT_TELL, failed
        assert hostile.refused in " ".join(each.words for each in failed)
    else:
        assert failed == []
