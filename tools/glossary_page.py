"""Write docs/glossary.md from the terms that a report explains: `make docs`. With --check, compare it only."""

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "glossary.md"

HEAD = """# Glossary

One term for one thing, in the source, the messages, the reports and these pages. A report explains the same terms.
Written by `make docs` from `GLOSSARY` in `nsyswrap/render/glossary.py`.
"""


def page(groups: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> str:
    """Return the Markdown page.

    Args:
        groups: Heading and terms of each group; a term is a tuple of the term and its meaning.
    """
    parts = [HEAD]
    for title, terms in groups:
        rows = [f"| {' | '.join(term)} |" for term in terms]
        parts.append("\n".join([f"## {title}", "", "| term | meaning |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def main(arguments: list[str], target: Path = PAGE) -> int:
    """Write the page, or with ``--check`` compare it; return the exit code."""
    from nsyswrap.render.glossary import GLOSSARY  # noqa: PLC0415 - the page is made from any groups of terms

    text = page(GLOSSARY)
    if "--check" not in arguments:
        target.write_text(text)
        return 0
    if target.is_file() and target.read_text() == text:
        return 0
    print("docs/glossary.md differs from nsyswrap/render/glossary.py: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
