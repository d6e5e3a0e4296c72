/** What all plots over time share: their samples, the axis of time and the last values. */

import { short } from "../numbers.js";

export const column = (run, key) => run.history.samples.map((sample) => sample[key]);

/** True if a run has waited for longer than numbers can say: its plots show the logarithm of time. */
const isLong = (runs) => runs.some((run) => run.history.last?.time === Infinity);
/** Return what places times, numbers, on the axis of time. */
export const placed = (runs) => (isLong(runs) ? Math.log10 : (t) => t);
/** Return the times of the samples of a run as numbers on the axis. */
export const times = (runs, run) => (isLong(runs) ? run.history.samples.map(({ logTime }) => logTime / Math.LN10) : column(run, "t"));
const colors = (theme) => [theme.line, theme.second];

/** Return a curve of theory over time. */
export const dashed = (runs, t, y, theme) => ({ x: t.map(placed(runs)), y, color: theme.theory, dash: [5, 4], width: 1.5 });

/** Return the range of time to show, with room for a prediction that is not far away. */
export function timeAxis(runs, log, until = 0) {
  const now = Math.max(...runs.map((run) => run.history.last?.t ?? 0), 1e-9);
  if (isLong(runs)) {
    const logs = runs.flatMap((run) => times(runs, run)).filter(Number.isFinite);
    return { min: Math.min(...logs), max: Math.max(...logs) + 1, label: "log₁₀ t" };
  }
  const label = runs[0].frame?.logTimeUnit ? `t · e^${short(-runs[0].frame.logTimeUnit)}` : "t";
  if (log) return { min: Math.max(0.01, Math.min(0.1, now / 10)), max: Math.max(1, now, until <= 100 * now ? until : 0) * 1.05, log: true, label };
  return { min: 0, max: Math.max(1, now, until <= 3 * now ? until * 1.02 : 0), label };
}

/** Return the last value of each run, as {text, color}. */
export const readout = (runs, key, theme) =>
  runs.map((run, k) => ({ text: run.history.last?.[key], color: colors(theme)[k] })).filter(({ text }) => Number.isFinite(text)).map(({ text, color }) => ({ text: Number.isInteger(text) ? short(text) : text.toFixed(3), color }));
export const lines = (runs, key, theme, more = {}) =>
  runs.map((run, k) => ({ x: times(runs, run), y: column(run, key), color: colors(theme)[k], ...more }));
