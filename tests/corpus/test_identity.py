from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_lm.corpus.identity import UniqueIds, hash64, share


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "f:1", "a#f:1"]), st.sampled_from(["f:1", "f:2"])), max_size=40
    )
)
def test_every_document_gets_an_id_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, documents: list[tuple[str, str]]
) -> None:
    few = UniqueIds(tmp_path_factory.mktemp("few"), ids_in_memory=3)
    many = UniqueIds(tmp_path_factory.mktemp("many"))
    given_few = [few.assign(wanted, position) for wanted, position in documents]
    assert len(set(given_few)) == len(documents)
    assert given_few == [many.assign(wanted, position) for wanted, position in documents]


def test_first_bearer_keeps_its_id_and_later_ones_are_told_apart(tmp_path: Path) -> None:
    ids = UniqueIds(tmp_path)
    assert [ids.assign("a", f"f:{line}") for line in (1, 2, 2, 2)] == ["a", "a#f:2", "a#f:2#2", "a#f:2#3"]
    assert [ids.assign("g:1", "g:1") for _ in range(3)] == ["g:1", "g:1#2", "g:1#3"]


def test_hash_and_share_never_change() -> None:
    """They decide what is held out: a corpus that is prepared again must be split alike."""
    assert hash64("prototype") == 1_567_542_019_057_709_482
    assert share("prototype") == 0.08497662312623411


def test_shares_are_even() -> None:
    below = sum(share(f"document {i}") < 0.05 for i in range(20_000))
    assert 850 < below < 1150
