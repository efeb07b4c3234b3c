"""Draws a part of a trace as SVG: trace_plot.py TRACE.json PICTURE.svg [--from US] [--length US]

Without --from, the part is in the middle of all messages. The picture of README.md is, on two GPUs,
  gpurun -n 2 --trace heat.json build/examples/heat
  python3 tests/bench/trace_plot.py heat.json tests/bench/trace.svg --length 50
"""
import argparse
import json
import statistics
from xml.sax.saxutils import escape

LEFT, WIDTH, ROW, GAP = 150, 900, 22, 16  # in user units; the drawing scales
COLORS = {"call": "call", "waiting": "waiting", "moving": "moving", "message": "message", "collective": "message",
          "copy": "message"}
LEGEND = [("call", "call"), ("message", "message"), ("waiting", "part of a message: waiting"),
          ("moving", "part of a message: enqueue, or bytes move"), ("arrow", "from a send to its receive")]
BELOW = 64  # marks, the axis' name and the legend
STYLE = """<style>
.ground { fill: #ffffff; } text { fill: #1f2328; font: 11px system-ui, sans-serif; } .grid { stroke: #d8dee4; }
.call { fill: #d8dee4; } .message { fill: #a5c8f0; } .waiting { fill: #f5c9a8; } .moving { fill: #8fd19e; }
.arrow { stroke: #9333a8; fill: none; stroke-width: 1.3; } .head { fill: #9333a8; } .rank { font-weight: 600; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } text { fill: #e6edf3; } .grid { stroke: #30363d; }
.call { fill: #3d444d; } .message { fill: #1f4b80; } .waiting { fill: #84471b; } .moving { fill: #1d6b33; }
.arrow { stroke: #d69cff; } .head { fill: #d69cff; }
}
</style>
<marker id="head" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">
<path class="head" d="M0,0 L6,3 L0,6 z"/></marker>
"""


class Part:
    """The events of a trace from one time to another."""

    def __init__(self, path, begin, length):
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        messages = [each["ts"] for each in events if each.get("cat") in ("message", "collective")]
        if not messages:
            raise SystemExit(f"trace_plot.py: there is no message in {path}")
        self.begin = statistics.median(messages) if begin is None else begin
        self.end = self.begin + length
        self.processes = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
        order = {each["pid"]: each["args"]["sort_index"] for each in events if each["name"] == "process_sort_index"}
        self.pids = sorted(self.processes, key=order.get)
        self.names = {(each["pid"], each["tid"]): each["args"]["name"] for each in events
                      if each["name"] == "thread_name"}
        self.slices = [each for each in events if each["ph"] == "X" and each["ts"] < self.end and
                       each["ts"] + each["dur"] > self.begin]
        ends = {(each["name"], each["id"]): each for each in events if each["ph"] == "f"}
        starts = {(each["name"], each["id"]): each for each in events if each["ph"] == "s"}
        self.arrows = [(each, ends[which]) for which, each in starts.items() if which in ends and
                       each["ts"] >= self.begin and ends[which]["ts"] <= self.end]

    def x(self, time):
        return LEFT + WIDTH * (min(max(time, self.begin), self.end) - self.begin) / (self.end - self.begin)


def rows_of(part):
    """(pid, tid) -> where it is drawn, and the height of all"""
    rows, y = {}, 10
    for pid in part.pids:
        y += ROW
        for row in sorted({(each["pid"], each["tid"]) for each in part.slices if each["pid"] == pid}):
            rows[row] = y
            y += ROW + 3
        y += GAP
    return rows, y


def draw_slice(part, each, y):
    """Parts of a message are drawn over it, lower."""
    nested = each["cat"] in ("waiting", "moving")
    left, right = part.x(each["ts"]), part.x(each["ts"] + each["dur"])
    top, height = (y + ROW // 2, ROW - ROW // 2) if nested else (y, ROW)
    arguments = ", ".join(f"{key}: {value}" for key, value in each.get("args", {}).items())
    drawn = [f'<g><title>{escape(each["name"])}, {each["dur"]:.2f} us {escape(arguments)}</title>'
             f'<rect class="{COLORS[each["cat"]]}" x="{left:.1f}" y="{top}" width="{max(right - left, 0.8):.1f}" '
             f'height="{height}"/></g>']
    label = each["name"]
    if not nested and "path" in each.get("args", {}):
        label += f' ({each["args"]["path"]}, {each["args"]["bytes"]} B)'
    for text in (label, each["name"]):
        if right - left > 6.4 * len(text):
            baseline = top + (9 if nested or each["cat"] != "call" else 15)
            drawn.append(f'<text x="{left + 3:.1f}" y="{baseline}">{escape(text)}</text>')
            break
    return drawn


def draw_axis(part, height):
    drawn = []
    step = next(each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**4, 10**5, 10**6, 10**9)
                if (part.end - part.begin) / each <= 10)
    for i in range(int((part.end - part.begin) / step) + 1):
        x = part.x(part.begin + i * step)
        drawn += [f'<line class="grid" x1="{x:.1f}" y1="10" x2="{x:.1f}" y2="{height}"/>',
                  f'<text x="{x:.1f}" y="{height + 14}" text-anchor="middle">{i * step}</text>']
    return drawn + [f'<text x="{LEFT + WIDTH / 2:.1f}" y="{height + 30}" text-anchor="middle">time (us)</text>']


def draw_legend(top):
    drawn, x = [], LEFT
    for kind, text in LEGEND:
        if kind == "arrow":
            drawn.append(f'<path class="arrow" marker-end="url(#head)" d="M{x},{top + 6} L{x + 24},{top + 6}"/>')
        else:
            drawn.append(f'<rect class="{kind}" x="{x}" y="{top}" width="24" height="12"/>')
        drawn.append(f'<text x="{x + 30}" y="{top + 10}">{text}</text>')
        x += 52 + 6 * len(text)
    return drawn


def draw(part):
    rows, height = rows_of(part)
    drawn = draw_axis(part, height) + draw_legend(height + 42)
    for pid in part.pids:
        own = [y for row, y in rows.items() if row[0] == pid]
        if own:
            drawn.append(f'<text class="rank" x="10" y="{min(own) - 6}">{escape(part.processes[pid])}</text>')
    for row, y in rows.items():
        drawn.append(f'<text x="10" y="{y + 15}">{escape(part.names[row])[:26]}</text>')
    for each in sorted(part.slices, key=lambda one: (one["ts"], -one["dur"])):
        drawn += draw_slice(part, each, rows[each["pid"], each["tid"]])
    for start, end in part.arrows:
        x1, x2 = part.x(start["ts"]), part.x(end["ts"])
        y1, y2 = (rows[each["pid"], each["tid"]] + ROW // 2 for each in (start, end))
        drawn.append(f'<path class="arrow" marker-end="url(#head)" d="M{x1:.1f},{y1} C{(x1 + x2) / 2:.1f},{y1} '
                     f'{(x1 + x2) / 2:.1f},{y2} {x2:.1f},{y2}"/>')
    size = f"{LEFT + WIDTH + 20} {height + BELOW}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">\n{STYLE}'
            f'<rect class="ground" width="100%" height="100%"/>\n' + "\n".join(drawn) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="begin", type=float, metavar="US")
    parser.add_argument("--length", type=float, default=60, metavar="US")
    options = parser.parse_args()
    part = Part(options.trace, options.begin, options.length)
    with open(options.picture, "w", encoding="utf-8") as file:
        file.write(draw(part))


main()
