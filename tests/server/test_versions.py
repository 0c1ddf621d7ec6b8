"""Versions: tried first, swapped as a whole, and whatever is wrong with a new one, the old one goes on."""

import json
import shutil
import threading

import numpy as np
import pytest
from serving import N_FEATURES, small_model

import podium
from podium.formats.errors import FormatError
from podium.server.errors import Refusal
from podium.server.service import Service
from podium.server.settings import CANARY, LIVE, SHADOW, Entry, Limits, Settings, entries_of
from podium.server.versions.registry import Registry
from podium.server.versions.trial import Requests, try_version
from podium.server.versions.version import digest_of, load_version

ROWS = np.random.default_rng(0).random((12, N_FEATURES)).astype(np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """now.podium, and versions/m/ with two that fit, one with other features and one that is damaged."""
    folder = tmp_path_factory.mktemp("versions")
    versions = folder / "versions" / "m"
    versions.mkdir(parents=True)
    small_model(0).save(folder / "now.podium")
    small_model(1).save(versions / "one.podium")
    small_model(2).save(versions / "two.podium")
    X, y = np.random.default_rng(1).random((40, 3)), np.tile([0, 1, 2, 1], 10)
    podium.Linear(objective="squared").fit(X, y, qid=np.repeat(np.arange(10), 4)).save(versions / "narrow.podium")
    whole = (folder / "now.podium").read_bytes()
    (versions / "damaged.podium").write_bytes(whole[: len(whole) // 2])
    (versions / "notes.txt").write_text("no version")
    return folder


def registry_of(models, **entry):
    entry = Entry(models / "now.podium", **entry)
    return Registry(Settings({"m": entry}, folder=models / "versions"))


def no_trial(path):
    pass


def test_every_user_keeps_one_version_and_a_canary_has_its_share(models):
    new = models / "versions" / "m" / "one.podium"
    served = registry_of(models, canary=new, canary_share=0.2).get("m")
    roles = [served.version_for(f"user {number}")[1] for number in range(10_000)]
    assert roles == [served.version_for(f"user {number}")[1] for number in range(10_000)]
    assert abs(roles.count(CANARY) - 2_000) < 4 * np.sqrt(10_000 * 0.2 * 0.8)
    assert served.version_for(None) == (served.live, LIVE)


@pytest.mark.parametrize("role", [LIVE, CANARY, SHADOW])
def test_a_new_version_takes_its_role_and_nothing_else_changes(models, role):
    registry = registry_of(models)
    before = registry.get("m")
    version = registry.load("m", "one", role, no_trial)
    after = registry.get("m")
    in_role = {LIVE: [after.live], CANARY: [after.canary], SHADOW: list(after.shadows)}
    assert in_role[role] == [version]
    assert (after.live is before.live) == (role != LIVE)
    assert before.live.scores(ROWS).tolist() == podium.load(models / "now.podium").predict(ROWS).tolist()
    assert version.digest == digest_of(models / "versions" / "m" / "one.podium")
    if role != LIVE:
        registry.unload("m", role)
        assert registry.get("m") == before


REFUSED = [
    ("nobody", "one", LIVE, 404, "no model is called 'nobody'; there are: m."),
    ("m", "three", LIVE, 404, "no version is called 'three'; there are: damaged, narrow, one, two."),
    ("m", "../now", LIVE, 404, "no version is called '../now'"),
    ("m", "notes", LIVE, 404, "no version is called 'notes'"),
    ("m", "one", "main", 404, "no role is called 'main'"),
    ("m", "narrow", LIVE, 400, "has other features than 'now'"),
    ("m", "narrow", SHADOW, 400, "has other features than 'now'"),
]


@pytest.mark.parametrize(("name", "label", "role", "status", "words"), REFUSED)
def test_what_is_refused_changes_nothing(models, name, label, role, status, words):
    registry = registry_of(models)
    before = registry.get("m")
    with pytest.raises(Refusal, match=words.replace("(", r"\(")) as refused:
        registry.load(name, label, role, no_trial)
    assert refused.value.status == status
    assert registry.get("m") is before


def test_a_version_that_fails_in_its_trial_or_is_damaged_changes_nothing(models):
    registry = registry_of(models)
    before = registry.get("m")

    def fail(path):
        raise Refusal(400, "version: it failed.")

    for label, trial, error in [("one", fail, Refusal), ("damaged", no_trial, FormatError)]:
        with pytest.raises(error):
            registry.load("m", label, LIVE, trial)
        assert registry.get("m") is before
    registry.load("m", "one", LIVE, no_trial)  # nothing is left behind that would keep others out


def test_a_file_that_changes_after_its_trial_is_refused(models, tmp_path):
    (tmp_path / "m").mkdir()
    path = tmp_path / "m" / "new.podium"
    shutil.copy(models / "versions" / "m" / "one.podium", path)
    registry = Registry(Settings({"m": Entry(models / "now.podium")}, folder=tmp_path))

    def change(path):
        shutil.copy(models / "versions" / "m" / "two.podium", path)

    with pytest.raises(ValueError, match="has changed since its trial"):
        registry.load("m", "new", LIVE, change)


def test_one_version_is_loaded_at_a_time(models):
    registry = registry_of(models)

    def load_another(path):
        with pytest.raises(Refusal, match="another version is being loaded") as refused:
            registry.load("m", "two", LIVE, no_trial)
        assert refused.value.status == 409

    registry.load("m", "one", LIVE, load_another)
    assert registry.get("m").live.label == "one"


def test_readers_see_the_scores_of_the_version_they_hold_while_others_are_swapped_in(models):
    registry = registry_of(models)
    expected = {
        digest_of(path): podium.load(path).predict(ROWS).tolist()
        for path in (models / "now.podium", *(models / "versions" / "m" / f"{name}.podium" for name in ("one", "two")))
    }
    done, seen, wrong = threading.Event(), set(), []

    def read():
        while not done.is_set():
            version, _ = registry.get("m").version_for("somebody")
            seen.add(version.digest)
            if version.scores(ROWS).tolist() != expected[version.digest]:
                wrong.append(version.label)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(20):
        registry.load("m", ("one", "two")[number % 2], LIVE, no_trial)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert len(seen) >= 2


def test_without_a_folder_no_version_can_be_loaded(models):
    registry = Registry(Settings({"m": Entry(models / "now.podium")}))
    with pytest.raises(Refusal, match="Start the service with --folder FOLDER"):
        registry.load("m", "one", LIVE, no_trial)


def test_requests_are_the_same_after_a_pipe(tmp_path):
    rows = [ROWS, np.full((1, N_FEATURES), np.nan, np.float32)]
    path = tmp_path / "pipe"
    path.write_bytes(Requests(rows, ["a query", "ä"]).as_bytes())
    with open(path, "rb") as stream:
        read = Requests.from_stream(stream)
    assert read.queries == ["a query", "ä"]
    for one, two in zip(read.rows, rows, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_trial_accepts_what_answers_in_time_and_says_why_it_does_not(models):
    requests = Requests([ROWS])
    good = models / "versions" / "m" / "one.podium"
    try_version(good, requests, Limits())
    with pytest.raises(Refusal, match=r"damaged\.podium failed in its trial: .*damaged\.podium"):
        try_version(good.with_name("damaged.podium"), requests, Limits())
    with pytest.raises(Refusal, match=r"expected at most 1e-12\. What was served is served still"):
        try_version(good, requests, Limits(deadline_seconds=2e-12))
    with pytest.raises(Refusal, match=r"was not loaded and tried within 0\.01 seconds"):
        try_version(good, requests, Limits(load_seconds=0.01))
    with pytest.raises(Refusal, match="expected at most 10") as refused:
        try_version(good, requests, Limits(load_bytes=10))
    assert refused.value.status == 413
    with pytest.raises(Refusal, match="failed in its trial: features: expected 3 per document; got 5"):
        try_version(good.with_name("narrow.podium"), requests, Limits())


def test_warmup_requests_are_those_of_the_file_and_the_latest(models, tmp_path):
    path = tmp_path / "warmup.jsonl"
    path.write_text(json.dumps({"name": "m", "features": ROWS[:2].tolist()}) + "\n\n")
    service = Service(Settings({"m": Entry(models / "now.podium")}, warmup=path))
    for number in range(20):
        service.warmup.note_rows("m", ROWS[: number + 1][:1] + number)
    rows = service.warmup.requests_of("m").rows
    assert rows[0].tolist() == ROWS[:2].tolist()
    assert [float(one[0, 0] - ROWS[0, 0]) for one in rows[1:]] == pytest.approx(list(range(4, 20)), abs=1e-5)
    service.close()


BAD_LINES = [
    ("[1]", "expected {"),
    ("{", "expected|unexpected"),
    ('{"name": "nobody", "features": [[1]]}', "no model is called 'nobody'"),
    ('{"name": "m", "q": "tea"}', "m is a model: expected features"),
    ('{"name": "m"}', "m is a model: expected features"),
    ('{"name": "m", "features": [[1, 2]]}', "features"),
    ('{"name": "m", "features": [], "x": 1}', "expected {"),
]


@pytest.mark.parametrize(("line", "words"), BAD_LINES)
def test_a_bad_warmup_request_is_named_by_its_line(models, tmp_path, line, words):
    path = tmp_path / "warmup.jsonl"
    path.write_text(json.dumps({"name": "m", "features": ROWS[:2].tolist()}) + "\n" + line + "\n")
    with pytest.raises(FormatError, match=words) as error:
        Service(Settings({"m": Entry(models / "now.podium")}, warmup=path))
    assert "warmup.jsonl, line 2" in str(error.value) or "warmup.jsonl:2" in str(error.value)


def test_a_file_that_is_no_model_and_one_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        load_version(tmp_path / "no.podium")
    (tmp_path / "text.podium").write_text("text")
    with pytest.raises(ValueError, match=r"text\.podium"):
        load_version(tmp_path / "text.podium")


def test_entries_of_the_command_line():
    from pathlib import Path

    entries = entries_of(["a.podium", "b=c.podium"], ["b=d.podium:shadow", "b=e.podium:canary", "f=g.podium"])
    assert entries == {
        "a": Entry(Path("a.podium")),
        "b": Entry(Path("c.podium"), canary=Path("e.podium"), shadow=(Path("d.podium"),)),
        "f": Entry(Path("g.podium")),
    }
    for targets, options, words in [
        (["a.podium", "x/a.podium"], [], "'a' is served already"),
        ([], ["a=b.podium:shadow"], "'a' has no live model"),
        (["a=x"], ["a=y:canary", "a=z:canary"], "has a canary already"),
        (["a=x"], ["a=y"], "'a' is served already"),
    ]:
        with pytest.raises(ValueError, match=words):
            entries_of(targets, options)
