"""What the names of the kernels say, each name on each GPU classified once for all who read it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import Operations
from nsyswrap.hardware.kernel_names.classify import Capability, Classification, classify
from nsyswrap.hardware.kernel_names.user_rules import NameRule
from nsyswrap.hardware.tensor_cores import has_tensor_cores
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, coded


@dataclass(frozen=True, slots=True)
class KernelNames:
    """The classified names of the kernels of a trace.

    Attributes:
        kinds: Classification of each distinct name on each GPU, in order of its first kernel.
        capability: Compute capability of the GPU of each kind; None where it is unknown.
        code: Index into ``kinds`` of each operation, shape (operations,), int32; -1 for those that are no kernels.
    """

    kinds: Sequence[Classification]
    capability: Sequence[Capability | None]
    code: npt.NDArray[np.int32]

    def of(self, rows: Indices) -> list[Classification]:
        """Return the classification of each operation in ``rows``; all of them are kernels."""
        return [self.kinds[code] for code in self.code[rows].tolist()]

    def may_be_fused(self, rows: Indices) -> npt.NDArray[np.bool_]:
        """Return whether a compiler may fuse each operation in ``rows``, shape (rows,); all of them are kernels."""
        return np.array([each.may_be_fused for each in self.kinds], np.bool_)[self.code[rows]]


def find_kernel_names(trace: Trace, operations: Operations, learned: Sequence[NameRule] = ()) -> KernelNames:
    """Return the classified names of the kernels of a trace."""
    able = {gpu.device_id: gpu.compute_capability for gpu in trace.gpus}
    without = {gpu.device_id for gpu in trace.gpus if not has_tensor_cores(gpu.name, gpu.compute_capability)}
    rows = operations.from_table(tables.KERNELS)
    name = coded(trace[tables.KERNELS], "name_id").only(taken(operations.row, rows))
    device = taken(operations.device_id, rows)
    codes, first = tables.groups([name.codes, device])
    devices = device[first].tolist()
    capability = [able.get(each) for each in devices]
    names = [trace.text(each) for each in name[first].tolist()]
    kinds = [
        classify(text, able.get(each), learned, tensor_cores=each not in without)
        for text, each in zip(names, devices, strict=True)
    ]
    code = np.full(len(operations.start), -1, np.int32)
    code[rows] = codes
    return KernelNames(tuple(kinds), tuple(capability), code)
