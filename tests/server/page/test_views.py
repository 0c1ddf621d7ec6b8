"""The page without a browser: what a visitor without JavaScript gets."""

import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from visitors import NASTY, TOKEN, Elements, Visitor

import podium
import podium.server.page
from podium.server.log import read_log

FOLDER = Path(podium.server.page.__file__).parent
TWO = "/?q=green+tea+pot&system=web&system=index&k=5"


def ndcg_of(shop, query, labels):
    """NDCG@10 of the cascade offline, as the page writes it."""
    run = {hit.id: hit.score for hit in podium.load(shop / "web").search(query, 10)}
    pairs = podium.Qrels.from_dict({"q": labels}), podium.Run.from_dict({"q": run})
    return f"{podium.evaluate_run(*pairs, metrics='ndcg@10', policy='standard')['ndcg@10']:.3f} NDCG@10"


@pytest.fixture
def visitor(service):
    return Visitor(service)


def test_a_search_shows_the_hits_of_the_cascade_with_features_and_marked_words(visitor, shop):
    page = visitor.page("/?q=green+tea+pot&k=7")
    hits = page.all("li", **{"class": "hit"})
    offline = podium.load(shop / "web").search("green tea pot", 7)
    assert [hit["data-document"] for hit in hits] == offline.ids
    assert f"score {offline[0].score:.4f}" in page.text
    assert page.all("mark")
    assert len(page.all("details")) == 7
    assert len(page.all("svg", **{"class": "bar-of"})) >= 7
    assert page.all("a", href=offline[0].stored["url"])


def test_systems_stand_side_by_side_with_movements(visitor, shop):
    from podium.server.page.comparing import movement_of

    page = visitor.page(TWO.replace("&k=5", "&k=20") + "&" + urlencode({"system": "web (first stage)"}))
    first = podium.load(shop / "web").search("green tea pot", 20).ids
    second = podium.search.open_index(shop / "index").search("green tea pot", 20).ids
    columns = {number: [] for number in "123"}
    for hit in page.all("li", **{"class": "hit"}):
        columns[hit["data-column"]].append(hit["data-document"])
    assert list(columns.values()) == [first, second, second]
    ranks = {document: rank for rank, document in enumerate(first, 1)}
    movements = [movement_of(ranks.get(document), rank) for rank, document in enumerate(second, 1)]
    assert len({movement.kind for movement in movements}) > 1
    shown = re.findall(r"(▲\d+|▼\d+|new|=)(not in|same|up|down)", page.text)
    expected = [(movement.mark, movement.words) for movement in movements] * 2
    assert len(shown) == len(expected)
    assert all(mark == seen[0] and words.startswith(seen[1]) for (mark, words), seen in zip(expected, shown))


def test_marks_of_movements():
    from podium.server.page.comparing import movement_of

    assert [movement_of(*ranks).mark for ranks in [(4, 1), (1, 3), (2, 2), (None, 1)]] == ["▲3", "▼2", "=", "new"]
    assert movement_of(4, 1).words == "up 3 from rank 4 in the first column"


def test_why_compares_two_hits_by_links_alone(visitor, shop):
    hits = podium.load(shop / "web").search("green tea pot", 50)
    first, last = hits[0], hits[-1]
    assert first.score > last.score
    page = visitor.page(f"{TWO.replace('k=5', 'k=50')}&why={first.id}&why={last.id}")
    assert f"Document {first.id} is ranked above document {last.id}" in page.text
    assert page.all("th", scope="row")
    assert page.all("section", **{"class": "why"})
    assert "Why, by web" in page.text
    assert "Why, by index" not in page.text
    checked = [box["value"] for box in page.all("input", name="why", form="why-form") if "checked" in box]
    assert set(checked) == {first.id, last.id}


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (TWO + "&why=d1", 400, "expected two different hits; got 1"),
        (TWO + "&why=d1&why=d2&why=d3", 400, "expected two different hits; got 3"),
        (TWO + "&why=d1&why=nobody", 200, "an id among the documents that the model re-ranked"),
        ("/?q=tea&system=nobody", 404, "no system is called 'nobody'; there are: index, web, web (first stage)"),
        ("/?q=tea&system=../web", 404, "no system is called"),
        ("/?q=tea&k=0", 400, "k: expected an integer from 1 to 100"),
        ("/?q=tea&k=x", 400, "k: expected an integer"),
        ("/?q=" + "x" * 1001, 400, "1 to 1,000 characters"),
        ("/nothing", 404, "there is no /nothing here"),
        ("/static/../views.py", 404, ""),
        ("/static/%2e%2e%2fviews.py", 404, ""),
        ("/static/other.css", 404, "no file is called"),
        ("/export/letor?system=index", 400, "expected a cascade, which has features"),
        ("/export/letor?system=web+(first+stage)", 400, "expected a cascade"),
        ("/queries?system=nobody", 404, "no system is called"),
    ],
)
def test_bad_requests_get_pages_that_say_what_was_expected(visitor, path, status, words):
    found, headers, text = visitor.get(path)
    page = Elements(text)
    assert found == status
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert words in page.text
    assert page.all("h1")
    assert "Traceback" not in text


def test_programs_get_the_json_shape(service):
    for accept in ("*/*", "application/json", "application/json, text/html"):
        status, headers, text = Visitor(service, accept).get("/nothing")
        assert status == 404
        assert headers["content-type"] == "application/json"
        assert json.loads(text)["error"]["code"] == "not_found"


def test_other_hosts_get_a_page_too(visitor):
    status, headers, text = visitor.get("/", Host="evil.example")
    assert status == 403
    assert headers["content-type"].startswith("text/html")
    assert "evil.example" in text


def test_a_judgement_is_in_the_log_and_in_the_page_with_ndcg(visitor, service, shop):
    ids = podium.load(shop / "web").search("leaves of tea", 10).ids
    visitor.send("/rater", [("rater", " Ann  Lee "), ("q", "leaves of tea")])
    status, headers, _ = visitor.judge("leaves of  tea", ids[1], 3, rank=2)
    assert (status, headers["location"]) == (303, "/?q=leaves+of++tea&system=web#hit-1-2")
    record = [one for one in read_log(shop / "log.jsonl") if one["query"] == "leaves of tea"][-1]
    assert (record["document"], record["label"], record["rater"]) == (ids[1], 3.0, "Ann Lee")
    assert (record["position"], record["system"], record["generation"]) == (2, "web", 1)
    assert len(record["model"]) == 64
    page = visitor.page("/?q=leaves+of+tea&system=web")
    pressed = page.all("button", **{"aria-pressed": "true"})
    assert [button["value"] for button in pressed] == [f"3 2 {ids[1]}"]
    assert "Ann Lee 3" in page.text
    assert ndcg_of(shop, "leaves of tea", {ids[1]: 3}) in page.text
    assert "Policy “standard”. 1 of the top 10 judged; the others count as label 0" in page.text
    other = Visitor(service)
    other.send("/rater", [("rater", "bob")])
    for document, label in ((ids[1], 3), (ids[0], 4)):
        other.judge("leaves of tea", document, label)
    page = visitor.page("/?q=leaves+of+tea&system=web")
    assert "Ann Lee (1)" in page.text
    assert "bob (2)" in page.text
    assert ndcg_of(shop, "leaves of tea", {ids[1]: 3, ids[0]: 4}) in page.text


def test_ndcg_is_that_of_evaluate_run_however_many_hits_are_shown(visitor, shop):
    ids = podium.load(shop / "web").search("tea pot leaves", 10).ids
    labels = dict(zip(ids[::3], [1, 0, 3, 2])) | {"d59": 4}
    for document, label in labels.items():
        visitor.judge("tea pot leaves", document, label)
    expected = ndcg_of(shop, "tea pot leaves", labels)
    for k in (5, 10, 50):
        assert expected in visitor.page(f"/?q=tea+pot+leaves&system=web&k={k}").text


def test_forms_without_their_token_are_refused(service, visitor):
    fields = [("q", "tea"), ("judging", "web"), ("judgement", "3 1 d1")]
    for path in ("/judge", "/rater", "/login", "/logout"):
        assert visitor.ask("POST", path, fields)[0] == 403
        assert visitor.ask("POST", path, [*fields, ("csrf", "x" * 64)])[0] == 403
    other = Visitor(service)
    other.get("/")
    stolen = [*fields, ("csrf", visitor.csrf())]
    status, _, text = other.ask("POST", "/judge", stolen)
    assert status == 403
    assert "Reload the page" in text
    assert Visitor(service).ask("POST", "/judge", stolen)[0] == 403
    body = {"Content_Type": "application/json"}
    assert visitor.ask("POST", "/judge", fields, **body)[0] == 415


@pytest.mark.parametrize(
    ("judgement", "system", "query", "status", "words"),
    [
        ("5 1 d1", "web", "tea", 400, "a label from 0 to 4"),
        ("-1 1 d1", "web", "tea", 400, "a label from 0 to 4"),
        ("3.5 1 d1", "web", "tea", 400, "a label from 0 to 4"),
        ("", "web", "tea", 400, "a label from 0 to 4"),
        ("3 x d1", "web", "tea", 400, "label, rank and document"),
        ("3 1 ", "web", "tea", 400, "label, rank and document"),
        ("3 1 nobody", "web", "tea", 404, "no document has the id"),
        ("3 1 d1", "nobody", "tea", 404, "no system is called"),
        ("3 1 d1", "web", " ", 400, "1 to 1,000 characters"),
    ],
)
def test_bad_judgements_are_refused(visitor, judgement, system, query, status, words):
    fields = [("q", query), ("judging", system), ("judgement", judgement)]
    found, _, text = visitor.send("/judge", fields)
    assert found == status
    assert words in Elements(text).text


def test_rater_names_are_bounded(visitor):
    assert visitor.send("/rater", [("rater", "x" * 61)])[0] == 400
    assert visitor.send("/rater", [("rater", "a\x00b")])[0] == 400
    assert visitor.send("/rater", [("rater", "Jürgen; x=y")])[0] == 303
    assert visitor.page("/").all("input", id="rater")[0]["value"] == "Jürgen; x=y"


def test_what_people_and_documents_are_called_is_escaped(visitor):
    query = f"nasty {NASTY}"
    visitor.send("/rater", [("rater", NASTY)])
    visitor.judge(query, NASTY, 2, "index")
    pages = ["/", "/?" + urlencode({"q": query, "system": "index"}), "/queries", "/" + NASTY]
    pages += ["/?" + urlencode([("q", query), ("system", "web"), ("why", NASTY), ("why", "x")])]
    pages += ["/?" + urlencode({"q": query, "system": NASTY})]
    for path in pages:
        _, _, text = visitor.get(path.replace("<", "%3C").replace(">", "%3E"))
        assert NASTY not in text
        scripts = [found for found in Elements(text).all("script") if not found.get("src", "").startswith("/static/")]
        assert scripts == []
        assert "javascript:" not in text
        assert NASTY.replace("<", "&lt;").replace(">", "&gt;") in text


def test_no_page_has_styles_or_scripts_in_it(visitor):
    for path in ("/", TWO + "&why=d1&why=d2", "/queries", "/nothing", "/?q=zzzz"):
        page = Elements(visitor.get(path)[2])
        assert not page.all("style")
        for tag, attributes in page.elements:
            assert not any(name == "style" or name.startswith("on") for name in attributes), (tag, attributes)
            assert tag != "script" or attributes["src"].startswith("/static/")
        loaded = [found.get("href") or found.get("src") for found in page.all("link") + page.all("script")]
        for address in loaded:
            status, headers, _ = visitor.get(address)
            assert status == 200
            assert "immutable" in headers["cache-control"]


def test_the_module_is_small():
    (module,) = FOLDER.glob("static/*.js")
    assert len(module.read_text().splitlines()) <= 300
    assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|eval|document\.write)\b", module.read_text())


def test_queries_are_listed_the_worst_first(visitor, shop):
    ids = podium.load(shop / "web").search("pot number", 10).ids
    visitor.judge("pot number", ids[9], 4)
    page = visitor.page("/queries?system=web")
    values = [float(value) for value in re.findall(r"(\d\.\d{4})\s+\d+ of \d+", page.text)]
    assert values == sorted(values)
    assert values
    assert "policy “standard”" in page.text
    assert page.all("a", href="/export/letor?system=web")
    assert not page.all("a", href="/export/letor?system=index")


def test_exports_are_read_by_podium(visitor, shop, tmp_path):
    ids = podium.load(shop / "web").search("green pot", 4).ids
    for document, label in zip(ids, (4, 0, 2)):
        visitor.judge("green pot", document, label)
    visitor.judge("nasty things", "nasty/2?a=b&c=%20", 3)
    files = {}
    for name, path in {"qrels": "qrels", "queries": "queries", "letor": "letor?system=web"}.items():
        status, headers, text = visitor.get(f"/export/{path}")
        assert status == 200
        assert headers["content-disposition"].startswith("attachment; filename=")
        files[name] = tmp_path / (f"x.{name}" if name != "queries" else "x.tsv")
        files[name].write_text(text)
    from podium.search.queries import read_queries

    texts, qrels = read_queries(files["queries"]), podium.read_qrels(files["qrels"]).to_dict()
    numbers = {text: number for number, text in texts.items()}
    assert qrels[numbers["green pot"]] == dict(zip(ids, (4, 0, 2)))
    assert qrels[numbers["nasty things"]] == {"nasty/2?a=b&c=%20": 3}
    data = podium.read_letor(files["letor"])
    rows = [row for row in range(data.n_rows) if str(data.qid[row]) == numbers["green pot"]]
    assert {str(data.docids[row]): data.y[row] for row in rows} == dict(zip(ids, (4, 0, 2)))
    cascade = podium.load(shop / "web")
    assert data.feature_names == cascade.stages[0].features.names
    scores = cascade.stages[0].scores(data.X[rows])
    offline = {hit.id: hit.score for hit in cascade.search("green pot", 10)}
    assert dict(zip([str(data.docids[row]) for row in rows], scores)) == {id: offline[id] for id in ids[:3]}
    head = files["letor"].read_text().split("# features")[0]
    assert "its label is the median" in head
    assert f"# query {numbers['green pot']}: green pot\n" in head


def test_a_token_is_entered_once(guarded):
    visitor = Visitor(guarded)
    status, headers, text = visitor.get("/")
    assert status == 401
    assert headers["www-authenticate"] == "Bearer"
    assert Elements(text).all("a", href="/login")
    for path in ("/queries", "/export/qrels", "/?q=tea"):
        assert visitor.get(path)[0] == 401
    csrf = visitor.csrf("/login")
    status, _, text = visitor.ask("POST", "/login", [("csrf", csrf), ("token", "wrong")])
    assert status == 401
    assert "not the token" in text
    status, headers, _ = visitor.ask("POST", "/login", [("csrf", csrf), ("token", TOKEN)])
    assert status == 303
    assert {"HttpOnly", "SameSite=strict"} <= set(headers["set-cookie"].split("; "))
    assert visitor.page("/?q=tea").all("li", **{"class": "hit"})
    page = visitor.page("/queries")
    assert "Start it with podium serve … --log FILE" in page.text
    assert "Judgements are off" in visitor.page("/?q=tea").text
    assert not visitor.page("/?q=tea").all("button", name="judgement")
    assert visitor.judge("tea", "d1", 3, "index")[0] == 403
    assert visitor.get("/export/qrels")[0] == 403
    assert visitor.ask("POST", "/logout", [("csrf", csrf)])[0] == 303
    visitor.cookies.pop("podium_session")
    assert visitor.get("/")[0] == 401
