"""A fake apt: called as apt-get, dpkg, dpkg-deb or ldd, it uses packages from a folder.

``FAKE_APT_PACKAGES`` is that folder: each package is a tar file ``<name>_<version>_amd64.deb``. ``FAKE_APT_FAILURE``
selects a failure: ``no-network``, ``unsigned``, ``disk-full``, ``no-package``, ``broken-package``, ``tampered``,
``stalls``. Each call is logged to the file ``FAKE_APT_LOG``. A program needs the libraries that its text lists after
``needs:``, in its own folder.

One installation starts it some twenty times, so each call imports only what it uses.
"""

# pathlib, and the modules that one tool needs, take longer to import than the call itself.
# ruff: noqa: PLC0415, PTH110, PTH118, PTH119, PTH120, PTH123, PTH208

import os
import sys

FAILURES = {
    "no-network": "E: Failed to fetch mirror  Temporary failure resolving 'mirror'",
    "unsigned": "W: GPG error: mirror InRelease: Signatures couldn't be verified: NO_PUBKEY 6ED0E7B82643E131",
    "disk-full": "E: Write error - write (28: No space left on device)",
}


def main() -> int:
    """Act as the tool of this file's name."""
    name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
    with open(os.environ["FAKE_APT_LOG"], "a", encoding="utf-8") as log:
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
        found = packages_of(package)
        if not found or failure == "no-package":
            sys.stderr.write(f"E: Unable to locate package {package}\n")
            return 100
        if failure == "stalls":
            import time

            time.sleep(600)
        name = os.path.basename(found[0])
        if failure == "tampered":
            with open(name, "wb") as file:
                file.write(b"something else")
        elif not os.path.exists(name):
            with open(found[0], "rb") as source, open(name, "wb") as file:
                file.write(source.read())
    return 0


def packages_of(name: str) -> list[str]:
    folder = os.environ["FAKE_APT_PACKAGES"]
    files = sorted(each for each in os.listdir(folder) if each.startswith(f"{name}_") and each.endswith(".deb"))
    return [os.path.join(folder, each) for each in files]


def index_of(names: list[str]) -> int:
    """Print address, file, size and hash of packages, as apt does from its signed index."""
    from hashlib import sha256

    for name in names:
        found = packages_of(name)
        if not found or os.environ.get("FAKE_APT_FAILURE") == "no-package":
            sys.stderr.write(f"E: Unable to locate package {name}\n")
            return 100
        with open(found[0], "rb") as file:
            content = file.read()
        line = (
            f"'https://mirror.example/{name}.deb' {os.path.basename(found[0])} {len(content)} "
            f"SHA256:{sha256(content).hexdigest()}"
        )
        print(line)  # noqa: T201 - apt prints it
    return 0


def dpkg(_arguments: list[str]) -> int:
    """Print the architecture."""
    print("amd64")  # noqa: T201 - dpkg prints it
    return 0


def dpkg_deb(arguments: list[str]) -> int:
    """Unpack a package, or print its version."""
    package = arguments[1]
    if arguments[0] == "-f":
        print(os.path.basename(package).split("_")[1])  # noqa: T201 - dpkg-deb prints it
        return 0
    if os.environ.get("FAKE_APT_FAILURE") == "broken-package":
        sys.stderr.write("dpkg-deb: error: unexpected end of file\n")
        return 2
    import tarfile

    with tarfile.open(package) as archive:
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)  # none in Python 3.11.2 of Debian 12
        archive.extractall(arguments[2])  # noqa: S202 - tests make it
    return 0


def ldd(arguments: list[str]) -> int:
    """Print the libraries that a program needs."""
    program = arguments[0]
    with open(program, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    for line in lines:
        if "needs:" in line:
            for library in line.partition("needs:")[2].split():
                found = os.path.join(os.path.dirname(program), library)
                print(f"\t{library} => {found if os.path.exists(found) else 'not found'}")  # noqa: T201 - ldd prints it
    return 0


if __name__ == "__main__":
    sys.exit(main())
