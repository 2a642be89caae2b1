# join_sources(TARGET): each folder's sources are compiled together, at most ten at a time. Those that ask for a test switch
# are apart from the others: the program with switches (tests/CMakeLists.txt) has only these anew.
#
# The headers that they share are then parsed once. Measured for supervisor/calls/files, ten sources with the precompiled
# header: 17.9 s of processor time one by one, 6.9 s together. Two sources of one folder therefore need different names in
# their unnamed namespaces. The presets dev and clang compile each source alone.
set(MOST_JOINED_SOURCES 10)

# asks_for_switches(SOURCE RESULT): whether a source asks for a switch (base/test_switch.hpp).
function(asks_for_switches source result)
  if(NOT IS_ABSOLUTE ${source})
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endif()
  file(STRINGS ${source} asks REGEX "check_enabled|injected_landlock_abi|test_switches" LIMIT_COUNT 1)
  if(asks)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

function(join_sources target)
  if(NOT CALLGATE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cpp$" OR source MATCHES "^${CMAKE_BINARY_DIR}|TARGET_OBJECTS|/main\\.cpp$")
      continue()
    endif()
    get_filename_component(folder ${source} DIRECTORY)
    if(IS_ABSOLUTE ${folder})
      file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${folder})
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    asks_for_switches(${source} asks)
    if(asks)
      string(APPEND folder "_switched")
    endif()
    math(EXPR number "0${${folder}_COUNT} + 1" OUTPUT_FORMAT DECIMAL)
    set(${folder}_COUNT ${number})
    math(EXPR group "(${number} - 1) / ${MOST_JOINED_SOURCES}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${group}")
  endforeach()
  # The compiler takes a source that is included for a header, where a type from an unnamed namespace would be a mistake.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
