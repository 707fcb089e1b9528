"""The tables of the history. `migrations` makes them; a test compares both."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)

from nsyswrap.runs.run import Account, RunFact, RunFinding, RunRow

# The newest migration.
HEAD = "0002"

METADATA = MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("run_id", String(64), nullable=False, unique=True),
    Column("content", String(64), nullable=False),
    Column("started_utc", Text, nullable=False),
    Column("added_utc", Text, nullable=False),
    Column("program", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("ranks", Integer, nullable=False),
    Column("rank", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("commit", Text, nullable=False),
    Column("committed_s", BigInteger),
    Column("is_dirty", Boolean),
    Column("driver", Text, nullable=False),
    Column("cuda", Text, nullable=False),
    Column("torch", Text, nullable=False),
    Column("python", Text, nullable=False),
    Column("nsys", Text, nullable=False),
    Column("nsyswrap", Text, nullable=False),
    Column("window", Text, nullable=False),
    Column("window_ns", BigInteger, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("verdict_rule", Text, nullable=False),
    Column("exit_code", Integer),
    Column("wall_ns", BigInteger),
    Column("folder", Text, nullable=False),
    Column("step_count", Integer, nullable=False),
    Column("mean_ns", Double),
    Column("median_ns", Double),
    Column("p05_ns", Double),
    Column("p25_ns", Double),
    Column("p75_ns", Double),
    Column("p95_ns", Double),
    Column("stddev_ns", Double),
    Column("cpu_share", Double),
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
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("phase", Text, primary_key=True),
    Column("total_ns", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

FINDINGS = Table(
    "findings",
    METADATA,
    _of_run(),
    Column("position", SmallInteger, primary_key=True, autoincrement=False),
    Column("rule", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("headline", Text, nullable=False),
    Column("device_id", BigInteger),
    Column("lost_ns", BigInteger, nullable=False),
    Column("saving_low_ns", BigInteger),
    Column("saving_high_ns", BigInteger),
    Column("saving_point_ns", BigInteger),
    sqlite_with_rowid=False,
)

FACTS = Table(
    "facts",
    METADATA,
    _of_run(),
    Column("section", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("value", Double),
    Column("text", Text),
    Column("unit", Text, nullable=False),
    sqlite_with_rowid=False,
)

RUN_COLUMNS = tuple(RUNS.c[name] for name in RunRow._fields)
ACCOUNT_COLUMNS = tuple(ACCOUNTS.c[name] for name in Account._fields[:-1])
FINDING_COLUMNS = tuple(FINDINGS.c[name] for name in RunFinding._fields[:-1])
FACT_COLUMNS = tuple(FACTS.c[name] for name in RunFact._fields)
