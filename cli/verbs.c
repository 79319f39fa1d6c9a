/* What the tool can do. */
#include "cli/options.h"

#include <string.h>

const cli_verb *const all_verbs[] = {
    &verb_run,    &verb_acquire, &verb_renew,  &verb_release,
    &verb_status, &verb_list,    &verb_unlock, &verb_sem,
    &verb_latch,  &verb_server,  &verb_help,   NULL,
};

const cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; all_verbs[i]; i++) {
        if (strcmp(all_verbs[i]->name, name) == 0) {
            return all_verbs[i];
        }
    }
    return NULL;
}
