"""Which advertisement will be clicked? 300 advertisers share a quarter of a megabyte.

The stream is generated: 40,000 impressions, 6 % of them clicked. The features are words: device, hour, place on the
page, site and format. Each feature has three effects, which are added up: the first is the same for all advertisers,
the second depends on the kind of advertiser, and the third on the advertiser. Half of the advertisers appear only in
the second half of the stream. Each impression is predicted, then learned. What counts is the ranking: the share of
clicks among the tenth of the impressions that is ranked highest.

    python examples/clicks.py [FIGURE.svg]        (the figure needs the extra `plot`)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from budgetron import Budgetron, evaluate, graphs
from budgetron.plots import COLOURS, as_svg, new_figure

WORDS = {
    "device": ("phone", "tablet", "desktop"),
    "hour": ("night", "morning", "noon", "evening"),
    "place": ("top", "side", "bottom"),
    "format": ("text", "image", "video"),
    "site": tuple(f"site {i}" for i in range(40)),
}
HASHER = FeatureHasher(2**16, input_type="string", dtype=np.float32, alternate_sign=False)
KINDS = 6  # kinds of advertisers; a part of the effects is the same for all advertisers of a kind


def impressions(n: int, n_advertisers: int = 300, seed: int = 0) -> Iterator[tuple[str, list[str], int]]:
    """Yield impressions in the order of time: advertiser, features, and whether it was clicked."""
    rng = np.random.default_rng(seed)
    n_words = sum(map(len, WORDS.values()))
    common = rng.normal(0, 0.5, n_words)
    by_kind = rng.normal(0, 0.9, (KINDS, n_words))
    own = rng.normal(0, 0.4, (n_advertisers, n_words))
    kinds = rng.integers(KINDS, size=n_advertisers)
    for t in range(n):
        n_active = n_advertisers * (0.5 if t < n / 2 else 1.0)
        who = int(n_active * rng.random() ** 2)  # few advertisers have most impressions
        features, log_odds, first = [], -4.0, 0
        for name, words in WORDS.items():
            i = int(rng.integers(len(words)))
            features.append(f"{name}={words[i]}")
            log_odds += common[first + i] + by_kind[kinds[who], first + i] + own[who, first + i]
            first += len(words)
        yield f"advertiser {who}", features, int(rng.random() < 1 / (1 + np.exp(-log_odds)))


def main(figure: str | None = None) -> None:
    advertisers, features, clicks = zip(*impressions(40_000), strict=True)
    rows = HASHER.transform(features)
    clicked = np.array(clicks)
    print(f"{len(clicked):,} impressions of {len(set(advertisers))} advertisers, {clicked.mean():.1%} clicked\n")

    models = {
        "one model for all": Budgetron(budget="256 KiB", graph=graphs.complete(coupling=float("inf"))),
        "one model per advertiser": Budgetron(budget="256 KiB", graph=graphs.disconnected()),
        "related models": Budgetron(budget="256 KiB"),
    }
    print(f"{'':26}{'AUC':>6}{'log loss':>10}{'top tenth clicked':>19}{'memory':>10}")
    results = {}
    for name, model in models.items():
        results[name] = result = evaluate.progressive(model, (rows, clicked, np.array(advertisers)))
        top = result.ranking.precision_at(len(clicked) // 10)
        memory = f"{model.memory_bytes_ // 1024} KiB"
        print(f"{name:26}{result.overall.auc:6.3f}{result.overall.log_loss:10.4f}{top:19.1%}{memory:>10}")

    model = models["related models"]
    offer = HASHER.transform([["device=phone", "hour=evening", "place=top", "format=video", "site=site 7"]])
    print("\nA video at the top of site 7, on a phone in the evening: probability of a click")
    for who in ("advertiser 0", "advertiser 1", "advertiser 2", "a new advertiser"):
        print(f"  {who:18}{model.predict_proba(offer, tasks=[who])[0, 1]:.1%}")
    if figure:
        draw(figure, results, len(clicked), clicked.mean())


def draw(path: str, results: dict[str, evaluate.Validation], n: int, average: float) -> None:
    """Draw the share of clicks among the impressions ranked highest."""
    picture = new_figure("clicks", 6, 3.6)
    ax = picture.subplots()
    shares = np.linspace(0.02, 1.0, 50)
    for (name, result), colour in zip(results.items(), (COLOURS[3], COLOURS[2], COLOURS[0]), strict=True):
        clicked = [100 * result.ranking.precision_at(int(share * n)) for share in shares]
        ax.plot(100 * shares, clicked, color=colour, label=name)
    ax.axhline(100 * average, color=COLOURS[-1], linestyle=":", label="shown at random")
    ax.set_xlabel("impressions shown, ranked by the prediction, %")
    ax.set_ylabel("clicked, %")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_svg(picture) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
