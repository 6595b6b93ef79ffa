"""What a ledger exports, read by the tools that it is for: Google's dp_accounting, and a reader of YAML."""

import json
from collections import namedtuple

import numpy as np
import pytest
import yaml
from dp_accounting import NeighboringRelation, dp_event, pld

import ellipsum as es
from ellipsum.privacy.composition import composed, composed_epsilon

X = np.random.default_rng(0).uniform(0, 1, (400, 3))
BOX = es.Box(0, 1)
RELATIONS = [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL]


def gaussian(ledger):
    for epsilon in (0.3, 0.5, 0.5):
        es.mean(X, BOX, epsilon=epsilon, delta=1e-6, noise="gaussian", ledger=ledger.dataset("survey"))
    es.describe(X, BOX, epsilon=1, delta=1e-6, noise="gaussian", ledger=ledger.dataset("survey"))


def pure(ledger):
    for _ in range(5):
        es.sum(X, BOX, epsilon=0.2, delta=0, ledger=ledger.dataset("survey"))


def mixed(ledger):
    gaussian(ledger)
    pure(ledger)
    es.friendly_mean(X, 2.0, epsilon=2, delta=1e-6, ledger=ledger.dataset("survey"))


def learned(ledger):
    es.learn(X, es.Unknown(1e3), epsilon=4, delta=1e-6, ledger=ledger.dataset("survey"))


@pytest.fixture
def ledger(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=20, delta=1e-5, caps={"mu": 2, "epsilon": 5, "delta": "5e-6"})
    return ledger


def event_of(fields):
    """By dp_accounting's own way from names to events."""
    return dp_event.DpEvent.from_named_tuple(_tuple(fields))


def _tuple(value):
    if isinstance(value, list):
        return [_tuple(one) for one in value]
    if isinstance(value, dict):
        return namedtuple("Event", value)(*map(_tuple, value.values()))
    return value


def guarantees(ledger):
    """What the ledger itself says of each release, together."""
    said = [entry["guarantee"] for entry in ledger.history("survey") if entry["what"] == "reserved"]
    return composed((one["mu"], one.get("pure", []), one["slack"]) for one in said)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("release", [gaussian, pure, mixed, learned])
def test_dp_accounting_adds_up_to_the_same(ledger, release, relation):
    release(ledger)
    found = json.loads(ledger.export("dp_accounting"))["survey"]
    accountant = pld.PLDAccountant(relation)
    accountant.compose(event_of(found["event"]))
    for delta in (1e-4, 1e-6, 1e-8):
        beside = found["delta_beside"]
        if delta > 2 * beside:
            ours = composed_epsilon(*guarantees(ledger), delta)
            assert accountant.get_epsilon(delta - beside) == pytest.approx(ours, rel=2e-3)


def test_five_percent_less_noise_would_be_seen(ledger):
    """The comparison can fail."""
    gaussian(ledger)
    found = json.loads(ledger.export("dp_accounting"))["survey"]
    for one in found["event"]["events"]:
        one["noise_multiplier"] *= 0.95
    accountant = pld.PLDAccountant()
    accountant.compose(event_of(found["event"]))
    ours = composed_epsilon(*guarantees(ledger), 1e-6)
    assert accountant.get_epsilon(1e-6) > 1.03 * ours


def test_spherical_noise_is_no_more_than_its_event(ledger):
    es.mean(X, es.Ball(2.0), epsilon=1, delta=1e-6, noise="knorm", ledger=ledger.dataset("survey"))
    found = json.loads(ledger.export("dp_accounting"))["survey"]
    accountant = pld.PLDAccountant()
    accountant.compose(event_of(found["event"]))
    assert accountant.get_epsilon(1e-6) >= 1 - 1e-3


# The registry -------------------------------------------------------------------------------------------

KNOWN = {
    "basic": {"name"},
    "dp_variant": {"variant_name"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    "deployment_model": {"model_name", "release_type", "release_type_details"},
    "implementation": {"mechanisms", "composition"},
    "administrative": {"status"},
}
"""What is filled in, by the registry's own names."""
NAMES = ["survey", 'a "quoted" name: # é, 雪 and \U0001f600', "true", "1e3"]


def test_the_registry_is_read_as_it_was_meant(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    for name in NAMES:
        ledger.init(name, epsilon="1.25", delta="1e-7")
    ledger.init("pure", epsilon="100", delta=0)
    ledger.init("on curves", mu="0.5")
    read = {one["deployment"]["basic"]["name"]: one for one in yaml.safe_load_all(ledger.export("registry"))}
    assert set(read) == {*NAMES, "pure", "on curves"}
    for one in read.values():
        assert {part: set(fields) for part, fields in one["deployment"].items()} == KNOWN
        assert isinstance(one["url_slug"], str)
    loss = {name: one["deployment"]["privacy_loss"]["privacy_parameters"] for name, one in read.items()}
    assert all(loss[name] == {"epsilon": 1.25, "delta": 1e-7} for name in NAMES)
    assert loss["pure"] == {"epsilon": 100, "delta": 0}
    assert loss["on curves"] == {"rho": 0.125}
    variants = {name: one["deployment"]["dp_variant"]["variant_name"] for name, one in read.items()}
    assert {name: variants[name] for name in ("survey", "pure", "on curves")} == {
        "survey": "Approximate DP",
        "pure": "Pure DP",
        "on curves": "Zero-concentrated DP",
    }


def test_what_is_left_open_can_be_filled_in(ledger):
    """Each open line is a field of its part once its mark is taken away."""
    filled = yaml.safe_load(ledger.export("registry").replace("# ", ""))
    assert {"data_curators", "description", "intended_use", "publication_date"} < set(filled["deployment"]["basic"])
    assert {"registry_authors", "tier"} < set(filled["deployment"]["administrative"])
