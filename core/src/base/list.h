/* SPDX-License-Identifier: MIT
 *
 * Circular doubly linked lists whose links lie in the members. A head of zeros is an empty list, so
 * that lists which nobody uses cost no memory; a member that is in no list has NULL links.
 */
#ifndef MALLOW_LIST_H
#define MALLOW_LIST_H

#include "check.h"

struct link {
    struct link *next;
    struct link *prev;
};

/* The first and the last member; the head itself if there is none. */
ALWAYS_INLINE struct link *list_first(struct link *head)
{
    return head->next != NULL ? head->next : head;
}

ALWAYS_INLINE struct link *list_last(struct link *head)
{
    return head->prev != NULL ? head->prev : head;
}

ALWAYS_INLINE bool list_is_empty(struct link *head)
{
    return list_first(head) == head;
}

ALWAYS_INLINE void list_insert_between(struct link *member, struct link *prev, struct link *next)
{
    check(member->next == NULL && member->prev == NULL); /* it is in no other list */
    check(prev == next || (prev->next == next && next->prev == prev));
    member->prev = prev;
    member->next = next;
    prev->next = member;
    next->prev = member;
}

ALWAYS_INLINE void list_push_front(struct link *head, struct link *member)
{
    list_insert_between(member, head, list_first(head));
}

ALWAYS_INLINE void list_push_back(struct link *head, struct link *member)
{
    list_insert_between(member, list_last(head), head);
}

ALWAYS_INLINE void list_remove(struct link *member)
{
    check(member->next != NULL && member->prev != NULL && member->next != member);
    check(member->prev->next == member && member->next->prev == member);
    member->prev->next = member->next;
    member->next->prev = member->prev;
    member->next = NULL;
    member->prev = NULL;
}

#endif
