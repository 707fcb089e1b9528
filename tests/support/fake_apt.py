"""A fake apt: called as apt-get, dpkg, dpkg-deb or ldd, it uses packages from a folder.

``FAKE_APT_PACKAGES`` is that folder: each package is a tar file ``<name>_<version>_amd64.deb``. ``FAKE_APT_FAILURE``
selects a failure: ``no-network``, ``unsigned``, ``disk-full``, ``no-package``, ``broken-package``, ``tampered``,
``stalls``. Each call is logged to the file ``FAKE_APT_LOG``. A program needs the libraries that its text lists after
``needs:``, in its own folder.
"""

import os
import shutil
import sys
import tarfile
import time
from hashlib import sha256
from pathlib import Path

FAILURES = {
    "no-network": "E: Failed to fetch mirror  Temporary failure resolving 'mirror'",
    "unsigned": "W: GPG error: mirror InRelease: Signatures couldn't be verified: NO_PUBKEY 6ED0E7B82643E131",
    "disk-full": "E: Write error - write (28: No space left on device)",
}


def main() -> int:
    """Act as the tool of this file's name."""
    name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    with Path(os.environ["FAKE_APT_LOG"]).open("a", encoding="utf-8") as log:
        log.write(f"{name} {' '.join(arguments)}\n")
    return {"apt-get": apt_get, "dpkg": dpkg, "dpkg-deb": dpkg_deb, "ldd": ldd}[name](arguments)


def apt_get(arguments: list[str]) -> int:
    """Print index targets or URIs, update, or copy packages to the working folder."""
    failure = os.environ.get("FAKE_APT_FAILURE", "")
    plain = [word for place, word in enumerate(arguments) if word[0] != "-" and arguments[place - 1] != "-o"]
    if "indextargets" in arguments:
        print(os.environ.get("FAKE_APT_TARGETS", ""))  # noqa: T201 - apt prints it
        return 0
    if "download" in arguments and "--print-uris" in arguments:
        return index_of(plain[1:])
    if "--print-uris" in arguments:
        print(os.environ.get("FAKE_APT_URIS", ""))  # noqa: T201 - apt prints it
        return 0
    if failure in FAILURES:
        sys.stderr.write(f"{FAILURES[failure]}\n")
        return 100
    for package in plain[1:]:
        found = sorted(Path(os.environ["FAKE_APT_PACKAGES"]).glob(f"{package}_*.deb"))
        if not found or failure == "no-package":
            sys.stderr.write(f"E: Unable to locate package {package}\n")
            return 100
        if failure == "stalls":
            time.sleep(600)
        if failure == "tampered":
            Path(found[0].name).write_bytes(b"something else")
        elif not Path(found[0].name).exists():
            shutil.copy(found[0], found[0].name)
    return 0


def index_of(names: list[str]) -> int:
    """Print address, file, size and hash of packages, as apt does from its signed index."""
    for name in names:
        found = sorted(Path(os.environ["FAKE_APT_PACKAGES"]).glob(f"{name}_*.deb"))
        if not found or os.environ.get("FAKE_APT_FAILURE") == "no-package":
            sys.stderr.write(f"E: Unable to locate package {name}\n")
            return 100
        content = found[0].read_bytes()
        line = (
            f"'https://mirror.example/{name}.deb' {found[0].name} {len(content)} SHA256:{sha256(content).hexdigest()}"
        )
        print(line)  # noqa: T201 - apt prints it
    return 0


def dpkg(_arguments: list[str]) -> int:
    """Print the architecture."""
    print("amd64")  # noqa: T201 - dpkg prints it
    return 0


def dpkg_deb(arguments: list[str]) -> int:
    """Unpack a package, or print its version."""
    package = Path(arguments[1])
    if arguments[0] == "-f":
        print(package.name.split("_")[1])  # noqa: T201 - dpkg-deb prints it
        return 0
    if os.environ.get("FAKE_APT_FAILURE") == "broken-package":
        sys.stderr.write("dpkg-deb: error: unexpected end of file\n")
        return 2
    with tarfile.open(package) as archive:
        archive.extractall(arguments[2], filter="tar")
    return 0


def ldd(arguments: list[str]) -> int:
    """Print the libraries that a program needs."""
    program = Path(arguments[0])
    for line in program.read_text(encoding="utf-8", errors="replace").splitlines():
        if "needs:" in line:
            for library in line.partition("needs:")[2].split():
                found = program.parent / library
                print(f"\t{library} => {found if found.exists() else 'not found'}")  # noqa: T201 - ldd prints it
    return 0


if __name__ == "__main__":
    sys.exit(main())
