// The languages of SandboxFusion, and how a program of each is compiled and run.
#pragma once

#include <string_view>

namespace callgate::jobs::http {

struct FusionLanguage {
    std::string_view name, program, source, compile, run;
};

/// `program` must be there; the commands are words of the shell.
inline constexpr FusionLanguage fusion_languages[] = {
    {"python", "python3", "main.py", "", "python3 main.py"},
    {"pytest", "pytest", "main.py", "", "pytest main.py"},
    {"bash", "bash", "main.sh", "", "bash main.sh"},
    {"nodejs", "node", "main.js", "", "node main.js"},
    {"typescript", "tsx", "main.ts", "", "tsx main.ts"},
    {"cpp", "g++", "main.cpp", "g++ -std=c++17 main.cpp -o test -lpthread", "./test"},
    {"rust", "rustc", "main.rs", "rustc main.rs -o test", "./test"},
    {"go", "go", "main.go", "go build -o out main.go", "./out"},
    {"java", "javac", "Main.java", "javac -cp \".:*\" Main.java", "java -cp \".:*\" -ea Main"},
    {"D_ut", "dmd", "main.d", "dmd main.d -unittest -of=test", "./test"},
    {"swift", "swiftc", "main.swift", "swiftc main.swift -o test.out", "./test.out"},
    {"php", "php", "main.php", "", "php -f main.php"},
    {"lua", "lua", "main.lua", "", "lua main.lua"},
    {"R", "Rscript", "main.R", "", "Rscript main.R"},
    {"perl", "perl", "main.pl", "", "perl main.pl"},
    {"ruby", "ruby", "main.rb", "", "ruby main.rb"},
    {"julia", "julia", "main.jl", "", "julia main.jl"},
    {"racket", "racket", "main.rkt", "", "racket main.rkt"},
};

}  // namespace callgate::jobs::http
