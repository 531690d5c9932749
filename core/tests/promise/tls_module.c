/* SPDX-License-Identifier: MIT
 *
 * A library that takes 256 bytes of the loader's spare static TLS; tls.c loads many.
 */
char *tls_module_data(void);

static _Thread_local __attribute__((tls_model("initial-exec"))) char data[256] = {1};

char *tls_module_data(void)
{
    return data;
}
