"""The short page: small whatever the report holds, with a name and a last sentence of the caller."""

import re
from dataclasses import replace

import hand_made
import pandas as pd
from real_captures import RealReport, of_captures

from nsyswrap.render import documents, html_writer, report_document


def test_the_slim_page_of_many_gpus_and_findings_stays_small() -> None:
    """It shows two GPUs and three findings; 60 kB fit into a mail."""
    report = hand_made.full_report()
    tables = {}
    for key, name in (("ledger", "devices"), ("idle", "attribution")):
        section = report.section(key)
        assert section is not None
        tables[key] = {name: pd.concat([section.tables[name].assign(device_id=number) for number in range(64)])}
    sections = tuple(replace(one, tables={**one.tables, **tables.get(one.key, {})}) for one in report.sections)
    gpus = tuple(replace(report.gpus[0], device_id=number) for number in range(64))
    report, first = replace(report, gpus=gpus, sections=sections), report.findings[0]
    many = tuple(replace(first, rule=f"idle/rule_{number}") for number in range(30))
    slim = documents.render("report", "slim", replace(report, findings=many))
    assert "27 more findings, 62 more GPUs, the timeline" in slim
    assert len(slim.encode()) < 60_000


@of_captures(["ranks/loader", "ranks/tensor_parallel", "ddp_2gpu_slow_links", "cnn_amp"], few={"ranks/loader"})
def test_the_slim_page_of_a_real_capture_is_small_and_names_each_fill_that_it_uses(
    name: str, real_report: RealReport
) -> None:
    slim = documents.render("report", "slim", real_report(name))
    assert len(slim.encode()) < 60_000
    assert set(re.findall(r"url\(#([\w-]+)\)", slim)) <= set(re.findall(r'<pattern id="([\w-]+)"', slim))


def test_the_slim_page_takes_a_name_and_a_last_sentence() -> None:
    document = report_document.document(hand_made.full_report())
    slim = html_writer.write(replace(document, page_title="a <case>", closing="More is <there>."), form="slim")
    assert "<h1><bdi>a &lt;case&gt;</bdi></h1>" in slim
    assert "More is &lt;there&gt;." in slim
    assert "This is the short form" not in slim
