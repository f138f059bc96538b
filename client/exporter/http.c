#include "client/exporter/http.h"

#include <microhttpd.h>
#include <signal.h>
#include <string.h>

#include "client/ctl/metrics.h"
#include "shm/stats_read.h"

#define CONNECTIONS 32u // at a time
#define TIMEOUT_S   10u // of a connection that says nothing

struct http {
    struct MHD_Daemon *daemon;
    const char *statistics;
    struct stats_snapshot snapshot;
};

// 0, or negative: the daemon's statistics cannot be read.
static int look(struct http *http, enum daemon_state *state) {
    struct error error = {0};
    const struct stats_region *region = NULL;
    int err = stats_open(http->statistics, &region, &error);
    if (err < 0 || !region)
        return err;
    stats_snapshot(region, &http->snapshot);
    stats_close(region);
    pid_t pid = (pid_t)http->snapshot.pid;
    *state = rates_daemon_state(&http->snapshot, pid > 0 && (kill(pid, 0) == 0 || errno == EPERM));
    return 0;
}

// The whole answer, for the caller to free; NULL: no memory.
static char *write_metrics(struct http *http, enum metrics_format format, size_t *bytes) {
    enum daemon_state state = DAEMON_GONE;
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (!out)
        return NULL;
    int err = look(http, &state);
    metrics_write(format, err < 0 ? NULL : &http->snapshot, state, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type, void *text,
                             size_t bytes, enum MHD_ResponseMemoryMode mode) {
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, mode);
    if (!response) {
        if (mode == MHD_RESPMEM_MUST_FREE)
            free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result reply_text(struct MHD_Connection *connection, unsigned status, const char *text) {
    return reply(connection, status, "text/plain; charset=utf-8", (void *)text, strlen(text),
                 MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result reply_metrics(struct http *http, struct MHD_Connection *connection) {
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    bool open = accept && strstr(accept, "application/openmetrics-text");
    enum metrics_format format = open ? METRICS_OPEN : METRICS_PROMETHEUS;
    size_t bytes = 0;
    char *text = write_metrics(http, format, &bytes);
    if (!text)
        return reply_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    return reply(connection, MHD_HTTP_OK, metrics_content_type(format), text, bytes, MHD_RESPMEM_MUST_FREE);
}

// Called for a request's header, and again when its body has come, which is not looked at.
static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request) {
    static int begun;
    (void)version, (void)upload;
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (!reads)
        return *upload_size ? MHD_NO : reply_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    if (!*request) {
        *request = &begun;
        return MHD_YES;
    }
    if (strcmp(url, "/metrics") == 0)
        return reply_metrics(context, connection);
    if (strcmp(url, "/") == 0)
        return reply_text(connection, MHD_HTTP_OK, "feedd-exporter: the metrics are at /metrics\n");
    return reply_text(connection, MHD_HTTP_NOT_FOUND, "not found: the metrics are at /metrics\n");
}

int http_open(int socket, const char *statistics, struct http **http, struct error *error) {
    struct http *self = calloc(1, sizeof *self);
    if (!self) {
        close(socket);
        return error_set(error, -ENOMEM, "out of memory");
    }
    self->statistics = statistics;
    self->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, self, MHD_OPTION_LISTEN_SOCKET,
                                    socket, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
                                    MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S, MHD_OPTION_END);
    if (!self->daemon) {
        free(self);
        close(socket);
        return error_set(error, -EIO, "libmicrohttpd cannot serve on the socket");
    }
    *http = self;
    return 0;
}

int http_serve(struct http *http, int timeout_ms) {
    return MHD_run_wait(http->daemon, timeout_ms) == MHD_YES ? 0 : -EIO;
}

void http_close(struct http *http) {
    MHD_stop_daemon(http->daemon);
    free(http);
}
