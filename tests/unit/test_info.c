/* The answer to INFO. */
#include "redis/info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct sample {
    const char *info;
    const char *name;
    const char *value; /* NULL: none */
} sample;

static const sample samples[] = {
    {"# Server\r\nredis_version:7.0.15\r\nrun_id:0a1b\r\n", "run_id", "0a1b"},
    {"# Server\r\nredis_version:7.0.15\r\nrun_id:0a1b\r\n", "redis_version",
     "7.0.15"},
    {"# Server\r\nredis_version:7.0.15\r\n", "valkey_version", NULL},
    {"run_id:first\r\nrun_id:second\r\n", "run_id", "first"},
    {"run_id:at the end", "run_id", "at the end"},
    {"run_id:unix\nx:y\n", "run_id", "unix"},
    {"run_id:cut\033[31m\r\n", "run_id", "cut"}, /* nothing for a terminal */
    {"executable:/run_id:1/redis\r\nrun_id:2\r\n", "run_id", "2"},
    {"master_run_id:1\r\nrun_idle:2\r\nrun_id:3\r\n", "run_id", "3"},
    {"$40\r\n# Server\r\nrun_id:behind a head\r\n", "run_id", "behind a head"},
    {"", "run_id", NULL},
    {"run_id", "run_id", NULL},
    {"run_id:", "run_id", NULL},
    {"run_id:\r\nrun_id:2\r\n", "run_id", NULL},
    {"\r\n\r\n\n", "run_id", NULL},
    {"run_i", "run_id", NULL},
    {"the end of another line", "run_id", NULL},
};

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const sample *s = &samples[i];
        char value[32] = "before";
        bool found =
            hf__info_read(hf__slice_of(s->info), s->name, value, sizeof(value));
        assert_string_equal(value, s->value ? s->value : "");
        assert_int_equal(found, s->value != NULL);
    }
}

static void test_value_is_cut_to_fit(void **state)
{
    (void)state;
    char value[5];
    char one[1];
    hf__slice info = HF__LITERAL("run_id:0123456789\r\n");
    assert_true(hf__info_read(info, "run_id", value, sizeof(value)));
    assert_string_equal(value, "0123");
    assert_false(hf__info_read(info, "run_id", one, sizeof(one)));
    assert_string_equal(one, "");
}

/* Not a byte beyond what came is looked at. */
static void test_not_terminated(void **state)
{
    (void)state;
    char value[32];
    hf__slice info = {"run_id:0123456789", 0};
    for (; info.length <= 7; info.length++) {
        assert_false(hf__info_read(info, "run_id", value, sizeof(value)));
    }
    info.length = 10;
    assert_true(hf__info_read(info, "run_id", value, sizeof(value)));
    assert_string_equal(value, "012");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_value_is_cut_to_fit),
        cmocka_unit_test(test_not_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
