/** Tsitouras' Runge–Kutta method of order 5 with error control, on the sphere (Tsitouras 2011). */

const A = [
  [0.161],
  [-0.008480655492356989, 0.335480655492357],
  [2.8971530571054935, -6.359448489975075, 4.3622954328695815],
  [5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525],
  [5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383],
  [0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774],
];
const C = [0.161, 0.327, 0.9, 0.9800255409045097, 1, 1];
const ERROR = [
  0.09646076681806523 - 0.09468075576583945, 0.01 - 0.009183565540343254, 0.4798896504144996 - 0.4877705284247616,
  1.379008574103742 - 1.234297566930479, -3.290069515436081 + 2.7077123499835256, 2.324710524099774 - 1.866628418170587,
  -1 / 66,
];
const SMALLEST = 1e-14; // step relative to t, where the flow depends on time; otherwise steps below the rounding of t are fine

export class Tsit5 {
  /** Start at time t from y, which is copied. */
  constructor(flow, t, y, rtol = 1e-6, atol = 1e-9) {
    const make = () => new Float64Array(flow.size);
    Object.assign(this, { flow, t, rtol, atol, previous: 1, rejected: 0, steps: 0 });
    this.y = Float64Array.from(y);
    this.k = Array.from({ length: 7 }, make);
    this.next = make();
    this.error = make();
    this.start = { t, y: make(), slope: make() };
    this.start.y.set(this.y);
    flow.velocity(t, this.y, this.k[0]);
    this.start.slope.set(this.k[0]);
    this.h = this.firstStep();
  }

  /** Return a first step from the sizes of y' and y'' (Hairer, Norsett, Wanner, II.4). */
  firstStep() {
    const { flow, rtol, atol, y, k } = this;
    const d1 = flow.errorSize(k[0], y, y, rtol, atol);
    if (!(d1 > 0)) return 1;
    const h0 = 0.01 / (d1 * rtol);
    for (let a = 0; a < y.length; a++) this.next[a] = y[a] + h0 * k[0][a];
    if (!flow.contains(this.next)) return h0 * 1e-3;
    flow.velocity(this.t + h0, this.next, k[1]);
    for (let a = 0; a < y.length; a++) this.error[a] = (k[1][a] - k[0][a]) / h0;
    const d2 = flow.errorSize(this.error, y, y, rtol, atol);
    const most = Math.max(d1, d2) * rtol;
    return Math.min(100 * h0, (0.01 / Math.max(most, 1e-15)) ** 0.2);
  }

  /** Take one accepted step that does not pass `limit`; return false if the step size underflows. */
  step(limit = Infinity) {
    const { flow, k, y, next, error } = this, size = y.length;
    for (;;) {
      const room = limit - this.t, last = this.h >= room * (1 - 1e-9), h = last ? room : this.h;
      const least = flow.norm.autonomous ? 1e-60 : SMALLEST * Math.max(Math.abs(this.t), 1e-3);
      if (!(h > least)) return last;
      for (let s = 0; s < 6; s++) {
        const a = A[s];
        for (let c = 0; c < size; c++) {
          let sum = 0;
          for (let q = 0; q <= s; q++) sum += a[q] * k[q][c];
          next[c] = y[c] + h * sum;
        }
        if (s === 5 && !flow.contains(next)) break;
        flow.velocity(this.t + C[s] * h, next, k[s + 1]);
      }
      for (let c = 0; c < size; c++) {
        let sum = 0;
        for (let q = 0; q < 7; q++) sum += ERROR[q] * k[q][c];
        error[c] = h * sum;
      }
      const ok = flow.contains(next);
      const ratio = ok ? flow.errorSize(error, y, next, this.rtol, this.atol) : Infinity;
      if (ratio <= 1) {
        this.start.t = this.t;
        this.start.y.set(y);
        this.start.slope.set(k[0]);
        y.set(next);
        flow.retract(y);
        this.t = last ? limit : this.t + h;
        k[0].set(k[6]);
        const safe = Math.max(ratio, 1e-10);
        const factor = 0.9 * safe ** -0.14 * this.previous ** 0.06;
        this.previous = safe;
        const grown = h * Math.min(10, Math.max(0.2, factor));
        this.h = last ? Math.max(this.h, grown) : grown;
        this.steps++;
        return true;
      }
      this.rejected++;
      this.h = h * (Number.isFinite(ratio) ? Math.max(0.1, 0.9 * ratio ** -0.2) : 0.1);
    }
  }

  /** Write the state at a time inside the last step into `out`, by Tsitouras' interpolant of order 4. */
  at(t, out) {
    const { start, y, k } = this, h = this.t - start.t;
    if (!(h > 0) || t >= this.t) return void out.set(y);
    const s = Math.max(0, (t - start.t) / h), q = s * s;
    const b = [
      -1.0530884977290216 * s * (s - 1.3299890189751412) * (q - 1.4364028541716351 * s + 0.7139816917074209),
      0.1017 * q * (q - 2.1966568338249754 * s + 1.2949852507374631),
      2.490627285651252793 * q * (q - 2.38535645472061657 * s + 1.57803468208092486),
      -16.54810288924490272 * q * (s - 1.21712927295533244) * (s - 0.61620406037800089),
      47.37952196281928122 * q * (s - 1.203071208372362603) * (s - 0.658047292653547382),
      -34.87065786149660974 * q * (s - 1.2) * (s - 2 / 3),
      2.5 * q * (s - 1) * (s - 0.6),
    ];
    for (let j = 0; j < y.length; j++) {
      let sum = b[0] * start.slope[j];
      for (let stage = 1; stage < 7; stage++) sum += b[stage] * k[stage][j];
      out[j] = start.y[j] + h * sum;
    }
    this.flow.retract(out);
  }
}
