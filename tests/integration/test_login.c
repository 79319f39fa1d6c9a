/* What is said first on a connection: who comes, and to which database. */
#include "support/locks.h"
#include "support/net.h"
#include "support/server.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static srv *server;

static int set_up(void **state)
{
    (void)state;
    server = srv_start(NULL);
    assert_true(
        srv_cmd_is(server, "OK", "ACL SETUSER ada on >sesame ~* &* +@all"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    srv_stop(server);
    return 0;
}

static char *url_of(const char *login, const char *query)
{
    return test_text("redis+unix://%s%s%s", login, srv_socket(server), query);
}

/* Locks, in that database, and as that user. */
static void check_login(const char *login, const char *query,
                        const char *database, const char *user)
{
    char *url = url_of(login, query);
    hf_client *client = test_client(url, NULL);
    hf_lock *lock = test_lock(client, "door");
    assert_null(strstr(hf_client_server(client), "sesame"));
    hf_lease *lease = test_take(lock);
    assert_true(srv_cmd_is(server, "OK", "SELECT %s", database));
    assert_true(srv_cmd_is(server, "1", "EXISTS door"));
    char *list = srv_cmd(server, "CLIENT LIST");
    assert_non_null(strstr(list, user));
    free(list);
    test_give(lease);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_true(srv_cmd_is(server, "OK", "SELECT 0"));
    hf_lock_free(lock);
    hf_client_free(client);
    free(url);
}

static void test_logins(void **state)
{
    (void)state;
    check_login("", "", "0", "user=default");
    check_login("", "?db=5", "5", "user=default");
    check_login("ada:sesame@", "", "0", "user=ada");
    check_login("ada:sesame@", "?db=15", "15", "user=ada");
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET requirepass sesame"));
    check_login(":sesame@", "?db=1", "1", "user=default");
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET requirepass %s", ""));
}

static void check_refused(const char *login, const char *query,
                          hf_status status, const char *words)
{
    char *url = url_of(login, query);
    hf_error why = HF_ERROR_INIT;
    assert_null(hf_client_open(url, NULL, &why));
    assert_int_equal(hf_error_status(&why), status);
    assert_false(hf_error_is_retriable(&why));
    assert_null(strstr(hf_error_text(&why), "sesame"));
    if (!strstr(hf_error_text(&why), words)) {
        fail_msg("%s does not say \"%s\"", hf_error_text(&why), words);
    }
    free(url);
}

static void test_refused_logins(void **state)
{
    (void)state;
    check_refused("", "?db=99", HF_ECONFIG, "has no database 99");
    check_refused("ada:sesame2@", "", HF_EAUTH, "does not accept this user");
    check_refused("eve:sesame@", "", HF_EAUTH, "does not accept this user");
    check_refused(":sesame@", "", HF_EAUTH, "refuses to authenticate"); /* the
                                                     server wants none */
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET requirepass sesame"));
    check_refused("", "", HF_EAUTH, "wants a password");
    check_refused("", "?db=1", HF_EAUTH, "wants a password");
    check_refused(":sesame2@", "?db=1", HF_EAUTH, "does not accept this user");
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET requirepass %s", ""));
}

/* Whose user may not ask for it goes without the server's run id. */
static void test_info_is_forbidden(void **state)
{
    (void)state;
    assert_true(srv_cmd_is(server, "OK",
                           "ACL SETUSER bob on >sesame ~* &* +@all -info"));
    check_login("bob:sesame@", "", "0", "user=bob");
}

/* Who names no server, gets that of the environment. */
static void test_server_of_the_environment(void **state)
{
    (void)state;
    hf_error err = HF_ERROR_INIT;
    char *url = url_of("", "?db=2");
    assert_int_equal(setenv("REDIS_URL", url, 1), 0);
    assert_int_equal(setenv("HOLDFAST_URL", "", 1), 0); /* as if it were not */
    hf_client *client = hf_client_open(NULL, NULL, &err);
    assert_non_null(client);
    assert_string_equal(hf_client_server(client), url);
    hf_client_free(client);
    /* Our own name for it goes first. */
    assert_int_equal(setenv("HOLDFAST_URL", "redis://h:nowhere", 1), 0);
    assert_null(hf_client_open(NULL, NULL, &err));
    assert_int_equal(hf_error_status(&err), HF_ECONFIG);
    assert_int_equal(unsetenv("HOLDFAST_URL"), 0);
    assert_int_equal(unsetenv("REDIS_URL"), 0);
    free(url);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logins),
        cmocka_unit_test(test_refused_logins),
        cmocka_unit_test(test_info_is_forbidden),
        cmocka_unit_test(test_server_of_the_environment),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
