/* Memory that runs out, at each place where it can: the status says so, nothing is lost and nothing leaks.
 *
 * Linked with the sources themselves and with the allocating functions wrapped (-Wl,--wrap), so that the n-th call
 * fails.
 */
#include <lazily.h>

#include <stdbool.h>

#include "checks.h"

static long calls_left = -1;

static bool has_run_out(void)
{
    return calls_left >= 0 && calls_left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return has_run_out() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return has_run_out() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return has_run_out() ? NULL : __real_realloc(old, size);
}

/* Long enough for tokens and output to grow several times. */
static void make_frame(char *frame, size_t room)
{
    size_t at = (size_t)snprintf(frame, room, "{\"Delta\":{\"base_epoch\":1,\"epoch\":2,\"ops\":[");
    for (int i = 0; i < 100; i++)
        at += (size_t)snprintf(frame + at, room - at, "%s{\"CellSet\":{\"node\":%d,\"payload\":{\"Inline\":[1,2,3]}}}",
                               i ? "," : "", i);
    snprintf(frame + at, room - at, "]}}");
}

int main(void)
{
    char frame[16384];
    make_frame(frame, sizeof frame);
    LazilyFfiChannel *channel = lazily_ffi_channel_new();
    CHECK(channel != NULL);
    LazilyFfiBytes bytes;
    size_t count;

    long failures = 0;
    for (long n = 0;; n++) {
        calls_left = n;
        LazilyFfiStatus status = lazily_ffi_channel_send_json(channel, BYTES(frame));
        calls_left = -1;
        CHECK(lazily_ffi_channel_len(channel, &count) == LazilyFfiStatus_Ok);
        if (status == LazilyFfiStatus_Ok) {
            CHECK(count == 1);
            break;
        }
        CHECK(status == LazilyFfiStatus_Panic && count == 0);
        failures++;
    }
    /* The frame, its tokens several times, its text several times. */
    CHECK(failures >= 8);
    CHECK(lazily_ffi_channel_recv_json(channel, &bytes) == LazilyFfiStatus_Ok);
    CHECK(bytes.len == strlen(frame) && memcmp(bytes.ptr, frame, bytes.len) == 0);
    lazily_ffi_bytes_free(bytes);

    calls_left = 0;
    CHECK(lazily_ffi_channel_new() == NULL);
    calls_left = 0;
    CHECK(lazily_ffi_ipc_message_validate_json(BYTES(frame)) == LazilyFfiStatus_Panic);
    calls_left = -1;
    CHECK(lazily_ffi_channel_free(channel) == LazilyFfiStatus_Ok);
    puts("memory that runs out is survived");
    return 0;
}
