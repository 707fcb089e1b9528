# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Pin the newest versions that pyproject.toml allows: `make lock` writes requirements/*.lock.

pip resolves, this script only writes down what it chose. `base.lock` comes first and binds the others, so one
environment can hold them all.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"

TORCH = "2.13.0"
# nsys 2023.4.4, which Debian packages, records the ranges of nvtx 0.2.10 and 0.2.11; it records no ranges of 0.2.12,
# 0.2.13, 0.2.14 and 0.2.17, and prints no warning. 0.2.10 has no wheel for Python 3.13.
NVTX = "0.2.11"


class Lock(NamedTuple):
    """One lock file: its name, its purpose, the arguments of pip, and the lock that limits its versions."""

    name: str
    purpose: tuple[str, ...]
    wanted: tuple[str, ...]
    bound_by: str | None = "base.lock"


def locks(project: dict[str, Any]) -> tuple[Lock, ...]:
    """Return the lock files that a pyproject.toml asks for, in the order to resolve them.

    Args:
        project: The parsed pyproject.toml.
    """
    base = (*project["project"]["dependencies"], *project["build-system"]["requires"], "editables")
    nvtx_why = (
        f"nvtx stays at {NVTX}: nsys 2023.4.4, which Debian packages, records no range of newer ones,",
        "and says nothing.",
    )
    cpu = ("The workloads' PyTorch, CPU build, for machines without an NVIDIA driver.", *nvtx_why)
    # `===` takes this very build, where pip also sees one of the same version with a suffix, such as +cpu.
    cuda = ("The workloads' PyTorch, CUDA build; === keeps pip from taking a +cpu build instead.", *nvtx_why)
    return (
        Lock("base.lock", ("What nsyswrap runs on, and hatchling, which installs it.",), base, bound_by=None),
        Lock("dev.lock", ("What the tests and checks run on.",), tuple(project["dependency-groups"]["dev"])),
        Lock("torch-cpu.lock", cpu, (f"torch=={TORCH}+cpu", f"nvtx=={NVTX}")),
        Lock("torch-cuda.lock", cuda, (f"torch==={TORCH}", f"nvtx=={NVTX}")),
    )


def resolve(wanted: tuple[str, ...], bound_by: Path | None) -> dict[str, str]:
    """Ask pip what it would install into an empty environment; return name -> version.

    Raises:
        subprocess.CalledProcessError: pip finds no set of versions; its own message is on stderr.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        if bound_by:
            command += ["--constraint", str(bound_by)]
        subprocess.run([*command, "--report", str(report), *wanted], check=True)  # noqa: S603 - pip
        installs = json.loads(report.read_text())["install"]
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in installs}


def render(lock: Lock, versions: dict[str, str]) -> str:
    """Return the text of a lock file: its purpose as comments, then one pin a line in order of names."""
    lines = [f"# {line}" for line in (*lock.purpose, "Written by `make lock`.")]
    for name in sorted(versions, key=str.lower):
        exact = any(wanted.startswith(f"{name}===") for wanted in lock.wanted)
        lines.append(f"{name}{'===' if exact else '=='}{versions[name]}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Resolve and write every lock file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for lock in locks(project):
        bound_by = REQUIREMENTS / lock.bound_by if lock.bound_by else None
        (REQUIREMENTS / lock.name).write_text(render(lock, resolve(lock.wanted, bound_by)))
        print(f"wrote requirements/{lock.name}")


if __name__ == "__main__":
    main()
