/**
 * A Gaussian, by its first two coordinates: ellipses in the plane, and the path of the covariance in the cone of covariances.
 * ((a, c), (c, b)) is the point (a − b, 2c, a + b) of the cone x² + y² ≤ z²; those of rank one are its surface.
 */

import { axesOf, conePoint } from "../covariance.js";

const MOST_POINTS = 600; // of a path
const GLYPH = 11, GLYPH_STEP = 34; // pixels: half the largest ellipse on the path, and between two of them
const GHOST_STEP = 26; // pixels between two past ellipses
const STEPS = 72;

/** Add [point of the cone, mean] of a frame to a path, flat; every second one is dropped when there are many. */
export function follow(path, frame) {
  const point = [...conePoint(frame), frame.x[0], frame.x[1]];
  if (frame.d < 2 || !point.every(Number.isFinite)) return path;
  path.push(point);
  return path.length > MOST_POINTS ? path.filter((_, k) => k % 2 === 0 || k === path.length - 1) : path;
}

/** Draw a Gaussian into a scene: the plane at the left, the cone at the right. */
export function drawGaussian(scene, { cx, cy, radius, width }, frame, path, theme) {
  if (frame.d < 2) return;
  const [plane, cone] = [-1, 1].map((side) => ({ cx: cx + (side * width) / 4, cy, radius: Math.min(radius, 0.23 * width) }));
  drawPlane(scene, plane, frame, path, theme);
  drawCone(scene, cone, frame, path, theme);
  scene.bottom = cy + plane.radius;
}

function ellipse(scene, cx, cy, { big, small, turn }, scale, width, color, alpha) {
  const at = (k) => {
    const u = scale * big * Math.cos(k), v = scale * small * Math.sin(k);
    return [cx + u * Math.cos(turn) - v * Math.sin(turn), cy - u * Math.sin(turn) - v * Math.cos(turn)];
  };
  for (let k = 0; k < STEPS; k++) scene.line(...at((2 * Math.PI * k) / STEPS), ...at((2 * Math.PI * (k + 1)) / STEPS), width, color, alpha);
}

/** The path of the mean with ellipses on it, and the ellipses of one and two standard deviations, in a view that holds them all. */
function drawPlane(scene, { cx, cy, radius }, frame, path, theme) {
  const now = [...conePoint(frame), frame.x[0], frame.x[1]], wire = theme.wire.slice(0, 3), boxes = [now, ...path].map(([a, b, c, x, y]) => [x, y, 2 * axesOf([a, b, c]).big]);
  const [left, low] = [0, 1].map((k) => Math.min(0, ...boxes.map((box) => box[k] - box[2]))), [right, high] = [0, 1].map((k) => Math.max(0, ...boxes.map((box) => box[k] + box[2])));
  const scale = (2 * radius) / Math.max(right - left, high - low, 1e-12), at = (x, y) => [cx + scale * (x - (left + right) / 2), cy - scale * (y - (low + high) / 2)];
  const [ox, oy] = at(0, 0);
  scene.line(cx - radius, oy, cx + radius, oy, 1, wire, 0.5);
  scene.line(ox, cy - radius, ox, cy + radius, 1, wire, 0.5);
  let before = null, shown = null;
  for (const [a, b, c, x, y] of path) {
    const [px, py] = at(x, y), past = axesOf([a, b, c]);
    if (before) scene.line(...before, px, py, 1.6, theme.palette[3], 0.8);
    before = [px, py];
    if (shown && Math.hypot(px - shown.px, py - shown.py) + 2 * scale * Math.abs(past.big - shown.big) < GHOST_STEP) continue;
    shown = { px, py, big: past.big };
    ellipse(scene, px, py, past, scale, 1, theme.palette[0], 0.22);
  }
  const axes = axesOf(now), [mx, my] = at(now[3], now[4]);
  for (const size of [1, 2]) ellipse(scene, mx, my, axes, size * scale, 2, theme.palette[0], size === 1 ? 0.95 : 0.4);
  scene.point(mx, my, 4, theme.palette[3], 1);
}

/** The cone as high as the largest trace of the path, the path, and small ellipses of the shapes on it. */
function drawCone(scene, { cx, cy, radius }, frame, path, theme) {
  const now = conePoint(frame), top = Math.max(...path.map(([, , z]) => z), now[2], 1e-12), wire = theme.wire.slice(0, 3);
  const screen = ([x, y, z]) => {
    const [right, up, toward] = scene.camera.look(x / top, y / top, z / top - 0.5);
    return [cx + 0.9 * radius * right, cy - 0.9 * radius * up, toward];
  };
  const segment = (from, to, width, color, alpha) => scene.line(from[0], from[1], to[0], to[1], width, color, alpha);
  for (const part of [0.25, 0.5, 0.75, 1]) {
    const rim = (k) => screen([part * top * Math.cos(k), part * top * Math.sin(k), part * top]);
    for (let k = 0; k < STEPS; k++) {
      const [from, to] = [rim((2 * Math.PI * k) / STEPS), rim((2 * Math.PI * (k + 1)) / STEPS)];
      segment(from, to, 1, wire, (from[2] < 0 ? 0.25 : 0.6) * (part === 1 ? 1.4 : 0.8));
    }
  }
  const apex = screen([0, 0, 0]);
  for (let k = 0; k < 12; k++) {
    const end = screen([top * Math.cos((Math.PI * k) / 6), top * Math.sin((Math.PI * k) / 6), top]);
    segment(apex, end, 1, wire, end[2] < 0 ? 0.2 : 0.45);
  }
  let before = null, shown = null;
  for (const [a, b, c] of path) {
    const point = [a, b, c];
    const at = screen(point);
    if (before) segment(before, at, 1.8, theme.palette[0], 0.8);
    if (!shown || Math.hypot(at[0] - shown[0], at[1] - shown[1]) > GLYPH_STEP) {
      glyph(scene, at, point, theme, 0.45);
      shown = at;
    }
    before = at;
  }
  const at = screen(now);
  glyph(scene, at, now, theme, 1);
  scene.point(at[0], at[1], 4, theme.palette[3], 1);
}

/** The ellipse of a covariance divided by its trace. */
function glyph(scene, [x, y], [a, b, trace], theme, alpha) {
  ellipse(scene, x, y, axesOf([a / trace, b / trace, 1]), GLYPH, 1.4, theme.palette[1], alpha);
}
