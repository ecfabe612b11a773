"""The command shell: what it prints, what it imports, and how errors leave it."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import prism_lm
from prism_lm.artifacts.errors import GateFailed, UserError
from prism_lm.cli import main as shell

HEAVY = ("torch", "transformers", "datasets", "pyarrow", "tokenizers", "numpy")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in shell.COMMANDS)])
def test_help_imports_nothing_heavy(words):
    finished = run_python(
        "import sys\n"
        "from prism_lm.cli.main import main\n"
        "try:\n"
        f"    main({words!r})\n"
        "except SystemExit as leaving:\n"
        "    assert not leaving.code, leaving.code\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()


def test_import_of_the_package_is_light():
    assert run_python(f"import prism_lm, sys; assert not set({HEAVY!r}) & set(sys.modules)").returncode == 0


def test_module_is_the_command():
    finished = subprocess.run(
        [sys.executable, "-m", "prism_lm", "--version"], capture_output=True, text=True, check=False
    )
    assert finished.stdout == f"prism-lm {prism_lm.__version__}\n"


@pytest.mark.parametrize("name", shell.COMMANDS)
def test_overview_names_every_command(name):
    assert f"  {name} " in shell.overview()


def test_without_words_the_overview_and_status_2(capsys):
    assert shell.main([]) == 2
    assert "usage: prism COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "hint"), [("quikstart", "Did you mean `prism quickstart`?"), ("zzz", "Commands: ")]
)
def test_unknown_command(word, hint, capsys):
    assert shell.main([word]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert hint in captured.err


@pytest.fixture
def command(monkeypatch):
    """Replaces what `prism show` runs by a function of the test."""

    def replace(run):
        module = SimpleNamespace(Arguments=dict, run=run)
        monkeypatch.setattr(shell.importlib, "import_module", lambda name: module)
        monkeypatch.setattr(shell.parsing, "parse", lambda kind, program, words: None)

    return replace


def raising(problem):
    def run(arguments):
        raise problem

    return run


@pytest.mark.parametrize(
    ("problem", "status"), [(UserError("no\nsuch [red]run"), 2), (GateFailed("KL too large"), 1)]
)
def test_errors_on_purpose_are_one_line(command, capsys, problem, status):
    command(raising(problem))
    assert shell.main(["show"]) == status
    captured = capsys.readouterr()
    assert captured.err == f"error: {' '.join(str(problem).split())}\n"
    assert captured.out == ""


def test_interrupt_is_130(command, capsys):
    command(raising(KeyboardInterrupt()))
    assert shell.main(["show"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_bug_keeps_its_traceback(command):
    command(raising(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        shell.main(["show"])


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (1, 1)])
def test_status_is_what_the_command_returns(command, returned, status):
    command(lambda arguments: returned)
    assert shell.main(["show"]) == status


def test_a_reader_that_leaves_is_no_error():
    finished = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m prism_lm --help | true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.stderr == ""
    assert finished.returncode == 0


@pytest.mark.parametrize("name", shell.COMMANDS)
def test_unknown_option_is_one_line_and_status_2(name, capsys):
    assert shell.main([name, "--no-such-option"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert captured.out == ""
