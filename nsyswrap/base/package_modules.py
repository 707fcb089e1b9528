"""The modules of a package: what is one file each needs no list, and a new file no second place."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType


def modules_of(package: str, path: Iterable[str]) -> Iterator[ModuleType]:
    """Yield the modules of a package and of the packages in it, imported, in the order of their names."""
    for name in sorted(each.name for each in walk_packages(path, f"{package}.")):
        yield import_module(name)
