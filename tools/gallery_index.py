"""The page reports/index.html: one row for each committed result; `make gallery` and `make reports` write it.

A row is a card that is folded: it shows the name, a bar, four figures and the first finding; unfolded also the
verdict, the command and the files.
"""

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
from known_programs import FORMS, PROGRAMS, STORIES

from nsyswrap.model import Report
from nsyswrap.render.json_reader import parse_report
from nsyswrap.rules import rule_name

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
  max-width: 80rem; padding: 1.25rem 1.25rem 2rem; }
a { color: var(--link); text-underline-offset: .15em; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1rem; margin: 1rem 0 .3rem; }
h3 { font-size: .9rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .3rem 0; max-width: 60rem; } .soft { color: var(--soft); font-size: .875rem; }
section > div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 0 .8rem; }
article, .heads { align-items: start; display: grid; gap: 0 1rem; padding: .16rem 0;
  grid-template-columns: 14rem minmax(6rem, 1fr) 23rem 19rem; }
article + article { border-top: 1px solid var(--line); }
article .links { padding-top: .2rem; } article p, summary { font-size: .875rem; }
summary { cursor: pointer; } summary:hover { color: var(--link); }
.heads { background: var(--ground); border: 1px solid transparent; color: var(--soft); font-size: .8rem;
  margin-top: .6rem; padding: .3rem .8rem; position: sticky; top: 0; z-index: 1; }
.heads span:nth-child(3), dl { display: grid; gap: 0 .6rem; grid-template-columns: repeat(3, 4.8rem) 1fr; }
code { color: var(--soft); display: block; font: .78rem/1.4 ui-monospace, monospace; margin: .15rem 0 .3rem;
  overflow-wrap: anywhere; }
var { font-style: normal; font-weight: 600; }
code span { display: inline-block; max-width: 100%; }
.bar { background: var(--idle); border-radius: 4px; display: flex; height: 1rem; margin-top: .2rem; overflow: hidden; }
.key { display: flex; flex-wrap: wrap; font-size: .875rem; gap: .25rem 1.1rem; list-style: none; margin: .7rem 0 0;
  padding: 0; }
.key i { border-radius: 3px; display: inline-block; height: .8rem; margin-right: .4rem; vertical-align: -1px;
  width: .8rem; }
dl { margin: 0; } dl div { display: contents; }
dt { clip-path: inset(50%); height: 1px; overflow: hidden; position: absolute; white-space: nowrap; width: 1px; }
dd { font-size: .875rem; font-variant-numeric: tabular-nums; margin: 0; white-space: nowrap; }
[hidden] { display: none !important; }
form { align-items: end; display: flex; flex-wrap: wrap; gap: .6rem 1rem; margin: .7rem 0 0; }
label { color: var(--soft); display: grid; font-size: .8rem; gap: .2rem; }
input, select, button { background: var(--card); border: 1px solid var(--line); border-radius: 6px; color: var(--ink);
  font: inherit; font-size: .9rem; min-height: 2.3rem; max-width: 100%; padding: .3rem .6rem; }
output { font-size: .9rem; min-height: 2.3rem; padding: .35rem 0; }
@media (max-width: 60rem) {
  .heads { display: none; }
  article { gap: .1rem .8rem; grid-template-columns: minmax(0, 1fr) 40%; padding: .35rem 0; }
  article dl, article details { grid-column: 1 / -1; }
  dl { display: flex; flex-wrap: wrap; gap: 0 .9rem; } dl div { display: flex; gap: .3rem; }
  dt { clip-path: none; color: var(--soft); font-size: .8rem; height: auto; line-height: 1.6; position: static;
    width: auto; }
  dl div:nth-child(2), dl div:nth-child(3) { display: none; }
  form label { flex: 1 1 40%; } form select, form input { width: 100%; }
}
"""
# Names of the networks in programs without an option `--model`, and of that option's values.
MODELS = {
    "mnist": "CNN for digits", "bert_qa": "BERT-base", "decoding": "language model", "inference": "ResNet50",
    "image_pipeline": "image pipeline", "convolution": "one convolution", "cifar_files": "CNN",
    "mlp": "MLP", "lenet": "LeNet", "alexnet": "AlexNet", "vgg16": "VGG16", "resnet50": "ResNet50",
}  # fmt: skip
FIGURES = ("mean step", "kernels", "GPU busy", "tensor cores")
HEADS = f"""<div class="heads" aria-hidden="true"><span>case</span><span>where the GPU's time goes</span>
<span>{"".join(f"<span>{each}</span>" for each in FIGURES)}</span><span>first finding</span></div>"""
HALF = 0.5
# Groups of the tensor share.
TENSOR = {
    "none": "none", "less": "less than half", "more": "half or more", "unsure": "bounds on both sides of half",
    "unknown": "unknown",
}  # fmt: skip
BEFORE = """All were captured and analyzed on 26 November 2026. Numbers and findings of a report.json are those of that
day; the order of findings and the verdict are of today's rules, in the report.json and in its page. The pages marked
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
    drawn = {part for each in found for part, ns in each.ledger.items() if ns}
    key = "".join(
        f'<li><i style="background:{colour}"></i>{name}</li>' for part, (name, colour) in PARTS.items() if part in drawn
    )
    by_name = {each.case.name: each for each in found}
    parts = [_part(claim, by_name, folder) for claim in CLAIMS]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>nsyswrap: gallery</title><style>{STYLE}</style></head>
<body><header><h1>Gallery</h1>
<p>Reports of cases of the literature on an NVIDIA GPU. Each name leads to the page of the case.
<a href="../docs/results.md">Our figures and the published ones</a> ·
<a href="../docs/results.md#alexnet-on-one-gpu-and-on-several">AlexNet on one, two and four GPUs</a> ·
<a href="../docs/tutorial.md">A tutorial</a> · <a href="samples/README.md">Samples</a></p>
{_form(found)}
<ul class="key">{key}</ul></header>
<main>
{known()}{HEADS if found else ""}
{"".join(parts) or "<p>No results yet: make gallery.</p>"}
</main>
<footer><p class="soft">{BEFORE} {html.escape(machines(found))}</p></footer>
<script>{SCRIPT}</script></body></html>
"""


def known(folder: Path = PROGRAMS) -> str:
    """Return the stories of programs that people know, each with its pages; empty where none was profiled."""
    if not (folder / STORIES).exists():
        return ""
    stories = json.loads((folder / STORIES).read_text())
    shown = "".join(
        f"""<p><b>{html.escape(each["title"])}.</b> {html.escape(" ".join(each["story"]))}</p>
<p class="soft">{"".join(f'<a href="programs/{name}/{form}/report.html">{form}</a> · ' for form in FORMS)}
<a href="programs/{name}/compare.html">both compared</a></p>"""
        for name, each in stories.items()
    )
    names = ", ".join(each["title"] for each in stories.values())
    folded = f"<details><summary>Before and after the advice: {html.escape(names)}</summary>\n{shown}</details>"
    return f'<section class="known"><div>{folded}</div></section>\n'


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
def _today(text: str) -> Report:
    return judged(parse_report(text, REPORT))


def today(result: Result) -> Report:
    """Return the report of a case with what the rules of today make of its numbers."""
    return _today(json.dumps(result.report))


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
    values = (
        # The verdict names the median step, or says that it is a mean.
        f"{milliseconds(result.fact('step_breakdown', 'mean_step_ns'))} ms",
        f"{milliseconds(kernel_ns(result))} ms",
        percent(result.fact("step_breakdown", "gpu_utilization_share")),
        tensor_share(result),
    )
    shown = "".join(
        f"<div><dt>{figure}</dt><dd>{html.escape(value)}</dd></div>"
        for figure, value in zip(FIGURES, values, strict=True)
    )
    return f"""<article id="{case.name}" {chosen_by}><h3>{name}</h3>
{_bar(result)}
<dl>{shown}</dl>
<details><summary>{html.escape(_first(result))}</summary>
<p>{html.escape(verdict)}</p>
<code>{command}</code>
<p class="links">{links}</p></details></article>"""


def _first(result: Result) -> str:
    """Return the name of the finding that is the verdict, for the folded row; without one, of the first note."""
    report = today(result)
    rule = report.verdict_rule or next((each.rule for each in report.findings), "")
    return f"{'' if report.verdict_rule else 'note: '}{rule_name(rule)}" if rule else "no finding"


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
