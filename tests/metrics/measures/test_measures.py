"""Measures of trec_eval and ir_measures: each equals its plain loop and pytrec_eval; some are for runs only."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import MEASURE_ORACLES, SUBTOPIC_ORACLES

import podium
from podium.evaluation.evaluating import evaluate, evaluate_run
from podium.formats.trec import Qrels, Run
from podium.metrics import POLICIES, RankedLists, parse_metric
from podium.metrics.measures.spelling import TREC_ORDER, expand_names
from podium.metrics.registry import MEASURES

TEXTS = {"runid", "relstring"}
codes = st.lists(st.integers(-2, 3), min_size=1, max_size=12)


def test_every_measure_has_an_oracle():
    names = {parse_metric(name, runs=True).base_name for name in [*MEASURE_ORACLES, *SUBTOPIC_ORACLES]}
    assert names | TEXTS == set(MEASURES)


def files_of(rows):
    """Qrels and a run, a query per (codes in ranked order, labels of documents that are not retrieved)."""
    qrels, run = {}, {}
    for q, (ranked, rest) in enumerate(rows):
        qrels[q] = {f"d{k}": code for k, code in enumerate(ranked) if code >= 0}
        qrels[q] |= {f"d{k}": -1 for k, code in enumerate(ranked) if code == -2}
        qrels[q] |= {f"x{k}": label for k, label in enumerate(rest)}
        run[q] = {f"d{k}": -k for k in range(len(ranked))}
    return Qrels.from_dict(qrels), Run.from_dict(run)


@pytest.mark.parametrize("name", MEASURE_ORACLES)
@given(rows=st.lists(st.tuples(codes, st.lists(st.integers(0, 3), min_size=1, max_size=4)), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_a_measure_equals_the_plain_loop(name, rows):
    result = evaluate_run(*files_of(rows), metrics=[name])
    for q, (ranked, rest) in enumerate(rows):
        pool = [code for code in ranked if code >= 0] + rest
        assert result.per_query[name][q] == pytest.approx(MEASURE_ORACLES[name](ranked, pool), abs=1e-12)


ANYWHERE = [name for name in MEASURE_ORACLES if not parse_metric(name, runs=True).runs_only]


@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize("labels", [[0, 0, 1, 2], [0, 1, 1, 0, 1], [3, 1, 0, 2], [0, 0], [1]], ids=str)
def test_a_measure_of_a_list_of_labels_takes_all_of_them_for_judged(name, labels):
    metric = parse_metric(name, POLICIES["trec"])
    expected = MEASURE_ORACLES[name](labels, labels)
    assert metric.value(np.array(labels)) == pytest.approx(expected, abs=1e-12)
    best = metric.value(sorted(labels, reverse=True))
    assert best >= metric.value(np.array(labels)) - 1e-12
    swapped = [labels[-1], *labels[1:-1], labels[0]] if len(labels) > 1 else labels
    if len(labels) > 1:
        assert metric.swaps(labels, 0)[-1] == pytest.approx(metric.value(swapped) - metric.value(labels))


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_cutoff_leaves_the_first_documents_of_a_list(name):
    if "@" in name:
        return
    metric = parse_metric(f"{name}@3", POLICIES["trec"])
    ranked, rest = np.array([0.0, 2.0, 0.0, 1.0, 1.0]), np.array([0.0, 2, 0, 1, 1])
    assert metric.value(ranked, rest) == pytest.approx(MEASURE_ORACLES[name]([0, 2, 0], [0, 2, 0, 1, 1]), abs=1e-12)


def test_a_model_is_selected_by_a_measure_and_saved_with_it(tmp_path):
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    y = (X[:, 0] > 0).astype(int)
    model = podium.MART(n_estimators=3, eval_metric=parse_metric("Bpref")).fit(X, y, qid=qid, eval_set=[(X, y, qid)])
    model.save(tmp_path / "model")
    assert podium.load(tmp_path / "model").eval_metric == parse_metric("bpref")
    assert "Bpref" in str(model.evals_)


# --- pytrec_eval ------------------------------------------------------------------------------------------------------


def random_files(rng, n_queries=12, ties=True):
    """Ties, unjudged documents, negative labels, queries missing on either side."""
    qrels, run = {}, {}
    names = [f"d{k}" for k in range(int(rng.integers(2, 40)))]
    for q in map(str, range(n_queries)):
        judged = rng.choice(names, rng.integers(1, len(names)), replace=False)
        qrels[q] = {doc: int(rng.integers(-2, 4) * (rng.random() < 0.6)) for doc in judged}
        if max(qrels[q].values()) < 0:
            qrels[q][judged[0]] = 0  # pytrec_eval crashes at a query with negative labels only
        if rng.random() < 0.85:
            retrieved = rng.choice(names, rng.integers(1, len(names)), replace=False)
            run[q] = {doc: float(rng.integers(0, 6) if ties else rng.normal()) for doc in retrieved}
    run["unjudged"] = {"d0": 1.0}
    return qrels, run or {"0": {"d0": 1.0}}


def check_all_trec(qrels, run, level=1):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"all_trec"}, relevance_level=level).evaluate(run)
    ours = evaluate_run(Qrels.from_dict(qrels), Run.from_dict(run), metrics="all_trec", relevant=level)
    assert set(ours.queries) == set(theirs)
    for q, query in enumerate(ours.queries):
        for name in set(theirs[query]) - TEXTS:
            value = ours.per_query[name][q]
            if name.startswith("gm_"):  # theirs is the logarithm, which they print for no query
                value = np.log(max(value, 1e-5))
            assert value == pytest.approx(theirs[query][name], abs=1e-12), (name, query)
    for name in set(ours) - {"num_q"}:
        rows = [row[name] for row in theirs.values()]
        assert ours[name] == pytest.approx(pytrec_eval.compute_aggregated_measure(name, rows), abs=1e-12), name


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("ties", [False, True])
def test_all_of_all_trec_equal_pytrec_eval(rng, ties, level):
    for _ in range(10):
        qrels, run = random_files(rng, ties=ties)
        if set(qrels) & set(run):
            check_all_trec(qrels, run, level)


names = st.text("ab0~é", min_size=1, max_size=3)
scores = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6), st.sampled_from([1.0, 1.0 + 1e-9, 1e-40, -0.0]))


@given(
    qrels=st.dictionaries(names, st.dictionaries(names, st.integers(-2, 12), min_size=1, max_size=8), min_size=1),
    run=st.dictionaries(names, st.dictionaries(names, scores, min_size=1, max_size=8), min_size=1),
    level=st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_all_of_all_trec_equal_pytrec_eval_on_any_files(qrels, run, level):
    qrels = {query: labels for query, labels in qrels.items() if max(labels.values()) >= 0}
    if set(qrels) & set(run):
        check_all_trec(qrels, run, level)


def test_missing_queries_count_as_trec_eval_counts_them():
    qrels = Qrels.from_dict({"a": {"d": 1, "e": 0}, "b": {"d": 1, "x": 2}, "c": {"d": 0}})
    run = Run.from_dict({"a": {"d": 1.0}})
    result = evaluate_run(qrels, run, metrics="all_trec", missing="zero")
    assert (result["num_q"], result["num_rel"], result["num_ret"]) == (3, 3, 1)
    assert result["map"] == pytest.approx(1 / 3)
    assert result["gm_map"] == pytest.approx((1.0 * 1e-5 * 1e-5) ** (1 / 3))
    assert result.n_missing == 2
    assert len(result.texts["relstring"]) == 1


def test_only_the_first_documents_count_with_a_depth():
    qrels = Qrels.from_dict({"a": {"d": 1, "e": 1, "f": 1}})
    run = Run.from_dict({"a": {"d": 1.0, "e": 2.0, "f": 2.0, "z": 3.0}})
    result = evaluate_run(qrels, run, metrics="all_trec", depth=2)
    assert (result["num_ret"], result["num_rel_ret"], result["Rprec"]) == (2, 1, 1 / 3)
    assert list(result.texts["relstring"]) == ["-1"]  # f stands above e, by its name
    with pytest.raises(ValueError, match="depth must be an integer from 1; got 0"):
        evaluate_run(qrels, run, depth=0)


def test_relstring_and_runid_are_texts():
    ranked, rest = [0, 3, -1, -2, 12, 1, 1, 1, 1, 1, 2], [1]
    qrels, run = files_of([(ranked, rest)])
    result = evaluate_run(
        qrels,
        Run(run.query_ids, run.offsets, run.docid_texts, run.values, "bm25"),
        metrics=["official", "relstring", "relstring_3", "runid"],
    )
    assert result.texts["relstring"][0] == "03-.>11111"
    assert result.texts["relstring_3"][0] == "03-"
    assert result.texts["runid"][0] == "bm25"
    assert "relstring" not in result
    assert result.as_dict()["texts"]["relstring"] == {"0": "03-.>11111"}


def test_ids_of_tied_documents_are_compared_as_bytes(rng):
    documents = ["a", "ab", "abc", "é", "z", "", "zz", "Z", "10", "9"] + [f"doc{k:03d}" for k in range(60)]
    documents = [name for name in documents if name]
    rng.shuffle(documents)
    run = Run.from_dict({"q": dict.fromkeys(documents, 1.0)})
    for best in (3, 17, 40):
        order = sorted(documents, key=lambda name: name.encode(), reverse=True)
        qrels = Qrels.from_dict({"q": {order[best]: 1}})
        assert evaluate_run(qrels, run, metrics=["recip_rank"])["recip_rank"] == 1 / (best + 1)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut.10", "ndcg@10"),
        ("map_cut_100", "map@100"),
        ("recip_rank", "rr"),
        ("P_5", "p@5"),
        ("recall_1000", "recall@1000"),
        ("iprec_at_recall_0.10", "iprec(0.1)"),
        ("Rprec_mult_0.20", "rprec_mult(0.2)"),
        ("set_F", "set_f(1)"),
        ("set_F.2.0", "set_f(2)"),
        ("utility.2,-1,0.5,0", "utility(a=2, c=0.5)"),
        ("11pt_avg", "11pt_avg"),
        ("infAP", "infap"),
        ("nDCG@10", "ndcg@10"),
        ("nDCG(dcg='exp-log2')@10", "ndcg@10(gain=exponential)"),
        ("AP", "map"),
        ("AP(rel=2)@100", "map@100(relevant=2)"),
        ("P(rel=2)@5", "p@5(relevant=2)"),
        ("R@10", "recall@10"),
        ("RR(rel=2)", "rr(relevant=2)"),
        ("IPrec@0.5", "iprec(0.5)"),
        ("IPrec(rel=2)@0.5", "iprec(0.5, relevant=2)"),
        ("Bpref(rel=2)", "bpref(relevant=2)"),
        ("Rprec", "rprec"),
        ("Judged@10", "judged@10"),
        ("NumRet", "num_ret"),
        ("NumRet(rel=2)", "num_rel_ret(relevant=2)"),
        ("NumRelRet", "num_rel_ret"),
        ("SetP(relative=True)", "set_relative_p"),
        ("SetF(beta=2)", "set_f(2)"),
        ("SetR(rel=2)", "set_recall(relevant=2)"),
        ("Success@5", "success@5"),
        ("ERR@20", "err@20"),
        ("RBP(p=0.5)", "rbp(0.5)"),
        ("RBP(p=0.5, rel=2)@10", "rbp@10(relevant=2, 0.5)"),
        ("Compat(p=0.8)", "compat(0.8)"),
    ],
)
def test_names_of_other_tools_are_ours(name, own):
    metric = parse_metric(name, runs=True)
    assert metric == parse_metric(own, runs=True)
    assert metric.own_name == parse_metric(own, runs=True).own_name
    assert parse_metric(metric.own_name, runs=True) == parse_metric(metric.name, runs=True) == metric


@pytest.mark.parametrize("name", ["ndcg_cut_10", "recip_rank", "nDCG@10", "AP(rel=2)", "P(rel=2)@5", "Rprec"])
def test_a_name_prints_back_as_it_was_given_everywhere(name, rng):
    metric = parse_metric(name)
    assert str(metric) == metric.name == metric.under(POLICIES["trec"]).name == pickle.loads(pickle.dumps(metric)).name
    X, y, qid = rng.random((60, 2)), rng.integers(0, 3, 60), np.repeat(np.arange(6), 10)
    model = podium.Linear(max_iter=2, eval_metric=[name]).fit(X, y, qid=qid, eval_set=[(X, y, qid)])
    assert list(model.evals_["eval_0"]) == [name]
    data = podium.RankingData.from_arrays(X, y, qid=qid, docids=[f"d{row}" for row in range(60)])
    runs = {"a": Run.from_scores(data, X[:, 0]), "b": Run.from_scores(data, X[:, 1])}
    assert podium.runs.tune_fusion(runs, Qrels.from_data(data), metric=name).metric == name
    assert podium.metrics.line_search(X[:, 0], X[:, 1], y, qid=qid, metric=name).metric == name
    assert list(podium.cross_validate(model, data, metrics=[name], folds=2).evaluation) == [name]


@pytest.mark.parametrize("group", ["official", "all_trec", "set"])
def test_groups_are_for_runs_only(group):
    with pytest.raises(
        ValueError, match=f"got '{group}'. That is a group of trec_eval's measures, which evaluate runs"
    ):
        evaluate([1.0, 2.0], [0, 1], qid=[1, 1], metrics=group)


def test_values_carry_the_names_that_were_given():
    result = evaluate([3, 2, 1], [0, 1, 2], qid=[1, 1, 1], metrics=["nDCG@2", "recip_rank", "P_2", "Bpref"])
    assert list(result) == ["nDCG@2", "recip_rank", "P_2", "Bpref"]
    assert result["P_2"] == 1 / 2


def test_groups_and_families_are_the_names_of_trec_eval():
    assert expand_names(["official"])[:10] == [
        "runid",
        "num_q",
        "num_ret",
        "num_rel",
        "num_rel_ret",
        "map",
        "gm_map",
        "Rprec",
        "bpref",
        "recip_rank",
    ]
    assert len(expand_names(["all_trec"])) == len(set(expand_names(["all_trec"])))
    assert expand_names(["ndcg_cut.5,10", "map"]) == ["ndcg_cut_5", "ndcg_cut_10", "map"]
    assert expand_names(["P", "recall"]) == ["P", "recall"]  # ours, of the whole list
    assert expand_names(["P.7,30"], families=True) == ["P_7", "P_30"]
    assert expand_names(["Rprec_mult.5.0,0.2"]) == ["Rprec_mult_0.20", "Rprec_mult_5.00"]
    assert set(TREC_ORDER) >= {"runid", "num_nonrel_judged_ret"}


RUNS_ONLY = [name for name in MEASURE_ORACLES if parse_metric(name, runs=True).runs_only] + sorted(TEXTS)


@pytest.mark.parametrize("name", RUNS_ONLY)
def test_what_is_defined_for_runs_only_is_refused_elsewhere(name):
    for metric in (name, parse_metric(name, runs=True)):
        with pytest.raises(ValueError, match=r"measures a run against its qrels, .* Use podium eval QRELS RUN"):
            evaluate([1, 2], [0, 1], qid=[1, 1], metrics=[metric])
    with pytest.raises(ValueError, match="measures a run"):
        podium.MART(eval_metric=name).fit(
            np.ones((2, 1)), [0, 1], qid=[1, 1], eval_set=[(np.ones((2, 1)), [0, 1], [1, 1])]
        )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bpreff", "Did you mean 'bpref'"),
        ("rprce", "Did you mean 'rprec'"),
        ("ndgc@10", "Did you mean 'ndcg@10'"),
        ("ndcg_ctu_10", "Known: ndcg"),
        ("q", "Known: ndcg, .*; rprec, "),
        ("success@x", "Expected name@cutoff"),
        ("nDCG(judged_only=True)@10", "'judged_only' is not supported"),
        ("utility.1,1,1,1", "the fourth coefficient needs the size of the collection"),
        ("iprec(2)", "recall must be between 0 and 1"),
        ("rprec_mult(0)", "multiple must be a number above 0"),
        ("compat(1)", "persistence must be between 0 and 1"),
    ],
)
def test_hints_are_sensible(name, message):
    with pytest.raises(ValueError, match=message):
        parse_metric(name, runs=True)


def test_measures_refuse_averaged_ties_and_weights():
    lists = RankedLists(np.ones(2), np.array([0, 2]), average_ties=True)
    with pytest.raises(ValueError, match="no value averaged over ties"):
        parse_metric("bpref").values(lists)
    with pytest.raises(ValueError, match="does not support sample_weight"):
        evaluate([1, 2], [0, 1], qid=[1, 1], metrics=["bpref"], sample_weight=[1.0, 2.0])
