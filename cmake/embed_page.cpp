// embed_page OUTPUT FILE...: the report's page as one C++ source.
//
// Runs when callgate is built. Files are joined by what they are, in the order given: *.html the template,
// *.css the style, *.js the script, which becomes one function of its own.
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "cmake/embed_text.hpp"

namespace {

std::string joined(int count, char** words, std::string_view ending) {
    std::string all;
    for (int index = 2; index < count; ++index)
        if (std::string_view(words[index]).ends_with(ending)) all += embed::read_file(words[index]);
    // A compiler may not take them, and a browser would end the element that the text stands in.
    for (const char one : all)
        if (static_cast<unsigned char>(one) >= 0x80)
            throw std::runtime_error("the page's files must be ASCII");
    if (ending != ".html" && all.find("</") != std::string::npos)
        throw std::runtime_error("\"</\" in a style or script");
    return all;
}

void put(std::ostream& out, const char* name, const std::string& text) {
    out << "std::string_view page_" << name << "() {\n    static constexpr std::string_view text =";
    embed::put_string(out, text);
    out << ";\n    return text;\n}\n\n";
}

}  // namespace

int main(int count, char** words) {
    try {
        if (count < 3) throw std::runtime_error("usage: embed_page OUTPUT FILE...");
        std::ofstream out(words[1], std::ios::binary);
        out << "// Generated from supervisor/audit/report/page: do not edit.\n"
               "#include \"supervisor/audit/report/page.hpp\"\n\nnamespace callgate::audit::report {\n\n";
        put(out, "template", joined(count, words, ".html"));
        put(out, "style", joined(count, words, ".css"));
        put(out, "script", "\"use strict\";\n(() => {\n" + joined(count, words, ".js") + "})();\n");
        out << "}  // namespace callgate::audit::report\n";
        if (!out.flush()) throw std::runtime_error(std::string(words[1]) + ": cannot be written");
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "embed_page: " << error.what() << '\n';
        return 1;
    }
}
