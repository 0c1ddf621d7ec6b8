"""The surface: public names, who may import what, and a start that costs little."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import podium

PACKAGE = Path(podium.__file__).parent

# A module may import from its own layer and from those behind it.
LAYERS = [
    {"cli", "server", "demo", "doctor", "__main__"},
    {"workflows", "lab"},
    {"explain", "pipelines", "runs"},
    {"models", "persistence", "exchange", "distributed"},
    {"objectives", "learners", "search"},
    {"evaluation", "lint"},
    {"metrics"},
    {"formats", "data"},
    {"_runtime"},
    {""},  # podium/__init__.py: the version
]
PUBLIC = [
    "AdaRank",
    "ApproxNDCG",
    "AutoRanker",
    "Bagged",
    "BayesRank",
    "Blend",
    "Boosted",
    "Cascade",
    "Client",
    "CoordinateAscent",
    "KernelRankSVM",
    "LambdaMART",
    "LambdaRank",
    "LambdaSMART",
    "Linear",
    "ListMLE",
    "ListNet",
    "MART",
    "MatrixNet",
    "Metric",
    "Net",
    "Pairwise",
    "Pointwise",
    "Policy",
    "Qrels",
    "RandomForest",
    "RankBoost",
    "RankNet",
    "RankSVM",
    "RankingData",
    "RegressionTree",
    "Run",
    "SelfAttentionRanker",
    "Stack",
    "Stage",
    "SubtopicQrels",
    "XENDCG",
    "__version__",
    "check",
    "compare",
    "cross_validate",
    "distributed",
    "evaluate",
    "evaluate_run",
    "exchange",
    "explain",
    "formats",
    "fuse",
    "import_model",
    "lab",
    "load",
    "metrics",
    "models",
    "objectives",
    "parse_metric",
    "parse_objective",
    "read_data",
    "read_letor",
    "read_pairs",
    "read_qrels",
    "read_run",
    "runs",
    "search",
    "write_data",
    "write_letor",
    "write_qrels",
    "write_run",
    "yahoo_blend",
]


def test_public_names_are_these_and_no_others():
    assert sorted(podium.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_had_and_is_documented(name):
    value = getattr(podium, name)
    assert name == "__version__" or value.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lambdamart'"):
        _ = podium.lambdamart


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imported_names(path):
    """Every podium name that this file imports, with its module, also inside functions, not for types only."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "podium":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("podium."))
        elif isinstance(node, ast.Constant) and re.fullmatch(r"podium(\.\w+)+\.?", str(node.value)):
            yield node.value.rstrip(".")  # what import_module is called with


def imported_modules(path):
    """First part of every podium module that this file imports."""
    firsts = (name.split(".")[1] for name in imported_names(path))
    return [first if is_module(first) else "" for first in firsts]


def is_module(name):
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()


def layer_of(name):
    return next(number for number, layer in enumerate(LAYERS) if name in layer)


# Tables that name modules of a layer above, which are imported when one is asked for.
TABLES = {"models/registry.py": {"pipelines"}, "persistence/saving.py": {"pipelines"}}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_import_only_from_their_own_layer_or_below(path):
    if path == PACKAGE / "__init__.py":
        return  # names are imported on first use
    own = layer_of(module_name(path))
    for other in set(imported_modules(path)) - TABLES.get(str(path.relative_to(PACKAGE)), set()):
        assert layer_of(other) >= own, f"{path} imports podium.{other}"
        # Only the models bring a learner and an objective together.
        assert {module_name(path), other} != {"objectives", "learners"}
        # Search stands beside them.
        assert "search" not in {module_name(path), other} or {module_name(path), other}.isdisjoint(
            {"objectives", "learners"}
        )


def test_importing_podium_and_asking_for_help_load_nothing_heavy():
    code = (
        "import sys, podium, podium.cli; "
        "print([name for name in ('numpy', 'numba', 'scipy', 'sklearn', 'rich', 'narwhals', 'matplotlib') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_searching_an_index_loads_no_models_and_nothing_heavy(tmp_path):
    from podium.search import build_index

    build_index([{"id": "a", "body": "red fox"}], tmp_path / "index")
    code = (
        "import sys; sys.argv[1:] = ['search', 'index', 'fox']; from podium.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ('sklearn', 'pandas', 'matplotlib', 'jax', 'rich', 'narwhals', 'podium.models', 'podium.lab')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    first, *_, last = done.stdout.splitlines()
    assert first.split()[-1] == "a"
    assert last == "[]"


def test_scoring_imports_no_training_code():
    for path in (PACKAGE / "learners" / "trees" / "scoring").glob("*.py"):
        assert "trees.training" not in path.read_text(), path


# A folder of these imports from itself and those before it; the modules beside them put all of them together.
FOLDERS = {
    "search": ["documents", "analysis", "index", "retrieval", "features"],
    "lab": ["tuning", "experiments", "report", "worked"],
}


@pytest.mark.parametrize(("part", "folder"), [(part, folder) for part in FOLDERS for folder in FOLDERS[part]])
def test_folders_of_search_and_lab_import_only_earlier_ones(part, folder):
    earlier = FOLDERS[part][: FOLDERS[part].index(folder) + 1]
    paths = sorted((PACKAGE / part / folder).glob("*.py"))
    assert paths
    for path in paths:
        imported = {name.split(".")[2] for name in imported_names(path) if name.startswith(f"podium.{part}.")}
        assert imported <= set(earlier), f"{path} imports from {imported - set(earlier)}"


def test_importing_auto_ranker_loads_no_lab():
    code = "import sys, podium; podium.AutoRanker; print([name for name in sys.modules if 'podium.lab' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_can_be_run():
    done = subprocess.run([sys.executable, "-m", "podium", "--help"], capture_output=True, text=True, check=True)
    assert "podium" in done.stdout


UNITS = "row|query|tree|document|feature|leaf|pair|list|thread|line|node|metric|policy|parameter|format|column|point"
A_FOR_PER = re.compile(rf"\b(one( [a-z]+)?|ns|us|ms|[a-z]+ numbers?|O\([^)]*\)) an? ({UNITS})\b", re.IGNORECASE)


def test_rates_and_counts_are_written_with_per():
    root = PACKAGE.parent
    pages = [*PACKAGE.rglob("*.py"), *(root / "docs").glob("*.md"), root / "README.md", root / "ARCHITECTURE.md"]
    found = [(page.name, match.group()) for page in pages for match in A_FOR_PER.finditer(page.read_text("utf-8"))]
    assert found == []
    assert A_FOR_PER.search("one score a row")
    assert A_FOR_PER.search("1.5 ns a pair")
