/**
 * Where the formulas of the plots come from: a short derivation for each page of docs/theory that a plot names. Paragraphs that
 * begin with "= " are formulas. The markup is that of `math` in dom.js.
 */
export const NOTES = {
  normalization: {
    title: "Tokens at equal angles",
    text: [
      "A token has a direction θ and a length r. Attention moves it by A_i = Σ_j p_{ij} x_j, and a norm turns this into θ' = (1/s) (A − ⟨θ,A⟩θ). The speed 1/s differs: s = 1 under Post-LN, r under Pre-LN, r|A| under Peri-LN, |A|/α under nGPT, √(t+1) under square-root scaling.",
      "If all cosines of n tokens equal ρ, symmetry keeps them equal. Every token then gives weight a to itself and c to each other one, and ρ' = 2⟨θ_i', θ_j⟩ is",
      "= ρ' = (2/s) c (1−ρ)(1+(n−1)ρ)",
      "with c = exp(βρ)/Z, Z = e^β + (n−1) exp(βρ) for softmax, and Z = n for unnormalized attention. The time of collapse is T = ∫ dρ/ρ' up to ρ = 0.999.",
      "The mean direction has length r with r² = (1+(n−1)ρ)/n, since the mean of all n² products is (n + n(n−1)ρ)/n². In the same way Ē = (1+(n−1) exp(β(ρ−1)))/n.",
      "Late: near ρ = 1, c tends to 1/n and (1−ρ)' ≈ −(2/s)(1−ρ). So 1−ρ falls like e^{−2t} under Post-LN, like t^{−2} where lengths grow (s ≈ t), like e^{−2αt} under nGPT and e^{−4√t} under square-root scaling.",
      "n equal angles need d ≥ n. In fewer dimensions the curve is a reference only; random tokens follow it as d grows.",
    ],
  },
  modes: {
    title: "Which mode grows first",
    text: [
      "Many tokens spread evenly are a uniform measure, which attention leaves at rest. Add a small ripple with k waves (on the sphere: a harmonic of degree k). The kernel exp(β⟨x,y⟩) multiplies harmonics of degree k by",
      "= w_k = Γ(d/2) (2/β)^{d/2−1} I_{k+d/2−1}(β)",
      "with the modified Bessel function I (Funk–Hecke formula). The flow of tokens is the gradient of this potential, and the divergence brings a factor k(k+d−2). So a ripple grows like exp(rate_k t),",
      "= rate_k = k(k+d−2) w_k/β  (divided by w₀ for softmax; minus k(k+d−2)/κ with noise)",
      "k_max is the k with the largest rate. On the circle it is the number of first clusters, about √(2β) for large β.",
      "Energy of uniform tokens: two independent tokens have on average exp(β(⟨x,y⟩−1)) = w₀ e^{−β}, a token with itself 1, so Ē = 1/n + (1−1/n) w₀ e^{−β}. A token attends to itself by e^β/(e^β + (n−1) w₀), and to all on average by 1/n.",
    ],
  },
  metastability: {
    title: "Waiting clusters",
    text: [
      "Tokens in a cluster of mass m count as one token of weight m. Clusters that are far apart hardly feel each other: the energy Ē = ΣΣ m_a m_b exp(−β(1−ρ_{ab})) stays at Σ m_a², and each token attends to its own cluster by",
      "= p_{own} = m_a / Σ_b m_b exp(−β(1−ρ_{ab}))",
      "Two clusters at cosine ρ approach each other by ρ' = (1−ρ²) F. Under softmax",
      "= F = m_j/(m_i E + m_j) + m_i/(m_j E + m_i),  E = exp(β(1−ρ))",
      "and F = (m_i+m_j) exp(βρ) for unnormalized attention. So T = ∫ dρ/((1−ρ²) F) is of order exp(β(1−ρ)): the wait. A merge is counted where the energy of the pair is half-way to that of one cluster. The prediction takes the closest pair and lets the others stand still.",
    ],
  },
  noise: {
    title: "Noise and order",
    text: [
      "Tokens follow attention and Brownian motion of strength √(2/κ) on the sphere. A density μ at rest has no flux: for unnormalized attention its gradient flow gives μ ∝ exp(κ W∗μ) with W = exp(β⟨x,y⟩)/β, for softmax μ ∝ Z^{κ/β} with Z = ∫ exp(β⟨x,y⟩) dμ(y). Its order parameter is m₁ = |∫ x dμ|; for β = 0 on the circle r = I₁(κr)/I₀(κr).",
      "The uniform density always solves this. It becomes unstable when the growth rate of the first mode is larger than diffusion, (d−1) w₁/β > (d−1)/κ:",
      "= κ_c = β/w₁ (unnormalized),  κ_c = β w₀/w₁ (softmax)",
      "For β = 0 this is κ_c = d. Finitely many tokens leave an order of about 1/√n below κ_c.",
      "Without noise and for β = 0 on the circle, tokens follow θ_i' = −r sin(θ_i − ψ) (Kuramoto). Many tokens that start close to uniform stay a wrapped Cauchy density, for which r' = r(1−r²)/2:",
      "= r = r₀ e^{t/2} / √(1 − r₀² + r₀² e^t)",
    ],
  },
  positions: {
    title: "Positions and influence",
    text: [
      "Causal attention: token i sees tokens 1 to i. Near one cluster all scores are equal up to the rule for positions, so p_{ij} = w_j/(w_1+…+w_i) with w_j = exp(λ j/n) under ALiBi, and small displacements u follow u' = (P−I) u. Moving token j moves the last one by the last entry of column j of",
      "= exp(t(P−I))",
      "At small t the weights w_j favor late tokens. Each round of attention moves weight to earlier ones, and from t = 2(1−exp(−λ))/a on the end is no longer favored (a = 1 near one cluster).",
    ],
  },
  long_context: {
    title: "Long context",
    text: [
      "One softmax layer on n tokens at cosine ρ with β = γ log n. A token weighs itself by e^β, all others together by (n−1) exp(βρ). The ratio is about n^{γ(1−ρ)−1}, so it tends to 0 below and to infinity above",
      "= γ_c = 1/(1−ρ)",
      "Below γ_c every token becomes the mean of all, and cosines become 1; above it nothing changes, and they stay ρ; at γ_c they become 4ρ/(1+3ρ).",
    ],
  },
  gaussian: {
    title: "Gaussians",
    text: [
      "Softmax attention over a Gaussian with mean m and covariance Σ is affine: the weights exp(⟨Ax,y⟩) tilt it, and its mean becomes m + ΣAx. So tokens without a norm stay Gaussian, with",
      "= Σ' = VΣAΣ + ΣA^{T}ΣV^{T},  m' = V(I + ΣA) m",
      "For constant A and V, with M = VA + A^{T}V^{T} and V commuting with M and Σ₀, (Σ^{−1})' = −M:",
      "= Σ(t) = Σ₀^{1/2} (I − t Σ₀^{1/2} M Σ₀^{1/2})^{−1} Σ₀^{1/2}",
      "It blows up at t* = 1/λ_max(Σ₀^{1/2} M Σ₀^{1/2}) if this is positive. Otherwise it tends to Σ₀^{1/2} Π Σ₀^{1/2}, with Π the projector on the kernel of Σ₀^{1/2} M Σ₀^{1/2}.",
    ],
  },
};
