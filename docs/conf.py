"""Settings of the documentation site. `make docs` builds it, without a network, into docs/_build/html."""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import api_pages  # noqa: E402

import tokenfield  # noqa: E402
from tokenfield.explorer import export_page  # noqa: E402

project = "tokenfield"
author = "The tokenfield developers"
copyright = author
version = release = tokenfield.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "sphinx_copybutton",
    "sphinx_design",
    "docstrings",
    "checked",
    "claims_page",
    "test_pages",
    "config_keys",
    "commands",
]
exclude_patterns = [
    "_build",
    "_ext",
    "_templates",
    "_static",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.md5",
]
templates_path = ["_templates"]
language = "en"
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!tokenfield).*")]  # other projects have no pages here
suppress_warnings = ["config.cache"]  # functions among the settings of the gallery cannot be pickled

# Pages: Markdown with mathematics.
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist", "smartquotes"]
myst_heading_anchors = 3
myst_number_code_blocks = []
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Mathematics: one file of MathJax, from a package. It draws with paths, so no font is loaded, from files neither.
MATHJAX = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax" / "tex-svg.js"
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {
    "svg": {"fontCache": "global"},
    "options": {"enableMenu": False},
    "tex": {
        "macros": {
            "R": r"\mathbb{R}",
            "S": r"\mathbb{S}",
            "E": r"\mathbb{E}",
            "d": r"\mathrm{d}",
            "inner": [r"\langle #1, #2\rangle", 2],
            "norm": [r"\lvert #1\rvert", 1],
            "Tr": r"\operatorname{tr}",
            "Cov": r"\operatorname{Cov}",
            "Var": r"\operatorname{Var}",
            "N": r"\operatorname{N}",
            "P": r"\mathsf{P}",
        }
    },
}

# Reference of the package: pages made from its lists of names, text from docstrings.
api_pages.write(HERE / "api")
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
add_module_names = False
toc_object_entries = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_attr_annotations = False
default_role = "name_or_code"

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("tokenfield",),
    "reference_url": {"tokenfield": None},
    "image_scrapers": ("figures",),
    "capture_repr": ("_repr_html_",),
    "matplotlib_animations": True,
    "remove_config_comments": True,
    "write_computation_times": False,  # that page would fetch scripts from outside
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 30,
    "plot_gallery": "True",
    "download_all_examples": True,
    "parallel": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "tokenfield"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "explore": [], "comparison": [], "architecture": []}
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "tokenfield"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
    "back_to_top_button": True,
}


def copy_mathjax(app, error):
    """Put the one file of MathJax that pages use into the site."""
    if error is None and app.builder.format == "html":
        target = Path(app.outdir, "_static", mathjax_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(MATHJAX.read_bytes())


def write_live_page(app, error):
    """Put the live page into the site as one file. The page "explore" shows it in a frame."""
    if error is None and app.builder.format == "html":
        export_page(Path(app.outdir, "live.html"), docs="theory/")


def setup(app):
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", write_live_page)
