/** The flow of tokens under a norm: directions theta on the unit sphere, and lengths r that are fixed or evolve. */

import { selfAttention } from "./kernels.js";

export class SphereFlow {
  /** `after`: velocities at the break of a rule such as Mix-LN are those after it. */
  constructor(attention, norm, weights) {
    Object.assign(this, { attention, norm, weights });
    this.n = weights.length;
    this.d = attention.d;
    this.radial = norm.radial;
    this.size = this.n * this.d + (this.radial ? this.n : 0);
    this.after = false;
    this.theta = new Float64Array(this.n * this.d);
    this.A = new Float64Array(this.n * this.d);
  }

  /** Write dy/dt into `dy`. The velocity is evaluated at theta/|theta|, so it is constant along rays. */
  velocity(t, y, dy) {
    const { n, d, theta, A, norm, radial } = this;
    if (this.after && norm.breakAt !== undefined && t <= norm.breakAt) t = norm.breakAt * (1 + 1e-15);
    if (!this.after && norm.breakAt !== undefined && t > norm.breakAt) t = norm.breakAt;
    copyUnit(y, theta, n, d);
    selfAttention(this.attention, theta, this.weights, A);
    for (let i = 0; i < n; i++) {
      let inner = 0, square = 0;
      for (let a = i * d; a < i * d + d; a++) {
        inner += theta[a] * A[a];
        square += A[a] * A[a];
      }
      const length = Math.sqrt(square), r = radial ? y[n * d + i] : 1;
      const speed = norm.speed(t, r, inner, length);
      for (let a = i * d; a < i * d + d; a++) dy[a] = speed * (A[a] - inner * theta[a]);
      if (radial) dy[n * d + i] = norm.growth(t, r, inner, length);
    }
  }

  /** Put directions back on the sphere, in place. */
  retract(y) {
    copyUnit(y, y, this.n, this.d);
  }

  /** True if every length is positive and every number finite. */
  contains(y) {
    for (let k = 0; k < this.size; k++) if (!Number.isFinite(y[k])) return false;
    for (let k = this.n * this.d; k < this.size; k++) if (!(y[k] > 0)) return false;
    return true;
  }

  /** Return the size of a step's error relative to the tolerances; at most 1 is accepted. */
  errorSize(error, y0, y1, rtol, atol) {
    const { n, d } = this;
    let most = 0;
    for (let i = 0; i < n; i++) {
      let square = 0;
      for (let a = i * d; a < i * d + d; a++) square += error[a] * error[a];
      if (!(square <= most)) most = square;
    }
    let size = Math.sqrt(most) / (atol + rtol);
    for (let k = n * d; k < this.size; k++) {
      const near = (rtol + atol) * Math.min(y0[k], y1[k]);
      const scale = Math.min(near, atol + rtol * Math.max(y0[k], y1[k]));
      const ratio = Math.abs(error[k]) / scale;
      if (!(ratio <= size)) size = ratio;
    }
    return size;
  }
}

/** Write the rows of y, at length 1, into `out`; a row of zeros stays. */
export function copyUnit(y, out, n, d) {
  for (let i = 0; i < n; i++) {
    let square = 0;
    for (let a = i * d; a < i * d + d; a++) square += y[a] * y[a];
    const scale = square > 0 ? 1 / Math.sqrt(square) : 0;
    for (let a = i * d; a < i * d + d; a++) out[a] = y[a] * scale;
  }
}
