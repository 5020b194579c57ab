/** Style of the funding page, inlined so that the page loads nothing else. */
export const FUND_PAGE_CSS = `
:root{color-scheme:light dark;--ink:#16202a;--dim:#5a6672;--page:#f4f5f2;--card:#fff;--line:#d8dcd6;--go:#0b6b4f;--go-ink:#fff;--note:#7a4b00;--note-page:#fff4dc}
@media (prefers-color-scheme:dark){:root{--ink:#e6eae7;--dim:#9aa6a0;--page:#12171a;--card:#1a2125;--line:#313b40;--go:#4fc79b;--go-ink:#06231a;--note:#ffd68a;--note-page:#33280f}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:56rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1rem;margin:0 0 .75rem}
p{margin:0 0 .75rem}
.dim{color:var(--dim)}
.small{font-size:.875rem}
.grid{display:grid;gap:1rem;margin-top:1.25rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1.25rem;min-width:0}
.note{background:var(--note-page);color:var(--note);border-radius:.5rem;padding:.75rem 1rem;margin-top:1rem}
.note p,.card>p:last-child{margin:0}
.address+p{margin-top:.75rem}
code{font:.9375rem/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.address{display:flex;gap:.75rem;align-items:center;flex-wrap:wrap}
.address code{flex:1 1 14rem;user-select:all}
button,.open{font:inherit;font-weight:600;border:0;border-radius:.5rem;padding:.625rem 1rem;min-height:2.75rem;background:var(--go);color:var(--go-ink);cursor:pointer;text-decoration:none;display:inline-block;text-align:center}
button:focus-visible,.open:focus-visible,.pick input:focus-visible+label{outline:3px solid var(--go);outline-offset:2px}
.pick{border:0;margin:0;padding:0;min-width:0;display:grid;gap:.5rem;grid-template-columns:repeat(2,minmax(0,1fr))}
.pick legend{font-weight:600;padding:0;margin-bottom:.75rem}
.pick input{position:absolute;opacity:0;width:1px;height:1px}
.pick label{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .75rem;min-height:3.5rem;cursor:pointer;display:flex;flex-direction:column;justify-content:center;line-height:1.3}
.pick label b{font-variant-numeric:tabular-nums}
.pick input:checked+label{border-color:var(--go);box-shadow:inset 0 0 0 1px var(--go)}
.pick label:first-of-type{grid-column:1/-1}
.code{display:none;grid-column:1/-1;text-align:center;margin-top:.5rem}
.code svg{display:block;width:100%;max-width:17rem;height:auto;margin:0 auto .75rem;background:#fff;border-radius:.5rem}
#a0:checked~.c0,#a1:checked~.c1,#a2:checked~.c2,#a3:checked~.c3,#a4:checked~.c4{display:block}
dl{display:grid;grid-template-columns:auto minmax(0,1fr);gap:.375rem 1rem;margin:0}
dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere}
.lines{white-space:pre-line}
ul{margin:0;padding-left:1.125rem}
li{margin-bottom:.375rem}
@media (min-width:48rem){main{padding-top:3rem}.grid{grid-template-columns:minmax(0,1fr) minmax(0,1fr);align-items:start;grid-template-rows:auto auto 1fr}.wide{grid-column:1/-1}.tall{grid-row:span 2}}
`
