/** Draw discs, lines and the ball with WebGL2. Coordinates are pixels from the top left corner. */

const POINTS = [
  `#version 300 es
  uniform vec2 size; in vec2 place; in float radius; in vec4 color; out vec4 tint; out float edge;
  void main() {
    gl_Position = vec4(place / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
    gl_PointSize = 2.0 * radius + 2.0; edge = radius + 1.0; tint = color;
  }`,
  `#version 300 es
  precision mediump float; in vec4 tint; in float edge; out vec4 result;
  void main() {
    vec2 at = (2.0 * gl_PointCoord - 1.0) * edge; float distance = length(at);
    float cover = clamp(edge - distance, 0.0, 1.0);
    if (cover <= 0.0) discard;
    float light = 0.78 + 0.3 * (1.0 - clamp(length(at / edge + vec2(0.35, 0.4)), 0.0, 1.0));
    float rim = mix(0.72, 1.0, clamp(edge - distance - 0.6, 0.0, 1.0));
    result = vec4(tint.rgb * light * rim, 1) * tint.a * cover;
  }`,
];
const LINES = [
  `#version 300 es
  uniform vec2 size; in vec2 corner; in vec4 ends; in float width; in vec4 color; in float fade; out vec4 tint;
  void main() {
    vec2 along = ends.zw - ends.xy; float far = max(length(along), 1e-4);
    vec2 across = vec2(-along.y, along.x) / far * width * 0.5;
    vec2 place = mix(ends.xy, ends.zw, corner.x) + across * corner.y;
    gl_Position = vec4(place / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
    tint = vec4(color.rgb, color.a * mix(fade, 1.0, corner.x));
  }`,
  `#version 300 es
  precision mediump float; in vec4 tint; out vec4 result;
  void main() { result = vec4(tint.rgb, 1) * tint.a; }`,
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
const LINE_FLOATS = 10; // x0, y0, x1, y1, width, r, g, b, a, fade
const POINT_FLOATS = 7; // x, y, radius, r, g, b, a

export class GlRenderer {
  /** Throw an Error if the canvas has no WebGL2. */
  constructor(canvas) {
    const gl = canvas.getContext("webgl2", { alpha: true, antialias: true, premultipliedAlpha: true, preserveDrawingBuffer: true });
    if (!gl) throw new Error("no WebGL2");
    Object.assign(this, { gl, canvas, name: "WebGL2" });
    this.points = this.program(POINTS);
    this.lines = this.program(LINES);
    this.ball = this.program(BALL);
    this.buffer = gl.createBuffer();
    this.corners = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.corners);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0, -1, 1, -1, 0, 1, 1, 1]), gl.STATIC_DRAW);
    this.pointArray = this.arrangement(this.points, POINT_FLOATS, [["place", 2], ["radius", 1], ["color", 4]], 0, false);
    this.lineArray = this.arrangement(this.lines, LINE_FLOATS, [["ends", 4], ["width", 1], ["color", 4], ["fade", 1]], 1, true);
    this.ballArray = this.arrangement(this.ball, 0, [], 0, true);
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

  arrangement({ program }, floats, fields, divisor, corners) {
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
    for (const [name, size] of fields) {
      const place = gl.getAttribLocation(program, name);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, gl.FLOAT, false, 4 * floats, 4 * offset);
      gl.vertexAttribDivisor(place, divisor);
      offset += size;
    }
    gl.bindVertexArray(null);
    return array;
  }

  begin(width, height, scale) {
    const { gl, canvas } = this;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    this.scale = scale;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
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

  /** Draw `count` discs: x, y, radius, r, g, b, a each. */
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
    this.upload(data, count * LINE_FLOATS);
    this.use(this.lines, this.lineArray);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, count);
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
