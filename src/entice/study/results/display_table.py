"""Tables of numbers for notebooks (HTML) and papers (LaTeX)."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "η": "eta",
    "θ": "theta", "κ": "kappa", "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma",
    "τ": "tau", "φ": "varphi", "ω": "omega", "Δ": "Delta",
}  # fmt: skip
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    **{letter: rf"$\{name}$" for letter, name in _GREEK.items()},
    "≈": r"$\approx$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "\n": " ",
}
"""Characters that LaTeX reads as commands, or that its usual fonts do not have."""


class DisplayTable(NamedTuple):
    """A table as text: the first column has labels, the others numbers."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    """A row with a single cell is the heading of the rows below it. A cell may have two lines."""

    def to_html(self) -> str:
        """Return an HTML table without scripts, which takes its colours from the page."""
        head = "".join(_cell(text, "th", i) for i, text in enumerate(self.header))
        body = "".join(f"<tr>{self._html_row(row)}</tr>" for row in self.rows)
        caption = f"<caption style='text-align:left'>{html.escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _html_row(self, row: Sequence[str]) -> str:
        if len(row) > 1:
            return "".join(_cell(text, "td" if i else "th", i) for i, text in enumerate(row))
        span, text = len(self.header), html.escape(row[0])
        return f"<th colspan='{span}' style='text-align:left;padding:0 0.5em'>{text}</th>"

    def to_latex(self) -> str:
        """Return a `table` for a paper's column; it requires the package booktabs."""
        columns = len(self.header)
        layout = rf"@{{\extracolsep{{\fill}}}}l{'r' * (columns - 1)}@{{}}"
        lines = [
            r"\begin{table}[t]",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}\setlength{\abovetopsep}{3pt}",
            rf"\caption{{{escape_latex(self.caption)}}}",
            rf"\begin{{tabular*}}{{\columnwidth}}{{{layout}}}",
            r"\toprule",
            _latex_row(self.header),
            r"\midrule",
        ]
        for i, row in enumerate(self.rows):
            if len(row) > 1:
                lines += [_latex_row(line) for line in _split_lines(row)]
            else:
                heading = rf"\multicolumn{{{columns}}}{{@{{}}l}}{{{escape_latex(row[0])}}} \\"
                lines += [r"\addlinespace"] * (i > 0) + [heading]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular*}", r"\end{table}", ""])


def escape_latex(text: str) -> str:
    r"""Return a text with LaTeX's special characters escaped.

    >>> from entice.study.results.display_table import escape_latex
    >>> escape_latex("ε-greedy, 5 %: 1,234 ± 2")
    '$\\varepsilon$-greedy, 5 \\%: 1{,}234 $\\pm$ 2'
    """
    grouped = re.sub(r"(?<=\d),(?=\d{3})", "\0", text)  # a thousands separator, without a space
    return "".join(_LATEX.get(character, character) for character in grouped).replace("\0", "{,}")


def _cell(text: str, tag: str, column: int) -> str:
    side = "right" if column else "left"
    content = html.escape(text).replace("\n", "<br>")
    return f"<{tag} style='text-align:{side};padding:0 0.5em'>{content}</{tag}>"


def _latex_row(cells: Sequence[str]) -> str:
    line = " & ".join(map(escape_latex, cells)) + r" \\"
    # At the start of a row, these two would be arguments of the line break before it.
    return "{}" + line if line.startswith(("[", "*")) else line


def _split_lines(row: Sequence[str]) -> list[list[str]]:
    """Return the lines of a row as rows of their own; the label is on the first."""
    split = [cell.split("\n") for cell in row]
    return [
        [lines[i] if i < len(lines) else "" for lines in split] for i in range(max(map(len, split)))
    ]
