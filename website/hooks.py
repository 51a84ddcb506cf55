"""Hooks that mkdocs calls while it builds the site.

- Pages of docs/ that `nav` does not name are added to the section of their folder.
- The reference is generated from the docstrings and from `budgetron --help`.
- Links in pages are relative to the repository, so that they work there too. Linked files outside docs/ are copied to
  repository/, and the links are rewritten.
- The page of an example ends with the source of its program.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

sys.path.insert(0, os.path.dirname(__file__))  # mkdocs imports this file without its folder on the path

import command_pages
import reference_pages

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = {"algorithms": "Algorithms", "examples": "Gallery"}
OTHER_PAGES = "Guide"
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)]*)?\))")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def on_config(config: Any) -> Any:
    in_nav = set(_pages_in_nav(config.nav))
    for page in sorted(Path(config.docs_dir).rglob("*.md")):
        uri = page.relative_to(config.docs_dir).as_posix()
        if uri not in in_nav:
            _section(config.nav, SECTIONS.get(uri.split("/")[0], OTHER_PAGES)).append(uri)
    _section(config.nav, "Reference").extend([*reference_pages.pages(), *command_pages.PAGES])
    return config


def on_files(files: Files, config: Any) -> Files:
    for uri, text in {**reference_pages.page_texts(), **command_pages.page_texts()}.items():
        files.append(File.generated(config, uri, content=text))
    # A linked Markdown file may link to further files, so files are added to the list while it is processed.
    to_scan = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    while to_scan:
        for target in _linked_outside_docs(to_scan.pop(), Path(config.docs_dir)):
            uri = _uri(target)
            if files.get_file_from_path(uri) is None:
                not_in_nav = InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, uri, abs_src_path=str(target), inclusion=not_in_nav))
                if target.suffix == ".md":
                    to_scan.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    markdown = re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.M)
    source = page.file.abs_src_path
    if source is None:
        return markdown
    here = Path(source).resolve().parent
    program = ROOT / "examples" / f"{Path(source).stem}.py"
    if page.file.src_uri.startswith("examples/") and program.exists():
        markdown += f"\n## The program\n\n```python\n{program.read_text(encoding='utf-8')}```\n"

    def rewritten(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        uri = _uri(target, Path(config.docs_dir))
        if files.get_file_from_path(uri) is None:
            return link[0]
        return link[1] + posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".") + link[3]

    # Rewrite only the text between code blocks, because links inside them are code. None marks the end of the page.
    pieces, start = [], 0
    for fence in [*FENCE.finditer(markdown), None]:
        end = len(markdown) if fence is None else fence.start()
        pieces.append(LINK.sub(rewritten, markdown[start:end]))
        if fence is not None:
            pieces.append(fence[0])
            start = fence.end()
    return "".join(pieces)


def _linked_outside_docs(page: Path, docs: Path) -> list[Path]:
    """Files of the repository outside docs/ that a page links to."""
    if page.suffix != ".md":
        return []
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [(page.parent / link[2]).resolve() for link in LINK.finditer(text)]
    return [t for t in targets if t.is_file() and t.is_relative_to(ROOT) and not t.is_relative_to(docs)]


def _uri(target: Path, docs: Path | None = None) -> str:
    """The address of a file in the site; empty for a file outside the repository."""
    if docs is not None and target.is_relative_to(docs):
        return target.relative_to(docs).as_posix()
    if not target.is_relative_to(ROOT):
        return ""
    return "repository/" + target.relative_to(ROOT).as_posix()


def _pages_in_nav(nav: Any) -> list[str]:
    """All pages that a navigation names, at any depth."""
    if isinstance(nav, str):
        return [nav]
    return [uri for item in (nav.values() if isinstance(nav, dict) else nav) for uri in _pages_in_nav(item)]


def _section(nav: list[Any], title: str) -> list[Any]:
    return next(item[title] for item in nav if isinstance(item, dict) and title in item)
