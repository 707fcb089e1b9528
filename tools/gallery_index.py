# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""The page reports/index.html: one card for each committed result; `make gallery` and `make reports` write it."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from gallery_cases import CLAIMS, Claim
from gallery_page import cells, machines, tensor_share
from gallery_results import GALLERY, REPORT, Result

# Rows of the ledger in order, with their colours.
PARTS = {
    "compute_ns": ("compute", "var(--compute)"),
    "communication_wait_ns": ("waiting for other ranks", "var(--wait)"),
    "communication_transfer_ns": ("communication", "var(--communication)"),
    "copy_exposed_ns": ("copies", "var(--copy)"),
    "memset_exposed_ns": ("memsets", "var(--memset)"),
    "idle_ns": ("idle", "var(--idle)"),
}
STYLE = """
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4;
  --link: #0757b8;
  --compute: #0054a9; --communication: #873267; --wait: #b26a98; --copy: #604900; --memset: #808080; --idle: #ff5f1b; }
@media (prefers-color-scheme: dark) { :root { --ground: #0f1317; --card: #181d23; --ink: #e6e9ec; --soft: #a0a9b2;
  --line: #303841; --link: #80b3ff; --compute: #2f8df0; --communication: #c982b3; --wait: #8f5b80; --copy: #ffd81b;
  --memset: #8a8f98; --idle: #f38730; } }
* { box-sizing: border-box; }
body { background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 80rem; padding: 2rem 1.25rem 4rem; }
a { color: var(--link); text-underline-offset: .15em; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { border-bottom: 1px solid var(--line); font-size: 1.2rem; margin: 2.4rem 0 1rem; padding-bottom: .3rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 46rem; } .soft { color: var(--soft); font-size: .875rem; }
section > div { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
article { background: var(--card); border: 1px solid var(--line); border-radius: 8px; display: flex;
  flex-direction: column; padding: 1rem; }
article p { font-size: .9rem; } article .links { margin-top: auto; padding-top: .4rem; }
code { color: var(--soft); display: block; font: .78rem/1.4 ui-monospace, monospace; margin: .15rem 0 .7rem;
  overflow-wrap: anywhere; }
var { font-style: normal; font-weight: 600; }
code span { display: inline-block; max-width: 100%; }
.bar { background: var(--idle); border-radius: 4px; display: flex; height: 1rem; overflow: hidden; }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; list-style: none; margin: 1rem 0 0; padding: 0; }
.key i { border-radius: 3px; display: inline-block; height: .8rem; margin-right: .4rem; vertical-align: -1px;
  width: .8rem; }
dl { display: grid; gap: 0 1rem; grid-template-columns: repeat(4, auto); margin: .7rem 0 .2rem; }
dt { color: var(--soft); font-size: .75rem; grid-row: 1; } dd { font-weight: 600; grid-row: 2; margin: 0; }
dd { font-size: .9rem; font-variant-numeric: tabular-nums; }
"""
BEFORE = """The cases were profiled and judged by nsyswrap before report.json version 2. In report.json only names and
terms were converted; values and the order of findings were kept. Each report.html is the page of that time."""
FILES = (("report.html", "report"), (REPORT, "report.json"), ("capture.nsys-rep", "capture for Nsight Systems"))


def page(found: Sequence[Result], folder: Path = GALLERY) -> str:
    """Return the whole page; its links are relative to reports/ and lead to files that exist."""
    key = "".join(f'<li><i style="background:{colour}"></i>{name}</li>' for name, colour in PARTS.values())
    by_name = {each.case.name: each for each in found}
    parts = [_part(claim, by_name, folder) for claim in CLAIMS]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>nsyswrap: gallery</title><style>{STYLE}</style></head>
<body><header><h1>Gallery</h1>
<p>Reports of cases of the literature on an NVIDIA GPU: the verdict, where the GPU's time went, and the share of kernel
time on tensor cores. This page is made from the <var>report.json</var> of each case. Some cases also have the whole
report for a browser, and the capture for Nsight Systems.</p>
<p class="soft">{BEFORE}</p>
<p class="soft">{html.escape(machines(found))}</p>
<p><a href="../docs/results.md">Our figures and the published ones</a> ·
<a href="../docs/tutorial.md">A tutorial</a> · <a href="samples/README.md">Samples</a></p>
<ul class="key">{key}</ul></header>
<main>
{"".join(parts) or "<p>No results yet: make gallery.</p>"}
</main></body></html>
"""


def _part(claim: Claim, by_name: Mapping[str, Result], folder: Path) -> str:
    """Return the cards of a claim; a case of two claims is shown at the first."""
    first = {name: each.title for each in reversed(CLAIMS) for name in each.cases}
    cards = [_card(by_name[name], folder) for name in claim.cases if name in by_name and first[name] == claim.title]
    joined = "\n".join(cards)
    return f"<section><h2>{html.escape(claim.title)}</h2>\n<div>{joined}</div></section>\n" if cards else ""


def _card(result: Result, folder: Path) -> str:
    case = result.case
    words = (f"{case.program}.py", *case.options.split())
    # An option is not broken between its dashes and its name.
    command = " ".join(f"<span>{html.escape(word)}</span>" for word in words)
    verdict = str(result.report.get("verdict") or "No verdict.").replace(" %", "\N{NO-BREAK SPACE}%")
    links = " · ".join(
        f'<a href="gallery/{case.name}/{name}">{text}</a>'
        for name, text in FILES
        if (folder / case.name / name).exists()
    )
    _, step, _, kernels, busy, *_ = cells(result)
    figures = (("step", f"{step} ms"), ("kernels", f"{kernels} ms"), ("busy", busy), ("tensor", tensor_share(result)))
    shown = "".join(f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" for name, value in figures)
    return f"""<article id="{case.name}"><h3>{html.escape(case.name)}</h3>
<code>{command}</code>
{_bar(result)}
<dl>{shown}</dl>
<p>{html.escape(verdict)}</p>
<p class="links">{links}</p></article>"""


def _bar(result: Result) -> str:
    ledger = result.ledger
    window = max(ledger.get("window_ns", 0), 1)
    shares = {name: ledger.get(name, 0) / window for name in PARTS}
    label = ", ".join(f"{PARTS[name][0]} {share:.1%}" for name, share in shares.items() if share)
    spans = "".join(
        f'<span style="width:{share:.3%};background:{PARTS[name][1]}"></span>'
        for name, share in shares.items()
        if share
    )
    return f'<div class="bar" role="img" aria-label="{label}" title="{label}">{spans}</div>'
