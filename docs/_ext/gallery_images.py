"""The picture of a gallery example: the figure that its last line returns, as in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst


def save_figure(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the value of the block's last expression if it is a figure; return its directive.

    sphinx-gallery's own scraper finds figures of pyplot only, and a `Result` does not use it.
    """
    figure = block_vars["example_globals"].get("___")
    if not hasattr(figure, "savefig"):
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=120, bbox_inches="tight")
    title = Path(block_vars["src_file"]).read_text().split("\n")[1]
    return str(figure_rst([path], gallery_conf["src_dir"], f"Figure: {title}"))
