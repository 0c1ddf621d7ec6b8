"""One service for the tests of the page: a cascade, its index, and a log."""

import json

import pytest
from serving import serving
from visitors import NASTY, TOKEN

import podium


def documents():
    for number in range(60):
        body = "green tea leaves " * (number % 7) + f"pot {number}"
        yield {"id": f"d{number}", "title": f"Tea {number}", "body": body, "url": f"https://tea.example/{number}"}
    nasty = {"title": f"Nasty {NASTY}", "body": f'nasty {NASTY} and "quoted"', "url": "javascript:alert(1)"}
    yield {"id": NASTY} | nasty
    yield {"id": "nasty/2?a=b&c=%20", "title": "Second", "body": "nasty things"}


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """The folder of what is served."""
    from podium.search import read_documents
    from podium.search.indexing import index_documents

    folder = tmp_path_factory.mktemp("page")
    (folder / "docs.jsonl").write_text("\n".join(map(json.dumps, documents())))
    index_documents([read_documents(folder / "docs.jsonl")], folder / "index")
    queries = {str(number): f"green tea pot {number}" for number in range(12)}
    labels = {f"d{number}": {1: 4, 3: 2}.get(number % 7, 0) for number in range(60)}  # not those with the most tea
    qrels = dict.fromkeys(queries, labels)
    cascade = podium.Cascade(folder / "index")
    model = podium.LambdaMART(n_estimators=10, n_jobs=1).fit(cascade.training_data(queries, qrels, n=60))
    cascade.with_model(model).save(folder / "web")
    (folder / "token").write_text(TOKEN)
    return folder


@pytest.fixture(scope="session")
def service(shop):
    with serving(shop / "web", shop / "index", "--log", shop / "log.jsonl") as service:
        yield service


@pytest.fixture(scope="session")
def guarded(shop):
    """A service with a token and without a log."""
    with serving(shop / "index", "--token-file", shop / "token") as service:
        yield service
