// Notebooks: the cells as one job, and what became of each.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace callgate::jobs::http {

/// Makes the response to a program into that to a notebook. A cell that fails is a cell with errors; the
/// notebook goes on.
void tell_cells(nlohmann::json& made);

}  // namespace callgate::jobs::http
