"""Nsys is found in all known places in the right order, and a missing nsys is an error."""

import shutil
from pathlib import Path

import pytest
from capture_fixtures import executable, fake_tree

from nsyswrap.base.errors import NsysNotFoundError
from nsyswrap.capture.locate import (
    VARIABLE,
    Nsys,
    candidates,
    find_nsys,
    importer_of,
    installed_folder,
    is_complete,
)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine without nsys, whose root folder is `tmp_path / "root"`."""
    (tmp_path / "root").mkdir()
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path / "home")}


def found(machine: dict[str, str]) -> Nsys:
    """Find nsys on that machine."""
    return find_nsys(machine, Path(machine["HOME"]).parent / "root")


def root_of(machine: dict[str, str]) -> Path:
    return Path(machine["HOME"]).parent / "root"


def put(machine: dict[str, str], place: str, version: str = "") -> Path:
    """Install a fake nsys with its importer on that machine."""
    return fake_tree(root_of(machine) / place, version)


def test_no_nsys_is_an_error_with_a_remedy(machine: dict[str, str]) -> None:
    """The hint is the command that installs it."""
    with pytest.raises(NsysNotFoundError) as caught:
        found(machine)
    assert caught.value.message == "there is no nsys (NVIDIA Nsight Systems) on this machine"
    assert "nsyswrap setup" in caught.value.hint


def test_the_variable_takes_precedence(machine: dict[str, str], tmp_path: Path) -> None:
    """The user has set it on purpose."""
    put(machine, "opt/nvidia/nsight-systems/2025.1.1")
    mine = fake_tree(tmp_path / "mine", "2022.4.2.1")
    assert found({**machine, VARIABLE: str(mine)}) == Nsys(mine, (2022, 4, 2, 1), VARIABLE)


@pytest.mark.parametrize(("make", "reason"), [(False, "does not exist"), (True, "is not a working nsys")])
def test_a_wrong_variable_is_an_error(machine: dict[str, str], tmp_path: Path, *, make: bool, reason: str) -> None:
    """The message names variable and value, and no other nsys is used."""
    put(machine, "opt/nvidia/nsight-systems/2025.1.1")
    wrong = tmp_path / "wrong"
    if make:
        executable(wrong, "#!/bin/sh\necho something else\n")
    with pytest.raises(NsysNotFoundError) as caught:
        found({**machine, VARIABLE: str(wrong)})
    assert caught.value.message.startswith(f"{VARIABLE} is {wrong}, which ")
    assert reason in caught.value.message
    assert VARIABLE in caught.value.hint


def test_path_takes_precedence_over_installation_folders(machine: dict[str, str], tmp_path: Path) -> None:
    """It is the nsys that the user's shell runs."""
    put(machine, "opt/nvidia/nsight-systems/2025.1.1", "2025.1.1.0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nsys").symlink_to(fake_tree(tmp_path / "own", "2023.1.1.0"))
    nsys = found(machine)
    assert (nsys.path, nsys.version, nsys.source) == (tmp_path / "bin" / "nsys", (2023, 1, 1, 0), "PATH")


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("opt/nvidia/nsight-systems/2024.6.1", "NVIDIA's installer"),
        ("opt/nvidia/nsight-systems-cli/2024.6.1", "NVIDIA's command-line package"),
        ("usr/local/cuda-12.6/nsight-systems-2024.5.1", "the CUDA toolkit"),
        ("usr/lib/nsight-systems", "the distribution"),
        ("opt/nvidia/nsight-compute/2025.3.1/host", "Nsight Compute"),
        ("usr/local/cuda-13.0/nsight-compute-2025.3.1/host", "Nsight Compute"),
    ],
)
def test_installation_folders_are_searched(machine: dict[str, str], place: str, source: str) -> None:
    """Each folder alone is enough, and its name is the source."""
    path = put(machine, place)
    assert (found(machine).path, found(machine).source) == (path, source)


@pytest.mark.parametrize("place", ["usr/local/cuda/bin/nsys", "opt/nvidia/nsight-systems/2024.6.1/bin/nsys"])
def test_scripts_that_start_nsys_are_found(machine: dict[str, str], tmp_path: Path, place: str) -> None:
    """The CUDA toolkit and the installer put such a script into a folder named bin."""
    real = fake_tree(tmp_path / "elsewhere")
    path = executable(root_of(machine) / place, f'#!/bin/sh\nexec {real} "$@"\n')
    assert found(machine).path == path


def test_of_several_versions_the_newest_is_used(machine: dict[str, str]) -> None:
    """Version numbers are compared: 2024.10 is newer than 2024.9."""
    put(machine, "opt/nvidia/nsight-systems/2024.9.1", "2024.9.1.0")
    put(machine, "opt/nvidia/nsight-systems/2024.10.1", "2024.10.1.0")
    assert found(machine).version == (2024, 10, 1, 0)


def test_an_installed_nsys_takes_precedence_over_the_copy_of_another_tool(machine: dict[str, str]) -> None:
    """This holds even if the copy is newer."""
    put(machine, "opt/nvidia/nsight-compute/2025.3.1/host", "2025.3.1.0")
    put(machine, "opt/nvidia/nsight-systems/2024.1.1", "2024.1.1.0")
    assert found(machine).version == (2024, 1, 1, 0)


def test_the_nsys_of_setup_is_used_last(machine: dict[str, str], tmp_path: Path) -> None:
    """It is in the user's data folder."""
    own = fake_tree(tmp_path / "home" / ".local" / "share" / "nsyswrap" / "nsys" / "2023.4.4.54")
    assert (found(machine).path, found(machine).source) == (own, "nsyswrap setup")
    put(machine, "usr/lib/nsight-systems", "2022.4.2.1")
    assert found(machine).source == "the distribution"


def test_programs_that_do_not_run_are_skipped(machine: dict[str, str], tmp_path: Path) -> None:
    """A broken link, a program for another machine and a program that fails are skipped."""
    executable(tmp_path / "bin" / "nsys", "#!/bin/sh\nexit 1\n")
    (root_of(machine) / "usr/lib/nsight-systems/bin").mkdir(parents=True)
    (root_of(machine) / "usr/lib/nsight-systems/bin/nsys").symlink_to("gone")
    path = put(machine, "opt/nvidia/nsight-compute/2025.3.1/host")
    assert found(machine).path == path


def test_a_complete_nsys_takes_precedence_over_one_whose_importer_lacks_a_library(
    machine: dict[str, str], tmp_path: Path, nsys: Nsys
) -> None:
    """The other one writes no report."""
    broken = put(machine, "opt/nvidia/nsight-compute/2025.3.1/host", "2025.3.1.0")
    lack_a_library(broken, nsys)
    assert found(machine).path == broken
    whole = fake_tree(tmp_path / "home" / ".local" / "share" / "nsyswrap" / "nsys" / "2023.4.4.54")
    assert found(machine).path == whole


def lack_a_library(nsys: Path, real: Nsys) -> None:
    """Give a fake nsys an importer without its libraries: the real one, alone in its folder."""
    importer = importer_of(real)
    assert importer is not None
    target = nsys.parent.parent / "host-linux-x64" / "QdstrmImporter"
    target.unlink()
    shutil.copy2(importer, target)


def test_the_importer_is_beside_the_real_nsys(machine: dict[str, str], tmp_path: Path) -> None:
    """Links are followed, as nsys does."""
    path = put(machine, "opt/nvidia/nsight-systems/2025.1.1")
    (tmp_path / "link").symlink_to(path)
    assert importer_of(Nsys(tmp_path / "link", (1,), "")) == path.parent.parent / "host-linux-x64" / "QdstrmImporter"


def test_nsight_compute_has_its_importer_in_another_folder(tmp_path: Path) -> None:
    """The folder is `linux-desktop-*` instead of `host-linux-*`."""
    path = fake_tree(tmp_path / "host")
    (tmp_path / "host" / "host-linux-x64").rename(tmp_path / "host" / "linux-desktop-glibc_2_11_3-x64")
    importer = importer_of(Nsys(path, (1,), ""))
    assert importer == tmp_path / "host" / "linux-desktop-glibc_2_11_3-x64" / "QdstrmImporter"


def test_the_real_nsys_is_complete(nsys: Nsys) -> None:
    """The nsys of this machine can write reports."""
    assert importer_of(nsys) is not None
    assert is_complete(nsys)
    assert nsys.version >= (2022,)


def test_the_data_folder_follows_the_xdg_standard() -> None:
    """XDG_DATA_HOME is used if it is absolute, else HOME."""
    assert installed_folder({"XDG_DATA_HOME": "/data", "HOME": "/h"}) == Path("/data/nsyswrap/nsys")
    assert installed_folder({"XDG_DATA_HOME": "rel", "HOME": "/h"}) == Path("/h/.local/share/nsyswrap/nsys")
    assert installed_folder({"HOME": "/h"}) == Path("/h/.local/share/nsyswrap/nsys")


def test_another_nsys_changes_the_candidates(machine: dict[str, str], tmp_path: Path) -> None:
    """A report that is kept for a .nsys-rep is of the nsys that exported it; none is run to find that out."""
    root = root_of(machine)
    found = [candidates(machine, root)]
    put(machine, "opt/nvidia/nsight-systems/2025.3.1/bin/nsys", "2025.3.1")
    found.append(candidates(machine, root))
    found.append(candidates({**machine, VARIABLE: str(tmp_path / "mine")}, root))
    assert len(set(found)) == len(found)
