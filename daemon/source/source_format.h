// A dataset format: how files become streams of records. One file per format, listed in source.c.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_FORMAT_H
#define FEEDD_DAEMON_SOURCE_SOURCE_FORMAT_H

struct builder;

struct source_format {
    const char *name; // as in the configuration; options.def lists it too
    const char *summary;
    // Adds the fields, where the configuration alone describes them; else NULL. Called before `open`; opens nothing.
    int (*describe)(struct builder *builder);
    // Opens and validates every file and adds fields, streams and files through the builder (builder.h).
    // On failure the caller releases whatever was added.
    int (*open)(struct builder *builder);
};

#endif
