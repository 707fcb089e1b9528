"""Products of matrices on a kernel that was made for an older GPU, or that loads little at once, though sizes are fine.

Sizes that forbid full loads have a finding of their own. What is left is mostly memory that begins beside a place for a
full load: a slice without the first column keeps the rows' distance, and moves each row by one element::

    table[:, 1:]    |x...............|................|      the first element of a row is no multiple of 16 bytes

A library may also choose such a kernel where it expects no other to be faster, so then nothing is sure to be saved.
"""

from functools import partial

import numpy as np

from nsyswrap.base import units
from nsyswrap.model import Finding
from nsyswrap.operators.peak import ALIGNMENT, OLDER, find_rates
from nsyswrap.operators.work import plain
from nsyswrap.rules import compute
from nsyswrap.sections.compute.attention_by_parts import by_parts
from nsyswrap.sections.compute.misaligned import PRODUCTS, aligned, odd_sizes, paces
from nsyswrap.sections.compute.operator_kernels import OperatorWindow, of_calls
from nsyswrap.sections.places import LISTED


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where such products take enough of the window."""
    context, joined = found.context, found.joined
    rates = find_rates(context, joined)
    fine = of_calls(joined, lambda call: plain(call.name) in PRODUCTS and not odd_sizes(call))
    beside = rates.accounts[ALIGNMENT] > 0
    slow = joined.exact & fine & ~by_parts(joined) & (beside | (rates.accounts[OLDER] > 0))
    is_sliced = bool((slow & beside).any())
    code = context.kernel_names.code[joined.rows[slow]]
    named_kernels = {context.kernel_names.kinds[each].name for each in np.unique(code).tolist()}
    factors = paces(joined, rates, slow, [{}] * len(joined.calls))
    return found.finding(
        compute.OLDER_KERNEL,
        slow,
        partial(aligned, joined, slow, factors, or_nothing=not is_sliced),
        case=compute.OLDER_KERNEL.cases[0] if is_sliced else None,
        evidence=(
            *(f"{each} on {context.trace.gpus[0].name}" for each in sorted(named_kernels)[:LISTED]),
            f"{units.duration(int(joined.own_ns[slow & beside].sum()))} of it in kernels that load fewer than 16 bytes",
        ),
        is_usual=not is_sliced,
    )
