"""The picture of a gallery example: the figure that its last line returns, as in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image, ImageOps
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

THUMBNAIL = (480, 336)
"""Pixels of a thumbnail."""
AFTER_GALLERY = 900


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


def _crop_thumbnails(app: Sphinx) -> None:
    """Replace sphinx-gallery's thumbnails, in which a row of panels is too small to be read.

    Of a wider figure the left part is shown, which is its first panel; others are shown whole.
    """
    images = Path(app.srcdir) / "gallery" / "images"
    width, height = THUMBNAIL
    for path in images.glob("*_001.png"):
        with Image.open(path) as figure:
            picture = figure.convert("RGB")
        if picture.width * height > width * picture.height:
            picture = picture.crop((0, 0, picture.height * width // height, picture.height))
        name = path.name.replace("_001.png", "_thumb.png")
        ImageOps.pad(picture, THUMBNAIL, color="white").save(images / "thumb" / name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Crop the thumbnails once the examples have run."""
    app.connect("builder-inited", _crop_thumbnails, priority=AFTER_GALLERY)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
