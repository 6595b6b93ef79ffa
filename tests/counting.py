"""How many cases the harnesses went through, shown at the end of a run."""

_PREFIX = "cases: "


def count_cases(request, name, number):
    """Let the end of the run say that this test went through so many cases of the named harness."""
    request.node.user_properties.append((_PREFIX + name, int(number)))


def totals(reports):
    """Cases by harness, over the reports of all tests (those of other processes too)."""
    found = {}
    for report in reports:
        if getattr(report, "when", None) == "call":
            for name, number in report.user_properties:
                if name.startswith(_PREFIX):
                    found[name] = found.get(name, 0) + number
    return {name.removeprefix(_PREFIX): number for name, number in sorted(found.items())}
