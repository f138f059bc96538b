// The settings of a configuration that says nothing, and a user other than the daemon's.
#ifndef FEEDD_TESTS_UNIT_CONFIG_FIXTURE_H
#define FEEDD_TESTS_UNIT_CONFIG_FIXTURE_H

#include <unistd.h>

#include "daemon/config/config.h"

#define OTHER ((uid_t)(geteuid() + 12345))

static struct config *config;

static int make_config(void **state) {
    (void)state;
    config = config_defaults();
    return config ? 0 : -1;
}

static int end_config(void **state) {
    (void)state;
    config_free(config);
    return 0;
}

#endif
