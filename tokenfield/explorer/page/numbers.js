/** Numbers as people read them. */

/** Return a number with three significant digits; very large and very small ones with a power of ten. */
export function short(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "none";
  if (value === 0 || (Math.abs(value) < 1e5 && Math.abs(value) >= 1e-3)) return String(Number(value.toPrecision(3)));
  const [digits, power] = value.toExponential(1).split("e");
  return `${digits}·10${superscript(Number(power))}`;
}

/** Return a whole number in small raised digits. */
export function superscript(power) {
  return [...String(power)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
}

/** Round to a tenth below 10, and to a whole number from there on. */
export function nice(beta) {
  return beta < 10 ? Math.round(beta * 10) / 10 : Math.round(beta);
}
