"""Mathematics without privacy: roots, wide integers, the weighted chi-square distribution."""
