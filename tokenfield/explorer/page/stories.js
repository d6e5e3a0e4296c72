/**
 * Guided scenes. A step sets the whole run, so that each can be opened by a link. Keys: `text`; `config` (raw, with the
 * defaults of the page for what is left out); `pace`; `show`, the plot to look at; `compare`, a norm to run beside; `sweep`,
 * the values of kappa to visit; `influence` and `context` for plots of their own; `pause` to start at rest.
 */

const circle = (n, seed = 0) => ({ kind: "sphere", n, d: 2, seed });
const sphere = (n, seed = 0) => ({ kind: "sphere", n, d: 3, seed });
const softmax = (beta, more = {}) => ({ kind: "softmax", beta, ...more });

export const STORIES = [
  {
    name: "clusters",
    title: "Clusters appear",
    steps: [
      {
        text: "Every dot is a token. Self-attention pulls each token toward the tokens it attends to, and layer normalization keeps them all on the sphere. Watch: from random places, groups form within a few units of time.",
        config: { attention: softmax(9), tokens: sphere(256) }, pace: { speed: 1 }, show: "clusters",
      },
      {
        text: "The same tokens with softer attention, β = 1. Now every token attends to all others, and all tokens meet in one cluster.",
        config: { attention: softmax(1), tokens: sphere(256) }, pace: { speed: 1.5 }, show: "order",
      },
      {
        text: "With β = 30 tokens see only close neighbors: many small groups. β is the inverse temperature of softmax. Drag the β slider while the tokens move.",
        config: { attention: softmax(30), tokens: sphere(256) }, pace: { speed: 1 }, show: "attention",
      },
    ],
  },
  {
    name: "count",
    title: "β counts the clusters",
    steps: [
      {
        text: "Tokens spread over the circle. A small perturbation with k periods, mode k, grows at a known rate, and the fastest mode decides how many clusters appear first. For β = 5 theory says k_max = 3. The inside of the circle shows the past: time runs outward.",
        config: { attention: softmax(5), tokens: circle(400, 3) }, pace: { speed: 1.2 }, show: "modes",
      },
      {
        text: "For β = 20 the winner is k = 6. The bars are the predicted rates, the dots are measured in this run. Random starts contain all modes, so the count may differ by one or two.",
        config: { attention: softmax(20), tokens: circle(600, 1) }, pace: { speed: 1.2 }, show: "modes",
      },
      {
        text: "For large β the number grows like √(2β). At β = 100 theory predicts about 14 clusters. Drag β and compare the dashed line with the measured count.",
        config: { attention: softmax(100), tokens: circle(600, 2) }, pace: { speed: 1.2 }, show: "clusters",
      },
    ],
  },
  {
    name: "wait",
    title: "The long wait and the staircase",
    steps: [
      {
        text: "Five tokens on the circle, β = 4. Two pairs meet soon. Then almost nothing moves, for a long time. Time now runs on a logarithmic scale: each second is a third of a decade.",
        config: { attention: softmax(4), tokens: { kind: "circle", angles: [0.06219714, 0.21432297, 1.81912262, 2.91107101, -3.09524835] } },
        pace: { speed: 0.3, log: true }, show: "energy",
      },
      {
        text: "The energy climbs a staircase. Each step lies at the sum of the squared cluster masses, and each jump is a merge. The dashed vertical line predicts the next merge from the two-cluster formula. The other clusters also pull, so it moves a little.",
        config: { attention: softmax(12), tokens: { kind: "clusters", n: 60, d: 2, k: 5, spread: 0.08, seed: 4 } },
        pace: { speed: 0.4, log: true }, show: "energy",
      },
      {
        text: "The wait grows like exp(β(1−ρ)), where ρ is the cosine between two clusters. At β = 40 two clusters at a right angle wait about 3·10¹⁵ units of time. The engine treats a collapsed cluster as one heavy token, so it gets there.",
        config: { attention: softmax(40), tokens: { kind: "circle", angles: [0, 0.02, 1.57, 1.59] } },
        pace: { speed: 1.2, log: true }, show: "energy",
      },
    ],
  },
  {
    name: "noise",
    title: "Noise melts order",
    steps: [
      {
        text: "Unnormalized attention with noise on the circle, β = 1. The noise has strength 1/κ. At κ = 4 attention wins: one loose cluster that wanders. The dashed line is the order that theory predicts.",
        config: { attention: { kind: "unnormalized", beta: 1 }, noise: { kappa: 4 }, tokens: circle(300) }, pace: { speed: 2 }, show: "order",
      },
      {
        text: "At κ = 1.2 noise wins, and the tokens spread over the whole circle. Between the two lies κ_c = β/I₁(β) = 1.77.",
        config: { attention: { kind: "unnormalized", beta: 1 }, noise: { kappa: 1.2 }, tokens: { kind: "clusters", n: 300, d: 2, k: 1, spread: 0.2, seed: 0 } }, pace: { speed: 2 }, show: "order",
      },
      {
        text: "A sweep: κ goes down step by step, and every dot is the measured order at one κ. Order melts at κ_c. Near κ_c the tokens respond slowly, and with finitely many of them the order never reaches zero exactly.",
        config: { attention: { kind: "unnormalized", beta: 1 }, noise: { kappa: 4 }, tokens: { kind: "clusters", n: 250, d: 2, k: 1, spread: 0.3, seed: 0 } },
        pace: { speed: 8 }, show: "sweep", sweep: { from: 4, to: 1, steps: 13, settle: 6, average: 8 },
      },
    ],
  },
  {
    name: "kuramoto",
    title: "Kuramoto is β = 0",
    steps: [
      {
        text: "On the circle with β = 0, attention is the Kuramoto model of coupled oscillators: every token pulls every other, θᵢ' = −(1/n) Σ sin(θᵢ − θⱼ). All tokens meet.",
        config: { attention: { kind: "unnormalized", beta: 0 }, tokens: circle(300) }, pace: { speed: 1.5 }, show: "order",
      },
      {
        text: "The order parameter follows a curve that is known exactly for many tokens, r = r₀ exp(t/2)/√(1 − r₀² + r₀² exp(t)). It is dashed in the plot of the order parameter.",
        config: { attention: { kind: "unnormalized", beta: 0 }, tokens: circle(1000, 5) }, pace: { speed: 1 }, show: "order",
      },
      {
        text: "With noise, order needs κ > 2. At κ = 3 theory gives r = 0.724, the solution of r = I₁(κr)/I₀(κr).",
        config: { attention: { kind: "unnormalized", beta: 0 }, noise: { kappa: 3 }, tokens: circle(500) }, pace: { speed: 3 }, show: "order",
      },
    ],
  },
  {
    name: "norms",
    title: "Pre-LN and Post-LN, side by side",
    steps: [
      {
        text: "The same start twice. Left: Post-LN normalizes after adding. Right: Pre-LN normalizes only what attention reads, so tokens grow longer, and each layer turns them less.",
        config: { attention: softmax(2), tokens: sphere(128, 1) }, compare: "pre", pace: { speed: 1 }, show: "order",
      },
      {
        text: "Late times: under Post-LN 1 − ρ falls like exp(−2t), under Pre-LN only like t^{−2}. Deep Pre-LN models keep their tokens apart for longer.",
        config: { attention: softmax(1), tokens: { kind: "hemisphere", n: 64, d: 3, seed: 2 } }, compare: "pre", pace: { speed: 1.5 }, show: "cosines",
      },
      {
        text: "Three tokens at right angles are equiangular, so the dashed curve of the left run is exact. Choose another norm under “Compare”: Peri-LN, Mix-LN, nGPT or the square-root scaling.",
        config: { attention: softmax(1), tokens: { x: [[32767, 0, 0], [0, 32767, 0], [0, 0, 32767]] } }, compare: "peri", pace: { speed: 1 }, show: "cosines",
      },
    ],
  },
  {
    name: "leader",
    title: "The causal leader",
    steps: [
      {
        text: "Causal attention: a token sees only tokens before it. The first token, with the ring around it, sees itself alone and never moves.",
        config: { attention: softmax(2, { causal: true }), tokens: sphere(128, 3) }, pace: { speed: 1.5 }, show: "attention",
      },
      {
        text: "In the end every token comes to the first one. The energy is not shown: a causal model has none.",
        config: { attention: softmax(2, { causal: true }), tokens: sphere(128, 3) }, pace: { speed: 0.35, log: true }, show: "order",
      },
      {
        text: "With sharp attention, β = 40, tokens that find no earlier token nearby become leaders for a while (Rényi centers). Clusters form around them, and persist.",
        config: { attention: softmax(40, { causal: true }), tokens: circle(200, 2) }, pace: { speed: 1 }, show: "clusters",
      },
    ],
  },
  {
    name: "context",
    title: "Lost in the middle, and long context",
    steps: [
      {
        text: "Causal attention near one cluster. Move one token a little: how far does the last one move in the end? Without a rule for positions, the first tokens matter most.",
        config: { attention: softmax(1, { causal: true }), tokens: { kind: "clusters", n: 32, d: 3, k: 1, spread: 0.01, seed: 1 } },
        pace: { speed: 0.5 }, show: "influence", influence: true,
      },
      {
        text: "ALiBi adds −λ|s − τ| to the scores and favors what is near. Early on the curve is a U: the first and the last tokens count, and the middle is lost.",
        config: { attention: softmax(1, { causal: true, slope: 3 }), tokens: { kind: "clusters", n: 32, d: 3, k: 1, spread: 0.01, seed: 1 } },
        pace: { speed: 0.25 }, show: "influence", influence: true,
      },
      {
        text: "Later the rise at the end goes away: from t = 2(1 − exp(−λ)) on, the end is lost too, and only the beginning counts.",
        config: { attention: softmax(1, { causal: true, slope: 3 }), tokens: { kind: "clusters", n: 32, d: 3, k: 1, spread: 0.01, seed: 1 } },
        pace: { speed: 1 }, show: "influence", influence: true,
      },
      {
        text: "Long context: let β = γ log n. Below γ = 1/(1−ρ) one layer merges all n tokens, above it leaves them apart. The change gets sharper as n grows.",
        config: { attention: softmax(9.2), tokens: sphere(100) }, pace: { speed: 1 }, show: "context", context: { rho: 0.5 },
      },
    ],
  },
];

export const STORY_NAMES = STORIES.map(({ name }) => name);
