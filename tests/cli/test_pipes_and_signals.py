"""The command line in real processes: pipes, terminals, Ctrl-C and SIGTERM."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from child_signals import default_signals
from written_mail import write_mail

import budgetron
from budgetron import io

COMMAND = [sys.executable, "-m", "budgetron"]
TIMEOUT = 600  # seconds; only ends a test that hangs
COLOUR = re.compile(r"\x1b\[(?:[\d;]*;)?[39]\d[\d;]*m")  # the escape sequence of a colour; bold is \x1b[1m


def run_command(*words, **options) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT, **options)


def wait_until(condition, process: subprocess.Popen) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert process.poll() is None and time.monotonic() < end, "the process ended or the condition never held"
        time.sleep(0.02)


@contextlib.contextmanager
def start_command(*words, **options):
    with default_signals():
        process = subprocess.Popen([*COMMAND, *map(str, words)], stdin=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for end in (process.stdin, process.stdout, process.stderr):
            if end is not None:
                with contextlib.suppress(BrokenPipeError):
                    end.close()


def test_predict_reads_from_a_pipe_and_writes_to_a_pipe(tmp_path: Path) -> None:
    text = write_mail(tmp_path / "mail.csv", 300).read_text()
    learned = run_command("run", "-", "--budget", 20, "--save", tmp_path / "m", input=text)
    assert (learned.returncode, learned.stderr) == (0, "")
    assert learned.stdout.startswith("standard input: 300 examples")
    long = tmp_path / "long.csv"
    lines = text.splitlines()
    long.write_text("\n".join([lines[0], *lines[1:] * 300]))  # the predictions are more than a pipe holds
    errors = tmp_path / "errors"
    with (
        errors.open("w") as stderr,
        start_command("predict", tmp_path / "m", long, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        assert process.stdout.readline().startswith("line,task,prediction")
        process.stdout.close()  # like head -1
        assert process.wait(TIMEOUT) == 1
    assert errors.read_text() == ""


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")]
)
def test_a_signal_saves_what_was_learned(tmp_path: Path, number: int, name: str) -> None:
    lines = write_mail(tmp_path / "mail.csv", 5000).read_text()
    model, errors = tmp_path / "m", tmp_path / "errors"
    options = ["--save", model, "--budget", 20, "--kernel", "gaussian:0.3"]
    with (
        errors.open("w") as stderr,
        start_command("run", "-", *options, stdout=subprocess.DEVNULL, stderr=stderr) as process,
    ):
        process.stdin.write(lines)
        process.stdin.flush()
        wait_until(lambda: _waits_for_input(process), process)
        process.send_signal(number)
        assert process.wait(TIMEOUT) == 130
    output = errors.read_text()
    assert f"Stopped by {name} after " in output and f"saved in {model}" in output and "Traceback" not in output
    learned = budgetron.load(model)
    assert learned.n_seen_ == int(re.search(r"after ([\d,]+) examples", output)[1].replace(",", "")) > 0


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_stops_calibrate_and_nothing_is_saved(tmp_path: Path, number: int, name: str) -> None:
    stream, model, errors = write_mail(tmp_path / "mail.csv", 5000), tmp_path / "m", tmp_path / "errors"
    assert run_command("run", stream, "--budget", 20, "--save", model).returncode == 0
    before, options = model.read_bytes(), ["--costs", "fp=1,fn=8", "--save", model]
    with (
        errors.open("w") as stderr,
        start_command("calibrate", model, "-", *options, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        process.stdin.write(stream.read_text())
        process.stdin.flush()
        wait_until(lambda: _waits_for_input(process), process)
        process.send_signal(number)
        assert process.wait(TIMEOUT) == 130 and process.stdout.read() == ""
    assert re.fullmatch(rf"Stopped by {name} after [\d,]+ examples. Nothing was saved.\n", errors.read_text())
    assert model.read_bytes() == before


def test_an_ignored_sighup_stays_ignored(tmp_path: Path) -> None:
    """A run that was started by nohup, which ignores SIGHUP, does not stop when the terminal is closed."""
    lines = write_mail(tmp_path / "mail.csv", 5000).read_text()
    errors = tmp_path / "errors"
    program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from budgetron.cli import main; main()"
    command = [sys.executable, "-c", program, "run", "-", "--save", tmp_path / "m", "--budget", "20"]
    with errors.open("w") as stderr, default_signals():
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr, text=True)
    try:
        process.stdin.write(lines)
        process.stdin.flush()
        wait_until(lambda: _waits_for_input(process), process)
        process.send_signal(signal.SIGHUP)
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0, errors.read_text()
    finally:
        process.kill()
        process.wait()
    assert budgetron.load(tmp_path / "m").n_seen_ == 5000


def _waits_for_input(process: subprocess.Popen) -> bool:
    """Whether the process has read all of the pipe and waits for more.

    It must be asleep with an empty pipe five times in a row, because it also sleeps for moments while it starts.
    """
    for _ in range(5):
        unread = array.array("i", [1])
        fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
        if unread[0] or not _is_asleep(process.pid):
            return False
        time.sleep(0.05)
    return True


def _is_asleep(pid: int) -> bool:
    if not os.path.exists("/proc/self/stat"):  # macOS; "I" is a sleep of more than 20 seconds
        return subprocess.check_output(["ps", "-o", "state=", "-p", str(pid)], text=True).startswith(("S", "I"))
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_a_signal_before_the_first_rows_stops_at_once(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with (
        errors.open("w") as stderr,
        start_command("run", "-", "--save", tmp_path / "m", stdout=subprocess.DEVNULL, stderr=stderr) as process,
    ):
        process.stdin.write("x,label\n1,0\n2,1\n")  # too few rows to infer the columns from
        process.stdin.flush()
        wait_until(lambda: _waits_for_input(process), process)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    assert errors.read_text() == "Stopped.\n"


def test_a_signal_while_rows_are_read_stops_the_run(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with (
        errors.open("w") as stderr,
        start_command("run", "-", "--save", tmp_path / "m", stdout=subprocess.DEVNULL, stderr=stderr) as process,
    ):
        process.stdin.write("x,label\n" + "1,0\n2,1\n" * 20_000)  # more than a pipe holds
        process.stdin.flush()  # returns only after the process has begun to read
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    assert "Stopped" in errors.read_text() and "Traceback" not in errors.read_text()


@pytest.mark.parametrize("command", ["run", "compare", "tune", "calibrate"])
def test_a_signal_while_the_first_rows_of_a_file_are_read_stops_the_command(
    command: str, tmp_path: Path, mail: Path, budgetron, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, words = tmp_path / "m", [command, mail]
    if command == "calibrate":
        budgetron("run", mail, "--kernel", "none", "--save", saved)
        words = [command, saved, mail, "--threshold", 0.4, "--save", tmp_path / "calibrated"]
    read = io.read

    def interrupted_read(*arguments, **options):
        stream = read(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)
        return stream

    monkeypatch.setattr(io, "read", interrupted_read)
    stopped = budgetron(*words, code=130)
    assert stopped.stderr.startswith("Stopped by SIGTERM") and stopped.stdout == ""


def on_a_terminal(*words, columns: int = 80, **environment) -> tuple[int, str]:
    """Run a command on a terminal. Returns its exit code and everything that was written to the terminal."""
    process_id, terminal = pty.fork()
    if process_id == 0:
        os.environ.update({"TERM": "xterm", "COLUMNS": str(columns), **environment})
        os.execv(COMMAND[0], [*COMMAND, *map(str, words)])
    sent = b""
    while select.select([terminal], [], [], TIMEOUT)[0]:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        sent += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]), sent.decode(errors="replace")


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    stream = write_mail(tmp_path / "mail.csv", 300)
    lines = stream.read_text().splitlines()
    stream.write_text("\n".join([lines[0], *lines[1:] * 100]))
    code, sent = on_a_terminal("run", stream, "--budget", 20)
    assert code == 0
    line = r"[\d,]+ seen  [\d,]+/s  error [\d.]+ %  AUC [\d.]+  [\d,]+ KiB  \d+:\d\d left"
    for words in (line, "30,000 examples"):
        assert re.search(words, sent), sent
    assert "\x1b[1m" in sent  # bold headings
    plain = run_command("run", stream, "--budget", 20)
    assert "\x1b" not in plain.stdout and plain.stderr == ""


def test_no_color_switches_colours_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = write_mail(tmp_path / "mail.csv", 100)
    for environment, has_colours in (({}, True), ({"NO_COLOR": "1"}, False)):
        _, sent = on_a_terminal("compare", stream, "--budgets", "5", **environment)
        assert "Take " in sent and bool(COLOUR.search(sent)) == has_colours, sent


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_for_each_shell(shell: str, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from budgetron.cli import main

    script = CliRunner().invoke(main, ["completion", shell]).output
    assert "_BUDGETRON_COMPLETE" in script
    if shell == "bash":
        (tmp_path / "c.sh").write_text(script)
        subprocess.run(["bash", "-n", str(tmp_path / "c.sh")], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("budgetron ", {"run", "predict", "inspect"}),
        ("budgetron in", {"inspect"}),
        ("budgetron run --resu", {"--resume"}),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, expected: set[str]) -> None:
    word_index = len(words.split()) - (0 if words.endswith(" ") else 1)
    environment = os.environ | {
        "_BUDGETRON_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(word_index)
    }  # fmt: skip
    output = run_command(env=environment).stdout.split()
    answers = {answer.removeprefix("plain,") for answer in output}
    assert expected <= answers and (len(expected) > 1 or answers == expected)
