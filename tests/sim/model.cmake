# The model of a server, for the simulator and for its comparison with a real
# one. It needs Lua 5.1 (Debian: liblua5.1-0-dev), the one that Redis runs.

pkg_check_modules(LUA51 REQUIRED IMPORTED_TARGET lua5.1)

add_library(holdfast_sim_model STATIC
    ${CMAKE_CURRENT_LIST_DIR}/model.c
    ${CMAKE_CURRENT_LIST_DIR}/model_args.c
    ${CMAKE_CURRENT_LIST_DIR}/model_hash.c
    ${CMAKE_CURRENT_LIST_DIR}/model_keys.c
    ${CMAKE_CURRENT_LIST_DIR}/model_list.c
    ${CMAKE_CURRENT_LIST_DIR}/model_lua.c
    ${CMAKE_CURRENT_LIST_DIR}/model_server.c
    ${CMAKE_CURRENT_LIST_DIR}/model_sha1.c
    ${CMAKE_CURRENT_LIST_DIR}/model_store.c
    ${CMAKE_CURRENT_LIST_DIR}/model_table.c
    ${CMAKE_CURRENT_LIST_DIR}/model_wire.c
    ${CMAKE_CURRENT_LIST_DIR}/model_zset.c
)
holdfast_compile_options(holdfast_sim_model)
target_include_directories(holdfast_sim_model
    PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(holdfast_sim_model PUBLIC PkgConfig::LUA51)

holdfast_test(NAME sim_model LABEL sim TIMEOUT 300
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_model.c
        ${CMAKE_CURRENT_LIST_DIR}/model_pair.c)
holdfast_test(NAME sim_model_alone LABEL sim
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_model_alone.c)
foreach(test sim_model sim_model_alone)
    target_link_libraries(${test} PRIVATE holdfast_sim_model holdfast::static)
endforeach()
