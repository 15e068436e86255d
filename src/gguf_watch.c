/* SPDX-License-Identifier: MIT */
#include "gguf_watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WATCHED = 8 };

/* The messages are made beforehand: a handler may not do that. */
static struct watched {
    const void *volatile map; /* NULL where free */
    size_t size;
    char text[640];
} watched[MAX_WATCHED];

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    for (int i = 0; i < MAX_WATCHED; i++) {
        const uintptr_t map = (uintptr_t)watched[i].map;
        if (map == 0 || at < map || at - map >= watched[i].size)
            continue;
        (void)!write(2, watched[i].text, strlen(watched[i].text));
        _exit(qw_exit_status(QW_EFILE));
    }
    signal(sig, SIG_DFL); /* not ours: the read is tried again and ends the program */
}

/* Only where nobody else waits for the signal. */
static void install(void)
{
    const struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL)
        sigaction(SIGBUS, &ours, NULL);
}

void qw_watch_add(const void *map, size_t size, const char *label)
{
    struct watched *w = watched;
    while (w < watched + MAX_WATCHED && w->map != NULL)
        w++;
    if (w == watched + MAX_WATCHED)
        return;
    w->size = size;
    snprintf(w->text, sizeof(w->text),
             "qwenrun: %s: changed while it was read: it was cut short from %zu bytes\n",
             label, size);
    w->map = map;
    install();
}

void qw_watch_drop(const void *map)
{
    for (int i = 0; i < MAX_WATCHED; i++)
        if (watched[i].map == map)
            watched[i].map = NULL;
}
