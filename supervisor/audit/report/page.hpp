// The report as one HTML page that needs nothing else: no network, no file beside it, no library.
//
// An attacker may have chosen the log's texts. The page holds them as data: JSON in a script element that no
// browser runs. The page's own script shows them as text. The page's policy (Content-Security-Policy) allows
// exactly its own style and script, by their hashes. It allows nothing else to be loaded, run, framed or
// sent.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "base/buffer.hpp"
#include "supervisor/audit/report/contents.hpp"

namespace callgate::audit::report {

void write_page(std::ostream& out, const Contents& contents);

/// The page's data: one JSON value that may stand in a script element.
void write_data(std::ostream& out, const Contents& contents);

/// A JSON string without the characters that could end a script element or begin a comment in it.
void append_script_string(Buffer& out, std::string_view text);

/// For HTML, in texts and in quoted attributes.
[[nodiscard]] std::string html_escaped(std::string_view text);

/// The parts of the page (page.html, *.css, *.js), embedded when callgate is built.
[[nodiscard]] std::string_view page_template();
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();

}  // namespace callgate::audit::report
