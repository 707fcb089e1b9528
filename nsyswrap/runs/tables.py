"""The tables of the history, with a description of each column. `migrations` makes them; a test compares both."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    and_,
    or_,
    true,
)

from nsyswrap.runs.run import Account, Program, RunFact, RunFinding, RunRow

# The newest migration.
HEAD = "0002"

METADATA = MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("run_id", String(64), nullable=False, unique=True, doc="id of the run"),
    Column("content", String(64), nullable=False),
    Column("started_utc", Text, nullable=False, doc="start of the capture in UTC; empty if unknown"),
    Column("added_utc", Text, nullable=False, doc="when it was added, in UTC"),
    Column("program", Text, nullable=False, doc="the script, or the program where there is none"),
    Column("arguments", Text, nullable=False, doc="the other words of the command"),
    Column("gpu", Text, nullable=False, doc="name of the GPUs; empty without a GPU"),
    Column("gpu_count", Integer, nullable=False, doc="GPUs that ran something"),
    Column("ranks", Integer, nullable=False, doc="ranks of the job"),
    Column("rank", Text, nullable=False, doc="the rank that the report is about; empty for all"),
    Column("host", Text, nullable=False, doc="kind of the machine: processor, cores, memory; empty if unknown"),
    Column("commit", Text, nullable=False, doc="git commit of the program; empty if unknown"),
    Column("committed_s", BigInteger, doc="when it was committed, seconds since 1970; missing if unknown"),
    Column("is_dirty", Boolean, doc="whether tracked files differed from the commit; missing if unknown"),
    Column("driver", Text, nullable=False, doc="version of the NVIDIA driver"),
    Column("cuda", Text, nullable=False, doc="CUDA version that the driver supports"),
    Column("torch", Text, nullable=False, doc="version of torch"),
    Column("python", Text, nullable=False, doc="version of Python"),
    Column("nsys", Text, nullable=False, doc="version of nsys"),
    Column("nsyswrap", Text, nullable=False, doc="version of nsyswrap"),
    Column("window", Text, nullable=False, doc="label of the report's window"),
    Column("window_ns", BigInteger, nullable=False, doc="length of the window, ns"),
    Column("verdict", Text, nullable=False, doc="verdict of the report"),
    Column("verdict_rule", Text, nullable=False, doc="rule of its first finding; empty without one"),
    Column("exit_code", Integer, doc="exit code of the program; missing if unknown"),
    Column("wall_ns", BigInteger, doc="time that the program took, ns; missing if unknown"),
    Column("folder", Text, nullable=False, doc="folder of the report inside the project; empty where it is elsewhere"),
    Column("step_count", Integer, nullable=False, doc="measured steps; 0 without steps"),
    Column("mean_ns", Double, doc="time per step, start to start, ns"),
    Column("median_ns", Double, doc="median length of the steps, ns"),
    Column("p05_ns", Double, doc="5 % of the steps are at most so long, ns"),
    Column("p25_ns", Double, doc="25 % of the steps are at most so long, ns"),
    Column("p75_ns", Double, doc="75 % of the steps are at most so long, ns"),
    Column("p95_ns", Double, doc="95 % of the steps are at most so long, ns"),
    Column("stddev_ns", Double, doc="standard deviation of the lengths of the steps, ns"),
    Column("cpu_share", Double, doc="share of the time in which no kernel runs"),
    Index("runs_by_start", "started_utc", "run_id"),
    Index("runs_by_program", "program", "started_utc"),
)


def _of_run() -> Column[int]:
    """Return the column that says which run a row belongs to; the rows go when the run goes."""
    return Column("number", Integer, ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True)


# SQLite keeps these rows in the order of their keys, so those of one run lie side by side.
ACCOUNTS = Table(
    "accounts",
    METADATA,
    _of_run(),
    Column("kind", Text, primary_key=True, doc="ledger, idle or wait"),
    Column("name", Text, primary_key=True, doc="row of the ledger, cause of idle time, or the late rank"),
    Column("rule", Text, primary_key=True, doc="rule of the finding it belongs to; empty in the ledger"),
    Column("phase", Text, primary_key=True, doc="phase; empty in the ledger"),
    Column("total_ns", BigInteger, nullable=False, doc="time in the window, sum over GPUs, ns"),
    sqlite_with_rowid=False,
)

_WINDOW = "in the window, ns; missing without a prediction"
FINDINGS = Table(
    "findings",
    METADATA,
    _of_run(),
    Column("position", SmallInteger, primary_key=True, autoincrement=False, doc="0 for the first of the report"),
    Column("rule", Text, nullable=False, doc="rule of the finding"),
    Column("severity", Text, nullable=False, doc="note, warning or problem"),
    Column("headline", Text, nullable=False, doc="what is wrong"),
    Column("device_id", BigInteger, doc="its GPU; missing for all"),
    Column("lost_ns", BigInteger, nullable=False, doc="time lost in the window, ns"),
    Column("saving_low_ns", BigInteger, doc=f"least predicted saving {_WINDOW}"),
    Column("saving_high_ns", BigInteger, doc=f"largest predicted saving {_WINDOW}"),
    Column("saving_point_ns", BigInteger, doc=f"predicted saving {_WINDOW}"),
    sqlite_with_rowid=False,
)

FACTS = Table(
    "facts",
    METADATA,
    _of_run(),
    Column("section", Text, primary_key=True, doc="key of the section"),
    Column("label", Text, primary_key=True, doc="label of the fact"),
    Column("value", Double, doc="its number; missing for a text"),
    Column("text", Text, doc="its text; missing for a number"),
    Column("unit", Text, nullable=False, doc="ns, share, count, bytes or text"),
    sqlite_with_rowid=False,
)

RUN_COLUMNS = tuple(RUNS.c[name] for name in RunRow._fields)
ACCOUNT_COLUMNS = tuple(ACCOUNTS.c[name] for name in Account._fields[:-1])
FINDING_COLUMNS = tuple(FINDINGS.c[name] for name in RunFinding._fields[:-1])
FACT_COLUMNS = tuple(FACTS.c[name] for name in RunFact._fields)


def is_of(program: Program | None) -> ColumnElement[bool]:
    """Return the condition that a run is of a program."""
    if program is None:
        return true()
    named = or_(RUNS.c.program == program.program, RUNS.c.program.endswith(f"/{program.program}", autoescape=True))
    given = {name: value for name, value in program._asdict().items() if name != "program" and value is not None}
    return and_(named if program.program else true(), *(RUNS.c[name] == value for name, value in given.items()))
