// Images in a terminal: two pixels per character, as its upper and its lower half.
#ifndef FEEDD_CLIENT_CTL_IMAGE_DRAW_H
#define FEEDD_CLIENT_CTL_IMAGE_DRAW_H

#include "client/ctl/image.h"

// Draws every pixel, in lines that begin with `indent` blanks, with 24-bit colours, or with the 256 of xterm. What
// shines through is a chequerboard.
void image_draw(const struct image *image, bool true_colour, uint32_t indent, FILE *out);

// Of xterm's 256 colours the one that is nearest to red, green and blue.
uint8_t image_nearest_colour(const uint8_t rgb[3]);

#endif
