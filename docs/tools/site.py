"""What MkDocs needs beside its own settings to build these pages.

- Pages link to files of the repository (``../examples/inpainting.py``, reports with their pictures), as a reader of the
  repository wants it: such files become part of the site.
- Pages of the table of contents that have not been made yet (a report) are left out.
- Formulas become MathML, which browsers show by themselves: the site needs no other host.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\]\()([^)#\s:]+)")  # to a file: no scheme, no anchor of the same page


def on_config(config: Any) -> Any:
    config.nav = _existing(config.nav)
    return config


def _existing(nav: list[Any]) -> list[Any]:
    """The table of contents without pages that are not there."""
    kept: list[Any] = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            kept.append({title: _existing(target)})
        elif (ROOT / "docs" / target).exists() or (ROOT / target).exists():
            kept.append(entry)
    return kept


def on_files(files: Files, config: Any) -> Files:
    """Adds the files of the repository that pages link to, and those that these link to, and so on."""
    pages = [Path(config.docs_dir, file.src_path) for file in files.documentation_pages()]
    pages += [ROOT / path for path in _targets(config.nav) if not Path(config.docs_dir, path).exists()]
    seen = set(pages)
    while pages:
        page = pages.pop()
        if not page.is_relative_to(config.docs_dir):
            path = page.relative_to(ROOT).as_posix()
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
        for target in (match[2] for match in LINK.finditer(page.read_text())):
            linked = (page.parent / target).resolve()
            if linked in seen or linked.is_relative_to(config.docs_dir) or not linked.is_relative_to(ROOT):
                continue
            seen.add(linked)
            if linked.suffix == ".md":
                pages.append(linked)
            elif linked.is_file():
                path = linked.relative_to(ROOT).as_posix()
                files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def _targets(nav: list[Any]) -> list[str]:
    paths: list[str] = []
    for entry in nav:
        (target,) = entry.values()
        paths += _targets(target) if isinstance(target, list) else [target]
    return paths


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """In the site pages and repository have the same root; on disk pages lie one folder deeper."""
    here = posixpath.dirname(page.file.src_uri)
    on_disk = here if page.file.src_dir != config.docs_dir else posixpath.join("docs", here)

    def turn(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(on_disk, match[2])).removeprefix("docs/")
        return match[1] + posixpath.relpath(target, here or ".")

    return LINK.sub(turn, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas, which the extension arithmatex has marked, as MathML."""

    def formula(match: re.Match[str]) -> str:
        text = html.unescape(match[2])
        display = "block" if match[1] == "div" else "inline"
        return convert(text.strip()[2:-2].strip(), display=display)

    return re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', formula, content, flags=re.DOTALL)
