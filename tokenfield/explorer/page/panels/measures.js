/** Plots of densities and of Gaussians. */

import { short } from "../numbers.js";
import { column, timeAxis, times } from "./time.js";

/** A plot of numbers that samples hold as a list under `key`. */
function listed(key, labels, y) {
  return ({ runs: [run], theme, log }) => {
    const { samples, last } = run.history, colors = [theme.line, theme.second];
    if (!last?.[key]) return { spec: { empty: "Nothing is measured yet." }, marks: [], text: "" };
    const values = samples.flatMap((sample) => sample[key]).filter(Number.isFinite);
    const drawn = labels.map((_, k) => ({ x: times([run], run), y: samples.map((sample) => sample[key][k]), color: colors[k] }));
    const readout = labels.map((label, k) => ({ text: `${label} ${short(last[key][k])}`, color: colors[k] }));
    return { spec: { x: timeAxis([run], log), y: y(Math.min(...values), Math.max(...values)), lines: drawn }, marks: [], readout, text: readout.map(({ text }) => text).join(", ") };
  };
}

export const MEASURE_PANELS = {
  density: {
    title: "Density over time",
    about: "Shades: the density at each angle, from −π to π, relative to its largest value at that time.",
    make({ runs: [run], log }) {
      return { spec: { x: timeAxis([run], log), y: { min: -Math.PI, max: Math.PI }, heat: { t: times([run], run), columns: column(run, "columns") } }, marks: [], text: "The density over time." };
    },
  },
  deviations: {
    title: "Standard deviations",
    about: "Along the axes of the ellipse, of the first two coordinates: roots of the eigenvalues of the covariance.",
    make: listed("axes", ["σ₁", "σ₂"], (least, most) => ({ min: 0, max: 1.1 * most || 1 })),
  },
  mean: {
    title: "Mean",
    about: "The first two coordinates of the mean.",
    make: listed("mean", ["x", "y"], (least, most) => ({ min: Math.min(0, least) - 0.05 * (most - least), max: Math.max(0, most) + 0.05 * (most - least) || 1 })),
  },
};
