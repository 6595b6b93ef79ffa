"""Draws the diagrams of boxes and arrows: python docs/pictures/diagrams.py writes every .svg that is named below."""

from pathlib import Path

FOLDER = Path(__file__).parent
LINE_HEIGHT, PADDING, GAP = 19, 14, 52
BOLD = ' font-weight="600"'
DARK, FILL, WHITE = "#37474f", "#eceff1", "#ffffff"

# Each diagram is a title and columns of boxes; each box is its lines of text. Arrows lead from every box of a column to
# every box of the next.
DIAGRAMS = {
    "one-line": (
        "From rows to a release",
        [
            [["rows", "from any source"]],
            [["bounded rows", "clamped or clipped"]],
            [["integers", "on a fine grid"]],
            [["exact sum", "one total"]],
            [["noisy sum", "noise added once"]],
            [["release", "estimates, intervals"]],
        ],
    ),
    "people": (
        "Several rows per person",
        [
            [["ann: 3 visits"], ["bob: 1 visit"], ["cyd: 2 visits"]],
            [["mean of ann's rows"], ["bob's row"], ["mean of cyd's rows"]],
            [["sum of vectors", "one per person"]],
            [["noise for one person", "then the release"]],
        ],
    ),
    "sources": (
        "Every source gives the same release",
        [
            [["array, data frame"], ["CSV, Parquet, Feather"], ["SQL query"], ["Spark"]],
            [["exact integer sums"]],
            [["noise"]],
            [["release"]],
        ],
    ),
    "aggregate": (
        "Subsample and aggregate",
        [
            [["rows", "in random order"]],
            [["block 1"], ["block 2"], ["block 3"], ["..."]],
            [["function(block 1)"], ["function(block 2)"], ["function(block 3)"], ["..."]],
            [["FriendlyCore mean", "noise for one block"]],
        ],
    ),
    "sklearn": (
        "What a private estimator does",
        [
            [["fit(X)", "one release, one charge"]],
            [["mean_, scale_", "may be published"]],
            [["transform(X)", "costs nothing"]],
        ],
    ),
    "spark": (
        "Where the work is done",
        [
            [["executor", "sums of its rows"], ["executor", "sums of its rows"], ["executor", "sums of its rows"]],
            [["driver", "merges the sums"]],
            [["driver", "adds noise once"]],
            [["release"]],
        ],
    ),
    "spark-cluster": (
        "What goes to the executors and what comes back",
        [
            [["one archive", "Python and packages"]],
            [["executor", "the same versions"], ["executor", "the same versions"]],
            [["sums of its rows", "raw data: protect them"], ["sums of its rows", "raw data: protect them"]],
            [["driver", "has the key of the noise"]],
            [["release", "may be published"]],
        ],
    ),
    "new-engine": (
        "What an engine does with its partitions",
        [
            [["partition 0"], ["partition 1"], ["partition 2"]],
            [["fold.map(0, batches)"], ["fold.map(1, batches)"], ["fold.map(2, batches)"]],
            [["fold.merge", "until one is left"]],
            [["ellipsum", "adds noise once"]],
            [["release"]],
        ],
    ),
    "ledger-admin": (
        "One budget for a team",
        [
            [["analyst north"], ["analyst south"], ["nightly job"]],
            [["one ledger", "compares each request", "with what is left"]],
            [["enough is left", "charged, then released"], ["too little is left", "refused, nothing is read"]],
        ],
    ),
    "common-mistakes": (
        "What a guarantee needs",
        [
            [["public knowledge", "bounds, keys, columns"], ["rows", "one unit to protect"]],
            [["request", "chosen without looking"]],
            [["one ledger", "charges each release"]],
            [["release", "nothing beside it"]],
            [["reader", "interval for the table"]],
        ],
    ),
}
# Columns whose boxes are joined one by one with those of the column before.
PARALLEL = {"people": 1, "aggregate": 2, "spark-cluster": 2, "new-engine": 1}


def picture(name: str) -> str:
    title, columns = DIAGRAMS[name]
    widths = [max(len(line) for box in column for line in box) * 7.6 + 2 * PADDING for column in columns]
    heights = [[len(box) * LINE_HEIGHT + PADDING for box in column] for column in columns]
    total = max(sum(column) + 16 * (len(column) - 1) for column in heights) + 20
    boxes, parts, left = [], [], 10.0
    for column, width, column_heights in zip(columns, widths, heights, strict=True):
        top = (total - sum(column_heights) - 16 * (len(column) - 1)) / 2
        boxes.append([])
        for box, height in zip(column, column_heights, strict=True):
            boxes[-1].append((left, top, width, height))
            parts.append(_box(left, top, width, height, box, FILL if column is columns[0] else WHITE))
            top += height + 16
        left += width + GAP
    for place in range(1, len(boxes)):
        pairs = (
            zip(boxes[place - 1], boxes[place], strict=True)
            if PARALLEL.get(name) == place
            else [(start, end) for start in boxes[place - 1] for end in boxes[place]]
        )
        parts += [_arrow(start, end) for start, end in pairs]
    tip = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{DARK}"/></marker></defs>\n'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left - GAP + 10:.0f} {total:.0f}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="14" fill="#102027">\n<title>{title}</title>\n'
        f'<rect width="100%" height="100%" fill="{WHITE}"/>\n{tip}{"".join(parts)}</svg>\n'
    )


def _box(left: float, top: float, width: float, height: float, lines: list[str], fill: str) -> str:
    first = top + height / 2 - LINE_HEIGHT * (len(lines) - 1) / 2 + 5
    texts = "".join(
        f'<text x="{left + width / 2:.1f}" y="{first + LINE_HEIGHT * place:.1f}" text-anchor="middle"'
        f"{'' if place else BOLD}>{line}</text>"
        for place, line in enumerate(lines)
    )
    rect = f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height}" rx="6" '
    return f'{rect}fill="{fill}" stroke="{DARK}"/>\n{texts}\n'


def _arrow(start: tuple[float, float, float, float], end: tuple[float, float, float, float]) -> str:
    x1, y1 = start[0] + start[2] + 3, start[1] + start[3] / 2
    x2, y2 = end[0] - 4, end[1] + end[3] / 2
    line = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
    return f'{line}stroke="{DARK}" marker-end="url(#tip)"/>\n'


def pictures() -> dict[str, str]:
    return {name: picture(name) for name in DIAGRAMS}


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / f"{name}.svg").write_text(text)
