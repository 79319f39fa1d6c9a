/* Finding out, before a client's first acquire, whether the user may run what
 * locks need: a script that lacks a permission in the middle leaves half a
 * change. */
#include "client/client_int.h"

static hf_status probe(hf_client *client, const hf__target *target,
                       int64_t deadline, const atomic_bool *stop, hf_error *err)
{
    hf__call call;
    hf__asker asker = hf__target_asker(target);
    hf__answer answer;
    target->kind->probe(&call, &asker);
    hf_status status =
        hf__client_ask(client, &call, &answer, deadline, stop, err);
    if (status == HF_OK && answer.count > 0) {
        status = hf__error_set(err, HF_EPERM,
                               "the user may not run %s, which locks need "
                               "(see ACL SETUSER)",
                               answer.list);
    }
    return status;
}

hf_status hf__client_probe_once(hf_client *client, const hf__target *target,
                                int64_t deadline, const atomic_bool *stop,
                                hf_error *err)
{
    uint64_t bit = UINT64_C(1) << (target->kind->letter & 63);
    if ((client->probed & bit) != 0 || !target->kind->probe) {
        return HF_OK;
    }
    pthread_mutex_unlock(&client->mutex);
    hf_status status = probe(client, target, deadline, stop, err);
    pthread_mutex_lock(&client->mutex);
    if (status == HF_EPERM || status == HF_EAUTH || status == HF_CANCELLED) {
        return status;
    }
    if (status == HF_OK) {
        client->probed |= bit;
    }
    /* Anything else the acquire itself will meet, and cope with. */
    return HF_OK;
}
