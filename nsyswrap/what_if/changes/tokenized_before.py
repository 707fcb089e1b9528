"""The change "the text is tokenized before": the training process does not tokenize, also while its GPU works."""

from nsyswrap.base.intervals import union
from nsyswrap.events import api_calls
from nsyswrap.events.host_record import find_marks, spans_of
from nsyswrap.rules import host
from nsyswrap.what_if.affected_parts import inside_sample
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def tokenized_before(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change: no time in the marked calls of tokenizers, nor while others wait for them."""
    marks = find_marks(simulation.context.trace)
    spans = {
        thread: union(idle, inside_sample(simulation, spans_of(marks, thread, (api_calls.TOKENIZER,))))
        for thread, idle in lost.on_host(simulation).items()
    }
    return WhatIf(Change(host=spans), "no time in tokenizers")


FIXES = (Fix((host.TOKENIZER,), tokenized_before),)
