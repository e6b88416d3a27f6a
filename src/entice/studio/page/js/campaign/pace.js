// The pacing curve: how the spending grew, and how fast it may.

import { draw, faded, token } from "../chart.js";
import { money, number } from "../format.js";

const POINTS = 120; // of the curve

/** Draw what was committed against the number of offers, and the limit that the pace sets. */
export function drawPace(node, view, log) {
  const { currency, budget, decisions } = view;
  const over = view.spec.pace_over;
  const unit = 10 ** digitsOf(currency);
  const end = lastOffer(decisions, over);
  const spent = [...log.spent, [decisions, view.committed]];
  const promised = view.committed + view.reserved;

  const traces = () => {
    const accent = token("--accent");
    const found = [
      {
        x: spent.map(([n]) => n),
        y: spent.map(([, amount]) => amount / unit),
        mode: "lines",
        line: { color: accent, width: 2.5, shape: "hv" },
        fill: "tozeroy",
        fillcolor: faded(accent, 0.12),
        name: "committed",
        hovertemplate: "offer %{x:,}<br>%{y:,.2f} committed<extra></extra>",
      },
      {
        x: [decisions],
        y: [promised / unit],
        mode: "markers",
        marker: { color: token("--surface"), size: 10, line: { color: accent, width: 2.5 } },
        hovertemplate: "now: %{y:,.2f}<br>committed and reserved<extra></extra>",
      },
    ];
    const [[first, amount]] = spent;
    if (first > 0)
      found.push({
        x: [0, first],
        y: [0, amount / unit],
        mode: "lines",
        line: { color: accent, width: 1.5, dash: "dot" },
        hoverinfo: "skip", // what lies between is not known here: the log is read back only so far
      });
    if (over) {
      const x = Array.from({ length: POINTS + 1 }, (_, i) => (end * i * i) / POINTS ** 2);
      found.push({
        x,
        y: x.map((n) => (budget * pacedShare(n, over)) / unit),
        mode: "lines",
        line: { color: token("--ink-soft"), width: 1.5, dash: "dash" },
        hovertemplate: "by offer %{x:,.0f}<br>at most %{y:,.2f}<extra></extra>",
      });
    }
    return found;
  };
  const top = over ? budget * pacedShare(end, over) : Math.max(promised * 1.25, 1);
  const layout = () => ({
    xaxis: { title: "Offers made", range: [0, end], nticks: 6, tickformat: ",d", showgrid: false },
    yaxis: {
      range: [0, (1.04 * top) / unit],
      nticks: 5,
      tickprefix: signOf(currency),
      tickformat: ",~r",
    },
    margin: { l: 52, r: 8, t: 6, b: 40 },
  });
  const limit = over ? `The pace allows ${money(view.paced, currency)} by now.` : "No pace is set.";
  return draw(node, traces, layout, {
    label: "Committed money by number of offers",
    text:
      `After ${number(decisions)} offers ${money(view.committed, currency)} is committed. ` +
      `${limit}`,
  });
}

/** The share of the budget that may be used by an offer: exploring is needed early. */
function pacedShare(offers, over) {
  return Math.min(1, Math.log1p(offers + 1) / Math.log1p(over));
}

/** How far to the right to draw: all of the pace, unless the campaign is at its very beginning. */
function lastOffer(decisions, over) {
  if (!over) return Math.max(20, decisions * 1.08);
  if (decisions > over) return decisions * 1.08;
  return decisions > over / 10 ? over : Math.min(over, Math.max(20, 4 * decisions));
}

function digitsOf(currency) {
  try {
    return new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions()
      .maximumFractionDigits;
  } catch {
    return 2; // as money() writes a currency of somebody's own
  }
}

function signOf(currency) {
  return money(0, currency).replace(/[\d.,\s].*$/, "");
}
