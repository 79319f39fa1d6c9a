/* Temp folders, listening sockets and waiting, shared by the test support. */
#ifndef TEST_SUPPORT_NET_H
#define TEST_SUPPORT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How long a test waits for what must happen, before it calls it a failure.
 * Generous: sanitizers, valgrind and busy machines are slow. */
#define TEST_LIMIT_MS 20000

/* Prints the reason and ends the test program with a failure; what was started
 * is cleared away. */
_Noreturn void test_die(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* A fresh folder of mode 0700 under TMPDIR or /tmp, to be freed. */
char *test_folder_new(void);
/* Removes the folder with all that is in it, and frees the name. */
void test_folder_remove(char *folder);
/* Text in fresh memory. */
char *test_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Milliseconds on a clock that nobody sets. */
int64_t test_now_ms(void);
/* Lets a few milliseconds pass between two looks at something that cannot be
 * waited for; false when `deadline_ms` is over. */
bool test_pause(int64_t deadline_ms);

/* Waits until a process, any process, has ended (a zombie has); false after the
 * limit. */
bool test_wait_gone(pid_t pid);

int test_listen_unix(const char *path);
/* On 127.0.0.1; *port 0 takes a free one and says which. */
int test_listen_tcp(int *port);
int test_connect_unix(const char *path);

#endif
