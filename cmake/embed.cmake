# Shipped profiles and the JSON Schema become one C++ source, so that the program needs no file of its own at
# run time. Sets EMBEDDED_SOURCES. The source is made at build time and depends on every JSON file.
file(GLOB PROFILE_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/rules/profiles/*.json)
set(EMBEDDED_SOURCES ${CMAKE_BINARY_DIR}/generated/embedded.cpp)
add_custom_command(
  OUTPUT ${EMBEDDED_SOURCES}
  COMMAND ${CMAKE_COMMAND} "-DPROFILES=${CMAKE_SOURCE_DIR}/rules/profiles"
          "-DSCHEMA=${CMAKE_SOURCE_DIR}/rules/rules.schema.json" "-DOUTPUT=${EMBEDDED_SOURCES}"
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_script.cmake
  DEPENDS ${PROFILE_FILES} ${CMAKE_SOURCE_DIR}/rules/rules.schema.json ${CMAKE_SOURCE_DIR}/cmake/embed_script.cmake
  COMMENT "Embedding profiles and schema"
  VERBATIM)
