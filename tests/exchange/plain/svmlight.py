"""SVMlight's text, read line by line."""

import math
import struct

SLACK = 1e-6  # of the largest sum that can come up on the way


def scores(content, X):
    text = content.decode("utf-8-sig", "replace").split("\n")
    values = [line.partition("#")[0] for line in text]
    kernel, degree, gamma, scale, constant = (float(value) for value in values[1:6])
    threshold = float(values[10])
    vectors = [vector for vector in map(parse, values[11:]) if vector]
    assert len(vectors) == int(float(values[9])) - 1
    results = []
    for row in X.tolist():
        terms = [factor * value(int(kernel), a, row, (degree, gamma, scale, constant)) for factor, a in vectors]
        sizes = [abs(factor) * largest(int(kernel), a, row, (degree, scale, constant)) for factor, a in vectors]
        results.append([math.fsum([*terms, -threshold]), SLACK * math.fsum([*sizes, abs(threshold)])])
    return results


def parse(line):
    words = line.split()
    pairs = [word.split(":") for word in words[1:]]
    return (float(words[0]), {int(feature): float(value) for feature, value in pairs}) if words else None


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def value(kernel, a, row, parameters):
    degree, gamma, scale, constant = parameters
    if kernel == 0:
        return math.fsum(weight * row[feature - 1] for feature, weight in a.items())
    a = {feature: single(weight) for feature, weight in a.items()}
    product = math.fsum(weight * row[feature - 1] for feature, weight in a.items())
    if kernel == 1:
        return (scale * product + constant) ** degree
    if kernel == 3:
        return math.tanh(scale * product + constant)
    distance = math.fsum((x - a.get(feature, 0.0)) ** 2 for feature, x in enumerate(row, start=1))
    return math.exp(-gamma * distance)


def largest(kernel, a, row, parameters):
    """No term, and no sum on the way to it, is larger."""
    degree, scale, constant = parameters
    product = math.fsum(abs(weight * row[feature - 1]) for feature, weight in a.items())
    if kernel == 0:
        return product
    inner = abs(scale) * product + abs(constant)
    return 1 + inner**degree * max(degree, 1) if kernel == 1 else 1 + inner
