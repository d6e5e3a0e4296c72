/** Brownian noise on the unit sphere, dX = P(drift) dt + sqrt(2/kappa) dW (FORMULAS §10). */

import { copyUnit } from "./flow.js";

/** Move directions theta along great circles by a Brownian increment of the given variance, drawn as xi; in place. */
export function sphereKick(theta, xi, variance, n, d) {
  const scale = Math.sqrt(variance) * Math.exp((-(d - 2) * variance) / 12);
  for (let i = 0; i < n; i++) {
    let inner = 0;
    for (let a = i * d; a < i * d + d; a++) inner += theta[a] * xi[a];
    let square = 0;
    for (let a = i * d; a < i * d + d; a++) {
      xi[a] = scale * (xi[a] - inner * theta[a]);
      square += xi[a] * xi[a];
    }
    const size = Math.sqrt(square), sinc = size > 0 ? Math.sin(size) / size : 1, turn = 1 - 2 * Math.sin(size / 2) ** 2;
    for (let a = i * d; a < i * d + d; a++) theta[a] = turn * theta[a] + sinc * xi[a];
  }
  copyUnit(theta, theta, n, d);
}

/** Half a kick, Heun's step of the drift, half a kick: the scheme "heun" of tokenfield. */
export class NoisySteps {
  constructor(flow, t, y, kappa, gaussians) {
    Object.assign(this, { flow, t, kappa, gaussians, steps: 0 });
    this.y = Float64Array.from(y);
    this.xi = new Float64Array(flow.size);
    this.first = new Float64Array(flow.size);
    this.second = new Float64Array(flow.size);
    this.next = new Float64Array(flow.size);
    this.h = this.longest();
  }

  /** Return a tenth of the time of the fastest rate, of the drift or of the noise. */
  longest() {
    const { attention, d } = this.flow;
    const sharp = attention.A ? Math.hypot(...attention.A) : Math.abs(attention.beta) * (attention.kind === "l2" ? 2 : 1);
    const strength = attention.kind === "unnormalized" ? Math.exp(sharp - attention.logUnit) : 1;
    const size = attention.V ? Math.hypot(...attention.V) : Math.abs(attention.v);
    return Math.min(0.05, 1 / (10 * Math.max((1 + sharp) * strength * size, (d - 1) / this.kappa)));
  }

  step(limit = Infinity) {
    const { flow, y, first, second, next } = this;
    const last = this.h >= limit - this.t, h = last ? limit - this.t : this.h;
    if (!(h > 0)) return true;
    this.kick(h / 2);
    flow.velocity(this.t, y, first);
    for (let k = 0; k < y.length; k++) next[k] = y[k] + h * first[k];
    flow.velocity(this.t + h, next, second);
    for (let k = 0; k < y.length; k++) y[k] += (h / 2) * (first[k] + second[k]);
    flow.retract(y);
    this.kick(h / 2);
    this.t = last ? limit : this.t + h;
    this.steps++;
    return true;
  }

  kick(h) {
    const { flow, xi, y } = this;
    for (let k = 0; k < flow.n * flow.d; k++) xi[k] = this.gaussians.normal();
    sphereKick(y, xi, (2 * h) / this.kappa, flow.n, flow.d);
  }

  at(t, out) {
    out.set(this.y);
  }
}
