"""`entice atlas`: policies × worlds."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from command_line import RunEntice, assert_error, plain
from msgspec.structs import replace
from rich.console import Console

import entice
from entice.atlas import WORLDS, atlas, default_policies
from entice.atlas.terminal import print_atlas
from entice.atlas.worlds import AtlasWorld
from entice.study.running.run import run_each

TWO = [entice.UCB(), entice.EpsilonGreedy(c=5)]
BY_NAME = {world.name: world for world in WORLDS}


def small(names: list[str], **changes: object) -> pl.DataFrame:
    settings = {"horizon": 2_000, "replications": 20, "seed": 7, "progress": False}
    return atlas([BY_NAME[name] for name in names], TWO, **settings | changes).table  # type: ignore[arg-type]


def test_a_cell_equals_the_result_of_simulate() -> None:
    table = small(["linear, l = 1.1"])
    world: AtlasWorld = BY_NAME["linear, l = 1.1"]
    result = entice.simulate(
        policies=TWO, horizon=2_000, replications=20, seed=7, checkpoints=1, progress=False,
        **world.settings,
    )  # fmt: skip
    means = result.summary().filter(metric="regret")
    assert table["regret"].to_list() == pytest.approx(means["mean"].to_list())
    assert table["regret_stderr"].to_list() == pytest.approx(means["stderr"].to_list())
    assert table["median_regret"].to_list() == pytest.approx(means["q50"].to_list())
    best = min(table["regret"])
    assert table["regret_ratio"].to_list() == pytest.approx([r / best for r in table["regret"]])


def test_a_policy_with_runaway_payments_has_no_mean() -> None:
    table = small(["no drift", "linear, l = 10"])
    greedy = table.filter(pl.col("policy") == "EpsilonGreedy(c=5)")
    assert greedy["stopped"].to_list() == [0.0, 1.0]
    assert greedy["regret"].is_null().to_list() == [False, True]
    assert greedy["regret_ratio"].is_null().to_list() == [False, True]


def test_numbers_depend_on_the_seed_alone() -> None:
    one = small(["no drift"], threads=1)
    assert small(["no drift"], threads=2).equals(one)
    assert not small(["no drift"], seed=8).equals(one)


def test_every_world_makes_a_valid_study() -> None:
    names = [world.name for world in WORLDS]
    assert len(set(names)) == len(names)
    for world in WORLDS:
        assert entice.Study(policies=default_policies(100), horizon=100, **world.settings)


def test_policies_that_know_the_horizon_have_that_of_the_atlas() -> None:
    found = {policy.horizon for policy in default_policies(500) if hasattr(policy, "horizon")}
    assert found == {500, None}  # None: the anytime version of equal pay


def test_a_world_with_a_probe_leaves_out_equal_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    probed = AtlasWorld(
        "probe", MappingProxyType(BY_NAME["no drift"].settings | {"probe": entice.Probe()})
    )
    policies = [entice.EqualPay(), entice.EpsilonGreedy(c=5)]

    def run_without_probe(studies: list[entice.Study], **settings: Any) -> list[entice.Result]:
        # With a probe, the policy would be compiled for this test alone.
        return run_each([replace(study, probe=None) for study in studies], **settings)

    module = import_module("entice.atlas.atlas")  # the package has a function of the same name
    monkeypatch.setattr(module, "run_each", run_without_probe)
    found = atlas([probed], policies, horizon=200, replications=2, seed=7, progress=False)
    left_out, greedy = found.table.iter_rows(named=True)
    assert [left_out["policy"], greedy["policy"]] == ["EqualPay", "EpsilonGreedy(c=5)"]
    assert left_out["stopped"] is left_out["regret"] is left_out["regret_ratio"] is None
    assert greedy["regret"] > 0
    assert found.plot().axes[0].texts[0].get_text() == "–"
    console = Console(record=True, width=80)
    print_atlas(found, console)
    assert "–" in console.export_text()
    with pytest.raises(entice.InputError, match="EqualPay, which compares ratings under equal"):
        atlas([probed], policies[:1])


def test_an_empty_list_of_worlds_is_rejected() -> None:
    with pytest.raises(entice.InputError, match="worlds must have at least one entry"):
        atlas([], TWO)


def test_the_figure_shows_every_cell() -> None:
    found = atlas(
        [BY_NAME["no drift"], BY_NAME["linear, l = 10"]], TWO, horizon=2_000, replications=20,
        seed=7, progress=False,
    )  # fmt: skip
    left, right = found.plot().axes
    for ax, metric in ((left, "regret"), (right, "compensation")):
        texts = [text.get_text() for text in ax.texts]
        assert len(texts) == 4
        assert texts[3] == "unbounded"
        assert texts[0].startswith(f"{found.table[metric][0]:,.0f}")


def test_the_command_prints_and_writes_the_atlas(
    run_entice: RunEntice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entice.atlas.worlds.WORLDS", [BY_NAME["linear, l = 10"]])
    monkeypatch.setattr("entice.atlas.worlds.default_policies", lambda horizon: TWO)
    ran = run_entice(
        "atlas", "--replications", "5", "--horizon", "500", "--seed", "7", "--out", "a"
    )
    assert ran.code == 0
    text = plain(ran.out)
    assert "linear, l = 10" in text
    assert "unbounded" in text
    assert "Seed 7, 5 runs of 500 rounds for each cell." in text
    assert {p.name for p in Path("a").iterdir()} == {"atlas.csv", "atlas.png"}
    assert pl.read_csv("a/atlas.csv").height == 2
    assert_error(run_entice("atlas", "--replications", "0"), "replications must be")
