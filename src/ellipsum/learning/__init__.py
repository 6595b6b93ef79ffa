"""Bounds learned privately, for rows of which only a magnitude is known (`Unknown`).

A method is a function `method(rounds, *, options...) -> Region`. `rounds` (rounds.py) gives noisy sums of row maps
(row_maps.py) over the source: `rounds.sum(name, row_map, share)` charges its share of the budget before it reads a
row, and returns values with the standard deviation of their noise. `rounds.magnitude` is what is known of each column.
What a round asks may depend on earlier noisy results and on public numbers, and on nothing else. The `Region` says
where the release clamps or clips; the release is an ordinary one, run by plan.py with all that is left of the budget.
"""
