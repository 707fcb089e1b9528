"""Work of the host that nsyswrap marks in the program: garbage collection, checkpoints and tokenizers.

The marks are ranges of the NVTX domain of ``--annotate``. Their texts are not phases. They say what the CPU did inside
a phase, and which line called it: "torch.save at train.py:88".
"""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Spans, merge
from nsyswrap.events import api_calls
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array

AT = " at "
COLLECTION, TOKENIZER = "garbage collection", "tokenizer"
CHECKPOINTS = (
    *("torch.save", "torch.load", "safetensors.save_file", "safetensors.load_file"),
    *("torch.distributed.checkpoint.save", "torch.distributed.checkpoint.load"),
    *("Accelerator.save_state", "Accelerator.load_state", "Trainer._save_checkpoint", "Trainer.save_checkpoint"),
)
KINDS: Mapping[str, int] = MappingProxyType(
    {
        COLLECTION: api_calls.GARBAGE_COLLECTION,
        TOKENIZER: api_calls.TOKENIZER,
        **dict.fromkeys(CHECKPOINTS, api_calls.CHECKPOINT),
    }
)
"""The kind of each mark, by its text without the line."""

_COLUMNS = ["start", "end", "thread"]
_TYPES = {"start": "int64", "end": "int64", "thread": "int64", "text": "str", "kind": "int64"}


def find_marks(trace: Trace) -> pd.DataFrame:
    """Return the marks with columns start, end, thread, text and kind, in order of start."""
    ranges = trace[tables.RANGES]
    ours = injected(ranges)
    # A capture without marks may have many texts.
    names = ranges["text"].cat.categories.tolist() if ours.any() else []
    kinds = np.array([KINDS.get(str(each).split(AT)[0], -1) for each in names], np.int64)
    if not (kinds >= 0).any():
        return _none()
    kind = kinds[ranges["text"].cat.codes.to_numpy()]
    rows = np.flatnonzero((kind >= 0) & ours)
    return ranges.iloc[rows][_COLUMNS].assign(text=ranges["text"].iloc[rows].astype(str), kind=kind[rows])


def injected(ranges: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each range whether nsyswrap put it into the program."""
    return tables.rows_where(ranges["domain"], tables.OWN_DOMAIN.__eq__)


@cache
def _none() -> pd.DataFrame:
    """Return the marks of a trace that has none."""
    return pd.DataFrame({name: pd.Series([], dtype=of) for name, of in _TYPES.items()})


def spans_of(marks: pd.DataFrame, thread: int, kinds: Iterable[int]) -> Spans:
    """Return when marks of some kinds are open on a thread."""
    mine = np.flatnonzero((array(marks, "thread") == thread) & np.isin(array(marks, "kind"), list(kinds)))
    return merge(array(marks, "start")[mine], array(marks, "end")[mine])
