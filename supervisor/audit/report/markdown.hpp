// The report as Markdown, for a comment on a pull request: what ran, the counts, and each denial with what
// would allow it.
//
// The log's texts are a stranger's: each stands as inert text, whatever it holds (backticks, pipes, HTML,
// links, mentions). At most 50 denials of each kind, and shortened names: such a comment has a bound.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "supervisor/audit/report/contents.hpp"

namespace callgate::audit::report {

void write_markdown(std::ostream& out, const Contents& contents);

/// `text` as code within a line or a cell of a table, in HTML: no character of it can mean anything to
/// Markdown.
[[nodiscard]] std::string markdown_code(std::string_view text);

}  // namespace callgate::audit::report
