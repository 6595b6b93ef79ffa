"""Which public names the reference has, by topic: the site has a page for each."""

TOPICS = {
    "Statistics": [
        "sum",
        "mean",
        "describe",
        "count",
        "histogram",
        "quantiles",
        "Release",
        "Description",
        "DescriptionWithQuantiles",
        "HistogramRelease",
        "QuantileRelease",
        "GroupRelease",
        "GroupDescription",
    ],
    "Bounds": ["Box", "Ball", "Normal", "Unknown", "learn", "Learned"],
    "Plans": ["plan", "replan", "prepare", "Plan", "GroupPlan", "DescriptionPlan", "HistogramPlan", "QuantilePlan"],
    "Budgets and guarantees": ["Budget", "Privacy", "compose", "calibrate"],
    "Ledger": ["Ledger", "ledger.DatasetAccount", "LedgerWarning"],
    "Groups and people": ["Groups", "People", "suggest_max_rows", "RowsPerPerson"],
    "Data and saved results": ["csv", "sql", "load", "from_json"],
    "Advanced statistics": [
        "friendly_mean",
        "FriendlyGate",
        "subsample_and_aggregate",
        "NoCenter",
        "project",
        "Projection",
        "ProjectionPrivacy",
        "projection_forecast",
        "choose_k",
        "WeightedChiSquare",
        "tail_bound",
    ],
    "Auditing": ["audit", "Audit", "audit_bits", "BitsAudit"],
    "scikit-learn": ["estimators.PrivateMean", "estimators.PrivateScaler"],
    "Errors and warnings": [
        "EllipsumError",
        "UsageError",
        "BudgetRefused",
        "DataError",
        "AccuracyWarning",
        "ProjectionWarning",
    ],
}
"""Topic -> names below `ellipsum`."""

MEMBERS = [
    "value", "noise_std", "standard_error", "clipping_bias", "counts", "row_count", "confidence_interval",
    "confidence_region", "denoise", "shrink", "count", "mean", "std", "std_error", "covariance", "correlation",
    "correlation_interval", "quantiles", "shares", "other", "consistent", "quantile", "cdf", "band", "keys",
    "threshold", "privacy", "plan", "warnings", "warning", "secure", "clip_radius", "noise_cov", "noise_error",
    "clipping_error", "expected_error", "expected_squared_error", "rank_error", "other_rank_error", "mechanism",
    "outside_stds", "std_errors", "request", "release", "replan", "split", "epsilon", "delta", "mu", "rho",
    "slack", "pure", "neighbors", "unit", "init", "in_memory", "dataset", "account", "accounts", "anchor",
    "close", "export", "history", "verify", "remaining", "forecast", "matrix", "rows", "squared_distances",
    "inner_products", "squared_norms", "advice", "logcdf", "logsf", "isf", "ppf", "pdf", "sf", "var",
    "contradicts", "epsilon_lower", "mu_lower", "found", "plot", "report", "save", "load", "to_pandas",
    "to_polars", "to_arrow", "to_csv", "to_json", "from_json", "fit", "transform", "inverse_transform",
]  # fmt: skip
"""What the page of a class shows of it: everything else of its attributes is for the library alone."""
