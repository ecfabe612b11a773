import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prism_lm.artifacts import UserError, new_folder, write_file_atomic
from prism_lm.artifacts import folders as folders_module

HOLD = """
import sys, time
from prism_lm.artifacts import new_folder
with new_folder(sys.argv[1]) as part:
    (part / "data").write_text("half")
    print(part, flush=True)
    time.sleep(60)
"""


def fill(path: Path, text: str, *, overwrite: bool = False) -> None:
    with new_folder(path, overwrite=overwrite) as part:
        (part / "inner").mkdir()
        (part / "inner" / "data").write_text(text)
        (part / "manifest.json").write_text("{}")


def fail_half_way(path: Path, *, overwrite: bool = False) -> None:
    with new_folder(path, overwrite=overwrite) as part:
        (part / "data").write_text("half")
        raise ZeroDivisionError


def test_folder_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "corpus"
    with new_folder(target) as part:
        assert part.parent == target.parent
        assert not target.exists()
        (part / "data").write_text("whole")
    assert (target / "data").read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["corpus"]


def test_nothing_is_left_when_the_block_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_half_way(tmp_path / "corpus")
    assert list(tmp_path.iterdir()) == []


def test_existing_folder_is_refused_and_untouched(tmp_path: Path) -> None:
    fill(tmp_path / "corpus", "first")
    with pytest.raises(UserError, match="exists already"):
        fill(tmp_path / "corpus", "second")
    assert (tmp_path / "corpus" / "inner" / "data").read_text() == "first"


def test_overwrite_swaps_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "corpus"
    fill(target, "first")
    with pytest.raises(ZeroDivisionError):
        fail_half_way(target, overwrite=True)
    assert (target / "inner" / "data").read_text() == "first"
    fill(target, "second", overwrite=True)
    assert (target / "inner" / "data").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_overwrite_never_replaces_what_prism_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    for name, said in (("home", r"no manifest\.json"), ("file", "not a folder"), ("link", "not a folder")):
        with pytest.raises(UserError, match=said):
            fill(tmp_path / name, "new", overwrite=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


def test_somebody_who_was_faster_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="meanwhile"), new_folder(tmp_path / "corpus"):
        fill(tmp_path / "corpus", "faster")
    assert (tmp_path / "corpus" / "inner" / "data").read_text() == "faster"


def test_killed_process_leaves_no_folder_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    target = tmp_path / "corp*us"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(target)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child:
        part = Path(child.stdout.readline().strip())
        assert (part / "data").read_text() == "half"
        # Alive, its folder is left alone by others who want the same name.
        with pytest.raises(ZeroDivisionError), new_folder(target):
            raise ZeroDivisionError
        assert part.exists()
        child.send_signal(signal.SIGKILL)
    assert not target.exists()
    assert part.exists()
    fill(target, "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["corp*us"]


def test_replacement_that_was_killed_half_way_is_put_back(tmp_path: Path) -> None:
    target = tmp_path / "corpus"
    fill(target, "first")
    target.rename(tmp_path / ".corpus.old-0123abcd")
    with pytest.raises(ZeroDivisionError), new_folder(target, overwrite=True):
        raise ZeroDivisionError
    assert (target / "inner" / "data").read_text() == "first"


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("No space left on device (os error 28)")],
)
def test_full_disk_is_one_clear_line(tmp_path: Path, error: Exception) -> None:
    with (
        pytest.raises(UserError, match=r"disk is full.*corpus.*free in") as caught,
        new_folder(tmp_path / "corpus"),
    ):
        raise error
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_at_the_last_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file_atomic(tmp_path / "file", "before")
    monkeypatch.setattr(folders_module.os, "fsync", full_disk)
    with pytest.raises(UserError, match="disk is full"):
        fill(tmp_path / "corpus", "x")
    with pytest.raises(UserError, match="disk is full"):
        write_file_atomic(tmp_path / "file", "after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), new_folder(tmp_path / "corpus"):
        raise PermissionError(errno.EACCES, "no")


def test_parent_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be a folder"):
        fill(tmp_path / "file" / "corpus", "x")


def test_write_file_atomic_writes_text_as_utf8(tmp_path: Path) -> None:
    write_file_atomic(tmp_path / "file", "é\r\n")
    assert (tmp_path / "file").read_bytes() == "é\r\n".encode()
