#include "supervisor/audit/verbs/verify.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "supervisor/audit/write/log.hpp"
#include "tests/unit/supervisor/audit/test_keys.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::audit;
using callgate::tests::TemporaryDirectory;

namespace {

std::string bytes_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

void write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

Decision read_of(const std::string& path) {
    Decision decision;
    decision.call = "openat";
    decision.caller.pid = 7;
    decision.caller.executable = "/usr/bin/cat";
    decision.object = rules::FileObject{path, false};
    decision.operations = rules::Operation::read;
    decision.verdict.action = rules::Action::deny;
    return decision;
}

void write_run(Log& log, int decisions) {
    RunStart start;
    start.command = {"true"};
    REQUIRE(log.record(start));
    for (int count = 0; count < decisions; ++count) {
        const std::string path = "/w/" + std::to_string(count);
        REQUIRE(log.record(read_of(path)));
    }
    REQUIRE(log.record(RunEnd{}));
}

std::string made_log(const TemporaryDirectory& base, int decisions, Log::Options options = {}) {
    const std::string path = base / "x.jsonl";
    options.run = "k3f9";
    options.mode = Mode::enforce;
    auto log = Log::at_file(path, std::move(options));
    REQUIRE(log);
    write_run(**log, decisions);
    return path;
}

Verification verified(const std::string& path, const VerifyOptions& options = {}) {
    const auto found = verify_log(path, options);
    REQUIRE(found.has_value());
    return *found;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return text;
}

/// Makes the line's own hash anew, as an attacker with the program but without the head can.
std::string with_new_hash(const std::string& line, std::string_view from, std::string_view to) {
    std::string changed = line;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    const auto sealed = take_apart(changed);
    REQUIRE(sealed);
    const ChainHash hash = chain_hash(sealed->previous, sealed->body);
    changed.replace(changed.rfind(sealed->hash.view()), hash_digits, hash.view());
    return changed;
}

void write_key(const callgate::tests::TestKey& key, const std::string& secret, const std::string& open) {
    write_bytes(secret, key.secret());
    write_bytes(open, key.open());
}

void check_one(const std::string& path, Damage damage, std::uint64_t sequence) {
    const Verification found = verified(path);
    CHECK(found.status() == 1);
    REQUIRE(!found.findings.empty());
    CHECK(name(found.findings[0].damage) == name(damage));
    CHECK(found.findings[0].sequence == sequence);
}

}  // namespace

TEST_CASE("a log as it was written is whole, checkpoints and all, and ends in its head") {
    const TemporaryDirectory base;
    const std::string path = base / "x.jsonl";
    auto log = Log::at_file(path, {.run = "k3f9", .mode = Mode::enforce, .checkpoint_records = 10});
    REQUIRE(log);
    write_run(**log, 35);
    CHECK((*log)->sync_due());
    CHECK_FALSE((*log)->sync_due());
    const Verification found = verified(path);
    CHECK(found.status() == 0);
    CHECK(found.records == (*log)->records());
    CHECK(found.records == 37 + 3);
    CHECK(found.runs == 1);
    CHECK(found.head.view() == (*log)->head());
    CHECK(bytes_of(path).find(R"("action":"checkpoint")") != std::string::npos);
}

TEST_CASE("segments are linked, and one that is missing is noticed") {
    const TemporaryDirectory base;
    const std::string directory = base / "state";
    auto log = Log::in_directory(directory, {.run = "k3f9", .mode = Mode::enforce, .segment_bytes = 4096});
    REQUIRE(log);
    write_run(**log, 40);
    const std::string path = (*log)->path();
    CHECK(verified(path).status() == 0);
    CHECK(verified(path).records == 42);
    const std::string second = path.substr(0, path.size() - 6) + ".2.jsonl";
    const std::string bytes = bytes_of(second);
    REQUIRE(!bytes.empty());
    write_bytes(second, "");
    CHECK(verified(path).status() == 1);
    write_bytes(second, bytes);
    CHECK(verified(path).status() == 0);
    REQUIRE(std::system(("rm " + second).c_str()) == 0);
    CHECK(verified(path).status() == 2);  // no later record can be reached
}

TEST_CASE("a file that a second run continues is one chain") {
    const TemporaryDirectory base;
    const std::string path = made_log(base, 3);
    made_log(base, 4);
    const Verification found = verified(path);
    CHECK(found.status() == 0);
    CHECK(found.runs == 2);
    const std::vector<std::string> lines = lines_of(bytes_of(path));
    write_bytes(path, joined({lines.begin() + 5, lines.end()}));
    check_one(path, Damage::removed, 1);
}

TEST_CASE("what was done to a log is named") {
    const TemporaryDirectory base;
    const std::string path = made_log(base, 10);
    const std::vector<std::string> good = lines_of(bytes_of(path));
    std::vector<std::string> lines = good;
    SUBCASE("a byte of a record") {
        lines[4].replace(lines[4].find("/w/3"), 4, "/w/9");
        write_bytes(path, joined(lines));
        check_one(path, Damage::changed, 5);
    }
    SUBCASE("a record and its hash") {
        lines[4] = with_new_hash(lines[4], "\"deny\"", "\"allow\"");
        write_bytes(path, joined(lines));
        check_one(path, Damage::changed, 5);
    }
    SUBCASE("a record is gone") {
        lines.erase(lines.begin() + 4);
        write_bytes(path, joined(lines));
        check_one(path, Damage::removed, 6);
    }
    SUBCASE("the first records are gone") {
        lines.erase(lines.begin(), lines.begin() + 2);
        write_bytes(path, joined(lines));
        check_one(path, Damage::removed, 3);
    }
    SUBCASE("a record that follows the same one was put in between") {
        lines.insert(lines.begin() + 5, with_new_hash(lines[5], "/w/4", "/w/x"));
        write_bytes(path, joined(lines));
        check_one(path, Damage::inserted, 6);
    }
    SUBCASE("a line of something else") {
        lines.insert(lines.begin() + 5, "hello");
        write_bytes(path, joined(lines));
        check_one(path, Damage::inserted, 0);
    }
    SUBCASE("two records have changed places") {
        std::swap(lines[4], lines[5]);
        write_bytes(path, joined(lines));
        const Verification found = verified(path);
        CHECK(found.status() == 1);
        CHECK(std::any_of(found.findings.begin(), found.findings.end(),
                          [](const Finding& one) { return one.damage == Damage::reordered; }));
    }
    SUBCASE("the end is gone: incomplete, and with a head kept elsewhere cut short") {
        VerifyOptions options;
        options.head = verified(path).head;
        lines.resize(8);
        write_bytes(path, joined(lines));
        CHECK(verified(path).status() == 2);
        const Verification found = verified(path, options);
        CHECK(found.status() == 1);
        REQUIRE(!found.findings.empty());
        CHECK(found.findings[0].damage == Damage::cut_short);
    }
    SUBCASE("a torn last line is incomplete") {
        const std::string text = joined(lines);
        write_bytes(path, text.substr(0, text.size() - 20));
        CHECK(verified(path).status() == 2);
        CHECK(verified(path).torn);
    }
}

TEST_CASE("10,000 random edits of a log are all found") {
    const TemporaryDirectory base;
    const std::string path = made_log(base, 12);
    const std::string good = bytes_of(path);
    const Verification whole = verified(path);
    VerifyOptions options;
    options.head = whole.head;
    std::mt19937 random(20261122);
    const auto below = [&random](std::size_t limit) { return random() % std::max<std::size_t>(limit, 1); };
    const bool soak = std::getenv("CALLGATE_SOAK") != nullptr;
    int missed = 0;
    for (int round = 0; round < (soak ? 10'000 : 2'000); ++round) {
        std::string text = good;
        const std::size_t at = below(text.size());
        const std::size_t length = 1 + below(round % 3 == 0 ? 2000 : 4);
        switch (random() % 5) {
            case 0:
                text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1 + below(255)));
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.insert(at, text.substr(below(text.size()), length));
                break;
            case 3:
                text.replace(at, std::min(length, text.size() - at), text.substr(below(text.size()), length));
                break;
            default:
                text.resize(at);
        }
        if (text == good) continue;
        write_bytes(path, text);
        if (verified(path, options).status() == 0) ++missed;
    }
    CHECK(missed == 0);
}

TEST_CASE("a signed log shows whose it is") {
    const TemporaryDirectory base;
    const std::string secret = base / "key.pem", open = base / "pub.pem", other = base / "other.pem";
    write_key(callgate::tests::first_key, secret, open);
    write_key(callgate::tests::second_key, other, base / "other-pub.pem");
    Log::Options keyed;
    keyed.key = SigningKey::load(secret).value();
    keyed.checkpoint_records = 5;
    const std::string path = made_log(base, 12, keyed);
    VerifyOptions options;
    options.key = VerifyingKey::load(open).value();
    CHECK(verified(path).status() == 0);
    CHECK(verified(path, options).status() == 0);
    CHECK(verified(path, options).signatures == 3);
    VerifyOptions other_key;
    other_key.key = VerifyingKey::load(other).value();
    CHECK(verified(path, other_key).findings.size() == 3);
    // The chain is made anew without the key: every hash is right, the signatures are wrong.
    std::vector<std::string> lines = lines_of(bytes_of(path));
    ChainHash head = ChainHash::none();
    for (std::string& line : lines) {
        const auto sealed = take_apart(line);
        REQUIRE(sealed);
        std::string body(sealed->body);
        if (const std::size_t at = body.find("\"deny\""); at != std::string::npos)
            body.replace(at, 6, "\"allow\"");
        const std::string previous(head.view());
        head = chain_hash(head, body);
        const std::string signature(sealed->signature);
        line = body + std::string(integrity_head) + previous + std::string(integrity_middle) +
               std::string(head.view()) + (signature.empty() ? "" : "\",\"signature\":\"" + signature) +
               "\"}}";
    }
    write_bytes(path, joined(lines));
    CHECK(verified(path).status() == 0);  // a chain alone cannot show this
    CHECK(verified(path, options).status() == 1);
    CHECK_FALSE(SigningKey::load(base / "none.pem").has_value());
    write_bytes(base / "bad.pem", "-----BEGIN PRIVATE KEY-----\nnonsense\n");
    const auto bad = SigningKey::load(base / "bad.pem");
    REQUIRE_FALSE(bad.has_value());
    CHECK(bad.error().text.find("Ed25519") != std::string::npos);
}
