"""The budget: choosing and training end in time, whatever takes how long; and what is left out is named."""

from __future__ import annotations

import warnings
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import world

import podium
from podium._runtime.kernels.compiling import CompileTimer, compile_seconds
from podium.data.ranking import RankingData
from podium.persistence.values import from_plain, to_plain
from podium.pipelines.auto.autoranker import Ending, make_plan, shortened
from podium.pipelines.auto.budget import Budget, OutOfTime, Watch
from podium.pipelines.auto.candidates import FAMILIES, make_candidates
from podium.pipelines.auto.choosing import Trying, choose
from podium.pipelines.auto.costs import SLACK, Costs
from podium.pipelines.auto.criteria import parse_criterion

N_QUERIES, N_DOCUMENTS = 24, 5


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Timed(Trying):
    """Candidates of which a table has the seconds and the scores; nothing is trained."""

    def _warm_up(self, candidate) -> None:
        pass

    def _out_of_fold(self, candidate, fold_of, watch):
        setup, step = self.durations[candidate.name]
        for _ in range(int(fold_of.max()) + 1):
            training = watch.training()
            self.clock.now += setup
            for done in range(candidate.n_steps):
                self.clock.now += step
                training(SimpleNamespace(iteration=done + 1, total=candidate.n_steps, model=candidate.model))
            training.end()
        return self.table[candidate.name]


def labelled() -> RankingData:
    labels = np.random.default_rng(0).integers(0, 3, N_QUERIES * N_DOCUMENTS)
    return RankingData.from_arrays(np.zeros((len(labels), 2)), labels, np.repeat(np.arange(N_QUERIES), N_DOCUMENTS))


def timed(limit: float, durations: dict[str, tuple[float, float]], candidates, seed: int = 0, final_rows: int = 0):
    data, clock, draws = labelled(), Clock(), np.random.default_rng(seed)
    criterion = parse_criterion("ndcg@10")
    budget = Budget(limit, clock, lambda: 0.0)
    trying = Timed(data, candidates, criterion, 3, budget, 0, 1, n_final_rows=final_rows)
    trying.clock, trying.durations = clock, durations
    trying.table = {}
    for one in candidates:
        signal = draws.random((len(one.steps), 1)) * 2 * np.asarray(data.y)
        trying.table[one.name] = (signal + draws.standard_normal((len(one.steps), data.n_rows))).astype(np.float32)
    return trying


def seconds_of_plan(plan, candidates, durations, n_rows: int) -> float:
    """By hand, on one thread: every forest alone, nets in proportion to their number, rows in proportion."""
    total, trained = 0.0, N_QUERIES * N_DOCUMENTS * 2 / 3
    for plain in plan["members"]:
        member = from_plain(plain, "member")
        copies, inner = (member.n_members, member.model) if isinstance(member, podium.Bagged) else (1, member)
        skip = {"n_estimators", "n_nets"}
        wanted = {key: value for key, value in inner.get_params().items() if key not in skip}
        (one,) = [
            c
            for c in candidates
            if type(c.model) is type(inner)
            and {key: value for key, value in c.model.get_params().items() if key not in skip} == wanted
        ]
        setup, step = durations[one.name]
        if one.family == "nets":
            copies = inner.n_nets / 4
        steps = inner.n_estimators if one.family == "trees" else one.n_steps
        total += copies * (setup + steps * step) * n_rows / trained
    return total


@given(
    limit=st.floats(5, 300),
    families=st.sampled_from([("linear",), ("trees",), ("linear", "trees"), FAMILIES, ("linear", "nets")]),
    seed=st.integers(0, 10_000),
    heaviness=st.sampled_from([1e-5, 1e-4, 1e-3, 1e-2]),
    divisions=st.integers(1, 3),
    rows=st.sampled_from([1, 3]),
)
@settings(max_examples=80, deadline=None)
def test_choosing_and_training_end_in_time_and_every_candidate_is_tried_or_named(
    limit, families, seed, heaviness, divisions, rows
) -> None:
    """Durations are up to `heaviness` x the budget per step, and differ by a factor of ten between candidates."""
    candidates, _ = make_candidates(world(), families)
    draws = np.random.default_rng(seed)
    unit = min(heaviness, 0.005) * limit
    durations = {one.name: tuple(unit * 10 ** -draws.random(2)) for one in candidates}
    trying = timed(limit, durations, candidates, seed, rows * N_QUERIES * N_DOCUMENTS)
    choice = choose(trying, divisions)
    notes = " ".join(choice.notes)
    for one in candidates:
        was_tried = any(record["what"] == one.name for record in choice.tried)
        assert was_tried or one.name in notes
    final = seconds_of_plan(make_plan(choice), candidates, durations, rows * N_QUERIES * N_DOCUMENTS)
    assert trying.clock.now <= 1.1 * limit
    if choice.is_compared:
        assert trying.clock.now + final <= 1.1 * limit
    else:
        first = f"The budget of {limit:g} s was too small to compare anything: {candidates[0].name} was trained."
        assert choice.notes[0] == first
        assert len(choice.members) == 1


def test_with_enough_time_nothing_is_left_out_for_time() -> None:
    candidates, _ = make_candidates(world(), FAMILIES)
    trying = timed(1e6, {one.name: (0.1, 0.001) for one in candidates}, candidates)
    choice = choose(trying, 2)
    assert "budget" not in " ".join(choice.notes)
    assert choice.averaged == (5, 10)


def test_a_slow_candidate_is_stopped_between_steps_and_slower_ones_are_not_begun() -> None:
    """Budget 10 s, 3 folds, one thread: 300 trees of 0.05 s are 15 s per training, which 15 trees (5 %) tell."""
    candidates, _ = make_candidates(world(), ("linear", "trees"))
    durations = {one.name: (0.0, 0.05 if one.family == "trees" else 1e-4) for one in candidates}
    trying = timed(10.0, durations, candidates)
    choice = choose(trying, 1)
    stopped = next(note for note in choice.notes if note.startswith("trees, pairwise, 7 leaves: left out"))
    assert "after 15 of 300 steps it was clear that it needs" in stopped
    assert "(budget 10 s)" in stopped
    later = next(note for note in choice.notes if note.startswith("trees, pairwise, 12 leaves: left out"))
    assert "by prediction, and there were" in later
    assert {one["what"].split(",")[0] for one in choice.tried} == {"linear"}


def test_seconds_of_compiling_are_not_part_of_the_budget() -> None:
    clock, compiled = Clock(), Clock()
    clock.now, compiled.now = 100.0, 7.0
    budget = Budget(10.0, clock, compiled)
    clock.now, compiled.now = 108.0, 7.0 + 5.0
    assert (budget.total(), budget.compiling(), budget.elapsed(), budget.left()) == (8.0, 5.0, 3.0, 7.0)


@pytest.mark.parametrize("family", ["linear", "trees"])
@pytest.mark.parametrize("better", ["z-scores and ranks within the query", "features as they are"])
def test_cross_validation_decides_on_columns_of_the_query_per_family(family, better) -> None:
    """The first two candidates differ in their columns; the other settings are tried with the better ones only."""
    candidates, _ = make_candidates(world(), (family,))
    trying = timed(1e6, {one.name: (0.1, 0.001) for one in candidates}, candidates)
    labels = np.asarray(trying.data.y, np.float32)
    for one in candidates:
        sign = 1 if one.columns == better else -1
        trying.table[one.name] = np.stack([sign * labels] * len(one.steps))
    choice = choose(trying, 1)
    tried = [record["what"] for record in choice.tried if record["kind"] == "candidate"]
    expected = [one.name for one in candidates[:2]] + [
        one.name for one in candidates[2:] if one.columns in ("", better)
    ]
    assert tried == expected
    (note,) = [note for note in choice.notes if note.startswith(f"{family}: {better} were better by cross-validation")]
    left_out = "; ".join(one.name for one in candidates if one.name not in expected)
    assert note.endswith(f"Left out for that: {left_out}.")
    assert choice.members[0].candidate.columns in ("", better)


def test_a_training_that_is_stopped_leaves_no_other_fold_at_work() -> None:
    clock = Clock()
    watch = Watch(Budget(1.0, clock, lambda: 0.0), rounds=2, finals=1.0, of_group=0.0, reserved=0.0)
    first, second = watch.training(), watch.training()
    clock.now = 0.5  # 3 x 0.5 s are more than 1 s
    model = SimpleNamespace(step_word="tree")
    with pytest.raises(OutOfTime, match=r"needs 1\.50 s, and there were 1\.00 s"):
        first(SimpleNamespace(iteration=1, total=10, model=model))
    with pytest.raises(OutOfTime):
        second(SimpleNamespace(iteration=1, total=10, model=model))
    with pytest.raises(OutOfTime):
        watch.training()


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        (podium.Linear(objective="ranknet", max_iter=50), 4),
        (podium.Boosted(objective="ranknet", n_estimators=30, extra_trees=True, feature_fraction=0.5), 7),
        (podium.Bagged(podium.LambdaMART(n_estimators=5, feature_fraction=0.5), n_members=4, sample="seeds"), 2),
    ],
)
def test_a_final_training_that_ends_early_is_that_of_a_shortened_plan(model, steps) -> None:
    """The clock is a second further with each step; the budget is over after step `steps`."""
    data, clock = world(), Clock()
    ending = Ending(Budget(steps - 0.5, clock, lambda: 0.0), steps - 0.5)

    def tick(progress):
        clock.now += 1
        return ending(progress)

    plain = from_plain(to_plain(model), "model")
    model.set_params(n_jobs=1).fit(data, callbacks=[tick])
    assert ending.is_over
    assert model.best_iteration_ == steps
    again = shortened(plain, steps).set_params(n_jobs=1).fit(data)
    np.testing.assert_array_equal(model.predict(data), again.predict(data))


def test_a_budget_that_ends_the_final_training_changes_the_plan_and_is_noted(monkeypatch) -> None:
    """The plan still trains the same blend."""
    data = world(3, 40)
    quick = {"families": ("linear", "trees"), "divisions": 1, "folds": 2, "n_jobs": 1}
    after_two = Ending.__call__

    def ends_at_step_two(self, progress):
        self.ends = -1.0 if progress.iteration >= 2 else 1e9
        return after_two(self, progress)

    monkeypatch.setattr(Ending, "__call__", ends_at_step_two)
    model = podium.AutoRanker(**quick).fit(data)
    monkeypatch.undo()
    assert any("the final training ended after 2 of" in note for note in model.notes_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = podium.AutoRanker(plan=model.plan_, n_jobs=1).fit(data)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))


def test_a_checkpoint_resumes_the_members_that_were_chosen_and_no_others(monkeypatch, tmp_path) -> None:
    """The training dies after its first member, a linear model; resumed, it has the bytes of one that did not."""
    data, path = world(3, 40), tmp_path / "auto.check"
    quick = {"families": ("linear", "trees"), "divisions": 1, "folds": 2, "n_jobs": 1, "random_state": 2}
    chosen = [podium.Linear(objective="ranknet", max_iter=9), podium.Boosted(objective="ranknet", n_estimators=5)]
    choose_members(monkeypatch, chosen)
    whole = podium.AutoRanker(**quick).fit(data)

    def dies(progress):
        if progress.iteration == 2:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        podium.AutoRanker(**quick).fit(data, checkpoint=path, every=1, callbacks=[dies])
    choose_members(monkeypatch, [podium.MART(n_estimators=3), chosen[1]])
    with pytest.raises(ValueError, match="Linear is not among the members that were chosen this time"):
        podium.AutoRanker(**quick).fit(data, checkpoint=path, every=1)
    choose_members(monkeypatch, chosen)
    resumed = podium.AutoRanker(**quick).fit(data, checkpoint=path, every=1)
    for name, model in (("whole", whole), ("resumed", resumed)):
        model.save(tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def choose_members(monkeypatch, members) -> None:
    """Every choice from now on is this one."""
    plan = {"members": [to_plain(one) for one in members], "weights": [1 / len(members)] * len(members)}

    def chooses(self, pool, n_final_rows, budget):
        self._set_choice(plan, [], ["Chosen by the test."])
        return True

    monkeypatch.setattr(podium.AutoRanker, "_choose", chooses)


def test_timing_says_what_was_spent_on_choosing_training_and_compiling() -> None:
    model = podium.AutoRanker(families=("linear",), divisions=1, folds=2, n_jobs=1).fit(world())
    assert set(model.timing_) == {"choosing", "training", "compiling"}
    assert all(seconds >= 0 for seconds in model.timing_.values())
    assert model.timing_["choosing"] > 0


@pytest.mark.slow
def test_a_real_choice_keeps_a_small_budget() -> None:
    """Kernels are compiled by a choice before; twice the budget is a wide margin on a machine that is busy."""
    data = world(0, 100)
    options = {"families": ("linear", "trees"), "n_jobs": 2}
    podium.AutoRanker(budget=600, divisions=1, **options).fit(data)
    model = podium.AutoRanker(budget=5, **options).fit(data)
    assert sum(model.timing_[part] for part in ("choosing", "training")) < 10


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=6), st.integers(0, 4))
def test_kernels_compiled_inside_of_others_count_once(intervals, last) -> None:
    """Each interval has one inside; what has not ended counts up to now."""
    clock = Clock()
    timer = CompileTimer(clock)
    for outer, inner in intervals:
        clock.now += 1  # nothing is compiled
        timer.start()
        clock.now += outer
        timer.start()
        clock.now += inner
        timer.end()
        timer.end()
    ended = sum(outer + inner for outer, inner in intervals)
    assert timer.seconds() == ended
    timer.start()
    clock.now += last
    assert timer.seconds() == ended + last


def test_seconds_of_compiling_are_those_that_numba_reports() -> None:
    numba = pytest.importorskip("numba")
    before, began = compile_seconds(), perf_counter()
    numba.njit(lambda number: number + before)(1)
    passed = perf_counter() - began
    assert 0 <= compile_seconds() - before <= passed
    if not numba.config.DISABLE_JIT:
        assert compile_seconds() > before


def test_a_training_is_predicted_by_rows_columns_and_steps() -> None:
    """Two threads, 4 folds: two rounds. 3 columns per feature take three times as long; forests are rounded up."""
    candidates, _ = make_candidates(world(), ("linear", "trees", "nets"))
    number = {one.name: n for n, one in enumerate(candidates)}
    columns, bare = number["trees, pairwise, 7 leaves"], number["trees, pairwise, 7 leaves, features as they are"]
    costs = Costs(candidates, n_rows=400, n_final_rows=600, n_features=5, n_folds=4, n_threads=2)
    assert costs.training(columns) == 0
    assert costs.training(number["nets, RankNet 32"]) == 3
    costs.measured[bare] = 2.0
    assert costs.training(columns) == 3 * 2.0
    assert costs.trying(columns) == 2 * 3 * 2.0
    rows = 600 / (400 * 3 / 4)
    assert costs.final([(bare, 100)]) == pytest.approx(SLACK * 3 * (100 / 300) * rows * 2.0)  # 5 forests in 3 rounds
    assert costs.final([(bare, 100)], (2, 4)) == pytest.approx(SLACK * 1 * (100 / 300) * rows * 2.0)
    assert costs.final([(number["nets, RankNet 32"], 0)]) == pytest.approx(SLACK * 10 / 4 * rows * 3.0)
    costs.measured[number["nets, RankNet 32"]] = 8.0
    assert costs.training(number["nets, RankNet 32, features as they are"]) == 8.0
    assert costs.training(number["linear, penalty 0.1"]) == 0


def test_a_candidate_that_was_stopped_tells_what_others_cost() -> None:
    """What is not begun names the seconds that it needs; nets come last, so that linear models and trees are tried."""
    candidates, _ = make_candidates(world(), FAMILIES)
    durations = {one.name: (8.0, 0.1) if one.family == "nets" else (0.01, 1e-4) for one in candidates}
    trying = timed(30.0, durations, candidates)
    choice = choose(trying, 1)
    assert {one["what"].split(",")[0] for one in choice.tried} >= {"linear", "trees"}
    nets = [note for note in choice.notes if note.startswith("nets, ")]
    assert len(nets) == sum(one.family == "nets" for one in candidates)
    assert "it was clear that it needs" in nets[0]
    assert all("by prediction" in note for note in nets[1:])
    assert trying.clock.now < 30


def test_where_the_first_candidate_is_too_slow_other_families_leave_it_the_time_to_be_trained() -> None:
    """3 s per training, budget 10 s: 3 folds and a final training are too long; the final one alone is not."""
    candidates, _ = make_candidates(world(), ("linear", "trees"))
    durations = {one.name: (0.5, 0.0125 if one.family == "linear" else 0.1) for one in candidates}
    trying = timed(10.0, durations, candidates)
    choice = choose(trying, 1)
    assert [member.candidate.name for member in choice.members] == ["linear, penalty 0.03"]
    final = 1.5 * (0.5 + 200 * 0.0125)
    assert trying.clock.now + final <= 1.1 * 10
