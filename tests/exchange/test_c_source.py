"""C99: the bits of the model, whatever gcc optimizes, and names that cannot leave their strings."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from exchange.forests import hostile_rows, plain_scores, random_form, random_model

import podium
from podium.exchange import verify
from podium.exchange.engines import c_source as engine
from podium.exchange.forms import LinearSum, NetForm, Trees
from podium.models.frame.inspection import NumberedNames
from podium.models.imported import AS_IS, ZERO_MISSING, ImportedForest, ImportedLinear

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
CPU = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
FLAGS = {"O0": ["-O0"], "O2": ["-O2"], "O3": ["-O3", "-march=native"], "gnu": ["-O3", "-march=native", "-std=gnu11"]}
if " fma " in CPU:  # gcc fuses products and sums with these flags, where it can
    FLAGS["fused"] = ["-O3", "-mfma", "-std=gnu11"]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-overlength-strings"]


def compiled(written, X, tmp_path, flags=("-O2",)):
    (tmp_path / "m.c").write_bytes(written.content)
    return engine.run(tmp_path / "m.c", X, [*STRICT, *flags])[0]


@needs_gcc
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("single", [False, True], ids=["double", "float"])
def test_forests_have_the_bits_that_are_expected(flags, seed, single, tmp_path):
    categorical = (1, 4) if seed % 2 else ()
    form = random_form(seed, categorical=categorical, single=single, n_trees=20, start=0.1)
    X = hostile_rows(form.forest, 1000, seed, categorical=categorical)
    written = engine.write(form)
    np.testing.assert_array_equal(compiled(written, X, tmp_path, flags), written.expected(X))
    np.testing.assert_array_equal(written.expected(X), plain_scores(form.forest, X, [np.float64, np.float32][single]))
    assert written.claim.kind == "bits"


@needs_gcc
@pytest.mark.parametrize("categorical", [(), (2,)], ids=["numbers", "categories"])
def test_zeros_that_are_missing_factors_and_divisors_are_in_the_code(categorical, tmp_path):
    form = random_form(7, categorical=categorical)
    prepared = np.array([ZERO_MISSING, AS_IS, AS_IS, ZERO_MISSING, AS_IS, ZERO_MISSING], np.uint8)
    form = replace(form, prepared=prepared, factor=0.3, divisor=7.0)
    X = hostile_rows(form.forest, 1000, categorical=categorical)
    written = engine.write(form)
    assert written.claim.kind == "bits"
    np.testing.assert_array_equal(compiled(written, X, tmp_path), form.scores(X))


@needs_gcc
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("missing_is_zero", [False, True])
def test_linear_models_add_products_that_are_rounded(flags, missing_is_zero, rng, tmp_path):
    X = rng.standard_normal((500, 40)).astype(np.float32)
    if missing_is_zero:
        X[rng.random(X.shape) < 0.1] = np.nan
    form = LinearSum(rng.standard_normal(40), 0.1, NumberedNames(40), missing_is_zero)
    written = engine.write(form)
    np.testing.assert_array_equal(compiled(written, X, tmp_path, flags), written.expected(X))
    assert "from left to right" in written.claim.sentence()


@needs_gcc
def test_exported_models_are_verified_by_the_compiler(tmp_path):
    for model in (random_model(3, categorical=(0,)), ImportedLinear.of(np.array([0.1, -2.0, 1 / 3]), 0.5, "test")):
        report = model.export(tmp_path / "m.c", "c")
        verification = verify(model, tmp_path / "m.c")
        assert verification.holds
        assert "-O2" in verification.program
        X = np.ones((1, model.n_features_in_), np.float32)
        np.testing.assert_allclose(model.predict(X), report.expected(X))


@needs_gcc
def test_models_of_podium_are_exported_with_their_bits(splits, tmp_path):
    model = podium.LambdaMART(n_estimators=8, max_leaf_nodes=8).fit(splits.train)
    model.export(tmp_path / "m.c", "c")
    assert verify(model, tmp_path / "m.c").holds


NAMES = ['quote " and \\', "*/ int x; /*", "??/", "new\nline", "\\", "\x00\x1b[0m", "größe \u202e", "// -> %s ${x}", ""]


@needs_gcc
def test_names_cannot_leave_their_strings(tmp_path):
    forest = random_model(1, n_features=len(NAMES), categorical=(0,)).forest_
    model = ImportedForest.of(forest, "test", names=NAMES, categories={NAMES[0]: [*NAMES, 7]})
    model.export(tmp_path / "m.c", "c")
    assert verify(model, tmp_path / "m.c").holds
    main = '#include <stdio.h>\n#include "m.c"\nint main(void) { for (size_t i = 0; i < 9; i++) '
    main += "{ puts(podium_feature_names[i]); puts(podium_categories_0[i]); } return 0; }"
    (tmp_path / "main.c").write_text(main)
    subprocess.run(["gcc", "-o", tmp_path / "names", tmp_path / "main.c"], check=True)
    printed = subprocess.run([tmp_path / "names"], capture_output=True, check=True).stdout
    expected = "".join(f"{name}\n{name}\n" for name in (one.partition("\x00")[0] for one in NAMES))
    assert printed == expected.encode()


@needs_gcc
@pytest.mark.parametrize(("n_trees", "n_features"), [(0, 3), (1, 3), (0, 0)])
def test_models_without_splits_trees_or_features_compile(n_trees, n_features, tmp_path):
    whole = random_form(0, n_trees=2, depth=0, n_features=3).forest
    forest = replace(whole.first(n_trees), n_features=n_features)
    written = engine.write(Trees.of(forest, NumberedNames(n_features)))
    (tmp_path / "m.c").write_bytes(written.content)
    X = np.zeros((3, n_features), np.float32)
    np.testing.assert_array_equal(engine.run(tmp_path / "m.c", X)[0], np.full(3, 0.25 + forest.value.sum()))


@needs_gcc
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-ffinite-math-only"])
def test_flags_that_break_missing_values_are_refused_by_the_file(flag, tmp_path):
    (tmp_path / "m.c").write_bytes(engine.write(random_form(1)).content)
    with pytest.raises(ValueError, match=r"ended with status 1.*compile this file without -ffast-math"):
        engine.run(tmp_path / "m.c", np.zeros((1, 6), np.float32), [flag])


@pytest.mark.parametrize("line", ['#include "/etc/passwd"', "int x = 1;", "*/", '"a" "b",', "static float f(void) {"])
def test_code_that_no_export_has_is_not_compiled(line, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    text = engine.write(random_form(1)).content.decode()
    (tmp_path / "m.c").write_text(text + line + "\n")
    with pytest.raises(ValueError, match="is none that an export has"):
        engine.run(tmp_path / "m.c", np.zeros((1, 6), np.float32))


def test_without_a_compiler_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"no C compiler is installed.*golden rows"):
        engine.run(tmp_path / "m.c", np.zeros((1, 6), np.float32))


def test_nets_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"C source holds trees and linear models; this model is one of nets.*onnx"):
        engine.write(NetForm(None, NumberedNames(3)))


def test_numbers_are_exact():
    numbers = [0.1, -1e-45, 3.4e38, 5e-324, -0.0, 0.0, 1.0, 2.0**-149, 1e300]
    for number in numbers:
        text = engine._text(number)
        value = 0.0 if text == "0" else float.fromhex(text)
        assert value == number
        assert np.signbit(value) == np.signbit(number)
    assert engine._text(-np.inf) == "-INFINITY"
