"""No text that leaves holds a secret, a user, a host or a home folder; and cleaning changes no number."""

from pathlib import Path

import pyarrow as pa
import pytest
from export_builder import ExportBuilder, trace_of
from made_secrets import COMMANDS, TEXTS, TOKENS, S
from pyarrow import csv
from savings import ends_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Report
from nsyswrap.render import FORMS, csv_report, render
from nsyswrap.render.parquet_tables import arrow_tables
from nsyswrap.render.perfetto_trace import pieces
from nsyswrap.report import report_of
from nsyswrap.timeline.event_frames import event_frames
from nsyswrap.trace.load import load_export
from nsyswrap.trace.redact import redact

TOKEN = "t0ken-of-annabella"  # noqa: S105 - planted, to be searched for
ENVIRONMENT = {
    "HOME": "/data/annabella",
    "USER": "annabella",
    "HOSTNAME": "gpubox7",
    "HF_TOKEN": TOKEN,
    "DB_PASS": "pass+word/9",
    "REDIS_URL": "redis://cacheuser:cachepass@cachehost/0",
    "SLACK_WEBHOOK": "https://hooks.example.com/T0/B0/xyz",
    "PATH": "/bin",
}
# Each must not be found in anything that leaves, also not as base64 or as part of an address.
PRIVATE = (
    *(TOKEN, "dDBrZW4tb2YtYW5uYWJlbGxh", "pass+word/9", "pass%2Bword%2F9", "cachepass", "annabella", "gpubox7"),
    *("hooks.example.com/T0/B0/xyz", "T0P", "hunter", "secondsecret"),
)


def loop(builder: ExportBuilder, names: tuple[str, ...] = ("next", "loss", "backward")) -> ExportBuilder:
    """Return twelve steps with a range for each name, and operations in them."""
    builder.gpu().session()
    for step in range(12):
        at = step * 1000
        builder.range(f"batch {step}", at, at + 1000, registered=step % 2 == 0)
        for place, name in enumerate(names):
            builder.range(name, at + 200 * place, at + 200 * (place + 1))
        builder.kernel(at + 300, at + 500 + 10 * step, "void next::gemm<float>(T*)", launched=(at + 210, at + 220))
        builder.copy(at + 700, at + 760, launched=(at + 230, at + 240))
    return builder


def leaving(path: Path, environ: dict[str, str]) -> str:
    """Return every text that leaves nsyswrap for an export: all forms of the report, and all events."""
    context = find_context(load_export(path, environ))
    report = report_of(context, with_timeline=True)
    frames = event_frames(context, report.section("idle").tables["gaps"])  # type: ignore[union-attr]
    texts = [render(form, report) for form in FORMS] + list(pieces(report, frames))
    texts += csv_report.tables(report).values()
    for table in arrow_tables(report, frames).values():
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink)
        texts.append(sink.getvalue().to_pybytes().decode("utf-8", "replace"))
    return "\n".join(texts)


def hostile() -> ExportBuilder:
    """Return a loop whose texts hold everything that is private."""
    builder = loop(ExportBuilder()).command(
        "/data/annabella/bin/python",
        *(
            "train.py",
            "--header",
            "Authorization: Bearer T0P",
            "--url",
            "https://h/?access_token=T0P&n=1",
            "-p",
            "hunter",
        ),
        *("--hf_tok=hunter", "ann:hunter@host", "--out=/data/annabella/out", f"--note={TOKEN}"),
    )
    for at, text in enumerate((*PRIVATE[:8], "read /data/annabella/x", "sk-" + "secondsecret" * 3)):
        builder.range(f"of {text} now", 2000 + at, 2100 + at, registered=at % 2 == 0)
        builder.diagnostic(f"see {text}").os_call("poll", at, at + 1).thread_name(4711 << 24 | at, f"t {text}")
    builder.domain(f"domain {TOKEN}", 1).range("of my own", 2500, 2600, domain=1)
    builder.kernel(2900, 2950, f"lambda at /data/annabella/x.cu {TOKEN}", launched=(2800, 2810))
    builder.domain("Python Periodic Sampling", 2).python_sample(2905, [("f", "/data/annabella/train.py", 3)], domain=2)
    return builder


@pytest.mark.parametrize("place", ["capture", "process"])
def test_nothing_private_leaves(tmp_path: Path, place: str) -> None:
    """The environment is in the capture, or was hidden from it and is that of this process."""
    builder = hostile()
    if place == "capture":
        builder.environment(ENVIRONMENT)
    text = leaving(builder.write(tmp_path / "x.sqlite"), {} if place == "capture" else ENVIRONMENT)
    assert [word for word in PRIVATE if word in text] == []


def test_nothing_private_is_in_a_redacted_export(tmp_path: Path) -> None:
    path = hostile().environment(ENVIRONMENT).write(tmp_path / "x.sqlite")
    redact(path, tmp_path / "y.sqlite")
    text = (tmp_path / "y.sqlite").read_bytes().decode("latin-1")
    assert [word for word in PRIVATE if word in text] == []


def test_no_known_form_of_a_secret_leaves(tmp_path: Path) -> None:
    """Neither in a text of a range, of a thread or of a message, nor in the command, with no environment to compare."""
    builder = loop(ExportBuilder()).command("/bin/x", *(word for words in COMMANDS for word in words[1:]))
    tokens = [(token, token) for tokens in TOKENS.values() for token in tokens]
    for at, (text, _) in enumerate(tokens + list(TEXTS)):
        builder.range(f"of {text} now", 2000 + at, 2100 + at, registered=at % 2 == 0)
        builder.diagnostic(f"see {text}").thread_name(4711 << 24 | at, f"t {text}")
    path = builder.write(tmp_path / "x.sqlite")
    redact(path, tmp_path / "y.sqlite")
    places = (leaving(path, {}), (tmp_path / "y.sqlite").read_bytes().decode("latin-1"))
    secrets = (*(secret for _, secret in tokens + list(TEXTS)), S)
    for text in places:
        assert [secret for secret in secrets if secret in text] == []


def numbers(report: Report) -> list[object]:
    """Return all numbers of a report: of facts, of tables in order of their rows, and of findings."""
    found: list[object] = [(each.rule, each.lost_ns, ends_of(each)[0]) for each in report.findings]
    for section in report.sections:
        found += [fact.value for fact in section.facts if fact.unit != "text"]
        for table in section.tables.values():
            # Rows of equal numbers may change places, where a text was changed.
            rows = table.select_dtypes("number").astype(object)
            found.append(sorted(map(str, rows.where(rows.notna(), None).to_numpy().tolist())))
    return found


@pytest.mark.parametrize("user", ["next", "loss", "gemm", "pictures"])
def test_no_user_changes_a_number(tmp_path: Path, user: str) -> None:
    """A user may be called like a range, or like a part of a kernel's name."""
    names = ("next", "loss", "pictures")
    plain = loop(ExportBuilder(), names).write(tmp_path / "plain.sqlite")
    owned = loop(ExportBuilder(), names).environment({"USER": user, "HOME": f"/home/{user}", "PATH": "/bin"})
    path = owned.write(tmp_path / "owned.sqlite")
    redact(path, tmp_path / "redacted.sqlite")
    expected = numbers(report_of(find_context(load_export(plain))))
    for each in (path, tmp_path / "redacted.sqlite"):
        assert numbers(report_of(find_context(load_export(each)))) == expected


def test_ranges_that_differ_in_a_secret_stay_two() -> None:
    """Merged, two loops with a secret each in their names would be one."""
    secrets = {"A_TOKEN": "first-secret", "B_TOKEN": "other-secret", "PATH": "/bin"}
    builder = loop(ExportBuilder(), ("load first-secret", "load other-secret")).environment(secrets)
    ranges = trace_of(builder).frames["ranges"]["text"]
    assert {"load ***", "load ***2"} <= set(ranges)
