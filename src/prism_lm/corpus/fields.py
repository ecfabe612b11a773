"""Which field of a record is the text, and which others have a meaning: given, or recognised by name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from prism_lm.corpus.config import FIELD_ROLES, FieldNames
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.problems import Problems, printable
from prism_lm.corpus.recipes import Recipe

# The first name that a record has wins.
KNOWN_NAMES: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "content", "body", "raw_content", "document", "article", "passage", "story"),
    "id": ("id", "doc_id", "document_id", "docid", "uuid", "warc_record_id"),
    "source": ("source", "dataset", "subset", "domain", "dump"),
    "url": ("url", "uri", "link"),
    "licence": ("licence", "license"),
    "title": ("title", "headline"),
}


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The field name of each role, in one file; None where the records have none for it."""

    text: str
    id: str | None
    source: str | None
    url: str | None
    licence: str | None
    title: str | None

    @classmethod
    def recognise(
        cls, record: Mapping[str, Any], given: FieldNames, recipe: Recipe | None = None
    ) -> "Fields | None":
        """The given names, else the first of the recipe's or the known ones in `record`; None: no text."""
        names: dict[str, str | None] = asdict(given)
        for role in FIELD_ROLES:
            if names[role] is None:
                candidates = (*(recipe.fields.get(role, ()) if recipe else ()), *KNOWN_NAMES[role])
                names[role] = next((name for name in candidates if name in record), None)
        text = names.pop("text") or _only_text_field(record)
        return None if text is None else cls(text=text, **names)

    def document(
        self, record: Mapping[str, Any], *, position: str, place: str, source: str, problems: Problems
    ) -> RawDocument | None:
        """The record as a document; None where it has no text and is skipped.

        `source` is the name for records that give none. What has no role becomes metadata.
        """
        text = record.get(self.text)
        if not isinstance(text, str):
            problems.report("missing field", place, self._no_text(record, text))
            return None
        roles = {self.text, self.id, self.source, self.url, self.licence, self.title}
        return RawDocument(
            position=position,
            place=place,
            text=text,
            id=_as_text(record, self.id) or None,
            source=_as_text(record, self.source) or source,
            url=_as_text(record, self.url),
            licence=_as_text(record, self.licence),
            title=_as_text(record, self.title),
            metadata={
                name: value for name, value in record.items() if name not in roles and value is not None
            },
        )

    def _no_text(self, record: Mapping[str, Any], text: object) -> str:
        if self.text not in record:
            return f"no field {self.text!r}; fields: {_listed(record)}; name the text with --text-field"
        return f"field {self.text!r} holds {_json_kind(text)} where text was expected"


class FieldReader:
    """Turns the records of one file into documents; fields are recognised on the first record with a text."""

    def __init__(
        self, given: FieldNames, source: str, problems: Problems, recipe: Recipe | None = None
    ) -> None:
        self._given, self._recipe = given, recipe
        self._source = source
        self._problems = problems
        self._fields: Fields | None = None

    def document(self, record: Mapping[str, Any], position: str, place: str) -> RawDocument | None:
        """The record as a document; None where it has no text and is skipped."""
        if self._fields is None:
            self._fields = Fields.recognise(record, self._given, self._recipe)
        if self._fields is None:
            message = (
                f"no field is recognised as the text; fields: {_listed(record)}; name it with --text-field"
            )
            self._problems.report("missing field", place, message)
            return None
        document = self._fields.document(
            record, position=position, place=place, source=self._source, problems=self._problems
        )
        if document is not None and self._recipe is not None and not document.licence:
            document = replace(document, licence=self._recipe.licence)
        return document


def _as_text(record: Mapping[str, Any], name: str | None) -> str:
    value = record.get(name) if name is not None else None
    text = "" if value is None else str(value)
    # JSON can spell half of a surrogate pair, which no file can hold.
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _only_text_field(record: Mapping[str, Any]) -> str | None:
    texts = [name for name, value in record.items() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def _listed(record: Mapping[str, Any]) -> str:
    return printable(", ".join(sorted(map(str, record))[:12])) or "none"


def _json_kind(value: object) -> str:
    names: dict[type, str] = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), f"a {type(value).__name__}")
