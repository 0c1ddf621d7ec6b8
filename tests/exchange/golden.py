"""What another machine does with golden rows: it adds the score that its program gives to each; and data."""

import json

import numpy as np


def add_scores(path, score, wrong=None):
    """score: rows -> scores; wrong: the number of a row whose score is made a little larger."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    rows = np.array([[np.nan if x is None else x for x in line["row"]] for line in lines], np.float32)
    for number, (line, one) in enumerate(zip(lines, score(rows))):
        line["score"] = float(one) if number != wrong else float(np.nextafter(np.float32(one), np.float32(np.inf)))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return rows


def letor_like(missing):
    """Features that are not negative, as LETOR's; a fifth of the values are what stands for missing ones."""
    random = np.random.default_rng(5)
    X = np.abs(random.standard_normal((200, 5))).astype(np.float32)
    X[random.random(X.shape) < 0.2] = missing
    return X, random.integers(0, 4, 200), np.arange(200) // 10
