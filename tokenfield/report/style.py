"""The style sheet of every page, for light and dark screens, phones and print."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1f2328; --soft: #59636e; --line: #d9dee3; --wash: #f6f8fa;
  --accent: #0067a3; --good: #00704f; --bad: #b3400a; --open: #59636e; --fixed: #7a5200;
  --good-wash: #e3f3ec; --bad-wash: #fbe5da; --open-wash: #eceff2; --fixed-wash: #fff3d6; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e3e7eb; --soft: #9da7b1; --line: #343b43;
  --wash: #1d2228; --accent: #6cb6f5; --good: #5fd3a8; --bad: #ff9f70; --open: #b4bdc6; --fixed: #f0c662;
  --good-wash: #12362b; --bad-wash: #46220f; --open-wash: #2a3037; --fixed-wash: #3d3110; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; color: var(--ink); background: var(--paper); line-height: 1.5; overflow-wrap: break-word;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif; font-size: 16px; }
main { max-width: 1000px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .5rem 0; }
.lead, figcaption, .note, .asked { color: var(--soft); }
figcaption, .note { font-size: .9rem; }
.answer { font-size: 1.15rem; line-height: 1.45; margin: 1rem 0; padding: .8rem 1.1rem; background: var(--wash);
  border-left: 4px solid var(--accent); border-radius: 0 6px 6px 0; }
a { color: var(--accent); }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: .88em; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; overflow-x: auto; }
figure { margin: 1rem 0; } figcaption { margin-top: .5rem; }
img { max-width: 100%; height: auto; display: block; background: #fff; border-radius: 6px; }
.wide, .scroll { overflow-x: auto; } .wide img { min-width: 640px; max-width: none; width: 100%; }
.plot { background: #fff; border-radius: 6px; padding: .3rem; } .plotly-graph-div { max-width: 100%; overflow: hidden; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .38rem .8rem .38rem 0; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; }
tbody th { font-weight: 500; color: var(--soft); width: 34%; min-width: 8.5rem; }
td { min-width: 3.5rem; }
.long { overflow-wrap: anywhere; }
.numbers tbody th { width: auto; min-width: 3rem; } .numbers td { white-space: nowrap; }
.numbers thead th { vertical-align: bottom; } .numbers th, .numbers td { padding-right: .5rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 360px), 1fr)); gap: 0 2.5rem; }
.columns > * { min-width: 0; }
.badge { font-size: .8rem; font-weight: 600; border-radius: 1rem; padding: .1rem .7rem; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); } .fixed { color: var(--fixed); }
.badge.good { background: var(--good-wash); } .badge.bad { background: var(--bad-wash); }
.badge.open { background: var(--open-wash); } .badge.fixed { background: var(--fixed-wash); }
details { margin: .8rem 0; border-top: 1px solid var(--line); padding-top: .6rem; }
summary { cursor: pointer; font-weight: 600; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
.texts tbody th { width: 85%; }
math { font-size: 1.04em; }
@media screen and (max-width: 40rem) { main { padding: 1.2rem .9rem 3rem; } h1 { font-size: 1.4rem; }
  .answer { font-size: 1.05rem; } .stacked thead { display: none; } .stacked tr { display: block; padding: .5rem 0;
  border-bottom: 1px solid var(--line); } .stacked th, .stacked td { display: block; width: auto; border: 0; padding: .1rem 0; }
  .stacked tbody th { color: var(--ink); font-weight: 600; }
  .stacked td::before { content: attr(data-column) ": "; color: var(--soft); } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --line: #bbb; --wash: #fff;
  --accent: #000; } body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  h2, h3 { break-after: avoid; } figure, tr, .answer { break-inside: avoid; } .scroll, .wide { overflow: visible; }
  .wide img { min-width: 0; max-width: 100%; } pre { white-space: pre-wrap; } .screen { display: none; } }
"""
