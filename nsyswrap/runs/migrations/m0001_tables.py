"""The first tables: runs with their accounts, findings and facts.

Written out, not taken from `tables`: what a migration does never changes.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    texts = ("started_utc", "added_utc", "program", "arguments", "gpu")
    versions = ("driver", "cuda", "torch", "python", "nsys", "nsyswrap", "window")
    steps = ("mean_ns", "median_ns", "p05_ns", "p25_ns", "p75_ns", "p95_ns", "stddev_ns", "cpu_share")
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.String(64), nullable=False, unique=True),
        sa.Column("content", sa.String(64), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        sa.Column("gpu_count", sa.Integer, nullable=False),
        sa.Column("ranks", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("rank", "host", "commit")),
        sa.Column("committed_s", sa.BigInteger),
        sa.Column("is_dirty", sa.Boolean),
        *(sa.Column(name, sa.Text, nullable=False) for name in versions),
        sa.Column("window_ns", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("verdict", "verdict_rule")),
        sa.Column("exit_code", sa.Integer),
        sa.Column("wall_ns", sa.BigInteger),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("step_count", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Double) for name in steps),
    )
    op.create_index("runs_by_start", "runs", ["started_utc", "run_id"])
    op.create_index("runs_by_program", "runs", ["program", "started_utc"])
    _make_rows(
        "accounts",
        *(sa.Column(name, sa.Text, primary_key=True) for name in ("kind", "name", "rule", "phase")),
        sa.Column("total_ns", sa.BigInteger, nullable=False),
    )
    _make_rows(
        "findings",
        sa.Column("position", sa.SmallInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("rule", "severity", "headline")),
        sa.Column("device_id", sa.BigInteger),
        sa.Column("lost_ns", sa.BigInteger, nullable=False),
        sa.Column("saving_low_ns", sa.BigInteger),
        sa.Column("saving_high_ns", sa.BigInteger),
    )
    _make_rows(
        "facts",
        sa.Column("section", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, primary_key=True),
        sa.Column("value", sa.Double),
        sa.Column("text", sa.Text),
        sa.Column("unit", sa.Text, nullable=False),
    )


def _make_rows(name: str, *columns: "sa.Column[Any]") -> None:
    """Make a table of rows that belong to a run, and go with it."""
    run = sa.Column("number", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True)
    op.create_table(name, run, *columns, sqlite_with_rowid=False)
