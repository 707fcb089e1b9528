"""Results that are kept for as long as the object that they are about, since each of many GPUs needs them again."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Owner = TypeVar("Owner")
Rest = ParamSpec("Rest")
Result = TypeVar("Result")


def memo(make: Callable[Concatenate[Owner, Rest], Result]) -> Callable[Concatenate[Owner, Rest], Result]:
    """Return a function that keeps its results until its first argument is gone.

    All arguments are hashable, the first by its identity. Nothing may change a result. Two threads that need one at the
    same time may both make it.
    """
    kept: WeakKeyDictionary[Owner, dict[Any, Result]] = WeakKeyDictionary()

    @wraps(make)
    def remembered(owner: Owner, /, *rest: Rest.args, **named: Rest.kwargs) -> Result:
        results, key = kept.setdefault(owner, {}), (rest, tuple(named.items()))
        if key not in results:
            results[key] = make(owner, *rest, **named)
        return results[key]

    return remembered
