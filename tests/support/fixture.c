#include "support/fixture.h"

#include <stdlib.h>

srv *server;
hf_client *client;
hf_client *other;
_Thread_local hf_error err = HF_ERROR_INIT;

static void open_clients(const hf_client_options *options)
{
    server = srv_start(NULL);
    client = test_client(srv_url(server), options);
    other =
        test_client(options ? srv_url(server) : srv_tcp_url(server), options);
    test_warm_up(client);
    test_warm_up(other);
}

int fixture_usual(void **state)
{
    (void)state;
    open_clients(NULL);
    return 0;
}

int fixture_patient(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    open_clients(&options);
    return 0;
}

int fixture_end(void **state)
{
    (void)state;
    hf_client_free(client);
    hf_client_free(other);
    srv_stop(server);
    return 0;
}

int fixture_nothing_is_left(void **state)
{
    (void)state;
    bool empty = srv_cmd_is(server, "0", "DBSIZE");
    free(srv_cmd(server, "FLUSHALL")); /* of a test that failed */
    return empty ? 0 : -1;
}
