/** A small plot on a canvas: lines, steps, dots, bars and a heat map, with axes. */

import { superscript } from "../numbers.js";

const FONT = "11px system-ui, sans-serif";

export class Plot {
  constructor(canvas) {
    this.canvas = canvas;
  }

  /**
   * Draw a spec: {x: {min, max, log, label}, y: {min, max, log}, lines: [{x, y, color, dash, width, step}], dots, bars,
   * heat: {t, columns}, hlines: [{y, color}], vlines: [{x, color}], image: {size, values, bands, breaks}, empty: text}.
   */
  draw(spec, theme) {
    const box = this.canvas.getBoundingClientRect(), ratio = Math.min(2, globalThis.devicePixelRatio || 1);
    if (box.width < 10) return;
    const [width, height] = [Math.round(box.width), Math.round(box.height)];
    if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
    }
    const g = (this.context ??= this.canvas.getContext("2d", { willReadFrequently: true })); // kept in memory: quicker without a GPU
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = FONT;
    if (spec.empty) {
      g.fillStyle = theme.muted;
      g.textAlign = "center";
      wrap(g, spec.empty, width / 2, height / 2, width - 24);
      return;
    }
    if (spec.image) return drawImage(g, spec.image, width, height, theme);
    const area = { left: 32, top: 6, right: width - 8, bottom: height - 18 };
    const X = axis(spec.x, area.left, area.right), Y = axis(spec.y, area.bottom, area.top);
    if (spec.heat) drawHeat(g, spec, X, Y, theme);
    drawAxes(g, spec, area, X, Y, theme);
    g.save();
    g.beginPath();
    g.rect(area.left, area.top - 3, area.right - area.left, area.bottom - area.top + 4);
    g.clip();
    for (const { y, color } of spec.hlines ?? []) stroke(g, [[area.left, Y(y)], [area.right, Y(y)]], color, 1.4, [5, 4]);
    for (const { x, color } of spec.vlines ?? []) stroke(g, [[X(x), area.top], [X(x), area.bottom]], color, 1.4, [5, 4]);
    for (const { x, y, color, width: wide = 1 } of spec.bars ?? []) {
      g.fillStyle = color;
      g.globalAlpha = 0.4;
      g.fillRect(X(x - 0.36 * wide), Math.min(Y(y), Y(0)), X(x + 0.36 * wide) - X(x - 0.36 * wide), Math.abs(Y(y) - Y(0)));
      g.globalAlpha = 1;
    }
    for (const line of spec.lines ?? []) {
      const points = [];
      for (let k = 0; k < line.x.length; k++) {
        const px = X(line.x[k]), py = Y(line.y[k]);
        if (!Number.isFinite(px) || !Number.isFinite(py)) continue;
        if (line.step && points.length) points.push([px, points.at(-1)[1]]);
        points.push([px, py]);
      }
      stroke(g, points, line.color, line.width ?? 1.8, line.dash ?? []);
    }
    for (const { x, y, color, size = 3.2 } of spec.dots ?? []) {
      if (!Number.isFinite(y)) continue;
      g.fillStyle = color;
      g.beginPath();
      g.arc(X(x), Y(y), size, 0, 2 * Math.PI);
      g.fill();
    }
    g.restore();
  }
}

function axis({ min, max, log }, from, to) {
  if (log) {
    const [a, b] = [Math.log(min), Math.log(max)];
    return (v) => from + ((Math.log(Math.max(v, min * 1e-6)) - a) / (b - a || 1)) * (to - from);
  }
  return (v) => from + ((v - min) / (max - min || 1)) * (to - from);
}

function stroke(g, points, color, width, dash) {
  if (points.length < 2) return;
  g.strokeStyle = color;
  g.lineWidth = width;
  g.setLineDash(dash);
  g.beginPath();
  points.forEach(([x, y], k) => (k ? g.lineTo(x, y) : g.moveTo(x, y)));
  g.stroke();
  g.setLineDash([]);
}

function drawAxes(g, spec, area, X, Y, theme) {
  g.strokeStyle = theme.grid;
  g.fillStyle = theme.muted;
  g.lineWidth = 1;
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const value of ticks(spec.y, 4)) {
    const y = Math.round(Y(value)) + 0.5;
    if (!spec.heat) line(g, area.left, y, area.right, y);
    g.fillText(label(value), area.left - 4, y);
  }
  g.textBaseline = "top";
  g.textAlign = "center";
  for (const value of ticks(spec.x, 4)) {
    const x = Math.round(X(value)) + 0.5;
    line(g, x, area.bottom, x, area.bottom + 3);
    if (x < area.right - 18) g.fillText(label(value), x, area.bottom + 4);
  }
  g.textAlign = "right";
  g.fillText(spec.x.label ?? "t", area.right, area.bottom + 4);
  g.strokeRect(area.left + 0.5, area.top + 0.5, area.right - area.left - 1, area.bottom - area.top - 1);
}

function line(g, x0, y0, x1, y1) {
  g.beginPath();
  g.moveTo(x0, y0);
  g.lineTo(x1, y1);
  g.stroke();
}

/** Return round numbers in the range of an axis. */
export function ticks({ min, max, log, whole }, count) {
  const found = [];
  if (log) {
    const [low, high] = [Math.ceil(Math.log10(min) - 1e-9), Math.floor(Math.log10(max) + 1e-9)];
    const step = Math.max(1, Math.ceil((high - low) / count));
    for (let p = low; p <= high; p += step) found.push(10 ** p);
    return found;
  }
  const rough = (max - min) / count, power = 10 ** Math.floor(Math.log10(rough || 1));
  let step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? power;
  if (whole) step = Math.max(1, Math.round(step));
  for (let v = Math.ceil(min / step) * step; v <= max + 1e-9 * step; v += step) found.push(Math.abs(v) < 1e-12 * step ? 0 : v);
  return found;
}

function label(value) {
  if (value !== 0 && (Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3)) return `10${superscript(Math.round(Math.log10(Math.abs(value))))}`;
  return String(Number(value.toPrecision(3)));
}

/** Columns of numbers from 0 to 1 over time, as shades: one column of pixels a time, over the range of `spec.y` up to `heat.top`. */
function drawHeat(g, { x: { min: first }, y, heat: { t, columns, top = y.max } }, X, Y, theme) {
  const left = Math.round(X(Math.max(first, t[0] ?? 0))), right = Math.round(X(t.at(-1) ?? 0)), width = Math.max(1, right - left);
  const bins = columns.find(Boolean)?.length;
  if (!bins) return;
  const pixels = new ImageData(width, bins), color = theme.dark ? [86, 180, 233] : [0, 90, 150];
  for (let px = 0, k = 0; px < width; px++) {
    while (k + 1 < t.length && X(t[k + 1]) <= left + px) k++;
    if (!columns[k]) continue;
    for (let i = 0; i < bins; i++) {
      const share = columns[k][i], at = 4 * ((bins - 1 - i) * width + px);
      for (let c = 0; c < 3; c++) pixels.data[at + c] = color[c];
      pixels.data[at + 3] = share > 0 ? 255 * Math.min(1, 0.06 + 1.1 * Math.sqrt(share)) : 0;
    }
  }
  g.imageSmoothingEnabled = false;
  g.drawImage(small(pixels), left, Y(top), width, Y(y.min) - Y(top));
}

function small(pixels) {
  const canvas = document.createElement("canvas");
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  canvas.getContext("2d", { willReadFrequently: true }).putImageData(pixels, 0, 0);
  return canvas;
}

const BAND = 7; // pixels of the colors beside a matrix, with the gap

/** A square matrix of numbers from 0 to 1 as shades, with lines between groups and their colors at two sides. */
function drawImage(g, { size, values, bands, breaks }, width, height, theme) {
  const side = Math.min(width, height) - 8 - BAND, left = (width - side + BAND) / 2, top = (height - side + BAND) / 2;
  const pixels = new ImageData(size, size), dark = theme.dark;
  for (let k = 0; k < size * size; k++) {
    const v = Math.min(1, Math.max(0, values[k]));
    const [a, b] = dark ? [[16, 22, 29], [140, 210, 255]] : [[255, 255, 255], [0, 60, 115]];
    for (let c = 0; c < 3; c++) pixels.data[4 * k + c] = a[c] + v * (b[c] - a[c]);
    pixels.data[4 * k + 3] = 255;
  }
  g.imageSmoothingEnabled = false;
  g.drawImage(small(pixels), left, top, side, side);
  g.strokeStyle = theme.grid;
  g.lineWidth = 1;
  g.strokeRect(left - 0.5, top - 0.5, side + 1, side + 1);
  g.strokeStyle = theme.theory;
  g.globalAlpha = 0.3;
  for (const at of breaks) {
    const p = (at / size) * side;
    line(g, left, top + p, left + side, top + p);
    line(g, left + p, top, left + p, top + side);
  }
  g.globalAlpha = 1;
  bands?.forEach((color, k) => {
    const [from, to] = [Math.round((k / size) * side), Math.round(((k + 1) / size) * side)];
    g.fillStyle = `rgb(${color.map((c) => Math.round(255 * c)).join(",")})`;
    g.fillRect(left + from, top - BAND, to - from, BAND - 3);
    g.fillRect(left - BAND, top + from, BAND - 3, to - from);
  });
}

function wrap(g, text, x, y, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (g.measureText(`${lines.at(-1)} ${word}`).width > width) lines.push(word);
    else lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  g.textBaseline = "middle";
  lines.forEach((each, k) => g.fillText(each, x, y + 15 * (k - (lines.length - 1) / 2)));
}
