"""The programs that set up a checkout, pin its packages and render its samples; the programs they start are fakes."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import lock as pins
import pytest

ROOT = Path(__file__).resolve().parents[2]
# The tools that setup.sh itself needs. Any other program must be in the folder of fakes, or is missing.
TOOLS = ("bash", "dirname", "grep", "cat", "env", "ls")


class Checkout:
    """A checkout in its own folder, on a machine whose programs are fakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.programs = folder / "bin"
        self.log = folder / "log"
        (self.folder / "tools").mkdir(parents=True)
        self.programs.mkdir()
        self.log.touch()
        shutil.copy(ROOT / "tools" / "setup.sh", self.folder / "tools")
        for name in TOOLS:
            (self.programs / name).symlink_to(shutil.which(name) or name)
        self.program("id", "echo 1000")

    def program(self, name: str, text: str, folder: Path | None = None) -> None:
        """Put a program that logs its calls on PATH or into another folder."""
        path = (folder or self.programs) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!{shutil.which("bash")}\necho "{name} $*" >>"{self.log}"\n{text}\n')
        path.chmod(0o755)

    def venv(self, text: str = "") -> None:
        """Make a virtual environment with a fake Python."""
        self.program("python", text, self.folder / ".venv" / "bin")

    def setup(self, step: str, **environment: str) -> tuple[int, str]:
        """Run one step; return its exit code and its output."""
        program = [str(self.folder / "tools" / "setup.sh"), step]
        variables = {"PATH": str(self.programs), **environment}
        done = subprocess.run(program, env=variables, capture_output=True, text=True, check=False)
        assert done.stdout == ""
        return done.returncode, done.stderr

    @property
    def calls(self) -> list[str]:
        """Return the calls of the fakes, in order."""
        return self.log.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a checkout on a machine with few programs, used by a user other than root."""
    return Checkout(tmp_path)


# A Python of the right version without the modules in $lacking, like Debian's.
PYTHON = """case "$*" in
  *"import ensurepip"*) [ -e "$0.complete" ] ;;
  "-m pip --version") [ -e "$0.pip" ] ;;
  *"%d.%d"*) echo 3.11 ;;
esac"""


def test_a_virtual_environment_that_works_is_kept(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    checkout.venv()
    assert checkout.setup("venv") == (0, "")
    assert not any("-m venv" in call for call in checkout.calls)


def test_root_installs_the_missing_venv_module(checkout: Checkout) -> None:
    """The module is for the version of Python that runs; Debian has a separate package for it."""
    checkout.program("python3", PYTHON)
    checkout.program("id", "echo 0")
    checkout.program("apt-get", f'case "$*" in *install*) : >"{checkout.programs}/python3.complete" ;; esac')
    assert checkout.setup("venv")[0] == 0
    assert "apt-get install -y -qq --no-install-recommends python3.11-venv" in checkout.calls
    assert checkout.calls[-1] == "python3 -m venv .venv"


def test_without_root_pip_fills_the_environment_from_outside(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    (checkout.programs / "python3.pip").touch()
    assert checkout.setup("venv")[0] == 0
    assert checkout.calls[-2] == "python3 -m venv --without-pip .venv"
    assert checkout.calls[-1].startswith("python3 -m pip --python .venv/bin/python install")


def test_without_anything_the_remedy_is_one_line(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    code, said = checkout.setup("venv")
    assert code == 1
    assert said.splitlines()[-1].endswith("run 'sudo apt-get install python3-venv' and then make again")


def test_a_python_that_is_missing_or_too_old_is_named(checkout: Checkout) -> None:
    code, said = checkout.setup("venv", PYTHON="python9")
    assert (code, said.startswith("setup: there is no python9 here")) == (1, True)
    checkout.program("python3", 'case "$*" in *version_info*) exit 1 ;; -V) echo Python 3.9.2 ;; esac')
    code, said = checkout.setup("venv")
    assert (code, said) == (
        1,
        "setup: python3 is Python 3.9.2: nsyswrap needs 3.11 or newer; name one with make PYTHON=...\n",
    )


@pytest.mark.parametrize(
    ("machine", "chosen", "lock"),
    [
        ("echo", "auto", "cpu"),
        ("echo 'GPU 0: NVIDIA H200'", "auto", "cuda"),
        ("echo 'GPU 0: NVIDIA H200'", "cpu", "cpu"),
        ("echo", "cuda", "cuda"),
    ],
    ids=["no GPU", "a GPU", "cpu asked for", "cuda asked for"],
)
def test_the_build_of_pytorch_follows_the_driver(checkout: Checkout, machine: str, chosen: str, lock: str) -> None:
    checkout.venv()
    checkout.program("nvidia-smi", machine)
    if chosen == "auto" and Path("/proc/driver/nvidia/version").exists():  # the machine that the tests run on
        lock = "cuda"
    assert checkout.setup("torch", TORCH=chosen)[0] == 0
    assert [call.rpartition(" ")[2] for call in checkout.calls if "pip" in call] == [f"requirements/torch-{lock}.lock"]


def test_a_browser_that_cannot_be_installed_is_no_failure(checkout: Checkout) -> None:
    checkout.program("id", "echo 0")
    checkout.program("apt-get", "exit 100")
    code, said = checkout.setup("browser")
    assert code == 0
    assert "tests that open pages in them are skipped or slower" in said


def test_each_lock_of_the_project_is_one_that_make_lock_writes() -> None:
    """The names and purposes agree; pip chooses the versions."""
    locks = pins.locks(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    assert {lock.name for lock in locks} == {path.name for path in (ROOT / "requirements").iterdir()}
    for lock in locks:
        text = (ROOT / "requirements" / lock.name).read_text()
        versions = pins.versions_in(text)
        # The hashes after a pin, which follow from the files of the index.
        found = {pin.split("=")[0]: re.findall("sha256:([0-9a-f]{64})", part) for pin, part in parts(text)}
        assert pins.render(lock, versions, found) == text
        assert all(bool(each) is lock.has_hashes for each in found.values())


def parts(text: str) -> list[tuple[str, str]]:
    """Return each pin of a lock file with the lines that belong to it."""
    return re.findall(r"^([\w.-]+==[^\s\\]+)((?: \\\n    --hash=\S+)*)", text, re.MULTILINE)


def test_continuous_integration_installs_what_is_missing_and_runs_make_test(checkout: Checkout) -> None:
    """As root on a bare machine, one apt-get command installs everything that is missing; the tests run last."""
    (checkout.folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", checkout.folder / ".ci")
    checkout.program("id", "echo 0")
    checkout.program("apt-get", "")
    checkout.program("make", 'echo "=== 7 passed in 1.00s ==="')
    checkout.program("git", "")
    program = [str(checkout.folder / ".ci" / "run")]
    done = subprocess.run(program, env={"PATH": str(checkout.programs)}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "=== 7 passed in 1.00s ==="
    installs = [call for call in checkout.calls if "install" in call]
    assert installs == [
        "apt-get install -y -qq --no-install-recommends python3 python3-venv chromium-headless-shell firefox-esr"
    ]
    assert [call for call in checkout.calls if call.startswith("make")] == ["make test"]


@pytest.mark.parametrize(("again", "code"), [("exit 0", 0), ("exit 2", 2)])
def test_continuous_integration_runs_the_tests_that_fail_once_more(again: str, code: int, checkout: Checkout) -> None:
    (checkout.folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", checkout.folder / ".ci")
    checkout.program("make", f'[ "$#" -gt 1 ] || exit 2; {again}')
    program = [str(checkout.folder / ".ci" / "run")]
    done = subprocess.run(program, env={"PATH": str(checkout.programs)}, capture_output=True, check=False)
    assert done.returncode == code
    assert [call for call in checkout.calls if call.startswith("make")] == [
        "make test",
        "make test TESTS=--last-failed --last-failed-no-failures none",
    ]
