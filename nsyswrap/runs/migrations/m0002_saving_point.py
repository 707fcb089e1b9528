"""The estimate of a saving beside its range: the middle of it in rows that have none, as the reports sorted by it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column and fill it."""
    op.add_column("findings", sa.Column("saving_point_ns", sa.BigInteger))
    op.execute("UPDATE findings SET saving_point_ns = saving_low_ns + (saving_high_ns - saving_low_ns) / 2")
