/* Indexed binary min-heap of due times: insert, move and remove in O(log n).
 * Written here because Debian packages none for C. */
#ifndef HF__BASE_HEAP_H
#define HF__BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF__HEAP_NOWHERE SIZE_MAX
#define HF__NEVER INT64_MAX

/* Embedded in what is due. Set index to HF__HEAP_NOWHERE before first use. */
typedef struct hf__heap_item {
    int64_t due;
    size_t index;
} hf__heap_item;

typedef struct hf__heap {
    hf__heap_item **items;
    size_t count;
    size_t capacity;
} hf__heap;

void hf__heap_init(hf__heap *heap);
void hf__heap_free(hf__heap *heap);
/* Room for that many items at least, so that a later set cannot fail. */
bool hf__heap_reserve(hf__heap *heap, size_t count);
/* Inserts, or moves an item that is in already. Needs reserved room to
 * insert. */
void hf__heap_set(hf__heap *heap, hf__heap_item *item, int64_t due);
/* Harmless for an item that is not in. */
void hf__heap_remove(hf__heap *heap, hf__heap_item *item);
/* Earliest item, left in; NULL when empty. */
hf__heap_item *hf__heap_first(const hf__heap *heap);

#endif
