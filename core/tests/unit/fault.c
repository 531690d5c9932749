/* SPDX-License-Identifier: MIT
 *
 * Reports of misuse, and the file that they go to.
 */
#include "unit.h"

#include <fcntl.h>
#include <sys/file.h>

/* A child that is forked while its parent closes the report has the file open, as a copy of the descriptor has here. */
TEST(fault_report_leaves_its_file_to_others_once_it_is_whole)
{
    static const struct fault fault = {.kind = FAULT_MISUSE};
    struct sink report;
    char name[] = "/tmp/mallow-report-XXXXXX";
    int other = mkstemp(name);
    CHECK(other >= 0);
    process_init();
    memcpy(fault_path, name, sizeof name);
    CHECK(fault_open(&fault, "a sentence", &report));
    int copy = dup(fault_state.fd);
    CHECK(copy >= 0);
    CHECK_EQ(flock(other, LOCK_EX | LOCK_NB), -1);
    fault_close(&report);
    CHECK_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
    CHECK_EQ(unlink(name), 0);
}

TEST(who_does_not_read_is_waited_for_so_long_and_not_longer)
{
    static char bytes[4096];
    int ends[2];
    process_init();
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(os_wait_to_write(ends[1], 1), 1);
    while (write(ends[1], bytes, sizeof bytes) > 0) {
    }
    CHECK_EQ(os_wait_to_write(ends[1], 1), 0);
    CHECK_EQ(close(ends[0]), 0);
    CHECK_EQ(os_wait_to_write(ends[1], 1), 1); /* what is wrong is told by the write */
    os_note_confined();
    CHECK_EQ(os_wait_to_write(ends[1], 1), -1);
}

static char path_text[64];

static void write_path(void *context, const char *text, size_t size)
{
    (void)context;
    strncat(path_text, text, size);
}

TEST(a_line_feed_in_a_path_does_not_end_its_line)
{
    struct sink sink = {write_path, NULL};
    fault_put_path(&sink, "/a\n/b c\n");
    CHECK(strcmp(path_text, "/a\\012/b c\\012") == 0);
}
