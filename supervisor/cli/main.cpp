#include "supervisor/cli/verbs.hpp"

int main(int count, char** words) {
    return callgate::cli::dispatch(std::vector<std::string>(words + (count > 0 ? 1 : 0), words + count));
}
