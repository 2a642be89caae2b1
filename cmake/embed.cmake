# Shipped profiles and the JSON Schema become one C++ source, so that the program needs no file of its own at
# run time and reads no profile at its start. Sets EMBEDDED_SOURCES. The source is made at build time, by a small
# program of our own, and depends on every JSON file. callgate_json is what both that program and the rules need.
add_library(callgate_json OBJECT rules/load/json_tree.cpp rules/load/json_error.cpp
            rules/load/diagnostic.cpp)
target_link_libraries(callgate_json PRIVATE callgate_base)

add_executable(callgate_embed cmake/embed.cpp)
target_link_libraries(callgate_embed PRIVATE callgate_json callgate_base)

file(GLOB PROFILE_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/rules/profiles/*.json)
set(EMBEDDED_SOURCES ${CMAKE_BINARY_DIR}/generated/embedded.cpp)
add_custom_command(
  OUTPUT ${EMBEDDED_SOURCES}
  COMMAND callgate_embed ${EMBEDDED_SOURCES} ${CMAKE_SOURCE_DIR}/rules/rules.schema.json ${PROFILE_FILES}
  DEPENDS callgate_embed ${PROFILE_FILES} ${CMAKE_SOURCE_DIR}/rules/rules.schema.json
  COMMENT "Embedding profiles and schema"
  VERBATIM)

# The page of `callgate audit report`, in the same way. Its scripts are joined in the order of their names.
add_executable(callgate_embed_page cmake/embed_page.cpp)
target_link_libraries(callgate_embed_page PRIVATE callgate_options)

file(GLOB PAGE_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/supervisor/audit/report/page/*)
set(EMBEDDED_PAGE ${CMAKE_BINARY_DIR}/generated/report_page.cpp)
add_custom_command(
  OUTPUT ${EMBEDDED_PAGE}
  COMMAND callgate_embed_page ${EMBEDDED_PAGE} ${PAGE_FILES}
  DEPENDS callgate_embed_page ${PAGE_FILES}
  COMMENT "Embedding the report's page"
  VERBATIM)

# The numbers of system calls, as libseccomp knows them.
add_executable(callgate_embed_calls cmake/embed_calls.cpp)
target_include_directories(callgate_embed_calls SYSTEM PRIVATE ${SECCOMP_INCLUDE_DIRS})
target_link_directories(callgate_embed_calls PRIVATE ${SECCOMP_LIBRARY_DIRS})
target_link_libraries(callgate_embed_calls PRIVATE callgate_options ${SECCOMP_LIBRARIES})

set(EMBEDDED_CALLS ${CMAKE_BINARY_DIR}/generated/call_numbers.hpp)
add_custom_command(
  OUTPUT ${EMBEDDED_CALLS}
  COMMAND callgate_embed_calls ${EMBEDDED_CALLS}
  DEPENDS callgate_embed_calls
  COMMENT "Embedding the numbers of system calls"
  VERBATIM)

# The public suffix list, without comments and without names in other scripts.
find_file(PUBLIC_SUFFIX_LIST public_suffix_list.dat PATHS /usr/share/publicsuffix REQUIRED)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PUBLIC_SUFFIX_LIST})
file(STRINGS ${PUBLIC_SUFFIX_LIST} suffixes ENCODING UTF-8 REGEX "^[!*a-z0-9][-.a-z0-9]*$")
list(JOIN suffixes "\n" suffixes)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/public_suffixes.hpp @ONLY
     CONTENT "// Compilers need not take a literal of this length; gcc and clang do.
#pragma GCC diagnostic ignored \"-Woverlength-strings\"
inline constexpr char public_suffixes[] = R\"(\n@suffixes@\n)\";\n")
