"""Search: queries per second and indexing of raw text, against tantivy and bm25s, over generated collections.

Documents have about 60 words of a Zipf vocabulary of 200,000. Queries are drawn from documents, without the 100
commonest words, or of those only. A query goes from its text to ids and scores: for tantivy that is `parse_query` and
`search`, which gives addresses of documents and not yet their ids; bm25s gets token ids and all queries at once. One
thread for queries, except where two are named; two for indexing. Features are measured on the 100,000 documents as
pages with five fields.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _report import best_of, measure_in_turns, print_header, print_result

import podium.search

VOCABULARY, COMMON, WORDS = 200_000, 100, 60
QUERIES = 1000
MANY = {"search_many": 1, "search_many on two threads": 2}
LETTERS = np.array(list("bcdfghjklmnprstvwz"))
VOWELS = np.array(list("aeiou"))
TYPES = {
    "3 terms": (3, COMMON, VOCABULARY),
    "1 term": (1, COMMON, VOCABULARY),
    "2 terms": (2, COMMON, VOCABULARY),
    "5 terms": (5, COMMON, VOCABULARY),
    "10 terms": (10, COMMON, VOCABULARY),
    "3 common words": (3, 0, COMMON),
}


class Collection:
    """Generated texts, and queries drawn from them."""

    def __init__(self, n: int) -> None:
        self.rng = np.random.default_rng(0)
        weights = 1.0 / np.arange(1, VOCABULARY + 1)
        lengths = np.clip(self.rng.lognormal(np.log(WORDS), 0.4, n), 5, 400).astype(np.int64)
        self.ends = np.cumsum(lengths)
        draws = self.rng.random(self.ends[-1])
        self.tokens = np.searchsorted(np.cumsum(weights / weights.sum()), draws).clip(0, VOCABULARY - 1)
        self.words = self._words()
        words = np.array(self.words, dtype=object)[self.tokens]
        starts = np.concatenate([[0], self.ends[:-1]])
        self.texts = [" ".join(words[start:end]) for start, end in zip(starts.tolist(), self.ends.tolist())]

    def _words(self) -> list[str]:
        """Distinct words that end in k, so that no stemmer makes one of two."""
        syllables = [a + b for a in LETTERS for b in VOWELS]
        found = []
        for number in range(VOCABULARY):
            word = ""
            while number or not word:
                number, place = divmod(number, len(syllables))
                word += syllables[place]
            found.append(word + "k")
        return found

    def queries(self, n_terms: int, low: int, high: int) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        while len(found) < QUERIES:
            doc = int(self.rng.integers(len(self.ends)))
            own = np.unique(self.tokens[self.ends[doc - 1] if doc else 0 : self.ends[doc]])
            own = own[(own >= low) & (own < high)]
            if len(own) >= n_terms:
                found.append(self.rng.choice(own, n_terms, replace=False))
        return found

    def text(self, query: np.ndarray) -> str:
        return " ".join(self.words[token] for token in query)


def index_with_podium(texts: list[str], folder: Path, keep_texts: bool = False) -> podium.search.Index:
    shutil.rmtree(folder, ignore_errors=True)
    podium.search.build_index(((str(n), text) for n, text in enumerate(texts)), folder, keep_texts=keep_texts)
    return podium.search.open_index(folder)


def index_with_tantivy(texts: list[str], folder: Path) -> Any:
    import tantivy

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("body", stored=False, tokenizer_name="en_stem", index_option="position")
    schema.add_integer_field("id", stored=True)
    index = tantivy.Index(schema.build(), path=str(folder))
    writer = index.writer(500_000_000, 2)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(body=text, id=number))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def index_with_bm25s(collection: Collection) -> Any:
    """From token ids: its tokenisation of texts is measured apart."""
    import bm25s

    starts = np.concatenate([[0], collection.ends[:-1]]).tolist()
    ids = [collection.tokens[start:end].tolist() for start, end in zip(starts, collection.ends.tolist())]
    vocabulary = {word: number for number, word in enumerate(collection.words)}
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    index.index(bm25s.tokenization.Tokenized(ids=ids, vocab=vocabulary), show_progress=False, create_empty_token=False)
    return index


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def compare_indexing(collection: Collection, folder: Path, repeats: int) -> tuple[podium.search.Index, Any]:
    texts, made = collection.texts, {}

    def podium_index() -> None:
        made["podium"] = index_with_podium(texts, folder / "podium")

    def tantivy_index() -> None:
        made["tantivy"] = index_with_tantivy(texts, folder / "tantivy")

    times = measure_in_turns({"podium": podium_index, "tantivy": tantivy_index}, repeats)
    ours, theirs = (min(times[name].best, times[name].first) for name in ("podium", "tantivy"))
    n = len(texts)
    print(f"{n} documents of raw text: podium {n / ours:.0f} documents/s, tantivy {n / theirs:.0f}")
    ratio = theirs / ours
    print_result(f"indexing raw text, {n} documents", "tantivy", f"{ratio:.2f}x", "1x", ratio >= 1)
    index = made["podium"]
    n_postings = len(index.field("whole").postings_by_segment[0].docs)
    for name in ("podium", "tantivy"):
        print(f"{name}: {size_of(folder / name) / n_postings:.2f} bytes per posting, positions included")
    return index, made["tantivy"]


def compare_queries(kind: str, collection: Collection, ours: Any, theirs: Any, other: Any, repeats: int) -> None:
    n, queries = len(collection.texts), collection.queries(*TYPES[kind])
    texts = [collection.text(query) for query in queries]
    searcher = theirs.searcher()

    def with_podium() -> None:
        for text in texts:
            ours.search(text)

    def with_many(threads: int) -> None:
        ours.search_many(texts, n_jobs=threads)

    def with_tantivy() -> None:
        for text in texts:
            searcher.search(theirs.parse_query(text, ["body"]), 10, count=False)

    rivals = {"podium": with_podium, "tantivy": with_tantivy}
    rivals |= {name: partial(with_many, threads) for name, threads in MANY.items()}
    if other is not None:
        import bm25s

        tokens = bm25s.tokenization.Tokenized(
            ids=[query.tolist() for query in queries], vocab={word: i for i, word in enumerate(collection.words)}
        )
        rivals["bm25s"] = lambda: other.retrieve(tokens, k=10, show_progress=False, n_threads=1)
        check_scores(ours, other, tokens, texts)
    times = measure_in_turns(rivals, repeats)
    rates = ", ".join(f"{name} {QUERIES / timing.best:.0f}" for name, timing in times.items())
    print(f"{kind}, {n} documents, queries/s: {rates}; podium's first pass {QUERIES / times['podium'].first:.0f}")
    best = {name: timing.best for name, timing in times.items()}
    what, bar = f"{kind}, {n} documents", 2 if kind == "3 terms" and n >= 100_000 else 1
    ratio = best["tantivy"] / best["podium"]
    print_result(f"top 10, {what}", "tantivy", f"{ratio:.1f}x", f"{bar}x", ratio >= bar)
    for name in MANY:
        ratio = best["podium"] / best[name]
        print_result(f"{name}, {what}", "search", f"{ratio:.2f}x", *(("1x", ratio >= 1) if MANY[name] > 1 else ()))
    if other is not None and kind == "3 terms":
        ratio = best["bm25s"] / best["podium"]
        print_result(f"top 10, {what}", "bm25s", f"{ratio:.1f}x", *(("5x", ratio >= 5) if n >= 100_000 else ()))


def check_scores(ours: Any, other: Any, tokens: Any, texts: list[str]) -> None:
    _, scores = other.retrieve(tokens, k=10, show_progress=False, n_threads=1)
    worst = 0.0
    for text, row in zip(texts, scores):
        own = np.array(ours.search(text).scores)
        row = np.sort(row)[::-1]
        worst = max(worst, np.abs(own - row[: len(own)]).max())
    print(f"largest difference to bm25s's scores: {worst:.1e}")
    assert worst < 1e-5


def measure_features(collection: Collection, folder: Path, repeats: int) -> None:
    """LETOR's 46 for the 1,000 best documents of 3-term queries, on pages with all five fields."""
    n, texts = len(collection.texts), collection.texts
    pages = (
        {"id": str(i), "body": text, "title": " ".join(text.split()[:6]), "anchors": [texts[i - 1][:30]],
         "url": "http://x.org/" + "/".join(text.split()[2:4])}
        for i, text in enumerate(texts)
    )  # fmt: skip
    shutil.rmtree(folder / "pages", ignore_errors=True)
    podium.search.build_index(pages, folder / "pages", keep_texts=False)
    index = podium.search.open_index(folder / "pages")
    queries = [collection.text(query) for query in collection.queries(*TYPES["3 terms"])]
    found = [(text, index.search(text, 1000).documents) for text in queries]
    asked = [(text, documents) for text, documents in found if len(documents) == 1000]
    if not asked:
        print(f"features, {n} documents: no query has 1,000 candidates")
        return
    for normalize in (None, "minmax"):
        extractor = podium.search.Extractor(index, podium.search.Features.letor(normalize))
        extractor.values(*asked[0])
        first = np.array([best_of(partial(extractor.values, *pair), 1)[0] for pair in asked])
        later = np.array([best_of(partial(extractor.values, *pair), repeats)[0] for pair in asked])
        print(
            f"46 features of 1,000 candidates, normalize={normalize}, {len(asked)} queries: "
            f"{later.mean() * 1e3:.2f} ms, {later.mean() * 1e9 / 46_000:.0f} ns per value; "
            f"new terms {np.median(first) * 1e3:.2f} ms"
        )
        if normalize is None:
            what, own = f"46 features, 1,000 candidates, 3 terms, {n} documents", later.mean() * 1e3
            print_result(what, "one thread", f"{own:.2f} ms", "2 ms", own <= 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only-features", action="store_true", help="only the features, at 100,000 documents")
    options = parser.parse_args()
    print_header("search", ["PyStemmer", "tantivy", "bm25s"])
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index_with_podium(["a small text"], folder / "podium").search("text")
        print(f"podium, first call (compiling or loading compiled code): {time.perf_counter() - started:.1f} s")
        if options.only_features:
            measure_features(Collection(100_000), folder, options.repeats)
            return
        for n in options.documents:
            collection = Collection(n)
            if n == 100_000:
                measure_features(collection, folder, options.repeats)
            ours, theirs = compare_indexing(collection, folder, 1 if n > 200_000 else 3)
            other = index_with_bm25s(collection)
            for kind in TYPES:
                compare_queries(kind, collection, ours, theirs, other, options.repeats)


if __name__ == "__main__":
    main()
