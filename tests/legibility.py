"""Whether the texts of a picture can be read: none is cut off by the edge, and none lies on another."""

from contextlib import contextmanager

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

_SLACK = 1.5  # pixels by which boxes may touch


@contextmanager
def _recorded():
    """The texts that are drawn: an axis also has labels of ticks that are not."""
    drawn, draw = [], Text.draw

    def record(self, renderer):
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        return draw(self, renderer)

    Text.draw = record
    try:
        yield drawn
    finally:
        Text.draw = draw


def problems(figure, scale=1.0):
    """What cannot be read in a figure at this share of its width, as sentences."""
    width, height = figure.get_size_inches()
    figure.set_size_inches(width * scale, height)
    canvas = FigureCanvasAgg(figure)
    with _recorded() as texts:
        canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    edge = figure.bbox
    found = [
        f"{text!r} is cut off"
        for text, box in boxes
        if box.x0 < edge.x0 - _SLACK
        or box.y0 < edge.y0 - _SLACK
        or box.x1 > edge.x1 + _SLACK
        or box.y1 > edge.y1 + _SLACK
    ]
    for number, (text, box) in enumerate(boxes):
        for other, another in boxes[number + 1 :]:
            across = min(box.x1, another.x1) - max(box.x0, another.x0)
            up = min(box.y1, another.y1) - max(box.y0, another.y0)
            if across > _SLACK and up > _SLACK:
                found.append(f"{text!r} lies on {other!r}")
    figure.set_size_inches(width, height)
    return found
