#!/usr/bin/env python3
"""Post a Markdown file as a comment on a pull or merge request, once: a later run updates the same comment.

    ci/comment.py github FILE     needs GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL and PULL_REQUEST (a number)
    ci/comment.py gitlab FILE     needs GITLAB_TOKEN, CI_API_V4_URL, CI_PROJECT_ID and CI_MERGE_REQUEST_IID

The comment is found by the first line of the file, which readers do not see. Nothing but Python is needed.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

LIMIT_S = 60
A_PAGE = 100
MOST_PAGES = 100


class Service(NamedTuple):
    """Where comments are.

    Attributes:
        comments: Address of all comments of the request.
        one: Address of a comment, without its number.
        header: Name and value of the header with the token.
        update: Method that replaces a comment.
    """

    comments: str
    one: str
    header: tuple[str, str]
    update: str


def service_of(kind: str, variables: Mapping[str, str]) -> Service:
    """Return the service of a kind, "github" or "gitlab", from the variables of the job."""
    if kind == "github":
        issues = f"{variables['GITHUB_API_URL']}/repos/{variables['GITHUB_REPOSITORY']}/issues"
        comments = f"{issues}/{variables['PULL_REQUEST']}/comments"
        header = "Authorization", f"Bearer {variables['GITHUB_TOKEN']}"
        return Service(comments, f"{issues}/comments", header, "PATCH")
    project = f"{variables['CI_API_V4_URL']}/projects/{variables['CI_PROJECT_ID']}"
    notes = f"{project}/merge_requests/{variables['CI_MERGE_REQUEST_IID']}/notes"
    return Service(notes, notes, ("PRIVATE-TOKEN", variables["GITLAB_TOKEN"]), "PUT")


def call(service: Service, address: str, method: str = "GET", value: object = None) -> Any:  # noqa: ANN401 - any JSON
    """Return the answer to a request."""
    data = None if value is None else json.dumps(value).encode()
    headers = dict([service.header]) | {"Content-Type": "application/json"}
    request = urllib.request.Request(address, data, headers, method=method)  # noqa: S310 - the job's own address
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310 - as above
        return json.load(answer)


def comments_of(service: Service) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each comment."""
    for page in range(1, MOST_PAGES + 1):
        listed = call(service, f"{service.comments}?per_page={A_PAGE}&page={page}")
        yield from ((one["id"], one["body"] or "") for one in listed)
        if len(listed) < A_PAGE:
            return


def post(service: Service, text: str) -> None:
    """Replace the comment that begins with the same line, or add one."""
    marker = text.partition("\n")[0]
    known = next((number for number, body in comments_of(service) if body.startswith(marker)), None)
    if known is None:
        call(service, service.comments, "POST", {"body": text})
    else:
        call(service, f"{service.one}/{known}", service.update, {"body": text})


def main(arguments: list[str]) -> int:
    """Post the comment; return the exit code."""
    if len(arguments) != 2 or arguments[0] not in ("github", "gitlab"):  # noqa: PLR2004 - two arguments
        sys.stderr.write("usage: comment.py github|gitlab FILE\n")
        return 2
    try:
        post(service_of(arguments[0], os.environ), Path(arguments[1]).read_text(encoding="utf-8"))
    except KeyError as missing:
        sys.stderr.write(f"comment.py: the variable {missing.args[0]} is not set\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"comment.py: the comment was not written: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
