"""`nsyswrap verify-tensor-cores`: do the kernels do what their names say? Ask the hardware."""

import sys
from pathlib import Path

import click

from nsyswrap.cli.capture_inputs import kernel_rules_option
from nsyswrap.cli.tensor_check import Request, check_targets, exit_code, learned_text, measured, save
from nsyswrap.cli.writing import check_not_read, write_result

LAUNCHES = 200


@click.command("verify-tensor-cores", context_settings={"allow_interspersed_args": False})
@click.option(
    "--capture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A capture of this very command, from which kernels are chosen.  [default: one is made first]",
)
@click.option(
    "--launches",
    type=click.IntRange(min=1),
    default=LAUNCHES,
    show_default=True,
    help="Measure at most so many launches; each costs some milliseconds to seconds.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="End each run of the program after S s."
)
@kernel_rules_option
@click.option(
    "--save-rules",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what was learnt as a file for --kernel-rules.",
)
@click.option(
    "--save-counters",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write all that was counted, one row a launch, as ncu's own CSV.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Form of the result.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@click.option("-f", "--force", is_flag=True, help="Replace files that are there.")
@click.option("--python", metavar="PROGRAM", help="Python that runs SCRIPT.py.  [default: the active environment's]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT.py [ARGS]...")
def verify_tensor_cores(  # noqa: PLR0913 - one argument an option
    *,
    command: tuple[str, ...],
    capture: Path | None,
    launches: int,
    timeout: float | None,
    kernel_rules: tuple[Path, ...],
    save_rules: Path | None,
    save_counters: Path | None,
    form: str,
    output: Path | None,
    force: bool,
    python: str | None,
) -> None:
    """Run SCRIPT.py, or a command after --, under Nsight Compute and check what kernel names say of tensor cores.

    Kernels are chosen from a capture: those whose name says nothing first, then the dearest. A few launches of each
    are measured, which slows the program down. Clocks are left alone.

    \b
      nsyswrap verify-tensor-cores train.py --steps 3
      nsyswrap verify-tensor-cores --save-rules learnt.json -- python -m train
      nsyswrap report --kernel-rules learnt.json capture.nsys-rep

    Exit code 1 if a kernel above 0.1 % of kernel time is named wrongly, 3 if nothing could be measured.
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.render.agreement_view import FORMS  # noqa: PLC0415 - loads pandas

    check_targets([output, save_rules, save_counters], force=force)
    for file in (output, save_rules, save_counters):
        check_not_read(file, capture, *([] if file is save_rules else kernel_rules))
    found = measured(Request(command, capture, launches, timeout, kernel_rules, python))
    write_result(FORMS[form](found), output, force=force)
    save(save_counters, found.counters, force=force)
    save(save_rules, learned_text(found), force=force)
    sys.exit(exit_code(found.agreement))
