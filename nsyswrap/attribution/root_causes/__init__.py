"""The root causes of idle time, one file each: a file of this folder is a root cause.

A cause says what the host did while the GPU was idle. A root cause explains why. For example, the CPU works between two
launches because a copy blocked it until the GPU went idle. Or a step waits for data because its loader processes have
just been started. A root cause explains whole pieces of idle time; other pieces keep their cause as their rule::

    GPU          ####|..............gap...............|####
    T            .item()  |    cpu      |   launch    |
    cause        synchro. |    cpu      |   launch    |
    root cause   |-------- synchronization -----------|

Their places say in which order they are tried. The first one that explains a piece gets it, so no nanosecond counts
twice. The result does not depend on which findings a report prints.
"""

from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.package_modules import modules_of

ROOT_CAUSES: tuple[RootCause, ...] = tuple(
    sorted((each.ROOT_CAUSE for each in modules_of(__name__, __path__)), key=lambda each: each.place)
)
