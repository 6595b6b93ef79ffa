"""The looks of a report, on a screen and on paper."""

CSS = """
:root { color-scheme: light; }
html { font-size: 16px; }
body { margin: 0; background: #fff; color: #1a1a1a; font: 1rem/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main, footer { max-width: 56rem; margin: 0 auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 1.6rem 0 0.6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; padding-top: 0.7rem; border-top: 2px solid #1a1a1a; }
h3 { font-size: 1rem; margin: 1.1rem 0 0.3rem; }
p { margin: 0.4rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1.2rem; margin: 0.6rem 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.92rem; max-width: 100%; display: block;
  overflow-x: auto; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #4a4a4a; padding-bottom: 0.2rem; }
th, td { text-align: left; vertical-align: top; padding: 0.28rem 0.9rem 0.28rem 0; border-bottom: 1px solid #ccc;
  overflow-wrap: anywhere; unicode-bidi: isolate; }
td { min-width: 4.5rem; }
td:first-child { min-width: 7rem; }
.wide th, .wide td { width: 33%; min-width: 9rem; }
thead th { border-bottom: 2px solid #1a1a1a; overflow-wrap: normal; }
.warning { border-left: 4px solid #1a1a1a; background: #f3f3f3; padding: 0.5rem 0.8rem; }
figure { margin: 1rem 0; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: #4a4a4a; font-size: 0.9rem; }
pre { background: #f3f3f3; padding: 0.7rem 0.9rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font: 0.85rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
footer { color: #4a4a4a; font-size: 0.9rem; border-top: 1px solid #ccc; margin-top: 2rem; padding-bottom: 2rem; }
@page { margin: 16mm; }
@media print {
  html { font-size: 9.5pt; }
  thead th { overflow-wrap: anywhere; }
  main, footer { max-width: none; padding: 0; }
  h2, h3, caption { break-after: avoid; }
  tr, figure, .warning, dl { break-inside: avoid; }
  table { display: table; overflow: visible; }
  thead { display: table-header-group; }
  pre { background: none; border: 1px solid #ccc; }
  .warning { background: none; }
}
"""
