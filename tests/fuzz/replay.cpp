// A fuzzer without its fuzzing: runs the inputs that are kept, so that every build and every compiler tries
// them.
//
// Arguments: directories of inputs, and the fuzzer's own options. What an input must not do ends the process.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* count, char*** words);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** words) {
    std::vector<std::filesystem::path> inputs;
    for (int index = 1; index < count; ++index) {
        if (words[index][0] == '-') continue;
        for (const auto& entry : std::filesystem::directory_iterator(words[index]))
            inputs.push_back(std::filesystem::absolute(entry.path()));
    }
    LLVMFuzzerInitialize(&count, &words);  // may change the directory
    int accepted = 0;
    for (const std::filesystem::path& path : inputs) {
        std::ifstream file(path, std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        if (!file) return std::fprintf(stderr, "cannot read %s\n", path.c_str()), 1;
        std::fprintf(stderr, "%s\n", path.c_str());
        accepted +=
            LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) == 0;
    }
    std::printf("%zu inputs, %d of them accepted\n", inputs.size(), accepted);
    return accepted > 0 ? 0 : 1;
}
