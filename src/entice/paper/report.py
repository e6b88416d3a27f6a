"""The report of a reproduction: one self-contained HTML page."""

from __future__ import annotations

import base64
import html
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import polars as pl

import entice
from entice.paper.setups import COEFFICIENTS, NAMES, SETUPS
from entice.paper.terminal import METRIC_NAMES, SETUP_NAMES
from entice.study.results.table import format_number

if TYPE_CHECKING:
    from entice.paper.reproduce import Reproduction


_FITS = {"written": "as written", "published": "best fit"}


def write_report(reproduction: Reproduction, out: Path) -> None:
    """Write report.html from the figures in `out` and the numbers of a reproduction."""
    template = Template((files("entice.paper") / "report.html").read_text(encoding="utf-8"))
    page = template.substitute(
        _numbers(reproduction),
        coverage=_coverage(reproduction.coverage),
        beyond=_beyond(reproduction),
        table1=_table(reproduction.table1),
        table2=_table(reproduction.table2),
        version=entice.__version__,
        **{name: _image(out / f"{name}.svg") for name in ("fig2", "fig3", "explained", "lock_in")},
    )
    (out / "report.html").write_text(page, encoding="utf-8")


def _numbers(reproduction: Reproduction) -> dict[str, str]:
    """Return the numbers of the running text, all measured in this run."""
    rows = pl.concat([reproduction.table1, reproduction.table2])

    def cell(policy: str, setup: str, l: float, metric: str = "regret") -> dict[str, Any]:
        return rows.filter(policy=policy, setup=setup, l=l, metric=metric).row(0, named=True)

    covered = {
        (r["policy"], r["setup"]): f"{r['inside']} of {r['published']}"
        for r in reproduction.coverage.iter_rows(named=True)
    }
    ts_0, ts_11 = (cell("thompson_sampling", "written", l) for l in (0.0, 1.1))
    n_0, n_11 = (
        cell("thompson_sampling", "written", l, "compensated_pulls")["mean"] for l in (0.0, 1.1)
    )
    std_0 = cell("thompson_sampling", "published", 0.0)
    eps, eps_11 = (cell("epsilon_greedy", "written", l) for l in (0.0, 1.1))
    greedy = reproduction.greedy.row(0, named=True)
    equal_pay = reproduction.equal_pay.row(0, named=True)
    numbers: dict[str, float] = {
        "ts_0": ts_0["mean"], "ts_11": ts_11["mean"], "ts_horizon": ts_0["horizon"],
        "ts_low": ts_0["q05"], "ts_published": ts_0["published"],
        "std_median": std_0["q50"], "std_mean": std_0["mean"], "std_high": std_0["q95"],
        "std_horizon": std_0["horizon"],
        "eps_median": eps["q50"], "eps_mean": eps["mean"], "eps_high": eps["q95"],
        "eps_low": eps["q05"], "eps_11_median": eps_11["q50"], "eps_11_mean": eps_11["mean"],
        "greedy_mean": greedy["mean"], "greedy_high": greedy["q95"],
        "greedy_horizon": greedy["horizon"],
        "ucb_written_horizon": cell("ucb", "written", 0.0)["horizon"],
        "ucb_published_horizon": cell("ucb", "published", 0.0)["horizon"],
        "replications": reproduction.replications,
    }  # fmt: skip
    return {
        **{name: f"{value:,.0f}" for name, value in numbers.items()},
        "command": reproduce_command(reproduction),
        "notice": _notice(reproduction),
        "equal_pay_runs": f"{equal_pay['runs']:,}",
        "equal_pay_unchanged": f"{100 * equal_pay['unchanged']:.0f}",
        "count_growth": f"{n_11 / n_0:.1f}" if n_0 > 0 else "many",
        "greedy_best": f"{100 * greedy['stuck_on_0.9']:.0f}",
        "greedy_third": f"{100 * greedy['stuck_on_0.6']:.0f}",
        **{f"covered_{p}_{s}": count for (p, s), count in covered.items()},
    }


def reproduce_command(reproduction: Reproduction) -> str:
    """Return the command that repeats a reproduction."""
    command = (
        f"entice reproduce --replications {reproduction.replications} --seed {reproduction.seed}"
    )
    if reproduction.horizon is not None:
        command += f" --horizon {reproduction.horizon}"
    return command


def _notice(reproduction: Reproduction) -> str:
    if reproduction.horizon is None:
        return ""
    return (
        f"<p class='notice'>All runs on this page have {reproduction.horizon:,} rounds, as set by "
        "--horizon. The published numbers come from longer runs, so the comparison only shows how "
        "the page works.</p>"
    )


def _coverage(coverage: pl.DataFrame) -> str:
    descriptions = {(s.policy, s.name): s.description for s in SETUPS}
    lines = []
    for row in coverage.iter_rows(named=True):
        share = row["inside"] / row["published"]
        setup = f"{descriptions[row['policy'], row['setup']]}, {row['horizon']:,} rounds"
        lines.append(
            f"<tr><th scope='row'>{NAMES[row['policy']]}</th>"
            f"<td class='number'>{row['inside']} of {row['published']}</td>"
            f"<td class='meter'><span style='--share:{share:.3f}'></span></td>"
            f"<td>{_FITS[row['setup']]}</td><td>{html.escape(setup)}</td></tr>"
        )
    return "\n".join(lines)


def _beyond(reproduction: Reproduction) -> str:
    """Return a row for each of the paper's policies and one for equal pay: regret, compensation."""
    rows = reproduction.table1.filter(setup="written")
    named = [(name, rows.filter(policy=policy)) for policy, name in NAMES.items()]
    named.append(("Equal pay, not from the paper", reproduction.equal_pay))
    lines = []
    for name, found in named:
        means = [
            found.filter(l=l, metric=metric)["mean"].item()
            for metric in ("regret", "compensation")
            for l in (0.0, 1.1)
        ]
        cells = "".join(f"<td class='number'>{format_number(mean)}</td>" for mean in means)
        lines.append(f"<tr><th scope='row'>{name}</th>{cells}</tr>")
    return "\n".join(lines)


def _table(rows: pl.DataFrame) -> str:
    lines = []
    for policy, name in NAMES.items():
        for metric in rows["metric"].unique(maintain_order=True):
            of_metric = rows.filter(policy=policy, metric=metric)
            printed = of_metric.filter(setup="written").sort("l")["published"]
            lines.append(
                f"<tr class='printed'><th scope='row'>{name}: {METRIC_NAMES[metric]}</th>"
                + "".join(f"<td class='number'>{v:,g}</td>" for v in printed)
                + "</tr>"
            )
            for setup in ("written", "published"):
                cells = of_metric.filter(setup=setup).sort("l").iter_rows(named=True)
                lines.append(
                    f"<tr><th scope='row' class='ours'>{SETUP_NAMES[setup]}</th>"
                    + "".join(map(_cell, cells))
                    + "</tr>"
                )
    head = "".join(f"<th scope='col'>l = {l:g}</th>" for l in COEFFICIENTS)
    return f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"


def _cell(row: dict[str, Any]) -> str:
    kind = "inside" if row["inside"] else "outside"
    title = (
        f"mean {format_number(row['mean'])} ± {row['stderr']:.2g} (standard error); the published "
        f"{row['published']:,g} is {kind} the range of one run"
    )
    return (
        f"<td class='number {kind}' title='{title}'>{format_number(row['q50'])}"
        f"<small>{format_number(row['q05'])}–{format_number(row['q95'])}</small></td>"
    )


def _image(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
