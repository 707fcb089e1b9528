"""Make values from other values: each once, as soon as those that it names are ready."""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# numpy releases Python's lock, so two threads can work at the same time. With fewer operations they cost more than they
# save.
WORKERS, MANY_OPERATIONS = 2, 65_536

Maker = Callable[..., Any]
"""Makes a value. Its parameters name the values that it needs."""


def make_values(makers: Mapping[str, Maker], given: Mapping[str, Any], workers: int = 1) -> dict[str, Any]:
    """Return the given values and those that are made from them.

    Each can start when all values that it names are ready. The one with the longest chain of others behind it is first.

    Args:
        makers: The values to make, by name.
        given: Values that are there already.
        workers: How many are made at the same time. With one, all are made in the thread of the caller.

    Raises:
        ValueError: A value needs another that is neither given nor made, or two need each other.
    """
    found, waiting, chain = dict(given), dict(makers), _chains(makers)
    running: dict[Future[Any], str] = {}
    with pool_of(workers) as pool:
        while waiting or running:
            ready = [name for name, make in waiting.items() if found.keys() >= set(parameters(make))]
            ready.sort(key=chain.__getitem__, reverse=True)
            for name, make in [(each, waiting.pop(each)) for each in ready[: workers - len(running)]]:
                running[pool.submit(make, **{each: found[each] for each in parameters(make)})] = name
            if not running:
                raise ValueError(f"these need values that are neither given nor made: {', '.join(waiting)}")
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            found |= {running.pop(each): each.result() for each in done}
    return found


def made_in_order(make: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield what a function makes of each item, in order; as many are made at the same time as there are workers.

    No more of them are held, since each may need much memory.
    """
    running: deque[Future[Result]] = deque()
    with pool_of(workers) as pool:
        for item in items:
            if len(running) == workers:
                yield running.popleft().result()
            running.append(pool.submit(make, item))
        while running:
            yield running.popleft().result()


def workers_for(operations: int) -> int:
    """Return how many threads work on so many operations of the GPUs."""
    return WORKERS if operations >= MANY_OPERATIONS else 1


def pool_of(workers: int) -> Executor:
    """Return what calls functions in several threads; with one worker, in the thread of the caller."""
    return ThreadPoolExecutor(workers) if workers > 1 else _InTurn()


@cache
def parameters(make: Maker) -> tuple[str, ...]:
    """Return the values that a function names as parameters; asked for each function again while others finish."""
    return tuple(inspect.signature(make).parameters)


def needed(first: Iterable[Maker], makers: Mapping[str, Maker]) -> dict[str, Maker]:
    """Return those of ``makers`` that some functions need, directly or through other values."""
    pending = [name for make in first for name in parameters(make)]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name in makers and name not in found:
            found.add(name)
            pending += parameters(makers[name])
    return {name: makers[name] for name in makers if name in found}


class _InTurn(Executor):
    """Calls each function at once, in the thread of the caller: for small values, a thread costs more than it saves."""

    def submit(self, fn: Maker, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as in Executor
        """Return the result of a function. Its error is raised here."""
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def _chains(makers: Mapping[str, Maker]) -> dict[str, int]:
    """Return, for each value, how many others have to follow it one after another."""
    chain = dict.fromkeys(makers, 0)
    # Values that need each other in a circle have no longest chain, so the rounds have an end.
    for _ in makers:
        before = dict(chain)
        for name, make in makers.items():
            for each in parameters(make):
                if each in chain:
                    chain[each] = max(chain[each], chain[name] + 1)
        if chain == before:
            break
    return chain
