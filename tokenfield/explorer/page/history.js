/** What was measured along a run: one sample a frame, thinned when there are many. */

import { cosineHistogram, meanCosine, modeAmplitudes } from "./engine/measure.js";
import { axesOf, conePoint } from "./covariance.js";
import { DENSITY, GAUSSIAN, isLater, TOKENS } from "./frames.js";

const MOST = 1200;
const PERIOD = 60; // milliseconds between two samples
const MODE_PERIOD = 300;
const MOST_MODES = { 2: 80, 3: 24 };
const LINEAR = 0.25; // amplitudes below it grow at the rates of the linear theory
const FED = 4; // a mode is its own if it is so much larger than all products of two others that feed it
const MOST_FOR_MODES = 600; // tokens, as the modes on the sphere take a sum over pairs

export class History {
  /** `modes` is the number of modes to follow. */
  constructor(modes = 12) {
    this.modes = modes;
    this.samples = [];
    this.growth = null; // {rates}: measured growth rates of modes, NaN where not known
    this.first = null;
    this.changes = []; // times at which the model was changed
    this.origin = null; // the sample at the last of them
  }

  get last() {
    return this.samples.at(-1);
  }

  /** The sample from which predictions begin: at the last change of the model, or at the start. */
  get begin() {
    return this.origin ?? this.samples[0];
  }

  /** Note that the model changes at a frame. */
  change(frame, x, groups) {
    if (!frame) return;
    this.add(frame, x, groups, performance.now(), true);
    Object.assign(this, { origin: this.last, first: null, growth: null });
    this.changes.push(frame.time);
  }

  /** Take a frame, unless the last one was taken a moment ago; x holds unit directions, groups is their number. */
  add(frame, x, groups, now = performance.now(), always = false) {
    if (this.last && (!isLater(frame, this.last) || (now - this.taken < PERIOD && !always))) return;
    this.taken = now;
    const { n, d, time } = frame, weights = frame.weights ?? new Float32Array(n).fill(1 / n);
    const sample = { t: time, time, logTime: frame.logTime, energy: frame.energy, order: frame.order, clusters: frame.clusters, groups, cosine: NaN, columns: null };
    if (frame.kind === TOKENS && x) {
      sample.cosine = meanCosine(frame.order, weights);
      sample.length = meanLength(frame);
      sample.columns = cosineHistogram(x, n, d);
      if (n <= MOST_FOR_MODES && d <= 3) this.follow(x, weights, d, time, now);
    } else if (frame.kind === DENSITY) {
      const total = frame.x.reduce((a, b) => a + b, 0);
      sample.columns = binned(frame.x);
      this.follow(circle(n), frame.x.map((value) => value / total), 2, time, now);
    } else if (frame.kind === GAUSSIAN) {
      const { big, small } = axesOf(conePoint(frame));
      Object.assign(sample, { axes: [big, small], mean: [frame.x[0], frame.x[1]], cov: [frame.x[d], frame.x[d + 1], frame.x[2 * d + 1]] });
    }
    this.samples.push(sample);
    if (this.samples.length > MOST) this.samples = this.samples.filter((_, k) => k % 2 === 0 || k === this.samples.length - 1);
  }

  /** Measure how fast each mode has grown since the start or the last change of the model, as long as all are small and no two others feed it. */
  follow(x, weights, d, t, now) {
    if (this.growth?.over || now - this.followed < MODE_PERIOD) return;
    this.followed = now;
    const amplitudes = modeAmplitudes(x, weights, d, Math.min(this.modes, MOST_MODES[d]));
    if (!this.first) this.first = { t, amplitudes };
    const small = Math.max(...amplitudes.slice(1)) < LINEAR;
    if (!small) this.growth = { ...(this.growth ?? { rates: null }), over: true };
    else if (t > this.first.t) {
      const before = this.growth?.rates, own = ownModes(amplitudes, d);
      const rates = amplitudes.map((a, k) => (own[k] ? Math.log(a / this.first.amplitudes[k]) / (t - this.first.t) : (before?.[k] ?? NaN)));
      this.growth = { rates, over: false };
    }
  }
}

/** Return the mean length of the tokens of a frame. */
function meanLength({ n, d, x }) {
  let sum = 0;
  for (let i = 0; i < n; i++) {
    let square = 0;
    for (let a = 0; a < d; a++) square += x[i * d + a] ** 2;
    sum += Math.sqrt(square);
  }
  return sum / n;
}

/** Return for each mode whether it is much larger than what two others add to it: i and j feed i + j and |i - j|, on the sphere all between. */
function ownModes(amplitudes, d) {
  const last = amplitudes.length - 1, fed = new Float64Array(last + 1);
  for (let i = 1; i <= last; i++)
    for (let j = 1; j <= i; j++)
      for (let k = i - j; k <= Math.min(last, i + j); k += d === 2 ? 2 * j : 1) fed[k] = Math.max(fed[k], amplitudes[i] * amplitudes[j]);
  return amplitudes.map((a, k) => a > FED * fed[k]);
}

/** Return n points of the circle at equal angles, from 0. */
function circle(n) {
  return Float64Array.from({ length: 2 * n }, (_, k) => (k % 2 ? Math.sin : Math.cos)((2 * Math.PI * (k >> 1)) / n));
}

/** Return the values of a density on the circle from -pi to pi, relative to the largest, in `bins` bins. */
function binned(values, bins = 64) {
  const most = Math.max(...values, 1e-12), n = values.length;
  return Float64Array.from({ length: bins }, (_, b) => Math.max(0, values[Math.floor(((b + 0.5) / bins + 0.5) * n) % n]) / most);
}
