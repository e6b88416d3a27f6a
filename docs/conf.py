"""Settings of Sphinx, for `make docs`. The built site loads nothing from other hosts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import entice

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ["DASK_LOGGING__DISTRIBUTED"] = "critical"  # the example on a cluster logs each step

project = "Entice"
author = "The Entice authors"
release = entice.__version__
html_title = "Entice"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "gallery_images",
    "generated_pages",
    "docstrings",
    "mathml",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_ext", "_templates", "gallery_sources", "**sg_execution_times.rst"]

# Markdown. Headings of three levels can be linked to, with GitHub's names of anchors.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings contain a class

# Docstrings are written as Markdown: single backticks mark code.
default_role = "code"
autosummary_generate = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_use_ivar = True
add_module_names = False
maximum_signature_line_length = 88

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "../src/entice/studio/page/icon.svg"
html_show_sphinx = html_show_copyright = False
html_copy_source = False
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
html_theme_options = {"source_repository": "", "navigation_with_keys": False}

html_math_renderer = "mathml"

sphinx_gallery_conf = {
    "examples_dirs": "gallery_sources",
    "gallery_dirs": "gallery",
    "image_scrapers": ("gallery_images.save_figure",),
    "capture_repr": (),
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 10_000,  # build times would differ from one build to the next
    "remove_config_comments": True,
    "download_all_examples": False,
    "plot_gallery": True,
}
