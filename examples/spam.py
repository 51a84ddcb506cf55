"""A spam filter for each of a hundred users, on raw text, in one megabyte for all of them.

The mail is generated: 5,000 messages of a hundred users, with words drawn by topic. Phishing is spam for every user and
notes from colleagues are spam for none. Newsletters are the hard part: each user wants some topics and marks the others
as spam. So users agree on most messages but not on all.

    python examples/spam.py [FIGURE.svg]        (the figure needs the extra `plot`)
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from budgetron import Budgetron, graphs
from budgetron.plots import COLOURS, as_svg, new_figure

TOPICS = {
    "phishing": "verify your account password urgent click suspended bank login confirm security winner prize claim",
    "work": "meeting agenda minutes project deadline report attached review draft budget schedule thanks colleagues",
    "sport": "match season league goal transfer coach final score player team tickets stadium newsletter weekly",
    "fashion": "dress collection sale autumn style shoes discount designer season outfit newsletter weekly offer",
    "gadgets": "phone laptop review battery camera release price chip screen newsletter weekly offer discount",
    "travel": "flight hotel beach offer weekend city guide booking summer deal newsletter weekly tickets island",
}
NEWSLETTERS = ("sport", "fashion", "gadgets", "travel")
COMMON = "the a to of and in for you we is on with this that it at be your are have"
WORDS = HashingVectorizer(alternate_sign=False)


def mails(n: int, n_users: int = 100, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield messages in order of arrival: user, text, and the user's label."""
    rng = np.random.default_rng(seed)
    wanted = rng.random((n_users, len(NEWSLETTERS))) < 0.5
    topics = list(TOPICS)
    for _ in range(n):
        user = min(int(rng.zipf(1.3)) - 1, n_users - 1) if rng.random() < 0.5 else int(rng.integers(n_users))
        topic = topics[rng.choice(len(topics), p=[0.2, 0.3, 0.125, 0.125, 0.125, 0.125])]
        words = [*rng.choice(TOPICS[topic].split(), size=8), *rng.choice(COMMON.split(), size=8)]
        rng.shuffle(words)
        spam = topic == "phishing" or (topic in NEWSLETTERS and not wanted[user, NEWSLETTERS.index(topic)])
        if rng.random() < 0.03:  # users make mistakes: 3 % of the labels are wrong
            spam = not spam
        yield f"user {user}", " ".join(words), "spam" if spam else "ham"


def main(figure: str | None = None) -> None:
    users, texts, labels = (np.array(column) for column in zip(*mails(5000), strict=True))
    rows = WORDS.transform(texts)
    count: Counter[str] = Counter()
    numbers = []  # 1 for a user's first message, 2 for the second, …
    for user in users:
        count[user] += 1
        numbers.append(count[user])
    number = np.array(numbers)

    models = {
        "one filter for all": Budgetron(budget="1 MiB", graph=graphs.complete(coupling=float("inf"))),
        "one filter per user": Budgetron(budget="1 MiB", graph=graphs.disconnected()),
        "related filters": Budgetron(budget="1 MiB"),
    }
    print(
        f"{len(texts):,} messages of {len(count)} users, {np.mean(labels == 'spam'):.0%} spam; "
        "error rate in %, by the number of the user's message\n"
    )
    print(f"{'':28}{'all':>6}{'first 5':>9}{'6 to 20':>9}{'later':>7}{'memory':>10}")
    rates = {}
    for name, model in models.items():
        margins = model.predict_then_learn(rows, labels, tasks=users)
        wrong = 100.0 * ((margins > 0) != (labels == "spam"))
        parts = [wrong, wrong[number <= 5], wrong[(number > 5) & (number <= 20)], wrong[number > 20]]
        rates[name] = [part.mean() for part in parts[1:]]
        figures = "".join(f"{part.mean():{width}.1f}" for part, width in zip(parts, (6, 9, 9, 7), strict=True))
        print(f"{name:28}{figures}{model.memory_bytes_ // 1024:>6} KiB")

    model, mail = models["related filters"], "travel newsletter: beach hotel and city weekend"
    row = WORDS.transform([mail])
    print(f"\nIs it spam? {mail!r}")
    for user in ("user 0", "user 1", "user 2", "a new user"):
        print(f"  {user:12}{model.predict_proba(row, tasks=[user])[0, 1]:.0%}")
    if figure:
        draw(figure, rates)


def draw(path: str, rates: dict[str, list[float]]) -> None:
    """Draw the errors by the number of the user's message."""
    picture = new_figure("spam", 6, 3.4)
    ax = picture.subplots()
    for i, (name, errors) in enumerate(rates.items()):
        colour = (COLOURS[3], COLOURS[2], COLOURS[0])[i]
        ax.bar(np.arange(3) + 0.27 * (i - 1), errors, width=0.25, color=colour, label=name)
    ax.set_xticks(range(3), ["messages 1 to 5", "6 to 20", "later"])
    ax.set_ylabel("wrong, %")
    ax.legend(frameon=False)
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_svg(picture) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
