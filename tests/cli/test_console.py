"""What reaches the terminal: hostile text made harmless, progress in plain lines, warnings in one."""

import subprocess
import sys

from prism_lm.cli import console


def test_markup_is_text(capsys):
    console.error("[bold]x[/bold] :smile:")
    console.show("[red]y")
    captured = capsys.readouterr()
    assert captured.err == "error: [bold]x[/bold] :smile:\n"
    assert captured.out == "[red]y\n"


def test_table_cells_are_text(capsys):
    console.show(console.table(["word", ">logit"], [["[red]\x07", 1.5]]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["word", "logit"]
    assert lines[1].split() == ["[red]\\u0007", "1.5"]


def test_progress_off_a_terminal_is_a_line(capsys):
    progress = console.RichProgress()
    progress.start("reading [x]", 10, "documents")
    progress.advance(4, loss=1.25)
    progress.advance(6)
    progress.finish()
    progress.finish()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("reading [x]: 10/10 documents  loss 1.25  in ")
    assert captured.err.count("\n") == 1


def test_warnings_are_one_line_and_advice_is_silent():
    code = (
        "import warnings\n"
        "from prism_lm.cli import console\n"
        "console.quiet_libraries()\n"
        "warnings.warn('the clock\\nis wrong', UserWarning)\n"
        "warnings.warn('will change', FutureWarning)\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stderr == "warning: the clock⏎is wrong\n"


def test_what_the_user_has_set_stays(monkeypatch):
    code = (
        "import os; os.environ['TRANSFORMERS_VERBOSITY'] = 'info'\n"
        "from prism_lm.cli import console; console.quiet_libraries()\n"
        "assert os.environ['TRANSFORMERS_VERBOSITY'] == 'info'\n"
        "assert os.environ['DATASETS_VERBOSITY'] == 'error'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
