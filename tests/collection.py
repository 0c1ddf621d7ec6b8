"""Small random collections, and indexes of them in one segment or several, with deleted and replaced documents."""

import numpy as np

from podium.search import IndexWriter, build_index, open_index

WORDS = [f"{a}{b}k" for a in ("ba", "ce", "di", "fo", "gu", "la") for b in ("ma", "ne", "pi", "ro", "su")]


def random_texts(rng, n, longest=12):
    share = 1.0 / np.arange(1, len(WORDS) + 1)
    share /= share.sum()
    return [" ".join(rng.choice(WORDS, rng.integers(0, longest), p=share)) for _ in range(n)]


def random_documents(rng, n):
    titles, bodies = random_texts(rng, n, 4), random_texts(rng, n)
    names = [f"d{number}" for number in rng.permutation(10 * n)[:n]]
    return {name: {"title": title, "body": body} for name, title, body in zip(names, titles, bodies)}


def random_pages(rng, n):
    """Documents with titles, bodies, URLs and links to one another: {id: fields}."""
    pages, titles, anchors = random_documents(rng, n), random_texts(rng, 4 * n, 4), random_texts(rng, n, 3)
    names = list(pages)
    above = ["http://site.org"]
    for number, name in enumerate(names):
        pages[name]["url"] = f"{rng.choice(above)}/{name}" if rng.random() < 0.8 else ""
        above += [pages[name]["url"] + rng.choice(["", f"/{WORDS[0]}"])] if pages[name]["url"] else []
        pages[name]["anchors"] = [anchors[number]] if rng.random() < 0.2 else []
    for number, name in enumerate(names):
        targets = rng.choice(names, rng.integers(0, 5)).tolist()
        links = [(pages[target]["url"] or target, titles[4 * number + k]) for k, target in enumerate(targets)]
        pages[name]["links"] = [list(link) for link in links]
    return pages


def index_of(documents, folder, history, rng):
    """An index of these documents: built at once, or after additions, replacements, deletions and merges."""
    records = [{"id": name} | fields for name, fields in documents.items()]
    if history == "built":
        build_index(records, folder)
    else:
        junk = [{"id": f"x{number}", "body": text} for number, text in enumerate(random_texts(rng, 10))]
        wrong = [record | {"title": "", "body": WORDS[0]} for record in records]
        with IndexWriter(folder) as writer:
            writer.add_all(wrong[::2] + junk)
        for part in np.array_split(rng.permutation(len(records)), 3):
            with IndexWriter(folder) as writer:
                for place in part.tolist():
                    writer.add(records[place])
        with IndexWriter(folder) as writer:
            for record in junk:
                assert writer.delete(record["id"])
            if history == "merged":
                writer.merge()
    return open_index(folder)
