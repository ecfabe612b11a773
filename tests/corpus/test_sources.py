from pathlib import Path
from typing import Any

import pytest

from prism_lm.artifacts import UserError
from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.problems import Problems
from prism_lm.corpus.sources import find_sources


def read(source: Path | str, problems: Problems | None = None, **settings: Any) -> list[tuple[str, str]]:
    config = PrepareConfig(sources=(str(source),), out=Path("unused"), **settings)
    problems = problems or Problems(config.on_error)
    (found,) = find_sources(config, problems)
    return [(document.position, document.text) for document in found.documents(config, problems)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    books = tmp_path / "books"
    for name in ("b.txt", "a/z.md", "a/B.txt", ".hidden.txt", ".git/c.txt", "cover.jpg"):
        (books / name).parent.mkdir(parents=True, exist_ok=True)
        (books / name).write_text(f"text of {name}")
    return books


def test_folder_is_read_in_the_order_of_names_without_hidden_files(folder: Path) -> None:
    assert read(folder) == [
        ("books/b.txt", "text of b.txt"),
        ("books/a/B.txt", "text of a/B.txt"),
        ("books/a/z.md", "text of a/z.md"),
    ]


def test_name_does_not_depend_on_how_the_folder_is_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert read(".") == read(folder) == read(f"{folder}/a/..")


def test_link_out_of_the_folder_is_not_followed_unasked(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (folder / "link.txt").symlink_to(secret)
    (folder / "inside.txt").symlink_to(folder / "b.txt")
    with pytest.raises(UserError, match=r"link\.txt: a link that leads out of the folder; --follow-links"):
        read(folder)
    problems = Problems("skip")
    assert "secret" not in [text for _, text in read(folder, problems)]
    assert problems.counts == {"link out of the folder": 1}
    followed = read(folder, follow_links=True)
    assert ("books/link.txt", "secret") in followed
    assert "books/inside.txt" not in [name for name, _ in followed]


def test_linked_folders_are_not_entered(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.txt").write_text("x")
    (folder / "elsewhere").symlink_to(tmp_path / "elsewhere")
    (folder / "loop").symlink_to(folder)
    assert len(read(folder)) == 3


def test_folder_without_text_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no \.txt, .*\.parquet file \(no files at all\)"):
        read(tmp_path)
    for name in ("a.pdf", "b.pdf", "LICENCE"):
        (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match=r"other files: 2 \.pdf, 1 without suffix"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"), [("gone", "does not exist; give a file"), ("a.pdf", "of no known kind")]
)
def test_source_that_is_none(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(UserError, match=said):
        read(tmp_path / name)


def test_limits_take_whole_documents(folder: Path) -> None:
    assert len(read(folder, max_documents=2)) == 2
    assert len(read(folder, max_bytes=13 + 15)) == 2
    assert len(read(folder, max_bytes=13 + 14)) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sources": ()}, "no source"),
        ({"held_out": 1.0}, "held-out is 1.0"),
        ({"held_out": -0.1}, "held-out is -0.1"),
        ({"vocab_size": 256}, "vocab-size is 256; at least 257"),
        ({"max_bytes": 0}, "max-bytes is 0"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        PrepareConfig(**{"sources": ("installed",), "out": Path("x"), **settings})
