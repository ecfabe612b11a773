import json
from pathlib import Path
from typing import Any

import pytest

from prism_lm.artifacts import (
    FORMAT_VERSION,
    Manifest,
    UserError,
    read_manifest,
    verify_files,
    write_manifest,
)
from prism_lm.artifacts.manifest import command_line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.bin").write_bytes(b"\0" * 10)
    (tmp_path / "a.txt").write_text("text")
    return tmp_path


def write(folder: Path, **changes: Any) -> Manifest:
    given: dict[str, Any] = {
        "kind": "corpus",
        "configuration": {"x": 1},
        "sources": {},
        "figures": {"tokens": 3},
    }
    return write_manifest(folder, **{**given, **changes})


def alter(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_round_trip(folder: Path) -> None:
    written = write(folder, command="prism prepare installed --out x")
    assert read_manifest(folder, kind="corpus") == written
    assert set(written.files) == {"a.txt", "inner/b.bin"}
    assert written.files["inner/b.bin"].bytes == 10
    verify_files(folder, written, deep=True)


def test_hash_names_contents_and_configuration_and_nothing_else(folder: Path) -> None:
    first = write(folder).hash
    assert write(folder, command="another", figures={"seconds": 2.0}).hash == first
    changed = {
        write(folder, kind="index").hash,
        write(folder, configuration={"x": 2}).hash,
        write(folder, sources={"corpus": "00"}).hash,
    }
    (folder / "a.txt").write_text("tex.")
    assert len(changed | {first, write(folder).hash}) == 5


def test_excluded_entries_do_not_belong(folder: Path) -> None:
    assert set(write(folder, exclude=["inner"]).files) == {"a.txt"}


def test_missing_shortened_and_altered_files_are_named(folder: Path) -> None:
    manifest = write(folder, command="prism prepare again")
    (folder / "a.txt").write_text("tex.")
    verify_files(folder, manifest)
    with pytest.raises(UserError, match=r"damaged.*a\.txt"):
        verify_files(folder, manifest, deep=True)
    (folder / "a.txt").write_text("te")
    with pytest.raises(
        UserError, match=r"a\.txt has 2 bytes, not 4; make it again with: prism prepare again"
    ):
        verify_files(folder, manifest)
    (folder / "a.txt").unlink()
    with pytest.raises(UserError, match=r"a\.txt is missing"):
        verify_files(folder, manifest)


def test_link_out_of_the_folder_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    manifest = write(folder)
    outside = tmp_path_factory.mktemp("outside") / "a.txt"
    (folder / "a.txt").rename(outside)
    (folder / "a.txt").symlink_to(outside)
    with pytest.raises(UserError, match="leads out of the folder"):
        verify_files(folder, manifest)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "inner/../../up", "C:/x", "a\\b", "", "a\0b"])
def test_names_that_leave_the_folder_are_refused(folder: Path, name: str) -> None:
    write(folder)
    alter(folder, files={name: {"bytes": 1, "hash": "00"}})
    with pytest.raises(UserError, match="outside the folder"):
        read_manifest(folder, kind="corpus")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "index"}, "is of kind 'index' where 'corpus' was expected"),
        ({"format_version": FORMAT_VERSION + 1}, "newer"),
        ({"configuration": {"x": 9}}, "was altered"),
        ({"files": {"a.txt": 3}}, "not a manifest"),
        ({"files": []}, "not a manifest"),
        ({"extra": 1}, "not a manifest"),
    ],
)
def test_altered_manifests_are_refused(folder: Path, changes: dict[str, Any], said: str) -> None:
    write(folder)
    alter(folder, **changes)
    with pytest.raises(UserError, match=said):
        read_manifest(folder, kind="corpus")


def test_absent_and_broken_manifests(folder: Path) -> None:
    with pytest.raises(UserError, match=r"holds no manifest\.json"):
        read_manifest(folder, kind="corpus")
    with pytest.raises(UserError, match="does not exist"):
        read_manifest(folder / "nowhere", kind="corpus")
    (folder / "manifest.json").write_text('{"kind": ')
    with pytest.raises(UserError, match="is not JSON"):
        read_manifest(folder, kind="corpus")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["/bin/prism", "prepare", "a b", "--out", "x"], "prism prepare 'a b' --out x"),
        (["/lib/prism_lm/__main__.py", "index"], "prism index"),
        (["make.py", "1"], "python make.py 1"),
    ],
)
def test_command_line(monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str) -> None:
    monkeypatch.setattr("sys.argv", arguments)
    assert command_line() == line
