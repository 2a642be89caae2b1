# `cmake --install BUILD [--component runtime|tls|development]`. runtime: what a user needs. tls: callgate-tls, where it was
# built. development: symbols for a debugger, and the schema of rules for editors.
include(GNUInstallDirs)
install(TARGETS callgate RUNTIME COMPONENT runtime)
add_custom_target(callgate_installed)  # builds what is installed
add_dependencies(callgate_installed callgate callgate_share)
if(TARGET callgate-tls)
  add_dependencies(callgate_installed callgate-tls)
  install(TARGETS callgate-tls RUNTIME COMPONENT tls)
endif()
install(DIRECTORY ${SHARE_DIRECTORY}/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT runtime)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
file(GLOB PAGES CONFIGURE_DEPENDS docs/*.md)
install(FILES ${PAGES} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT runtime)
if(CALLGATE_STRIP)
  install(FILES ${CMAKE_BINARY_DIR}/callgate.debug DESTINATION ${CMAKE_INSTALL_LIBDIR}/debug/callgate COMPONENT development)
endif()
install(FILES rules/rules.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/callgate COMPONENT development)
install(DIRECTORY docs/dev DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT development)
