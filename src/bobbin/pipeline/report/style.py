"""How the page looks: one sheet, in light and in dark, on screens and on paper."""

from typing import Final

SHEET: Final = """
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#5b6675;--rule:#dfe4ea;--main:#2f6fb7;
--second:#e0912f;--bad:#c43d3d;--good:#2e8b62;--line:#8a4fb5;--code:#eef1f5}
@media(prefers-color-scheme:dark){:root{--paper:#11161d;--card:#19212b;--ink:#e4e9f0;--soft:#98a4b3;--rule:#2b3643;
--main:#5c9ee0;--second:#e6a44e;--bad:#e46a6a;--good:#55b98a;--line:#bd8be0;--code:#222c38}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main,header,footer{max-width:1080px;margin:0 auto;padding:0 20px}
header{padding-top:36px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:18px;margin:0 0 2px}
h3{font-size:14px;margin:18px 0 6px}
p{margin:0 0 12px}
.soft,.lead{color:var(--soft)}
.lead{margin-bottom:14px;max-width:74ch}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:20px 22px;margin:18px 0}
.totals{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0 18px;padding:0}
.totals div{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 16px}
.totals dt{color:var(--soft);font-size:13px}
.totals dd{margin:0;font-size:24px;font-weight:600;letter-spacing:-.01em}
.totals dd small{display:block;font-size:12.5px;font-weight:400;color:var(--soft);letter-spacing:0}
.note{border-left:3px solid var(--second);background:var(--code);padding:8px 12px;border-radius:0 6px 6px 0}
.good{border-left-color:var(--good)}
.plot{overflow-x:auto}
.plot svg{display:block;width:100%;min-width:620px;height:auto}
svg .grid{stroke:var(--rule);stroke-width:1}
svg .tick{fill:var(--soft);font-size:12px}
svg .main{fill:var(--main)}svg .second{fill:var(--second)}svg .bad{fill:var(--bad)}svg .good{fill:var(--good)}
svg .rest{fill:var(--soft)}
svg .line{fill:none;stroke:var(--line);stroke-width:2.5;stroke-linejoin:round}
svg .touch{fill:transparent}
svg g:hover .touch{fill:var(--ink);fill-opacity:.07}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--rule);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
thead td{border-bottom:1px solid var(--rule)}
th{color:var(--soft);font-weight:500;font-size:13px;white-space:nowrap}
td.number,th.number{text-align:right;white-space:nowrap}
td.name{overflow-wrap:anywhere;min-width:12ch}
td.wide{width:36%;min-width:110px;padding-top:10px}
svg.bar{display:block;width:100%;height:12px}
code{font:13px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--code);border-radius:4px;
padding:1px 4px;overflow-wrap:anywhere}
details{margin-top:10px}
summary{cursor:pointer;color:var(--soft);font-size:13.5px}
details[open] summary{margin-bottom:8px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;color:var(--soft);font-size:13px;margin:6px 0 12px;padding:0;
list-style:none}
.legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px;vertical-align:-1px}
.legend .main{background:var(--main)}.legend .second{background:var(--second)}.legend .bad{background:var(--bad)}
.legend .line{background:var(--line);height:3px;vertical-align:3px}
.halves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:18px;margin:18px 0}
.halves section{margin:0}
.tag{display:inline-block;border:1px solid var(--rule);border-radius:20px;padding:0 9px;font-size:12.5px;
color:var(--soft)}
.tag.good{color:var(--good);border-color:currentColor}.tag.second{color:var(--second);border-color:currentColor}
footer{color:var(--soft);font-size:13px;padding-top:4px;padding-bottom:36px}
@media(max-width:560px){section{padding:16px;overflow-x:auto}td.wide{min-width:48px}}
@media print{body{background:#fff}section{break-inside:avoid;border-color:#ccc}details>*{display:block}}
"""
