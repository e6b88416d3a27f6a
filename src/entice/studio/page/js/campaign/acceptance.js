// The learned price: how many visitors accept each price of the grid, and the price now paid.

import { draw, token, withAlpha } from "../chart.js";
import { h, replace, setText } from "../dom.js";
import { nonBreaking, number, percent, stars } from "../format.js";
import { defined } from "../glossary.js";
import { fact } from "../layout.js";
import { major, money } from "../money.js";
import { pictureButtons } from "../report.js";

const TICK_EVERY = 4; // prices of the grid

/** Make a panel. Returns its node and a function that updates it. */
export function acceptancePanel() {
  const sentence = h("p");
  const facts = h("dl.facts");
  const chart = h("div.chart.acceptance-chart");
  const key = h("p.note");
  const title = () => "Share of visitors who accept each price";
  const tools = pictureButtons("learned-price", () => csvRows(found), { node: chart, title });
  const head = h("div.picture-head", facts, tools);
  let found = null;
  return {
    node: h("div.stack.acceptance", sentence, head, chart, key),
    update(next) {
      if (JSON.stringify(next) === JSON.stringify(found)) return;
      found = next;
      const hasAnswers = found.prices.some(({ answers }) => answers > 0);
      chart.hidden = tools.hidden = key.hidden = !hasAnswers;
      setText(sentence, nonBreaking(found.sentence));
      replace(facts, factsOf(found));
      if (!hasAnswers) return;
      setText(key, keyText(found));
      return drawCurve(chart, found);
    },
  };
}

function factsOf(found) {
  const { acceptance, explore, learned_price: price, learned_amount: amount, prices } = found;
  const answers = prices.reduce((sum, point) => sum + point.answers, 0);
  const now = price === null ? "The gap" : `${money(amount, found)} (${stars(price)})`;
  return [
    fact(defined("learned", "Price now paid"), now),
    fact("Wanted acceptance", percent(acceptance)),
    fact("Random prices", percent(explore)),
    fact("Answers", number(answers)),
  ];
}

function keyText({ acceptance, learned_price: price }) {
  const now = price === null ? "" : " Vertical line: the price now paid.";
  return (
    "Line: estimated share who accept, which never falls as the price rises. Rings: the answers at " +
    `each price alone. Dashed: the wanted ${percent(acceptance)}.${now} Bars: answers.`
  );
}

function csvRows(found) {
  return [
    ["stars", "amount", "answers", "accepted", "estimate", "currency"],
    ...found.prices.map(({ price, amount, answers, accepted, estimate }) => [
      price,
      major(amount, found),
      answers,
      accepted,
      estimate,
      found.currency,
    ]),
  ];
}

/** The grid is geometric, so equal steps of the axis are equal ratios of prices. */
function drawCurve(node, found) {
  const { prices, acceptance, learned_price: price } = found;
  const x = prices.map((_, i) => i);
  const answered = x.filter((i) => prices[i].answers > 0);
  const known = x.filter((i) => prices[i].estimate !== null);
  const amount = (i) => money(prices[i].amount, found);
  const most = Math.max(...prices.map(({ answers }) => answers));
  const traces = () => [
    {
      x: known,
      y: known.map((i) => prices[i].estimate),
      customdata: known.map((i) => [amount(i), percent(prices[i].estimate)]),
      mode: "lines",
      name: "estimated share who accept",
      line: { color: token("--accent"), width: 2.5 },
      hovertemplate: "%{customdata[0]}: about %{customdata[1]} accept<extra></extra>",
    },
    {
      x: answered,
      y: answered.map((i) => prices[i].accepted / prices[i].answers),
      customdata: answered.map((i) => [amount(i), prices[i].accepted, prices[i].answers]),
      mode: "markers",
      name: "answers at this price alone",
      marker: { size: 8, color: token("--surface"), line: { color: token("--accent"), width: 2 } },
      hovertemplate:
        "%{customdata[0]}: %{customdata[1]} of %{customdata[2]} accepted<extra></extra>",
    },
    {
      x,
      y: prices.map(({ answers }) => answers),
      customdata: x.map(amount),
      type: "bar",
      yaxis: "y2",
      name: "answers",
      marker: { color: withAlpha(token("--accent"), 0.45) },
      hovertemplate: "%{customdata}: %{y:,d} answers<extra></extra>",
    },
  ];
  const layout = () => {
    const wanted = { color: token("--ink-soft"), width: 1.5, dash: "dash" };
    const chosen = prices.findIndex((point) => point.price === price);
    const across = { type: "line", xref: "paper", x0: 0, x1: 1, y0: acceptance, y1: acceptance };
    const down = { type: "line", yref: "paper", x0: chosen, x1: chosen, y0: 0, y1: 1 };
    const ticks = x.filter((i) => i % TICK_EVERY === TICK_EVERY - 1);
    return {
      xaxis: {
        title: "Price",
        range: [-0.6, x.length - 0.4],
        tickvals: ticks,
        ticktext: ticks.map(amount),
        showgrid: false,
        zeroline: false,
        anchor: "y2",
      },
      yaxis: { title: "Accept", range: [-0.05, 1.06], tickformat: ".0%", domain: [0.38, 1] },
      yaxis2: { title: "Answers", range: [0, 1.1 * most], nticks: 3, domain: [0, 0.26] },
      shapes: [
        { ...across, line: wanted },
        ...(chosen < 0 ? [] : [{ ...down, line: { color: token("--ink"), width: 1.5 } }]),
      ],
    };
  };
  return draw(node, traces, layout, {
    label: "Share of visitors who accept each price",
    text: found.sentence,
  });
}
