from typing import Any

import pytest

from prism_lm.artifacts import UserError
from prism_lm.corpus.config import FieldNames
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.fields import FieldReader
from prism_lm.corpus.problems import Problems


def read(
    record: dict[str, Any], given: FieldNames | None = None, on_error: Any = "stop"
) -> RawDocument | None:
    reader = FieldReader(given or FieldNames(), "file", Problems(on_error))
    return reader.document(record, "f:1", "/x/f:1")


def test_fields_are_recognised_by_name_and_the_rest_is_metadata() -> None:
    document = read(
        {
            "content": "the text",
            "uuid": 7,
            "license": "CC0",
            "link": "http://a",
            "headline": "T",
            "year": 1,
            "x": None,
        }
    )
    assert document == RawDocument(
        position="f:1",
        place="/x/f:1",
        text="the text",
        source="file",
        id="7",
        url="http://a",
        licence="CC0",
        title="T",
        metadata={"year": 1},
    )


def test_given_names_win() -> None:
    given = FieldNames(text="body", source="domain", id="key")
    document = read(
        {"text": "no", "body": "yes", "id": "no", "key": "k", "domain": "d", "source": "s"}, given
    )
    assert document is not None
    assert (document.text, document.id, document.source) == ("yes", "k", "d")
    assert document.metadata == {"text": "no", "id": "no", "source": "s"}


def test_only_text_field_is_the_text() -> None:
    document = read({"paragraph": "the text", "year": 1})
    assert document is not None
    assert document.text == "the text"


@pytest.mark.parametrize(
    ("record", "given", "said"),
    [
        ({"a": "x", "b": "y"}, FieldNames(), r"/x/f:1: no field is recognised.*fields: a, b;.*--text-field"),
        ({}, FieldNames(), "fields: none"),
        ({"text": "x"}, FieldNames(text="body"), r"no field 'body'; fields: text"),
        ({"text": None}, FieldNames(), "holds null where text was expected"),
        ({"text": ["x"]}, FieldNames(), "holds a list where text was expected"),
    ],
)
def test_record_without_text(record: dict[str, Any], given: FieldNames, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(record, given)
    assert read(record, given, "skip") is None


def test_record_that_lacks_what_the_first_one_had() -> None:
    problems = Problems("skip")
    reader = FieldReader(FieldNames(), "file", problems)
    assert reader.document({"text": "a", "id": "1"}, "f:1", "f:1") is not None
    assert reader.document({"body": "b"}, "f:2", "f:2") is None
    later = reader.document({"text": "c"}, "f:3", "f:3")
    assert later is not None
    assert later.id is None
    assert problems.counts == {"missing field": 1}


def test_half_surrogates_in_names_do_not_reach_the_files() -> None:
    document = read({"text": "x", "title": "a\ud800b", "id": "\udc00"})
    assert document is not None
    assert document.title == "a?b"
    assert document.id == "?"
