"""Stream Chem97 through a service: predict, send the label later, and survive a `kill -9`.

    python examples/service.py [--pupils 4000] [--url http://127.0.0.1:8000]

The data are 31,022 pupils of 2,410 schools; each school is a task. Without --url, the program starts a service in a
temporary folder, ends it with `kill -9` half-way, and starts it again. With --url it uses a running service, which it
does not kill.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from budgetron import Client, data


def start_service(folder: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a service on a free port. Returns its process and the address, which it logs when it is ready."""
    command = [sys.executable, "-m", "budgetron", "serve", "Budgetron budget=200", "--data", folder, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        event = json.loads(line)
        if event["event"] == "serving":
            return process, event["address"]
    raise SystemExit("the service did not start")


def learn_with_delay(client: Client, X: Sequence, y: Sequence, schools: Sequence) -> tuple[int, int]:
    """Predict each pupil and send the label ten pupils later. Returns the number of errors and of pupils."""
    waiting, wrong, n = [], 0, 0
    for row, label, school in zip(X, y, schools, strict=True):
        prediction = client.predict(row, school, remember=True)
        waiting.append((prediction, label))
        if len(waiting) > 10:
            prediction, label = waiting.pop(0)
            client.feedback(prediction.id, label)
            wrong += prediction.label != label
            n += 1
    for prediction, label in waiting:
        client.feedback(prediction.id, label)
        wrong += prediction.label != label
        n += 1
    return wrong, n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pupils", type=int, default=4000)
    parser.add_argument("--url")
    arguments = parser.parse_args()
    chem = data.load("chem97").shuffled(seed=0)
    X = data.standardized(chem.X)[: arguments.pupils]
    y, schools = chem.y[: arguments.pupils].tolist(), [str(school) for school in chem.tasks[: arguments.pupils]]
    half, few = len(X) // 2, min(200, len(X) // 4)

    with tempfile.TemporaryDirectory() as folder:
        process, url = (None, arguments.url) if arguments.url else start_service(folder)
        with Client(url) as client:
            client.learn_many(X[:half], y[:half], schools[:half], classes=sorted(set(y)))
            print(f"{half} pupils learned, in blocks of 512; each block was on disk before it was acknowledged")
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stderr.close()
            process, url = start_service(folder)
            print("killed, and started again")
        with Client(url) as client:
            print(f"{client.model()['seen']} pupils are known; none was lost, none learned twice")
            wrong, n = learn_with_delay(client, X[half : half + few], y[half : half + few], schools[half : half + few])
            print(f"{n} predicted one by one, their grades sent later: {wrong / n:.1%} wrong")
            client.learn_many(X[half + few :], y[half + few :], schools[half + few :])
            live = client.live()
            figures = live["overall"]
            shares = f"{figures['error']:.1%} wrong, F {figures['f_measure']:.1%}"
            print(f"{figures['n']} learned since the start: {shares};")
            print(f"{live['stored']} examples stored, {live['memory_bytes'] / 2**20:.1f} MiB")
        if process is not None:
            process.terminate()
            process.wait()
            process.stderr.close()


if __name__ == "__main__":
    main()
