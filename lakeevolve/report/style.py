"""The style of pages and of what notebooks show: light and dark, on paper, and without colour."""

from __future__ import annotations

from typing import Final

#: Names of colours, so that light and dark are said once each. Texts keep a contrast of 4.5 to 1 on their ground.
_LIGHT: Final = (
    "--text:#1c2126;--ground:#fff;--quiet:#57606a;--line:#d0d7de;--head:#f2f4f7;--accent:#0b57b0;"
    "--bad:#a8071a;--bad-ground:#fdecee;--warn:#7a4b00;--warn-ground:#fff4dc;--good:#0f5c2c;--good-ground:#e6f5ea;"
)
_DARK: Final = (
    "--text:#e4e8ec;--ground:#14181c;--quiet:#a5afb9;--line:#39424b;--head:#1f252b;--accent:#7db8ff;"
    "--bad:#ff9aa5;--bad-ground:#3d161b;--warn:#f0c267;--warn-ground:#38290a;--good:#7bdc9b;--good-ground:#12331f;"
)

#: What a result looks like, wherever it is shown. A notebook has its own ground, so this one is light.
FRAGMENT: Final = f"""
.lakeevolve{{{_LIGHT}font:14px/1.5 system-ui,sans-serif;color:var(--text);background:var(--ground)}}
.lakeevolve h1{{font-size:1.5em;line-height:1.25;margin:0 0 .3em;overflow-wrap:anywhere}}
.lakeevolve h2{{font-size:1.15em;margin:1.8em 0 .5em;overflow-wrap:anywhere}}
.lakeevolve table{{border-collapse:collapse;width:100%}}
.lakeevolve th,.lakeevolve td{{text-align:left;vertical-align:top;padding:.35em .7em}}
.lakeevolve th,.lakeevolve td{{border-bottom:1px solid var(--line)}}
.lakeevolve thead th,.lakeevolve thead td{{font-weight:600;background:var(--head)}}
.lakeevolve td{{overflow-wrap:break-word;min-width:3em}}
.lakeevolve summary{{cursor:pointer;font-weight:600;padding:.2em 0}}
.lakeevolve .error,.lakeevolve .refuse,.lakeevolve td.bad{{color:var(--bad);font-weight:600}}
.lakeevolve .warning,.lakeevolve .rewrite,.lakeevolve .backfill{{color:var(--warn);font-weight:600}}
.lakeevolve td.maybe{{color:var(--warn);font-weight:600}}
.lakeevolve .metadata,.lakeevolve td.good{{color:var(--good);font-weight:600}}
.lakeevolve .verdict{{display:inline-block;margin:0;padding:.25em .7em;border-radius:4px}}
.lakeevolve .verdict.bad{{color:var(--bad);background:var(--bad-ground)}}
.lakeevolve .verdict.good{{color:var(--good);background:var(--good-ground)}}
.lakeevolve .verdict.plain{{padding-left:0;color:var(--quiet)}}
.lakeevolve .scroll{{overflow-x:auto}}
.lakeevolve .tree td:nth-child(1),.lakeevolve .tree td:nth-child(3){{padding-left:calc(.7em + 1.4em*var(--depth,0))}}
.lakeevolve .type{{font-family:ui-monospace,monospace;font-size:.9em;color:var(--quiet)}}
.lakeevolve .sign{{font-family:ui-monospace,monospace;font-weight:700;text-align:center;min-width:1.5em}}
.lakeevolve .tree .added{{background:var(--good-ground)}}
.lakeevolve .tree .dropped{{background:var(--bad-ground)}}
.lakeevolve .tree .renamed,.lakeevolve .tree .changed{{background:var(--warn-ground)}}
.lakeevolve .matrix{{width:auto}}
.lakeevolve .matrix td.good{{background:var(--good-ground)}}
.lakeevolve .matrix td.bad{{background:var(--bad-ground)}}
.lakeevolve .matrix td.maybe{{background:var(--warn-ground)}}
.lakeevolve .hidden{{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}}
"""

#: What a page of its own adds: the dark, the paper, and what keyboards need.
PAGE: Final = f"""
:root{{color-scheme:light dark}}
body.lakeevolve{{margin:0 auto;padding:1.5rem clamp(.75rem,3vw,2.5rem) 3rem;max-width:1280px}}
.lakeevolve nav ol{{list-style:none;display:flex;flex-wrap:wrap;gap:.2em 1.2em;margin:1em 0 0;padding:0}}
.lakeevolve a{{color:var(--accent)}}
.lakeevolve .skip{{position:absolute;left:-999rem}}
.lakeevolve .skip:focus{{left:1rem;top:.5rem;padding:.4em .8em;background:var(--ground)}}
.lakeevolve :focus-visible{{outline:2px solid var(--accent);outline-offset:2px}}
.lakeevolve main:focus{{outline:none}}
.lakeevolve footer{{margin-top:3em;color:var(--quiet);font-size:.9em}}
@media screen and (prefers-color-scheme:dark){{html{{background:#14181c}}body.lakeevolve{{{_DARK}}}}}
@media (max-width:640px){{.lakeevolve .scroll>table:not(.matrix){{min-width:40rem}}}}
@media print{{
@page{{margin:14mm}}
body.lakeevolve{{max-width:none;padding:0;font-size:9.5pt}}
.lakeevolve .skip,.lakeevolve nav{{display:none}}
.lakeevolve details::details-content{{content-visibility:visible;block-size:auto}}
.lakeevolve summary{{display:none}}
.lakeevolve .scroll{{overflow:visible}}
.lakeevolve tr{{break-inside:avoid}}.lakeevolve h2{{break-after:avoid}}
.lakeevolve th,.lakeevolve td{{padding:.25em .4em;overflow-wrap:anywhere}}
*{{print-color-adjust:exact}}
}}
"""
