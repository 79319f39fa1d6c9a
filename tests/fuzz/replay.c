/* Gives a fuzz target the files of a folder, one after the other; works with
 * any compiler. */
#include "fuzz/fuzz.h"

#include <dirent.h>

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Returns a buffer of exactly its size, so that a read beyond is noticed. */
static uint8_t *read_whole(const char *path, size_t *size)
{
    uint8_t *bytes = NULL;
    FILE *file = fopen(path, "rb");
    long end = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        end = ftell(file);
        rewind(file);
    }
    if (end >= 0) {
        *size = (size_t)end;
        bytes = malloc(*size > 0 ? *size : 1);
    }
    if (!bytes || fread(bytes, 1, *size, file) != *size) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    (void)fclose(file);
    return bytes;
}

static void replay(const char *folder, const char *name)
{
    char path[4096];
    size_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    (void)printf("    %s\n", name); /* the last one is what it failed at */
    (void)fflush(stdout);
    uint8_t *bytes = read_whole(path, &size);
    (void)LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int count =
        argc == 2 ? scandir(argv[1], &entries, is_visible, alphasort) : -1;
    if (count < 1) {
        (void)fprintf(stderr, "%s wants a folder with inputs\n", argv[0]);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        replay(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    (void)printf("ok %d inputs\n", count);
    return 0;
}
