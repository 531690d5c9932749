/* SPDX-License-Identifier: MIT
 *
 * How typed clients of mallctl read.
 */
#ifndef TEST_READ_H
#define TEST_READ_H

#define READ(type, name)                                      \
    __extension__({                                           \
        type value_;                                          \
        size_t size_ = sizeof value_;                         \
        CHECK_EQ(mallctl(name, &value_, &size_, NULL, 0), 0); \
        CHECK_EQ(size_, sizeof value_);                       \
        value_;                                               \
    })

#endif
