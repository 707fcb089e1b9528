"""Products of matrices on a kernel that was made for an older GPU, or that loads little at once, though sizes are fine.

Sizes that forbid full loads have a finding of their own. What is left is mostly memory that begins beside a place for a
full load: a slice without the first column keeps the rows' distance, and moves each row by one element::

    table[:, 1:]    |x...............|................|      the first element of a row is no multiple of 16 bytes

A library may also choose such a kernel where it expects no other to be faster, so then nothing is sure to be saved.
"""

from functools import partial

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding
from nsyswrap.operators.peak import ALIGNMENT, OLDER, find_rates
from nsyswrap.operators.work import plain
from nsyswrap.rules import compute
from nsyswrap.sections.compute.attention_by_parts import by_parts
from nsyswrap.sections.compute.kernel_groups import GroupedKernels
from nsyswrap.sections.compute.misaligned import PRODUCTS, aligned, odd_sizes, paces
from nsyswrap.sections.compute.operator_kernels import (
    costliest_places,
    find_if_costly,
    find_operators,
    named,
    of_calls,
)
from nsyswrap.sections.places import LISTED, lines_of
from nsyswrap.what_if.simulate import Simulation


def find_findings(simulation: Simulation, kernels: GroupedKernels, window: Window) -> tuple[Finding, ...]:
    """Return a finding where such products take enough of the window."""
    context = simulation.context
    joined = find_operators(context, kernels)
    if joined is None:
        return ()
    rates = find_rates(context, joined)
    fine = of_calls(joined, lambda call: plain(call.name) in PRODUCTS and not odd_sizes(call))
    beside = rates.accounts[ALIGNMENT] > 0
    slow = joined.exact & fine & ~by_parts(joined) & (beside | (rates.accounts[OLDER] > 0))
    if not slow.any():
        return ()
    places = costliest_places(joined, slow)
    is_sliced = bool((slow & beside).any())
    case = compute.OLDER_KERNEL.cases[0] if is_sliced else compute.OLDER_KERNEL
    code = context.kernel_names.code[joined.rows[slow]]
    named_kernels = {context.kernel_names.kinds[each].name for each in np.unique(code).tolist()}
    factors = paces(joined, rates, slow, [{}] * len(joined.calls))
    return find_if_costly(
        rule=compute.OLDER_KERNEL.key,
        headline=case.headline,
        words={"place": named(places)},
        lost_ns=int(joined.own_ns[slow].sum()),
        change=partial(aligned, joined, slow, factors, or_nothing=not is_sliced),
        advice=case.advice,
        evidence=(
            *lines_of(places, int(joined.own_ns[slow].sum())),
            *(f"{each} on {context.trace.gpus[0].name}" for each in sorted(named_kernels)[:LISTED]),
            f"{units.duration(int(joined.own_ns[slow & beside].sum()))} of it in kernels that load fewer than 16 bytes",
        ),
        simulation=simulation,
        kernels=kernels,
        window=window,
        is_usual=not is_sliced,
    )
