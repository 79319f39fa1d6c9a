# How every file of ours is compiled.

set(holdfast_warnings
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wformat=2)

if(HOLDFAST_SANITIZE STREQUAL "address")
    set(holdfast_sanitize_flags -fsanitize=address,undefined
        -fno-sanitize-recover=all)
elseif(HOLDFAST_SANITIZE STREQUAL "thread")
    set(holdfast_sanitize_flags -fsanitize=thread)
elseif(NOT HOLDFAST_SANITIZE STREQUAL "")
    message(FATAL_ERROR "HOLDFAST_SANITIZE=${HOLDFAST_SANITIZE}: "
        "choose address, thread or nothing")
endif()

# holdfast_sanitize(TARGET): links what the sanitizers need.
function(holdfast_sanitize target)
    if(holdfast_sanitize_flags)
        target_link_options(${target} PUBLIC ${holdfast_sanitize_flags})
    endif()
endfunction()

# holdfast_compile_options(TARGET): language, warnings and sanitizers.
function(holdfast_compile_options target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
        EXPORT_COMPILE_COMMANDS ON)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_compile_options(${target} PRIVATE ${holdfast_warnings})
    if(HOLDFAST_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(holdfast_sanitize_flags)
        target_compile_options(${target} PRIVATE ${holdfast_sanitize_flags}
            -O1 -fno-omit-frame-pointer)
        holdfast_sanitize(${target})
    endif()
endfunction()
