"""The densities of a published mean for two neighboring data sets: python docs/pictures/two_densities.py"""

import math
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 260, 30, 44
MU = 0.25  # mu-Gaussian differential privacy: how many standard deviations the two means lie apart
COLORS = ("#1f6feb", "#d9480f")


def density(x: float) -> float:
    return math.exp(-x * x / 2)


def curve(shift: float) -> str:
    """The path of a bell curve around `shift`, in standard deviations."""
    points = []
    for step in range(161):
        x = -4 + step / 20
        across = LEFT + (WIDTH - 2 * LEFT) * (x + 4) / 8
        points.append(f"{across:.1f} {HEIGHT - BOTTOM - 180 * density(x - shift):.1f}")
    return "M" + "L".join(points)


def picture() -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="14" fill="#102027">\n'
        "<title>Densities of a published mean for two neighboring data sets</title>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n'
    ]
    for shift, color in zip((0.0, MU), COLORS, strict=True):
        parts.append(
            f'<path d="{curve(shift)}" fill="{color}" fill-opacity="0.12" stroke="{color}" stroke-width="2"/>\n'
        )
    baseline = HEIGHT - BOTTOM
    parts.append(f'<path d="M{LEFT} {baseline}H{WIDTH - LEFT}" stroke="#37474f"/>\n')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 16}" text-anchor="middle">published mean</text>\n')
    for line, (color, text) in enumerate(zip(COLORS, ("data set 1", "data set 2: one row differs"), strict=True)):
        y = 30 + 22 * line
        parts.append(f'<rect x="40" y="{y - 11}" width="14" height="14" fill="{color}"/>')
        parts.append(f'<text x="62" y="{y}">{text}</text>\n')
    return "".join(parts) + "</svg>\n"


if __name__ == "__main__":
    (Path(__file__).parent / "two-densities.svg").write_text(picture())
