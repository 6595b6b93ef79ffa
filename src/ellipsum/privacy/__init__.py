"""Privacy accounting: budgets, guarantees, certified curves and their composition."""
