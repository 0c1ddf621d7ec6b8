"""SelfAttentionRanker has everything from the frame, and asks for query ids where it needs them."""

import io

import numpy as np
import pytest

import podium


@pytest.fixture(scope="module")
def model(splits):
    made = podium.SelfAttentionRanker(max_epochs=12, learning_rate=5e-3, embedding_size=16)
    return made.fit(splits.train, eval_set=splits.valid, early_stopping_rounds=10)


def saved(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def test_it_learns_to_rank_and_comes_back_from_its_file(model, splits):
    test = splits.test
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg@10"])["ndcg@10"]
    assert model.score(test) > constant + 0.1
    assert model.score(splits.valid) == max(model.evals_["eval_0"]["ndcg@10"])
    loaded = podium.load(io.BytesIO(saved(model)))
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert saved(loaded) == saved(model)
    assert "layers 26 - 16 - 16 - 1" in str(model.inspect())


def test_rows_of_a_query_may_lie_anywhere(model, splits, rng):
    test = splits.test
    order = rng.permutation(test.n_rows)
    mixed = podium.RankingData.from_arrays(
        test.X[order], test.y[order], np.asarray(test.qid)[order], feature_names=test.feature_names
    )
    np.testing.assert_allclose(model.predict(mixed), model.predict(test)[order], rtol=1e-4, atol=1e-5)
    assert model.score(mixed) == pytest.approx(model.score(test), abs=1e-3)


def test_query_ids_are_asked_for_and_one_query_is_one_list(splits):
    train, test = splits.train, splits.test
    made = podium.SelfAttentionRanker(max_epochs=2, embedding_size=8).fit(train.X, train.y, train.qid)
    with pytest.raises(ValueError, match=r"predict needs qid, one query id per row, because it scores each"):
        made.predict(test.X)
    by_id = made.predict(test.X, test.qid)
    np.testing.assert_array_equal(by_id, made.predict(podium.RankingData.from_arrays(test.X, test.y, test.qid)))
    first = np.asarray(test.qid) == test.qid[0]
    np.testing.assert_allclose(made.scorer()(test.X[first]), by_id[first], rtol=1e-4, atol=1e-5)
    assert made.rank(test.X[first], test.qid[first]).tolist() == np.argsort(-by_id[first], kind="stable").tolist()
    ranked = made.rank(test.X, test.qid)
    assert sorted(ranked.tolist()) == list(range(test.n_rows))
    assert made.score(test.X, test.y, test.qid) == pytest.approx(
        podium.evaluate(by_id, test.y, qid=test.qid, metrics=["ndcg@10"])["ndcg@10"]
    )
    with pytest.raises(ValueError, match="multiple of n_heads; got embedding_size=8 and n_heads=3"):
        podium.SelfAttentionRanker(embedding_size=8, n_heads=3).fit(train)


def test_a_killed_training_ends_in_the_same_bytes(splits, tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 4:
            raise Killed

    def make():
        return podium.SelfAttentionRanker(max_epochs=6, embedding_size=8, dropout=0.2)

    options = {"eval_set": splits.valid, "early_stopping_rounds": 5}
    whole = saved(make().fit(splits.train, **options))
    kept = {"checkpoint": tmp_path / "run.check", "every": 2}
    with pytest.raises(Killed):
        make().fit(splits.train, **options, **kept, callbacks=[kill])
    assert saved(make().fit(splits.train, **options, **kept)) == whole


def test_it_adds_to_the_scores_of_a_base_model(splits):
    base = podium.LambdaMART(n_estimators=5).fit(splits.train)
    made = podium.SelfAttentionRanker(max_epochs=2, embedding_size=8, init=base).fit(
        splits.train, eval_set=splits.valid
    )
    test = splits.test
    own = made.net_.scores(test.X[test.rows], test.offsets)
    np.testing.assert_allclose(made.predict(test)[test.rows], own + base.predict(test)[test.rows], rtol=1e-9)
