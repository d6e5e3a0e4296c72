/** Plots of densities and of Gaussians. */

import { axesOf } from "../covariance.js";
import { short } from "../numbers.js";
import { gaussianBlowup, gaussianCovariance, gaussianMeans } from "../theory.js";
import { column, dashed, placed, timeAxis, times } from "./time.js";

/** A plot of numbers that samples hold as a list under `key`, with what `theory` says of a run: {lines, marks, hlines, vlines}. */
function listed(key, labels, y, theory) {
  return ({ runs: [run], theme, log }) => {
    const { samples, last } = run.history, colors = [theme.line, theme.second];
    if (!last?.[key]) return { spec: { empty: "Nothing is measured yet." }, marks: [], text: "" };
    const values = samples.flatMap((sample) => sample[key]).filter(Number.isFinite), predicted = theory(run, theme);
    const drawn = labels.map((_, k) => ({ x: times([run], run), y: samples.map((sample) => sample[key][k]), color: colors[k] }));
    const readout = labels.map((label, k) => ({ text: `${label} ${short(last[key][k])}`, color: colors[k] }));
    const { lines = [], hlines = [], vlines = [], marks = [] } = predicted ?? {};
    return { spec: { x: timeAxis([run], log), y: y(Math.min(...values), Math.max(...values)), lines: [...drawn, ...lines], hlines, vlines }, marks, readout, text: readout.map(({ text }) => text).join(", ") };
  };
}

/** Return {A, v, begin, t} of a Gaussian in the plane whose covariance has a closed form, or null: softmax, no norm, V a number. */
function gaussianCase({ tables, frame, history: { begin, last } }) {
  const { kind = "softmax", A, beta, V = 1, causal = false, ...more } = tables?.attention ?? {}, b = typeof beta === "number" ? beta : null;
  const others = [...Object.values(more), tables?.noise, tables?.mlp, tables?.depth].some((value) => value !== undefined && value !== null);
  const matrix = Array.isArray(A) && A.length === 2 && Array.isArray(A[0]) ? A : A === undefined && b !== null ? [[b, 0], [0, b]] : null;
  const v = V ?? 1;
  if (kind !== "softmax" || tables?.norm?.kind !== "none" || !matrix || typeof v !== "number" || causal || others || frame?.d !== 2 || !begin?.cov) return null;
  const t = Array.from({ length: 81 }, (_, k) => begin.t + (k / 80) * Math.max(1e-9, last.t - begin.t));
  return { A: matrix, v, begin, t };
}

const FLOW = "Softmax attention, no norm, constant A, V a number; from the last change of the model";

function deviations(run, theme) {
  const c = gaussianCase(run);
  if (!c) return null;
  const at = (t) => {
    const found = gaussianCovariance(c.A, c.v, c.begin.cov, t);
    return found ? axesOf([found[0] - found[2], 2 * found[1], found[0] + found[2]]) : { big: NaN, small: NaN };
  };
  const found = c.t.map((t) => at(t - c.begin.t)), blowup = gaussianBlowup(c.A, c.v, c.begin.cov), end = at(1e9);
  const limit = blowup === Infinity && Number.isFinite(end.big) && [end.big, end.small].map((y) => (y < 1e-3 * found[0].big ? 0 : y));
  return {
    lines: ["big", "small"].map((key) => dashed([run], c.t, found.map((each) => each[key]), theme)),
    hlines: limit ? limit.map((y) => ({ y, color: theme.theory })) : [],
    vlines: blowup < Infinity ? [{ x: placed([run])(c.begin.t + blowup), color: theme.theory }] : [],
    marks: [
      { label: "Σ(t)", formula: "Σ(t) = (Σ₀^{−1} − tM)^{−1}, M = VA + A^{T}V^{T}", when: FLOW, page: "gaussian" },
      limit
        ? { label: `limit ${limit.map(short).join(", ")}`, formula: "Σ₀^{1/2} Π Σ₀^{1/2}, Π the projector on ker(Σ₀^{1/2} M Σ₀^{1/2})", when: FLOW, page: "gaussian" }
        : { label: `blow-up t = ${short(c.begin.t + blowup)}`, formula: "t* = 1/λ_max(Σ₀^{1/2} M Σ₀^{1/2})", when: FLOW, page: "gaussian" },
    ],
  };
}

function means(run, theme) {
  const c = gaussianCase(run);
  if (!c) return null;
  const found = gaussianMeans(c.A, c.v, c.begin.mean, c.begin.cov, c.t);
  return {
    lines: [0, 1].map((k) => dashed([run], c.t, found.map((each) => each[k]), theme)),
    marks: [{ label: "m(t)", formula: "m' = V(I + Σ(t)A) m, Σ(t) = (Σ₀^{−1} − tM)^{−1}", when: FLOW, page: "gaussian" }],
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
    make: listed("axes", ["σ₁", "σ₂"], (least, most) => ({ min: 0, max: 1.1 * most || 1 }), deviations),
  },
  mean: {
    title: "Mean",
    about: "The first two coordinates of the mean.",
    make: listed("mean", ["x", "y"], (least, most) => ({ min: Math.min(0, least) - 0.05 * (most - least), max: Math.max(0, most) + 0.05 * (most - least) || 1 }), means),
  },
};
