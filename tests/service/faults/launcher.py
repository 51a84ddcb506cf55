"""Starts services as forks of a process that has imported everything: a restart takes milliseconds, not seconds.

Reads one JSON list of arguments per line, and writes the process id of the service. Each service is an ordinary process
whose imports were done before.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def main():
    import budgetron.cli.learner_spec
    import budgetron.learners.lifecycle.files
    import budgetron.service.run  # noqa: F401
    from budgetron.cli import main as budgetron_main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system removes ended children without a wait
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = 70
            try:
                budgetron_main(json.loads(line), standalone_mode=True)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 70
            finally:
                os._exit(status)
        print(child, flush=True)


if __name__ == "__main__":
    main()
