#include "core/refusal.h"

typedef struct rule {
    const char *begin;
    hf__refusal refusal;
} rule;

static const rule rules[] = {
    {"NOAUTH", {HF_EAUTH, false, true}},
    {"WRONGPASS", {HF_EAUTH, false, true}},
    {"NOPERM", {HF_EPERM, false, false}},
    /* Each of the scripts looks at the key before it writes to it. */
    {"WRONGTYPE", {HF_EWRONGTYPE, false, true}},
    {"LOADING", {HF_ESERVER, true, true}},
    {"BUSY", {HF_ESERVER, true, true}},
    {"MASTERDOWN", {HF_ESERVER, true, true}},
    {"READONLY", {HF_ESERVER, true, true}},
    {"NOREPLICAS", {HF_ESERVER, true, true}},
    {"MISCONF", {HF_ESERVER, true, true}}, /* its disk is full, or fails */
    {"CLUSTERDOWN", {HF_ESERVER, true, true}},
    {"TRYAGAIN", {HF_ESERVER, true, true}},
    {"NOSCRIPT", {HF_ESERVER, true, true}},
    {"ERR max number of clients", {HF_EUNREACHABLE, true, true}},
};

static bool begins_with_word(hf__slice text, const char *word)
{
    size_t length = strlen(word);
    return hf__slice_begins(text, word) &&
           (text.length == length || text.data[length] == ' ');
}

/* Inside a script a missing permission is a plain ERR: in Redis 7.0 by the
 * first of these texts, since 7.2 and in Valkey by the second. */
static bool lacks_permission(hf__slice text)
{
    static const char before[] = "user executing the script can't";
    static const char since[] = "ERR ACL failure in script";
    return hf__slice_begins(text, since) ||
           memmem(text.data, text.length, before, sizeof(before) - 1) != NULL;
}

hf__refusal hf__refusal_of(hf__slice text)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (begins_with_word(text, rules[i].begin)) {
            return rules[i].refusal;
        }
    }
    if (lacks_permission(text)) {
        return (hf__refusal){HF_EPERM, false, false};
    }
    return (hf__refusal){HF_ESERVER, false, false};
}
