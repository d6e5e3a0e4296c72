/** Densities: on the circle a curve around it, on the sphere shades. */

const SPREAD = 1.2; // radius of the discs of a density, in distances between them

/** A density on the circle, as a curve around it. */
export function drawDensity(scene, { n, x }, place, theme) {
  scene.ring(place, 0.62 * place.radius, theme);
  const most = Math.max(...x, 1e-12);
  const at = (k) => {
    const angle = (2 * Math.PI * k) / n + scene.camera.spin, radius = place.radius * (0.62 + (0.36 * Math.max(0, x[k % n])) / most);
    return [place.cx + radius * Math.cos(angle), place.cy - radius * Math.sin(angle)];
  };
  for (let k = 0; k < n; k++) scene.line(...at(k), ...at(k + 1), 2, theme.palette[0], 0.95);
  scene.flush();
}

/** A density on the sphere, as soft discs that cover it, the fainter the smaller it is; near the rim they are seen from the side. */
export function drawSphereDensity(scene, { n, x, weights }, place, theme) {
  const most = Math.max(...weights, 1e-12), radius = SPREAD * place.radius * Math.sqrt((4 * Math.PI) / n);
  const discs = (side) => {
    for (let i = 0; i < n; i++) {
      const [sx, sy, toward] = scene.screen(place, 3, x[3 * i], x[3 * i + 1], x[3 * i + 2]), share = weights[i] / most;
      if (toward < 0 === side < 0 && share > 0.004) scene.point(sx, sy, -radius * (0.35 + 0.65 * Math.abs(toward)), theme.palette[0], (side < 0 ? 0.25 : 0.7) * share);
    }
  };
  scene.meridians(place, theme, -1);
  discs(-1);
  scene.flush();
  scene.renderer.drawBall(place.cx, place.cy, place.radius, theme.sphere, theme.rim);
  scene.meridians(place, theme, 1);
  discs(1);
  scene.flush();
}
