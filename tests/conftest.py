"""What every run of the tests shares."""

from counting import totals


def pytest_terminal_summary(terminalreporter):
    reports = [report for some in terminalreporter.stats.values() for report in some]
    for name, number in totals(reports).items():
        terminalreporter.write_line(f"{name}: {number} cases")
