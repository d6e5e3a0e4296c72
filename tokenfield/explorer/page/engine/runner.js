/** One run: steps in time, clusters that have met as one weighted token, and frames of what is seen. */

import { effectiveBeta } from "./config.js";
import { copyUnit, SphereFlow } from "./flow.js";
import { Tsit5 } from "./integrator.js";
import { makeAttention } from "./kernels.js";
import { clusters, energy, order } from "./measure.js";
import { NoisySteps } from "./noise.js";
import { makeNorm } from "./norms.js";
import { Gaussians } from "./random.js";
import { makeTokens } from "./starts.js";

/** Tokens closer than this (as a chord) are one weighted token from then on. */
const MET = 1e-7;
const STEPS_BETWEEN_CHECKS = 10;

export class Runner {
  constructor(config) {
    this.config = config;
    const start = makeTokens(config.tokens);
    Object.assign(this, { n: start.n, d: start.d, weights: start.weights, t: 0, trouble: null });
    this.x = start.x; // directions
    this.r = new Float64Array(start.n).fill(1);
    this.rebuild();
  }

  /** Change the model (attention, norm, noise) and go on from the current tokens. */
  setModel(config) {
    this.read();
    if (!makeNorm(config.norm).radial) this.r.fill(1);
    this.config = { ...this.config, ...config };
    this.rebuild();
  }

  /** Make the stepper of the current tokens, each of them on its own. */
  rebuild() {
    this.attention = makeAttention(this.config.attention, this.d);
    this.norm = makeNorm(this.config.norm);
    this.member = Int32Array.from({ length: this.n }, (_, i) => i);
    this.use(this.x, this.r, this.weights);
    this.merge();
  }

  use(x, r, weights) {
    const flow = new SphereFlow(this.attention, this.norm, weights);
    flow.after = this.norm.breakAt !== undefined && this.t >= this.norm.breakAt;
    const y = new Float64Array(flow.size);
    y.set(x);
    if (flow.radial) y.set(r, flow.n * flow.d);
    this.flow = flow;
    const { noise } = this.config;
    if (noise) {
      this.gaussians ??= new Gaussians(this.config.tokens.seed ?? 0);
      this.stepper = new NoisySteps(flow, this.t, y, noise.kappa, this.gaussians);
    } else this.stepper = new Tsit5(flow, this.t, y);
    this.state = new Float64Array(flow.size);
    this.state.set(y);
  }

  /** True if tokens at one place move as one from then on. */
  get merges() {
    const { attention, config } = this;
    return !config.noise && !this.norm.radial && !attention.causal && !attention.slope && attention.kind !== "hardmax";
  }

  /** Advance to time `target`, or as far as `milliseconds` allow. */
  advance(target, milliseconds = Infinity) {
    const begin = performance.now();
    const { breakAt } = this.norm;
    while (this.stepper.t < target && !this.trouble) {
      const limit = !this.flow.after && breakAt !== undefined ? breakAt : this.config.noise ? target : Infinity;
      if (!this.stepper.step(limit)) this.trouble = `the step size underflowed at t = ${this.stepper.t.toPrecision(4)}`;
      if (!this.flow.after && breakAt !== undefined && this.stepper.t >= breakAt) {
        this.t = this.stepper.t;
        this.state.set(this.stepper.y);
        this.read();
        this.r.fill(1);
        this.use(this.x, this.r, this.weights);
      }
      if (this.stepper.steps % STEPS_BETWEEN_CHECKS === 0) this.merge();
      if (performance.now() - begin > milliseconds) break;
    }
    this.t = Math.min(target, this.stepper.t);
    this.stepper.at(this.t, this.state);
  }

  /** Replace tokens that have met by one with the sum of their weights. */
  merge() {
    if (!this.merges) return;
    const { flow, stepper } = this, { n, d } = flow;
    const { labels, count } = clusters(stepper.y, n, d, (MET * MET) / 2);
    if (count === n) return;
    const x = new Float64Array(count * d), weights = new Float64Array(count);
    for (let i = 0; i < n; i++) {
      weights[labels[i]] += flow.weights[i];
      for (let a = 0; a < d; a++) x[labels[i] * d + a] += flow.weights[i] * stepper.y[i * d + a];
    }
    copyUnit(x, x, count, d);
    for (let i = 0; i < this.n; i++) this.member[i] = labels[this.member[i]];
    const { h } = stepper;
    this.t = stepper.t;
    this.use(x, null, weights);
    this.stepper.h = h;
  }

  /** Write directions and lengths of all tokens into x and r. */
  read() {
    const { state, flow, member, d } = this;
    for (let i = 0; i < this.n; i++) {
      for (let a = 0; a < d; a++) this.x[i * d + a] = state[member[i] * d + a];
      if (flow.radial) this.r[i] = state[flow.n * d + member[i]];
    }
  }

  /** Return the unit in which time runs, as a logarithm. */
  get logTimeUnit() {
    return this.norm.scaleFree ? 0 : -this.attention.logUnit;
  }

  /** Return what a frame shows. Energies exist for isotropic softmax, L2 and unnormalized attention. */
  frame() {
    this.read();
    const { n, d, flow, state, member } = this, beta = effectiveBeta(this.config.attention);
    const groups = clusters(state, flow.n, d), labels = new Int32Array(n);
    for (let i = 0; i < n; i++) labels[i] = groups.labels[member[i]];
    const m = order(this.x, this.weights, d);
    const has = beta !== null && !this.attention.causal && !this.attention.slope && !this.attention.V;
    const E = !has ? NaN : beta === 0 ? m * m : beta > 0 ? energy(state, flow.weights, d, beta) : NaN;
    const x = new Float32Array(n * d);
    for (let i = 0; i < n; i++) for (let a = 0; a < d; a++) x[i * d + a] = this.r[i] * this.x[i * d + a];
    return {
      kind: 0, n, d, time: this.t, logTimeUnit: this.logTimeUnit, energy: E, order: m, clusters: groups.count, x,
      weights: Float32Array.from(this.weights), labels,
    };
  }
}
