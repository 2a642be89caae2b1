#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "supervisor/audit/report/collect.hpp"
#include "supervisor/audit/report/fix.hpp"
#include "supervisor/audit/report/markdown.hpp"
#include "supervisor/audit/report/page.hpp"

using namespace callgate;
using namespace callgate::audit;
using namespace callgate::audit::report;

namespace {

Entry read_of(std::string path, std::string verdict = "allow") {
    Entry entry;
    entry.verdict = std::move(verdict);
    entry.mechanism = entry.verdict == "allow" ? "on_behalf" : "errno";
    entry.operation = "read";
    entry.operations = {"read"};
    entry.object = std::move(path);
    return entry;
}

std::string script_string(std::string_view text) {
    Buffer out;
    append_script_string(out, text);
    return std::string(out.view());
}

}  // namespace

TEST_CASE("the time of a record becomes microseconds, and what is no time nothing") {
    CHECK(microseconds("1970-01-01T00:00:01.000002999Z") == 1'000'002);
    CHECK(microseconds("2026-11-20T10:11:12.123456789Z") == 1'795'169'472'123'456);
    CHECK(time_text(1'795'169'472'123'456) == "2026-11-20T10:11:12Z");
    for (const char* none : {"", "2026-11-20T10:11:12Z", "2026-13-20T10:11:12.123456789Z",
                             "2026-02-30T10:11:12.123456789Z", "2026-11-20T24:11:12.123456789Z",
                             "-026-11-20T10:11:12.123456789Z", "2026-11-20T10:11:12.12345678xZ"})
        CHECK_MESSAGE(!microseconds(none), none);
}

TEST_CASE("a histogram keeps every call, in steps that never become more") {
    Histogram times;
    for (std::int64_t second = 0; second < 100'000; ++second)
        times.add(1'000'000 * second, second % 10 == 0 ? report::Outcome::refused : report::Outcome::allowed);
    times.add(-5, report::Outcome::would);
    CHECK(times.steps().size() <= Histogram::max_steps);
    Tally all{};
    for (const Tally& step : times.steps())
        for (std::size_t one = 0; one < outcomes; ++one) all[one] += step[one];
    CHECK(all == Tally{90'000, 10'000, 1});
    times.add(INT64_MAX, report::Outcome::allowed);
    CHECK(times.steps().size() <= Histogram::max_steps);
}

TEST_CASE("texts are kept once, within a bound") {
    Strings strings(200);
    CHECK(strings.add("one") == 0);
    CHECK(strings.add("two") == 1);
    CHECK(strings.add("one") == 0);
    CHECK_FALSE(strings.add(std::string(100, 'x')));
    CHECK(strings.add("two") == 1);
}

TEST_CASE("a path beyond the bound counts for its directory") {
    Strings strings(64 + 2 + 64 + 4);  // room for "/a" and "/a/b"
    Objects objects(strings);
    objects.add(read_of("/a/b"), report::Outcome::allowed);
    objects.add(read_of("/a/c/d"), report::Outcome::refused);
    objects.add(read_of("/x"), report::Outcome::refused);
    REQUIRE(objects.all().size() == 3);
    CHECK(objects.all()[2].kind == ObjectKind::beneath);
    CHECK(strings.text(objects.all()[2].text) == "/a");
    CHECK(objects.all()[2].calls == Tally{0, 1, 0});
    CHECK(objects.all()[0].calls == Tally{0, 1, 0});
    CHECK(objects.rolled_up() == 2);
}

TEST_CASE("a process finds its parent by pid and time, and never in a circle") {
    Strings strings(1 << 20);
    Processes processes(strings);
    const auto add = [&](int pid, std::uint64_t start, int parent) {
        Entry entry = read_of("/");
        entry.pid = pid;
        entry.start_time = start;
        entry.parent = parent;
        return processes.add(entry, 0, 0, report::Outcome::allowed);
    };
    const auto old = add(10, 1, 99), parent = add(10, 50, 99), child = add(11, 60, 10),
               early = add(12, 20, 10);
    const auto one = add(20, 70, 21), other = add(21, 70, 20), own = add(30, 80, 30);
    processes.join();
    const auto& all = processes.all();
    CHECK(all[child].parent == parent);
    CHECK(all[early].parent == old);
    CHECK(all[old].parent == Process::none);
    CHECK(all[own].parent == Process::none);
    CHECK((all[one].parent == Process::none || all[other].parent == Process::none));
}

TEST_CASE("no text can end the element that it stands in") {
    CHECK(script_string("</script><!--&") == R"("\u003c/script\u003e\u003c!--\u0026")");
    CHECK(script_string("\xe2\x80\xa8\xe2\x80\xae") == R"("\u2028\u202e")");
    for (const std::string_view text : {"</script>", "\"\\", "a\nb", "\xe2\x80\xa9", "<!--<script>"}) {
        const std::string written = script_string(text);
        CHECK(written.find_first_of("<>&\n") == std::string::npos);
        CHECK(nlohmann::json::parse(written) == text);
    }
    CHECK(html_escaped("<a href='\"&'>") == "&lt;a href=&#39;&quot;&amp;&#39;&gt;");
    CHECK(markdown_code("a|b`<c>_d*@e\\") == "<code>a&#124;b&#96;&#60;c&#62;&#95;d&#42;&#64;e&#92;</code>");
}

TEST_CASE("the fix of a denial is the option that the footer has, or why there is none") {
    RecordedRequest request;
    request.object = "/home/u/x y";
    request.first = rules::Operation::read;
    request.rule = "default";
    request.decided_by = "default";
    CHECK(fix_for(request, "read").option == "--read '/home/u/x y'");
    CHECK(fix_for(request, "read").also.empty());
    request.rule = "secrets";
    request.decided_by = "rule";
    CHECK(fix_for(request, "read").option == "--except 'secrets=/home/u/x y'");
    CHECK(fix_for(request, "read").also == "--read '/home/u/x y'");
    request.decided_by = "person";
    CHECK(fix_for(request, "read").note.find("person denied it") != std::string::npos);
    request.decided_by = "failure";
    CHECK(fix_for(request, "read").option.empty());
    request.decided_by = "rule";
    request.rule = "callgate-directories";
    CHECK(fix_for(request, "read").note.find("no rule can allow it") == 0);
    request.rule = "default";
    CHECK(fix_for(request, "nonsense").option.empty());
    request.unlinked = true;
    CHECK(fix_for(request, "read").note.find("no name left") != std::string::npos);
}

TEST_CASE("the page's own policy names the style and the script that stand in it") {
    Contents contents;
    std::ostringstream out;
    write_page(out, contents);
    const std::string page = out.str();
    CHECK(page.find("@@") == std::string::npos);
    CHECK(page.find("default-src &#39;none&#39;; style-src &#39;sha256-") != std::string::npos);
    CHECK(page.find("unsafe") == std::string::npos);
    const std::size_t begin = page.find("id=\"data\">") + 10;
    const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
    CHECK(data["records"] == 0);
}
