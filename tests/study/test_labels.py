"""Names of policies and drifts, and unique labels."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
import spec_fixtures
from command_line import RunEntice
from spec_fixtures import first

import entice
from entice.labels import unique_labels
from entice.planner.formatting import policy_names as plan_names
from entice.policies import Policy
from entice.worlds.drifts import Drift

POLICIES: list[Any] = [*spec_fixtures.POLICIES, entice.KLUCB(), entice.BetaThompson()]
DRIFTS: list[Any] = [
    entice.NoDrift(),
    entice.LinearDrift(1.1),
    entice.NegativeDrift(0.5),
    entice.SaturatingDrift(l=1, cap=0.5),
    entice.StepDrift(0.2),
    entice.PowerDrift(l=2, exponent=2),
    entice.FadingDrift(l=1.1, half_life=100),
    entice.ArmDrift([0.1, 0.2]),
    entice.CarriedDrift(l=0.5, keep=0.8),
    entice.RandomDrift(0.0, 1.0),
    entice.CompressionDrift(target=0.8, strength=0.5),
    entice.CustomDrift("spec_fixtures:halved"),
]


def study(**changes: Any) -> entice.Study:
    settings: dict[str, Any] = {
        "arms": entice.Gaussian([0.9, 0.1]),
        "policies": [entice.UCB()],
        "horizon": 50,
        "replications": 5,
        "seed": 1,
    }
    return entice.Study(**settings | changes)


def test_every_kind_is_covered() -> None:
    assert {type(policy) for policy in POLICIES} == set(get_args(Policy))
    assert {type(drift) for drift in DRIFTS} == set(get_args(Drift))


@pytest.mark.parametrize("spec", [*POLICIES, *DRIFTS], ids=lambda spec: spec.label)
def test_a_name_is_the_label_and_survives_a_round_trip(spec: Any) -> None:
    named = msgspec.structs.replace(spec, name="Ours, v2")
    assert named.label == "Ours, v2"
    assert msgspec.structs.replace(spec, name=None).label == spec.default_label
    role = "policies" if isinstance(spec, get_args(Policy)) else "drifts"
    made = study(**{role: [named]}, arms=entice.Bernoulli([0.9, 0.1]))
    assert entice.Study.from_toml(made.to_toml()) == made
    assert entice.Study.from_json(made.to_json()) == made
    assert getattr(entice.Study.from_toml(made.to_toml()), role)[0].label == "Ours, v2"


@pytest.mark.parametrize("spec", [*POLICIES, *DRIFTS], ids=lambda spec: spec.label)
@pytest.mark.parametrize("name", [3, "", " ", b"x", ["a"], "a" * 101])
def test_a_name_must_be_text(spec: Any, name: Any) -> None:
    kind = type(spec).__name__
    with pytest.raises(
        entice.InputError, match=f"{kind}: name must be text of 1 to 100 characters"
    ):
        msgspec.structs.replace(spec, name=name)


def test_a_name_changes_no_number_and_no_engine() -> None:
    plain = entice.run(study(), progress=False)
    named = entice.run(
        study(policies=[entice.UCB(name="Ours")], drifts=[entice.NoDrift(name="Calm")]),
        progress=False,
    )
    assert named.engines == plain.engines == ("fast",)
    labels = ["policy", "drift"]
    assert named.final.drop(labels).equals(plain.final.drop(labels))
    assert named.final.select(labels).unique().rows() == [("Ours", "Calm")]
    assert "Ours" in str(named)
    assert "Calm" in str(named)
    assert [ax.get_title(loc="left") for ax in named.plot().axes] == ["Calm"]


def test_a_plan_uses_the_name_of_a_policy() -> None:
    plan = entice.Plan(
        arms=3,
        spread=entice.Spread(centre=4, width=0.5),
        visitors_a_day=10,
        days=2,
        price_of_a_star=1,
        drift=0.5,
        policies=[entice.Greedy(name="OurBaseline"), entice.UCB()],
    )
    assert plan_names(plan) == ["OurBaseline", "UCB"]


@pytest.mark.parametrize(
    ("specs", "labels"),
    [
        ([entice.UCB(), entice.Greedy()], ("UCB", "Greedy")),
        (
            [entice.LinearDrift(0.1), entice.LinearDrift(0.1 + 1e-9), entice.NoDrift()],
            ("LinearDrift(0.1) [l=0.1]", "LinearDrift(0.1) [l=0.100000001]", "NoDrift"),
        ),
        (
            [entice.EpsilonGreedy(c=1, name="a"), entice.EpsilonGreedy(c=2, name="a")],
            ("a [c=1.0]", "a [c=2.0]"),
        ),
        (
            [entice.UCB(name="a"), entice.Greedy(name="a")],
            ("a [kind=ucb, count_in_flight=False, noise=1.0]", "a [kind=greedy]"),
        ),
        ([entice.UCB(), entice.UCB(), entice.UCB()], ("UCB", "UCB #2", "UCB #3")),
        (
            [entice.CustomPolicy(first, memory=1), entice.CustomPolicy(first, memory=2)],
            ("first [memory=1]", "first [memory=2]"),
        ),
        (
            [entice.ArmDrift([0.1, 0.2, 0.3]), entice.ArmDrift([0.1, 0.1, 0.3])],
            (
                "ArmDrift(0.1–0.3) [slopes=[0.1, 0.2, 0.3]]",
                "ArmDrift(0.1–0.3) [slopes=[0.1, 0.1, 0.3]]",
            ),
        ),
    ],
)
def test_labels_of_different_specs_differ(specs: list[Any], labels: tuple[str, ...]) -> None:
    assert unique_labels(specs) == labels
    assert len(set(labels)) == len(specs)


def test_results_distinguish_policies_with_the_same_label(
    run_entice: RunEntice, tmp_path: Any
) -> None:
    drifts = [entice.LinearDrift(1.0), entice.LinearDrift(1.0 + 1e-9)]
    made = study(drifts=drifts)
    labels = ["LinearDrift(1) [l=1.0]", "LinearDrift(1) [l=1.000000001]"]
    result = entice.run(made, progress=False)
    for frame in (result.final, result.curves, result.summary()):
        assert frame["drift"].unique(maintain_order=True).to_list() == labels
    assert [ax.get_title(loc="left") for ax in result.plot().axes] == labels
    (tmp_path / "study.toml").write_text(made.to_toml())
    ran = run_entice("run", "study.toml", "--out", "out")
    assert all(label in ran.out for label in labels)
