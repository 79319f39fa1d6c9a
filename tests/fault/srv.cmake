# Tests of a real server that refuses, forgets, or is told to break off; and
# the fault table over all kinds of lock.

foreach(name acl_midlife srv_killed_script srv_limits srv_loading srv_local
        srv_refusing srv_replicas)
    holdfast_test(NAME test_${name} LABEL fault TIMEOUT 180
        SOURCES fault/test_${name}.c fault/fault.c)
endforeach()
foreach(name kinds_network kinds_process kinds_server)
    holdfast_test(NAME test_${name} LABEL fault TIMEOUT 180
        SOURCES fault/test_${name}.c fault/kinds.c fault/fault.c)
endforeach()
holdfast_test(NAME test_kinds_sync LABEL fault
    SOURCES fault/test_kinds_sync.c fault/fault.c)
