/* The keyspace: keys in the order of creation, and what is in them in arrays.
 * There are some dozens at most; looking through them is the fastest. */
#include "sim/model_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *model_grow(void *old, size_t size)
{
    void *memory = realloc(old, size);
    if (!memory) {
        (void)fprintf(stderr, "model: out of memory\n");
        abort();
    }
    return memory;
}

/* ------------------------------------------------------------------- texts */

hf__slice model_slice(const model_text *text)
{
    return (hf__slice){text->data ? text->data : "", text->length};
}

void model_text_set(model_text *text, hf__slice bytes)
{
    text->data = model_grow(text->data, bytes.length + 1);
    if (bytes.length > 0) {
        memcpy(text->data, bytes.data, bytes.length);
    }
    text->data[bytes.length] = '\0';
    text->length = bytes.length;
}

bool model_text_is(const model_text *text, hf__slice bytes)
{
    return text->length == bytes.length &&
           (bytes.length == 0 ||
            memcmp(text->data, bytes.data, bytes.length) == 0);
}

/* ------------------------------------------------------------------- items */

size_t model_item_index(const model_key *key, hf__slice name)
{
    for (size_t i = 0; i < key->count; i++) {
        if (model_text_is(&key->items[i].name, name)) {
            return i;
        }
    }
    return SIZE_MAX;
}

const model_item *model_find_item(const model_key *key, hf__slice name)
{
    size_t i = model_item_index(key, name);
    return i == SIZE_MAX ? NULL : &key->items[i];
}

model_item *model_item_insert(model_key *key, size_t at, hf__slice name)
{
    if (key->count == key->room) {
        key->room = key->room ? key->room * 2 : 2;
        key->items = model_grow(key->items, key->room * sizeof(*key->items));
    }
    model_item *item = &key->items[at];
    memmove(item + 1, item, (key->count - at) * sizeof(*item));
    key->count++;
    *item = (model_item){.score = 0};
    model_text_set(&item->name, name);
    return item;
}

void model_item_remove(model_key *key, size_t at)
{
    model_item *item = &key->items[at];
    free(item->name.data);
    free(item->value.data);
    key->count--;
    memmove(item, item + 1, (key->count - at) * sizeof(*item));
}

/* -------------------------------------------------------------------- keys */

model_key *model_store_find(const model_store *store, int database,
                            hf__slice name)
{
    for (size_t i = 0; i < store->count; i++) {
        model_key *key = store->keys[i];
        if (key->database == database && model_text_is(&key->name, name)) {
            return key;
        }
    }
    return NULL;
}

model_key *model_store_add(model_store *store, int database, hf__slice name,
                           model_type type)
{
    if (store->count == store->room) {
        store->room = store->room ? store->room * 2 : 16;
        store->keys =
            model_grow(store->keys, store->room * sizeof(model_key *));
    }
    model_key *key = model_grow(NULL, sizeof(*key));
    *key = (model_key){.type = type,
                       .database = database,
                       .expires_at = MODEL_NEVER,
                       .id = ++store->last_id};
    model_text_set(&key->name, name);
    store->keys[store->count++] = key;
    return key;
}

static void free_key(model_key *key)
{
    while (key->count > 0) {
        model_item_remove(key, key->count - 1);
    }
    free(key->items);
    free(key->name.data);
    free(key);
}

void model_store_remove(model_store *store, model_key *key)
{
    size_t i = 0;
    while (store->keys[i] != key) {
        i++;
    }
    store->count--;
    memmove(&store->keys[i], &store->keys[i + 1],
            (store->count - i) * sizeof(model_key *));
    free_key(key);
}

bool model_store_clear(model_store *store, int database)
{
    size_t kept = 0;
    size_t before = store->count;
    for (size_t i = 0; i < before; i++) {
        model_key *key = store->keys[i];
        if (database >= 0 && key->database != database) {
            store->keys[kept++] = key;
        } else {
            free_key(key);
        }
    }
    store->count = kept;
    return kept < before;
}

void model_store_expire(model_store *store, model_key *key, int64_t at)
{
    key->expires_at = at;
    if (at < store->earliest) {
        store->earliest = at;
    }
}

void model_store_copy(model_store *to, const model_store *from)
{
    model_store_clear(to, -1);
    to->earliest = from->earliest;
    for (size_t i = 0; i < from->count; i++) {
        const model_key *key = from->keys[i];
        model_key *copy = model_store_add(to, key->database,
                                          model_slice(&key->name), key->type);
        copy->expires_at = key->expires_at;
        for (size_t j = 0; j < key->count; j++) {
            const model_item *item = &key->items[j];
            model_item *twin =
                model_item_insert(copy, j, model_slice(&item->name));
            model_text_set(&twin->value, model_slice(&item->value));
            twin->score = item->score;
        }
    }
}
