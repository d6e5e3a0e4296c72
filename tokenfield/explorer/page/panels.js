/**
 * The plots beside the scene. A panel turns runs into {spec, marks, text}: what to draw, the predictions drawn over it
 * (each with its formula), and one sentence for screen readers.
 */

import { dimension, effectiveBeta, MOST_TOKENS, tokenCount } from "./engine/config.js";
import { attentionMatrix, attentionRow, makeAttention } from "./engine/kernels.js";
import { DENSITY, SPHERE_DENSITY, TOKENS } from "./frames.js";
import { short } from "./numbers.js";
import { MEASURE_PANELS } from "./panels/measures.js";
import { column, dashed, lines, placed, readout, timeAxis, times } from "./panels/time.js";
import {
  criticalGamma, criticalKappa, equiangularCurve, equiangularEnergy, equiangularOrder, firstClusters, flowInfluence, growthRates,
  halfWayCosine, interestingModes, kuramotoOrder, layerContraction, logMergeTime, ownAttention, recencyEnds, attentionToSelf,
  stationaryOrder, terminalLaw, uniformEnergy,
} from "./theory.js";

const COLLAPSED = 0.999;
const MATRIX = 96; // largest number of rows of the matrix that is drawn
const MANY = 20; // tokens from which on the mean over uniform ones says something of them
const FEW_ROWS = 24; // rows of which the attention to the own cluster is measured

/** Return what theory needs to know of a run; `kind` is null where there are no formulas. */
export function theoryCase({ config, frame }) {
  const { attention, norm, noise, tokens } = config, beta = effectiveBeta(attention);
  const density = [DENSITY, SPHERE_DENSITY].includes(frame?.kind);
  const n = density ? Infinity : (frame?.n ?? tokenCount(tokens)), d = frame?.kind === DENSITY ? 2 : (frame?.d ?? dimension(tokens));
  const identity = attention.V === null || attention.V === 1;
  const isotropic = !config.foreign && beta !== null && beta >= 0 && identity && !attention.causal && !attention.slope;
  const kind = !isotropic ? null : attention.kind === "unnormalized" ? "unnormalized" : "softmax";
  const logUnit = kind === "unnormalized" && beta > 30 && !["peri", "ngpt"].includes(norm.kind) ? beta : 0;
  return { beta, kind, norm, noise, logUnit, n, d, post: norm.kind === "post" };
}

/** Compute once for each set of arguments. */
function remembered(f, most = 40) {
  const known = new Map();
  return (...args) => {
    const key = JSON.stringify(args);
    if (!known.has(key)) {
      if (known.size > most) known.clear();
      known.set(key, f(...args));
    }
    return known.get(key);
  };
}
const firstOf = remembered(firstClusters);
const curveOf = remembered((n, beta, norm, kind, rho0, logUnit, t0, r0) => equiangularCurve(n, beta, norm, kind, rho0, COLLAPSED, 600, logUnit, t0, r0));
const orderOf = remembered(stationaryOrder, 400);
const ratesOf = remembered(growthRates);
const influenceOf = remembered((n, t, slope) => [...flowInfluence(n, t, slope)]);

/** True if there are more tokens than sums over all pairs are taken of. */
const isMany = ({ frame }) => frame?.kind === TOKENS && frame.n > MOST_TOKENS;
/** True if all tokens have the same weight, as the equiangular curve takes them. */
const isEven = ({ weights }) => !weights || weights.every((w) => Math.abs(w - weights[0]) < 1e-6 * weights[0]);

/** Return the prediction {times, rho, until, when} of tokens at equal angles since the last change of the model, or null. */
function equiangular({ history, frame, config }) {
  const c = theoryCase({ config, frame }), from = history.begin;
  if (!c.kind || c.noise || frame?.kind !== TOKENS || c.n < 2 || !isEven(frame) || !Number.isFinite(from?.cosine)) return null;
  const rho0 = Math.max(-1 / (c.n - 1) + 1e-9, from.cosine), digits = (value) => Number(value.toPrecision(6));
  if (rho0 >= COLLAPSED || !Number.isFinite(from.t)) return null;
  const { times: t, rho } = curveOf(c.n, c.beta, c.norm, c.kind, digits(rho0), c.logUnit, digits(from.t), digits(from.length ?? 1));
  const since = history.origin ? ", from the cosine measured when the model was changed" : "";
  const when = (c.n <= c.d ? "tokens at equal angles" : `tokens at equal angles, which need d ≥ n; here d = ${c.d}, so it is a reference only`) + since;
  return { times: t, rho, until: t.length > 1 ? t.at(-1) : Infinity, when };
}

const nothing = (text) => ({ spec: { empty: text }, marks: [], text });

export const PANELS = {
  energy: {
    title: "Energy",
    about: "Normalized energy Ē = ΣΣ wᵢwⱼ exp(β(⟨xᵢ,xⱼ⟩−1)). Softmax and unnormalized attention increase it. While clusters persist it stays on a step, the sum of their squared masses.",
    make({ runs, theme, log }) {
      const [run] = runs, { last } = run.history;
      if (!last || runs.every((each) => !Number.isFinite(each.history.last?.energy)))
        return nothing(isMany(run) ? "Not measured for so many tokens." : "This model has no energy.");
      const marks = [], hlines = [], vlines = [], stairs = staircase(run), merge = nextMerge(run), drawn = lines(runs, "energy", theme);
      const c = theoryCase(run), curve = Number.isFinite(last.energy) ? equiangular(run) : null;
      if (curve && c.n <= c.d) {
        drawn.push(dashed(runs, curve.times, curve.rho.map((rho) => equiangularEnergy(rho, c.n, c.beta)), theme));
        marks.push({ label: "equiangular", formula: "Ē = (1 + (n−1) exp(β(ρ−1)))/n, with ρ(t) of equal angles", when: curve.when, page: "normalization" });
      }
      if (c.kind && !stairs && c.beta > 0 && c.n >= MANY && Number.isFinite(last.energy)) {
        const level = uniformEnergy(c.n, c.beta, c.d);
        hlines.push({ y: level, color: theme.theory });
        marks.push({ label: `uniform ${short(level)}`, formula: "Ē = 1/n + (1−1/n) w₀ e^{−β},  w₀ = Γ(d/2) (2/β)^{d/2−1} I_{d/2−1}(β)", when: "independent uniform tokens, on average; in a density n = ∞", page: "modes" });
      }
      if (stairs) {
        hlines.push({ y: stairs.level, color: theme.theory });
        marks.push({ label: `step Σm² = ${short(stairs.level)}`, formula: "Ē = Σ_c m_c², the sum of squared cluster masses", when: "clusters that have collapsed and are far apart", page: "metastability" });
      }
      if (merge) {
        vlines.push({ x: placed(runs)(merge.time), color: theme.theory });
        marks.push({ label: `next merge t ≈ ${short(merge.time)}`, formula: "T = ∫ dρ / ((1−ρ²) F), F = m_j/(m_i E + m_j) + m_i/(m_j E + m_i), E = exp(β(1−ρ)) (softmax); F = (m_i+m_j) exp(βρ) (unnormalized)", when: `the closest pair, cosine ${short(merge.rho)}; the others are taken to stand still`, page: "metastability" });
      }
      return {
        spec: { x: timeAxis(runs, log, merge?.time), y: { min: 0, max: 1.02 }, lines: drawn, hlines, vlines },
        marks,
        readout: readout(runs, "energy", theme),
        text: `Energy ${short(last.energy)}.`,
      };
    },
  },
  order: {
    title: "Order parameter",
    about: "Length of the mean direction, |Σ wᵢ xᵢ|: 1 for one cluster, near 0 for tokens in balance.",
    make({ runs, theme, log }) {
      const [run] = runs, { last, begin } = run.history, c = theoryCase(run), marks = [], hlines = [];
      const drawn = lines(runs, "order", theme), curve = equiangular(run);
      if (c.kind && c.noise && c.post) {
        const kc = criticalKappa(c.beta, c.d, c.kind, c.logUnit), m = orderOf(c.beta, c.noise.kappa, c.d, c.kind, c.logUnit);
        hlines.push({ y: m, color: theme.theory });
        marks.push({ label: `κ_c = ${short(kc)}`, formula: c.kind === "softmax" ? "κ_c = β w₀/w₁" : "κ_c = β/w₁", when: "noise √(2/κ) dW, many tokens; order is possible for κ > κ_c", page: "noise" });
        marks.push({ label: `m₁ = ${short(m)}`, formula: c.kind === "softmax" ? "μ ∝ Z^{κ/β}, m₁ = |∫x dμ|" : "μ ∝ exp(κ W∗μ), W = exp(β⟨x,y⟩)/β, m₁ = |∫x dμ|", when: "stationary law with one peak, many tokens", page: "noise" });
      } else if (c.kind && c.beta === 0 && c.d === 2 && c.post && !c.noise && begin) {
        const x = Array.from({ length: 80 }, (_, k) => begin.t + (k / 79) * Math.max(1, last.t - begin.t));
        drawn.push(dashed(runs, x, x.map((t) => kuramotoOrder(begin.order, t - begin.t)), theme));
        marks.push({ label: "Kuramoto r(t)", formula: "r = r₀ exp(t/2) / √(1 − r₀² + r₀² eᵗ)", when: "β = 0 on the circle, many tokens, start close to uniform; r₀ and t from the last change of the model", page: "noise" });
      } else if (curve) {
        drawn.push(dashed(runs, curve.times, curve.rho.map((rho) => equiangularOrder(rho, c.n)), theme));
        marks.push({ label: "equiangular", formula: "r² = (1 + (n−1)ρ)/n, with ρ(t) of equal angles", when: curve.when, page: "normalization" });
      }
      return {
        spec: { x: timeAxis(runs, log), y: { min: 0, max: 1.02 }, lines: drawn, hlines },
        marks,
        readout: readout(runs, "order", theme),
        text: last ? `Order parameter ${short(last.order)}.` : "",
      };
    },
  },
  clusters: {
    title: "Clusters",
    about: "Number of clusters, in which all cosines are above 0.999; a token on its own counts as one. Thin line: groups that still form, places with clearly more tokens than expected by chance.",
    make({ runs, theme, log }) {
      const [run] = runs, { last } = run.history, c = theoryCase(run), marks = [], hlines = [];
      if (isMany(run)) return nothing("Not counted for so many tokens.");
      const groups = runs.length > 1 ? [] : [{ x: times(runs, run), y: column(run, "groups"), color: theme.second, width: 1, step: true }];
      if (c.kind && c.n > 3) {
        const k = firstOf(c.beta, c.d);
        if (c.d === 2) hlines.push({ y: k, color: theme.theory });
        marks.push({ label: c.d === 2 ? `k_max = ${k}` : `k_max = ${k} (degree)`, formula: "k_max = argmax_k k(k+d−2) w_k,  w_k = Γ(d/2) (2/β)^{d/2−1} I_{k+d/2−1}(β)", when: c.d === 2 ? "number of first clusters, from many tokens spread evenly" : "degree of the harmonic that grows first; it counts clusters on the circle only", page: "modes" });
      }
      return {
        spec: { x: timeAxis(runs, log), y: c.n > 20 ? { min: 1, max: 1.1 * c.n, log: true } : { min: 0, max: c.n + 0.5, whole: true }, lines: [...groups, ...lines(runs, "clusters", theme, { step: true })], hlines },
        marks,
        readout: [...readout(runs, "clusters", theme), ...(groups.length && last?.groups > 0 && last.clusters > last.groups ? [{ text: `${last.groups} forming`, color: theme.second }] : [])],
        text: last ? `${last.clusters} ${last.clusters === 1 ? "cluster" : "clusters"}.` : "",
      };
    },
  },
  cosines: {
    title: "Cosines",
    about: "Shades: share of pairs at each cosine, over time. Line: mean cosine.",
    make({ runs, theme, log }) {
      const [run] = runs, { samples, last } = run.history, c = theoryCase(run), marks = [], vlines = [];
      const drawn = lines(runs, "cosine", theme), curve = equiangular(run), until = curve?.until ?? 0;
      if (c.kind && samples.length && c.n > 1 && !c.noise) {
        if (curve) {
          const { when } = curve;
          drawn.push(dashed(runs, curve.times, curve.rho, theme));
          if (Number.isFinite(until)) vlines.push({ x: placed(runs)(until), color: theme.theory });
          marks.push({ label: "equiangular", formula: "ρ' = (2/s) exp(βρ) (1−ρ)(1+(n−1)ρ)/Z,  Z = e^β + (n−1) exp(βρ) (softmax), n (unnormalized)", when, page: "normalization" });
          marks.push({ label: `collapse ${short(until)}`, formula: "T = ∫ dρ/ρ' up to ρ = 0.999", when, page: "normalization" });
        }
        marks.push({ label: `late 1−ρ ~ ${terminalLaw(c.norm, c.kind, Math.min(c.beta, 700))}`, formula: "1−ρ at late times: Post-LN e^{−2t}, Pre-LN and Peri-LN t^{−2}, nGPT e^{−2αt}, 1/√(t+1) scaling e^{−4√t}", when: "once all tokens are in one cluster", page: "normalization" });
      }
      return {
        spec: { x: timeAxis(runs, log, until), y: { min: -1, max: 1.03 }, lines: drawn, vlines, heat: { t: times(runs, run), columns: column(run, "columns"), top: 1 } },
        marks,
        readout: readout(runs, "cosine", theme),
        text: last && Number.isFinite(last.cosine) ? `Mean cosine ${short(last.cosine)}.` : "",
      };
    },
  },
  modes: {
    title: "Growth of modes",
    about: "Bars: predicted growth rate of mode k, a small perturbation of the uniform measure with k periods. Dots: measured in this run, while all modes are small and no other modes drive mode k.",
    make({ runs, theme }) {
      const [run] = runs, c = theoryCase(run);
      if (!c.kind) return nothing("Rates are known for isotropic softmax and unnormalized attention.");
      const modes = interestingModes(c.beta, c.d), rates = ratesOf(c.beta, c.d, c.kind, modes, c.logUnit).map((rate, k) => (c.noise ? rate - (k * (k + c.d - 2)) / c.noise.kappa : rate));
      const shown = rates.slice(1), most = Math.max(...shown), floor = most > 0 ? -most : 4 * most;
      const least = Math.min(0, ...shown.map((rate) => Math.max(rate, floor)));
      const found = run.history.growth?.rates, k = shown.indexOf(most) + 1;
      const dots = found && c.post ? shown.map((_, j) => ({ x: j + 1, y: found[j + 1] ?? NaN, color: theme.line, size: modes > 24 ? 2.2 : 3.2 })) : [];
      return {
        spec: {
          x: { min: 0.4, max: modes + 0.6, label: "k", whole: true },
          y: { min: least * 1.15, max: most > 0 ? most * 1.3 : -0.15 * least || 1 },
          bars: shown.map((rate, j) => ({ x: j + 1, y: Math.max(rate, floor), color: j + 1 === k ? theme.second : theme.theory })),
          dots,
        },
        marks: [{ label: `k = ${k}: rate ${short(most)}`, formula: `rate_k = k(k+d−2) w_k/β${c.kind === "softmax" ? " / w₀" : ""}${c.noise ? " − k(k+d−2)/κ" : ""}`, when: "Post-LN, many tokens, as long as modes are small", page: "modes" }],
        text: `Mode ${k} grows fastest, at rate ${short(most)}.`,
      };
    },
  },
  attention: {
    title: "Attention matrix",
    about: "Row i: how much token i attends to token j, relative to its largest. Tokens are sorted by cluster, or by place before they have met; colors are those of the scene. Causal attention keeps the order of the tokens.",
    make({ runs, theme }) {
      const [run] = runs, { frame } = run;
      if (!frame || frame.kind !== TOKENS || frame.d > 3 || isMany(run) || run.config.foreign) return nothing("The page cannot compute this attention.");
      const { n, d, labels } = frame, attention = makeAttention(run.config.attention, d), step = Math.max(1, Math.ceil(n / MATRIX));
      let chosen = Array.from({ length: n }, (_, i) => i);
      const group = attention.causal ? null : nearGroups(run.x, n, d);
      if (group) chosen.sort((a, b) => group[a] - group[b] || (labels ? labels[a] - labels[b] : 0) || a - b);
      chosen = chosen.filter((_, k) => k % step === 0);
      const size = chosen.length, breaks = [];
      const weights = frame.weights ? Float64Array.from(frame.weights) : new Float64Array(n).fill(1 / n);
      const values = attentionMatrix(attention, Float64Array.from(run.x), weights, chosen);
      for (let a = 0; a < size; a++) {
        let most = 1e-300;
        for (let b = 0; b < size; b++) most = Math.max(most, values[a * size + b]);
        for (let b = 0; b < size; b++) values[a * size + b] /= most;
        if (a && group && group[chosen[a]] !== group[chosen[a - 1]]) breaks.push(a);
      }
      const marks = attentionMarks(run, attention, weights);
      const bands = run.color && chosen.map((i) => (run.color[i] < 0 ? theme.single : theme.palette[run.color[i]]));
      return { spec: { image: { size, values, bands, breaks: breaks.length > 16 ? [] : breaks } }, marks, text: `Attention of ${size} tokens.` };
    },
  },
  sweep: {
    title: "Order against noise",
    about: "Each dot is the order parameter of this run, averaged at one κ. The curve is the stationary law for many tokens.",
    make({ runs, theme, sweep }) {
      const [run] = runs, c = theoryCase(run);
      if (!c.kind || !sweep) return nothing("Start the sweep.");
      const [low, high] = sweep.range, x = Array.from({ length: 45 }, (_, k) => low + ((high - low) * k) / 44);
      const kc = criticalKappa(c.beta, c.d, c.kind, c.logUnit);
      const dots = sweep.dots.map(({ kappa, order }) => ({ x: kappa, y: order, color: theme.line, size: 4 }));
      const now = run.config.noise ? [{ x: run.config.noise.kappa, y: run.history.last?.order ?? NaN, color: theme.second, size: 4 }] : [];
      return {
        spec: {
          x: { min: low, max: high, label: "κ" }, y: { min: 0, max: 1.02 },
          lines: [{ x, y: x.map((kappa) => orderOf(c.beta, Number(kappa.toPrecision(6)), c.d, c.kind, c.logUnit)), color: theme.theory, dash: [5, 4] }],
          vlines: [{ x: kc, color: theme.theory }], dots: [...dots, ...now],
        },
        marks: [{ label: `κ_c = ${short(kc)}`, formula: c.kind === "softmax" ? "κ_c = β w₀/w₁" : "κ_c = β/w₁ (β/I₁(β) on the circle)", when: "many tokens; a finite number leaves an order of about 1/√n below κ_c", page: "noise" }],
        text: `${sweep.dots.length} of ${sweep.kappas.length} points measured.`,
        readout: [{ text: `${sweep.dots.length} of ${sweep.kappas.length}`, color: theme.line }],
      };
    },
  },
  influence: {
    title: "Influence on last token",
    about: "How far the last token moves when the token at a position is moved a little at the start. Dots: measured in this run. Curve: theory.",
    make({ runs, theme, influence }) {
      const [run] = runs, { attention, tokens } = run.config, n = tokenCount(tokens), slope = attention.slope ?? 0;
      if (!influence) return nothing("Measured in causal runs.");
      const row = influenceOf(n, influence.t, slope), x = row.map((_, j) => (j + 1) / n), inner = row.slice(0, -1);
      const most = 1.25 * Math.max(...inner, ...influence.values.slice(0, -1));
      const ends = recencyEnds(slope);
      return {
        spec: { x: { min: 0, max: 1, label: "position" }, y: { min: 0, max: most }, lines: [{ x, y: row, color: theme.theory, dash: [5, 4] }], dots: influence.values.map((y, j) => ({ x: x[j], y, color: theme.line })) },
        marks: [
          { label: `last on itself ${short(influence.values.at(-1))}`, formula: `measured ${short(influence.values.at(-1))}, theory ${short(row.at(-1))}: above the range of this plot`, when: "the last position", page: "positions" },
          { label: `t = ${short(influence.t)}`, formula: "last row of exp(t(P−I)), P_ij = w_j/(w_1+…+w_i), w_j = exp(λ j/n)", when: "causal attention near one cluster", page: "positions" },
          ...(slope ? [{ label: `recency ends t = ${short(ends)}`, formula: "t = 2 (1 − exp(−λ))/a", when: "many tokens; a = 1 near one cluster", page: "positions" }] : []),
        ],
        text: `Influence of ${n} positions at time ${short(influence.t)}.`,
      };
    },
  },
  context: {
    title: "One layer, long context",
    about: "Cosine between two tokens after one softmax layer with β = γ log n, from tokens at equal angles. Curves: n = 100, 10⁴ and 10⁸. Dots: a layer computed token by token, n = 100.",
    make({ theme, gamma = { rho: 0.5 } }) {
      const { rho } = gamma, critical = criticalGamma(rho), x = Array.from({ length: 90 }, (_, k) => (k / 89) * 2 * critical);
      const curve = (n, width) => ({ x, y: x.map((g) => layerContraction(rho, n, g * Math.log(n))), color: theme.line, width });
      const dots = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75].map((part) => ({ x: part * critical, y: measuredLayer(rho, 100, part * critical * Math.log(100)), color: theme.second }));
      return {
        spec: { x: { min: 0, max: 2 * critical, label: "γ" }, y: { min: 0, max: 1.04 }, lines: [curve(100, 1), curve(1e4, 1.6), curve(1e8, 2.4)], vlines: [{ x: critical, color: theme.theory }], hlines: [{ y: rho, color: theme.grid }], dots },
        marks: [{ label: `γ_c = ${short(critical)}`, formula: "γ_c = 1/(1−ρ); limits 1 below, 4ρ/(1+3ρ) at γ_c, ρ above", when: "one layer, equal angles, n → ∞", page: "long_context" }],
        text: `Critical gamma ${short(critical)} at cosine ${short(rho)}.`,
      };
    },
  },
  ...MEASURE_PANELS,
  density: {
    ...MEASURE_PANELS.density,
    make(given) {
      const c = theoryCase(given.runs[0]), found = MEASURE_PANELS.density.make(given);
      if (!c.kind || c.noise) return found;
      return { ...found, marks: [{ label: `k_max = ${firstOf(c.beta, c.d)} peaks`, formula: "k_max = argmax_k k(k+d−2) w_k", when: "peaks of a small perturbation of the uniform density, as long as it is small", page: "modes" }] };
    },
  },
};

/** The panels of each kind of frame; stories add others to those of tokens. */
export const PANELS_OF = [
  ["energy", "order", "clusters", "cosines", "modes", "attention"],
  ["energy", "order", "density", "modes"],
  ["deviations", "mean"],
  ["energy", "order", "modes"],
];

/** Return the level of the staircase if nearly all tokens are in a few clusters. */
function staircase(run) {
  const groups = run.config.foreign ? null : clusterMasses(run);
  return groups && { level: groups.reduce((sum, { mass }) => sum + mass * mass, 0) };
}

/** Return the clusters of a run as {mass, center}, if there are few. */
function clusterMasses({ frame, x }) {
  if (!frame || frame.kind !== TOKENS || !frame.labels || frame.clusters > 14 || frame.clusters * 2 > frame.n + 2) return null;
  const { n, d, labels, weights } = frame, groups = Array.from({ length: frame.clusters }, () => ({ mass: 0, center: new Float64Array(d) }));
  for (let i = 0; i < n; i++) {
    const group = groups[labels[i]], w = weights ? weights[i] : 1 / n;
    group.mass += w;
    for (let a = 0; a < d; a++) group.center[a] += w * x[i * d + a];
  }
  for (const { center } of groups) {
    const length = Math.hypot(...center) || 1;
    for (let a = 0; a < d; a++) center[a] /= length;
  }
  return groups;
}

/** Return rough groups: each token joins the first group whose first token has a cosine above 0.8 with it. */
function nearGroups(x, n, d) {
  const leaders = [], group = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    let found = leaders.findIndex((j) => {
      let cosine = 0;
      for (let a = 0; a < d; a++) cosine += x[i * d + a] * x[j * d + a];
      return cosine > 0.8;
    });
    if (found < 0) found = leaders.push(i) - 1;
    group[i] = found;
  }
  return group;
}

/** Return how much tokens attend to their own cluster, or to themselves before there are any: theory and measured. */
function attentionMarks(run, attention, weights) {
  const c = theoryCase(run), { frame, x } = run, { n, d, labels } = frame, groups = clusterMasses(run);
  if (c.kind !== "softmax" || n < 2) return [];
  const size = Math.min(n, FEW_ROWS), few = Array.from({ length: size }, (_, k) => Math.floor((k * n) / size)), all = Float64Array.from(x);
  const part = (seen, i) => attentionRow(attention, all, weights, i).reduce((sum, value, j) => sum + (seen(i, j) ? value : 0), 0);
  const measured = (seen) => few.reduce((sum, i) => sum + part(seen, i), 0) / size;
  if (groups && groups.length > 1 && groups.length <= 6) {
    const cosines = groups.map((a) => groups.map((b) => a.center.reduce((sum, value, k) => sum + value * b.center[k], 0)));
    const own = groups.map((_, a) => ownAttention(a, groups.map(({ mass }) => mass), cosines, c.beta));
    const predicted = few.reduce((sum, i) => sum + own[labels[i]], 0) / size;
    return [{ label: `own cluster ${short(predicted)}`, formula: "p_{own} = m_a / Σ_b m_b exp(−β(1−ρ_{ab}))", when: `clusters that have collapsed; mean over tokens, measured ${short(measured((i, j) => labels[i] === labels[j]))}`, page: "metastability" }];
  }
  if (!isEven(frame) || groups || n < MANY) return [];
  return [{ label: `self ${short(attentionToSelf(n, c.beta, d))}, mean ${short(1 / n)}`, formula: "mean p_{ij} = 1/n,  p_{ii} = e^β / (e^β + (n−1) w₀)", when: `many uniform tokens; measured on themselves ${short(measured((i, j) => i === j))}`, page: "modes" }];
}

/** Return {time, rho} at which the pair of clusters that is first to merge does so, by the two-cluster formula. */
function nextMerge(run) {
  const c = theoryCase(run), groups = clusterMasses(run);
  if (!groups || groups.length < 2 || !c.kind || !c.post || c.noise) return null;
  let best = null;
  for (let a = 0; a < groups.length; a++)
    for (let b = 0; b < a; b++) {
      const rho = groups[a].center.reduce((sum, value, k) => sum + value * groups[b].center[k], 0);
      if (rho > COLLAPSED || rho < -0.9999) continue;
      const log = logMergeTime(rho, Math.max(rho, COLLAPSED, halfWayCosine(rho, c.beta)), c.beta, [groups[a].mass, groups[b].mass], c.kind) + c.logUnit;
      if (log < 690 && (!best || log < best.log)) best = { log, rho, time: run.frame.time + Math.exp(log) };
    }
  return best;
}

/** One softmax layer on n tokens at equal angles, from their matrix of cosines: the cosine of two outputs. */
function measuredLayer(rho, n, beta) {
  const p = (i) => {
    const row = Array.from({ length: n }, (_, j) => Math.exp(beta * ((i === j ? 1 : rho) - 1))), total = row.reduce((a, b) => a + b);
    return row.map((value) => value / total);
  };
  const [a, b] = [p(0), p(1)];
  const inner = (u, v) => u.reduce((sum, ui, i) => sum + ui * v.reduce((s, vj, j) => s + (i === j ? 1 : rho) * vj, 0), 0);
  return inner(a, b) / Math.sqrt(inner(a, a) * inner(b, b));
}
