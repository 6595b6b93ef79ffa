"""What every run of the tests shares."""

import os
import zlib
from collections import Counter

import commands
import hypothesis
import numpy as np
import pytest
from counting import totals

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")

# Of these, one case in so many runs in `make test` (0: none); `make test-slow` has the others. A marker at the test
# says the same: one_in(3), or slow for none.
ONE_IN = {
    "apps/cli/test_cli.py::test_a_header_of_many_columns_alone": 0,
    "apps/cli/test_cli.py::test_bounds_from_files_and_for_every_column": 0,
    "apps/cli/test_cli.py::test_files_as_they_really_are": 4,
    "apps/cli/test_cli.py::test_help_examples_run": 0,
    "apps/cli/test_cli.py::test_normal_rows_from_words_and_files": 0,
    "apps/cli/test_cli.py::test_numbers_that_json_does_not_have_are_refused_before_anything_is_read": 0,
    "apps/cli/test_cli.py::test_what_must_be_refused": 8,
    "apps/cli/test_cli_groups.py::test_wrong_words": 3,
    "apps/cli/test_cli_learn.py::test_a_magnitude_is_enough_and_a_plan_can_be_saved": 0,
    "apps/cli/test_cli_missing.py::test_an_absolute_database_has_four_slashes": 0,
    "apps/cli/test_cli_missing.py::test_each_rule_for_missing_entries_gives_its_own_mean": 2,
    "apps/cli/test_cli_missing.py::test_the_same_words_make_a_plan": 0,
    "apps/cli/test_cli_missing.py::test_the_table_says_which_rule_was_used": 4,
    "apps/cli/test_cli_missing.py::test_weights_and_no_check_reach_the_plan": 0,
    "apps/cli/test_cli_project.py::test_wrong_use_ends_with_its_code": 4,
    "apps/cli/test_faults.py::test_a_damaged_cache_is_made_anew": 6,
    "apps/cli/test_faults.py::test_a_full_disk_leaves_no_half_of_a_result": 3,
    "apps/cli/test_faults.py::test_a_full_standard_output": 2,
    "apps/cli/test_faults.py::test_a_full_temporary_folder_while_people_are_grouped": 3,
    "apps/cli/test_faults.py::test_a_locale_without_the_characters": 2,
    "apps/cli/test_faults.py::test_few_file_handles": 0,
    "apps/cli/test_faults.py::test_folders_that_cannot_be_written": 3,
    "apps/cli/test_faults.py::test_it_runs_where_no_cache_can_be_written": 0,
    "apps/cli/test_faults.py::test_names_of_every_kind": 4,
    "apps/cli/test_faults.py::test_wrong_words_are_told_plainly": 0,
    "releases/test_group_releases.py::test_intervals_cover": 2,
    "releases/test_group_releases.py::test_measured_errors": 2,
    "kernels/test_auxiliary_counts.py::test_no_row_leaves_the_body": 3,
    "display/test_forecast_pictures.py::test_a_plan_made_again_is_the_same": 2,
    "display/test_forecast_pictures.py::test_plans_are_legible": 3,
    "display/test_report.py::test_a_page_follows_from_what_was_published": 2,
    "display/test_report.py::test_a_page_needs_nothing_else": 2,
    "display/test_report.py::test_a_page_says_everything": 2,
    "display/test_report.py::test_the_call_in_python_makes_the_same_plan": 2,
    "rows/test_normal.py::test_a_mean_with_a_private_count_errs_as_forecast": 2,
    "rows/test_normal.py::test_forecast_against_simulation": 4,
    "apps/studio/test_orders.py::test_the_command_and_the_python_text_make_the_same_request": 3,
    "apps/studio/test_combined.py::test_intervals_of_three_releases_cover_the_statistic_and_are_narrower": 2,
    "apps/studio/test_serve.py::test_what_is_refused": 4,
    "numerics/test_weighted_chisquare.py::test_body_agrees_with_an_oscillatory_integral": 9,
    "numerics/test_clipped_normal.py::test_equal_weights_by_quadrature": 2,
    "numerics/test_clipped_normal.py::test_what_the_estimate_of_the_bias_costs": 0,
    "releases/test_description.py::test_intervals_cover_on_ugly_tables": 3,
    "plans/test_missing.py::test_errors_are_as_forecast": 4,
    "plans/test_missing.py::test_noise_is_as_stated": 4,
    "plans/test_missing.py::test_unknown_rows_are_over_the_rows_that_have_a_column": 6,
    "plans/test_missing.py::test_with_a_huge_budget_every_rule_gives_its_statistic": 8,
    "plans/test_noise_selection.py::test_measured_errors_are_those_of_the_forecast": 2,
    "plans/test_noise_selection.py::test_neighbors_cannot_be_told_apart_by_more_than_epsilon": 2,
    "plans/test_noise_selection.py::test_the_choice_is_the_least_forecast_and_never_above_the_gaussian": 2,
    "plans/test_people_rows.py::test_no_person_moves_the_sums_by_more_than_the_noise_supposes": 5,
    "plans/test_people_rows.py::test_the_histogram_has_the_noise_that_it_states": 0,
    "releases/test_postprocess.py::test_james_stein_helps_near_the_center_and_never_hurts_far_away": 0,
    "releases/test_postprocess.py::test_james_stein_with_counts_of_every_column": 2,
    "regions/test_normal_shape.py::test_forecast_matches_simulation_for_an_uncertain_center": 3,
    "regions/test_normal_shape.py::test_many_dimensions": 6,
    "regions/test_normal_shape.py::test_optimum_is_stationary": 8,
    "request/test_target_error.py::test_the_least_epsilon_meets_the_error": 3,
    "whole/test_arguments.py::test_odd_arguments_end_in_an_answer_or_in_an_error_of_the_library": 10,
    "whole/test_neighbors.py::test_a_call_on_two_neighbors": 9,
    "whole/test_neighbors.py::test_a_command_on_two_neighbors": 6,
    "whole/test_neighbors.py::test_the_sums_of_neighbors_are_as_near_as_the_noise_supposes": 3,
    "whole/test_odd_data.py::test_a_signalling_nan_is_missing_without_a_word": 4,
    "whole/test_run.py::test_noise_has_the_stated_covariance_and_not_a_tenth_less": 4,
    "whole/test_run.py::test_a_person_who_waits_reads_once_that_kernels_compile": 0,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases of costly tests that are left to the slow run."""
    seen = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        marker = item.get_closest_marker("one_in")
        share = ONE_IN.get(name, 1) if marker is None else marker.args[0]
        if not share or seen[name] % share:
            item.add_marker("slow")
        seen[name] += 1


@pytest.fixture(autouse=True)
def fixed_noise(request, monkeypatch):
    """Every test has its own fixed noise, in commands too, so that none fails by chance; some ask for real entropy."""
    if request.node.get_closest_marker("entropy") is None:
        commands.seed = zlib.crc32(request.node.nodeid.encode())
        monkeypatch.setattr(os, "urandom", np.random.default_rng(commands.seed).bytes)


def pytest_terminal_summary(terminalreporter):
    reports = [report for some in terminalreporter.stats.values() for report in some]
    for name, number in totals(reports).items():
        terminalreporter.write_line(f"{name}: {number} cases")
