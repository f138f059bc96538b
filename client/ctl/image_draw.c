#include "client/ctl/image_draw.h"

#include <string.h>

#include "base/sizes.h"

#define NO_COLOUR (-1) // the terminal's own

struct pen {
    FILE *out;
    bool true_colour;
    int32_t upper, lower; // as set in the terminal: 0xrrggbb, or a number of xterm's
};

// ---- Colours ---------------------------------------------------------------------------------------

static uint32_t distance(const uint8_t left[3], const uint8_t right[3]) {
    uint32_t sum = 0;
    for (int k = 0; k < 3; k++)
        sum += (uint32_t)((left[k] - right[k]) * (left[k] - right[k]));
    return sum;
}

// xterm has a cube of 6 x 6 x 6 colours from number 16, and 24 shades of grey from 232.
uint8_t image_nearest_colour(const uint8_t rgb[3]) {
    static const uint8_t levels[6] = {0, 95, 135, 175, 215, 255};
    uint8_t best[3];
    size_t cube = 0;
    for (int k = 0; k < 3; k++) {
        size_t nearest = 0;
        for (size_t i = 1; i < COUNT_OF(levels); i++)
            if (abs(levels[i] - rgb[k]) < abs(levels[nearest] - rgb[k]))
                nearest = i;
        best[k] = levels[nearest];
        cube = 6 * cube + nearest;
    }
    int shade = ((rgb[0] + rgb[1] + rgb[2]) / 3 - 3) / 10;
    shade = shade > 23 ? 23 : shade;
    uint8_t level = (uint8_t)(8 + 10 * shade), grey[3] = {level, level, level};
    bool is_grey = distance(rgb, grey) < distance(rgb, best);
    return (uint8_t)(is_grey ? 232 + (size_t)shade : 16 + cube);
}

// On a chequerboard, whose fields are 4 x 4 pixels.
static void colour_at(const struct image *image, uint32_t x, uint32_t y, uint8_t rgb[3]) {
    const uint8_t *pixel = image->pixels + ((uint64_t)y * image->width + x) * image->channels;
    uint32_t behind = (x / 4 + y / 4) % 2 ? 102 : 153;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t value = pixel[image->channels == 1 ? 0 : k];
        uint32_t opacity = image->channels == 4 ? pixel[3] : 255;
        rgb[k] = (uint8_t)((value * opacity + behind * (255 - opacity) + 127) / 255);
    }
}

static int32_t code_at(const struct pen *pen, const struct image *image, uint32_t x, uint32_t y) {
    uint8_t rgb[3];
    if (y >= image->height)
        return NO_COLOUR;
    colour_at(image, x, y, rgb);
    return pen->true_colour ? rgb[0] << 16 | rgb[1] << 8 | rgb[2] : image_nearest_colour(rgb);
}

// ---- Lines -----------------------------------------------------------------------------------------

// `what` is 38 for the upper half, which is the character, and 48 for the lower, its background.
static void set_colour(const struct pen *pen, int what, int32_t code) {
    if (code == NO_COLOUR)
        fprintf(pen->out, "\033[%dm", what + 1);
    else if (pen->true_colour)
        fprintf(pen->out, "\033[%d;2;%d;%d;%dm", what, code >> 16, code >> 8 & 255, code & 255);
    else
        fprintf(pen->out, "\033[%d;5;%dm", what, code);
}

static void draw_line(struct pen *pen, const struct image *image, uint32_t y) {
    pen->upper = pen->lower = NO_COLOUR;
    for (uint32_t x = 0; x < image->width; x++) {
        int32_t upper = code_at(pen, image, x, y), lower = code_at(pen, image, x, y + 1);
        if (upper != pen->upper)
            set_colour(pen, 38, upper);
        if (lower != pen->lower)
            set_colour(pen, 48, lower);
        pen->upper = upper;
        pen->lower = lower;
        fputs("▀", pen->out);
    }
    fputs("\033[0m\n", pen->out);
}

void image_draw(const struct image *image, bool true_colour, uint32_t indent, FILE *out) {
    struct pen pen = {.out = out, .true_colour = true_colour};
    for (uint32_t y = 0; y < image->height; y += 2) {
        fprintf(out, "%*s", (int)indent, "");
        draw_line(&pen, image, y);
    }
}
