/* Who holds: a thread, or an owner handle. */
#include "client/client_int.h"

#include <stdlib.h>

hf_status hf__client_actor(const hf_client *client, const hf_owner *owner,
                           uint64_t *ordinal, hf_error *err)
{
    if (owner && owner->client != client) {
        return hf__error_set(err, HF_EINVAL,
                             "the owner belongs to another client");
    }
    const hf__thread *self = owner ? NULL : hf__thread_self();
    if (!owner && !self) {
        return hf__error_nomem(err);
    }
    *ordinal = owner ? owner->ordinal : self->ordinal;
    return HF_OK;
}

hf_owner *hf_owner_new(hf_client *client, hf_error *err)
{
    if (hf__client_usable(client, err) != HF_OK) {
        return NULL;
    }
    hf_owner *owner = calloc(1, sizeof(*owner));
    if (!owner) {
        hf__error_nomem(err);
        return NULL;
    }
    owner->client = hf__client_ref(client);
    owner->ordinal = hf__next_ordinal();
    hf__book_owner_id(&client->book, NULL, owner->ordinal, owner->id);
    return owner;
}

void hf_owner_free(hf_owner *owner)
{
    if (owner) {
        hf__client_unref(owner->client);
        free(owner);
    }
}

const char *hf_owner_id(const hf_owner *owner)
{
    return owner->id;
}
