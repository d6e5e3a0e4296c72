/** Time and clusters as text, over the scene. */

import { DENSITY, GAUSSIAN, SPHERE_DENSITY, TOKENS } from "../frames.js";
import { short } from "../numbers.js";

const MEASURES = { [DENSITY]: "density on the circle", [GAUSSIAN]: "Gaussian and its covariance in the cone", [SPHERE_DENSITY]: "density on the sphere" };

/** Methods of App: app.js adds them to the class. */
export const clockMethods = {
  showClock(frame, now) {
    const { clock, canvas } = this.parts, unit = frame.logTimeUnit ? ` · 10^${short(frame.logTimeUnit / Math.LN10)}` : "", time = shownTime(frame);
    const what = frame.kind === TOKENS ? clusterText(frame, this.runs[0].groups) : MEASURES[frame.kind], more = frame.d > 3 ? `, d = ${frame.d}: three principal axes` : "";
    this.clocked = now;
    clock.textContent = `t = ${time}${unit}\n${what}${frame.kind === TOKENS ? more : ""}`;
    canvas.setAttribute("aria-label", `${frame.kind === TOKENS ? `Tokens on the ${frame.d === 2 ? "circle" : "sphere"}: ` : ""}${what}, time ${time}`);
    Object.assign(this.root.dataset, { time: String(frame.time), clusters: String(frame.clusters) });
    if (this.stats.firstMotion !== null) this.root.dataset.firstMotion = this.stats.firstMotion.toFixed(0);
  },
};

/** Return how many clusters there are, with single tokens apart; groups that still form while most tokens are single. */
function clusterText({ clusters, labels, n }, groups) {
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  if (!labels) return [Number.isNaN(clusters) ? "" : plural(clusters, "cluster"), plural(n, "token")].filter(Boolean).join(", ");
  const sizes = new Int32Array(clusters);
  for (const label of labels) sizes[label]++;
  const single = sizes.filter((size) => size === 1).length;
  if (groups > 0 && 2 * single > n) return `${plural(groups, "group")} forming`;
  return [clusters > single ? plural(clusters - single, "cluster") : "", single ? plural(single, "single token") : ""].filter(Boolean).join(", ");
}

function shownTime({ time: t, logTime }) {
  if (t === Infinity) return `10^${(logTime / Math.LN10).toFixed(1)}`;
  return t >= 1e5 ? short(t) : t.toFixed(t < 100 ? 2 : 0);
}
