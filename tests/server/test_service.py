"""The service as its callers see it: a real process, real sockets."""

import http.client
import json
import signal
import socket
import threading

import numpy as np
import pytest
from serving import N_FEATURES, Service, serving, small_model

import podium
from podium.server.client import ServiceError

DOCUMENTS = [
    {"id": f"d{number}", "title": f"tea {number}", "body": "green tea leaves " * (number % 7) + f"pot {number}"}
    for number in range(60)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models, a transform within the query, a cascade and its index, versions to be loaded."""
    folder = tmp_path_factory.mktemp("serve")
    models = {"m": small_model(), "other": small_model(1), "within": small_model(2, transform=["raw", "rank"])}
    for name, model in models.items():
        model.save(folder / f"{name}.podium")
    (folder / "docs.jsonl").write_text("\n".join(json.dumps(one) for one in DOCUMENTS))
    from podium.search import read_documents
    from podium.search.indexing import index_documents

    index_documents([read_documents(folder / "docs.jsonl")], folder / "index")
    queries = {str(number): f"tea pot {number}" for number in range(12)}
    qrels = {str(number): {f"d{number}": 2, f"d{number + 1}": 1} for number in range(12)}
    cascade = podium.Cascade(folder / "index")
    data = cascade.training_data(queries, qrels, n=30)
    model = podium.LambdaMART(n_estimators=10, n_jobs=1).fit(data)
    cascade.with_model(model).save(folder / "web")
    (folder / "versions" / "m").mkdir(parents=True)
    models["other"].save(folder / "versions" / "m" / "new.podium")
    (folder / "token").write_text("a secret of the tests\n")
    return folder


@pytest.fixture(scope="module")
def service(folder):
    arguments = [folder / "m.podium", folder / "within.podium", folder / "web", folder / "index"]
    with serving(*arguments, "--log", folder / "log.jsonl", "--log-features") as service:
        yield service


def ask(service, method, path, body=None, **headers):
    """Status, headers and JSON (or bytes) of an answer."""
    connection = http.client.HTTPConnection(*service.place, timeout=60)
    content = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    if isinstance(body, (dict, list)):
        headers = {"Content-Type": "application/json"} | headers
    connection.request(method, path, content, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    answer, found = response.read(), dict(response.getheaders())
    connection.close()
    is_json = found.get("content-type", "").startswith("application/json")
    return (
        response.status,
        {name.lower(): value for name, value in found.items()},
        json.loads(answer) if is_json else answer,
    )


def test_scores_of_ten_thousand_requests_have_the_bits_of_predict(service, folder):
    model, random = podium.load(folder / "m.podium"), np.random.default_rng(4)
    with podium.Client(service.address) as client:
        for number in range(10_000):
            rows = random.random((int(random.integers(1, 40)), N_FEATURES)).astype(np.float32)
            if number % 7 == 0:
                rows[random.random(rows.shape) < 0.2] = np.nan
            answer = client.rank("m", rows)
            assert answer.scores.tobytes() == model.predict(rows).tobytes()
            if number % 100 == 0:
                assert answer.order.tolist() == model.rank(rows, np.zeros(len(rows), int)).tolist()


@pytest.mark.parametrize("name", ["m", "within"])
def test_json_raw_and_arrow_give_the_same_bits(service, folder, name):
    pyarrow = pytest.importorskip("pyarrow")
    model = podium.load(folder / f"{name}.podium")
    rows = np.random.default_rng(1).random((17, N_FEATURES)).astype(np.float32)
    expected = model.predict(rows, np.zeros(17, int))
    ids = [f"d{number}" for number in range(17)]
    path = f"/v1/models/{name}:rank"
    status, headers, plain = ask(service, "POST", path, {"features": rows.tolist(), "ids": ids})
    assert status == 200
    assert np.array(plain["scores"]).tobytes() == expected.tobytes()
    assert [plain["scores"][place] for place in plain["order"]] == sorted(plain["scores"], reverse=True)
    assert plain["ids"] == [ids[place] for place in plain["order"]]
    assert plain["model"] == service_digest(service, name)
    assert plain["request"] == headers["x-request-id"]
    assert {"wait", "read", "score"} == plain["microseconds"].keys()
    status, headers, raw = ask(service, "POST", path, rows.tobytes(), Content_Type="application/octet-stream")
    assert raw == expected.tobytes()
    assert headers["x-model-sha256"] == plain["model"]
    assert "score;dur=" in headers["server-timing"]
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({f"c{number}": rows[:, number] for number in range(N_FEATURES)})
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    kind = "application/vnd.apache.arrow.stream"
    _, headers, arrow = ask(service, "POST", path, bytes(sink.getvalue()), Content_Type=kind)
    found = pyarrow.ipc.open_stream(arrow).read_all()
    assert headers["content-type"] == kind
    assert found["score"].to_numpy().tobytes() == expected.tobytes()
    wanted = {"Content_Type": "application/octet-stream", "Accept": "application/json"}
    assert ask(service, "POST", path, rows.tobytes(), **wanted)[2]["scores"] == plain["scores"]


def service_digest(service, name):
    return ask(service, "GET", f"/v1/models/{name}")[2]["live"]["sha256"]


def test_a_search_is_that_of_the_cascade_offline_with_the_rows_that_were_scored(service, folder):
    cascade = podium.load(folder / "web")
    query = "green tea pot"
    status, headers, answer = ask(service, "GET", "/v1/search?q=green+tea+pot&system=web&k=7&features=true&snippets=1")
    assert status == 200
    assert answer["request"] == headers["x-request-id"]
    offline = cascade.search(query, 7)
    assert [(hit["id"], hit["score"], hit["first_rank"]) for hit in answer["hits"]] == [
        (hit.id, hit.score, hit.first_rank) for hit in offline
    ]
    assert answer["generation"] == 1
    assert {"wait", "retrieve", "features", "score"} == answer["microseconds"].keys()
    rows = np.array([hit["features"] for hit in answer["hits"]], np.float64).astype(np.float32)
    assert cascade.stages[0].scores(rows).tolist() == [hit["score"] for hit in answer["hits"]]
    assert answer["hits"][0]["title"].startswith("tea")
    assert "tea" in answer["hits"][0]["snippet"]
    posted = ask(service, "POST", "/v1/search", {"q": query, "system": "web", "k": 7})[2]
    assert [hit["id"] for hit in posted["hits"]] == [hit["id"] for hit in answer["hits"]]
    plain = ask(service, "GET", "/v1/search?q=green+tea+pot&system=index&k=7")[2]
    found = podium.search.open_index(folder / "index").search(query, 7)
    assert [(hit["id"], hit["score"]) for hit in plain["hits"]] == list(zip(found.ids, found.scores))


def test_explain_says_what_features_add_and_why_one_is_above_another(service, folder):
    query = {"q": "green tea pot", "system": "web", "k": 3}
    _, _, answer = ask(service, "POST", "/v1/explain", query)
    first, second = answer["documents"][:2]
    _, _, answer = ask(service, "POST", "/v1/explain", query | {"why": [first["id"], second["id"]]})
    why = answer["why"]
    assert why["scores"] == [first["score"], second["score"]]
    assert sum(reason["contribution"] for reason in why["reasons"]) == pytest.approx(why["difference"], abs=1e-9)
    rows = np.random.default_rng(0).random((4, N_FEATURES)).astype(np.float32)
    asked = {"model": "m", "features": rows.tolist(), "why": [0, 1]}
    _, _, answer = ask(service, "POST", "/v1/explain", asked)
    model = podium.load(folder / "m.podium")
    scores = model.predict(rows)
    assert [one["score"] for one in answer["documents"]] == sorted(scores.tolist(), reverse=True)
    best = answer["documents"][0]
    assert sum(one["share"] for one in best["features"]) == pytest.approx(best["score"] - scores.mean(), abs=1e-9)
    assert answer["why"]["text"] == podium.explain.why(model, rows, 0, 1, [str(n) for n in range(N_FEATURES)]).text


BAD = [
    ("POST", "/v1/models/m:rank", {"features": [[1, 2]]}, 400, "features[0]"),
    ("POST", "/v1/models/m:rank", b"{", 415, "content-type"),
    ("POST", "/v1/models/nobody:rank", {"features": [[1] * 5]}, 404, "model"),
    ("POST", "/v1/models/index:rank", {"features": [[1] * 5]}, 400, "model"),
    ("POST", "/v1/models/m:rank", {"features": [[1] * 5] * 10_001}, 413, "features"),
    ("GET", "/v1/models/m:rank", None, 404, None),
    ("GET", "/v1/models/../../etc/passwd", None, 404, None),
    ("GET", "/v1/models/%2e%2e%2fm", None, 404, None),
    ("GET", "/v1/search?q=tea&system=m", None, 400, "system"),
    ("GET", "/v1/search?q=tea&system=nobody", None, 404, "model"),
    ("GET", "/v1/search", None, 400, "q"),
    ("GET", "/v1/search?q=", None, 400, "query"),
    ("GET", "/v1/search?q=" + "x" * 1001, None, 400, "query"),
    ("GET", "/v1/search?q=tea&k=0", None, 400, "k"),
    ("GET", "/v1/search?q=tea&k=x", None, 400, "k"),
    ("GET", "/v1/search?q=tea&k=1000000", None, 400, "k"),
    ("GET", "/v1/search?q=%22tea", None, 200, None),
    ("POST", "/v1/search", {"q": "tea", "n": 3}, 400, "n"),
    ("POST", "/v1/search", {"q": 5}, 400, "q"),
    ("POST", "/v1/search", b"tea", 400, "body"),
    ("POST", "/v1/explain", {}, 400, "q"),
    ("POST", "/v1/explain", {"q": "tea", "system": "index"}, 400, "system"),
    ("POST", "/v1/explain", {"q": "tea", "system": "web", "why": ["d1", "nobody"]}, 404, "why"),
    ("POST", "/v1/feedback", {"events": []}, 400, "events"),
    ("POST", "/v1/feedback", {"events": [{"kind": "click", "document": "d1"}]}, 400, "events[0]"),
    ("POST", "/v1/feedback", {"events": [{"kind": "judgement", "document": "d1", "label": -1}]}, 400, None),
    ("POST", "/v1/feedback", {"events": [{"kind": "other", "document": "d1"}]}, 400, None),
    ("POST", "/v1/models/m:load", {"version": "new"}, 403, None),
    ("DELETE", "/v1/models", None, 405, None),
    ("GET", "/no/such/place", None, 404, None),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "field"), BAD)
def test_every_bad_request_gets_the_same_shape(service, method, path, body, status, field):
    found, headers, answer = ask(service, method, path, body)
    assert found == status, answer
    if status == 200:
        return
    error = answer["error"]
    assert error["status"] == status
    assert error["request"] == headers["x-request-id"]
    assert error["message"].endswith(".")
    assert error["code"]
    assert field is None or error["field"] == field
    assert "Traceback" not in json.dumps(answer)
    assert "podium/" not in json.dumps(answer)


def test_bytes_that_are_no_http_and_heads_without_end_get_the_same_shape(service):
    for sent in (
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
    ):
        with socket.create_connection(service.place, timeout=30) as connection:
            connection.sendall(sent)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 4"), answer
        assert json.loads(body)["error"]["message"]


def test_a_body_that_is_too_long_is_refused_before_it_is_sent(service):
    with socket.create_connection(service.place, timeout=30) as connection:
        connection.sendall(b"POST /v1/models/m:rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000000\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    with socket.create_connection(service.place, timeout=30) as connection:
        connection.sendall(
            b"POST /v1/models/m:rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        answer = b""
        try:
            for _ in range(200):
                connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            answer = connection.recv(100)
        except ConnectionResetError:
            return  # refused so early that the answer was lost with the connection
        assert answer.startswith(b"HTTP/1.1 413")


def test_a_failure_gets_the_same_shape_and_says_nothing_of_the_inside(folder, monkeypatch):
    from podium.server import service as module
    from podium.server.once import answer_once
    from podium.server.settings import Entry, Settings

    def fail(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(module, "search_traced", fail)
    settings = Settings({"web": Entry(folder / "web")})
    status, body = answer_once(settings, "/v1/search?q=tea")
    assert status == 500
    assert json.loads(body)["error"]["message"] == "the service failed; its log has the reason."


def test_a_body_that_does_not_arrive_is_refused(folder, tmp_path):
    (tmp_path / "serve.toml").write_text(f"[serve.m]\nlive = '{folder / 'm.podium'}'\n[limits]\nread_seconds = 0.3\n")
    with serving("--config", tmp_path / "serve.toml") as service:
        for path in ("/v1/models/m:rank", "/v1/search"):
            with socket.create_connection(service.place, timeout=30) as connection:
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                connection.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 408")
        for before in (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"):  # a head that stops in the middle
            with socket.create_connection(service.place, timeout=10) as connection:
                connection.sendall(before + b"GET /healthz HTTP/1.1\r\nHost:")
                answer = b""
                while chunk := connection.recv(65536):  # until the service closes the connection
                    answer += chunk
                assert answer.count(b"HTTP/1.1 200") == (1 if before else 0)


def test_other_origins_are_refused(service):
    for host in ("evil.example", "evil.example:80", "", "127.0.0.1.evil.example"):
        status, _, answer = ask(service, "GET", "/v1/models", Host=host)
        assert status == 403
        assert answer["error"]["field"] == "host"
    status, headers, _ = ask(service, "OPTIONS", "/v1/feedback", Origin="http://evil.example")
    assert status == 405
    assert not any(name.startswith("access-control") for name in headers)
    status, headers, _ = ask(service, "GET", "/healthz", Host="localhost:1")
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_feedback_is_in_the_log_when_it_is_acknowledged_beside_what_was_shown(service, folder):
    from podium.server.log import read_log

    with podium.Client(service.address) as client:
        answer = client.search("green tea", 3, system="web")
        client.click(answer["request"], answer["hits"][0]["id"], 1, probability=0.5, seed=3, model=answer["model"])
        client.judge("green tea", answer["hits"][1]["id"], 3, rater="ann")
    records = list(read_log(folder / "log.jsonl"))
    click = next(one for one in records if one["kind"] == "click")
    assert {name: click[name] for name in ("request", "document", "position", "click", "probability", "seed")} == {
        "request": answer["request"],
        "document": answer["hits"][0]["id"],
        "position": 1,
        "click": True,
        "probability": 0.5,
        "seed": 3,
    }
    judgement = next(one for one in records if one["kind"] == "judgement")
    assert (judgement["query"], judgement["label"], judgement["rater"]) == ("green tea", 3.0, "ann")
    shown = next(one for one in records if one["kind"] == "shown" and one["request"] == answer["request"])
    assert shown["documents"] == [hit["id"] for hit in answer["hits"]]
    assert shown["model"] == answer["model"]
    rows = np.array(shown["features"]["rows"], np.float64).astype(np.float32)
    stage = podium.load(folder / "web").stages[0]
    assert stage.scores(rows).tolist() == [hit["score"] for hit in answer["hits"]]


def test_metrics_count_what_was_answered(service):
    ask(service, "GET", "/healthz")
    _, headers, text = ask(service, "GET", "/metrics")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b'podium_requests_total{route="/healthz",status="200"}' in text
    assert b"podium_stage_seconds_bucket" in text


def test_the_description_names_every_route(service):
    paths = ask(service, "GET", "/openapi.json")[2]["paths"]
    for path in (
        "/v1/models/{name}:rank",
        "/v1/search",
        "/v1/explain",
        "/v1/feedback",
        "/healthz",
        "/readyz",
        "/metrics",
    ):
        assert path in paths
    assert set(paths["/v1/models/{name}:rank"]["post"]["requestBody"]["content"]) == {
        "application/json",
        "application/octet-stream",
        "application/vnd.apache.arrow.stream",
    }


def test_deadlines_are_checked(service):
    status, _, answer = ask(service, "GET", "/v1/search?q=tea&system=web", X_Deadline_Ms="abc")
    assert status == 400
    assert answer["error"]["field"] == "x-deadline-ms"
    assert ask(service, "GET", "/v1/search?q=tea&system=web", X_Deadline_Ms="20000")[0] == 200


def test_the_id_of_a_request_is_the_callers_if_it_has_one(service):
    assert ask(service, "GET", "/healthz", X_Request_Id="abc-1")[1]["x-request-id"] == "abc-1"
    assert ask(service, "GET", "/healthz", X_Request_Id="a b")[1]["x-request-id"] != "a b"


def test_a_token_is_asked_for_where_there_is_one_and_versions_are_changed_with_it(folder):
    settings = ["--token-file", folder / "token", "--folder", folder / "versions", "--host", "127.0.0.1"]
    with serving(folder / "m.podium", *settings) as service:
        assert ask(service, "GET", "/v1/models")[0] == 401
        assert ask(service, "GET", "/v1/models", Authorization="Bearer wrong")[0] == 401
        assert ask(service, "GET", "/healthz")[0] == ask(service, "GET", "/readyz")[0] == 200
        client = podium.Client(service.address, token="a secret of the tests")
        rows = np.random.default_rng(2).random((9, N_FEATURES)).astype(np.float32)
        old, new = podium.load(folder / "m.podium").predict(rows), podium.load(folder / "other.podium").predict(rows)
        assert client.rank("m", rows).scores.tobytes() == old.tobytes()
        for version, words in [("no", "no version is called 'no'; there are: new"), ("../m", "no version is called")]:
            with pytest.raises(ServiceError, match=words):
                client.load("m", version)
        assert client.load("m", "new")["version"] == "new"
        assert client.rank("m", rows).scores.tobytes() == new.tobytes()
        damaged = folder / "versions" / "m" / "damaged.podium"
        damaged.write_bytes((folder / "m.podium").read_bytes()[:-100])
        with pytest.raises(ServiceError, match="failed in its trial"):
            client.load("m", "damaged")
        assert client.rank("m", rows).scores.tobytes() == new.tobytes()
        damaged.unlink()


def test_a_canary_answers_its_users_and_a_shadow_nobody(folder, tmp_path):
    config = tmp_path / "serve.toml"
    rows = np.random.default_rng(2).random((9, N_FEATURES)).astype(np.float32)
    (tmp_path / "warmup.jsonl").write_text(json.dumps({"name": "m", "features": rows.tolist()}) + "\n")
    config.write_text(
        f"""
        warmup = "warmup.jsonl"
        [serve.m]
        live = '{folder / "m.podium"}'
        canary = '{folder / "other.podium"}'
        canary_share = 0.5
        shadow = ['{folder / "other.podium"}']
        """
    )
    expected = {role: podium.load(folder / f"{name}.podium").predict(rows).tolist() for role, name in ROLES.items()}
    with serving("--config", config) as service:
        roles = {}
        for number in range(40):
            asked = {"features": rows.tolist(), "user": f"u{number}"}
            answers = [ask(service, "POST", "/v1/models/m:rank", asked)[2] for _ in range(2)]
            roles[number] = answers[0]["role"]
            for answer in answers:
                assert (answer["role"], answer["scores"]) == (roles[number], expected[roles[number]])
        assert 8 <= list(roles.values()).count("canary") <= 32
        text = ask(service, "GET", "/metrics")[2].decode()
        assert 'podium_shadow_requests_total{name="m",outcome="scored",shadow="other"}' in text


ROLES = {"live": "m", "canary": "other"}


def test_a_service_for_other_machines_needs_a_token(folder, capsys):
    from podium.server.settings import Entry, Settings

    with pytest.raises(ValueError, match="can be reached from other machines, and there is no token"):
        Settings({"m": Entry(folder / "m.podium")}, host="0.0.0.0")


def test_at_sigterm_requests_under_way_are_answered_and_the_process_ends_with_0(folder):
    service = Service([folder / "web"])
    answers, asking = [], threading.Event()

    def ask_on():
        for _ in range(2000):
            try:
                answers.append(ask(service, "GET", "/v1/search?q=green+tea+pot&k=50")[0])
            except (ConnectionError, http.client.HTTPException):
                return
            asking.set()

    threads = [threading.Thread(target=ask_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert asking.wait(60)
    service.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(60)
    assert service.end() == 0
    assert answers
    assert set(answers) <= {200, 503}
    assert not any("Traceback" in line for line in service.lines), service.lines


def test_kill_during_feedback_loses_nothing_that_was_acknowledged(folder, tmp_path):
    from podium.server.log import read_log

    log = tmp_path / "log.jsonl"
    service = Service([folder / "m.podium", "--log", log])
    acknowledged, enough = [], threading.Event()

    def give(thread):
        client = podium.Client(service.address, retries=0)
        for number in range(5_000):
            try:
                client.click("r", f"{thread}-{number}", 1)
            except (OSError, http.client.HTTPException):
                return
            acknowledged.append(f"{thread}-{number}")
            if len(acknowledged) > 100:
                enough.set()

    threads = [threading.Thread(target=give, args=(one,)) for one in range(4)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    service.kill()
    for thread in threads:
        thread.join(60)
    service.end()
    found = [record["document"] for record in read_log(log)]
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))


def test_one_answer_without_a_port(folder, capsys, monkeypatch):
    import sys

    from podium import cli

    monkeypatch.setattr(sys, "argv", ["podium", "serve", str(folder / "web"), "--get", "/v1/search?q=green tea&k=2"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["hits"]) == 2
    assert answer["system"] == "web"
