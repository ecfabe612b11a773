"""All sources as one stream of documents, with a running hash of what each gave."""

import hashlib
from collections.abc import Iterator, Sequence

from prism_lm.corpus.config import PrepareConfig
from prism_lm.corpus.document import RawDocument
from prism_lm.corpus.problems import Problems
from prism_lm.corpus.sources import Source


class SourceStream:
    """The documents of all sources in order, once. `hashes` then says what was read from which source."""

    def __init__(self, sources: Sequence[Source], config: PrepareConfig, problems: Problems) -> None:
        self._sources, self._config, self._problems = sources, config, problems
        self._digests = [hashlib.blake2b(digest_size=32) for _ in sources]

    def __iter__(self) -> Iterator[RawDocument]:
        for source, digest in zip(self._sources, self._digests, strict=True):
            for document in source.documents(self._config, self._problems):
                for part in (document.id or document.position, document.text):
                    raw = part.encode("utf-8", errors="surrogatepass")
                    digest.update(len(raw).to_bytes(8, "little"))
                    digest.update(raw)
                yield document

    @property
    def hashes(self) -> dict[str, str]:
        """BLAKE2b-256 of the ids and texts that each source gave, by its name on the command line."""
        named: dict[str, str] = {}
        for number, (source, digest) in enumerate(zip(self._sources, self._digests, strict=True), 1):
            named[f"{number}: {source.given}"] = digest.hexdigest()
        return named
