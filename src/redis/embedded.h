/* The private server of this user: a real redis-server or valkey-server on a
 * unix socket in the runtime directory, started on demand by the first process
 * that needs it, shared by all processes of the user, no TCP, no persistence.
 */
#ifndef HF__REDIS_EMBEDDED_H
#define HF__REDIS_EMBEDDED_H

#include "redis/url.h"

/* Makes sure that it runs and answers, and fills *out with its endpoint.
 * One of several processes that race starts it (flock(2) on a file beside the
 * socket); the others wait for it. HF_ESYSTEM or HF_EUNREACHABLE says what is
 * missing ("install redis-server or valkey-server, or set HOLDFAST_URL").
 * Directory: HOLDFAST_RUNTIME_DIR, else XDG_RUNTIME_DIR/holdfast, else
 * /run/user/UID/holdfast if that exists, else /tmp/holdfast-UID; made with
 * mode 0700, and refused unless it is a directory of this user that nobody
 * else can write (no symbolic link). HOLDFAST_SERVER names the program, else
 * valkey-server or redis-server from PATH or /usr/bin, whichever is found
 * first. Also clears away the socket of a server that is dead. */
hf_status hf__embedded_ensure(hf__endpoint *out, hf_error *err);

/* The public calls hf_embedded_status and hf_embedded_stop live in
 * embedded.c as well. Stop: SHUTDOWN NOSAVE over the socket, then wait until
 * the process is gone (bounded); status: INFO server over the socket. */

#endif
