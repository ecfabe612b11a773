import pytest

from prism_lm.artifacts import Progress, Silent, format_bytes, format_count, format_seconds


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (150 * 1024**2, "150 MiB"), (3 * 1024**4, "3.0 TiB")],
)
def test_format_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7"), (4211, "4,211"), (12_345, "12.3k"), (1_234_567, "1.23M"), (1.5e9, "1.50G"), (0.25, "0.25")],
)
def test_format_count(count: float, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "250 ms"),
        (2.34, "2.3 s"),
        (59.4, "59 s"),
        (75, "1 min 15 s"),
        (3661, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (-75, "-1 min 15 s"),
    ],
)
def test_format_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_silent_is_a_progress() -> None:
    progress: Progress = Silent()
    progress.start("reading", None, "documents")
    progress.advance(3, loss=1.0)
    progress.finish()
