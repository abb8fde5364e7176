"""How the page looks: in the light, in the dark, on a phone and on paper."""

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --sheet: #ffffff; --ink: #1f2328; --faint: #656d76; --line: #e2e0dc;
  --user: #0f5fb8; --user-sheet: #eef5fd; --agent: #3b7a2a; --good: #2c7a3f; --bad: #b42318;
  --bad-sheet: #fdf1ef; --code: #f5f3f0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14161a; --sheet: #1b1e23; --ink: #e4e6ea; --faint: #969ea8; --line: #2f343b;
    --user: #7cb8ff; --user-sheet: #182434; --agent: #8fd07d; --good: #77c98b; --bad: #ff9a8d;
    --bad-sheet: #2b1c1b; --code: #23272d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 52rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0; }
h2 a { color: inherit; text-decoration: none; }
h2 a:hover { text-decoration: underline; }
h2.chapter { font-size: 1.3rem; margin: 3rem 0 1rem; padding-top: 1rem;
  border-top: 3px double var(--line); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 2rem;
  padding: .9rem 1.1rem; background: var(--sheet); border: 1px solid var(--line);
  border-radius: .6rem; font-size: .9rem; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.turn { margin: 2.25rem 0; }
.turn > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem .75rem;
  padding-bottom: .4rem; margin-bottom: .9rem; border-bottom: 1px solid var(--line); }
.faint, time { color: var(--faint); font-size: .82rem; }
.text, .fine { white-space: pre-wrap; overflow-wrap: anywhere; }
.said { margin: .8rem 0; padding: .7rem 1rem; background: var(--sheet);
  border: 1px solid var(--line); border-left: 4px solid var(--agent); border-radius: .5rem; }
.said.user { background: var(--user-sheet); border-left-color: var(--user); }
.said > header { display: flex; gap: .6rem; align-items: baseline; margin-bottom: .2rem; }
.who { font-weight: 600; font-size: .88rem; color: var(--agent); }
.user > header .who { color: var(--user); }
details, .note, .plan { margin: .6rem 0; padding: .45rem .8rem; border: 1px solid var(--line);
  border-radius: .5rem; font-size: .9rem; background: var(--sheet); }
summary { cursor: pointer; display: flex; flex-wrap: wrap; gap: .15rem .6rem;
  align-items: baseline; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary::before { content: "\\25b8"; color: var(--faint); }
details[open] > summary::before { content: "\\25be"; }
summary .gist { color: var(--faint); overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; flex: 1 1 5rem; min-width: 0; }
.thought summary, .thought .text { color: var(--faint); font-style: italic; }
.name, .gist, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono",
  monospace; font-size: .84rem; }
.name { font-weight: 600; }
pre { margin: .3rem 0 .6rem; padding: .6rem .8rem; background: var(--code); border-radius: .4rem;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 32rem; overflow-y: auto; }
.label { color: var(--faint); font-size: .78rem; margin: .5rem 0 0; }
.note { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline;
  border-style: dashed; background: none; }
.note .fine { flex: 1 1 100%; color: var(--faint); }
.note.bad { border-color: var(--bad); background: var(--bad-sheet); }
.badge { font-size: .75rem; font-weight: 600; padding: 0 .5rem; border-radius: 1rem;
  border: 1px solid currentColor; white-space: nowrap; }
.good > .badge, .badge.good { color: var(--good); }
.bad > .badge, .badge.bad { color: var(--bad); }
.badge.plain { color: var(--faint); }
.turn > footer { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: baseline;
  margin-top: .8rem; }
ol { margin: .3rem 0; padding-left: 1.5rem; }
body > footer { text-align: center; padding: 0 1rem 3rem; }
@media (max-width: 34rem) {
  main { padding: 1.25rem .8rem 3rem; }
  h1 { font-size: 1.35rem; }
  dl { grid-template-columns: minmax(4.5rem, max-content) 1fr; gap: .15rem .7rem; }
  .said { padding: .6rem .75rem; }
}
@media print { body { background: none; } pre { max-height: none; } .said { break-inside: avoid; } }
"""
