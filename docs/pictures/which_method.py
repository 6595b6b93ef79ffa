"""Draws which-method.svg: from what is known about the values to the call."""

from pathlib import Path

WIDTH, HEIGHT = 640, 460
QUESTIONS = [
    ("Bounds for each column?", "es.Box(lower, upper)", "noise fitted to each column"),
    ("Means and stds, approximately?", "es.Normal(center, std)", "noise fitted to the stds"),
    ("A length that no row exceeds?", "es.Ball(radius)", "isotropic noise: embeddings, ..."),
    ("A size that no value exceeds?", "es.Unknown(magnitude)", "bounds are estimated privately"),
    ("How far apart typical rows are?", "es.friendly_mean(data, radius)", "the mean of the core points"),
]


def box(x: float, y: float, width: float, fill: str, *lines: str) -> str:
    height = 52
    first = y + height / 2 - 9 * (len(lines) - 1) + 5
    weights = ["600", "400"]
    texts = "".join(
        f'<text x="{x + width / 2}" y="{first + 19 * i}" text-anchor="middle" font-weight="{weights[i]}">{line}</text>'
        for i, line in enumerate(lines)
    )
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="#37474f"/>\n{texts}\n'


def arrow(x1: float, y1: float, x2: float, y2: float, word: str) -> str:
    side = (x1 + 8, (y1 + y2) / 2 + 5) if x1 == x2 else ((x1 + x2) / 2 - 12, y1 - 7)
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#37474f" marker-end="url(#tip)"/>\n'
        f'<text x="{side[0]}" y="{side[1]}" font-size="13">{word}</text>\n'
    )


def picture() -> str:
    title = "What do you know about one row, without the data?"
    parts = [f'<text x="15" y="30" font-weight="600" font-size="18">{title}</text>\n']
    for i, (question, call, note) in enumerate(QUESTIONS):
        y = 50 + 84 * i
        parts.append(box(15, y, 260, "#eceff1", question))
        parts.append(arrow(275, y + 26, 335, y + 26, "yes"))
        parts.append(box(340, y, 285, "#ffffff", call, note))
        if i + 1 < len(QUESTIONS):
            parts.append(arrow(145, y + 52, 145, y + 80, "no"))
    tip = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#37474f"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="14" fill="#102027">\n'
        "<title>Which kind of bounds, from what is known</title>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{tip}\n{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    (Path(__file__).parent / "which-method.svg").write_text(picture())
