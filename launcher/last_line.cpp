#include "last_line.hpp"

namespace gpurun::launcher {

namespace {

// Blank lines behind it, and escape sequences, leave room for a line of this length.
constexpr size_t kKept = 8 * LastLine::kLongest;

bool is_blank(char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; } // UTF-8

// Behind the escape sequence that begins at `at`: ESC [ ... letter, or ESC and one character.
size_t behind_escape(std::string_view text, size_t at) {
    if (at + 1 >= text.size() || text[at + 1] != '[')
        return at + 2;
    at += 2;
    while (at < text.size() && !(text[at] >= '@' && text[at] <= '~'))
        ++at;
    return at + 1;
}

std::string printable(std::string_view text) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
        if (text[at] == '\033') {
            at = behind_escape(text, at);
            continue;
        }
        result += is_control(text[at]) ? ' ' : text[at];
        ++at;
    }
    return result;
}

} // namespace

void LastLine::feed(std::string_view text) {
    if (text.size() >= kKept) {
        kept_ = text.substr(text.size() - kKept);
        return;
    }
    if (kept_.size() + text.size() > 2 * kKept)
        kept_.erase(0, kept_.size() + text.size() - kKept);
    kept_ += text;
}

std::string LastLine::text() const {
    std::string_view rest = kept_;
    std::string line;
    while (line.empty() && !rest.empty()) {
        const size_t before = rest.rfind('\n');
        std::string_view last = before == std::string_view::npos ? rest : rest.substr(before + 1);
        rest.remove_suffix(before == std::string_view::npos ? rest.size() : rest.size() - before);
        // What a progress bar has overwritten is not there any more.
        while (!last.empty() && is_blank(last.back()))
            last.remove_suffix(1);
        if (const size_t overwritten = last.rfind('\r'); overwritten != std::string_view::npos)
            last.remove_prefix(overwritten + 1);
        line = printable(last);
        line.erase(0, line.find_first_not_of(' '));
    }
    if (line.size() <= kLongest)
        return line;
    size_t begin = line.size() - kLongest;
    while (begin < line.size() && continues_character(line[begin]))
        ++begin;
    return "..." + line.substr(begin);
}

} // namespace gpurun::launcher
