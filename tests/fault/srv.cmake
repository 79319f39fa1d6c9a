# Tests of a real server that refuses, forgets, or is told to break off.

foreach(name acl_midlife srv_killed_script srv_limits srv_loading srv_local
        srv_refusing srv_replicas)
    holdfast_test(NAME test_${name} LABEL fault TIMEOUT 180
        SOURCES fault/test_${name}.c fault/fault.c)
endforeach()
