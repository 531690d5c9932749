/* SPDX-License-Identifier: MIT
 *
 * Circular doubly linked lists whose links lie in the members. An empty list is a head that points
 * to itself; a member that is in no list has NULL links.
 */
#ifndef MALLOW_LIST_H
#define MALLOW_LIST_H

#include "base.h"

struct link {
    struct link *next;
    struct link *prev;
};

ALWAYS_INLINE void list_init(struct link *head)
{
    head->next = head;
    head->prev = head;
}

ALWAYS_INLINE bool list_is_empty(const struct link *head)
{
    return head->next == head;
}

ALWAYS_INLINE void list_insert_between(struct link *member, struct link *prev, struct link *next)
{
    member->prev = prev;
    member->next = next;
    prev->next = member;
    next->prev = member;
}

ALWAYS_INLINE void list_push_front(struct link *head, struct link *member)
{
    list_insert_between(member, head, head->next);
}

ALWAYS_INLINE void list_push_back(struct link *head, struct link *member)
{
    list_insert_between(member, head->prev, head);
}

ALWAYS_INLINE void list_remove(struct link *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
    member->next = NULL;
    member->prev = NULL;
}

#endif
