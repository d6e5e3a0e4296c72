/** The run on the page as Python and as TOML, in tokenfield's own words. */

const KERNEL = { softmax: "Softmax", unnormalized: "Unnormalized", l2: "L2", sigmoid: "Sigmoid", hardmax: "Hardmax" };
const NORM = { post: "PostLN", pre: "PreLN", peri: "PeriLN", mix: "MixLN", ngpt: "NGPT", sqrt: "SqrtScaling" };

const real = (value) => (Number.isInteger(value) ? `${value}.0` : String(value));
const unit = (row) => row.map((value) => value / Math.hypot(...row));
const shares = (weights) => weights.map((w) => w / weights.reduce((a, b) => a + b, 0));
const matrix = (rows) => `[${rows.map((row) => `[${row.map(real).join(", ")}]`).join(", ")}]`;

/** Return Python code that runs this config to time t1 and prints its clusters. */
export function toPython(config, t1) {
  const { attention: a, norm, noise } = config, options = [];
  if (a.A && a.kind !== "l2") options.push(`A=${matrix(a.A)}`);
  else if (a.kind !== "hardmax") options.push(`beta=${real(a.beta)}`);
  if (a.V !== null) options.push(`V=${Array.isArray(a.V) ? matrix(a.V) : real(a.V)}`);
  if (a.causal) options.push("causal=True");
  if (a.slope) options.push(`positions=tkf.ALiBi(slope=${real(a.slope)})`);
  if (a.rule && a.rule !== "self") options.push(`rule="${a.rule}"`);
  const rule = norm.kind === "mix" ? `tau=${real(norm.tau)}` : norm.kind === "ngpt" ? `alpha=${real(norm.alpha)}` : "";
  const model = [`tkf.${KERNEL[a.kind]}(${options.join(", ")})`, `norm=tkf.${NORM[norm.kind]}(${rule})`];
  if (noise) model.push(`noise=tkf.SphereNoise(kappa=${real(noise.kappa)})`);
  const radial = ["pre", "peri", "mix"].includes(norm.kind);
  return [
    "import tokenfield as tkf",
    "",
    `model = tkf.Transformer(${model.join(", ")})`,
    `tokens = ${pythonTokens(config.tokens)}`,
    `traj = tkf.simulate(model, tokens, t1=${real(rounded(t1))}${noise ? ", seed=0" : ""})`,
    `print(tkf.clusters(traj.final${radial ? ', metric="cosine"' : ""}).sizes)`,
    "",
  ].join("\n");
}

function pythonTokens(t) {
  if (t.x) {
    const rows = `[\n${t.x.map((row) => `    [${row.join(", ")}],`).join("\n")}\n]`;
    if (!t.weights) return `tkf.Tokens(${rows}).normalized()`;
    return `tkf.Tokens(${rows}, weights=[${shares(t.weights).map(real).join(", ")}]).normalized()`;
  }
  if (t.kind === "circle") return `tkf.circle_tokens([${t.angles.map(real).join(", ")}])`;
  if (t.kind === "clusters") return `tkf.separated_clusters(${t.n}, ${t.d}, k=${t.k}, spread=${real(t.spread)}, seed=${t.seed})`;
  return `tkf.${t.kind === "hemisphere" ? "hemisphere" : "uniform_sphere"}(${t.n}, ${t.d}, seed=${t.seed})`;
}

/** Return the config as a run file for `tokenfield simulate`. */
export function toToml(config, t1) {
  const { attention: a, norm, noise, tokens } = config, lines = [`t1 = ${real(rounded(t1))}`, "", "[attention]", `kind = "${a.kind}"`];
  if (a.A && a.kind !== "l2") lines.push(`A = ${matrix(a.A)}`);
  else if (a.kind !== "hardmax") lines.push(`beta = ${real(a.beta)}`);
  if (a.V !== null) lines.push(`V = ${Array.isArray(a.V) ? matrix(a.V) : real(a.V)}`);
  if (a.causal) lines.push("causal = true");
  if (a.rule && a.rule !== "self") lines.push(`rule = "${a.rule}"`);
  if (a.slope) lines.push(`positions = {kind = "alibi", slope = ${real(a.slope)}}`);
  lines.push("", "[norm]", `kind = "${norm.kind}"`);
  if (norm.kind === "mix") lines.push(`tau = ${real(norm.tau)}`);
  if (norm.kind === "ngpt") lines.push(`alpha = ${real(norm.alpha)}`);
  if (noise) lines.push("", "[noise]", `kappa = ${real(noise.kappa)}`);
  lines.push("", "[tokens]");
  if (tokens.x && tokens.x[0].length === 2 && !tokens.weights) {
    lines.push('kind = "circle"', `angles = [${tokens.x.map(([x, y]) => real(Number(Math.atan2(y, x).toFixed(9)))).join(", ")}]`);
  } else if (tokens.x) {
    lines.splice(-1, 1, "[state]", 'kind = "tokens"', `x = [${tokens.x.map((row) => `[${unit(row).map(real).join(", ")}]`).join(", ")}]`);
    if (tokens.weights) lines.push(`weights = [${shares(tokens.weights).map(real).join(", ")}]`);
  } else if (tokens.kind === "circle") lines.push('kind = "circle"', `angles = [${tokens.angles.map(real).join(", ")}]`);
  else {
    lines.push(`kind = "${tokens.kind}"`);
    for (const key of ["n", "d", "seed", "k"]) if (tokens[key] !== undefined) lines.push(`${key} = ${tokens[key]}`);
    if (tokens.spread !== undefined) lines.push(`spread = ${real(tokens.spread)}`);
  }
  return `${lines.join("\n")}\n`;
}

/** Return a run file that ends at time t1, unless it says itself when it ends. */
export function withEnd(toml, t1) {
  return /^(t1|depth) = /m.test(toml) ? toml : `t1 = ${real(rounded(t1))}\n${toml}`;
}

function rounded(t1) {
  return Number(Math.max(t1, 1).toPrecision(4));
}
