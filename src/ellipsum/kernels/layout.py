"""Sizes and limits that kernels, their code generators and whoever prepares their arrays agree on."""

LANES = 8  # doubles in a vector, and rows in a group that is clamped
ROWS = 4  # rows in a group whose norms are taken
LINE = 64  # bytes of a cache line
PANEL = 16  # matrix rows side by side in a packed panel
BLOCK = 32  # rows that share one reading of the matrix
TILE = 256  # matrix columns worked on at a time
UNUSED = -2000  # in place of the exponent of a matrix column that is all zero
FAR_EXPONENT = 200  # rows that overflow are brought to a norm near 2^200: outside the ball, squares finite
SURELY_OUTSIDE = 1 + 2.0**-18  # of a squared norm: unit vectors in single precision are not outside
LARGE = 2.0**1000  # beyond it a squared norm is not relied upon

# What is done with an absent cell: the fill's value, counted for its column, or its row left out.
FILLED, COUNTED, LEFT_OUT = 0, 1, 2
