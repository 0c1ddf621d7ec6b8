"""Documentation that cannot rot: the blocks of README.md and docs/ are run."""

import re
import sys
from pathlib import Path

import pytest

from podium.cli import commands as cli
from podium.metrics import METRICS, POLICIES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    from podium.demo.show import take_tour

    folder = tmp_path_factory.mktemp("docs")
    take_tour(folder / "demo")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_they_say(page, demo_folder, monkeypatch, capsys):
    monkeypatch.chdir(demo_folder)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        promised = re.findall(r"^(?:.*\S  )?# -> (.*)$", block, re.MULTILINE)
        assert printed == promised, block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page, demo_folder, monkeypatch, capsys):
    """A console block holds `$ podium ...` and the whole output of the command."""
    monkeypatch.chdir(demo_folder)
    for block in blocks(page, "console"):
        for command, shown in re.findall(r"^\$ podium (.*)\n((?:(?!\$ ).*\n?)*)", block, re.MULTILINE):
            monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
            with pytest.raises(SystemExit):
                cli.main()
            lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
            assert_alike("\n".join(lines).strip(), shown.strip(), trained="podium train" in block or command == "demo")


def assert_alike(printed, shown, trained):
    """Word for word; but what was trained may differ a little, as another processor adds up in another order."""
    if not trained or printed == shown:
        assert printed == shown
        return
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    for own, expected in zip(NUMBER.findall(printed), NUMBER.findall(shown)):
        assert float(own.replace(",", "")) == pytest.approx(float(expected.replace(",", "")), rel=0.3, abs=0.05)


def test_the_pages_name_every_command_metric_and_policy():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = [command.name for command in cli.app.registered_commands]
    for name in [*(f"podium {command}" for command in commands), *(f"`{name}" for name in [*METRICS, *POLICIES])]:
        assert name in text, name


def test_no_page_links_to_a_file_that_is_not_there():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
