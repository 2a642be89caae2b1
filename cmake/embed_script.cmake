# cmake -DPROFILES=DIR -DSCHEMA=FILE -DOUTPUT=FILE -P embed_script.cmake
# Raw string literals: the text is embedded byte for byte; a file may not hold the delimiter.
function(read_text path result)
  file(READ "${path}" text)
  if(text MATCHES "\\)embedded\"")
    message(FATAL_ERROR "${path}: the text holds the delimiter of the generated string")
  endif()
  set(${result} "R\"embedded(${text})embedded\"" PARENT_SCOPE)
endfunction()

file(GLOB profiles "${PROFILES}/*.json")
list(SORT profiles)
set(entries "")
set(count 0)
foreach(path IN LISTS profiles)
  get_filename_component(profile_name "${path}" NAME_WE)
  read_text("${path}" text)
  file(READ "${path}" plain)
  if(NOT plain MATCHES "\"description\": *(\"[^\"\n]*\")")
    message(FATAL_ERROR "${path}: a shipped profile needs a description on one line")
  endif()
  string(APPEND entries "    {\"${profile_name}\", ${CMAKE_MATCH_1},\n     ${text}},\n")
  math(EXPR count "${count} + 1")
endforeach()
read_text("${SCHEMA}" schema)

file(WRITE "${OUTPUT}" "// Generated from rules/profiles and rules/rules.schema.json: do not edit.
#include <array>
#include <span>
#include <string_view>

#include \"rules/loader.hpp\"

namespace callgate::rules {
namespace {

constexpr std::array<ShippedProfile, ${count}> profiles{{
${entries}}};

constexpr std::string_view schema = ${schema};

}  // namespace

std::span<const ShippedProfile> shipped_profiles() { return profiles; }
std::string_view rules_schema() { return schema; }

}  // namespace callgate::rules
")
