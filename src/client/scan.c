/* Reads a server's names with SCAN, which lets it serve others meanwhile, and
 * may show a name more than once. */
#include "client/scan.h"

#include <stdlib.h>

hf__scan *hf__scan_new(const char *glob, const char *type)
{
    hf__scan *scan = calloc(1, sizeof(*scan));
    if (scan) {
        scan->glob = glob;
        scan->type = type;
        scan->cursor[0] = '0';
    }
    return scan;
}

static void drop_page(hf__scan *scan)
{
    hf__found *found = scan->page;
    while (found) {
        hf__found *next = found->next;
        if (!found->kept) {
            free(found);
        }
        found = next;
    }
    scan->page = NULL;
    scan->page_size = 0;
}

void hf__scan_free(hf__scan *scan)
{
    if (!scan) {
        return;
    }
    drop_page(scan);
    hf__found *found = scan->kept;
    HASH_CLEAR(hh, scan->kept);
    while (found) {
        hf__found *next = found->hh.next;
        free(found);
        found = next;
    }
    free(scan);
}

/* ------------------------------------------------------------------- a page */

static void add_name(hf__scan *scan, hf__slice name)
{
    hf__found *found = malloc(sizeof(*found) + name.length + 1);
    if (!found) {
        scan->failed = true;
        return;
    }
    found->kept = false;
    found->length = name.length;
    memcpy(found->name, name.data, name.length);
    found->name[name.length] = '\0';
    found->next = scan->page;
    scan->page = found;
    scan->page_size++;
}

static bool is_cursor(const hf__scan *scan, hf__slice text)
{
    size_t digits = 0;
    while (digits < text.length && text.data[digits] >= '0' &&
           text.data[digits] <= '9') {
        digits++;
    }
    return digits > 0 && digits == text.length && digits < sizeof(scan->cursor);
}

static void take_page(void *arg, const hf__value *array)
{
    hf__scan *scan = arg;
    scan->page_read = array->count == 2 &&
                      is_cursor(scan, array->first->text) &&
                      array->last->type == HF__VALUE_ARRAY;
    if (!scan->page_read) {
        return;
    }
    hf__slice cursor = array->first->text;
    memcpy(scan->cursor, cursor.data, cursor.length);
    scan->cursor[cursor.length] = '\0';
    for (const hf__value *v = array->last->first; v; v = v->next) {
        if (v->type == HF__VALUE_STRING) {
            add_name(scan, v->text);
        }
    }
}

static void fill(hf__call *call, const hf__scan *scan, const char *cursor)
{
    hf__call_begin(call, NULL);
    hf__call_add(call, HF__LITERAL("SCAN"));
    hf__call_add(call, hf__slice_of(cursor));
    hf__call_add(call, HF__LITERAL("COUNT"));
    hf__call_add(call, HF__LITERAL("100"));
    if (scan->type) {
        hf__call_add(call, HF__LITERAL("TYPE"));
        hf__call_add(call, hf__slice_of(scan->type));
    }
    if (scan->glob) {
        hf__call_add(call, HF__LITERAL("MATCH"));
        hf__call_add(call, hf__slice_of(scan->glob));
    }
}

hf_status hf__scan_next(hf_client *client, hf__scan *scan, bool *more,
                        hf_error *err)
{
    char cursor[sizeof(scan->cursor)];
    hf__call call;
    memcpy(cursor, scan->cursor, sizeof(cursor));
    drop_page(scan);
    fill(&call, scan, cursor);
    hf_status status = hf__client_query(client, &call, take_page, scan, err);
    if (status == HF_OK && !scan->page_read) {
        status = hf__error_set(err, HF_EPROTOCOL,
                               "the server's reply is no page of a SCAN");
    } else if (status == HF_OK && scan->failed) {
        status = hf__error_nomem(err);
    }
    *more = strcmp(scan->cursor, "0") != 0;
    return status;
}

/* ------------------------------------------------------------- known by name
 */

hf_status hf__scan_keep(hf__scan *scan, hf__found *found, hf_error *err)
{
    hf__found *known = NULL;
    HASH_FIND(hh, scan->kept, found->name, found->length, known);
    if (known) {
        return HF_NOT_ACQUIRED;
    }
    HASH_ADD(hh, scan->kept, name, found->length, found);
    if (!found->hh.tbl) {
        return hf__error_nomem(err);
    }
    found->kept = true;
    return HF_OK;
}
