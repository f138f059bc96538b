// Answers GET /metrics on a socket that listens.
#ifndef FEEDD_CLIENT_EXPORTER_HTTP_H
#define FEEDD_CLIENT_EXPORTER_HTTP_H

#include "base/error.h"

struct http;

// `statistics`: the path of the file that each answer is made of, which stays the caller's. Takes the socket.
int http_open(int socket, const char *statistics, struct http **http, struct error *error);

// Waits for requests, at most that long, and answers them. Negative if the server has failed.
int http_serve(struct http *http, int timeout_ms);

void http_close(struct http *http);

#endif
