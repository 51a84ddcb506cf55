"""Fixtures and lists of learners, kernels, graphs, rows and labels for all tests, and the option --long.

A test with the argument `learner` runs for every learner. A test with the argument `case` runs for combinations of
learner, kernel, graph, rows and labels. The usual run has only a selection of these combinations, which `cases`
describes. Presets (parameters of a learner that were published under a name) have fewer combinations than learners. New
learners and presets are included without further changes, because the registry finds learners by their files, and each
learner declares its presets. `pytest --long`, or BUDGETRON_LONG=1, runs all combinations and the tests that are marked
`long`.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from threadpoolctl import threadpool_limits

from budgetron import graphs, kernels
from budgetron.checks import Case, accepts
from budgetron.learners.registry import learner_class, learner_names

LEARNERS = [learner_class(name) for name in learner_names()]
PRESETS = {name: learner.preset(name) for learner in LEARNERS for name in learner.presets}

KERNELS = {
    "linear": kernels.Linear(),
    "linear-normal": kernels.Linear(bias=0.5, normalize=True),
    "polynomial": kernels.Polynomial(degree=2, bias=1.0),
    "polynomial-normal": kernels.Polynomial(degree=3, bias=0.5, normalize=True),
    "gaussian": kernels.Gaussian(gamma=0.7),
    "gaussian-normal": kernels.Gaussian(gamma=0.2, normalize=True),
}


def _once(make):
    """Return `make` with a cache, because graphs are immutable and can be shared."""
    cached = functools.lru_cache(maxsize=None)(make)
    return lambda names: cached(tuple(names))


def _path(names):
    return list(itertools.pairwise(names))


def _laplacian(names):
    matrix = np.zeros((len(names), len(names)))
    for weight, (i, j) in enumerate(_path(range(len(names))), start=1):
        matrix[[i, j], [i, j]] += weight
        matrix[[i, j], [j, i]] -= weight
    return matrix


def _similarity(names):
    factor = np.random.default_rng(5).normal(size=(len(names), len(names)))
    return factor @ factor.T / len(names) + 0.1 * np.eye(len(names))


CLOSED = {
    "complete": lambda names: graphs.complete(),
    "complete-n": lambda names: graphs.complete(n_tasks=len(names)),
    "disconnected": lambda names: graphs.disconnected(),
    "clusters": lambda names: graphs.clusters({names[0]: "a", names[1]: "a", names[2]: "b"}, coupling=2.0),
}
EXPLICIT = {
    "edges": lambda names: graphs.from_edges(_path(names[:-1]), weights=[2.0, 0.5], tasks=names),
    "pseudoinverse": lambda names: graphs.from_laplacian(_laplacian(names), identity=False, tasks=names),
    "similarity": lambda names: graphs.from_similarity(_similarity(names), tasks=names),
    "large": lambda names: graphs.from_edges(_path([*names, *(f"filler {i}" for i in range(1100))])),
}
GRAPHS = {name: _once(make) for name, make in (CLOSED | EXPLICIT).items()}

STORES = {"dense": (False, "float64"), "float32": (False, "float32"), "sparse": (True, "float64")}
CLASSES = {"binary": 2, "classes": 3}

# By default Ray starts its workers with a high niceness (a low priority), so on a busy machine they would hardly run.
os.environ.setdefault("RAY_worker_niceness", "0")

hypothesis_settings.register_profile(
    "usual", derandomize=True, database=None, deadline=None, max_examples=2, print_blob=False,
    phases=[Phase.explicit, Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
)  # fmt: skip
hypothesis_settings.register_profile(
    "long", hypothesis_settings.get_profile("usual"), max_examples=4, derandomize=False
)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="all combinations, full sizes (or BUDGETRON_LONG=1)")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: run only with --long or BUDGETRON_LONG=1")
    hypothesis_settings.load_profile("long" if _is_long(config) else "usual")


def pytest_collection_modifyitems(config, items):
    # Mix the files by a hash of their paths. In the order of folders, the tests of the service would all run near the
    # end, and the processors would be idle while all pytest workers wait for child processes. Tests that declare a
    # timeout of their own are slow. They come first, so that no worker starts a slow test when the other workers have
    # finished.
    mixed = {item.location[0]: zlib.crc32(item.location[0].encode()) for item in items}
    items.sort(key=lambda item: (item.get_closest_marker("timeout") is None, mixed[item.location[0]]))
    if not _is_long(config):
        for item in items:
            if item.get_closest_marker("long") is not None:  # item.keywords would also contain names of folders
                item.add_marker(pytest.mark.skip(reason="runs only with --long or BUDGETRON_LONG=1"))


def pytest_generate_tests(metafunc):
    if "learner" in metafunc.fixturenames:
        metafunc.parametrize("learner", LEARNERS, ids=lambda learner: learner.__name__)
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases(_is_long(metafunc.config)))


@functools.cache
def cases(every):
    """Combinations as parameters of tests: all of them if `every`, otherwise the fixed selection of the usual run.

    In this selection, a learner that accepts all combinations is tested with each kernel on two graphs. It is tested
    with all graphs, with all pairs of kernel (linear, polynomial, Gaussian) and store, and with all pairs of store and
    number of classes. Consecutive learners of this kind have different pairs of kernel and graph. As many further
    combinations of such a learner are marked `long`, and `make test-long` runs these.
    """
    plain = {learner.__name__: learner() for learner in LEARNERS}
    return [
        pytest.param(case, id="-".join([name, *words]), marks=[pytest.mark.long] if kind == "long" else [])
        for turn, (name, learner) in enumerate((plain | PRESETS).items())
        for words, case, kind in _cases_of(learner, name in PRESETS, turn, every)
    ]


def _cases_of(learner, is_preset, turn, every):
    has_kernel, has_graph = (word in learner.get_params(deep=False) for word in ("kernel", "graph"))
    # The usual run has all chosen combinations of a learner that accepts few combinations, and half of the chosen
    # combinations of any other learner.
    has_few = not (has_kernel and has_graph and all(accepts(Case(learner, kernel)) for kernel in KERNELS.values()))
    for (k, kernel), (g, graph), (s, store), (c, classes) in itertools.product(
        *(list(enumerate(names)) for names in (KERNELS, GRAPHS, STORES, CLASSES))
    ):
        # A learner without the parameter `kernel` (or `graph`) ignores the kernel (or graph) of a case: two suffice.
        if (not has_kernel and k > 1) or (not has_graph and g > 1):
            continue
        chosen = (k + g) % 2 == 0 and s == (k // 2 + g // 2) % 3 and c == (k // 2 + g // 4 + s) % 2
        if is_preset and has_graph:  # one graph per kernel; consecutive presets have different graphs
            chosen = chosen and (g // 2 + k // 2 + turn) % 4 == 0
        is_half = turn % 2 == (k % 2 if is_preset else (k + g) // 2 % 2)
        kind = "rare" if not chosen else "usual" if is_half or has_few else "long"
        sparse, dtype = STORES[store]
        case = Case(learner, KERNELS[kernel], GRAPHS[graph], sparse, dtype, CLASSES[classes])
        if (every or kind == "usual") and accepts(case):
            yield (kernel, graph, store, classes), case, kind


def _is_long(config):
    return config.getoption("--long") or os.environ.get("BUDGETRON_LONG", "0") not in ("", "0")


@pytest.fixture(scope="session")
def is_long(request):
    return _is_long(request.config)


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Use one BLAS thread: the matrices here are small, and on a busy machine threads only wait for each other.

    Set OPENBLAS_NUM_THREADS to check that no result depends on the number of threads.
    """
    with threadpool_limits(int(os.environ.get("OPENBLAS_NUM_THREADS") or 1)):
        yield


@pytest.fixture(scope="session")
def paper_files():
    """The folder with the paper's three data sets, beside this checkout. Without the data, the test is skipped."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "school" / "school.mat").exists():
        pytest.skip("the paper's data are not in ../shared/data; they have no licence, so the repository lacks them")
    return folder


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, one for all tests of pages, because Playwright can start only once per thread."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine to render pages")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_api.sync_playwright() as play:
        running = play.chromium.launch(executable_path=chromium, args=quiet)
        yield running
        running.close()


@pytest.fixture(scope="session")
def least_contrast():
    """A function that returns the lowest contrast between a text of a page and its background, and the text's element.

    The element is described by its tag and the beginning of its text.
    """
    return lambda page: page.evaluate(_CONTRAST)


# The contrast ratio of WCAG 2: (lighter + 0.05) / (darker + 0.05), with the relative luminance of sRGB colours.
_CONTRAST = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = element => { for (; element; element = element.parentElement) {
    const c = getComputedStyle(element).backgroundColor; if (!c.endsWith(', 0)')) return c; } };
  const words = 'h1, h2, h3, p, dt, dd, td, th, a, small, figcaption, summary, button, label, li';
  return [...document.querySelectorAll(words)]
    .filter(e => e.offsetParent && e.textContent.trim()).map(e => {
      const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
      return [(a + .05) / (b + .05), e.tagName + ' ' + e.textContent.slice(0, 30)]; }).sort((x, y) => x[0] - y[0])[0];
}"""
