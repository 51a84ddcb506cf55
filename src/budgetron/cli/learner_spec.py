"""Parse a learner's name, kernel, graph, budget and other parameters from the command line.

--learner Forgetron      or the paper's name, mtforg; or a preset, such as bpa-s
--kernel gaussian:0.5    NAME, NAME:VALUE, or NAME:parameter=value,parameter=value; or none, for linear models only
                         a parameter that is true or false may follow without a value: polynomial:3,normalize
--graph clusters:FILE    complete, complete:COUPLING, disconnected, clusters:FILE or edges:FILE
--budget 64KiB           a number of stored examples, a size, or none
--set eta=0.05           any other parameter of the learner
"""

from __future__ import annotations

import csv
import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetron.errors import InputError, input_error, shown
from budgetron.learners.registry import learner_class, learner_names

if TYPE_CHECKING:
    from budgetron.graphs import TaskGraph
    from budgetron.kernels import Kernel

KERNELS = {"gaussian": ("Gaussian", "gamma"), "polynomial": ("Polynomial", "degree"), "linear": ("Linear", "bias")}
GRAPHS = "complete, complete:COUPLING, disconnected, clusters:FILE or edges:FILE"
_MAX_GRAPH_LINES = 10_000_000
_OWN_OPTIONS = {"budget", "kernel", "graph"}  # parameters with their own option, which --set does not accept


@dataclass(frozen=True)
class LearnerSpec:
    """The options that describe a learner; `build` creates the learner."""

    learner: str = "Budgetron"
    budget: str | None = None  # None: the default of the learner
    kernel: str = "gaussian"
    graph: str = "complete"
    others: tuple[str, ...] = ()  # the values of --set, each NAME=VALUE
    graph_rows: Sequence[Sequence[str]] = field(default=(), repr=False, compare=False)

    def checked(self, who: str) -> LearnerSpec:
        """Validate every part. Return a copy with the learner's exact name and with the rows of the graph's file."""
        name = learner_named(who, self.learner)
        kernel_of(who, self.kernel)
        _parameters(who, name, self.others)
        if self.budget is not None:
            if not has_parameter(name, "budget"):
                raise input_error(
                    who, "--budget", f"left out for {name}, which has no budget", shown(self.budget)
                )
            budget_from(who, self.budget)
        # The file is read once, here; `build` may be called several times.
        rows = _graph_rows(who, self.graph)
        # A graph without a file is created here already, to report a wrong coupling before the stream is read.
        if not rows:
            graph_of(who, self.graph, rows)
        return replace(self, learner=name, graph_rows=rows)

    def build(self, who: str) -> Any:
        """Create the learner."""
        (learner, preset), defaults = _class_and_preset(self.learner), LearnerSpec()
        arguments: dict[str, Any] = {
            **preset,
            "kernel": kernel_of(who, self.kernel),
            "graph": graph_of(who, self.graph, self.graph_rows),
            **_parameters(who, self.learner, self.others),
        }
        for name in ("kernel", "graph"):
            # A learner without this parameter, such as LinearPerceptron, must not silently ignore the option.
            if not has_parameter(self.learner, name):
                if getattr(self, name) != getattr(defaults, name):
                    raise input_error(who, f"--{name}", f"left out for {self.learner}", shown(getattr(self, name)))
                del arguments[name]
        if self.budget is not None:
            arguments["budget"] = budget_from(who, self.budget)
        return learner(**arguments)

    def options(self) -> str:
        """Return the command-line options for this learner, without options that have their defaults."""
        defaults = LearnerSpec()
        words = [f"--learner {self.learner}"] if self.learner != defaults.learner else []
        words += [f"--budget {_quoted(self.budget)}"] if self.budget is not None else []
        words += [f"--kernel {self.kernel}"] if self.kernel != defaults.kernel else []
        words += [f"--graph {_quoted(self.graph)}"] if self.graph != defaults.graph else []
        return " ".join([*words, *(f"--set {_quoted(other)}" for other in self.others)])


def has_parameter(learner: str, parameter: str) -> bool:
    """Return whether this learner has a parameter of this name."""
    return parameter in inspect.signature(_class_and_preset(learner)[0]).parameters


def works_without_kernel(learner: str) -> bool:
    """Return whether this learner accepts --kernel none, that is, linear models only."""
    from budgetron.engine.registry import rule_class

    kind, _ = _class_and_preset(learner)
    return has_parameter(learner, "kernel") and not rule_class(kind.rule).needs_kernel


def default_budget(learner: str) -> str:
    """Return the learner's default budget."""
    return str(inspect.signature(_class_and_preset(learner)[0]).parameters["budget"].default)


def learner_named(who: str, text: str, option: str = "--learner") -> str:
    """Return the class name of a learner from its class name or its name in the paper.

    For the name of a preset, return it in lower case. The case of `text` does not matter.
    """
    for name in learner_names():
        if text.lower() == name.lower():
            return name
    for name in learner_names():  # searched second, because this imports the learners
        if text.lower() == learner_class(name).paper_name:
            return name
        if text.lower() in learner_class(name).presets:
            return text.lower()
    presets = [preset for name in learner_names() for preset in learner_class(name).presets]
    accepted = f"one of {', '.join(learner_names())}, or the paper's name for it, or one of {', '.join(presets)}"
    by_lower_case = {name.lower(): name for name in (*learner_names(), *presets)}
    similar = difflib.get_close_matches(text.lower(), by_lower_case, n=1)
    remedy = f"Did you mean {by_lower_case[similar[0]]}?" if similar else ""
    raise input_error(who, option, accepted, shown(text), remedy)


def _class_and_preset(learner: str) -> tuple[Any, Mapping[str, Any]]:
    """Return the class for a name that `learner_named` returned, and the parameters that a preset sets."""
    if learner not in learner_names():
        for name in learner_names():
            if learner in learner_class(name).presets:
                return learner_class(name), learner_class(name).presets[learner]
    return learner_class(learner), {}


def budget_from(who: str, text: str) -> int | str | None:
    """Parse a budget: a number of examples, a size, or None for no limit."""
    from budgetron.engine.memory import budget_of

    # 1,000 and 1_000 are accepted, as people write large numbers.
    plain = text.strip().replace(",", "").replace("_", "")
    budget: int | str | None = text
    if plain.lower() in ("none", "unlimited"):
        budget = None
    elif plain.isdecimal():
        budget = int(plain)
    budget_of(who, budget, "--budget")
    return budget


def kernel_of(who: str, text: str) -> Kernel | None:
    """Parse a kernel. None means a Budgetron with linear models only."""
    from budgetron import kernels

    name, _, rest = text.strip().partition(":")
    if name.lower() == "none" and not rest:
        return None
    if name.lower() not in KERNELS:
        accepted = "gaussian, gaussian:GAMMA, polynomial, polynomial:DEGREE, linear, linear:BIAS or none"
        raise input_error(who, "--kernel", accepted, shown(text))
    class_name, main_parameter = KERNELS[name.lower()]
    kernel_class = getattr(kernels, class_name)
    known = list(inspect.signature(kernel_class).parameters)
    arguments = {}
    for i, part in enumerate(filter(None, rest.split(","))):
        key, equals, value = part.partition("=")
        # A first value without a name is the main parameter: gaussian:0.5. A later name without a value is a flag:
        # polynomial:3,normalize.
        if not equals:
            key, value = (main_parameter, part) if i == 0 else (part, "true")
        if key.strip() not in known:
            raise input_error(who, "--kernel", f"{name} with the parameters {', '.join(known)}", shown(part))
        arguments[key.strip()] = _value(value)
    kernel: Kernel = kernel_class(**arguments)
    return kernel


def graph_of(who: str, text: str, rows: Sequence[Sequence[str]]) -> TaskGraph:
    """Create the task graph. Task names are parsed as in a stream, so that the tasks of the stream are found in it."""
    from budgetron import graphs
    from budgetron.io.encoding.values import parse_task

    kind, _, rest = text.strip().partition(":")
    if kind == "complete":
        try:
            return graphs.complete(coupling=_value(rest or "1.0"))
        except InputError:  # this error would name arguments of Python
            accepted = "complete:COUPLING, a number >= 0, or complete:inf, which pools the tasks"
            remedy = "complete:0 makes the tasks independent; negative numbers are not supported."
            raise input_error(who, "--graph", accepted, shown(text), remedy) from None
    if kind == "disconnected":
        return graphs.disconnected()
    if kind == "clusters":
        return graphs.clusters({parse_task(row[0]): row[1] for row in rows})
    # The remaining kind is edges:FILE. A row with an empty second field is a task without edges.
    edges = [row for row in rows if row[1]]
    pairs = [(parse_task(row[0]), parse_task(row[1])) for row in edges]
    # Tasks without edges are listed too, so that the graph accepts their examples.
    tasks = list(dict.fromkeys(parse_task(row[0]) for row in rows))
    return graphs.from_edges(pairs, [_edge_weight(who, text, row) for row in edges], tasks=tasks)


def _graph_rows(who: str, text: str) -> list[list[str]]:
    """Read the file of a graph. Lines are task,cluster for clusters; task,task[,weight] or a single task for edges."""
    kind, _, rest = text.strip().partition(":")
    if kind == "complete" or (kind == "disconnected" and not rest):
        return []
    if kind not in ("clusters", "edges") or not rest:
        raise input_error(who, "--graph", GRAPHS, shown(text))
    max_fields, line_format = 2, "task,cluster"
    if kind == "edges":
        max_fields, line_format = 3, "task,task or task,task,weight, or task for a task without edges"
    rows: list[list[str]] = []
    # utf-8-sig drops the byte order mark that spreadsheet programs write.
    with open(rest, newline="", encoding="utf-8-sig") as file:
        tabs = Path(rest).suffix.lower() in (".tsv", ".tab")
        lines = csv.reader(_without_comments(file), delimiter="\t" if tabs else ",")
        is_first = True
        for row in lines:
            row = [cell.strip() for cell in row]
            if not any(row):
                continue
            is_header, is_first = is_first and _is_header(row, kind), False
            if is_header:  # such as task,cluster
                continue
            if kind == "edges" and len(row) == 1:
                row.append("")  # a task without edges
            if not 2 <= len(row) <= max_fields or not row[0] or (kind == "clusters" and not row[1]):
                got = f"{shown(row)} in line {lines.line_num} of {rest}"
                raise input_error(who, "--graph", f"a file with lines {line_format}", got)
            if len(rows) >= _MAX_GRAPH_LINES:
                raise input_error(who, "--graph", f"a file of at most {_MAX_GRAPH_LINES} lines", rest)
            rows.append(row)
    if not rows:
        raise input_error(who, "--graph", f"a file with lines {line_format}", f"{rest}, which has no such lines")
    return rows


def _without_comments(file: Iterable[str]) -> Iterable[str]:
    # Comments become blank lines, so that later lines keep their numbers.
    return ("\n" if line.startswith("#") else line for line in file)


def _is_header(row: Sequence[str], kind: str) -> bool:
    names = {"task", "tasks", "user", "from", "source", "a"} if kind == "edges" else {"task", "tasks", "user"}
    return row[0].lower() in names and len(row) > 1


def _edge_weight(who: str, text: str, row: Sequence[str]) -> float:
    try:
        return float(row[2]) if len(row) > 2 and row[2] else 1.0
    except ValueError:
        raise input_error(who, "--graph", "a file whose weights are numbers", f"{shown(row[2])} in {text}") from None


def _parameters(who: str, learner: str, others: Iterable[str]) -> Mapping[str, Any]:
    """Parse the values of --set, each NAME=VALUE."""
    parameters = inspect.signature(_class_and_preset(learner)[0]).parameters
    known = set(parameters) - _OWN_OPTIONS - {"task_column"}  # the task column has the option --task
    arguments = {}
    for text in others:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            names = ", ".join(sorted(known))
            raise input_error(who, "--set", f"NAME=VALUE, where NAME is a parameter of {learner}: {names}", shown(text))
        arguments[name] = _class_weights(value) if name == "class_weight" else _value(value)
    return arguments


def _class_weights(text: str) -> dict[Any, Any]:
    """Parse class weights, as in ham:1,spam:5."""
    pairs = [part.rpartition(":") for part in text.split(",")]
    return {_value(label): _value(weight) for label, _, weight in pairs}


def _value(text: str) -> Any:
    """Parse an integer, a number, true, false or none; anything else stays text."""
    words = {"true": True, "false": False, "none": None}
    text = text.strip()
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
