"""The length of sentences that users read, counted by textstat."""

import re
import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import textstat

from nsyswrap.cli import cli
from nsyswrap.render.section_heads import HEADS
from nsyswrap.rules import RULES

_CODE_BLOCK = re.compile(r"^([ \t]*)```.*?^\1```", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_NO_PROSE = ("#", "|", "<", "!", "[!", "    ")
# A point in these ends no sentence.
_INSIDE = re.compile(r"(?<=\w)\.(?=\w)")


class Lengths(NamedTuple):
    """How many sentences texts have, and how many words."""

    sentences: int
    words: int

    @property
    def mean(self) -> float:
        """Return the mean number of words in a sentence."""
        return self.words / self.sentences


def lengths(texts: Iterable[str]) -> Lengths:
    """Return the number of sentences and words in texts; each text ends a sentence."""
    plain = [_INSIDE.sub("", text) for text in texts]
    return Lengths(sum(map(textstat.sentence_count, plain)), sum(map(textstat.lexicon_count, plain)))


def of_pages(pages: Iterable[Path]) -> Iterator[str]:
    """Yield the paragraphs and items of Markdown pages, without headings, tables, pictures and code."""
    for page in pages:
        text = _CODE_BLOCK.sub("\n", page.read_text(encoding="utf-8"))
        for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", text):
            said = block.strip("\n")
            if not said.strip() or said.startswith(_NO_PROSE):
                continue
            said = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", _ITEM.sub("", said))
            yield " ".join(re.sub(r"`[^`]*`", "name", said).split())


def of_rules() -> Iterator[str]:
    """Yield what rules say; each field of a headline is one word."""
    for rule in RULES.values():
        for each in (rule, *rule.cases):
            yield from filter(None, (_filled(each.headline), str(each.advice)))
        yield from filter(None, (rule.meaning, _filled(rule.without_gpu), rule.for_late_rank))


def of_sections() -> Iterator[str]:
    """Yield the titles of sections and of their tables."""
    for head in HEADS.values():
        yield from (head.title, *head.captions.values())


def _filled(text: str) -> str:
    names = (name for _, name, _, _ in string.Formatter().parse(text) if name)
    return text.format_map(dict.fromkeys(names, "one"))


def of_commands() -> Iterator[str]:
    """Yield the help of all commands and options, without examples."""
    for command in commands(cli):
        for paragraph in (command.help or "").split("\n\n"):
            if not paragraph.startswith("\b"):
                yield " ".join(paragraph.split())
        yield from (each.help for each in command.params if isinstance(each, click.Option) and each.help)


def commands(group: click.Command) -> Iterator[click.Command]:
    yield group
    if isinstance(group, click.Group):
        context = click.Context(group)
        found = (group.get_command(context, name) for name in group.list_commands(context))
        for each in filter(None, found):
            yield from commands(each)
