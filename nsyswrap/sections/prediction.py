"""How well the model behind all gains reproduces what was measured, before it changes anything."""

from nsyswrap import tables, units
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.what_if.dependency_graph import TOLERANCE, Replay

TITLE = "Can gains be predicted?"


def run(context: TraceContext, window: Window) -> Section:
    """Return how long the stretch takes when it is replayed unchanged, and whether gains may be told from it."""
    replay = context.replay(window)
    what, parts = ("step", replay.steps) if replay.steps else ("stretch", 1)
    replayed = None if replay.replayed_ns is None else round(replay.replayed_ns / parts)
    return Section(
        key="replay",
        title=TITLE,
        window=window,
        facts=(
            Fact("predicts", "yes" if replay.predicts else "no", "text"),
            Fact(f"replayed_{what}_ns", replayed, "ns"),
            Fact(f"measured_{what}_ns", round(replay.measured_ns / parts), "ns"),
            Fact("replay_error_share", replay.error_share, "share"),
            Fact("replayed_operations", len(replay.operations), "count"),
        ),
        notes=(_note(replay),),
    )


def _note(replay: Replay) -> str:
    """Return in words what was replayed and what follows for gains."""
    where = replay.stretch.label
    if replay.obstacle:
        return f"The replay cannot predict this run, so findings give no gain: {replay.obstacle}. Replayed: {where}."
    off = units.share(abs(replay.error_share or 0))
    if not replay.predicts:
        return (
            f"The replay cannot predict this run, so findings give no gain: it is off by {off}, more than "
            f"{units.share(TOLERANCE)}. Replayed: {where}."
        )
    return f"Gains follow from a replay that is off by {off} before anything is changed. Replayed: {where}."


SECTION = SectionSpec("replay", TITLE, (tables.CALLS,), run, of_operations=True, of_gains=True)
