# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""The page reports/index.html: one card for each committed result; `make gallery` and `make reports` write it."""

import functools
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gallery_cases import CLAIMS, Case, Claim
from gallery_figures import kernel_ns, milliseconds, percent
from gallery_page import machines, tensor_share
from gallery_results import GALLERY, REPORT, Result
from gallery_slim import CAPTURE, SLIM, judged

from nsyswrap.model import Report
from nsyswrap.render.json_reader import parse_report
from nsyswrap.rule_names import rule_name

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
  --compute: #0054a9; --communication: #873267; --wait: #b5638f; --copy: #604900; --memset: #808080;
  --idle: repeating-linear-gradient(135deg, #55616f 0 5px, #aab0b7 5px 7px); }
@media (prefers-color-scheme: dark) { :root { --ground: #0f1317; --card: #181d23; --ink: #e6e9ec; --soft: #a0a9b2;
  --line: #303841; --link: #80b3ff; --compute: #2f8df0; --communication: #c982b3; --wait: #e6c4da; --copy: #ffd81b;
  --memset: #8a8f98;
  --idle: repeating-linear-gradient(135deg, #9ba7b6 0 5px, #5b6470 5px 7px); } }
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
[hidden] { display: none !important; }
form { align-items: end; display: flex; flex-wrap: wrap; gap: .75rem 1rem; margin: 1.2rem 0 0; }
label { color: var(--soft); display: grid; font-size: .8rem; gap: .2rem; }
input, select, button { background: var(--card); border: 1px solid var(--line); border-radius: 6px; color: var(--ink);
  font: inherit; font-size: .9rem; min-height: 2.3rem; max-width: 100%; padding: .3rem .6rem; }
output { font-size: .9rem; min-height: 2.3rem; padding: .35rem 0; }
"""
# Names of the networks in programs without an option `--model`, and of that option's values.
MODELS = {
    "mnist": "CNN for digits", "bert_qa": "BERT-base", "decoding": "language model", "inference": "ResNet50",
    "image_pipeline": "image pipeline", "convolution": "one convolution", "cifar_files": "CNN",
    "mlp": "MLP", "lenet": "LeNet", "alexnet": "AlexNet", "vgg16": "VGG16", "resnet50": "ResNet50",
}  # fmt: skip
HALF = 0.5
# Groups of the tensor share.
TENSOR = {
    "none": "none", "less": "less than half", "more": "half or more", "unsure": "bounds on both sides of half",
    "unknown": "unknown",
}  # fmt: skip
BEFORE = """All were captured and analyzed on 24 November 2026. A page is made from the report.json: its numbers and
findings are those of that day; the order of findings, the verdict and the page are of today's rules. The pages marked
“of that day” have a timeline, and the rules of that day."""
FILES = (
    (SLIM, "page"),
    ("report.html", "page of that day, with timeline"),
    (REPORT, "report.json"),
    (CAPTURE, "capture for Nsight Systems"),
)
# Chooses cards. Without it all are shown.
SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


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
time on tensor cores. Each name leads to the page of the case.</p>
<p class="soft">{BEFORE} {html.escape(machines(found))}</p>
<p><a href="../docs/results.md">Our figures and the published ones</a> ·
<a href="../docs/tutorial.md">A tutorial</a> · <a href="samples/README.md">Samples</a></p>
{_form(found)}
<ul class="key">{key}</ul></header>
<main>
{"".join(parts) or "<p>No results yet: make gallery.</p>"}
</main><script>{SCRIPT}</script></body></html>
"""


def _form(found: Sequence[Result]) -> str:
    """Return the fields that choose cards; they are hidden where no script runs."""
    rules = {rule: rule_name(rule) for each in found for rule in _rules(each)}
    shares = {_tensor(each) for each in found}
    fields = (
        _field("finding", "Finding", sorted(rules.items(), key=lambda each: each[1])),
        _field("model", "Model", [(name, name) for name in sorted({model(each.case) for each in found})]),
        _field("tensor", "Tensor share", [each for each in TENSOR.items() if each[0] in shares]),
    )
    words = '<label>Words <input name="words" type="search" autocomplete="off" spellcheck="false"></label>'
    rest = '<button type="reset">Show all</button><output></output>'
    return f'<form hidden role="search" aria-label="Choose cases">{words}{"".join(fields)}{rest}</form>'


def _field(name: str, label: str, values: Iterable[tuple[str, str]]) -> str:
    options = "".join(f'<option value="{html.escape(key)}">{html.escape(text)}</option>' for key, text in values)
    return f'<label>{label} <select name="{name}"><option value="">any</option>{options}</select></label>'


def model(case: Case) -> str:
    """Return the name of the network that a case runs."""
    words = case.options.split()
    return MODELS[words[words.index("--model") + 1] if "--model" in words else case.program]


def _tensor(result: Result) -> str:
    """Return the group of a case by the share of kernel time on tensor cores."""
    low, high = (result.fact("tensor_cores", name) for name in ("share_low", "share_high"))
    if low is None or high is None:
        return "unknown"
    if low < HALF <= high:
        return "unsure"
    return "none" if not high else "more" if low >= HALF else "less"


@functools.cache
def _today(case: str, text: str) -> Report:
    return judged(parse_report(text, REPORT), case)


def today(result: Result) -> Report:
    """Return the report of a case with what the rules of today make of its numbers."""
    return _today(result.case.name, json.dumps(result.report))


def _rules(result: Result) -> list[str]:
    return list(dict.fromkeys(finding.rule for finding in today(result).findings))


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
    verdict = (today(result).verdict or "No verdict.").replace(" %", "\N{NO-BREAK SPACE}%")
    name = (
        f'<a href="gallery/{case.name}/{SLIM}">{case.name}</a>' if (folder / case.name / SLIM).exists() else case.name
    )
    chosen_by = f'data-findings="{" ".join(_rules(result))}" data-model="{model(case)}" data-tensor="{_tensor(result)}"'
    links = " · ".join(
        f'<a href="gallery/{case.name}/{file}">{text}</a>'
        for file, text in FILES
        if (folder / case.name / file).exists()
    )
    figures = (
        # The verdict names the median step, or says that it is a mean.
        ("mean step", f"{milliseconds(result.fact('step_breakdown', 'mean_step_ns'))} ms"),
        ("kernels", f"{milliseconds(kernel_ns(result))} ms"),
        ("GPU busy", percent(result.fact("step_breakdown", "gpu_utilization_share"))),
        ("tensor cores", tensor_share(result)),
    )
    shown = "".join(f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" for name, value in figures)
    return f"""<article id="{case.name}" {chosen_by}><h3>{name}</h3>
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
