/** The scene: tokens on the sphere or the circle, with trails; densities and Gaussians of a live run. */

import { DENSITY, GAUSSIAN, SPHERE_DENSITY, TOKENS } from "../frames.js";
import { CanvasRenderer } from "./canvas.js";
import { drawDensity, drawSphereDensity } from "./density.js";
import { drawField } from "./field.js";
import { drawGaussian, follow } from "./gaussian.js";
import { GlRenderer } from "./gl.js";
import { visibleGroups } from "./groups.js";
import { ClusterColors } from "./palette.js";
import { Projection } from "./project.js";

const TRAIL_POINTS = 9000; // of all trails together
const LONGEST_TRAIL = 26;
const TRAIL_PERIOD = 40; // milliseconds between two points of a trail
const SHORTEST = 5; // pixels of a piece of a trail
const LONGEST_PIECE = 0.5; // of the radius: a token that was elsewhere a frame ago leaves no line
const CELL = 3, MOST_OVER = 2; // pieces of trails that begin within so many pixels; more would be drawn over each other
const INWARD = 0.6; // on the circle the past is drawn inside: how far the oldest point is from the rim

const MANY = 5000; // tokens, from which on they are drawn smaller and fainter, so that their density is seen
const MOST_GROUPED = 2000, GROUP_PERIOD = 100; // tokens, and milliseconds, as groups take a sum over pairs

export class Scene {
  constructor(canvas, camera, plain = false) {
    Object.assign(this, { canvas, camera });
    try {
      if (plain) throw new Error("Canvas2D was asked for");
      this.renderer = new GlRenderer(canvas);
    } catch (error) {
      this.renderer = new CanvasRenderer(canvas);
      this.reason = error.message;
    }
    this.views = [];
    this.quality = 1; // pixels drawn for each pixel of the screen, along one side
    this.trailPart = 1; // of the length of trails
    this.points = new Float32Array(7 * 64);
    this.lines = new Float32Array(10 * 64);
    this.bottom = Infinity; // lower end of what was drawn
  }

  /** Draw again after the browser has taken the graphics away and given them back. */
  restore() {
    this.renderer = new GlRenderer(this.canvas);
  }

  /** Return the state of drawing of one run; there is one for each run side by side. */
  view(index) {
    this.views[index] ??= { colors: new ClusterColors(), trail: [], color: null };
    return this.views[index];
  }

  /** Forget trails and colors. */
  reset(index) {
    delete this.views[index];
  }

  /** Take note of a new frame. */
  note(index, frame) {
    if (frame.kind === GAUSSIAN) {
      const view = this.view(index);
      view.path = follow(view.path ?? [], frame);
    }
    if (frame.kind !== TOKENS) return;
    const view = this.view(index), { n, d } = frame;
    const x = new Float32Array(n * d);
    for (let i = 0; i < n; i++) {
      let square = 0;
      for (let a = 0; a < d; a++) square += frame.x[i * d + a] ** 2;
      const scale = square > 0 ? 1 / Math.sqrt(square) : 0;
      for (let a = 0; a < d; a++) x[i * d + a] = frame.x[i * d + a] * scale;
    }
    const seen = d > 3 ? (view.projection ??= new Projection()).of(x, n, d) : x;
    if (view.trail.length && view.trail[0].length !== seen.length) view.trail = [];
    const now = performance.now();
    if (view.trail.length > 1 && now - view.noted < TRAIL_PERIOD) view.trail[0] = seen;
    else {
      view.trail.unshift(seen);
      view.noted = now;
    }
    const longest = Math.max(6, Math.min(LONGEST_TRAIL, Math.floor(TRAIL_POINTS / n)));
    if (view.trail.length > longest) view.trail.length = longest;
    Object.assign(view, { x, seen });
    if (frame.labels) this.color(view, frame, now);
    else view.color = new Int16Array(n).fill(0);
  }

  /** Color clusters, and before them the groups that tokens form. */
  color(view, { labels, weights, n, d }, now) {
    if (d <= 3 && n <= MOST_GROUPED) {
      if (view.groups?.labels.length !== n || now - view.grouped > GROUP_PERIOD) {
        view.groups = visibleGroups(view.x, weights, n, d);
        view.grouped = now;
      }
      labels = view.groups.labels.map((group, i) => (group < 0 ? n + labels[i] : group));
    }
    view.color = view.colors.update(labels, n);
  }

  /** Return the center and the radius of the ball of a run. */
  place(index) {
    const { width, height, count } = this, part = width / count;
    return { cx: part * (index + 0.5), cy: height / 2, radius: Math.max(20, 0.44 * Math.min(part, height)) };
  }

  /** Draw all runs side by side. `items` has {frame, field} for each. */
  draw(items, theme, options) {
    const box = this.canvas.getBoundingClientRect();
    this.width = Math.max(1, box.width);
    this.height = Math.max(1, box.height);
    this.count = items.length;
    const columns = Math.ceil(this.width / CELL) + 1, cells = columns * (Math.ceil(this.height / CELL) + 1);
    if (this.crowd?.length !== cells) this.crowd = new Uint8ClampedArray(cells); // how many pieces of trails begin in each cell
    else this.crowd.fill(0);
    this.columns = columns;
    this.renderer.begin(this.width, this.height, this.quality * Math.min(2, globalThis.devicePixelRatio || 1), theme.clear);
    items.forEach((item, index) => item.frame && this.drawRun(index, item, theme, options));
  }

  drawRun(index, { frame, attention }, theme, options) {
    if (frame.kind === GAUSSIAN) {
      this.pointCount = this.lineCount = 0;
      drawGaussian(this, { ...this.place(index), width: this.width / this.count }, frame, this.view(index).path ?? [], theme);
      return this.flush();
    }
    const place = this.place(index), d = Math.min(3, frame.d), { n } = frame;
    this.bottom = place.cy + place.radius;
    this.pointCount = this.lineCount = 0;
    if (frame.kind === DENSITY) return drawDensity(this, frame, place, theme);
    if (frame.kind === SPHERE_DENSITY) return drawSphereDensity(this, frame, place, theme);
    if (d === 3) {
      this.meridians(place, theme, -1);
      if (options.trails) this.trails(index, place, theme, d, -1);
      this.tokens(index, frame, place, theme, d, -1, options);
      this.flush();
      this.renderer.drawBall(place.cx, place.cy, place.radius, theme.sphere, theme.rim);
      this.meridians(place, theme, 1);
    } else this.ring(place, place.radius, theme);
    if (options.trails) this.trails(index, place, theme, d, 1);
    if (options.field && attention && n > 0) drawField(this, index, frame, attention, place, theme);
    this.flush(true);
    this.tokens(index, frame, place, theme, d, 1, options);
    this.flush();
  }

  flush(linesOnly = false) {
    this.renderer.drawLines(this.lines, this.lineCount);
    this.lineCount = 0;
    if (linesOnly) return;
    this.renderer.drawPoints(this.points, this.pointCount);
    this.pointCount = 0;
  }

  /** Return where a direction is on the screen: [x, y, toward the viewer]. */
  screen(place, d, x, y, z, radius = 1) {
    if (d === 2) {
      const [c, s] = this.camera.plane;
      return [place.cx + place.radius * radius * (c * x - s * y), place.cy - place.radius * radius * (s * x + c * y), 1];
    }
    const [right, up, toward] = this.camera.look(x, y, z);
    return [place.cx + place.radius * right, place.cy - place.radius * up, toward];
  }

  point(x, y, radius, [r, g, b], alpha) {
    if (7 * (this.pointCount + 1) > this.points.length) this.points = grown(this.points);
    this.points.set([x, y, radius, r, g, b, alpha], 7 * this.pointCount++);
  }

  line(x0, y0, x1, y1, width, [r, g, b], alpha, fade = 1) {
    if (10 * (this.lineCount + 1) > this.lines.length) this.lines = grown(this.lines);
    const at = 10 * this.lineCount++, out = this.lines;
    out[at] = x0;
    out[at + 1] = y0;
    out[at + 2] = x1;
    out[at + 3] = y1;
    out[at + 4] = width;
    out[at + 5] = r;
    out[at + 6] = g;
    out[at + 7] = b;
    out[at + 8] = alpha;
    out[at + 9] = fade;
  }

  tokens(index, { n, weights }, place, theme, d, side, options) {
    const { seen: x, color } = this.view(index), base = Math.max(n > MANY ? 1.2 : 2.2, Math.min(7.5, 70 / Math.sqrt(n))) * (place.radius / 300) ** 0.4;
    const faint = Math.min(1, Math.sqrt(MANY / n));
    for (let i = 0; i < n; i++) {
      const [sx, sy, toward] = this.screen(place, d, x[i * d], x[i * d + 1], d === 3 ? x[i * d + 2] : 0);
      if (toward < 0 !== side < 0) continue;
      const size = weights ? Math.sqrt(Math.min(40, weights[i] * n)) : 1;
      const tint = color[i] < 0 ? theme.single : theme.palette[color[i]];
      const depth = d === 3 ? 0.72 + 0.28 * toward : 1;
      const chosen = options.chosen?.view === index && options.chosen.token === i;
      if (chosen) this.point(sx, sy, base * size * depth + 5, theme.dark ? [1, 1, 1] : [0, 0, 0], 0.5);
      if (options.first && i === 0) this.point(sx, sy, base * size * depth + 6, theme.palette[3], 0.55);
      this.point(sx, sy, base * size * depth, tint, faint * (side < 0 ? 0.45 : 0.95));
    }
  }

  /** The past of each token, fading: on the sphere where it was, on the circle drawn inward. */
  trails(index, place, theme, d, side) {
    const { trail, color } = this.view(index), long = Math.ceil(this.trailPart * trail.length);
    if (long < 2) return;
    const n = trail[0].length / d, { cx, cy, radius } = place, { rows: [r, u, f], plane: [cos, sin] } = this.camera, { crowd, columns } = this;
    for (let i = 0; i < n; i++) {
      const tint = color[i] < 0 ? theme.single : theme.palette[color[i]];
      let x1 = 0, y1 = 0, z1 = 0;
      for (let k = 0; k < long; k++) {
        const past = trail[k], a = past[i * d], b = past[i * d + 1];
        let x0, y0, z0 = 1;
        if (d === 2) {
          const inside = 1 - (INWARD * k) / LONGEST_TRAIL;
          x0 = cx + radius * inside * (cos * a - sin * b);
          y0 = cy - radius * inside * (sin * a + cos * b);
        } else {
          const c = past[i * d + 2];
          x0 = cx + radius * (r[0] * a + r[1] * b + r[2] * c);
          y0 = cy - radius * (u[0] * a + u[1] * b + u[2] * c);
          z0 = f[0] * a + f[1] * b + f[2] * c;
        }
        const moved = Math.abs(x1 - x0) + Math.abs(y1 - y0);
        if (k && moved <= SHORTEST && k < long - 1) continue;
        if (k && moved > 1 && moved < LONGEST_PIECE * radius && z1 + z0 < 0 === side < 0 && crowd[((y0 / CELL) | 0) * columns + ((x0 / CELL) | 0)]++ < MOST_OVER) {
          const alpha = (1 - k / long) * (side < 0 ? 0.16 : 0.5);
          this.line(x0, y0, x1, y1, d === 2 ? 1.2 : 1.6, tint, alpha, (long - k - 1) / (long - k));
        }
        x1 = x0;
        y1 = y0;
        z1 = z0;
      }
    }
  }

  /** A circle around the center, as lines: a disc would fill the whole view. */
  ring({ cx, cy }, radius, theme) {
    const [r, g, b, a] = theme.rim, steps = 180;
    for (let k = 0; k < steps; k++) {
      const [u, v] = [(2 * Math.PI * k) / steps, (2 * Math.PI * (k + 1)) / steps];
      this.line(cx + radius * Math.cos(u), cy + radius * Math.sin(u), cx + radius * Math.cos(v), cy + radius * Math.sin(v), 1.5, [r, g, b], a);
    }
  }

  /** Circles of longitude and latitude on the far (-1) or near (1) side. */
  meridians(place, theme, side) {
    const [r, g, b, a] = theme.wire, steps = 48;
    const curve = (at) => {
      let before = at(0);
      for (let k = 1; k <= steps; k++) {
        const next = at((2 * Math.PI * k) / steps);
        if (before[2] + next[2] < 0 === side < 0) this.line(before[0], before[1], next[0], next[1], 1, [r, g, b], side < 0 ? a / 2 : a);
        before = next;
      }
    };
    for (let m = 0; m < 6; m++) {
      const [c, s] = [Math.cos((Math.PI * m) / 6), Math.sin((Math.PI * m) / 6)];
      curve((u) => this.screen(place, 3, c * Math.cos(u), s * Math.cos(u), Math.sin(u)));
    }
    for (const z of [-0.5, 0, 0.5]) {
      const flat = Math.sqrt(1 - z * z);
      curve((u) => this.screen(place, 3, flat * Math.cos(u), flat * Math.sin(u), z));
    }
  }

  /** Return the run under a point of the canvas. */
  viewAt(px) {
    return Math.max(0, Math.min(this.count - 1, Math.floor((px / this.width) * this.count)));
  }

  /** Return the direction under a point of the canvas. */
  directionAt(px, py, index, d) {
    const place = this.place(index), right = (px - place.cx) / place.radius, up = (place.cy - py) / place.radius;
    if (d === 3) return this.camera.unlook(right, up);
    const far = Math.hypot(right, up) || 1, [c, s] = this.camera.plane;
    return [(c * right + s * up) / far, (c * up - s * right) / far];
  }

  /** True if a point of the canvas is on the ball, or near the circle. */
  inside(px, py, index, d) {
    const place = this.place(index), far = Math.hypot(px - place.cx, py - place.cy) / place.radius;
    return d === 3 ? far <= 1 : far > 0.8 && far < 1.25;
  }

  /** Return the nearest token on the near side within `reach` pixels, or -1. */
  tokenAt(px, py, index, d, reach = 14) {
    const { x } = this.view(index), place = this.place(index);
    let best = -1, least = reach;
    for (let i = 0; x && i < x.length / d; i++) {
      const [sx, sy, toward] = this.screen(place, d, x[i * d], x[i * d + 1], d === 3 ? x[i * d + 2] : 0);
      const far = Math.hypot(sx - px, sy - py);
      if (toward >= 0 && far < least) [best, least] = [i, far];
    }
    return best;
  }
}

function grown(array) {
  const larger = new Float32Array(2 * array.length);
  larger.set(array);
  return larger;
}
