"""Every constant of the default method, with its reason. The published methods have those of their papers."""

from __future__ import annotations

# Budget --------------------------------------------------------------------------------------------------
LEARNING_COST = 250.0
"""With the share lam of the budget for learning, the error of the release is about 1 + LEARNING_COST / (lam R) times
larger, where R is n over the noise std of a histogram. The best lam follows [L12]. With 150, far values (2% of 10^4
rows) are lost in one of ten releases."""
ROUND_SHARE = 0.25
"""The part of the rest of learning that the first histogram, each zoom, and the counts beyond all bins seen get. The
second histogram and the tails share what remains. With 0.2, errors at n = 10^4 are 8% smaller, and those of three
columns at n = 1000 19% larger."""
FEWEST_ROWS = 40.0
"""The least n over the noise std of a histogram, for the whole budget, with which columns are found reliably: if a
third of the budget is for learning, most rows of a column in one bin are then twice the threshold."""
PURE_PENALTY = 5.0
"""Pure rounds need this many times more rows. A tenth of epsilon has ten times the noise, but a tenth of mu^2 only
three times; and tails of Laplace noise reach 1.6 times as far."""

# Forecast ------------------------------------------------------------------------------------------------
WIDTH = 5.0
"""Expected standard deviations between the ends of a column: 1 of 80 values of a normal column is beyond them."""
USELESS = 0.5
"""An error of half a standard deviation tells little about a mean: a plan warns from there on."""
GUESSED_ROWS = 10_000
"""Used if the number of rows is private and no guess was passed. It decides only how the budget is split."""

# Grids ---------------------------------------------------------------------------------------------------
OCTAVES = 30
"""The first grid reaches from the magnitude down to its 2^30th part: a magnitude may be a billion times too large."""
RATIO = 1.5
"""Growth of bins outside the bulk: the rows of an exponential tail are in about five such bins."""
ZOOM_BINS = 16
"""Bins on each side in a zoom: the bin that holds most rows is split into 32."""
MOST_ZOOMS = 3
"""Three zooms resolve a spread that is 32^3 times smaller than the distance from zero. More would cost passes."""
BULK_BINS = 4
"""The most bins on each side of the bulk: the start of a tail is then known to a quarter of the half-width."""
BULK_STDS = 15.0
"""A bin of the bulk should hold this many standard deviations of noise: its count is then known within 7%."""
WINDOWS = 1, 2, 4, 8
"""Numbers of adjacent bins that are tested together: rows that are spread evenly show only in wide windows."""

# Confidence ----------------------------------------------------------------------------------------------
LEVEL = 0.0001
"""The probability that noise alone makes any empty bin of a round look filled. Such a bin may lose a column."""
PLAIN = 3.0
"""Standard deviations from which neighbors of the hull, missing rows and counts beyond the bins are significant. A
tail starts where its count is twice as many."""
NEXT = 2.0
"""The same for neighbors of the hull while rows are missing: noise alone exceeds it in one of 44 windows."""
UNNOTICED_STDS = PLAIN + NEXT
"""Standard deviations of a count that surely warns: PLAIN warn, and noise seldom lowers a count by NEXT."""
MOST_ROWS = 0.7
"""The scale of a column is half the shortest run of bins with this share of its rows: one standard deviation of a
normal column. If the run is one bin, a zoom splits it."""

# Tails ---------------------------------------------------------------------------------------------------
TAIL_INDEX = 0.06
"""Prior mean of the index of a tail above 0. Normal and exponential tails have index 0; with 0.5 the variance is
infinite. With 0.12, the seven laws of the benchmark have 5% more error at n = 10^4, and 1% less at n = 1000."""
TAIL_INDICES = -0.25, 1e-6, 0.25, 0.5
"""From tails that end, to those of infinite variance. Between two of them, the mean beyond an end changes by less
than a third."""
TAIL_SCALES = tuple(2.0 ** (k / 2) for k in range(-6, 13))
"""In units of the distance where the tail begins: an eighth is a sudden end, and 64 are rare far values."""
TAIL_SIZES = tuple(2.0 ** (k / 2) for k in range(-2, 3))
"""In units of the noisy count where the tail begins. It is six standard deviations, so half and double are
improbable. Without them, intervals of wide tables cover 91% and not 99%."""
INTERVAL_LEVEL = 0.95
"""The level of the bound on what an end cuts off, by which intervals are wider."""
STEP = 0.125
"""Octaves between two ends or radii that are compared, and of a bin of norms: the best is within 1% of the least
error."""

# Ball ----------------------------------------------------------------------------------------------------
MEDIAN_NORM = 1.2
"""The median norm of rows in units of their mean absolute values, over sqrt(d): at most sqrt(pi / 2)."""
MOST_PASSES = 10
"""The most passes over all rows, the release included: each is a scan of a file, or a query."""
MOST_FINDING = 0.5
"""The most of mu^2 for finding vectors before their center is measured: noise then grows by a factor of 1.4 at
most."""
SHRINK = 4.5
"""A clipped mean makes the ball at least this many times smaller. Its cost grows with the square, so factors of 2 to
4 cost least. The passes allow six such means, which make the ball 4,000 times smaller with this factor."""
SMALLER = 0.7
"""A ball is found if its median norm shrinks by less than this factor: the spread of the rows then decides it."""
LEAST_SHARE = 0.005
"""The least part of mu^2 for any round: it costs the release a quarter of a percent in error."""
MEASURE_SHARE = 0.03
"""The part of mu^2 for each of center, norms, directions and axes: it costs the release 1.5% in error, and their
noise is about five times that of the release."""
SHELLS = 0.5, 1.0, 1.6, 2.5, 4.0
"""Where shells of rows begin, in median norms; the last one has no end. Clipping a shell that lies to one side moves
the mean."""
MOST_AXES = 1024
"""The most columns with second moments: each row then has half a million products."""
