"""Made runs for tests and measurements of the history; pandas is not loaded, since many processes make them."""

import datetime as dt

from nsyswrap.runs.run import Account, Program, Run, RunFact, RunFinding, RunRow

MS = 1_000_000
FIRST = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STEPS = 50
IDENTITY = Program("train.py", "--epochs 1", "NVIDIA H200", 1, 1, "", "0123456789ab")


def made_run(number: int, step_ms: float = 10.0, commit: str = "", committed_s: int | None = None) -> Run:
    """Return a run of 50 steps; its number makes its id, and a later number a later start."""
    step, day = step_ms * MS, FIRST + dt.timedelta(minutes=number % 1_000_000)
    row = RunRow(
        run_id=f"{number:08x}{'e' * 56}",
        started_utc=f"{day:%Y-%m-%dT%H:%M:%S}",
        added_utc="",
        **IDENTITY._asdict(),
        commit=commit,
        committed_s=committed_s,
        is_dirty=False if commit else None,
        driver="580.159.04",
        cuda="13.0",
        torch="2.13.0",
        python="3.12.3",
        nsys="2025.3.2.0",
        nsyswrap="0.1.0",
        window=f"{STEPS} measured steps",
        window_ns=round(step * STEPS),
        verdict="The GPU starves for 40 % of the time.",
        verdict_rule="idle/data_wait",
        exit_code=0,
        wall_ns=round(step * STEPS * 2),
        folder=f"reports/train-{number}",
        step_count=STEPS,
        mean_ns=step,
        median_ns=step * 0.99,
        p05_ns=step * 0.95,
        p25_ns=step * 0.98,
        p75_ns=step * 1.01,
        p95_ns=step * 1.05,
        stddev_ns=step * 0.02,
        cpu_share=0.4,
    )
    return Run(row, f"{step_ms:064}", _accounts(step), _findings(step), _facts(number))


def _accounts(step: float) -> tuple[Account, ...]:
    parts = {"compute_ns": 0.5, "copy_exposed_ns": 0.1, "idle_ns": 0.4}
    causes = {("data_wait", "idle/data_wait", "data"): 0.3, ("cpu", "idle/cpu", "forward"): 0.06}
    idle = {**causes, ("launch", "idle/launch", "backward"): 0.04}
    ledger = (Account("ledger", name, "", "", round(step * STEPS * share)) for name, share in parts.items())
    return (*ledger, *(Account("idle", *key, round(step * STEPS * share)) for key, share in idle.items()))


def _findings(step: float) -> tuple[RunFinding, ...]:
    lost = round(step * STEPS * 0.3)
    return (
        RunFinding(
            0,
            "idle/data_wait",
            "problem",
            "The GPU waits for the data loader.",
            0,
            lost,
            lost // 2,
            lost * 3 // 4,
            lost,
        ),
        RunFinding(1, "idle/cpu", "note", "The CPU runs other code.", None, lost // 5, None, None, None),
    )


def _facts(number: int) -> tuple[RunFact, ...]:
    return (
        RunFact("launches", "launches", float(1000 + number % 7), None, "count"),
        RunFact("ledger", "busy_share", 0.6, None, "share"),
        RunFact("capture_check", "complete", None, "yes", "text"),
        RunFact("tensor_cores", "counter_share", None, None, "share"),
    )
