#include "supervisor/audit/report/page.hpp"

#include <charconv>
#include <ostream>

#include "base/escape.hpp"
#include "base/sha256.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"

namespace callgate::audit::report {

namespace {

/// 'sha256-…' as a policy names a style or script that stands in the page.
std::string policy_hash(std::string_view text) {
    const std::string hex = sha256_hex(text);
    std::string bytes;
    for (std::size_t at = 0; at < hex.size(); at += 2) {
        unsigned byte = 0;
        std::from_chars(hex.data() + at, hex.data() + at + 2, byte, 16);
        bytes += static_cast<char>(byte);
    }
    Buffer out(64);
    append_base64(out, bytes);
    return "'sha256-" + std::string(out.view()) + '\'';
}

std::string policy() {
    return "default-src 'none'; style-src " + policy_hash(page_style()) + "; script-src " +
           policy_hash(page_script()) +
           "; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
}

std::string title(const Contents& contents) {
    if (contents.runs.empty()) return "callgate report";
    const Run& run = contents.runs.front();
    const std::string command = command_text(run.command);
    return terminal_safe(command.empty() ? "run " + run.name : command) + " - callgate report";
}

}  // namespace

std::string html_escaped(std::string_view text) {
    std::string out;
    for (const char one : text) {
        switch (one) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += one;
        }
    }
    return out;
}

void write_page(std::ostream& out, const Contents& contents) {
    // The template is cut at its marks. Inserted text is never scanned for marks, so a log cannot add any.
    std::string_view rest = page_template();
    while (!rest.empty()) {
        const std::size_t begin = std::min(rest.find("@@"), rest.size());
        out << rest.substr(0, begin);
        rest.remove_prefix(begin);
        if (rest.empty()) return;
        const std::size_t end = rest.find("@@", 2);
        const std::string_view mark = rest.substr(2, end - 2);
        if (mark == "POLICY") out << html_escaped(policy());
        if (mark == "TITLE") out << html_escaped(title(contents));
        if (mark == "STYLE") out << page_style();
        if (mark == "DATA") write_data(out, contents);
        if (mark == "SCRIPT") out << page_script();
        rest.remove_prefix(end + 2);
    }
}

}  // namespace callgate::audit::report
