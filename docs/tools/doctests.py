"""Examples in docstrings are blocks of code in the pages."""

from __future__ import annotations

import re
from typing import Any

import griffe

# An example starts with the prompt and ends at an empty line.
EXAMPLE = re.compile(r"(?:^ *>>> .*\n?)(?:^ *\S.*\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around every example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    text = match[0].rstrip("\n")
    margin = text[: len(text) - len(text.lstrip(" "))]
    return f"{margin}```pycon\n{text}\n{margin}```\n"
