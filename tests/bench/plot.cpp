#include "plot.hpp"

#include "sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace gpurun::bench {

namespace {

// All in user units; the drawing scales.
constexpr double kWidth = 860;
constexpr double kLeft = 92;
constexpr double kRight = 640; // the legend stands right of it
constexpr double kPlotHeight = 300;
constexpr double kAbovePlot = 40; // the panel's title
constexpr double kBelowPlot = 64; // marks and the axis' name
constexpr double kPanelHeight = kAbovePlot + kPlotHeight + kBelowPlot;
constexpr double kLine = 18;

// Colors differ in lightness too, for those who see fewer of them, and are others on black than on white.
constexpr const char* kOnWhite[] = {"#0b62b8", "#c2410c", "#15803d", "#9333a8", "#946200", "#0e7490"};
constexpr const char* kOnBlack[] = {"#58a6ff", "#ff9d5c", "#56d364", "#d69cff", "#e3b341", "#5fd3e6"};
constexpr int kColors = 6;

std::string palette(const char* ground, const char* ink, const char* faint, const char* const (&colors)[kColors]) {
    std::string rules = fmt::format(".ground {{ fill: {0}; }} text {{ fill: {1}; }} .frame {{ stroke: {1}; }} "
                                    ".grid {{ stroke: {2}; }}\n",
                                    ground, ink, faint);
    for (int i = 0; i < kColors; ++i)
        rules += fmt::format(".line.c{0} {{ stroke: {1}; }} .dot.c{0} {{ fill: {1}; }}\n", i, colors[i]);
    return rules;
}

// Plain rules, and no variables, which not every viewer of SVG knows.
std::string style() {
    return "<style>\n" + palette("#ffffff", "#1f2328", "#d8dee4", kOnWhite) +
           "@media (prefers-color-scheme: dark) {\n" + palette("#0d1117", "#e6edf3", "#30363d", kOnBlack) + "}\n" +
           R"(text { font: 12px system-ui, sans-serif; }
.title { font-size: 17px; font-weight: 600; }
.heading { font-size: 14px; font-weight: 600; }
.grid { stroke-width: 1; }
.frame { stroke-width: 1; fill: none; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.dashed { stroke-dasharray: 6 4; }
</style>
)";
}

std::string escaped(const std::string& text) {
    std::string safe;
    for (char c : text) {
        switch (c) {
        case '&': safe += "&amp;"; break;
        case '<': safe += "&lt;"; break;
        case '>': safe += "&gt;"; break;
        case '"': safe += "&quot;"; break;
        default: // what XML cannot hold, and bytes whose encoding is not known
            safe += c >= ' ' && c <= '~' ? c : '?';
        }
    }
    return safe;
}

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(text));
}

std::string line_between(double x1, double y1, double x2, double y2, const std::string& attributes) {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2,
                       attributes);
}

std::string class_of(const Series& series) {
    return fmt::format("class=\"line c{}{}\"", series.color % kColors, series.dashed ? " dashed" : "");
}

struct Range {
    double low = std::numeric_limits<double>::max();
    double high = 0;

    void take(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
    bool empty() const { return low > high; }
};

bool shown(const Panel& panel, const std::pair<double, double>& point) {
    return point.first > 0 && (panel.y_spacing == Spacing::kLinear ? point.second >= 0 : point.second > 0);
}

std::string mark_of(const Panel& panel, double value) {
    if (!panel.y_is_bandwidth || value == 0)
        return fmt::format("{:.6g}", value);
    // A mark that rounding put just below a unit is that unit.
    if (value > 1 - 1e-9)
        return fmt::format("{:.6g} GB/s", value);
    return value > 1e-3 * (1 - 1e-9) ? fmt::format("{:.6g} MB/s", value * 1e3)
                                     : fmt::format("{:.6g} kB/s", value * 1e6);
}

std::string grid(const Axis& x, const Axis& y, double top, const Panel& panel) {
    const double bottom = top + kPlotHeight;
    std::string made;
    for (double mark : x.marks()) {
        made += line_between(x.place(mark), top, x.place(mark), bottom, "class=\"grid\"");
        made += text_at(x.place(mark), bottom + kLine, "text-anchor=\"middle\"", short_size(mark));
    }
    for (double mark : y.marks()) {
        made += line_between(kLeft, y.place(mark), kRight, y.place(mark), "class=\"grid\"");
        made += text_at(kLeft - 8, y.place(mark) + 4, "text-anchor=\"end\"", mark_of(panel, mark));
    }
    made += fmt::format("<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", kLeft,
                        top, kRight - kLeft, kPlotHeight);
    made += text_at((kLeft + kRight) / 2, bottom + 2 * kLine + 4, "text-anchor=\"middle\"", "message size (bytes)");
    const double middle = top + kPlotHeight / 2;
    const std::string turned = fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1f})\"", middle);
    return made + text_at(16, middle, turned.c_str(), panel.y_label);
}

std::string curve(const Series& series, const Panel& panel, const Axis& x, const Axis& y) {
    std::string line, dots;
    for (const auto& point : series.points) {
        if (!shown(panel, point))
            continue;
        const double px = x.place(point.first);
        const double py = y.place(point.second);
        line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", px, py);
        dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" class=\"dot c{}\"/>\n", px, py,
                            series.color % kColors);
    }
    if (line.empty())
        return {};
    return fmt::format("<polyline {} points=\"{}\"/>\n", class_of(series), line) + dots;
}

std::string legend(const Panel& panel, double top) {
    std::string made;
    double y = top + 8;
    for (const Series& series : panel.series) {
        made += line_between(kRight + 16, y, kRight + 46, y, class_of(series));
        made += text_at(kRight + 54, y + 4, "", series.label);
        y += kLine;
    }
    return made;
}

std::string panel_at(const Panel& panel, double top) {
    std::string made = text_at(kLeft, top + kAbovePlot - 14, "class=\"heading\"", panel.title);
    const double plot_top = top + kAbovePlot;
    Range xs, ys;
    for (const Series& series : panel.series)
        for (const auto& point : series.points)
            if (shown(panel, point)) {
                xs.take(point.first);
                ys.take(point.second);
            }
    if (xs.empty())
        return made + text_at(kLeft, plot_top + kLine, "", "nothing to show");
    const Axis x(Spacing::kBinary, xs.low, xs.high, kLeft, kRight);
    const Axis y(panel.y_spacing, ys.low, ys.high, plot_top + kPlotHeight, plot_top);
    made += grid(x, y, plot_top, panel);
    for (const Series& series : panel.series)
        made += curve(series, panel, x, y);
    return made + legend(panel, plot_top);
}

} // namespace

std::string draw(const std::string& title, const std::vector<std::string>& notes, const std::vector<Panel>& panels) {
    double top = 34;
    std::string body = text_at(kLeft, top, "class=\"title\"", title);
    for (const std::string& note : notes)
        body += text_at(kLeft, top += kLine, "", note);
    top += kLine / 2;
    for (const Panel& panel : panels) {
        body += panel_at(panel, top);
        top += kPanelHeight;
    }
    std::string made = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
                                   "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n",
                                   kWidth, top, escaped(title));
    made += style();
    made += "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n";
    return made + body + "</svg>\n";
}

} // namespace gpurun::bench
