"""The prediction error: how well the simulation behind all savings reproduces what was measured."""

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.what_if.simulate import TOLERANCE, Simulation


def run(window: Window, simulation: Simulation) -> Section:
    """Return the simulated and the measured length of the sample, and whether savings are predicted from it."""
    what, parts = ("step", simulation.steps) if simulation.steps else ("sample", 1)
    simulated = None if simulation.simulated_ns is None else round(simulation.simulated_ns / parts)
    return SECTION.made(
        window,
        facts=(
            Fact("predicts", "yes" if simulation.predicts else "no", "text"),
            Fact(f"simulated_{what}_ns", simulated, "ns"),
            Fact(f"measured_{what}_ns", round(simulation.measured_ns / parts), "ns"),
            Fact("prediction_error_share", simulation.error_share, "share"),
            Fact("simulated_operations", len(simulation.operations), "count"),
        ),
        notes=(_note(simulation),),
    )


def _note(simulation: Simulation) -> str:
    """Return in words what was simulated and what follows for savings."""
    where = simulation.sample.label
    if simulation.failure:
        return f"No saving is predicted: {simulation.failure}. Simulated: {where}."
    error = units.share(abs(simulation.error_share or 0))
    if not simulation.predicts:
        return (
            f"No saving is predicted: the simulation differs from the measured time by {error}, more than "
            f"{units.share(TOLERANCE)}. Simulated: {where}."
        )
    simulated, measured = units.duration(simulation.simulated_ns or 0), units.duration(simulation.measured_ns)
    same = f"The simulation of {where} takes {simulated}"
    return f"{same}, as recorded." if simulated == measured else f"{same}. Recorded: {measured}."


SECTION = SectionSpec(
    key="prediction",
    title="Prediction error",
    run=run,
    needs=(tables.CALLS,),
    of_operations=True,
    place=250,
    group=PageGroup.ABOUT,
)
