"""Pages: HTML in one file, without scripts, for light and dark, and for narrow screens."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

STYLE = """:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem;background:Canvas;color:CanvasText}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin:2rem 0 .25rem}p{max-width:45rem}
div{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .9rem .2rem 0;text-align:left;border-bottom:1px solid #8886;vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}td{overflow-wrap:anywhere;min-width:4rem}small{color:GrayText}"""


def page(title: str, parts: Iterable[str]) -> bytes:
    """A page of parts that are HTML."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    text = f'<!doctype html><html lang="en"><head>{head}<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>'
    return f"{text}<h1>{html.escape(title)}</h1>{''.join(parts)}</body></html>\n".encode(errors="backslashreplace")


def said(*sentences: str) -> str:
    """A paragraph."""
    return f"<p>{html.escape(' '.join(sentences))}</p>"


def counted(number: int, noun: str) -> str:
    """As in ``1 host`` and ``2 hosts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def table(title: str, about: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; cells are texts, or figures, which are aligned to the right. A table without rows says so."""
    lines = [list(row) for row in rows]
    if not lines:
        return f"<h2>{html.escape(title)}</h2><p>{html.escape(about)}</p><p>None.</p>"
    numeric = [all(not isinstance(line[at], str) for line in lines) for at in range(len(head))]

    def line(kind: str, cells: Sequence[object]) -> str:
        made = (f"<{kind}{' class=n' if right else ''}>{html.escape(_cell(cell))}</{kind}>" for cell, right in zip(cells, numeric))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", cells) for cells in lines)
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(about)}</p><div><table>{line('th', head)}{body}</table></div>"


def _cell(value: object) -> str:
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else str(value)


class Bytes(int):
    """A number of bytes, which is shown in units of 1024."""

    def __format__(self, _: str) -> str:
        size, units = float(self), iter(["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
        unit = next(units)
        while size >= 1024 and unit != "PiB":
            size, unit = size / 1024, next(units)
        return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
