# Links each file and folder of the package FROM into the extension's folder TO.
file(MAKE_DIRECTORY ${TO})
file(GLOB entries ${FROM}/*)
foreach(entry IN LISTS entries)
    cmake_path(GET entry FILENAME name)
    if(NOT name STREQUAL "__pycache__")
        file(CREATE_LINK ${entry} ${TO}/${name} SYMBOLIC)
    endif()
endforeach()
