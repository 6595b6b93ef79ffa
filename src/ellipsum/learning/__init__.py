"""Learn bounds privately where only a magnitude of the values is known (`Unknown`).

A method is a function `method(rounds, options...) -> Region`. `rounds` (rounds.py) gives noisy sums of row maps
(row_maps/histograms.py) over the source: `rounds.sum(name, row_map, share)` charges its share of the budget before it
reads a row, and returns values with the standard deviation of their noise. A round may depend on earlier noisy results
and on public numbers, and on nothing else. The `Region` states where the release clamps or clips. The release is an
ordinary one: plan.py runs it with the rest of the budget.
"""
