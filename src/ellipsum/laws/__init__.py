"""Noise laws other than the Gaussian, as mathematics: their curves, least scales, blocks and tails. No randomness."""
