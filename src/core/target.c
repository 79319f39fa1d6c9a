/* What a client knows by name: a lock's name with all that follows from it. */
#include "core/book.h"

#include <stdlib.h>
#include <string.h>

static void add_name(hf__buf *out, hf__name_fn make, hf__slice name,
                     size_t *length)
{
    size_t before = out->length;
    if (make) {
        make(out, name);
    }
    *length = out->length - before;
    hf__buf_append(out, "", 1);
}

static hf__slice take_name(char **bytes, size_t length)
{
    hf__slice name = {*bytes, length};
    *bytes += length + 1;
    return name;
}

/* The letter, the name and all that follows from it stand in one piece behind
 * the struct, each with a NUL; the first two are the key. */
static hf__target *target_new(const hf__kind *kind, const hf__buf *key)
{
    hf__buf bytes;
    size_t lengths[HF__NAMES_MAX + 1];
    hf__slice name = {key->data + 1, key->length - 1};
    hf__buf_init(&bytes, (HF__NAMES_MAX + 2) * (HF_NAME_MAX + 128));
    hf__buf_append(&bytes, key->data, key->length);
    hf__buf_append(&bytes, "", 1);
    add_name(&bytes, kind->channel, name, &lengths[0]);
    for (size_t i = 0; i < HF__NAMES_MAX; i++) {
        add_name(&bytes, kind->names[i], name, &lengths[i + 1]);
    }
    hf__target *target =
        bytes.failed ? NULL : calloc(1, sizeof(*target) + bytes.length);
    if (target) {
        char *at = (char *)(target + 1);
        memcpy(at, bytes.data, bytes.length);
        at++;
        target->kind = kind;
        target->name = take_name(&at, name.length);
        target->channel = take_name(&at, lengths[0]);
        for (size_t i = 0; i < HF__NAMES_MAX; i++) {
            target->names[i] = take_name(&at, lengths[i + 1]);
        }
    }
    hf__buf_free(&bytes);
    return target;
}

static hf__target *target_of(hf__book *book, const hf__kind *kind,
                             const hf__buf *key)
{
    hf__target *target = NULL;
    HASH_FIND(hh, book->targets, key->data, key->length, target);
    if (target) {
        return target;
    }
    target = target_new(kind, key);
    if (!target) {
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, book->targets, target->name.data - 1, key->length,
                    target);
    if (!target->hh.tbl) {
        free(target);
        return NULL;
    }
    return target;
}

hf__target *hf__book_target(hf__book *book, const hf__kind *kind,
                            hf__slice name)
{
    hf__buf key;
    hf__buf_init(&key, HF_NAME_MAX + 1);
    hf__buf_append(&key, &kind->letter, 1);
    hf__buf_append(&key, name.data, name.length);
    hf__target *target = key.failed ? NULL : target_of(book, kind, &key);
    hf__buf_free(&key);
    if (target) {
        target->refs++;
    }
    return target;
}

void hf__book_drop_target(hf__book *book, hf__target *target)
{
    target->refs--;
    if (target->refs == 0) {
        HASH_DEL(book->targets, target);
        free(target);
    }
}

hf__asker hf__target_asker(const hf__target *target)
{
    hf__asker asker = {.name = target->name,
                       .channel = target->channel,
                       .wish = {.permits = 1}};
    memcpy(asker.names, target->names, sizeof(asker.names));
    return asker;
}
