"""An animation as an HTML page: an image of what does not move, and a canvas with the tokens. One file, no network."""

import base64
import io
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from .style import Sheet

if TYPE_CHECKING:
    from .animation import Scene

SHARP = 2  # image pixels per page pixel
TYPE = {"\\mathbb{R}": "R", "\\log_{10}": "log10", "\\theta": "θ", "$": "", "^{": "^", "}": "", "\n": ", "}
STEPS = 65535  # positions are stored in 16 bits

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>@TITLE@</title>
<style>
body { margin: 0; background: #fff; color: #1f2328; font: 16px/1.5 system-ui, "Liberation Sans", Arial, sans-serif; }
main { max-width: @WIDTH@px; margin: 0 auto; padding: .5rem; }
.stage { position: relative; }
.stage img, .stage canvas { display: block; width: 100%; height: auto; }
.stage canvas { position: absolute; inset: 0; }
.bar { display: flex; gap: .6rem; align-items: center; }
.bar input { flex: 1; min-width: 0; }
button { min-width: 5rem; font: inherit; padding: .2rem .8rem; }
output { font-variant-numeric: tabular-nums; min-width: 9rem; text-align: right; }
@media (prefers-color-scheme: dark) {
  body { background: #14181d; color: #e6e8eb; }
  .stage { background: #fff; border-radius: 6px; }
}
</style>
</head>
<body>
<main>
<div class="stage"><img alt="@TITLE@" src="data:image/png;base64,@PICTURE@"><canvas aria-hidden="true"></canvas></div>
<div class="bar">
<button type="button">play</button>
<input type="range" min="0" max="0" value="0" aria-label="frame">
<output></output>
</div>
</main>
<script>
"use strict";
const run = @DATA@;
const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer;
const places = new Uint16Array(bytes(run.places)), radii = new Float32Array(bytes(run.radii));
const behind = new Uint8Array(bytes(run.behind));
const canvas = document.querySelector("canvas"), context = canvas.getContext("2d");
const button = document.querySelector("button"), slider = document.querySelector("input");
const clock = document.querySelector("output"), n = run.colors.length, last = run.times.length - 1;
canvas.width = run.sharp * run.width;
canvas.height = run.sharp * run.height;
context.scale(run.sharp, run.sharp);
slider.max = last;
const x = (k, i) => run.left + places[2 * (k * n + i)] * run.across;
const y = (k, i) => run.top + places[2 * (k * n + i) + 1] * run.down;

function draw(k) {
  context.clearRect(0, 0, run.width, run.height);
  context.lineWidth = 1;
  for (let i = 0; i < n; i++) {
    context.globalAlpha = behind[k * n + i] ? 0.1 : 0.35;
    context.strokeStyle = run.colors[i];
    context.beginPath();
    for (let j = Math.max(0, k - run.tail); j <= k; j++) context.lineTo(x(j, i), y(j, i));
    context.stroke();
  }
  for (const hidden of [1, 0]) {
    context.globalAlpha = hidden ? 0.3 : 1;
    for (let i = 0; i < n; i++) {
      if (behind[k * n + i] !== hidden) continue;
      context.fillStyle = run.colors[i];
      context.beginPath();
      context.arc(x(k, i), y(k, i), radii[k * n + i], 0, 2 * Math.PI);
      context.fill();
    }
  }
  slider.value = k;
  clock.textContent = run.times[k];
}

let playing = false, begun = 0, from = 0;
function step(now) {
  if (!playing) return;
  const k = Math.min(last, from + Math.floor((now - begun) * run.fps / 1000));
  draw(k);
  if (k < last) requestAnimationFrame(step);
  else toggle(false);
}
function toggle(on) {
  playing = on;
  button.textContent = on ? "pause" : "play";
  if (!on) return;
  from = Number(slider.value) >= last ? 0 : Number(slider.value);
  begun = performance.now();
  requestAnimationFrame(step);
}
button.addEventListener("click", () => toggle(!playing));
slider.addEventListener("input", () => { toggle(false); draw(Number(slider.value)); });
draw(0);
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) toggle(true);
</script>
</body>
</html>
"""


def write_player(path: Path, sheet: Sheet, ax: Axes, scene: "Scene", fps: float, tail: int) -> None:
    """Write the page; `tail` is the length of the tail of a token, in frames."""
    picture = io.BytesIO()
    sheet.savefig(picture, format="png", dpi=SHARP * sheet.dpi)  # it also lays out the figure
    width, height = (sheet.get_size_inches() * sheet.dpi).round().astype(int)
    pixels = ax.transData.transform(scene.view.points.reshape(-1, 2)) * [1, -1] + [0, height]
    low, span = pixels.min(axis=0), np.maximum(np.ptp(pixels, axis=0), 1e-9)
    places = ((pixels - low) / span * STEPS).round().astype("<u2")
    radii = np.sqrt(scene.sizes / np.pi) * sheet.dpi / 72
    behind = (scene.view.depth < 0) & (scene.view.kind == "sphere")
    data = {
        "width": int(width),
        "height": int(height),
        "sharp": SHARP,
        "left": low[0],
        "top": low[1],
        "across": span[0] / STEPS,
        "down": span[1] / STEPS,
        "fps": fps,
        "tail": tail,
        "colors": ["#" + "".join(f"{round(255 * part):02x}" for part in color[:3]) for color in scene.colors],
        "times": [_plain(time) for time in scene.times],
        "places": _text(places),
        "radii": _text(radii.astype("<f4")),
        "behind": _text(behind.astype(np.uint8)),
    }
    filled = {
        "@TITLE@": escape(_plain(scene.title)),
        "@WIDTH@": str(2 * int(width)),
        "@PICTURE@": base64.b64encode(picture.getvalue()).decode(),
        "@DATA@": json.dumps(data).replace("<", "\\u003c"),
    }
    page = PAGE
    for mark, value in filled.items():
        page = page.replace(mark, value)
    path.write_text(page, encoding="utf-8")


def _plain(text: str) -> str:
    """Return a label without TeX markup."""
    for mark, plain in (
        ("\\mathbb{R}", "R"),
        ("\\log_{10}", "log10"),
        ("\\theta", "θ"),
        ("$", ""),
        ("^{", "^"),
        ("}", ""),
        ("\n", ", "),
    ):
        text = text.replace(mark, plain)
    return text


def _text(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
