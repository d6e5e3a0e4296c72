/** Draw discs, lines and the ball with WebGL2. Coordinates are pixels from the top left corner. */

const POINTS = [
  `#version 300 es
  uniform vec2 size; in vec2 place; in float radius; in vec4 color; out vec4 tint; out float edge;
  void main() {
    gl_Position = vec4(place / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
    gl_PointSize = 2.0 * abs(radius) + 2.0; edge = radius < 0.0 ? -1.0 : radius + 1.0; tint = color;
  }`,
  `#version 300 es
  precision mediump float; in vec4 tint; in float edge; out vec4 result;
  void main() {
    vec2 at = (2.0 * gl_PointCoord - 1.0) * edge; float distance = length(at);
    if (edge < 0.0) {
      float soft = max(0.0, 1.0 - distance * distance);
      result = vec4(tint.rgb, 1) * tint.a * soft * soft;
      return;
    }
    float cover = clamp(edge - distance, 0.0, 1.0);
    if (cover <= 0.0) discard;
    float light = 0.78 + 0.3 * (1.0 - clamp(length(at / edge + vec2(0.35, 0.4)), 0.0, 1.0));
    float rim = mix(0.72, 1.0, clamp(edge - distance - 0.6, 0.0, 1.0));
    result = vec4(tint.rgb * light * rim, 1) * tint.a * cover;
  }`,
];
const LINES = [
  `#version 300 es
  uniform vec2 size; in vec2 place; in vec2 side; in vec4 color; out vec4 tint; out vec2 across;
  void main() {
    gl_Position = vec4(place / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
    tint = color; across = side;
  }`,
  `#version 300 es
  precision mediump float; in vec4 tint; in vec2 across; out vec4 result;
  void main() { result = vec4(tint.rgb, 1) * tint.a * clamp(across.y - abs(across.x) + 0.5, 0.0, 1.0); }`,
];
const BALL = [
  `#version 300 es
  uniform vec2 size; uniform vec3 ball; in vec2 corner; out vec2 at;
  void main() {
    at = vec2(corner.x * 2.0 - 1.0, corner.y) * 1.02;
    gl_Position = vec4((ball.xy + at * ball.z) / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
  }`,
  `#version 300 es
  precision highp float; uniform vec4 fill; uniform vec4 rim; uniform vec3 ball; in vec2 at; out vec4 result;
  void main() {
    float distance = length(at), pixel = 1.0 / ball.z;
    float inside = clamp((1.0 - distance) / pixel + 0.5, 0.0, 1.0);
    if (inside <= 0.0) discard;
    float depth = sqrt(max(0.0, 1.0 - distance * distance));
    float light = 0.9 + 0.14 * (dot(vec3(at.x, at.y, depth), vec3(-0.4, -0.55, 0.73)));
    vec4 color = vec4(fill.rgb * light, fill.a * (0.55 + 0.45 * (1.0 - depth)));
    float border = smoothstep(1.0 - 3.0 * pixel, 1.0 - 1.5 * pixel, distance);
    color = mix(color, rim, border * 0.7);
    result = vec4(color.rgb, 1) * color.a * inside;
  }`,
];
const LINE_FLOATS = 10; // as handed over: x0, y0, x1, y1, width, r, g, b, a, fade
const CORNER_WORDS = 5; // as drawn, at each of four corners: x, y, side, half the width, color
const POINT_FLOATS = 7; // x, y, radius, r, g, b, a

export class GlRenderer {
  /** Throw an Error if the canvas has no WebGL2. */
  constructor(canvas) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, stencil: false, powerPreference: "low-power" });
    if (!gl) throw new Error("no WebGL2");
    Object.assign(this, { gl, canvas, name: "WebGL2" });
    this.points = this.program(POINTS);
    this.lines = this.program(LINES);
    this.ball = this.program(BALL);
    this.buffer = gl.createBuffer();
    this.corners = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.corners);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0, -1, 1, -1, 0, 1, 1, 1]), gl.STATIC_DRAW);
    this.pointArray = this.arrangement(this.points, POINT_FLOATS, [["place", 2], ["radius", 1], ["color", 4]], false);
    this.lineArray = this.arrangement(this.lines, CORNER_WORDS, [["place", 2], ["side", 2], ["color", 4, gl.UNSIGNED_BYTE]], false);
    this.ballArray = this.arrangement(this.ball, 0, [], true);
    this.indices = gl.createBuffer();
    this.capacity = 0;
    const names = gl.getExtension("WEBGL_debug_renderer_info");
    this.software = /swiftshader|llvmpipe|software/i.test(gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER)); // no GPU
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  program([vertex, fragment]) {
    const { gl } = this, program = gl.createProgram();
    for (const [type, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    const uniforms = {};
    for (const name of ["size", "ball", "fill", "rim"]) uniforms[name] = gl.getUniformLocation(program, name);
    return { program, uniforms };
  }

  /** Tell where the numbers of a vertex are: fields of [name, size, type], `words` of four bytes in all. */
  arrangement({ program }, words, fields, corners) {
    const { gl } = this, array = gl.createVertexArray();
    gl.bindVertexArray(array);
    if (corners) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.corners);
      const place = gl.getAttribLocation(program, "corner");
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, 2, gl.FLOAT, false, 8, 0);
    }
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    let offset = 0;
    for (const [name, size, type = gl.FLOAT] of fields) {
      const place = gl.getAttribLocation(program, name);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, type, type !== gl.FLOAT, 4 * words, 4 * offset);
      offset += type === gl.FLOAT ? size : 1;
    }
    gl.bindVertexArray(null);
    return array;
  }

  begin(width, height, scale, [r, g, b]) {
    const { gl, canvas } = this;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    this.scale = scale;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(r, g, b, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
  }

  use({ program, uniforms }, array) {
    const { gl, canvas } = this;
    gl.useProgram(program);
    gl.uniform2f(uniforms.size, canvas.width / this.scale, canvas.height / this.scale);
    gl.bindVertexArray(array);
  }

  upload(data, count) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data.subarray(0, count), gl.STREAM_DRAW);
  }

  /** Draw `count` discs: x, y, radius, r, g, b, a each. One of negative radius is flat and fades to its rim. */
  drawPoints(data, count) {
    if (!count) return;
    const { gl, scale } = this;
    if (scale !== 1) for (let i = 2; i < count * POINT_FLOATS; i += POINT_FLOATS) data[i] *= scale;
    this.upload(data, count * POINT_FLOATS);
    this.use(this.points, this.pointArray);
    gl.drawArrays(gl.POINTS, 0, count);
  }

  /** Draw `count` lines: x0, y0, x1, y1, width, r, g, b, a and the factor of a at the first end. */
  drawLines(data, count) {
    if (!count) return;
    const { gl } = this;
    this.reserve(count);
    const { floats, colors } = this;
    for (let i = 0, to = 0; i < count; i++) {
      const at = i * LINE_FLOATS, x0 = data[at], y0 = data[at + 1], x1 = data[at + 2], y1 = data[at + 3];
      const wide = data[at + 4] / 2, half = wide + 0.75, far = Math.hypot(x1 - x0, y1 - y0) || 1e-4;
      const nx = (-(y1 - y0) / far) * half, ny = ((x1 - x0) / far) * half;
      const rgb = (data[at + 5] * 255) | ((data[at + 6] * 255) << 8) | ((data[at + 7] * 255) << 16);
      const first = rgb | ((data[at + 8] * data[at + 9] * 255) << 24), last = rgb | ((data[at + 8] * 255) << 24);
      for (let c = 0; c < 4; c++, to += CORNER_WORDS) {
        const sign = c & 1 ? 1 : -1, end = c > 1;
        floats[to] = (end ? x1 : x0) + sign * nx;
        floats[to + 1] = (end ? y1 : y0) + sign * ny;
        floats[to + 2] = sign * half;
        floats[to + 3] = wide;
        colors[to + 4] = end ? last : first;
      }
    }
    this.upload(floats, 4 * CORNER_WORDS * count);
    this.use(this.lines, this.lineArray);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indices);
    gl.drawElements(gl.TRIANGLES, 6 * count, gl.UNSIGNED_INT, 0);
  }

  /** Make room for `count` lines. (Instances would need none, but are slow without a GPU.) */
  reserve(count) {
    if (count <= this.capacity) return;
    const { gl } = this;
    this.capacity = 2 * count;
    this.floats = new Float32Array(4 * CORNER_WORDS * this.capacity);
    this.colors = new Uint32Array(this.floats.buffer);
    const indices = new Uint32Array(6 * this.capacity);
    for (let i = 0; i < this.capacity; i++) indices.set([4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 1, 4 * i + 3, 4 * i + 2], 6 * i);
    gl.bindVertexArray(null);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indices);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, indices, gl.STATIC_DRAW);
  }

  drawBall(x, y, radius, fill, rim) {
    const { gl } = this, { uniforms } = this.ball;
    this.use(this.ball, this.ballArray);
    gl.uniform3f(uniforms.ball, x, y, radius);
    gl.uniform4fv(uniforms.fill, fill);
    gl.uniform4fv(uniforms.rim, rim);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }
}
