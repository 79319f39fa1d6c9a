# Tests that came with the measure of what the others reach.

foreach(name info lookup)
    holdfast_test(NAME test_${name} LABEL unit SOURCES unit/test_${name}.c)
endforeach()
foreach(name login questions)
    holdfast_test(NAME test_${name} LABEL integration
        SOURCES integration/test_${name}.c)
endforeach()
