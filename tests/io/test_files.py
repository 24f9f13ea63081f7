"""Writing files: an old file stays until the new one is whole. Fingerprints: of names and bytes, not of places."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edge_transformer.io import files
from edge_transformer.io.files import fingerprint, lock, locked, obstacle, replacing, replacing_together, write_text

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and locks of POSIX systems")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(target: Path, error: type[BaseException]) -> None:
    with replacing(target) as aside:
        aside.write_text("half")
        raise error


def test_a_new_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "new.txt"
    with replacing(target) as aside:
        assert aside.parent == tmp_path
        aside.write_text("half")
        assert not target.exists()
        aside.write_text("whole")
    assert target.read_text() == "whole"
    assert names(tmp_path) == ["new.txt"]


def write_some(folder: Path, error: type[BaseException]) -> None:
    with replacing_together(folder) as place:
        place("a").write_text("new")
        place("b").write_text("ne")
        place("below/c").write_text("n")
        raise error


def test_files_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    for broken in (ValueError, KeyboardInterrupt):
        with pytest.raises(broken):
            write_some(folder, broken)
        assert names(tmp_path) == []
    with replacing_together(folder) as place:
        place("a").write_text("old")
        place("b").write_text("old")
        assert not (folder / "a").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]
    with pytest.raises(KeyboardInterrupt):
        write_some(folder, KeyboardInterrupt)
    assert [path.read_text() for path in sorted(folder.iterdir())] == ["old", "old"]


def test_an_old_file_stays_until_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with replacing(target) as aside:
        aside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_old_file_stays_when_the_block_fails(error: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(error):
        write_half(target, error)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_what_is_in_the_way_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for free in ("file", "new", "new folder/another/new"):
        assert obstacle(tmp_path / free) is None
    assert obstacle(tmp_path) == f"a folder at {tmp_path}"
    assert obstacle(tmp_path / "file" / "x") == f"{tmp_path}/file, which is no folder"
    assert obstacle(tmp_path / "file" / "x" / "y") == f"{tmp_path}/file, which is no folder"
    (tmp_path / "link").symlink_to("nowhere")
    assert obstacle(tmp_path / "link" / "x") == f"{tmp_path}/link, which is no folder"
    too_long = obstacle(tmp_path / ("x" * 250))
    assert too_long is not None
    assert too_long.startswith(f"that {tmp_path} cannot be written to (")
    assert names(tmp_path) == ["file", "link"]


def test_a_place_in_the_folder_at_hand_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert obstacle("new") is None
    assert names(tmp_path) == []


@posix
def test_a_folder_that_may_not_be_written_to_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)  # root may write to all folders
    for name in ("x", "new folder/x"):
        assert obstacle(tmp_path / name) == f"that {tmp_path} cannot be written to (Permission denied)"


def test_no_file_where_there_was_none_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - our own
        write_half(tmp_path / "file.txt", ValueError)
    assert names(tmp_path) == []


def test_folders_are_made(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "c.txt", "text")
    assert (tmp_path / "a/b/c.txt").read_text() == "text"


def test_the_way_may_be_blocked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(OSError, match="file"):
        write_text(tmp_path / "file" / "below", "text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    with pytest.raises(OSError, match="folder"):
        write_text(tmp_path / "folder", "text")
    assert names(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "precious"


def test_writers_of_the_same_file_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    with replacing(target) as first, replacing(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"  # its block ended last
    assert names(tmp_path) == ["file.txt"]


def test_text_is_the_same_bytes_everywhere(tmp_path: Path) -> None:
    write_text(tmp_path / "file.txt", "zwölf\nBoxkämpfer\r\n")
    assert (tmp_path / "file.txt").read_bytes() == "zwölf\nBoxkämpfer\r\n".encode()


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_of_a_new_file_are_the_usual_ones(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "file.txt", "text")
        assert os.umask(mask) == mask  # asking for it did not change it
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file.txt").stat().st_mode) == 0o666 & ~mask


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_permissions_of_an_old_file_stay(mode: int, tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    target.chmod(mode)
    write_text(target, "new")
    assert stat.S_IMODE(target.stat().st_mode) == mode


# --- locks ------------------------------------------------------------------------------------------------------------


@posix
def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    held = lock(tmp_path / "run" / "lock")
    assert held is not None
    assert lock(tmp_path / "run" / "lock") is None
    other = lock(tmp_path / "other")
    assert other is not None
    other.release()
    held.release()
    again = lock(tmp_path / "run" / "lock")
    assert again is not None
    again.release()


@posix
def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = "import sys; from edge_transformer.io.files import lock; kept = lock(sys.argv[1]); print('held')"
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "held\n"
    held = lock(tmp_path / "lock")
    assert held is not None
    held.release()


@posix
def test_a_file_is_locked_for_the_time_of_a_block(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        with locked(file.fileno(), exclusive=True):
            assert lock(tmp_path / "file") is None
        with locked(file.fileno(), exclusive=False):
            assert lock(tmp_path / "file") is None
            with open(tmp_path / "file", "rb") as reader, locked(reader.fileno(), exclusive=False):
                pass  # readers do not wait for each other
        free = lock(tmp_path / "file")
        assert free is not None
        free.release()


def test_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    with open(tmp_path / "file", "wb") as file, locked(file.fileno(), exclusive=True):
        held = lock(tmp_path / "file")
        assert held is not None
        held.release()


# --- fingerprints -----------------------------------------------------------------------------------------------------


def make(folder: Path, **texts: str) -> list[Path]:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    return sorted(folder.iterdir())


def test_fingerprint_depends_on_names_and_bytes_but_not_on_the_folder(tmp_path: Path) -> None:
    original = fingerprint(make(tmp_path / "a", train="1", test="2"))
    assert fingerprint(make(tmp_path / "b", train="1", test="2")) == original
    others = [
        fingerprint(make(tmp_path / "c", train="1", test="3")),
        fingerprint(make(tmp_path / "d", train="1", tests="2")),
        fingerprint(make(tmp_path / "e", train="1")),
        fingerprint(make(tmp_path / "f", train="1", test="2", more="")),
        fingerprint(make(tmp_path / "g", train="2", test="1")),
        fingerprint(make(tmp_path / "h", train="12", test="")),
        fingerprint([]),
    ]
    assert len({original, *others}) == 1 + len(others)
    assert len(original) == 16
    assert set(original) <= set("0123456789abcdef")


def test_fingerprint_stays_the_same_over_versions(tmp_path: Path) -> None:
    # Records on disk hold it: a new way to compute it would make every old record foreign.
    assert fingerprint(make(tmp_path / "a", test="x\n", train="y\n")) == "ef10e5c70d70f694"


@posix
def test_fingerprint_of_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9_train.csv")
    try:
        path.write_text("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert len(fingerprint([path])) == 16
