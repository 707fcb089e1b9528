"""The dependencies between ranks in a simulation: a collective begins to transfer when its last rank has arrived.

::

    rank 0    arrives --.                      .-- transfer --> ends
                         > all have arrived --<
    rank 1    ...........arrives              '-- transfer --> ends

So the node of a collective on one rank becomes two: its arrival, and its end. Between them are nodes that wait for the
arrivals of all ranks, one after another, since a node waits for at most two others.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from nsyswrap.intervals import Indices, Times
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.what_if.dependency_graph import FREE, DependencyGraph

NAMES = ("after", "own", "held_by", "held", "thread", "work_start", "work_end", "operation", "length", "call")
NONE = -1
Flags = npt.NDArray[np.bool_]


def across_ranks(graph: DependencyGraph, collectives: Collectives) -> DependencyGraph:
    """Return the graph with the dependencies between ranks.

    A collective whose ranks did not all launch it in the sample stays as measured.

    Args:
        graph: The graph of all processes, in which each collective lasts as measured.
        collectives: Which operations are one collective.
    """
    node = _nodes_of(graph, collectives)
    inside = _complete(collectives, node >= 0)
    if not inside.any():
        return graph
    parts = np.flatnonzero(inside)
    parts = parts[np.argsort(collectives.group[parts], kind="stable")]
    table = {name: getattr(graph, name).copy() for name in NAMES}
    is_end = graph.is_end.copy()
    arrivals, first = node[parts], _first_of_group(collectives.group[parts])
    _shorten(table, arrivals)
    count, joined = len(graph.after), len(parts) - len(first)
    end_of = np.full(count, NONE, np.intp)
    end_of[arrivals] = count + joined + np.arange(len(parts))
    new = _new_nodes(collectives, parts, arrivals, first, graph)
    for name in ("after", "held_by"):
        moved = end_of[table[name]]
        table[name] = np.where(moved >= 0, moved, table[name])
    whole = {name: np.concatenate([table[name], new[name]]) for name in NAMES}
    ends = np.concatenate([is_end, np.zeros(joined, bool), is_end[arrivals]])
    ends[arrivals] = False
    batch = np.concatenate([graph.is_batch, np.zeros(joined + len(parts), bool)])
    order = _topological(whole["after"], whole["held_by"])
    if len(order) < len(ends):
        return graph
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    whole["after"], whole["held_by"] = place[whole["after"]], place[whole["held_by"]]
    return DependencyGraph(**{name: whole[name][order] for name in NAMES}, is_batch=batch[order], is_end=ends[order])


def whole_until(collectives: Collectives, launched: Times, inside: Indices, end_ns: int) -> dict[int, int]:
    """Return, by GPU, the start of the first collective that another rank launches only after the end of the sample.

    The host of one rank may be steps ahead of that of another. What its GPU does from then on lasts as measured, waits
    included, so it says nothing about a change.

    Args:
        collectives: Which operations are one collective.
        launched: Launch time of each of the context's operations, in ns.
        inside: Rows of the operations that were launched in the sample.
        end_ns: End of the sample.
    """
    matched = collectives.matched
    if not matched.any():
        return {}
    group = collectives.group
    later = np.zeros(int(group.max()) + 1, bool)
    later[group[matched & (launched[collectives.row] >= end_ns)]] = True
    cut = np.flatnonzero(matched & np.isin(collectives.row, inside))
    cut = cut[later[group[cut]]]
    found: dict[int, int] = {}
    for index in cut.tolist():
        found.setdefault(int(collectives.device_id[index]), int(collectives.start[index]))
    return found


def _nodes_of(graph: DependencyGraph, collectives: Collectives) -> Indices:
    """Return the node that ends each kernel of the collectives; -1 where it was not launched in the sample."""
    nodes = np.flatnonzero(graph.operation >= 0)
    rows = graph.operation[nodes]
    order = np.argsort(rows, kind="stable")
    at = np.minimum(np.searchsorted(rows[order], collectives.row), max(len(rows) - 1, 0))
    if not len(rows):
        return np.full(len(collectives.row), NONE, np.intp)
    found: Indices = np.where(rows[order][at] == collectives.row, nodes[order][at], NONE)
    return found


def _complete(collectives: Collectives, launched: Flags) -> Flags:
    """Return the kernels of collectives that all known ranks launched in the sample."""
    group = collectives.group
    matched = group >= 0
    if not matched.any():
        return matched
    absent = np.bincount(group[matched & ~launched], minlength=int(group.max()) + 1)
    found = matched.copy()
    found[matched] = absent[group[matched]] == 0
    return found


def _first_of_group(group: Indices) -> Indices:
    """Return the place of the first part of each collective; the parts are ordered by collective."""
    return np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])


def _shorten(table: Mapping[str, Times], arrivals: Indices) -> None:
    """Make the nodes of collectives their arrivals: without the length of the operation.

    They keep the operation, so that a change that removes it also removes its latency and the gap before it.
    """
    length = table["length"][arrivals]
    table["own"][arrivals] -= length
    held = table["held"][arrivals]
    table["held"][arrivals] = np.where(held > FREE, held - length, FREE)
    table["length"][arrivals] = 0


def _new_nodes(
    collectives: Collectives, parts: Indices, arrivals: Indices, first: Indices, graph: DependencyGraph
) -> dict[str, Times]:
    """Return the nodes that wait for all arrivals, then the ends of the kernels."""
    count = len(graph.after)
    is_first = np.zeros(len(parts), bool)
    is_first[first] = True
    joins = np.flatnonzero(~is_first)
    join_of = np.full(len(parts), NONE, np.intp)
    join_of[joins] = count + np.arange(len(joins))
    before = np.where(is_first[joins - 1], arrivals[joins - 1], join_of[joins - 1])
    last = np.append(first[1:], len(parts)) - 1
    of_group = np.repeat(join_of[last], np.diff(np.append(first, len(parts))))
    transfer = collectives.end[parts] - collectives.arrival[parts]
    size = len(joins) + len(parts)
    new = {name: np.zeros(size, np.int64) for name in NAMES}
    new["after"] = np.concatenate([before, of_group]).astype(np.int64)
    new["own"][len(joins) :] = transfer
    new["held_by"][: len(joins)] = arrivals[joins]
    new["held"][len(joins) :] = FREE
    new["work_start"][:] = new["work_end"][:] = graph.work_start[0]
    new["operation"][:] = new["call"][:] = NONE
    new["operation"][len(joins) :], new["length"][len(joins) :] = collectives.row[parts], transfer
    return new


def _topological(after: Indices, held_by: Indices) -> Indices:
    """Return an order in which each node comes after the two that it waits for; shorter where they form a circle."""
    count = len(after)
    nodes = np.arange(count)
    source = np.concatenate([after, held_by])
    target = np.concatenate([nodes, nodes])
    real = source != target
    source, target = source[real], target[real]
    order = np.argsort(source, kind="stable")
    follows = target[order].tolist()
    begins = np.searchsorted(source[order], np.arange(count + 1)).tolist()
    missing = np.bincount(target, minlength=count).tolist()
    found = [node for node in range(count) if not missing[node]]
    for node in found:
        for each in follows[begins[node] : begins[node + 1]]:
            missing[each] -= 1
            if not missing[each]:
                found.append(each)
    return np.array(found, np.intp)
