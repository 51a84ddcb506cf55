"""The documentation site: no warnings, every page in the navigation, and no external requests."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT = 200_000  # milliseconds; only ends a step that hangs
pytest.importorskip("material", reason="the group `docs` is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it: dead links and anchors are warnings, and warnings are errors."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def build(settings, folder):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", settings, "-d", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT)


def test_every_page_is_in_the_navigation(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="([^"#]+)" class="md-nav__link', home))
    for page in (ROOT / "docs").rglob("*.md"):
        uri = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert uri == "index.html" or uri in linked, f"docs/{uri} is not in the navigation"


def test_the_reference_has_all_public_names(site):
    import budgetron

    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    for name in budgetron.__all__:
        assert re.search(rf"budgetron\.(\w+\.)*{name}\b", text), name
    for method in ("predict_then_learn", "forget_task", "predict_proba_one", "n_mistakes_"):
        assert re.search(rf"<h3[^>]*>(?:\w+\.)?{method}", text), method


def test_no_external_requests(site):
    loading = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//", re.I)
    for page in [*site.rglob("*.html"), *site.rglob("*.svg")]:
        match = loading.search(page.read_text(encoding="utf-8"))
        assert not match, f"{page.relative_to(site)}: {match[0]}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


def test_dead_links_fail_the_build(tmp_path):
    wrong = ["nowhere.md", "quickstart.md#no-such-part", "../no-such-file.py"]
    text = "# Quickstart\n\n" + "\n".join(f"[see]({link})" for link in wrong) + "\n"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "quickstart.md").write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "website", tmp_path / "website")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = "nav: [quickstart.md, {Guide: []}, {Reference: []}]\n"
    (tmp_path / "mkdocs.yml").write_text(settings[: settings.index("\nnav:") + 1] + nav, encoding="utf-8")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    for link in wrong:
        assert link in done.stdout + done.stderr


def test_search_and_dark_mode(site, browser):
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    requested = []
    try:
        with browser.new_context(color_scheme="light") as context:
            page = context.new_page()
            page.on("request", lambda request: requested.append(request.url))
            page.set_default_timeout(TIMEOUT)
            page.goto(home + "index.html")
            # The search worker answers the empty query when its index is ready. After that, the page sends a query for
            # each key that is pressed, but not for a value that is set by a script.
            page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for(state="attached")
            page.locator("input.md-search__input").press_sequentially("forget_task")
            page.wait_for_selector(".md-search-result__item a")
            page.keyboard.press("Escape")
            page.click("label[title='Switch to dark']")
            page.wait_for_selector("body[data-md-color-scheme=slate]")
            page.set_viewport_size({"width": 360, "height": 740})
            for name in ("index", "examples/index", "reference/learners"):
                page.goto(f"{home}{name}.html")
                assert page.evaluate("document.documentElement.scrollWidth") <= 360, name  # no scrolling sideways
    finally:
        server.shutdown()
        server.server_close()
    assert requested and all(url.startswith((home, "data:")) for url in requested)
