"""Pictures of gallery examples: figures that are shown, and animations that are written beside the example."""

import shutil
from pathlib import Path

from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

DPI = 160


def scrape(block, block_vars, gallery_conf):
    """Save the pictures that a block of code has made; return what shows them."""
    paths = []
    for animation in sorted(Path(block_vars["src_file"]).parent.glob("*.gif")):
        paths.append(str(Path(next(block_vars["image_path_iterator"])).with_suffix(".gif")))
        shutil.move(animation, paths[-1])
    shown = figure_rst(paths, gallery_conf["src_dir"], "Animation") if paths else ""
    return shown + matplotlib_scraper(block, block_vars, gallery_conf, dpi=DPI)


def _get_sg_image_scraper():
    return scrape
