# cmake -DSIZE=... -DLIBRARY=... -DLIMIT=... -P text_size.cmake: prints the bytes of text of a static library, as size counts
# them, and fails beyond the limit.
execute_process(COMMAND ${SIZE} -t ${LIBRARY} OUTPUT_VARIABLE sizes COMMAND_ERROR_IS_FATAL ANY)
if(NOT sizes MATCHES "\n *([0-9]+)[^\n]*\\(TOTALS\\)")
    message(FATAL_ERROR "not the output of size:\n${sizes}")
endif()
get_filename_component(name ${LIBRARY} NAME)
set(words "text of ${name}: ${CMAKE_MATCH_1} bytes, of ${LIMIT}")
if(CMAKE_MATCH_1 GREATER LIMIT)
    message(FATAL_ERROR "${words}")
endif()
message(STATUS "${words}")
