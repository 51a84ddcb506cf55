"""Data files: verification, folders of the user, and downloads that succeed, are damaged, end early or fail."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from budgetron.data.files import (
    DataCorrupt,
    DataUnavailable,
    RemoteFile,
    cache_folder,
    download,
    is_intact,
    own_folder,
    read_verified,
)
from budgetron.errors import MissingExtra

CONTENT = bytes(range(256)) * 2000
FILES = tuple(
    RemoteFile(name, f"http://nowhere.invalid/{name}", hashlib.sha256(CONTENT + name.encode()).hexdigest())
    for name in ("set/one.bin", "set/deep/two.bin")
)


def write_files(folder: Path) -> None:
    """Write intact copies of all files to a folder."""
    for file in FILES:
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(CONTENT + file.name.encode())


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_read_returns_the_bytes_of_an_intact_file(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert read_verified(FILES[0], tmp_path) == CONTENT + b"set/one.bin"
    assert is_intact(FILES[0], tmp_path)


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-1], lambda b: b"", lambda b: b[:100] + bytes([b[100] ^ 1]) + b[101:], lambda b: b + b"\n"],
    ids=["truncated", "empty", "one bit flipped", "one byte more"],
)
def test_read_rejects_a_damaged_file_and_says_what_to_do(tmp_path: Path, damage) -> None:
    write_files(tmp_path)
    path = tmp_path / FILES[0].name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        DataCorrupt, match=r"^set/one\.bin in .* should have the SHA-256 .* but .*remove it"
    ):
        read_verified(FILES[0], tmp_path)
    assert not is_intact(FILES[0], tmp_path)


def test_read_of_a_missing_file_names_the_file_its_folder_and_its_source(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailable) as raised:
        read_verified(FILES[0], tmp_path)
    for part in ("set/one.bin cannot be read", str(tmp_path), "FileNotFoundError", FILES[0].url, "$BUDGETRON_DATA"):
        assert part in str(raised.value)


def test_a_folder_argument_has_priority_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_folder(None) is None
    monkeypatch.setenv("BUDGETRON_DATA", str(tmp_path / "environment"))
    assert own_folder(None) == tmp_path / "environment"
    assert own_folder(tmp_path / "given") == tmp_path / "given"


def test_the_cache_is_the_usual_folder_of_the_platform_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    pooch = pytest.importorskip("pooch", reason="the extra `data` is not installed")
    monkeypatch.delenv("BUDGETRON_CACHE")
    assert cache_folder() == Path(pooch.os_cache("budgetron"))
    monkeypatch.setenv("BUDGETRON_CACHE", "somewhere")
    assert cache_folder() == Path("somewhere")


def test_without_pooch_the_remedy_is_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtra, match=r"pooch must be installed; .* pip install 'budgetron\[data\]'"):
        download(FILES, tmp_path)


def test_without_pooch_local_files_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    write_files(tmp_path)
    download(FILES, tmp_path)
    assert files_in(tmp_path) == ["set/deep/two.bin", "set/one.bin"]


class TestDownload:
    """Over real HTTP, from the server `mirror` on loopback, which serves the files in `tmp_path / "origin"`."""

    def test_downloads_only_missing_files(self, tmp_path: Path, mirror) -> None:
        write_files(tmp_path / "origin")
        cache = tmp_path / "cache"
        download(FILES, cache)
        assert files_in(cache) == ["set/deep/two.bin", "set/one.bin"]
        assert read_verified(FILES[1], cache) == CONTENT + b"set/deep/two.bin"
        assert sorted(mirror.requests) == ["set/deep/two.bin", "set/one.bin"]

        (cache / "set/one.bin").unlink()
        download(FILES, cache)
        download(FILES, cache)
        assert mirror.requests[2:] == ["set/one.bin"]

    def test_replaces_a_damaged_file_in_the_cache(self, tmp_path: Path, mirror) -> None:
        write_files(tmp_path / "origin")
        write_files(tmp_path / "cache")
        (tmp_path / "cache/set/one.bin").write_bytes(CONTENT[:1000])
        download(FILES, tmp_path / "cache")
        assert mirror.requests == ["set/one.bin"]
        assert is_intact(FILES[0], tmp_path / "cache")

    def test_shows_progress_on_standard_error(self, tmp_path: Path, mirror, capsys) -> None:
        write_files(tmp_path / "origin")
        download(FILES[:1], tmp_path / "cache", progress=True)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "set/one.bin" in shown.err and "512.0/512.0 kB" in shown.err

    @pytest.mark.parametrize(
        "fault",
        [lambda b: (len(b), b[: len(b) // 2]), lambda b: (len(b), b"")],
        ids=["half sent", "nothing sent"],
    )
    def test_an_interrupted_transfer_leaves_nothing_behind(self, tmp_path: Path, mirror, fault) -> None:
        write_files(tmp_path / "origin")
        mirror.fault = fault
        with pytest.raises(
            DataUnavailable, match=r"set/one\.bin .* could not be downloaded .* from 127\.0\.0\.1.*Nothing was kept"
        ):
            download(FILES, tmp_path / "cache")
        assert mirror.requests == ["set/one.bin"] * 2  # the first request and one retry
        assert files_in(tmp_path / "cache") == []

    @pytest.mark.parametrize(
        "fault",
        [lambda b: (len(b), b[:-1] + b"?"), lambda b: (len(b) - 9, b[:-9])],
        ids=["other bytes", "shorter, with the right length header"],
    )
    def test_wrong_bytes_leave_nothing_behind(self, tmp_path: Path, mirror, fault) -> None:
        write_files(tmp_path / "origin")
        mirror.fault = fault
        with pytest.raises(
            DataCorrupt, match=r"set/one\.bin from http.* the download differs. Nothing was kept"
        ):
            download(FILES, tmp_path / "cache")
        assert files_in(tmp_path / "cache") == []

    def test_a_temporary_fault_is_retried(self, tmp_path: Path, mirror) -> None:
        write_files(tmp_path / "origin")
        healthy = mirror.fault

        def fails_once(content: bytes) -> tuple[int, bytes]:
            mirror.fault = healthy
            return len(content), content[:77]

        mirror.fault = fails_once
        download(FILES[:1], tmp_path / "cache")
        assert files_in(tmp_path / "cache") == ["set/one.bin"]

    def test_a_bad_replacement_does_not_change_the_old_file(self, tmp_path: Path, mirror) -> None:
        write_files(tmp_path / "origin")
        write_files(tmp_path / "cache")
        damaged = tmp_path / "cache/set/one.bin"
        damaged.write_bytes(b"old")
        mirror.fault = lambda b: (len(b), b[:10])
        with pytest.raises(DataUnavailable):
            download(FILES, tmp_path / "cache")
        assert files_in(tmp_path / "cache") == ["set/deep/two.bin", "set/one.bin"]
        assert damaged.read_bytes() == b"old"

    def test_a_missing_page_is_reported_with_its_status(self, tmp_path: Path, mirror) -> None:
        with pytest.raises(DataUnavailable, match=r"404 from 127\.0\.0\.1"):
            download(FILES, tmp_path / "cache")
        assert files_in(tmp_path / "cache") == []

    def test_offline_the_message_says_what_to_do(self, tmp_path: Path, mirror) -> None:
        mirror.stop()  # no server is listening on that port any more
        with pytest.raises(DataUnavailable) as raised:
            download(FILES, tmp_path / "cache")
        sentence = str(raised.value)
        assert sentence.startswith(
            f"set/one.bin is not on this machine and could not be downloaded from {mirror.url}/set/one.bin"
        )
        assert "ConnectionError" in sentence
        for remedy in ("when online", "folder=", "--from", "$BUDGETRON_DATA", "$BUDGETRON_MIRROR"):
            assert remedy in sentence
        assert files_in(tmp_path / "cache") == []

    def test_a_cache_that_cannot_be_written_is_reported(self, tmp_path: Path, mirror) -> None:
        write_files(tmp_path / "origin")
        (tmp_path / "cache").write_text("a file where the folder should be")
        with pytest.raises(DataUnavailable, match=r"could not be written to the cache: .*\$BUDGETRON_CACHE"):
            download(FILES, tmp_path / "cache")
