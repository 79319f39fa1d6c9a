# Puts the Lua scripts into the library, byte for byte, with their SHA-1.
#
# Included, it defines
#     holdfast_embed_scripts(OUTPUT.c FILE.lua...)
# which makes OUTPUT.c anew at build time whenever a script changes, and
#     holdfast_declare_scripts(OUTPUT.h FILE.lua...)
# which makes the header that declares them; run by `cmake -P` it is the
# generator. Bytes are written as character constants:
# a string literal would run into C11's limit of 4095 characters.

if(NOT CMAKE_SCRIPT_MODE_FILE)
    set(holdfast_script_embed ${CMAKE_CURRENT_LIST_FILE})

    function(holdfast_declare_scripts output)
        set(code "/* Made by cmake/ScriptEmbed.cmake. */\n"
            "#ifndef HF__KINDS_SCRIPTS_H\n#define HF__KINDS_SCRIPTS_H\n\n"
            "#include \"base/script.h\"\n\n")
        foreach(script IN LISTS ARGN)
            cmake_path(GET script STEM name)
            list(APPEND code "extern const hf__script hf__script_${name}\;\n")
        endforeach()
        list(APPEND code "\n#endif\n")
        string(JOIN "" code ${code})
        file(CONFIGURE OUTPUT ${output} CONTENT "${code}" @ONLY)
    endfunction()

    function(holdfast_embed_scripts output)
        set(scripts ${ARGN})
        list(TRANSFORM scripts PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/
            REGEX "^[^/]")
        string(JOIN "," joined ${scripts})
        cmake_path(GET output FILENAME name)
        add_custom_command(OUTPUT ${output}
            COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DSCRIPTS=${joined}
                -P ${holdfast_script_embed}
            DEPENDS ${scripts} ${holdfast_script_embed}
            COMMENT "Embedding the Lua scripts into ${name}" VERBATIM)
    endfunction()
    return()
endif()

set(code "/* Made by cmake/ScriptEmbed.cmake from src/kinds/lua. */\n")
string(APPEND code "#include \"kinds/scripts.h\"\n")

string(REPLACE "," ";" SCRIPTS "${SCRIPTS}")
foreach(script IN LISTS SCRIPTS)
    cmake_path(GET script STEM name)
    if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
        message(FATAL_ERROR "${script}: the name must serve as a C identifier")
    endif()
    file(READ ${script} bytes HEX)
    file(SHA1 ${script} digest)
    file(SIZE ${script} length)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    # Twelve constants of seven characters a line.
    string(REPEAT "......." 12 line)
    string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
    string(APPEND code "\nstatic const char ${name}_text[] = {\n${bytes}0};\n"
        "const hf__script hf__script_${name} = {\n"
        "    \"${name}\", ${name}_text, ${length},\n    \"${digest}\"};\n")
endforeach()
file(WRITE ${OUTPUT} "${code}")
