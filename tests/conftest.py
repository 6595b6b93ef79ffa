"""What every run of the tests shares."""

import pytest
from counting import totals

# Of these, one case in so many runs in `make test`; `make test-slow` has the others.
ONE_IN = {
    "cli/test_faults.py::test_a_damaged_cache_is_made_anew": 4,
    "friendly/test_friendly.py::test_published_agreement_carries_the_gates_whole_noise": 2,
    "learning/test_learning.py::test_noise_of_each_round_is_its_sensitivity_over_its_share_and_not_a_tenth_less": 2,
    "rows/test_normal.py::test_a_mean_with_a_private_count_errs_as_forecast": 2,
    "sources/test_sources.py::test_every_call_publishes_the_same_bits_from_every_source_as_from_an_array": 2,
    "test_clipping.py::test_equal_weights_by_quadrature": 2,
    "test_missing.py::test_noise_is_as_stated": 2,
    "test_missing.py::test_with_a_huge_budget_every_rule_gives_its_statistic": 3,
    "test_people_rows.py::test_no_person_moves_the_sums_by_more_than_the_noise_supposes": 3,
    "test_shape_normal.py::test_many_dimensions": 3,
    "test_shape_normal.py::test_optimum_is_stationary": 4,
    "test_targets.py::test_the_least_epsilon_meets_the_error": 3,
    "whole/test_arguments.py::test_odd_arguments_end_in_an_answer_or_in_an_error_of_the_library": 4,
    "whole/test_neighbours.py::test_a_call_on_two_neighbours": 4,
    "whole/test_neighbours.py::test_a_command_on_two_neighbours": 3,
    "whole/test_neighbours.py::test_the_sums_of_neighbours_are_as_near_as_the_noise_supposes": 3,
    "whole/test_odd_data.py::test_a_signalling_nan_is_missing_without_a_word": 4,
    "whole/test_run.py::test_noise_has_the_stated_covariance_and_not_a_tenth_less": 2,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases of costly tests that are left to the slow run."""
    seen = dict.fromkeys(ONE_IN, 0)
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        if name in seen:
            if seen[name] % ONE_IN[name]:
                item.add_marker("slow")
            seen[name] += 1


def pytest_terminal_summary(terminalreporter):
    reports = [report for some in terminalreporter.stats.values() for report in some]
    for name, number in totals(reports).items():
        terminalreporter.write_line(f"{name}: {number} cases")
