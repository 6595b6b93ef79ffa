"""Whether a picture can be read: its texts lie within it, and no two touch."""

import numpy as np

from ellipsum.display.plots import drawing


def boxes(picture):
    """Every text of a figure with its box, in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    with drawing.styled():
        canvas = FigureCanvasAgg(picture)
        canvas.draw()
        texts = [text for text in picture.findobj(Text) if text.get_visible() and text.get_text().strip()]
        return [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]


def check_legible(picture):
    found = boxes(picture)
    width, height = picture.get_size_inches() * picture.dpi
    for text, box in found:
        assert box.x0 >= -0.5, text
        assert box.y0 >= -0.5, text
        assert box.x1 <= width + 0.5, text
        assert box.y1 <= height + 0.5, text
    ends = np.array([[box.x0, box.y0, box.x1, box.y1] for _, box in found])
    for i in range(len(ends)):
        beside = ends[i + 1 :]
        across = np.minimum(ends[i, 2], beside[:, 2]) - np.maximum(ends[i, 0], beside[:, 0])
        up = np.minimum(ends[i, 3], beside[:, 3]) - np.maximum(ends[i, 1], beside[:, 1])
        for j in np.flatnonzero((across > 0.5) & (up > 0.5)):
            raise AssertionError(f"{found[i][0]!r} touches {found[i + 1 + j][0]!r}")
    return found
