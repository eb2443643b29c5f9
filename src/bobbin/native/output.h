/* Bytes that grow as they are written. A failure sticks: nothing more is written after it, and one asks at the end. */
#ifndef LAZILY_OUTPUT_H
#define LAZILY_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    LZ_OK,
    /* What was read is not a message. */
    LZ_INVALID,
    /* What is written has become longer than it may be. */
    LZ_TOO_LONG,
    LZ_NO_MEMORY,
} LzResult;

typedef struct {
    uint8_t *bytes;
    size_t length;
    size_t room;
    size_t length_max;
    /* Nothing is kept: only whether the input is a message is asked. */
    bool is_dry;
    LzResult result;
} LzOutput;

void lz_output_free(LzOutput *output);
void lz_put(LzOutput *output, const void *bytes, size_t length);
void lz_put_text(LzOutput *output, const char *text);
void lz_put_byte(LzOutput *output, uint8_t byte);

#endif
