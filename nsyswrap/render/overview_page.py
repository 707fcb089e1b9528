"""What the pages about many captures, many runs and sweeps have in common: one file each, in the style of the report.

Their templates extend ``overview.html.j2``. They escape all values; names that programs and users chose go through
``visible`` first.
"""

import functools
from collections.abc import Mapping, Sequence

import jinja2
from markupsafe import Markup

from nsyswrap import units
from nsyswrap.render import page_files
from nsyswrap.render.content_policy import policy


def render(template: str, styles: Sequence[str], scripts: Sequence[str], values: Mapping[str, object]) -> str:
    """Return a page as one self-contained HTML file.

    Args:
        template: Name of its template.
        styles: Names of its style sheets.
        scripts: Names of its scripts.
        values: What the template shows.
    """
    style_texts, script_texts = ([page_files.static(name) for name in names] for names in (styles, scripts))
    page: str = (
        _environment()
        .get_template(template)
        .render(
            policy=policy(style_texts, script_texts),
            # These are our own files, and the policy holds their hashes; everything else in the page is escaped.
            styles=[Markup(text) for text in style_texts],  # noqa: S704
            scripts=[Markup(text) for text in script_texts],  # noqa: S704
            **values,
        )
    )
    return page


@functools.cache
def _environment() -> jinja2.Environment:
    environment = page_files.environment()
    # These pages have no glossary that terms could lead to.
    environment.filters["term"] = lambda _label: ""
    environment.filters["duration"] = units.duration
    return environment
