// The report as Markdown, for a comment on a pull request: the command, the counts, and each denial with the
// option that would allow it.
//
// An attacker may have chosen the log's texts. Each is written as inert text, even if it holds backticks,
// pipes, HTML, links or mentions. At most 50 denials of each kind are listed and names are shortened, because
// such a comment has a limit.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "supervisor/audit/report/contents.hpp"

namespace callgate::audit::report {

void write_markdown(std::ostream& out, const Contents& contents);

/// `text` as HTML code within a line or a table cell. No character of it has a meaning in Markdown.
[[nodiscard]] std::string markdown_code(std::string_view text);

}  // namespace callgate::audit::report
