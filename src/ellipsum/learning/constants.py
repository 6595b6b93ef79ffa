"""Every constant of the default method, with its reason. The published methods have those of their papers."""

from __future__ import annotations

# Budget --------------------------------------------------------------------------------------------------
LEARNING_COST = 250.0
"""Learning with the share lam of the budget costs the release a factor 1 + LEARNING_COST / (lam R) in error, R the rows
per standard deviation of a histogram's noise: with 1/(1 - lam) for the release's own noise, the best lam follows."""
ROUND_SHARE = 0.25
"""Of what is left of learning: for the first histogram, each zoom, and counts beyond all bins seen. The second
histogram and that of tails have the rest in equal parts. It is flat: .2 to .4 are within 3%."""
FEWEST_ROWS = 40.0
"""Rows per standard deviation of a histogram's noise, for the whole budget, from which columns are found reliably: with
a share of a third or so, most rows of a column in one bin are then twice the threshold of noise alone."""
PURE_PENALTY = 5.0
"""How many times more rows pure rounds need. A round with a tenth of epsilon has ten times the noise, one with a
tenth of mu^2 about three times; and the tails of Laplace noise reach 1.6 times as far."""

# Forecast ------------------------------------------------------------------------------------------------
WIDTH = 5.0
"""Standard deviations between the ends of a column: a normal column has one value of 80 beyond."""
USELESS = 0.5
"""An error of half a standard deviation says little about where a column is."""
GUESSED_ROWS = 10_000
"""Used where the number of rows is private and no guess was passed. It only decides how the budget is split."""

# Grids ---------------------------------------------------------------------------------------------------
OCTAVES = 30
"""The first grid reaches down to the magnitude over 2^30: a magnitude may be a billion times too wide."""
RATIO = 1.5
"""Growth of bins outside the bulk: the rows of an exponential tail are in about five of them."""
ZOOM_BINS = 16
"""Bins on each side in a zoom: a bin that holds most rows splits into 32."""
MOST_ZOOMS = 3
"""32^3 is the offset over the spread that can be resolved, beyond the first grid's 1.5: it bounds the passes."""
BULK_BINS = 4
"""Bins on each side of the bulk, at most: a quarter of the half-width is near enough for a tail's start."""
BULK_STDS = 15.0
"""Standard deviations of noise that a bin of the bulk should hold, so that its count is known to a tenth."""
WINDOWS = 1, 2, 4, 8
"""Bins that are looked at together: rows of a flat stretch stand out only so."""

# Confidence ----------------------------------------------------------------------------------------------
LEVEL = 0.0001
"""The probability that noise alone makes any empty bin of a round look filled: then a column may be lost unnoticed."""
PLAIN = 3.0
"""Standard deviations that count as plain: neighbors of what was seen, starts of tails, counts that warn."""
NEXT = 2.0
"""Standard deviations of neighbors that are taken in while rows are missing: noise alone has one of 44 beyond."""
UNNOTICED_STDS = PLAIN + NEXT
"""Standard deviations of a count beyond an end: that number of outliers warns, unless noise lowers it by NEXT."""
MOST_ROWS = 0.7
"""Share of a column's rows: half the shortest run of bins with them is its scale, one standard deviation of a normal
column. Where that run is one bin, a zoom splits it."""

# Tails ---------------------------------------------------------------------------------------------------
TAIL_INDEX = 0.06
"""Prior mean of a tail's index: normal and exponential tails have 0, and from 0.5 on the variance is infinite."""
TAIL_SPREAD = 0.5
"""Prior deviation of the logarithm of a tail's scale about its distance from the center."""
TAIL_INDICES = -0.25, 1e-6, 0.25, 0.5
"""From tails that end to those of infinite variance; in between the mean beyond an end changes by less than a third."""
TAIL_SCALES = tuple(2.0 ** (k / 2) for k in range(-6, 13))
"""Over the distance where the tail begins: an eighth is a cliff, and 64 times that distance are rare far values."""
TAIL_SIZES = tuple(2.0 ** (k / 2) for k in range(-2, 3))
"""Over the noisy count where the tail begins, which is six standard deviations: half and double are far outside."""
INTERVAL_LEVEL = 0.95
"""Of the posterior quantile of what an end cuts off, which widens intervals."""
STEP = 0.125
"""Octaves between ends, or radii, that are tried, and of a bin of norms: the best is within 1% of the least error."""

# Ball ----------------------------------------------------------------------------------------------------
MEDIAN_NORM = 1.2
"""Of rows in units of their mean absolute values, over sqrt(d): sqrt(pi / 2), or somewhat less for few columns."""
MOST_PASSES = 10
"""Over all rows, the release included: each is a scan of a file or a query."""
MOST_FINDING = 0.5
"""Of mu^2, for finding vectors before their center is measured: the rest then has 0.7 of the whole noise's accuracy."""
SHRINK = 4.5
"""How many times smaller a clipped mean makes the ball, at least. A share grows with its square, so that a factor of 2
to 4 costs least; six rounds of this one, which is what there are passes for, shrink the ball 4,000 times."""
SMALLER = 0.7
"""A ball whose median norm shrinks by less is as small as the rows are wide."""
LEAST_SHARE = 0.005
"""Of mu^2, for any round: a smaller one saves nothing that shows."""
MEASURE_SHARE = 0.03
"""Of mu^2, for each of center, norms, directions and axes: their noise is about five times that of the release."""
SHELLS = 0.5, 1.0, 1.6, 2.5, 4.0
"""Where shells of rows begin, in median norms; the last has no end. Clipped rows on one side move the mean."""
MOST_AXES = 1024
"""Columns whose second moments are measured: half a million products for each row."""
