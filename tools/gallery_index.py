# ruff: noqa: INP001, T201 - a part of tools/gallery.py, and a program of its own
"""The page reports/index.html: one card for each committed result. `make reports` writes it."""

import html
from collections.abc import Sequence
from pathlib import Path

from gallery_page import tensor_share
from gallery_results import GALLERY, REPORT, ROOT, Result, results

# Parts of the ledger, in order, with their colours.
PARTS = {
    "compute_ns": ("compute", "#2ca02c"),
    "communication_exposed_ns": ("communication", "#9467bd"),
    "copy_exposed_ns": ("copies", "#ff7f0e"),
    "fill_exposed_ns": ("fills", "#8c564b"),
    "idle_ns": ("idle", "#d9d9d9"),
}
STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
body { color: #1a1a1a; background: #fff; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }
article { border: 1px solid #ccc; border-radius: 6px; padding: .8rem 1rem; }
h2 { font-size: 1.05rem; margin: 0 0 .3rem; } p { margin: .4rem 0; }
code { font-size: .85rem; overflow-wrap: anywhere; }
.bar { display: flex; height: .9rem; border-radius: 3px; overflow: hidden; } .bar span { display: block; }
.key i { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 .9rem; vertical-align: -1px; }
@media (prefers-color-scheme: dark) {
  body { background: #161616; color: #e8e8e8; } article { border-color: #444; } a { color: #8ab4f8; }
}
"""
FILES = (("report.html", "report"), (REPORT, "report.json"), ("capture.nsys-rep", "capture for Nsight Systems"))


def page(found: Sequence[Result], folder: Path = GALLERY) -> str:
    """Return the whole page; links lead from reports/ to the folder's files that are there."""
    key = "".join(f'<i style="background:{colour}"></i>{name}' for name, colour in PARTS.values())
    cards = "\n".join(_card(each, folder) for each in found) or "<p>No results yet: <code>make gallery</code>.</p>"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>nsyswrap: gallery</title><style>{STYLE}</style></head>
<body><h1>Gallery</h1>
<p>One card for each profiled case: what the report says first, where the GPU's time went, and how much of the kernels'
time was spent in kernels that use tensor cores. <a href="../docs/results.md">Results beside the literature's</a>;
<a href="samples/README.md">samples</a>.</p>
<p class="key">{key}</p>
<main>
{cards}
</main></body></html>
"""


def _card(result: Result, folder: Path) -> str:
    case = result.case
    command = f"{case.program}.py {case.options}".strip()
    links = " · ".join(
        f'<a href="gallery/{case.name}/{name}">{text}</a>'
        for name, text in FILES
        if (folder / case.name / name).exists()
    )
    return f"""<article id="{case.name}"><h2>{html.escape(case.name)}</h2>
<p><code>{html.escape(command)}</code></p>
{_bar(result)}
<p>{html.escape(str(result.report.get("verdict") or "No verdict."))}</p>
<p>Tensor share {tensor_share(result)} of kernel time.</p>
<p>{links}</p></article>"""


def _bar(result: Result) -> str:
    ledger = result.ledger
    window = max(ledger.get("window_ns", 0), 1)
    shares = {name: ledger.get(name, 0) / window for name in PARTS}
    said = ", ".join(f"{PARTS[name][0]} {share:.1%}" for name, share in shares.items() if share)
    spans = "".join(
        f'<span style="width:{share:.3%};background:{PARTS[name][1]}"></span>'
        for name, share in shares.items()
        if share
    )
    return f'<div class="bar" role="img" aria-label="{said}" title="{said}">{spans}</div>'


def main() -> None:
    """Write the page from the committed results."""
    found = results()
    (ROOT / "reports" / "index.html").write_text(page(found))
    print(f"index.html: {len(found)} cases")


if __name__ == "__main__":
    main()
