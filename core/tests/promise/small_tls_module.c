/* SPDX-License-Identifier: MIT
 *
 * A library whose thread-local data is small and aligned, and made when a thread first uses it.
 */
char *small_tls_data(void);

static _Thread_local _Alignas(16) __attribute__((tls_model("global-dynamic"))) char data[4];

char *small_tls_data(void)
{
    return data;
}
