"""Build and run the C++ stress program with every supported compiler: `make portability`.

Each compiler builds the program twice with warnings as errors: once optimised, with all SIMD levels of the processor
that it compiles for, and once with the sanitizers whose runtime is installed. The optimised program is run at each
level that this CPU has. One GCC and one Clang also build the program without vector extensions. The program for aarch64
runs under qemu. Missing compilers are installed from Debian if this process runs as root; otherwise they are reported
and left out. The exit code is 1 if any build or run fails.

`make cross` builds the program for Windows and macOS with Zig, which pip installs. It also runs the program for Windows
if wine is installed. These builds have no sanitizers.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "portability"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
FLAGS = ["-std=c++17", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-I", "src/core"]
SANITIZERS = ["address,undefined", "undefined"]  # the first one whose runtime is installed is used
LEVELS = {"baseline": (16, []), "v3": (32, ["-march=x86-64-v3"]), "v4": (64, ["-march=x86-64-v4"])}
SLOW = "40"  # under an emulator, run only every 40th configuration


@dataclass(frozen=True)
class Compiler:
    command: str
    packages: tuple[str, ...]
    arch: str = "x86_64"
    runner: tuple[str, ...] = ()
    plain: bool = False  # build also without vector extensions and from_chars, as on MSVC and older AppleClang
    flags: tuple[str, ...] = ()
    system: str = "Linux"

    @property
    def name(self) -> str:
        return self.command if self.system == "Linux" else f"zig-{self.system.lower()}"

    @property
    def missing(self) -> bool:
        programs = (self.command, *self.runner[:1]) if self.system == "Linux" else (self.command,)
        return any(shutil.which(program) is None for program in programs)

    @property
    def can_run(self) -> bool:
        return bool(self.runner and shutil.which(self.runner[0])) or self.system == platform.system()


COMPILERS = [
    Compiler("g++-11", ("g++-11",)),
    Compiler("g++-12", ("g++-12",), plain=True),
    Compiler("g++-14", ("g++-14",)),
    Compiler("g++-16", ("g++-16",)),
    Compiler("clang++-14", ("clang-14", "libclang-rt-14-dev", "libstdc++-12-dev")),
    Compiler("clang++-15", ("clang-15", "libstdc++-12-dev")),
    Compiler("clang++-16", ("clang-16", "libclang-rt-16-dev", "libstdc++-12-dev")),
    Compiler("clang++-19", ("clang-19", "libclang-rt-19-dev", "libstdc++-12-dev"), plain=True),
    Compiler(
        "aarch64-linux-gnu-g++-12", ("g++-12-aarch64-linux-gnu", "qemu-user"),
        "aarch64", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    ),
]  # fmt: skip
ZIG = [  # built only if the command names them: Zig compiles its own standard library first, which takes minutes
    Compiler("python-zig", (), "x86_64", ("wine",), flags=("c++", "-target", "x86_64-windows-gnu"), system="Windows"),
    Compiler("python-zig", (), "aarch64", flags=("c++", "-target", "aarch64-macos"), system="Darwin"),
]


class Failure(Exception):
    """A build or a run that failed, with its output."""


def run(*command: str | Path, **environment: str) -> str:
    result = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    if result.returncode:
        raise Failure(f"{' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def succeeds(*command: str | Path) -> bool:
    try:
        run(*command)
    except (Failure, OSError):
        return False
    return True


def install(missing: list[Compiler]) -> None:
    """Install compilers from Debian, if this process is root. A package that the release does not have is left out."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    succeeds("apt-get", "update", "-qq")
    for compiler in missing:
        for package in compiler.packages:
            succeeds("apt-get", "install", "-y", "-qq", "--no-install-recommends", package)


def build(compiler: Compiler, name: str, levels: list[str], flags: list[str]) -> Path:
    """Build the stress program in build/portability/<compiler>/<name>, and return its path."""
    folder = BUILD / compiler.name / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    common = [compiler.command, *compiler.flags, *FLAGS, *WARNINGS, *flags]
    defined = [f"-DBUDGETRON_HAS_{level.upper()}" for level in levels]
    objects, commands = [], []
    sources = [s for s in (ROOT / "src/core").rglob("*.cpp") if s.name != "simd.cpp" and s.parent.name != "bindings"]
    for source in [*sources, ROOT / "tests/core/stress.cpp"]:
        objects.append(folder / f"{source.stem}.o")
        commands.append([*common, *defined, "-c", source.relative_to(ROOT), "-o", objects[-1]])
    for level in levels:
        vector, march = LEVELS[level]
        if compiler.system != "Linux":  # Zig has its own names of processors
            march = [flag.replace("-march=x86-64-", "-mcpu=x86_64_") for flag in march]
        objects.append(folder / f"simd_{level}.o")
        target = [f"-DBUDGETRON_TARGET={level}", f"-DBUDGETRON_VECTOR={vector}", *march]
        commands.append([*common, *target, "-c", "src/core/simd/simd.cpp", "-o", objects[-1]])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda command: run(*command), commands))
    program = folder / "core_stress"
    run(*common, *objects, "-o", program, "-pthread")
    return program


def sanitizer_of(compiler: Compiler) -> str | None:
    folder = BUILD / compiler.name
    folder.mkdir(parents=True, exist_ok=True)
    source, program = folder / "probe.cpp", folder / "probe"
    source.write_text("int main() { return 0; }\n")
    for sanitizer in SANITIZERS:
        command = (compiler.command, f"-fsanitize={sanitizer}", source, "-o", program)
        if succeeds(*command) and succeeds(*compiler.runner, program):
            return sanitizer
    return None


def check(compiler: Compiler) -> list[str]:
    """Build the stress program in all ways, and run it if possible. Returns lines on what ran and what was left out."""
    native = (compiler.system, compiler.arch) == (platform.system(), platform.machine())
    scale = [] if native else [SLOW]
    levels = list(LEVELS) if compiler.arch == "x86_64" else ["baseline"]
    lines = []

    def run_program(program: Path, how: str, **environment: str) -> str:
        started = time.monotonic()
        output = run(*compiler.runner, program, *scale, **environment).strip()
        lines.append(f"{how}: {output} ({time.monotonic() - started:.0f} s)")
        return output

    program = build(compiler, "optimised", levels, ["-O3"])
    if not compiler.can_run:
        return [f"optimised: compiled for {compiler.system} on {compiler.arch}, and not run"]
    for level in levels:
        output = run_program(program, "optimised", BUDGETRON_LEVEL=level)
        if f"at level {level}," not in output:  # this CPU lacks the level: a lower one is used, which was run before
            lines[-1] = f"optimised: level {level} is compiled, but this CPU does not have it"
    if compiler.plain:
        flags = ["-O2", "-DBUDGETRON_PLAIN_LOOPS", "-DBUDGETRON_NO_FROM_CHARS"]
        run_program(build(compiler, "plain", ["baseline"], flags), "plain loops")
    if compiler.system != "Linux":
        return lines
    sanitizer = sanitizer_of(compiler)
    if sanitizer is None:
        lines.append("sanitizers: their runtime is not installed")
        return lines
    flags = ["-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    if "clang" in compiler.command:
        flags.append("-Wno-pass-failed")  # at -O1 nothing is vectorised, and Clang warns about every `omp simd` loop
    run_program(build(compiler, "sanitized", ["baseline"], flags), f"-fsanitize={sanitizer}")
    return lines


def main(commands: list[str]) -> int:
    compilers = [c for c in [*COMPILERS, *ZIG] if c.name in commands] if commands else COMPILERS
    missing = [c for c in compilers if c.missing or (c.system == "Linux" and sanitizer_of(c) is None)]
    if missing:
        install(missing)
    failed = []
    for compiler in compilers:
        print(f"== {compiler.name}", flush=True)
        if compiler.missing:
            remedy = f"Debian: apt-get install {' '.join(compiler.packages)}" if compiler.packages else "Run make cross"
            print(f"   missing, left out. {remedy}")
            continue
        try:
            for line in check(compiler):
                print(f"   {line}", flush=True)
        except Failure as failure:
            failed.append(compiler.name)
            print(f"   FAILED: {failure}", flush=True)
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
