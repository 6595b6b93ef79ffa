"""Every constant of the default method, with its reason. The published methods have those of their papers."""

from __future__ import annotations

# Budget --------------------------------------------------------------------------------------------------
LEARNING_COST = 250.0
"""Learning with the share lam of the budget costs the release a factor 1 + LEARNING_COST / (lam R) in error, R the rows
per standard deviation of a histogram's noise: with 1/(1 - lam) for the release's own noise, the best lam follows."""
FIRST_SHARE = 0.3
"""Of learning, for the first histogram; and of what is left for each zoom. It is flat: .2 to .4 are within 3%."""
TAIL_SHARE = 0.5
"""Of what is left then, for tails: half for bins of tails, half for counts beyond the ends."""
PURE_TAIL_SHARE = 1 / 8
"""The same under Laplace noise, for the counts alone: their l1 sensitivity is 1/d of the histogram's."""
MOST_SEARCH = 0.25
"""Of a pure budget, for medians: they are cheap where rows are enough, and this keeps them from taking all of it."""
COUNT_SHARE = 0.01
"""For counting rows whose number is private: its noise is then a tenth of the release's count, or less."""
FEWEST_ROWS = 40.0
"""Rows per standard deviation of a histogram's noise, for the whole budget, from which columns are found reliably: with
a share of a third or so, most rows of a column in one bin are then twice the threshold of noise alone."""

# Grids ---------------------------------------------------------------------------------------------------
OCTAVES = 30
"""The first grid reaches down to the magnitude over 2^30: magnitudes may be stated a billion times too wide."""
RATIO = 1.5
"""Growth of bins outside the bulk: the rows of an exponential tail are in about five of them."""
ZOOM_BINS = 16
"""Bins on each side in a zoom: a bin that holds 60% of the rows splits into 32."""
MOST_ZOOMS = 3
"""32^3 is the offset over the spread that can be resolved, beyond the first grid's 1.5: it bounds the passes."""
BULK_BINS = 4
"""Bins on each side of the bulk, at most: a quarter of the half-width is near enough for a tail's start."""
BULK_STDS = 15.0
"""Standard deviations of noise that a bin of the bulk should hold, so that its count errs by less than a tenth."""
ALIKE = 2.0**-10
"""A pure median is found to this part of itself: what lies nearer together is one value to it."""
ALIKE_SPREAD = 0.05
"""A pure spread is found to this part of itself."""

# Confidence ----------------------------------------------------------------------------------------------
LEVEL = 0.001
"""The probability that noise alone makes any empty bin of a round look filled: then a column may be lost unnoticed."""
PLAIN = 3.0
"""Standard deviations that count as plain: neighbors of what was seen, starts of tails, counts that warn."""
MOST_ROWS_IN_ONE = 0.6
"""Of a column's rows in one bin away from zero: a zoom splits it."""
HALF_WIDTH_ROWS = 0.7
"""Of a column's rows: half the shortest run of bins with so many is its scale, one deviation of a normal column."""

# Tails ---------------------------------------------------------------------------------------------------
TAIL_INDEX = 0.12
"""Prior mean of a tail's index: normal and exponential tails have 0, and from 0.5 on the variance is infinite."""
TAIL_SPREAD = 0.5
"""Prior deviation of the logarithm of a tail's scale about its distance from the center."""
INTERVAL_LEVEL = 0.95
"""Of the posterior quantile of what an end cuts off, which widens intervals."""
UNNOTICED_STDS = 5.0
"""Standard deviations of a count beyond an end: two more than warn, so that so many rows warn with probability 0.97."""

# Ball ----------------------------------------------------------------------------------------------------
MOST_PASSES = 10
"""Over all rows, the release included: each is a scan of a file or a query."""
MOST_FINDING = 0.5
"""Of mu^2, for finding vectors before their center is measured: the rest then has 0.7 of the whole noise's accuracy."""
STANDS_OUT = 10.0
"""Standard deviations of noise that all rows in one bin of norms should be, while vectors are found."""
SHRINK = 4.5
"""How many times smaller a clipped mean makes the ball, at least. A share grows with its square, so that a factor of 2
to 4 costs least; six rounds of this one, which is what there are passes for, shrink the ball 4,000 times."""
SMALLER = 0.7
"""A ball whose median norm shrinks by less is as small as the rows are wide."""
CENTER_SHARE = 0.01, 0.1
"""Of mu^2, for center and spreads, least and most: within these, the noise of a clipped mean over its radius."""
NORMS_SHARE = 0.02, 0.06
"""Of mu^2, for a histogram of norms, least and most: a row is in one bin, so that its noise is small beside d columns'.
Within these, as much as lets a bin of the bulk stand BULK_STDS out."""
LEAST_SHARE = 0.005
"""Of mu^2, for any round: a smaller one saves nothing that shows."""
DIRECTIONS_SHARE = 0.03
"""Of mu^2, for the directions of rows in shells: bias is then known to about six times the noise of the release."""
AXES_SHARE = 0.06
"""Of mu^2, for second moments, where they are forecast to show the axes that hold the rows."""
MOST_AXES = 1024
"""Columns whose second moments are measured: half a million products for each row."""
