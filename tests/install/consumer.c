/* The least a C program needs of an installed holdfast: header, library, and
 * that both are of one version. */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    hf_error err = HF_ERROR_INIT;
    if (strcmp(hf_version(), HF_VERSION_STRING) != 0) {
        fprintf(stderr, "library %s, header %s\n", hf_version(),
                HF_VERSION_STRING);
        return 1;
    }
    if (hf_client_open("gopher://nowhere", NULL, &err) != NULL ||
        hf_error_status(&err) != HF_ECONFIG) {
        fprintf(stderr, "an unknown scheme: %s\n", hf_error_text(&err));
        return 1;
    }
    return 0;
}
