/* Indexed binary min-heap; see heap.h. Invariants: an item's `due` is never
 * before its parent's, and items[i]->index is i. */
#include "base/heap.h"

#include <stdlib.h>

#define SMALLEST ((size_t)16)

void hf__heap_init(hf__heap *heap)
{
    *heap = (hf__heap){0};
}

void hf__heap_free(hf__heap *heap)
{
    free(heap->items);
    *heap = (hf__heap){0};
}

bool hf__heap_reserve(hf__heap *heap, size_t count)
{
    if (count <= heap->capacity) {
        return true;
    }
    size_t capacity = heap->capacity < SMALLEST ? SMALLEST : heap->capacity;
    while (capacity < count) {
        if (capacity > SIZE_MAX / 2 / sizeof(hf__heap_item *)) {
            return false;
        }
        capacity *= 2;
    }
    hf__heap_item **items =
        realloc(heap->items, capacity * sizeof(hf__heap_item *));
    if (!items) {
        return false;
    }
    heap->items = items;
    heap->capacity = capacity;
    return true;
}

static void place(hf__heap *heap, size_t index, hf__heap_item *item)
{
    heap->items[index] = item;
    item->index = index;
}

static void rise(hf__heap *heap, size_t index)
{
    hf__heap_item *item = heap->items[index];
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (heap->items[parent]->due <= item->due) {
            break;
        }
        place(heap, index, heap->items[parent]);
        index = parent;
    }
    place(heap, index, item);
}

static void sink(hf__heap *heap, size_t index)
{
    hf__heap_item *item = heap->items[index];
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count &&
            heap->items[child + 1]->due < heap->items[child]->due) {
            child++;
        }
        if (item->due <= heap->items[child]->due) {
            break;
        }
        place(heap, index, heap->items[child]);
        index = child;
    }
    place(heap, index, item);
}

void hf__heap_set(hf__heap *heap, hf__heap_item *item, int64_t due)
{
    item->due = due;
    if (item->index == HF__HEAP_NOWHERE) {
        place(heap, heap->count, item);
        heap->count++;
    }
    rise(heap, item->index);
    sink(heap, item->index);
}

void hf__heap_remove(hf__heap *heap, hf__heap_item *item)
{
    size_t hole = item->index;
    if (hole == HF__HEAP_NOWHERE) {
        return;
    }
    item->index = HF__HEAP_NOWHERE;
    heap->count--;
    if (hole == heap->count) {
        return;
    }
    place(heap, hole, heap->items[heap->count]);
    rise(heap, hole);
    sink(heap, hole);
}

hf__heap_item *hf__heap_first(const hf__heap *heap)
{
    return heap->count > 0 ? heap->items[0] : NULL;
}
