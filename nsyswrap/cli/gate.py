"""`nsyswrap gate`: tell from runs of a program whether the newest ones became slower."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import CannotTellError, UsageError
from nsyswrap.cli.compare import accept_option, origin_of, report_at
from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.cli.output import check_not_input, file_options, form_of, format_option, write_result
from nsyswrap.cli.recording import REPORT_NAME, record_beside
from nsyswrap.cli.terminal import rendered_result
from nsyswrap.cli.verdict_errors import RegressedError, verdict_errors
from nsyswrap.render.documents import FORMS

if TYPE_CHECKING:
    from nsyswrap.cli.gate_series import SeriesQuery
    from nsyswrap.gate.reports import NamedReport
    from nsyswrap.gate.timed_runs import Gate, GateOptions

AGAINST = "--against"


class _SeriesCommand(click.Command):
    """A command whose option ``--against`` takes all paths that follow it, as a shell expands them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_repeated(args)))


def _repeated(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments with ``--against`` repeated before each path after it, up to the next option."""
    after, found = False, 0
    for at, word in enumerate(args):
        if word == AGAINST:
            after, found = True, 0
            if at + 1 == len(args) or args[at + 1].startswith("-"):
                yield word
            continue
        after = after and not word.startswith("-")
        if after:
            found += 1
            yield AGAINST
        yield word


@click.command(cls=_SeriesCommand)
@click.argument("new", type=click.Path(path_type=Path), nargs=-1)
@click.option(
    AGAINST,
    "earlier",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="BASE...",
    help="The runs before: all paths up to the next option; or of the history: a range of commits, a tag or a commit.",
)
@click.option("--program", default="", help="Without NEW: the script, such as train.py; with its arguments if need be.")
@click.option("--db", metavar="URL", envvar="NSYSWRAP_DB", help="The history, as in nsyswrap history.")
@click.option(
    "--find",
    type=float,
    metavar="PERCENT",
    default=5.0,
    show_default=True,
    help="Smallest slowdown that matters. Where the noise is larger, the gate cannot tell.",
)
@click.option("--allow-one", is_flag=True, help="Decide by fewer than three new runs; slowdowns are found less often.")
@click.option("--series", default="", metavar="NAME", help="The runs of the history that were added with this name.")
@accept_option
@format_option(FORMS)
@file_options
def gate(  # noqa: PLR0913 - one argument an option
    *,
    new: tuple[Path, ...],
    earlier: tuple[Path, ...],
    program: str,
    db: str | None,
    find: float,
    allow_one: bool,
    series: str,
    accept: tuple[str, ...],
    form: str | None,
    output: Path | None,
    force: bool,
) -> None:
    """Tell whether the NEW runs are slower than the BASE runs, by more than chance.

    NEW and BASE are report.json files, folders written by profile, or folders of such folders: three or more of NEW,
    ten or more of BASE. How much the BASE runs differ shows what is chance. Where BASE is a range of commits, a tag or
    a commit, its runs come from the history. Without NEW, so do the new ones: those of the checked-out commit.

    The exit code is 0 if NEW passes, 1 if it regressed, 3 if the runs cannot tell, with a hint how many would, and 4
    where something goes wrong.

    \b
      nsyswrap gate new1 new2 new3 --against main/run-*
      nsyswrap gate reports/new --against reports/main --find 10
      nsyswrap gate new --against main/*/report.json -o gate.md
      nsyswrap gate --against main~10..
      nsyswrap gate reports/new --against v1.2
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    with verdict_errors():
        from nsyswrap.cli.gate_series import SeriesQuery, revisions_in  # noqa: PLC0415 - loads pandas
        from nsyswrap.compare.comparison import IssueKind  # noqa: PLC0415
        from nsyswrap.gate.timed_runs import GateOptions, GateOutcome  # noqa: PLC0415

        settings = GateOptions(find=find / 100, accept=frozenset(map(IssueKind, accept)), allow_one=allow_one)
        wanted = SeriesQuery(revisions_in(earlier), program, db, series)
        check_not_input(output, *runs_at(new), *(() if wanted.revisions else runs_at(earlier)))
        found = _result(earlier, new, wanted, settings)
        write_result(
            rendered_result("gate", form_of(form, output, FORMS), found, to_terminal=output is None),
            output,
            force=force,
        )
        if found.outcome is GateOutcome.REGRESSED:
            raise RegressedError("the new runs are slower", hint="see the result for what takes longer")
        if found.outcome is GateOutcome.CANNOT_TELL:
            raise CannotTellError("the runs cannot tell whether a step became slower", hint=found.hint)


def _result(earlier: Sequence[Path], new: Sequence[Path], wanted: "SeriesQuery", options: "GateOptions") -> "Gate":
    """Return the result for the runs of the history, or for reports alone."""
    from nsyswrap.cli.gate_series import gate_of_history  # noqa: PLC0415 - loads pandas
    from nsyswrap.gate.reports import gate_reports  # noqa: PLC0415

    if wanted.revisions:
        return gate_of_history(wanted, runs_at(new), options)
    if not new:
        raise UsageError("there is no new run", hint="give its report, or a range of commits with --against main~10..")
    return gate_reports(_named(runs_at(earlier)), _named(runs_at(new)), options)


def runs_at(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the paths of runs; a folder without a report of its own stands for the results in it, in order of names.

    Raises:
        UsageError: A path does not exist, or a folder holds no results.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no run at {path}", hint="give report.json files or folders written by profile")
        inside = sorted(path.glob(f"*/{REPORT_NAME}")) if path.is_dir() and not (path / REPORT_NAME).exists() else []
        if path.is_dir() and not inside and not (path / REPORT_NAME).exists():
            raise UsageError(f"{path} holds no {REPORT_NAME}", hint="give folders written by profile")
        found += [report.parent for report in inside] or [path]
    return tuple(found)


def _named(paths: Sequence[Path]) -> "tuple[NamedReport, ...]":
    from nsyswrap.gate.reports import NamedReport  # noqa: PLC0415 - loads pandas

    found = []
    for path in paths:
        git = record_beside(path if path.is_dir() else path.parent).get("git")
        known = git if isinstance(git, dict) else {}
        commit = str(known.get("commit") or "") + ("+changes" if known.get("dirty") else "")
        # Its folder names a run, since parent folders may not be shown to others.
        folder = path if path.is_dir() or path.name != REPORT_NAME else path.absolute().parent
        found.append(NamedReport(report_at(path, ReadOptions()), folder.absolute().name, commit, origin_of(path)))
    return tuple(found)
