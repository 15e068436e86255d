/* SPDX-License-Identifier: MIT */
/* leaks.c - the leak check of the sanitizer build; linked into every program of it.
 * LeakSanitizer's own check at exit stops all threads wherever they are. With the workers
 * of an OpenCL runtime among them it broke off or hung about once in three hundred
 * processes. Here a child asks: of a process that forks only the calling thread goes on,
 * so none is stopped in the middle of something (it says so: "was not suspended"; what is
 * said is shown only when there is a leak). A check that still does not come to an
 * end is made again, three times at most; then it counts as failed. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void qw_leaks(void);
int __lsan_do_recoverable_leak_check(
    void); /* its header is not where every clang looks */

enum { STATUS = 23, TRIES = 3, TICK_MS = 5, SETTLE_TICKS = 1000, CHECK_TICKS = 20000 };

static void tick(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
}

static bool sleeps(const char *task)
{
    char path[300], line[200] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return true; /* it has ended */
    char *state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
    fclose(f);
    return state != NULL && state[1] == ' ' && state[2] == 'S';
}

/* All threads but this one wait for something. */
static bool idle(void)
{
    char self[32];
    bool all = true;
    DIR *d = opendir("/proc/self/task");
    if (d == NULL)
        return true;
    snprintf(self, sizeof(self), "%d", (int)gettid());
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && strcmp(e->d_name, self) != 0)
            all = all && sleeps(e->d_name);
    closedir(d);
    return all;
}

/* A worker that held a lock of the allocator while this process forks would leave it
 * locked in the child. */
static void settle(void)
{
    for (int i = 0, quiet = 0; i < SETTLE_TICKS && quiet < 3; i++) {
        quiet = idle() ? quiet + 1 : 0;
        tick();
    }
}

/* 0: no leak, 1: some, -1: no answer. What is said goes to the file. */
static int ask(FILE *said)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(said), STDERR_FILENO);
        _exit(__lsan_do_recoverable_leak_check() != 0);
    }
    for (int i = 0; child > 0 && i < CHECK_TICKS; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) && WEXITSTATUS(status) <= 1 ? WEXITSTATUS(status)
                                                                 : -1;
        tick();
    }
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return -1;
}

void qw_leaks(void)
{
    int found = -1;
    char line[1000];
    FILE *said = tmpfile();
    fflush(NULL);
    for (int i = 0; said != NULL && i < TRIES && found < 0; i++) {
        settle();
        found = ask(said);
    }
    if (found == 0) {
        fclose(said);
        return;
    }
    fprintf(stderr, "leaks.c: %s\n", found > 0 ? "leaks" : "the check broke off");
    if (said != NULL)
        rewind(said);
    while (said != NULL && fgets(line, sizeof(line), said) != NULL)
        fputs(line, stderr);
    _exit(STATUS);
}

__attribute__((constructor)) static void at_exit(void)
{
    atexit(qw_leaks);
}
