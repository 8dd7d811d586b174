"""How fast and how well graphs are laid out, next to the peers in the same run.

    python benchmarks/layout_speed.py [--full]

Every tool gets the same graph: autograd graphs of real programs with the boxes of gradwalk's own
drawing, leaves with many uses copied per use, and the same gaps. Tools take turns; a time is the
CPU milliseconds of a layout by a process that has warmed up (for `dot`, a process each), the median
of several rounds, and a ratio is the median of the ratios within a round. A tool that needs longer
than the limit, or crashes, is given up, and not tried on larger graphs of the same kind.

Pictures are judged by one function, `js/testing/drawn.ts`, that sees only boxes and lines: a
crossing is a point where two drawn lines cross. Curves of `dot` are judged as polylines.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from layout_graphs import GRAPHS, Given
from layout_tools import Dot, GivenUp, InNode, Judged, Tool, Torchviz

OURS = "gradwalk"
FAST = "d3-dag, fastest"
PEERS = ("dot", "torchviz + dot", "d3-dag", FAST, "dagre", "elk")
CROSSING_PEERS = ("dot", "d3-dag", FAST, "dagre")


@dataclass
class Row:
    """Results for one graph.

    Attributes:
        given: The graph.
        nodes: Boxes drawn, with the copies of shared leaves.
        times: CPU milliseconds per tool, a number per round.
        judged: What its picture is like, per tool.
        given_up: Why there is none, per tool.
    """

    given: Given
    nodes: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    judged: dict[str, Judged] = field(default_factory=dict)
    given_up: dict[str, str] = field(default_factory=dict)

    def ms(self, tool: str) -> float:
        """The median time of a tool."""
        return statistics.median(self.times[tool])

    def ratio(self, tool: str) -> float:
        """The median of a tool's times over ours of the same round."""
        pairs = zip(self.times[tool], self.times[OURS], strict=False)
        return statistics.median(theirs / ours for theirs, ours in pairs)


def measure(tools: list[Tool], given: Given, folder: Path, rounds: int, given_up: set[str]) -> Row:
    """Lay a graph out with every tool in turn, and judge the pictures."""
    row = Row(given)
    path = folder / "graph.json"
    given.write(path)
    rounds_of: dict[str, int] = {}

    def attempt(tool: Tool, step: Callable[[Tool], None]) -> None:
        try:
            step(tool)
        except GivenUp as why:
            row.given_up[tool.name] = str(why)
            given_up.add(f"{tool.name} {given.family}")
            rounds_of.pop(tool.name, None)
            row.times.pop(tool.name, None)

    def start(tool: Tool) -> None:
        tool.load(given, path)
        rounds_of[tool.name] = _warm_up(tool, rounds)

    def lay(tool: Tool) -> None:
        row.times.setdefault(tool.name, []).append(tool.lay(fill=50))

    for tool in tools:
        if f"{tool.name} {given.family}" in given_up:
            row.given_up[tool.name] = "not tried"
        else:
            attempt(tool, start)
    for k in range(rounds):
        for tool in [tool for tool in tools if k < rounds_of.get(tool.name, 0)]:
            attempt(tool, lay)
    _judge(row, tools)
    return row


def _judge(row: Row, tools: list[Tool]) -> None:
    for tool in tools:
        judged = tool.judge() if tool.name in row.times else None
        if judged is not None:
            row.judged[tool.name] = judged
            row.nodes = judged.nodes


def _warm_up(tool: Tool, rounds: int) -> int:
    """Lay out until the engine has compiled what it will; how many rounds there is time for."""
    spent = ms = tool.lay(fill=0)
    while spent < 500:
        ms = tool.lay(fill=50)
        spent += max(ms, 50)
    return rounds if ms < 300 else 3 if ms < 3_000 else 1


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def time_table(rows: list[Row], tools: list[str]) -> str:
    """CPU milliseconds, and how much longer the peers take."""

    def cell(row: Row, tool: str) -> str:
        if tool not in row.times:
            return row.given_up[tool]
        return f"{_ms(row.ms(tool))} ({_factor(row.ratio(tool))})"

    body = [
        [row.given.name, f"{row.nodes:,}", _ms(row.ms(OURS)), *(cell(row, tool) for tool in tools)]
        for row in rows
    ]
    return table(["graph", "boxes", OURS, *tools], body)


def quality_table(rows: list[Row], tools: list[str], value: Callable[[Judged], float]) -> str:
    """One property of every picture."""

    def cell(row: Row, tool: str) -> str:
        return f"{value(row.judged[tool]):,.0f}" if tool in row.judged else row.given_up[tool]

    body = [[row.given.name, *(cell(row, tool) for tool in [OURS, *tools])] for row in rows]
    return table(["graph", OURS, *tools], body)


def targets(rows: list[Row]) -> str:
    """Which targets hold, and where they do not."""
    lines = []

    def report(what: str, misses: list[str]) -> None:
        lines.append(
            f"- {what}: " + ("holds." if not misses else "**missed** by " + "; ".join(misses) + ".")
        )

    for most, limit in ((1_500, 10.0), (15_000, 150.0), (150_000, 1_500.0)):
        least = most / 10
        if not any(least <= row.nodes < most for row in rows):
            continue
        report(
            f"at most {limit:,.0f} ms for graphs of {least:,.0f} to {most:,} boxes",
            [
                f"{row.given.name} ({_ms(row.ms(OURS))} ms)"
                for row in rows
                if least <= row.nodes < most and row.ms(OURS) > limit
            ],
        )
    report("crossings within 10 % of the best of dot, d3-dag and dagre", _more_crossings(rows))
    report(
        "no line through a box",
        [row.given.name for row in rows if row.judged[OURS].through],
    )
    report(
        "a width of at most dot's",
        [
            f"{row.given.name} ({row.judged[OURS].width:,.0f} px to {row.judged['dot'].width:,.0f})"
            for row in rows
            if "dot" in row.judged and row.judged[OURS].width > row.judged["dot"].width
        ],
    )
    for what, fast in (("peer", True), ("peer at its defaults", False)):
        slower = []
        for row in rows:
            ratios = {t: row.ratio(t) for t in PEERS if t in row.times and (fast or t != FAST)}
            if row.given.is_real and row.nodes > 500 and ratios:
                peer = min(ratios, key=lambda tool: ratios[tool])
                if ratios[peer] < 20:
                    slower.append(f"{row.given.name} ({_factor(ratios[peer])}, {peer})")
        report(f"20 times as fast as the fastest {what} on real graphs above 500 boxes", slower)
    return "\n".join(lines)


def _more_crossings(rows: list[Row]) -> list[str]:
    found = []
    for row in rows:
        theirs = [row.judged[t].crossings for t in CROSSING_PEERS if t in row.judged]
        ours = row.judged[OURS].crossings
        if theirs and ours > 1.1 * min(theirs):
            found.append(f"{row.given.name} ({ours:,} to {min(theirs):,})")
    return found


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 99.5 else f"{value:,.0f}"


def _factor(value: float) -> str:
    return f"{value:.1f}x" if value < 9.95 else f"{value:,.0f}x"


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="all sizes, more rounds, a longer limit"
    )
    parser.add_argument("--only", help="graphs whose names contain this")
    given = parser.parse_args()
    limit, rounds = (20, 9) if given.full else (10, 5)
    graphs = [g for g in GRAPHS if (given.full or g.is_small) and (given.only or "") in g.name]
    tools: list[Tool] = [
        InNode(OURS, 60),
        Dot(limit),
        Torchviz(limit),
        *(InNode(name, limit) for name in ("d3-dag", FAST, "dagre", "elk")),
    ]
    rows: list[Row] = []
    given_up: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for graph in graphs:
            rows.append(measure(tools, graph, Path(folder), rounds, given_up))
            print(f"<!-- {graph.name}: {_ms(rows[-1].ms(OURS))} ms -->", flush=True)
    for tool in tools:
        tool.close()
    drawn = [tool for tool in PEERS if tool != "torchviz + dot"]
    print(
        f"\n{rounds} rounds; a tool is given up after {limit} s.\n\n"
        f"### Which targets hold?\n\n{targets(rows)}\n\n"
        "### How long does a warm layout take?\n\n"
        f"CPU ms, in brackets the peer's over ours.\n\n{time_table(rows, list(PEERS))}\n\n"
        "### How many crossings?\n\n"
        f"{quality_table(rows, drawn, lambda picture: picture.crossings)}\n\n"
        "### How wide is it, px?\n\n"
        f"{quality_table(rows, drawn, lambda picture: picture.width)}\n\n"
        "### How many lines pass through boxes?\n\n"
        f"{quality_table(rows, drawn, lambda picture: picture.through)}\n\n"
        "### How long are all lines together, thousands of px?\n\n"
        f"{quality_table(rows, drawn, lambda picture: picture.length / 1000)}"
    )


if __name__ == "__main__":
    main()
