"""Draw docs/figures/report.png, the head of a report, and docs/figures/live-page.png, a live page under traffic.

    python website/page_screenshots.py [--chromium PATH]

The script needs playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from budgetron import Budgetron, OperatingPoint, data, evaluate, report
from budgetron.client import Client

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
SECONDS = 25  # of traffic before the picture of the live page


def draw_report(browser: Browser, folder: Path) -> None:
    """Draw the head of the report of a run over the exam results."""
    exam = data.load("exam").shuffled(seed=0)
    model = Budgetron()
    model.operating_point = OperatingPoint(costs={"fp": 1, "fn": 5})
    result = evaluate.progressive(model, (data.standardized(exam.X), exam.y, exam.tasks), window=100)
    path = folder / "exam.html"
    report.write(path, validation=result, model=model, context=report.Context(title="Exam results", seed=0))
    page = _page(browser, 1000, 1000)
    page.goto(path.as_uri())
    page.wait_for_selector("[data-chart] canvas")
    page.screenshot(path=FIGURES / "report.png")


def draw_live_page(browser: Browser, folder: Path) -> None:
    """Draw the live page of a service that predicts, learns, and decides."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(20, 3)) + np.array([2.0, 0.0, 0.0])

    def examples(n: int) -> tuple[Any, Any, list[str]]:
        X, tasks = rng.normal(size=(n, 3)).round(3), rng.integers(0, 20, size=n)
        y = np.where((X * weights[tasks]).sum(axis=1) + rng.normal(size=n) > 1.5, "spam", "ham")
        return X, y, [f"user {task}" for task in tasks]

    with _service(folder / "state") as url, Client(url) as client:
        client.learn_many(*examples(1), classes=["ham", "spam"])
        client.set_operating_point(costs={"fp": 5, "fn": 1})
        client.learn_many(*examples(2000))
        page = _page(browser, 1000, 1060)
        page.goto(url)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            X, _, tasks = examples(int(rng.integers(20, 60)))
            client.predict_many(X, tasks, ask=0.05)
            client.learn_many(*examples(int(rng.integers(1, 20))))
            page.wait_for_timeout(500)
        page.screenshot(path=FIGURES / "live-page.png")


def _page(browser: Browser, width: int, height: int) -> Page:
    return browser.new_page(viewport={"width": width, "height": height})


@contextmanager
def _service(state: Path) -> Iterator[str]:
    """Run a service with a Budgetron, and yield its address."""
    command = [sys.executable, "-m", "budgetron", "serve", "Budgetron", "--data", str(state), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr)
        yield next(line["address"] for line in lines if line["event"] == "serving").rstrip("/")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", help="the program, if playwright has not installed one")
    arguments = parser.parse_args()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=arguments.chromium)
        draw_report(browser, Path(folder))
        draw_live_page(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
