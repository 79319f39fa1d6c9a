/* Intrusive doubly linked list. A link that is in no list points to itself. */
#ifndef HF__BASE_LIST_H
#define HF__BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hf__list {
    struct hf__list *prev;
    struct hf__list *next;
} hf__list;

#define HF__CONTAINER(pointer, type, member)                                   \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void hf__list_init(hf__list *list)
{
    list->prev = list;
    list->next = list;
}

static inline bool hf__list_empty(const hf__list *list)
{
    return list->next == list;
}

static inline void hf__list_append(hf__list *list, hf__list *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void hf__list_prepend(hf__list *list, hf__list *link)
{
    hf__list_append(list->next, link);
}

/* Harmless for a link that is in no list. */
static inline void hf__list_remove(hf__list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    hf__list_init(link);
}

/* First link, taken out; NULL when empty. */
static inline hf__list *hf__list_pop(hf__list *list)
{
    hf__list *first = list->next;
    if (first == list) {
        return NULL;
    }
    hf__list_remove(first);
    return first;
}

#endif
