/* What most programs of the public API's tests stand on: one server and two
 * clients of it, as of two programs; and nothing may be left on the server
 * after a test. */
#ifndef TEST_SUPPORT_FIXTURE_H
#define TEST_SUPPORT_FIXTURE_H

#include "holdfast/holdfast.h"
#include "support/locks.h"
#include "support/server.h"

extern srv *server;
extern hf_client *client;
extern hf_client *other;
extern _Thread_local hf_error err;

/* Clients with the usual options, over different sockets; or patient ones. */
int fixture_usual(void **state);
int fixture_patient(void **state);
int fixture_end(void **state);

/* For one test: the server's memory must be empty when it has ended. */
int fixture_nothing_is_left(void **state);
#define FIXTURE_TEST(test)                                                     \
    cmocka_unit_test_teardown(test, fixture_nothing_is_left)

#endif
