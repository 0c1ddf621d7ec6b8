"""The client against an HTTP server of the standard library, which answers what the test tells it."""

import json
import threading
from collections import deque
from contextlib import contextmanager
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import podium
from podium.server.client import ServiceError


@contextmanager
def answering(*answers):
    """A server that gives these answers in turn, each (status, JSON) or None: it hangs up. Yields address, requests."""
    left, asked = deque(answers), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((self.command, self.path, dict(self.headers), body))
            answer = left.popleft()
            if answer is None:
                self.close_connection = True
                return
            content = json.dumps(answer[1]).encode() if not isinstance(answer[1], bytes) else answer[1]
            self.send_response(answer[0])
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Request-Id", "r1")
            self.send_header("X-Model-Sha256", "abc")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


BUSY = (429, {"error": {"message": "busy.", "retry_after": 0.01, "code": "busy"}})
HITS = (200, {"hits": []})


def test_rank_sends_float32_and_reads_float64():
    scores = np.array([0.5, 2.0, 1.0])
    with answering((200, scores.astype("<f8").tobytes())) as (address, asked), podium.Client(address) as client:
        answer = client.rank("a b", np.array([[1, 2], [3, 4], [5, 6]]))
    assert answer.scores.tolist() == scores.tolist()
    assert answer.order.tolist() == [1, 2, 0]
    assert (answer.request, answer.model) == ("r1", "abc")
    method, path, headers, body = asked[0]
    assert (method, path) == ("POST", "/v1/models/a%20b:rank")
    assert headers["Content-Type"] == "application/octet-stream"
    assert np.frombuffer(body, "<f4").tolist() == [1, 2, 3, 4, 5, 6]


def test_token_and_user_go_with_every_request():
    with answering(HITS, HITS) as (address, asked), podium.Client(address, token="t", user="u") as client:
        client.search("tea")
        client.get("/v1/models", a="b c")
    for _, _, headers, _ in asked:
        assert (headers["Authorization"], headers["X-User"]) == ("Bearer t", "u")
    assert asked[1][1] == "/v1/models?a=b+c"


def test_a_busy_service_is_asked_again_and_a_lost_connection_is_made_anew():
    with answering(BUSY, None, (503, {}), HITS) as (address, asked), podium.Client(address) as client:
        assert client.search("tea") == {"hits": []}
    assert len(asked) == 4


def test_a_refusal_that_will_not_change_is_raised_at_once():
    error = {"message": "k: expected an integer.", "field": "k", "code": "bad_request", "request": "r9"}
    answer = 400, {"error": error}
    with answering(answer) as (address, asked), pytest.raises(ServiceError, match="k: expected") as refused:
        podium.Client(address).search("tea")
    assert len(asked) == 1
    assert (refused.value.status, refused.value.field, refused.value.request) == (400, "k", "r9")


def test_after_the_last_try_the_reason_is_raised():
    with answering(BUSY, BUSY) as (address, _), pytest.raises(ServiceError, match="busy") as refused:
        podium.Client(address, retries=1).search("tea")
    assert refused.value.retry_after == 0.01
    with answering((502, b"<html>")) as (address, _), pytest.raises(ServiceError, match="answered 502: <html>"):
        podium.Client(address, retries=0).models()


def test_feedback_is_not_sent_twice_where_it_may_have_arrived():
    with answering(None, None) as (address, asked), pytest.raises((OSError, HTTPException)):
        podium.Client(address).click("r", "d", 1)
    assert len(asked) == 1


def test_what_cannot_be_sent_is_refused_before_it_is():
    for address in ("127.0.0.1:8080", "ftp://a", "http://", "http://a/b"):
        with pytest.raises(ValueError, match="expected an address such as"):
            podium.Client(address)
    client = podium.Client("http://127.0.0.1:9")
    for rows in ([1.0, 2.0], [["a"]], np.zeros((2, 2), complex)):
        with pytest.raises(ValueError, match="X must be an array of numbers"):
            client.rank("m", rows)
    assert repr(client) == "Client('http://127.0.0.1:9')"
    assert not client.is_ready()
