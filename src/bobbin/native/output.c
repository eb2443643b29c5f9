#include "output.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256 };

void lz_output_free(LzOutput *output)
{
    free(output->bytes);
    output->bytes = NULL;
    output->length = output->room = 0;
}

static bool make_room(LzOutput *output, size_t length)
{
    if (length > output->length_max - output->length) {
        output->result = LZ_TOO_LONG;
        return false;
    }
    size_t needed = output->length + length;
    if (needed <= output->room)
        return true;
    size_t room = output->room ? output->room : FIRST_ROOM;
    while (room < needed)
        room *= 2;
    uint8_t *grown = realloc(output->bytes, room);
    if (grown == NULL) {
        output->result = LZ_NO_MEMORY;
        return false;
    }
    output->bytes = grown;
    output->room = room;
    return true;
}

void lz_put(LzOutput *output, const void *bytes, size_t length)
{
    if (output->is_dry || output->result != LZ_OK || length == 0 || !make_room(output, length))
        return;
    memcpy(output->bytes + output->length, bytes, length);
    output->length += length;
}

void lz_put_text(LzOutput *output, const char *text)
{
    lz_put(output, text, strlen(text));
}

void lz_put_byte(LzOutput *output, uint8_t byte)
{
    lz_put(output, &byte, 1);
}
