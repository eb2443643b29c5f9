/* Every file that is named on the command line, as a frame: its status, and its one spelling decodes to itself. */
#include <lazily.h>

#include "checks.h"

static uint8_t *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    CHECK(size >= 0);
    rewind(file);
    /* Exactly as long as the frame, so that a step beyond its end is noticed. */
    uint8_t *bytes = malloc(size ? (size_t)size : 1);
    CHECK(bytes != NULL);
    *length = fread(bytes, 1, (size_t)size, file);
    CHECK(*length == (size_t)size);
    fclose(file);
    return bytes;
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++) {
        size_t length;
        uint8_t *frame = read_file(paths[i], &length);
        LazilyFfiBytes once;
        LazilyFfiStatus status = lazily_ffi_ipc_message_clone_json(frame, length, &once);
        CHECK(lazily_ffi_ipc_message_validate_json(frame, length) == status);
        if (status == LazilyFfiStatus_Ok) {
            LazilyFfiBytes twice;
            CHECK(lazily_ffi_ipc_message_clone_json(once.ptr, once.len, &twice) == LazilyFfiStatus_Ok);
            CHECK(once.len == twice.len && memcmp(once.ptr, twice.ptr, once.len) == 0);
            lazily_ffi_bytes_free(twice);
        }
        lazily_ffi_bytes_free(once);
        free(frame);
        printf("%d\n", (int)status);
    }
    return 0;
}
