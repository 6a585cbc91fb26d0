# ruff: noqa: INP001 - a script, run by its path
"""Draws the dashboards with Grafana's own UI components, over a past that is made up.

    python deploy/grafana/pictures/draw.py NODE_FOLDER PICTURE_FOLDER

`NODE_FOLDER` is where `npm install` was run with the package.json of this folder, as
docs/dashboards.md says. Needs Prometheus, Chromium, Pillow, and the tests' own packages.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.support.dashboards import (  # noqa: E402 - the root of the repository comes first
    LABEL,
    Source,
    intervals,
    panels,
    questions,
    read,
    variables,
)
from tests.support.history import STEP_S, write_history  # noqa: E402
from tests.support.prometheus_server import prometheus_server  # noqa: E402

WIDTH = 1600
COLUMNS = 24
CELL = 38
"""Pixels of one row of the grid, its gap included; as in render.tsx."""
TITLE = 48
COLOURS = 96
LOADERS = ("svg", "woff2", "woff", "ttf", "png", "gif")
NOTE = {
    "en": "drawn with Grafana's UI components over invented data; not a Grafana screenshot",
    "zh": "用 Grafana 的 UI 组件按虚构数据绘制，并非 Grafana 截图",
}
PICTURES = (
    # dashboard, language of the note, hours, colours
    ("ragmonitor-overview", "en", 12, "dark"),
    ("ragmonitor-overview-zh", "zh", 12, "light"),
    ("ragmonitor-investigate", "en", 8, "dark"),
    ("ragmonitor-pipeline", "en", 24, "light"),
)


def placed(
    dashboard: Mapping[str, Any], values: Mapping[str, Sequence[str]]
) -> Iterator[tuple[dict[str, Any], dict[str, str], dict[str, int]]]:
    """Return every panel as often as it is drawn, its variables, and its place.

    What a repetition takes more of in height pushes down what is below it, as in Grafana.
    """
    pushed, seen, row_top, deepest = 0, {}, 0, 0
    for panel, scope in panels(dashboard, values):
        at, again = dict(panel["gridPos"]), seen.get(panel["id"], 0)
        seen[panel["id"]] = again + 1
        if panel["type"] == "row":
            if again:
                pushed += deepest - row_top
            row_top = deepest = at["y"]
        elif panel.get("repeat"):
            many = len(values[panel["repeat"]])
            in_row = min(many, panel["maxPerRow"])
            at["w"] = COLUMNS // in_row
            at["x"] = at["w"] * (again % in_row)
            at["y"] += at["h"] * (again // in_row)
        yield panel, scope, {**at, "y": at["y"] + pushed}
        deepest = max(deepest, at["y"] + at["h"])
        if panel.get("repeat") and panel["type"] != "row" and seen[panel["id"]] == many:
            pushed += at["h"] * ((many - 1) // in_row)


def asked(path: Path, source: Source, *, mode: str, note: str) -> dict[str, Any]:
    """Return a dashboard with the answers to its questions."""
    dashboard = read(path)
    values = variables(dashboard, source)
    # One service's row tells what the second would tell again.
    values["service"] = values["service"][-1:]
    step_s = max(STEP_S, (source.end_s - source.start_s) // 300)
    builtin = intervals(source, scrape_s=STEP_S, step_s=step_s)
    found = iter(list(questions(dashboard, values, builtin)))
    drawn = []
    for panel, scope, at in placed(dashboard, values):
        title = panel["title"]
        series: list[dict[str, Any]] = []
        for _ in panel.get("targets", ()):
            question = next(found)
            title = question.panel["title"]
            series += _series(question, source, step_s)
        for name, value in scope.items():
            title = title.replace(f"${name}", value)
        drawn.append({"panel": {**panel, "title": title}, "series": series, "at": at})
    return {
        "title": dashboard["title"],
        "note": note,
        "mode": mode,
        "width": WIDTH,
        "from": source.start_s * 1000,
        "to": source.end_s * 1000,
        "panels": drawn,
    }


def _series(question: Any, source: Source, step_s: int) -> list[dict[str, Any]]:
    if question.instant:
        answers = source.instant(question.expr)
    else:
        answers = source.over_time(question.expr, step_s=step_s)
    return [
        {
            "refId": question.reference,
            "metric": one["metric"],
            "name": LABEL.sub(lambda m, its=one["metric"]: its.get(m[1], ""), question.legend),
            "values": [
                (int(at) * 1000, None if value == "NaN" else float(value))
                for at, value in one.get("values") or [one["value"]]
            ],
        }
        for one in answers
    ]


def bundle(node: Path, target: Path) -> None:
    """Write the page's script."""
    shutil.copy(HERE / "render.tsx", node / "render.tsx")
    subprocess.run(  # noqa: S603 - our own script, by the bundler that the caller installed
        [
            node / "node_modules/.bin/esbuild",
            "render.tsx",
            "--bundle",
            "--jsx=automatic",
            '--define:process.env.NODE_ENV="production"',
            "--define:global=window",
            *(f"--loader:.{kind}=dataurl" for kind in LOADERS),
            f"--outfile={target}",
            "--log-level=error",
        ],
        cwd=node,
        check=True,
    )


def shoot(page: Path, picture: Path, height: int) -> None:
    """Have Chromium draw the page, and write the picture with few colours."""
    chromium = shutil.which("chromium") or "chromium-browser"
    raw = page.with_suffix(".png")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(  # noqa: S603 - our own page
            [
                *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--disable-sync", "--no-first-run", f"--user-data-dir={profile}"),
                *(f"--window-size={WIDTH},{height}", "--virtual-time-budget=15000"),
                *(f"--screenshot={raw}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
    with Image.open(raw) as image:
        small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        small.save(picture, optimize=True)


def main() -> None:
    """Draw each picture."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("node", type=Path)
    arguments.add_argument("pictures", type=Path)
    given = arguments.parse_args()
    given.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle(given.node.resolve(), folder / "bundle.js")
        # The past ends with a working day, whenever it is drawn.
        end_s = int(time.time()) // 86_400 * 86_400 - 4 * 3600
        write_history(folder, end_s=end_s, days=2)
        with prometheus_server("127.0.0.1:9", folder) as server:
            for uid, language, hours, mode in PICTURES:
                source = Source(server.url, start_s=end_s - hours * 3600, end_s=end_s)
                path = HERE.parent / "dashboards" / f"{uid}.json"
                board = asked(path, source, mode=mode, note=NOTE[language])
                bottom = max(drawn["at"]["y"] + drawn["at"]["h"] for drawn in board["panels"])
                page = folder / f"{uid}.html"
                page.write_text(
                    "<!doctype html><meta charset=utf-8><link rel=stylesheet href=bundle.css>"
                    f"<div id=board></div><script>window.BOARD={json.dumps(board)}</script>"
                    "<script src=bundle.js></script>",
                    encoding="utf-8",
                )
                picture = given.pictures / f"{uid}-drawn-with-grafana-ui.png"
                shoot(page, picture, TITLE + bottom * CELL)
                size_kb = picture.stat().st_size // 1000
                sys.stdout.write(f"{picture} {size_kb} kB\n")


if __name__ == "__main__":
    main()
