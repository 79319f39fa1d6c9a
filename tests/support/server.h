/* A real redis-server or valkey-server for a test, on a unix socket and a free
 * TCP port of 127.0.0.1, in a temp folder of its own. It dies with the thread
 * that started it: start from the main thread. What goes wrong here ends the
 * test program with a failure. */
#ifndef TEST_SUPPORT_SERVER_H
#define TEST_SUPPORT_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct srv srv;

/* Starts the program named by HOLDFAST_TEST_SERVER (default redis-server) and
 * waits until it answers. No persistence, unless `extra`, more arguments with
 * a NULL behind the last one, says so; may be NULL. */
srv *srv_start(const char *const extra[]);
/* Ends the server, alive or not, and removes its folder. NULL is allowed. */
void srv_stop(srv *server);

const char *srv_url(const srv *server);     /* redis+unix:///... */
const char *srv_tcp_url(const srv *server); /* redis://127.0.0.1:... */
const char *srv_socket(const srv *server);
const char *srv_folder(const srv *server);
int srv_port(const srv *server);
pid_t srv_pid(const srv *server);

/* Return when the process has stopped, goes on, is gone. */
void srv_pause(srv *server);
void srv_resume(srv *server);
void srv_kill9(srv *server);
/* The same arguments, socket, port and folder; kills it first if it lives. */
void srv_restart(srv *server);

/* Runs one command (hiredis' format: %s, %b) on a connection of the helper's
 * own, and gives the reply as text, to be freed: integers in decimal, "(nil)",
 * "(error) ...", the elements of an array with a space between, "(broken) ..."
 * when there is none within the test's limit. */
char *srv_cmd(srv *server, const char *format, ...);
/* Whether the reply is that text; prints both if not. */
bool srv_cmd_is(srv *server, const char *expected, const char *format, ...);
/* Repeats the command until the reply is that text, or the limit is over. */
bool srv_cmd_becomes(srv *server, const char *expected, const char *format,
                     ...);
/* The reply as a number; -1 if it is none. */
long long srv_cmd_int(srv *server, const char *format, ...);

#endif
