# Faults of the network, of the operating system and of time.

holdfast_test(NAME test_net_slow LABEL fault
    SOURCES fault/test_net_slow.c fault/fault.c)
# It has a getaddrinfo of its own, as the sanitizers do.
if(NOT HOLDFAST_SANITIZE)
    holdfast_test(NAME test_net_names LABEL fault
        SOURCES fault/test_net_names.c fault/fault.c)
endif()

# Preloaded into a server, which is not built with our sanitizers.
add_library(shim_clock MODULE support/shim_clock.c)
target_compile_definitions(shim_clock PRIVATE _GNU_SOURCE)
target_compile_options(shim_clock PRIVATE ${holdfast_warnings})
holdfast_test(NAME test_time_server LABEL fault
    SOURCES fault/test_time_server.c fault/fault.c)
target_compile_definitions(test_time_server
    PRIVATE SHIM_CLOCK="$<TARGET_FILE:shim_clock>")
add_dependencies(test_time_server shim_clock)
# It has clocks of its own, as the sanitizers do.
if(NOT HOLDFAST_SANITIZE)
    holdfast_test(NAME test_time_client LABEL fault
        SOURCES fault/test_time_client.c fault/fault.c)
endif()
# The sanitizers make system calls of their own.
if(NOT HOLDFAST_SANITIZE)
    holdfast_test(NAME test_os_syscalls LABEL fault TIMEOUT 180
        SOURCES fault/test_os_syscalls.c fault/fault.c)
endif()
holdfast_test(NAME test_net_half_open LABEL fault
    SOURCES fault/test_net_half_open.c fault/fault.c)
holdfast_test(NAME test_os_starvation LABEL fault SERIAL # fills the machine
    SOURCES fault/test_os_starvation.c fault/fault.c)
holdfast_test(NAME test_left_socket LABEL fault
    SOURCES fault/test_left_socket.c fault/fault.c)
holdfast_test(NAME test_left_alarm LABEL fault
    SOURCES fault/test_left_alarm.c fault/fault.c)
