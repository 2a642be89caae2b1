# Manual pages and completions, in the folders beneath share/ in which `man` and the shells look for them. They are made from
# the option table, the schema of rules and the shipped profiles; the pages bear the date of the newest release.
set(SHARE_DIRECTORY ${CMAKE_BINARY_DIR}/share)
file(STRINGS CHANGELOG.md RELEASES REGEX "^## .*\\([0-9-]+\\)$")
list(GET RELEASES 0 RELEASE)
string(REGEX REPLACE ".*\\((.*)\\)$" "\\1" RELEASE_DATE "${RELEASE}")

add_executable(callgate_manual tools/manual.cpp)
target_link_libraries(callgate_manual PRIVATE callgate_supervisor)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/share.made
  COMMAND ${CMAKE_SOURCE_DIR}/tools/share.sh $<TARGET_FILE:callgate> $<TARGET_FILE:callgate_manual> ${SHARE_DIRECTORY} ${RELEASE_DATE}
          ${CMAKE_CROSSCOMPILING_EMULATOR}
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/share.made
  DEPENDS callgate callgate_manual ${CMAKE_SOURCE_DIR}/tools/share.sh
  COMMENT "Making manual pages and completions"
  VERBATIM)
add_custom_target(callgate_share ALL DEPENDS ${CMAKE_BINARY_DIR}/share.made)
