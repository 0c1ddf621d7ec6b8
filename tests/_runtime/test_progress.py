"""Progress bars: in notebooks one that is redrawn in place and gone at the end; elsewhere none without a terminal."""

from podium._runtime import progress
from podium._runtime.progress import NotebookBar, notebook_progress


class Cell:
    """The outputs of a cell, as IPython's `display` makes and updates them."""

    def __init__(self):
        self.outputs = []

    def display(self, content, raw, display_id):
        assert raw
        assert display_id
        self.outputs.append(content["text/html"])
        return self

    def update(self, content, raw):
        self.outputs[-1] = content["text/html"]


def test_a_notebook_shows_one_bar_with_the_time_left_and_none_at_the_end(monkeypatch):
    monkeypatch.setattr(progress, "_REDRAW", 0)
    cell = Cell()
    bar = NotebookBar("training <b>", cell.display)
    bar(1, 4, "best 0.5")
    assert "training &lt;b&gt; 25%, 0 s left best 0.5" in cell.outputs[0]
    assert '<progress max="4" value="1">' in cell.outputs[0]
    bar(4, 4)
    assert "100%" in cell.outputs[0]
    bar.end()
    assert cell.outputs == [""]


def test_what_ends_at_once_shows_nothing():
    cell = Cell()
    bar = NotebookBar("training", cell.display)
    bar(1, 2)
    bar(2, 2)
    bar.end()
    assert cell.outputs == []


def test_outside_of_a_notebook_functions_show_nothing(capsys):
    with notebook_progress("training") as report:
        report(1, 2)
    assert capsys.readouterr() == ("", "")
