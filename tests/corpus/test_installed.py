from pathlib import Path

import pytest

from prism_lm.corpus import installed as installed_module
from prism_lm.corpus.installed import described_objects, installed_documents
from prism_lm.corpus.packages import Package, installed_packages

LONG = "It is long enough to say something about what it describes."
SOURCE = f'''"""Module. {LONG}"""
import not_installed_anywhere
raise RuntimeError("this file must never be run")

class Outer:
    """Outer. {LONG}"""

    class Inner:
        def method(self):
            """Method. {LONG}

                indented
                    more
            """
            def local():
                """Local. {LONG}"""

if True:
    try:
        async def branch():
            """Branch. {LONG}"""
    except ImportError:
        def other():
            """Other. {LONG}"""

def short():
    """Too short."""

def surrogate():
    """\\ud800 {LONG}"""
'''


def test_objects_with_their_names_kinds_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(SOURCE)
    found = list(described_objects(path))
    assert [(each.name, each.kind, each.line) for each in found] == [
        ("<module>", "module", 1),
        ("Outer", "class", 5),
        ("Outer.Inner.method", "function", 9),
        ("Outer.Inner.method.<locals>.local", "function", 15),
        ("branch", "function", 20),
        ("other", "function", 23),
    ]
    assert found[2].text == f"Method. {LONG}\n\nindented\n    more"
    lines = SOURCE.splitlines()
    assert all(each.name.rsplit(".")[-1] in lines[each.line - 1] for each in found[1:])


@pytest.mark.parametrize("source", ["def (", "\0" + '"""x"""', "x = 1", '"""' + "(" * 5000])
def test_files_that_are_not_python_are_passed_over(tmp_path: Path, source: str) -> None:
    (tmp_path / "m.py").write_text(source)
    assert list(described_objects(tmp_path / "m.py")) == []
    assert list(described_objects(tmp_path / "gone.py")) == []


def test_documents_are_real_objects_in_real_files() -> None:
    documents = list(installed_documents(max_bytes=60_000))
    assert 40_000 < sum(len(document.text.encode()) for document in documents) <= 60_000
    assert len({document.source for document in documents}) > 5
    assert len({document.position for document in documents}) == len(documents)
    for document in documents[::25]:
        path, line = document.place.rsplit(":", 1)
        text = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        name, here = document.metadata["object"], text[int(line) - 1]
        assert name == "<module>" or name.rsplit(".", 1)[-1] in here
        assert document.position == f"{document.metadata['file']}:{name}:{line}"
        assert path.endswith(document.metadata["file"])


def package(root: Path, name: str, modules: int) -> Package:
    files = tuple(f"{name}/m{i}.py" for i in range(modules))
    (root / name).mkdir()
    for file in files:
        (root / file).write_text(SOURCE)
    return Package(name=name, version="1", licence="MIT", root=root, files=files)


def test_packages_take_turns_and_the_limit_keeps_documents_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = [package(tmp_path, "big", 9), package(tmp_path, "small", 2)]
    monkeypatch.setattr(installed_module, "installed_packages", lambda: packages)
    everything = list(installed_documents())
    files = list(dict.fromkeys(document.metadata["file"] for document in everything))
    assert [file.split("/")[0] for file in files] == ["big", "small"] * 2 + ["big"] * 7
    assert len(everything) == 6 * 11
    size = sum(len(document.text.encode()) for document in everything[:10])
    assert list(installed_documents(max_bytes=size)) == everything[:10]
    assert list(installed_documents(max_bytes=size - 1)) == everything[:9]
    document = everything[2]
    assert document.position == f"{files[0]}:Outer.Inner.method:9"
    assert (document.title, document.source, document.licence) == (
        *(f"{files[0].removesuffix('.py').replace('/', '.')}.Outer.Inner.method", "big", "MIT"),
    )


def test_packages_have_licences_and_no_file_outside_their_folder() -> None:
    packages = {package.name: package for package in installed_packages()}
    assert packages["python"].licence == "PSF-2.0"
    assert "json/decoder.py" in packages["python"].files
    assert packages["numpy"].licence
    for package in packages.values():
        assert isinstance(package, Package)
        assert not any(file.startswith(("/", "..")) or "/../" in file for file in package.files)
        assert not any("/_vendor/" in file or "/tests/" in file for file in package.files)
