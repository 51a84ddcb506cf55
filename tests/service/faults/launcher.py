"""Start services as forks of a process that has imported everything, so that a restart takes milliseconds, not seconds.

The program reads one JSON list of command-line arguments per line from standard input, starts `budgetron` with them,
and prints the process id of the service.
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

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children do not become zombies, so no wait is needed
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
