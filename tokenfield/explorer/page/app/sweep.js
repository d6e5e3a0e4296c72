/** A sweep over kappa, value by value, with the order parameter averaged at each. */

/** Methods of App: app.js adds them to the class. */
export const sweepMethods = {
  startSweep({ from, to, steps, settle, average }) {
    const kappas = Array.from({ length: steps }, (_, k) => Number((from + ((to - from) * k) / (steps - 1)).toPrecision(4)));
    this.sweep = { kappas, range: [Math.min(from, to), Math.max(from, to)], dots: [], at: -1, settle, average, sum: 0, count: 0, since: 0 };
    this.nextKappa(0);
  },

  nextKappa(time) {
    const { sweep } = this;
    sweep.at++;
    Object.assign(sweep, { sum: 0, count: 0, since: time });
    if (sweep.at >= sweep.kappas.length) {
      this.say("The sweep is done.");
      this.pause();
      return;
    }
    this.setModel({ noise: { kappa: sweep.kappas[sweep.at] } });
  },

  followSweep(frame) {
    const { sweep } = this;
    if (sweep.at >= sweep.kappas.length) return;
    const waited = frame.time - sweep.since;
    if (waited < 0) sweep.since = frame.time;
    if (waited > sweep.settle) {
      sweep.sum += frame.order;
      sweep.count++;
    }
    if (waited > sweep.settle + sweep.average && sweep.count) {
      sweep.dots.push({ kappa: sweep.kappas[sweep.at], order: sweep.sum / sweep.count });
      this.nextKappa(frame.time);
    }
  },
};
