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

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.mpi_collectives import MpiCollectives
from nsyswrap.what_if.cpu_nodes import MEET, MET, HostNodes
from nsyswrap.what_if.dependency_graph import FREE, DependencyGraph

# The columns of numbers of a graph.
NAMES = (
    *("after", "own", "held_by", "held", "thread", "work_start", "work_end", "moment", "operation", "length", "call"),
)
NONE = -1
Flags = npt.NDArray[np.bool_]


def across_ranks(graph: DependencyGraph, collectives: Collectives) -> DependencyGraph:
    """Return the graph with the dependencies between ranks.

    A collective whose ranks did not all launch it in the sample stays as measured.
    """
    node = _nodes_of(graph, collectives)
    inside = _complete(collectives.group, node >= 0)
    if not inside.any():
        return graph
    parts = np.flatnonzero(inside)
    parts = parts[np.argsort(collectives.group[parts], kind="stable")]
    table = {name: getattr(graph, name).copy() for name in NAMES}
    is_end = graph.is_end.copy()
    arrivals, first = node[parts], _first_of_group(collectives.group[parts])
    # They keep the operation, so that a change that removes it also removes its latency and the gap before it.
    length = table["length"][arrivals]
    table["own"][arrivals] -= length
    held = table["held"][arrivals]
    table["held"][arrivals] = np.where(held > FREE, held - length, FREE)
    table["length"][arrivals] = 0
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
    return _in_order(whole, batch, ends) or graph


def across_hosts(
    graph: DependencyGraph, nodes: HostNodes, places: Indices, collectives: MpiCollectives
) -> DependencyGraph:
    """Return the graph in which a collective of MPI returns when all ranks have begun it and what then follows is over.

    One that some rank began outside the sample stays as measured, and so does one in which its thread launches or
    waits for its GPU.

    Args:
        graph: The graph of all processes, in which each call of MPI lasts as measured.
        nodes: Moments of the host.
        places: Index in the graph of each of them.
        collectives: The calls of MPI that are one collective.
    """
    begun, returned = _met(nodes, collectives)
    inside = _complete(collectives.group, returned >= 0)
    parts = np.flatnonzero(inside)
    if not len(parts):
        return graph
    parts = parts[np.argsort(collectives.group[parts], kind="stable")]
    arrivals, ends = places[begun[parts]], places[returned[parts]]
    first = _first_of_group(collectives.group[parts])
    join_of, new = _joins(graph, arrivals, first)
    whole = {name: np.concatenate([getattr(graph, name), new[name]]) for name in NAMES}
    whole["after"][ends] = join_of
    whole["own"][ends] = collectives.end[parts] - collectives.arrival[parts]
    whole["work_start"][ends], whole["work_end"][ends] = collectives.arrival[parts], collectives.end[parts]
    none = np.zeros(len(new["after"]), bool)
    return _in_order(whole, np.append(graph.is_batch, none), np.append(graph.is_end, none)) or graph


def _met(nodes: HostNodes, collectives: MpiCollectives) -> tuple[Indices, Indices]:
    """Return the moments at which each call of a collective begins and returns; -1 for one that stays as measured."""
    place = {
        (kind, thread, moment): at
        for at, (kind, thread, moment) in enumerate(
            zip(nodes.kind.tolist(), nodes.thread.tolist(), nodes.moment.tolist(), strict=True)
        )
        if kind in {MEET, MET}
    }
    times = (collectives.thread.tolist(), collectives.start.tolist(), collectives.end.tolist())
    found = np.full((2, len(times[0])), NONE, np.intp)
    for at, (thread, start, end) in enumerate(zip(*times, strict=True)):
        begun, returned = place.get((MEET, thread, start), NONE), place.get((MET, thread, end), NONE)
        if begun >= 0 and returned >= 0 and nodes.after[returned] == begun:
            found[:, at] = begun, returned
    return found[0], found[1]


def _in_order(whole: Mapping[str, Times], is_batch: Flags, is_end: Flags) -> DependencyGraph | None:
    """Return the graph of some nodes, each after those that it waits for; None where they wait in a circle."""
    order = _topological(whole["after"], whole["held_by"])
    if len(order) < len(is_end):
        return None
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    columns = {**whole, "after": place[whole["after"]], "held_by": place[whole["held_by"]]}
    return DependencyGraph(
        **{name: columns[name][order] for name in NAMES}, is_batch=is_batch[order], is_end=is_end[order]
    )


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


def _complete(group: Indices, launched: Flags) -> Flags:
    """Return the parts of collectives that all known ranks launched in the sample.

    Args:
        group: Number of the collective of each part; -1 for none.
        launched: Whether it was launched in the sample.
    """
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


def _new_nodes(
    collectives: Collectives, parts: Indices, arrivals: Indices, first: Indices, graph: DependencyGraph
) -> dict[str, Times]:
    """Return the nodes that wait for all arrivals, then the ends of the kernels."""
    of_group, joins = _joins(graph, arrivals, first)
    transfer = collectives.end[parts] - collectives.arrival[parts]
    ends = _empty_nodes(graph, len(parts))
    ends["after"], ends["own"], ends["held"] = of_group, transfer, np.full(len(parts), FREE)
    ends["operation"], ends["length"] = collectives.row[parts], transfer
    return {name: np.concatenate([joins[name], ends[name]]) for name in NAMES}


def _joins(graph: DependencyGraph, arrivals: Indices, first: Indices) -> tuple[Indices, dict[str, Times]]:
    """Return the node at which all ranks have arrived, for each part of a collective, and the new nodes up to it.

    Args:
        graph: The graph, whose last node the new ones follow.
        arrivals: The node at which the rank of each part arrives; the parts are ordered by collective.
        first: Place of the first part of each collective.
    """
    is_first = np.zeros(len(arrivals), bool)
    is_first[first] = True
    joins = np.flatnonzero(~is_first)
    join_of = np.full(len(arrivals), NONE, np.intp)
    join_of[joins] = len(graph.after) + np.arange(len(joins))
    last = np.append(first[1:], len(arrivals)) - 1
    new = _empty_nodes(graph, len(joins))
    new["after"] = np.where(is_first[joins - 1], arrivals[joins - 1], join_of[joins - 1]).astype(np.int64)
    new["held_by"] = arrivals[joins].astype(np.int64)
    of_group: Indices = np.repeat(join_of[last], np.diff(np.append(first, len(arrivals))))
    return of_group, new


def _empty_nodes(graph: DependencyGraph, count: int) -> dict[str, Times]:
    """Return nodes without work, operation and call."""
    new = {name: np.zeros(count, np.int64) for name in NAMES}
    new["work_start"][:] = new["work_end"][:] = new["moment"][:] = graph.work_start[0]
    new["operation"][:] = new["call"][:] = NONE
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
