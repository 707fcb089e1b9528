"""The experiments, one file a change: what it sets, how it is undone, and what it alters."""

import importlib
import pkgutil
from functools import cache

from ..tried.experiment import Experiment


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by their keys, in the order of their places."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found: list[Experiment] = [each for module in modules for each in module.EXPERIMENTS]
    return {each.key: each for each in sorted(found, key=lambda each: each.place)}
